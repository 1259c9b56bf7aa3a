"""Threads that are not: work for a store's pool runs in the caller, at once or when the test
says.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.interfaces import IReactorFromThreads
from twisted.python.failure import Failure
from twisted.python.threadpool import ThreadPool
from zope.interface import implementer


@implementer(IReactorFromThreads)
class InlineReactor:
    """Calls from a thread happen at once."""

    def callFromThread(self, callable: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        callable(*args, **kwargs)


class InlinePool(ThreadPool):
    """Runs work where it is given; with `held` set, keeps it until `run_next`."""

    def __init__(self, *, held: bool = False) -> None:
        super().__init__(0, 1, "inline")
        self.held = held
        self._queued: list[tuple[Any, ...]] = []

    def __len__(self) -> int:
        return len(self._queued)

    def start(self) -> None:
        """There is no thread to start."""

    def stop(self) -> None:
        """There is no thread to stop."""

    def callInThreadWithCallback(
        self, onResult: Any, func: Callable[..., Any], *args: Any, **kw: Any
    ) -> None:
        self._queued.append((onResult, func, args, kw))
        if not self.held:
            self.run_next()

    def run_next(self) -> None:
        """Do the oldest piece of work."""
        on_result, func, args, kw = self._queued.pop(0)
        try:
            outcome = (True, func(*args, **kw))
        except Exception:
            outcome = (False, Failure())
        on_result(*outcome)
