"""What is read from options: identities, tags, paths, presentation and prompts."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from garcon.cli import inputs
from garcon.cli.client import is_chat_id, is_executor_id, query_text, quote
from garcon.cli.failures import CommandFailure
from garcon.cli.invocation import Invocation, shell_word
from garcon.cli.options import Parsed, parse
from garcon.cli.table import COMMANDS, GROUPS
from garcon.testing.fake_controller import FakeMachine


def start(*words: str) -> Parsed:
    return parse(["start", "p", *words], COMMANDS, GROUPS)


class InputTests(SynchronousTestCase):
    def refused(self, read: Any, *words: str) -> None:
        error: CommandFailure = self.assertRaises(CommandFailure, read, start(*words))
        self.assertEqual(2, error.exit_status)

    def test_identities(self) -> None:
        """Chat ids and executor ids have one form each."""
        for text, fine in (
            ("1753000000000000", True),
            ("0000000000001000", True),
            ("9007199254740991", True),
            ("9007199254740992", False),
            ("0000000000000999", False),
            ("175300000000000", False),
            ("17530000000000000", False),
            ("١٧٥٣٠٠٠٠٠٠٠٠٠٠٠٠", False),
        ):
            self.assertEqual(fine, is_chat_id(text), text)
        good = "0b8b1d3e-5c1f-4a2b-9c3d-0123456789ab"
        for text, fine in (
            ("local", True),
            (good, True),
            (good.upper(), False),
            (good.replace("-4", "-5"), False),
            (good.replace("-9c", "-1c"), False),
            ("Local", False),
            ("", False),
        ):
            self.assertEqual(fine, is_executor_id(text), text)

    def test_operands_say_something(self) -> None:
        """And can be sent."""
        self.assertEqual("x", inputs.operand("x", "it"))
        for text in ("", " ", "\udcff"):
            self.assertRaises(CommandFailure, inputs.operand, text, "it")

    def test_tags(self) -> None:
        """Normalised, always with cli, without duplicates; one that says nothing is refused."""
        words = ("--tag", "Review Needed", "--tag=review-needed", "--tag", "-a-")
        found = inputs.tags(start(*words))
        self.assertEqual(["a", "cli", "review-needed"], found)
        self.assertEqual(["cli"], inputs.tags(start()))
        for text in ("", "!!", "---", "é"):
            self.refused(inputs.tags, f"--tag={text}")

    def test_titles(self) -> None:
        """4096 bytes pass and 4097 do not, after trimming; a blank one is refused."""
        self.assertIsNone(inputs.title(start()))
        self.assertEqual("x" * 4_096, inputs.title(start("--title", f" {'x' * 4_096} ")))
        self.refused(inputs.title, "--title", "x" * 4_097)
        self.refused(inputs.title, "--title", "é" * 2_049)
        self.refused(inputs.title, "--title= ")

    def test_turns(self) -> None:
        """A turn id is required, has no space around it, and at most 256 bytes."""

        def wait(*words: str) -> Parsed:
            return parse(["wait", "c", *words], COMMANDS, GROUPS)

        self.assertEqual("t" * 256, inputs.turn_id(wait("--turn", "t" * 256)))
        for words in ((), ("--turn", "t" * 257), ("--turn", " t"), ("--turn=",)):
            self.assertRaises(CommandFailure, inputs.turn_id, wait(*words))

    def test_preambles(self) -> None:
        """None for the defaults, an empty list for none, the ids in order; not both."""
        self.assertIsNone(inputs.preambles(start()))
        self.assertEqual([], inputs.preambles(start("--no-preamble")))
        self.assertEqual(["b", "a"], inputs.preambles(start("--preamble", "b", "--preamble", "a")))
        self.refused(inputs.preambles, "--no-preamble", "--preamble", "a")

    def test_presentation(self) -> None:
        """A title alone means notice; a colour implies custom and serves both themes."""
        self.assertIsNone(inputs.presentation(start()))
        shown = inputs.presentation(start("--message-title", "Hi"))
        assert shown is not None
        self.assertEqual(({"style": "notice"}, "Hi"), (shown["presentation"], shown["title"]))
        self.assertEqual("expanded", shown["bodyDisclosure"])
        colored = inputs.presentation(start("--color", "A0b1c2", "--collapsible"))
        assert colored is not None
        accents = {"lightAccent": "#a0b1c2", "darkAccent": "#a0b1c2"}
        self.assertEqual({"style": "custom", "customStyle": accents}, colored["presentation"])
        self.assertEqual("collapsed", colored["bodyDisclosure"])
        two = inputs.presentation(start("--color", "#000000,ffffff", "--message-style", "custom"))
        assert two is not None
        self.assertEqual("#ffffff", two["presentation"]["customStyle"]["darkAccent"])
        for words in (
            ("--message-style", "custom"),
            ("--color", "fff"),
            ("--color", "00000g"),
            ("--color", "000000,"),
            ("--color", "000000", "--message-style", "info"),
            ("--message-title", "a\nb"),
            ("--message-title", "x" * 121),
        ):
            self.refused(inputs.presentation, *words)

    def test_absolute_paths_of_any_system(self) -> None:
        """POSIX roots, drives and shares are absolute somewhere; the rest is not."""
        for path in ("/", "/a b", "C:\\x", "c:/x", "\\\\host\\share"):
            self.assertTrue(inputs.is_absolute_anywhere(path), path)
        for path in ("", "a", "./a", "~", "C:x", "C:", "\\x", "1:\\x"):
            self.assertFalse(inputs.is_absolute_anywhere(path), path)


class PromptTests(SynchronousTestCase):
    def prompt(self, *words: str, stdin: bytes = b"") -> str:
        parsed = parse(["start", *words], COMMANDS, GROUPS)
        return Invocation(parsed, FakeMachine(stdin=stdin).system()).prompt(parsed.operands)

    def test_words_are_joined(self) -> None:
        """Positional words make one prompt; after -- a dash is text."""
        self.assertEqual("fix the bug", self.prompt("fix", "the", "bug"))
        self.assertEqual("--help -", self.prompt("--", "--help", "-"))
        self.assertEqual("-", self.prompt("--", "-"))

    def test_standard_input(self) -> None:
        """A lone dash reads it whole, as it is; it must be UTF-8 and say something."""
        self.assertEqual("a\nb\n", self.prompt("-", stdin=b"a\nb\n"))
        self.assertEqual("a", self.prompt("-", "--", stdin=b"a"))
        for words, stdin in (
            (("-", "more"), b"x"),
            (("-", "--", "more"), b"x"),
            (("-",), b"\xff"),
            (("-",), b" \n"),
            ((" ",), b""),
            (("\udcff",), b""),
        ):
            error = self.assertRaises(CommandFailure, self.prompt, *words, stdin=stdin)
            self.assertEqual(2, error.exit_status)


class TextTests(SynchronousTestCase):
    def test_query(self) -> None:
        """Everything but unreserved characters is encoded; order and repeats are kept."""
        self.assertEqual("", query_text([]))
        self.assertEqual(
            "?a=1&b=%26%20%C3%A9&a=2", query_text([("a", "1"), ("b", "& é"), ("a", "2")])
        )
        self.assertEqual("..%2F", quote("../"))

    def test_shell_words(self) -> None:
        """Whatever a name holds, the follow-up command is one word for a shell."""
        import shlex

        for word in ("plain/path-1", "", "a b", "it's", '$x `y` "z" \\', "é", "-x", "a\nb"):
            self.assertEqual([word], shlex.split(shell_word(word)), word)

    def test_fresh_identities(self) -> None:
        """Chat ids grow even when the clock stands; request ids are version 4 UUIDs."""
        system = FakeMachine().system()
        ids = [system.chat_id() for _ in range(3)]
        self.assertEqual(sorted(set(ids)), ids)
        self.assertTrue(all(is_chat_id(text) for text in ids))
        self.assertTrue(is_executor_id(system.uuid()))
