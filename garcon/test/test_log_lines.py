"""The lines of a service's log."""

from __future__ import annotations

import io
from collections.abc import Mapping

from twisted.logger import LogLevel
from twisted.trial.unittest import SynchronousTestCase

from garcon.log_lines import LineLog


class LineLogTests(SynchronousTestCase):
    """One scope and one text a line."""

    def lines(self, level: str | None, *events: Mapping[str, object]) -> list[str]:
        """Return what is written."""
        stream = io.StringIO()
        log = LineLog(stream, stream, level)
        for event in events:
            log(dict(event))
        return stream.getvalue().splitlines()

    def event(self, level: LogLevel, text: str, namespace: str = "garcon.x.Y") -> dict[str, object]:
        """Make an event."""
        return {"log_level": level, "log_format": text, "log_namespace": namespace, "log_time": 0.0}

    def test_the_line(self) -> None:
        """Our own prefix is dropped."""
        self.assertEqual(self.lines(None, self.event(LogLevel.info, "hello")), ["[x.Y] hello"])

    def test_levels(self) -> None:
        """Less than the level is dropped, an unknown level means info, silent means nothing."""
        events = [
            self.event(level, level.name)
            for level in (LogLevel.debug, LogLevel.info, LogLevel.warn, LogLevel.error)
        ]
        self.assertEqual(len(self.lines("debug", *events)), 4)
        self.assertEqual(len(self.lines("other", *events)), 3)
        self.assertEqual(len(self.lines("error", *events)), 1)
        self.assertEqual(self.lines("silent", *events), [])

    def test_warnings_and_errors_are_told_apart(self) -> None:
        """They go to standard error, the rest to standard output; one may be lost without the
        other.
        """
        out, err = io.StringIO(), io.StringIO()
        log = LineLog(out, err, "debug")
        for level in (LogLevel.debug, LogLevel.info, LogLevel.warn, LogLevel.error):
            log(self.event(level, level.name))
        self.assertEqual(out.getvalue(), "[x.Y] debug\n[x.Y] info\n")
        self.assertEqual(err.getvalue(), "[x.Y] warn\n[x.Y] error\n")
        out.close()
        for level in (LogLevel.info, LogLevel.error):
            log(self.event(level, "again"))
        self.assertEqual(err.getvalue().splitlines()[2:], ["[x.Y] again"])

    def test_other_libraries_are_quiet(self) -> None:
        """Until they warn."""
        self.assertEqual(self.lines("debug", self.event(LogLevel.info, "x", "twisted.a")), [])
        self.assertEqual(len(self.lines("debug", self.event(LogLevel.warn, "x", "twisted.a"))), 1)

    def test_a_secret_is_left_out(self) -> None:
        """Whoever put a connection URL into a text or an error."""
        (line,) = self.lines(None, self.event(LogLevel.info, "dialled wss://h/x#secret=abc, lost"))
        self.assertEqual(line, "[x.Y] dialled wss://h/x#secret=[redacted] lost")

    def test_a_text_cannot_fake_a_line(self) -> None:
        """Further lines are indented."""
        event = self.event(LogLevel.info, "a\n[server] b")
        self.assertEqual(self.lines(None, event), ["[x.Y] a", "    [server] b"])
