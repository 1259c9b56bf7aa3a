"""A project base to try files in, and ways to be somebody else."""

from __future__ import annotations

import os
from typing import Any

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.files import ConflictResolution, FileTarget, SaveFile
from garcon.errors import GarconError
from garcon.runtime.files.service import LocalFiles


class FilesCase(SynchronousTestCase):
    """A base with a project in it, and a directory outside."""

    def setUp(self) -> None:
        self.top = os.path.realpath(self.mktemp())
        self.base = os.path.join(self.top, "base")
        self.project = os.path.join(self.base, "project")
        self.outside = os.path.join(self.top, "outside")
        for path in (self.project, self.outside):
            os.makedirs(path)
        self.clock = Clock()
        self.files = LocalFiles(
            self.clock, self.base, os.path.join(self.top, "home"), in_thread=self.in_thread
        )

    def in_thread(self, work: Any) -> Deferred[Any]:
        """Run what blocks at once."""
        return maybeDeferred(work)

    def write(self, path: str, content: bytes | str = b"", where: str | None = None) -> str:
        """Make a file of the project, and the directories it needs."""
        full = os.path.join(where or self.project, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        return full

    def content(self, path: str) -> bytes:
        """Return what a file of the project holds."""
        with open(os.path.join(self.project, path), "rb") as file:
            return file.read()

    def target(self, path: str) -> FileTarget:
        return FileTarget(self.project, path)

    def saving(
        self,
        path: str,
        data: bytes = b"new",
        expected: str | None = None,
        resolution: ConflictResolution = "overwrite",
    ) -> SaveFile:
        return SaveFile(self.project, path, data, expected, resolution)

    def failure(self, d: Deferred[Any], code: str) -> GarconError:
        """Return how something failed, with that code."""
        error = self.failureResultOf(d, GarconError).value
        assert isinstance(error, GarconError)
        self.assertEqual(error.code, code, error.text)
        return error

    def held_files(self) -> int:
        """Return how many descriptors this process has open."""
        return len(os.listdir("/proc/self/fd"))
