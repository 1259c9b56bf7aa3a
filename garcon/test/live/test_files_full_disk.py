"""Saving on a disk without room: the old content stays, or is replaced whole."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import SkipTest

from twisted.trial.unittest import SynchronousTestCase

import garcon
from garcon.contract import files

MOUNT = 'mount -t tmpfs -o size=2m tmpfs "$0"'


class FullDiskTests(SynchronousTestCase):
    """Two mebibytes in a mount namespace of their own (decisions.md 42)."""

    def told(self) -> dict[str, Any]:
        """Return what the saver in there says."""
        unshare = shutil.which("unshare")
        place = self.mktemp()
        os.makedirs(place)
        place = os.path.realpath(place)
        may = [unshare or "false", "-m", "sh", "-c"]
        if (
            unshare is None
            or subprocess.run(
                [*may, MOUNT, place], capture_output=True, check=False, timeout=30
            ).returncode
        ):
            raise SkipTest("no file system can be mounted here")
        program = [sys.executable, "-m", "garcon.testing.full_disk", place]
        done = subprocess.run(
            [*may, f'{MOUNT} && exec "$@"', place, *program],
            capture_output=True,
            check=True,
            timeout=60,
            env={
                "PYTHONPATH": str(Path(garcon.__file__).parents[1]),
                "PATH": os.environ.get("PATH", os.defpath),
            },
        )
        told: dict[str, Any] = json.loads(done.stdout)
        return told

    def test_a_full_disk(self) -> None:
        """A longer content is refused before the old one is touched, and a file that cannot be
        filled is not made; what needs no more room is saved.
        """
        self.assertEqual(
            self.told(),
            {
                "made": "saved",
                "longer": files.NO_SPACE,
                "kept": True,
                "new": files.NO_SPACE,
                "names": ["file"],
                "full": os.strerror(28),
                "same size": "saved",
                "written": True,
                "shorter": "saved",
                "cut": True,
            },
        )
