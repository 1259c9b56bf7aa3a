"""The long proof, for a moment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

import garcon


class Soaks(SynchronousTestCase):
    """What ``tox run -e soak`` runs."""

    def soak(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run it to its end."""
        return subprocess.run(
            [sys.executable, "-m", "garcon.testing.soak", *arguments],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env={**os.environ, "PYTHONPATH": str(Path(garcon.__file__).parents[1])},
        )

    def test_it_does_what_it_is_asked_for(self) -> None:
        """It counts what it did and is content."""
        done = self.soak(
            *("--seed", "7", "--schedules", "20", "--inputs", "2000", "--sockets", "3")
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        last = done.stdout.splitlines()[-1]
        for part in (
            "20 schedules in process",
            "2,000 hostile inputs",
            "3 schedules over sockets",
            "0 wrong",
        ):
            self.assertIn(part, last)
