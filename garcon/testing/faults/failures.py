"""What was logged as a failure while something ran."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from twisted.logger import ILogObserver, LogEvent, globalLogPublisher
from zope.interface import provider


@contextmanager
def logged_failures() -> Iterator[list[str]]:
    """Give a list that grows with each failure that is logged."""
    found: list[str] = []

    @provider(ILogObserver)
    def observe(event: LogEvent) -> None:
        if "log_failure" in event:
            found.append(event["log_failure"].getTraceback())

    globalLogPublisher.addObserver(observe)
    try:
        yield found
    finally:
        globalLogPublisher.removeObserver(observe)
