"""Contents and revisions (server.md D.3)."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from base64 import urlsafe_b64encode
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred

from garcon.contract import files
from garcon.contract.files import CONTENT_BYTES
from garcon.test.runtime.files.cast import FilesCase


class RevisionTests(FilesCase):
    """What a file's state is called."""

    def revision(self, path: str) -> str | None:
        """Return the revision of a file of the project."""
        return self.successResultOf(self.files.revision(self.target(path)))

    def test_the_revision_is_made_of_identity_size_and_times(self) -> None:
        """As the contract has it, digit by digit."""
        status = os.stat(self.write("file", "four"))
        parts = (status.st_dev, status.st_ino, 4, status.st_mtime_ns, status.st_ctime_ns)
        digest = hashlib.sha256(":".join(str(part) for part in parts).encode()).digest()
        expected = "v1:" + urlsafe_b64encode(digest).decode().rstrip("=")
        self.assertEqual(self.revision("file"), expected)
        assert re.fullmatch(files.REVISION, expected)

    def test_any_change_makes_another(self) -> None:
        """Of content, of mode, of what is behind the name."""
        path = self.write("file", "one")
        seen = [self.revision("file")]
        os.utime(path, ns=(0, 0))
        seen.append(self.revision("file"))
        os.replace(self.write("other", "one"), path)
        seen.append(self.revision("file"))
        self.assertEqual(len(set(seen)), 3)

    def test_what_is_not_there_is_missing(self) -> None:
        """A name, a name in a missing directory, a link to nothing."""
        os.symlink("nothing", os.path.join(self.project, "link"))
        for path in ("missing", "missing/file", "link"):
            self.assertIsNone(self.revision(path))

    def test_only_files_have_one(self) -> None:
        """Neither directories nor pipes."""
        os.mkfifo(os.path.join(self.project, "pipe"))
        os.mkdir(os.path.join(self.project, "directory"))
        for path in ("pipe", "directory", ".", "../project"):
            error = self.failure(self.files.revision(self.target(path)), files.NOT_A_FILE)
            self.assertEqual(error.status, 400)

    def test_a_path_is_required(self) -> None:
        """An empty one names nothing."""
        self.failure(self.files.revision(self.target("")), "VALIDATION_FAILED")


class ReadTests(FilesCase):
    """A file's content, whole."""

    def test_content_path_and_revision(self) -> None:
        """Of one moment; the path is where the links lead."""
        self.write("a/file", b"\xff\x00bytes")
        os.symlink("a", os.path.join(self.project, "link"))
        found = self.successResultOf(self.files.read(self.target("link/file")))
        self.assertEqual((found.path, found.data), (f"{self.project}/a/file", b"\xff\x00bytes"))
        known = self.successResultOf(self.files.revision(self.target("a/file")))
        self.assertEqual(found.revision, known)

    def test_four_mebibytes_and_one_byte_more(self) -> None:
        """The most that is read, and what is refused."""
        self.write("most", b"x" * CONTENT_BYTES)
        self.write("more", b"x" * (CONTENT_BYTES + 1))
        found = self.successResultOf(self.files.read(self.target("most")))
        self.assertEqual(len(found.data), CONTENT_BYTES)
        error = self.failure(self.files.read(self.target("more")), files.TOO_LARGE)
        self.assertEqual((error.status, error.retryable), (413, False))

    def test_what_cannot_be_read(self) -> None:
        """Pipes do not block, directories and missing files say what they are."""
        os.mkfifo(os.path.join(self.project, "pipe"))
        os.mkdir(os.path.join(self.project, "directory"))
        for path, code, status in (
            ("pipe", files.NOT_A_FILE, 400),
            ("directory", files.NOT_A_FILE, 400),
            ("missing", files.NOT_FOUND, 404),
            ("directory/missing", files.NOT_FOUND, 404),
        ):
            error = self.failure(self.files.read(self.target(path)), code)
            self.assertEqual(error.status, status)


class ChangingTests(FilesCase):
    """A file that changes while it is read."""

    def setUp(self) -> None:
        super().setUp()
        self.path = self.write("file", "first")
        self.changes: list[Callable[[], None]] = []
        """One for each time that the content was read."""
        patched = os.read

        def read(fd: int, size: int) -> bytes:
            piece = patched(fd, size)
            if not piece and self.changes and stat.S_ISREG(os.fstat(fd).st_mode):
                self.changes.pop(0)()
            return piece

        self.patch(os, "read", read)

    def read(self) -> Deferred[Any]:
        """Read the file."""
        return self.files.read(self.target("file"))

    def append(self) -> None:
        """Change the file as another program would."""
        with open(self.path, "ab") as file:
            file.write(b"!")

    def test_a_read_is_tried_three_times(self) -> None:
        """After two changes what comes is the third state; after three nobody knows."""
        self.changes = [self.append, self.append]
        found = self.successResultOf(self.read())
        self.assertEqual(found.data, b"first!!")
        self.changes = [self.append] * 3
        error = self.failure(self.read(), files.CHANGED_DURING_READ)
        self.assertEqual((error.status, error.retryable), (409, True))

    def test_deleted_while_it_is_read(self) -> None:
        """It is missing then."""
        self.changes = [lambda: os.unlink(self.path)]
        self.failure(self.read(), files.NOT_FOUND)

    def test_replaced_while_it_is_read(self) -> None:
        """What is told is one of the two, never a mixture."""
        self.changes = [lambda: os.replace(self.write("other", "second"), self.path)]
        found = self.successResultOf(self.read())
        self.assertIn(found.data, (b"first", b"second"))
        now = self.successResultOf(self.files.revision(self.target("file")))
        self.assertEqual(found.revision == now, found.data == b"second")

    def test_growing_past_the_bound(self) -> None:
        """Is too large, whatever its size was said to be."""

        def grow() -> None:
            os.truncate(self.path, CONTENT_BYTES + 1)

        self.changes = [grow]
        self.failure(self.read(), files.TOO_LARGE)
