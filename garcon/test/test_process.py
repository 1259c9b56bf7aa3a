"""What both services' composition shares: options, log lines, start and end."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence

from attrs import define, field
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.logger import Logger, LoggingFile
from twisted.python import usage
from twisted.trial.unittest import SynchronousTestCase

from garcon.errors import StartupError
from garcon.log_lines import LineLog
from garcon.process import (
    COMMON,
    STOP_WITHIN,
    Role,
    ServiceOptions,
    Setting,
    boolean,
    directory,
    environment_snapshot,
    fail_to_start,
    take_variable,
    whole_number,
)


class Options(ServiceOptions):
    """A few options of each kind."""

    scope = "test"
    command = "test"
    settings = (
        Setting("port", "a port", "GARCON_PORT", whole_number(0, 65_535), 8080),
        Setting("place", "a place", "GARCON_PLACE", directory),
        Setting("loud", "a switch", "GARCON_LOUD", switch=True),
        Setting("name", "names", repeated=True),
        Setting("limit", "a limit", "GARCON_LIMIT", whole_number(1), 5, flag=False),
        *COMMON,
    )

    def check(self) -> None:
        """Refuse one combination."""
        if self["loud"] and self["port"] == 1:
            raise usage.UsageError("not loud on port 1")


class OptionTests(SynchronousTestCase):
    """Flag, else non-empty variable, else default."""

    def setUp(self) -> None:
        self.stderr = io.StringIO()
        self.patch(sys, "stderr", self.stderr)

    def parse(self, *argv: str, **environment: str) -> Options:
        """Parse a command line."""
        options = Options(environment)
        options.parseOptions(argv)
        return options

    def refuse(self, *argv: str, **environment: str) -> str:
        """Return the one line that a mistake is."""
        failure = self.assertRaises(SystemExit, self.parse, *argv, **environment)
        self.assertEqual(failure.code, 1)
        text = self.stderr.getvalue()
        self.assertEqual(text.count("\n"), 1, text)
        return text

    def test_precedence(self) -> None:
        """A flag beats its variable, an empty variable is unset, then comes the default."""
        self.assertEqual(self.parse()["port"], 8080)
        self.assertEqual(self.parse(GARCON_PORT="")["port"], 8080)
        self.assertEqual(self.parse(GARCON_PORT=" ")["port"], 8080)
        self.assertEqual(self.parse(GARCON_PORT="7")["port"], 7)
        self.assertEqual(self.parse("--port", "9", GARCON_PORT="7")["port"], 9)

    def test_switches(self) -> None:
        """On by flag or by a word."""
        self.assertIs(self.parse()["loud"], False)
        self.assertIs(self.parse("--loud", GARCON_LOUD="0")["loud"], True)
        self.assertIs(self.parse(GARCON_LOUD="Yes")["loud"], True)
        self.assertIs(self.parse(GARCON_LOUD="off")["loud"], False)
        self.assertIn("GARCON_LOUD must be one of", self.refuse(GARCON_LOUD="maybe"))

    def test_repeated(self) -> None:
        """Every one counts."""
        self.assertEqual(self.parse()["name"], [])
        self.assertEqual(self.parse("--name", "a", "--name=b")["name"], ["a", "b"])

    def test_only_a_variable(self) -> None:
        """Some things have no flag."""
        self.assertEqual(self.parse(GARCON_LIMIT="6")["limit"], 6)
        self.assertIn(
            "option --limit not recognized (try `garcon test --help`)",
            self.refuse("--limit", "6"),
        )

    def test_paths_are_absolute_from_here_on(self) -> None:
        """Whatever directory the process has later."""
        self.assertEqual(self.parse("--place", "a/../b")["place"], os.path.abspath("b"))
        self.assertEqual(self.parse("--place", "~/b")["place"], os.path.expanduser("~/b"))

    def test_mistakes_name_the_flag(self) -> None:
        """In one line."""
        self.assertEqual(
            self.refuse("--port", "65536"),
            "[test] Failed to start test: --port must be a whole number from 0 to 65535\n",
        )

    def test_mistakes_name_the_variable(self) -> None:
        """In one line."""
        self.assertIn("GARCON_PORT must be a whole number", self.refuse(GARCON_PORT="-1"))

    def test_bounds(self) -> None:
        """Decimal digits, within the bounds, and nothing else."""
        self.assertEqual(self.parse("--port", "65535")["port"], 65_535)
        self.assertEqual(self.parse("--port", "0")["port"], 0)
        parse = whole_number(1)
        for text in ("0", "", "1.0", "+1", "\u0661", "1_0", "0x1", " 1"):
            self.assertRaises(ValueError, parse, text)

    def test_a_value_flag_at_the_end(self) -> None:
        """Its value is missing."""
        self.assertIn("--port requires argument", self.refuse("--port"))

    def test_an_empty_flag(self) -> None:
        """A flag that is given means something."""
        self.assertIn("--place must not be empty", self.refuse("--place", ""))

    def test_what_is_no_option(self) -> None:
        """Is refused, not ignored."""
        self.assertIn("unexpected argument 'x'", self.refuse("x"))

    def test_an_unknown_option(self) -> None:
        """Is named."""
        self.assertIn("--other", self.refuse("--other"))

    def test_what_does_not_go_together(self) -> None:
        """Is told like every other mistake."""
        self.assertIn("not loud on port 1", self.refuse("--loud", "--port", "1"))

    def test_help_starts_nothing(self) -> None:
        """It is shown, and the process ends well."""
        shown = io.StringIO()
        self.patch(sys, "stdout", shown)
        failure = self.assertRaises(SystemExit, self.parse, "--help")
        self.assertIn(failure.code, (0, None))
        for word in ("--port", "GARCON_PORT", "--name", "--config-dir"):
            self.assertIn(word, shown.getvalue())
        self.assertNotIn("--limit", shown.getvalue())
        _, _, variables = shown.getvalue().partition("Variables without an option:\n")
        self.assertIn("GARCON_LIMIT\n          a limit\n", variables)
        self.assertNotIn("GARCON_PORT", variables)

    def test_help_names_what_was_typed(self) -> None:
        """The command of ours, or twistd and its subcommand: each once."""
        self.assertIn("Usage: garcon test [options]", str(Options({})))
        options = Options({})
        parent = usage.Options()
        parent.subCommand = "garcon-test"
        options.parent = parent
        shown = options.getSynopsis()
        self.assertEqual(shown.count("Usage:"), 1)
        self.assertTrue(shown.endswith("garcon-test [options]"), shown)

    def test_help_whose_reader_has_gone(self) -> None:
        """Is no error of ours."""
        self.patch(sys, "stdout", _Gone())
        for option in ("--help", "--version"):
            failure = self.assertRaises(SystemExit, self.parse, option)
            self.assertEqual(failure.code, 0)
        self.assertEqual(self.stderr.getvalue(), "")

    def test_a_secret_in_the_wrong_place_is_not_repeated(self) -> None:
        """A connection URL typed as an argument is refused without showing what opens it."""
        text = self.refuse("wss://host/executor#secret=" + "A" * 43)
        self.assertNotIn("AAA", text)
        self.assertIn("unexpected argument 'wss://host/executor#secret=", text)

    def test_words_of_a_switch(self) -> None:
        """Four each, in any case."""
        for text in ("1", "true", "YES", "On"):
            self.assertIs(boolean(text), True)
        for text in ("0", "false", "NO", "Off"):
            self.assertIs(boolean(text), False)

    def test_one_line_whatever_the_text(self) -> None:
        """Line breaks in a reason are spaces."""
        self.assertRaises(SystemExit, fail_to_start, "a\n b")
        self.assertEqual(self.stderr.getvalue(), "[server] Failed to start server: a b\n")


class _Gone(io.StringIO):
    """A stream that nobody reads any more."""

    def write(self, text: str) -> int:
        raise BrokenPipeError


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
