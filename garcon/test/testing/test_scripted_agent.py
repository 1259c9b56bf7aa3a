"""How the scripted agent reads its prompts."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from garcon.testing import scripted_agent
from garcon.testing.scripted_agent import parse


class Programs(SynchronousTestCase):
    def test_lines_that_are_all_commands_are_a_program(self) -> None:
        """Blank lines and space around a line do not matter."""
        text = "say hi\n\n  ask touch a b  \nrun x\nsleep 0.5\nemit 3\nfail no luck\nexit 7"
        self.assertEqual(
            parse(text),
            [
                ("say", "hi"),
                ("ask", "touch a b"),
                ("run", "x"),
                ("sleep", "0.5"),
                ("emit", "3"),
                ("fail", "no luck"),
                ("exit", "7"),
            ],
        )

    def test_anything_else_is_an_ordinary_prompt(self) -> None:
        """One line that is no command, or lacks its argument, makes the whole one."""
        for text in (
            "",
            "\n",
            "hello",
            "say hi\nand more",
            "say",
            "sleep long",
            "emit -1",
            "exit now",
            "Say hi",
            "saying hi",
        ):
            self.assertIsNone(parse(text), text)

    def test_only_the_standard_library_is_needed(self) -> None:
        """A turn must not wait for imports."""
        source = Path(scripted_agent.__file__).read_text()
        names = {
            name.split(".")[0]
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.Import | ast.ImportFrom)
            for name in (
                [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else [alias.name for alias in node.names]
            )
        }
        self.assertEqual(names - sys.stdlib_module_names, set())
