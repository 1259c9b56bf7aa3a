"""The login shell's path, asked of real shells."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from garcon.runtime.login_path import NOISE, SIZE, with_login_path
from garcon.testing.fleet import eventually
from garcon.testing.local_runtimes import runs

POOR = "/usr/local/bin:/usr/bin:/bin"


class LoginPathTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.home = Path(self.mktemp()).absolute()
        self.home.mkdir(parents=True)
        self.environment = {
            "HOME": str(self.home),
            "PATH": POOR,
            "SHELL": shutil.which("bash") or "/bin/sh",
            "ANTHROPIC_API_KEY": "a-secret",
            "GARCON_CONTROLLER_URL": "wss://host#secret=hidden",
        }

    def shell(self, script: str) -> None:
        """Have a shell that runs a script, whatever it is asked."""
        shell = self.home / "shell"
        shell.write_text(f"#!/bin/sh\n{script}\n")
        shell.chmod(0o755)
        self.environment["SHELL"] = str(shell)

    def path(self, seconds: float = 20.0) -> str:
        found = with_login_path(self.environment, seconds)
        self.assertEqual(found, {**self.environment, "PATH": found["PATH"]})
        return found["PATH"]

    def test_what_start_up_files_set(self) -> None:
        """Both of a login shell's and of an interactive one's; what they print does not matter."""
        (self.home / ".bash_profile").write_text(
            'echo "/printed:/path"; PATH="$HOME/login:$PATH"; . "$HOME/.bashrc"\n'
        )
        (self.home / ".bashrc").write_text(
            'case $- in *i*) PATH="$HOME/interactive:$PATH";; esac\n'
        )
        parts = self.path().split(os.pathsep)
        self.assertEqual(parts[:2], [f"{self.home}/interactive", f"{self.home}/login"])
        self.assertLess({"/usr/local/bin", "/usr/bin", "/bin"}, set(parts))
        self.assertEqual(len(parts), len(set(parts)))

    def test_a_chosen_path_is_left_alone(self) -> None:
        """Nobody is asked."""
        self.shell(f"touch {self.home}/asked")
        self.environment["PATH"] = f"{POOR}:/opt/agents"
        self.assertEqual(self.path(), f"{POOR}:/opt/agents")
        self.assertFalse((self.home / "asked").exists())
        self.environment["PATH"] = POOR
        self.assertEqual(self.path(), POOR)
        self.assertTrue((self.home / "asked").exists())

    def test_no_path_at_all(self) -> None:
        """Is a poor one."""
        del self.environment["PATH"]
        self.shell('PATH=/opt/a; eval "$2"')
        self.assertEqual(with_login_path(self.environment, 20.0)["PATH"], "/opt/a")

    def test_the_shell_gets_no_secret(self) -> None:
        """But what it needs to find its own files."""
        self.shell(f"env > {self.home}/seen")
        self.path()
        seen = (self.home / "seen").read_text()
        self.assertIn(f"HOME={self.home}", seen)
        self.assertNotIn("a-secret", seen)
        self.assertNotIn("GARCON", seen)

    def test_a_shell_that_does_not_answer(self) -> None:
        """Is ended when its time is over, with what it runs; the path stays."""
        self.shell(f"sleep 4000 & echo $! > {self.home}/pid; wait")
        self.assertEqual(self.path(3.0), POOR)
        pid = int((self.home / "pid").read_text())
        eventually("the end of what it runs", lambda: not runs(pid))

    def test_a_shell_that_leaves_something_with_its_pipe(self) -> None:
        """The answer is taken when it is whole."""
        self.shell('PATH=/opt/b eval "$2"; sleep 60 &\nexit 3')
        self.assertEqual(self.path(), f"/opt/b:{POOR}")

    def test_a_service_with_many_open_files(self) -> None:
        """However many: no shell is asked to know a descriptor by its number."""
        for _ in range(20):
            self.addCleanup(os.close, os.open(os.devnull, os.O_RDONLY))
        self.shell('PATH=/opt/c eval "$2"')
        self.assertEqual(self.path(), f"/opt/c:{POOR}")

    def test_what_is_printed_before_it(self) -> None:
        """Is passed over, up to a bound."""
        for size, is_taken in ((NOISE, True), (2 * NOISE, False)):
            self.shell(f'head -c {size} /dev/zero; PATH=/opt/d eval "$2"')
            self.assertEqual(self.path() != POOR, is_taken, size)

    def test_answers_that_are_none(self) -> None:
        """Nothing, nothing absolute, and no shell at all."""
        for script in ("exit 1", 'PATH=.:bin eval "$2"', 'PATH= eval "$2"'):
            self.shell(script)
            self.assertEqual(self.path(), POOR, script)
        self.environment["SHELL"] = str(self.home / "gone")
        self.assertEqual(self.path(), POOR)

    def test_the_size_of_an_answer(self) -> None:
        """Is bounded, and up to the bound it is taken."""
        for size, is_taken in ((SIZE, True), (SIZE + 1, False)):
            long = self.home / "long"
            long.write_text("/" + "x" * (size - 1))
            self.shell(f'long=$(cat {long}); eval "$(printf %s "$2" | sed \'s/PATH/long/\')"')
            self.assertEqual(self.path() != POOR, is_taken, size)
