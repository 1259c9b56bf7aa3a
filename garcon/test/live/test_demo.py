"""`garcon demo`, as a newcomer meets it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

import garcon
from garcon.test.live.fleets import claude_code

TIME_LIMIT = 15.0
PATIENCE = 4
"""The aim is for an idle machine; tests run two at a time and may take longer than it."""


class DemoTests(SynchronousTestCase):
    """The whole demo, as a child process."""

    def demo(self, *arguments: str, environment: dict[str, str] | None = None) -> str:
        """Run it to its end; return what it showed."""
        temporary = Path(self.mktemp()).resolve()
        temporary.mkdir(parents=True)
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "garcon.cli.main", "demo", *arguments],
            env={
                "HOME": str(temporary),
                "LANG": "C.UTF-8",
                "PATH": os.environ.get("PATH", os.defpath),
                "PYTHONPATH": str(Path(garcon.__file__).parents[1]),
                "TMPDIR": str(temporary),
                **(environment or {}),
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT * PATIENCE,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertLess(time.monotonic() - began, TIME_LIMIT * PATIENCE)
        self.assertEqual(os.listdir(temporary), [])
        return done.stdout

    def test_both_turns_are_shown_and_nothing_is_left(self) -> None:
        """A permission is asked and answered, both answers come back, the folder is empty again."""
        shown = self.demo()
        for words in (
            "permission-decision",
            "the agent asks before it runs: uname -s",
            "Done, with your permission.",
            "I am on the controller.",
            "ended with status 0",
        ):
            self.assertIn(words, shown)
        self.assertNotIn("secret=", shown)

    def test_with_claude_code(self) -> None:
        """The real agent, against a pretend model server."""
        environment = {"CLAUDE_BINARY": claude_code()}
        shown = self.demo("--agent", "claude", environment=environment)
        self.assertIn("Done, with your permission.", shown)
        self.assertIn("I am on the controller.", shown)
