"""A service's log as lines that people and programs read."""

from __future__ import annotations

from typing import TextIO

from twisted.logger import ILogObserver, LogEvent, LogLevel, formatEvent
from twisted.python.failure import Failure
from zope.interface import implementer

from garcon.contract.connection_url import redact

_LEVELS = {
    "debug": LogLevel.debug,
    "info": LogLevel.info,
    "warn": LogLevel.warn,
    "error": LogLevel.error,
}


@implementer(ILogObserver)
class LineLog:
    """Write events as ``[scope] text`` lines; other libraries' only from warnings on.

    Warnings and errors go to `err`, what is less goes to `out` (server.md F.2).
    """

    def __init__(self, out: TextIO | None, err: TextIO | None, level: str | None) -> None:
        self._out = out
        self._err = err
        self._least = None if level == "silent" else _LEVELS.get(level or "info", LogLevel.info)

    def __call__(self, event: LogEvent) -> None:
        """Write one event; a stream without a reader is written to no more, and ends nothing."""
        level = event.get("log_level", LogLevel.info)
        namespace = str(event.get("log_namespace", "-"))
        ours = namespace.startswith("garcon.")
        if self._least is None or level < self._least or (not ours and level < LogLevel.warn):
            return
        text = formatEvent(event)
        failure = event.get("log_failure")
        if isinstance(failure, Failure):
            text += "\n" + failure.getTraceback()
        scope = namespace.removeprefix("garcon.")
        text = redact(text).rstrip("\n").replace("\n", "\n    ")
        line = f"[{scope}] {text}\n"
        if level >= LogLevel.warn:
            self._err = _written(self._err, line)
        else:
            self._out = _written(self._out, line)


def _written(stream: TextIO | None, line: str) -> TextIO | None:
    """Write a line and return the stream, or None once nothing can be written there."""
    if stream is None:
        return None
    try:
        stream.write(line)
        stream.flush()
    except (OSError, ValueError):
        return None
    return stream
