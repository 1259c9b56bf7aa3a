"""What a service can be told."""

from __future__ import annotations

import io
import os
import sys

from twisted.python import usage
from twisted.trial.unittest import SynchronousTestCase

from garcon.options import (
    COMMON,
    ServiceOptions,
    Setting,
    boolean,
    directory,
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


class _Gone(io.StringIO):
    """A stream that nobody reads any more."""

    def write(self, text: str) -> int:
        raise BrokenPipeError
