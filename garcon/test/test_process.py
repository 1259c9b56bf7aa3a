"""The process of a service: its environment, start and end."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence

from attrs import define, field
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.logger import Logger, LoggingFile
from twisted.trial.unittest import SynchronousTestCase

from garcon.errors import StartupError
from garcon.log_lines import LineLog
from garcon.process import (
    STOP_WITHIN,
    Role,
    environment_snapshot,
    fail_to_start,
    take_variable,
)


class ReasonTests(SynchronousTestCase):
    """Why there is no service."""

    def test_one_line_whatever_the_text(self) -> None:
        """Line breaks in a reason are spaces."""
        stderr = io.StringIO()
        self.patch(sys, "stderr", stderr)
        self.assertRaises(SystemExit, fail_to_start, "a\n b")
        self.assertEqual(stderr.getvalue(), "[server] Failed to start server: a b\n")


class EnvironmentTests(SynchronousTestCase):
    """What children may see."""

    def test_a_taken_variable_is_gone(self) -> None:
        """From this process, and so from every child and snapshot."""
        os.environ["GARCON_TEST_TAKEN"] = " x "
        self.assertEqual(take_variable("GARCON_TEST_TAKEN"), "x")
        self.assertNotIn("GARCON_TEST_TAKEN", environment_snapshot())
        self.assertIsNone(take_variable("GARCON_TEST_TAKEN"))

    def test_a_snapshot_does_not_change(self) -> None:
        """Later changes are not seen."""
        environment: dict[str, str] = {"A": "1"}
        snapshot = environment_snapshot(environment)
        environment["A"] = "2"
        self.assertEqual(snapshot, {"A": "1"})


class _Reactor(Clock):
    """A clock that runs, and remembers being stopped."""

    running = True

    def callWhenRunning(self, f: object) -> None:
        """It runs already."""
        assert callable(f)
        f()

    def stop(self) -> None:
        """Stop."""
        self.running = False


@define(eq=False)
class _Parts:
    """Parts whose start and end the test decides."""

    starting: Deferred[Sequence[str]] = field(factory=Deferred)
    ending: Deferred[bool] = field(factory=lambda: succeed(True))
    ended: int = 0

    def start_up(self) -> Deferred[Sequence[str]]:
        """Start."""
        return self.starting

    def shut_down(self) -> Deferred[bool]:
        """End."""
        self.ended += 1
        return self.ending


class RoleTests(SynchronousTestCase):
    """The root service."""

    def setUp(self) -> None:
        self.reactor = _Reactor()
        self.parts = _Parts()
        self.role = Role(self.reactor, self.parts)
        self.stdout, self.stderr = io.StringIO(), io.StringIO()
        self.patch(sys, "stdout", self.stdout)
        self.patch(sys, "stderr", self.stderr)

    def test_ready_lines_come_when_everything_is_there(self) -> None:
        """On standard output, not before."""
        self.role.startService()
        self.assertEqual(self.stdout.getvalue(), "")
        self.parts.starting.callback(["Started at http://a:1", "more"])
        self.assertEqual(self.stdout.getvalue(), "[server] Started at http://a:1\n[server] more\n")
        self.assertEqual(self.role.exit_status, 0)

    def test_a_failed_start_is_one_line_and_the_end(self) -> None:
        """What was half started is taken back by the ordinary end."""
        self.role.startService()
        self.parts.starting.errback(StartupError("no room"))
        self.reactor.advance(0)
        self.assertEqual(self.stderr.getvalue(), "[server] Failed to start server: no room\n")
        self.assertFalse(self.reactor.running)
        self.successResultOf(self.role.stopService())
        self.assertEqual((self.role.exit_status, self.parts.ended), (1, 1))
        self.assertEqual(self.stdout.getvalue(), "")

    def test_under_twistd_the_operator_is_told_too(self) -> None:
        """There standard error has become a part of the log."""
        operator = io.StringIO()
        self.patch(sys, "__stderr__", operator)
        self.patch(sys, "stderr", LoggingFile(Logger(observer=LineLog(None, None, "silent"))))
        self.role.startService()
        self.parts.starting.errback(StartupError("no room"))
        self.assertEqual(operator.getvalue(), "[server] Failed to start server: no room\n")

    def test_an_unexpected_failure_is_logged_as_well(self) -> None:
        """Its traceback is for the log."""
        self.role.startService()
        self.parts.starting.errback(RuntimeError("bug"))
        self.assertEqual(
            self.stderr.getvalue(), "[server] Failed to start server: RuntimeError: bug\n"
        )
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)

    def test_a_stop_while_starting(self) -> None:
        """Ends the start without a complaint."""
        self.role.startService()
        self.successResultOf(self.role.stopService())
        self.assertEqual((self.role.exit_status, self.parts.ended), (0, 1))
        self.assertEqual(self.stderr.getvalue(), "")

    def test_the_end_happens_once(self) -> None:
        """However often it is asked for."""
        self.role.startService()
        self.role.stopService()
        self.role.stopService()
        self.assertEqual(self.parts.ended, 1)

    def test_an_end_that_went_wrong_is_status_1(self) -> None:
        """Whether it says so, fails or hangs."""
        for ending in (succeed(False), Deferred()):
            parts = _Parts(ending=ending)
            role = Role(self.reactor, parts)
            role.startService()
            stopped = role.stopService()
            self.reactor.advance(STOP_WITHIN)
            self.successResultOf(stopped)
            self.assertEqual(role.exit_status, 1)

    def test_an_end_that_fails_is_status_1(self) -> None:
        """And its cause is in the log."""
        self.parts.ending = Deferred()
        self.role.startService()
        stopped = self.role.stopService()
        self.parts.ending.errback(RuntimeError("x"))
        self.successResultOf(stopped)
        self.assertEqual(self.role.exit_status, 1)
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)
