"""The page on authority: that it is found, and that what it names is there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from unittest import skipUnless

from twisted.python.reflect import namedAny
from twisted.trial.unittest import SynchronousTestCase

import garcon
from garcon.cli.options import parse
from garcon.cli.table import COMMANDS, GRANTS, GROUPS, MANAGEMENT
from garcon.contract import routes

TREE = Path(garcon.__file__).parents[1]
PAGE, README = TREE / "docs" / "authority.rst", TREE / "README.rst"
_LITERAL = re.compile(r"``(garcon [^`]+)``")
_TESTS = re.compile(r"``(test_\w+\.\w+)``")
_TYPED = re.compile(r"^ +(garcon (?:[^\n\\]|\\\n)+)", re.MULTILINE)


@skipUnless(PAGE.exists(), "only a checkout has the page")
class PageTests(SynchronousTestCase):
    """``docs/authority.rst``."""

    def setUp(self) -> None:
        self.text = PAGE.read_text()
        self.words = " ".join(self.text.split())

    def part(self, title: str) -> str:
        """Return one part of the page, its lines joined."""
        _, found, rest = self.text.partition(f"\n{title}\n---")
        self.assertTrue(found, title)
        return " ".join(re.split(r"\n\n\n[^\n]+\n---", rest)[0].split())

    def test_the_readme_leads_there(self) -> None:
        """By a link that a reader of the file can follow, and where it speaks of trust."""
        readme = README.read_text()
        self.assertIn("<docs/authority.rst>`_", readme)
        trust = readme.partition("\nWhat you trust when you use it\n")[2].partition("\n\n\n")[0]
        self.assertIn("``docs/authority.rst``", trust)

    def test_the_noise_library_is_unaudited(self) -> None:
        """Page and README say so, and that tests are no audit."""
        for text in (self.words, " ".join(README.read_text().split())):
            self.assertRegex(text, r"Noise library [a-z ]*is unaudited")
            self.assertRegex(text, r"tests[^.]* are not a security audit")

    def test_every_grant_is_explained(self) -> None:
        """What it lets do and what it trusts; the first one is command execution."""
        grants = self.part("The two grants")
        for option in GRANTS:
            self.assertIn(f"``{option.name} true``", grants)
        self.assertIn("**command execution** on every machine", grants)
        self.assertIn("both off until you give them", grants)

    def test_all_that_management_opens_is_named(self) -> None:
        """On the page and in the help of the grant: each kind of operation that needs it."""
        words = {
            routes.CREATE_EXECUTOR: "executors",
            routes.UPDATE_EXECUTOR: "change",
            routes.DELETE_EXECUTOR: "delete executors",
            routes.REVEAL_CONNECTION: "secrets",
            routes.EXECUTOR_DIAGNOSTICS: "left over",
            routes.END_PROCESS: "end processes",
            routes.LIST_ASSIGNMENTS: "API providers",
            routes.ASSIGN_PROVIDER: "API providers",
            routes.UNASSIGN_PROVIDER: "API providers",
        }
        wanted = {one for one in routes.BRIDGED.values() if one.management}
        self.assertEqual(set(words), wanted)
        for said in (self.part("The two grants"), MANAGEMENT):
            for word in words.values():
                self.assertIn(word, said)

    def test_what_revoking_does_not_undo(self) -> None:
        """What was accepted, done, read and told, and that turns go on for three hours."""
        part = self.part("What taking a grant back does, and what it does not undo")
        for words in ("accepted", "files written", "what was read", "keys of API providers"):
            self.assertIn(words, part)
        self.assertIn("three hours", part)
        self.assertIn("``CLI_ACCESS_DENIED``", part)

    def test_containment_begins_with_grant_and_network(self) -> None:
        """Disabling comes after the work has ended: it is no emergency switch."""
        part = self.part("When a worker is compromised")
        order = [
            part.index(words)
            for words in (
                "--allow-controller-cli false",
                "end the worker's service",
                "EXECUTOR_IN_USE",
                "garcon executor disable",
                "Replace what it knew",
                "token_urlsafe",
            )
        ]
        self.assertEqual(order, sorted(order))
        self.assertIn("no emergency switches", part)

    def test_the_sandboxes_of_the_support_matrix(self) -> None:
        """Two are supported, one is not, and of the rest nothing is promised."""
        rows = self.part("From which sandboxes the command works").split(" * - ")[2:]
        support = [re.split(r"[(:;]| is ", row.partition(" - ")[2])[0].strip() for row in rows]
        self.assertEqual(
            support, ["supported", "supported", "not supported", "may work", "the environment"]
        )

    def test_what_is_said_of_sandboxes_is_shown(self) -> None:
        """Each row that promises something, or denies it, names a test that there is."""
        rows = self.part("From which sandboxes the command works").split(" * - ")[2:]
        for row in rows[:3]:
            names = _TESTS.findall(row)
            self.assertTrue(names, row)
            for name in names:
                namedAny(f"garcon.test.live.authority.{name}")

    def test_its_commands_are_commands(self) -> None:
        """Each parses with the options that it is shown with."""
        shown = [*_LITERAL.findall(self.text), *_TYPED.findall(self.text)]
        self.assertGreater(len(shown), 8)
        for command in shown:
            words = shlex.split(command.replace("\\\n", " ").partition("<")[0])
            if len(words) > 3 or words[1] != "executor" or "EXECUTOR_ID" in command:
                parse(words[1:], COMMANDS, GROUPS)
            else:
                self.assertIn(" ".join(words[1:]), COMMANDS)
