"""The command line as a table: what each typing means, and what is refused before anything runs."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from garcon.cli.failures import BAD_REQUEST, CommandFailure
from garcon.cli.help import of, overview, text_for
from garcon.cli.options import Parsed, parse
from garcon.cli.table import COMMANDS, GROUPS, SERVICES


def parsed(*words: str) -> Parsed:
    return parse(words, COMMANDS, GROUPS)


class ParseTests(SynchronousTestCase):
    def refused(self, *words: str) -> str:
        error: CommandFailure = self.assertRaises(CommandFailure, parsed, *words)
        self.assertEqual(("arguments", BAD_REQUEST), (error.phase, error.exit_status))
        return error.text

    def test_options_may_stand_anywhere_before_the_dashes(self) -> None:
        """Before the command's name only the connection's, after it all of them, in any order."""
        for words in (
            ("--config-dir", "/r", "start", "--agent", "a", "hello", "--model", "m"),
            ("start", "hello", "--agent=a", "--model=m", "--config-dir=/r"),
            ("start", "--model", "m", "--config-dir", "/r", "--agent", "a", "--", "hello"),
        ):
            found = parsed(*words)
            assert found.command is not None
            self.assertEqual("start", found.command.words)
            self.assertEqual({"config-dir": "/r", "agent": "a", "model": "m"}, found.values)
            self.assertEqual(["hello"], found.operands)
        self.assertIn("--agent", self.refused("--agent", "a", "start", "hello"))

    def test_dashes_end_the_options(self) -> None:
        """After -- everything is text, also what looks like options, help or stdin."""
        found = parsed("start", "a", "--", "--model", "--help", "-", "--")
        self.assertEqual(["a", "--model", "--help", "-", "--"], found.operands)
        self.assertEqual(4, found.literal)
        self.assertFalse(found.help)

    def test_groups_take_two_words(self) -> None:
        """An executor command has two words; options may stand between them."""
        for words in (("executor", "show", "x"), ("executor", "--server", "u", "show", "x")):
            found = parsed(*words)
            assert found.command is not None
            self.assertEqual("executor show", found.command.words)
        self.assertIn("missing", self.refused("executor"))
        self.assertIn("unknown", self.refused("executor", "bogus"))

    def test_values(self) -> None:
        """A value may begin with one dash; one that begins with two needs the equals sign."""
        self.assertEqual(
            "-", parsed("executor", "create", "--connection-url", "-").values["connection-url"]
        )
        self.assertEqual("--x", parsed("start", "p", "--title=--x").values["title"])
        self.assertEqual("", parsed("start", "p", "--title=").values["title"])
        self.assertIn("--title=", self.refused("start", "p", "--title", "--json"))
        self.assertIn("needs a value", self.refused("start", "p", "--title"))

    def test_choices_and_truths(self) -> None:
        """Only the listed words are taken."""
        self.assertTrue(parsed("executor", "create", "--no-tls", "true").truth("no-tls"))
        self.assertIs(False, parsed("executor", "create", "--no-tls=false").truth("no-tls"))
        self.assertIsNone(parsed("executor", "create").truth("no-tls"))
        self.refused("executor", "create", "--no-tls", "yes")
        self.refused("start", "p", "--permissions", "everything")
        self.refused("--runtime", "both", "list", "agents")

    def test_repetition(self) -> None:
        """Single values and flags are taken once; a repeatable option keeps its order."""
        self.assertEqual(["b", "a"], parsed("start", "p", "--tag", "b", "--tag=a").texts("tag"))
        for words in (
            ("start", "p", "--model", "a", "--model", "a"),
            ("list", "agents", "--json", "--json"),
            ("list", "agents", "--help", "-h"),
            ("--server", "u", "list", "agents", "--server", "u"),
        ):
            self.assertIn("twice", self.refused(*words))

    def test_unknown_options_are_errors(self) -> None:
        """An option of another command, an unknown one and a short one are refused."""
        for words in (
            ("resume", "c", "p", "--tag", "x"),
            ("resume", "c", "p", "--executor", "local"),
            ("wait", "c", "--cwd", "/"),
            ("list", "agents", "--workspace", "w"),
            ("start", "-x"),
            ("list", "agents", "--json=1"),
        ):
            self.assertIn(next(word for word in words if word[0] == "-")[:6], self.refused(*words))

    def test_what_was_nearly_right_is_suggested(self) -> None:
        """A slip of the finger is told from text that begins with a dash."""
        for words, hint in (
            (("start", "--agnet", "a", "hello"), "did you mean --agent?"),
            (("start", "--permission", "plan", "hello"), "did you mean --permissions?"),
            (("start", "-x"), "put -- before text"),
            (("executor", "show", "-x"), "try `garcon executor show --help`"),
            (("--confg-dir", "/r", "start"), "did you mean --config-dir?"),
            (("strat", "hello"), "did you mean start?"),
            (("executor", "creat"), "did you mean executor create?"),
            (("zzz",), "try `garcon --help`"),
        ):
            self.assertIn(hint, self.refused(*words))

    def test_operands_are_counted(self) -> None:
        """Exactly what a command names, except for a prompt that is open-ended or optional."""
        self.assertEqual(["a", "b", "c"], parsed("start", "a", "b", "c").operands)
        self.assertEqual(["c"], parsed("fork", "c").operands)
        self.assertEqual(["c", "a", "b"], parsed("fork", "c", "a", "b").operands)
        for words in (
            ("start",),
            ("resume", "c"),
            ("fork",),
            ("fork-async", "c"),
            ("wait",),
            ("wait", "a", "b"),
            ("list",),
            ("list", "agents", "models"),
            ("permission-decision", "c", "o"),
            ("executor", "list", "x"),
            (),
            ("bogus",),
            ("--", "start"),
        ):
            self.refused(*words)
        self.assertTrue(self.refused("resume", "c").endswith("needs a prompt"))
        self.assertTrue(self.refused("executor", "show").endswith("needs an id"))
        self.assertTrue(
            self.refused("permission-decision", "c", "o").endswith("needs one of: allow, deny")
        )

    def test_help_wins_over_what_is_missing(self) -> None:
        """Help and version need nothing else, but a wrong option is still wrong."""
        self.assertTrue(parsed("start", "--help").help)
        self.assertTrue(parsed("-h").help)
        self.assertTrue(parsed("--version").version)
        self.assertTrue(parsed("executor", "--help").help)
        self.refused("start", "--help", "--bogus")
        self.refused("--help=yes")


class HelpTests(SynchronousTestCase):
    def test_overview_names_everything(self) -> None:
        """Every command, service and connection option is in the overview."""
        text = overview()
        for words in (*COMMANDS, *SERVICES, "--config-dir", "--runtime", "--server", "130"):
            self.assertIn(words, text)

    def test_each_command_names_its_options(self) -> None:
        """A command's help has all its options, and no line is too long to read."""
        for command in COMMANDS.values():
            text = of(command)
            for option in command.options:
                self.assertIn(option.name, text)
            self.assertTrue(all(len(line) <= 110 for line in text.splitlines()), text)

    def test_what_is_needed_is_called_so(self) -> None:
        """Nobody has to leave out an option to learn that it may not be left out."""
        for words, names in (
            ("start", ("--agent", "--model")),
            ("wait", ("--turn",)),
            ("permission-decision", ("--run", "--server-instance")),
            ("executor create", ("--label", "--direction")),
            ("executor wait", ("--ready",)),
            ("resume", ()),
        ):
            needed = [o.name for o in COMMANDS[words].options if o.help.endswith("; needed")]
            self.assertEqual(list(names), needed, words)

    def test_cli_access_is_called_what_it_is(self) -> None:
        """Wherever executors are granted something, help says that it means command execution."""
        for words in ("executor create", "executor update"):
            self.assertIn("means command execution", " ".join(of(COMMANDS[words]).split()))
        self.assertIn("means command execution", text_for(["executor"], None))

    def test_help_shows_no_secret_in_an_argument(self) -> None:
        """Only standard input is shown for a connection URL."""
        self.assertIn("--connection-url -", of(COMMANDS["executor create"]))
        self.assertNotIn("#secret", of(COMMANDS["executor create"]))
