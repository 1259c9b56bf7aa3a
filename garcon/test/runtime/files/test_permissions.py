"""What the account that an executor runs under may not do."""

from __future__ import annotations

import ctypes
import os
from tempfile import mkdtemp
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SkipTest

from garcon.contract import files
from garcon.runtime.files.service import LocalFiles
from garcon.test.runtime.files.cast import FilesCase

SOMEBODY = 65534
_PR_SET_DUMPABLE = 4


class PermissionTests(FilesCase):
    """As another user than the one who owns the files."""

    def setUp(self) -> None:
        super().setUp()
        if os.geteuid() != 0:
            raise SkipTest("only root can become somebody else")
        # Trial's own folder may be closed to others.
        self.top = os.path.realpath(mkdtemp())
        os.chmod(self.top, 0o755)
        self.base = os.path.join(self.top, "base")
        self.project = os.path.join(self.base, "project")
        os.makedirs(self.project)
        self.files = LocalFiles(self.clock, self.base, self.base, in_thread=self.in_thread)
        self.write("mine", "content")
        self.write("private", "content")
        self.write("closed/file", "content")
        self.write("shown/file", "content")
        os.symlink("file", os.path.join(self.project, "shown/link"))
        os.mkdir(os.path.join(self.project, "shown/directory"))
        for name, mode in (("private", 0o600), ("closed", 0o700), ("shown", 0o744)):
            os.chmod(os.path.join(self.project, name), mode)
        self.become(SOMEBODY)
        self.addCleanup(self.become, 0)

    def become(self, user: int) -> None:
        """Be somebody else, who may look into ``/proc/self`` like a process of their own."""
        os.seteuid(user)
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)

    def denied(self, d: Deferred[Any], code: str = files.DENIED) -> None:
        error = self.failure(d, code)
        self.assertEqual((error.status, error.retryable), (403, False))

    def test_files_that_may_not_be_read(self) -> None:
        """Nor those in directories that may not be searched."""
        self.denied(self.files.read(self.target("private")))
        self.denied(self.files.read(self.target("closed/file")))
        self.denied(self.files.revision(self.target("closed/file")))
        self.denied(self.files.identity(self.target("closed/file")))

    def test_files_that_may_not_be_written(self) -> None:
        """They stay as they are."""
        self.denied(self.files.save(self.saving("mine")))
        self.denied(self.files.save(self.saving("new")))
        self.denied(self.files.create_directory("project", "new"), files.TREE_DENIED)
        self.assertEqual(self.content("mine"), b"content")

    def test_directories_that_may_not_be_read(self) -> None:
        """Are not shown; a project is listed without them."""
        self.denied(self.files.tree("project/closed"), files.TREE_DENIED)
        self.denied(self.files.browse("project/closed"), files.TREE_DENIED)
        listed = self.successResultOf(self.files.project_files("project"))
        self.assertEqual(listed.relative_paths, ["mine", "private", "shown/file"])

    def test_a_directory_that_may_be_read_and_not_searched(self) -> None:
        """Its names are shown, and that nothing more is known of them; links lead nowhere."""
        shown = self.successResultOf(self.files.tree("project/shown"))
        self.assertEqual(
            [(e.name, e.type, e.size, e.modified, e.permissions_rwx) for e in shown.entries],
            [
                ("directory", "directory", 0, None, "---------"),
                ("file", "file", 0, None, "---------"),
            ],
        )

    def test_a_file_that_may_be_written_and_not_read(self) -> None:
        """Is written all the same."""
        self.become(0)
        path = os.path.join(self.project, "drop")
        self.write("drop", "old content")
        os.chmod(path, 0o622)
        self.become(SOMEBODY)
        self.denied(self.files.read(self.target("drop")))
        self.successResultOf(self.files.save(self.saving("drop", b"new")))
        self.become(0)
        self.assertEqual(self.content("drop"), b"new")
