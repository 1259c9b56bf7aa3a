"""Saving in place (server.md D.3)."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from typing import Any

from garcon.contract import files
from garcon.contract.files import CONTENT_BYTES, FileSaved
from garcon.runtime.files import saving
from garcon.test.runtime.files.cast import FilesCase


class SaveTests(FilesCase):
    """What is written, and when."""

    def save(self, *args: Any) -> FileSaved:
        """Save a file of the project."""
        return self.successResultOf(self.files.save(self.saving(*args)))

    def revision(self, path: str = "file") -> str | None:
        return self.successResultOf(self.files.revision(self.target(path)))

    def test_the_revision_that_was_read_is_taken(self) -> None:
        """The answer's is that of what was written, so that saving can go on."""
        self.write("file", "old")
        saved = self.save("file", b"new", self.revision(), "reject")
        self.assertEqual(self.content("file"), b"new")
        self.assertEqual(saved, FileSaved(f"{self.project}/file", self.revision() or ""))
        again = self.save("file", b"newer", saved.revision, "reject")
        self.assertEqual(again.revision, self.revision())

    def test_another_revision_is_a_conflict(self) -> None:
        """The file stays as it is: changed by somebody, or missing."""
        self.write("file", "old")
        before = self.revision()
        self.write("file", "theirs")
        for path, expected in (("file", before), ("file", None), ("missing", before)):
            error = self.failure(
                self.files.save(self.saving(path, b"mine", expected, "reject")),
                files.REVISION_CONFLICT,
            )
            self.assertEqual((error.status, error.retryable), (409, False))
        self.assertEqual(self.content("file"), b"theirs")
        self.assertFalse(os.path.lexists(os.path.join(self.project, "missing")))

    def test_overwriting_asks_nothing(self) -> None:
        """And makes what is missing, with the usual mode."""
        self.write("file", "theirs")
        self.save("file", b"mine")
        self.assertEqual(self.content("file"), b"mine")
        before = os.umask(0o027)
        self.addCleanup(os.umask, before)
        self.save("made", b"")
        self.assertEqual(self.content("made"), b"")
        mode = os.stat(os.path.join(self.project, "made")).st_mode
        self.assertEqual(stat.S_IMODE(mode), 0o640)

    def test_nothing_is_made_in_a_directory_that_is_missing(self) -> None:
        """Directories are made on their own."""
        self.failure(self.files.save(self.saving("no/file")), files.NOT_FOUND)
        self.assertEqual(os.listdir(self.project), [])

    def test_the_file_stays_the_same(self) -> None:
        """Inode, mode, owner and all of its names; shorter and longer contents."""
        path = self.write("file", "old content")
        other = os.path.join(self.project, "other")
        os.link(path, other)
        os.chmod(path, 0o751)
        before = os.stat(path)
        for data in (b"x", b"", b"a longer content than it had"):
            self.save("file", data)
            after = os.stat(path)
            for name in ("st_ino", "st_mode", "st_uid", "st_gid", "st_nlink"):
                self.assertEqual(getattr(after, name), getattr(before, name))
            self.assertEqual(self.content("other"), data)

    def test_a_link_is_written_through(self) -> None:
        """And stays a link; one to nothing makes what it names."""
        self.write("a/file", "old")
        os.symlink("a/file", os.path.join(self.project, "link"))
        os.symlink("a/made", os.path.join(self.project, "dangling"))
        self.save("link", b"new")
        self.save("dangling", b"made")
        self.assertEqual((self.content("a/file"), self.content("a/made")), (b"new", b"made"))
        for name in ("link", "dangling"):
            self.assertTrue(os.path.islink(os.path.join(self.project, name)))

    def test_only_files_are_written(self) -> None:
        """No directory, no pipe; nothing blocks."""
        os.mkdir(os.path.join(self.project, "directory"))
        os.mkfifo(os.path.join(self.project, "pipe"))
        for path in ("directory", "pipe", "."):
            self.failure(self.files.save(self.saving(path)), files.NOT_A_FILE)

    def test_four_mebibytes_and_one_byte_more(self) -> None:
        """The most that is saved, and what is refused with the file as it was."""
        self.save("file", b"x" * CONTENT_BYTES)
        self.failure(
            self.files.save(self.saving("file", b"y" * (CONTENT_BYTES + 1))), files.TOO_LARGE
        )
        self.assertEqual(self.content("file"), b"x" * CONTENT_BYTES)

    def test_a_larger_file_can_be_overwritten(self) -> None:
        """What is bounded is what is sent."""
        self.write("file", b"x" * (CONTENT_BYTES + 1))
        self.save("file", b"small")
        self.assertEqual(self.content("file"), b"small")


class RaceTests(FilesCase):
    """What others do between the steps of a save."""

    def setUp(self) -> None:
        super().setUp()
        self.write("file", "old")
        self.write("secret", "outside", where=self.outside)

    def before(self, name: str, change: Callable[[], object]) -> None:
        """Do something right before one function of the module is called, once."""
        real = getattr(saving, name)
        left = [change]

        def meanwhile(*args: Any) -> Any:
            if left:
                left.pop()()
            return real(*args)

        self.patch(saving, name, meanwhile)

    def conflict(self, path: str = "file") -> None:
        """Assert that a save that asks nothing ends as a conflict all the same."""
        self.failure(self.files.save(self.saving(path, b"mine")), files.REVISION_CONFLICT)

    def swap(self) -> None:
        """Put a link to the outside in the place of the file."""
        path = os.path.join(self.project, "file")
        os.unlink(path)
        os.symlink(f"{self.outside}/secret", path)

    def unchanged_outside(self) -> None:
        with open(f"{self.outside}/secret", "rb") as file:
            self.assertEqual(file.read(), b"outside")
        self.assertEqual(os.listdir(self.outside), ["secret"])

    def test_a_link_in_the_file_s_place(self) -> None:
        """After it was found: it is not followed."""
        self.before("open_leaf", self.swap)
        self.conflict()
        self.unchanged_outside()

    def test_a_link_where_a_file_is_to_be_made(self) -> None:
        """It is not followed either."""
        target = os.path.join(self.project, "new")
        self.before("_make", lambda: os.symlink(f"{self.outside}/new", target))
        self.conflict("new")
        self.unchanged_outside()

    def test_a_file_where_one_is_to_be_made(self) -> None:
        """Somebody was faster; theirs stays."""
        self.before("_make", lambda: self.write("new", "theirs"))
        self.conflict("new")
        self.assertEqual(self.content("new"), b"theirs")

    def test_another_file_before_the_lock(self) -> None:
        """What was locked is not what is there now."""
        self.before(
            "save_file",
            lambda: os.replace(self.write("other", "theirs"), os.path.join(self.project, "file")),
        )
        self.conflict()
        self.assertEqual(self.content("file"), b"theirs")

    def test_another_file_after_it_was_opened(self) -> None:
        """What was written is not in the file that is there: the saver is told."""
        self.before(
            "_replace",
            lambda: os.replace(self.write("other", "theirs"), os.path.join(self.project, "file")),
        )
        self.conflict()
        self.assertEqual(self.content("file"), b"theirs")

    def test_deleted_after_it_was_opened(self) -> None:
        """Likewise."""
        self.before("_replace", lambda: os.unlink(os.path.join(self.project, "file")))
        self.conflict()

    def test_the_directory_moved_away(self) -> None:
        """And something else in its place: nothing is written there."""
        self.write("d/file", "old")

        def move() -> None:
            os.rename(os.path.join(self.project, "d"), os.path.join(self.project, "moved"))
            os.symlink(self.outside, os.path.join(self.project, "d"))

        self.before("open_leaf", move)
        self.conflict("d/file")
        self.unchanged_outside()

    def test_an_external_writer_is_seen(self) -> None:
        """Until right before the first byte: a save that expects a revision is refused."""
        expected = self.successResultOf(self.files.revision(self.target("file")))

        def write() -> None:
            self.write("file", "theirs, longer")

        self.before("_overwrite", write)
        save = self.files.save(self.saving("file", b"mine", expected, "reject"))
        self.failure(save, files.REVISION_CONFLICT)
        self.assertEqual(self.content("file"), b"theirs, longer")


class FailingDiskTests(FilesCase):
    """A disk that fails in the middle."""

    def setUp(self) -> None:
        super().setUp()
        self.path = self.write("file", "the old content")
        self.failing: dict[str, list[int | None]] = {}
        """By call, how it fails each time: None is well."""
        for name in ("pwrite", "ftruncate", "fsync", "posix_fallocate"):
            self._patched(name)

    def _patched(self, name: str) -> None:
        real = getattr(os, name)

        def call(*args: Any) -> Any:
            left = self.failing.get(name)
            number = left.pop(0) if left else None
            if number is not None:
                raise OSError(number, os.strerror(number))
            return real(*args)

        self.patch(os, name, call)

    def save(self, data: bytes, code: str, path: str = "file") -> int:
        """Save and return the status of the failure."""
        return self.failure(self.files.save(self.saving(path, data)), code).status

    def test_no_room_is_known_before_anything_is_lost(self) -> None:
        """The room for a longer content is taken first."""
        self.failing = {"posix_fallocate": [errno.ENOSPC]}
        self.assertEqual(self.save(b"new" * 100, files.NO_SPACE), 507)
        self.assertEqual(self.content("file"), b"the old content")

    def test_what_was_overwritten_is_put_back(self) -> None:
        """However far it came, and whatever the disk said."""
        for failing in (
            {"pwrite": [errno.ENOSPC]},
            {"ftruncate": [errno.EDQUOT]},
            {"fsync": [errno.ENOSPC]},
        ):
            self.failing = failing  # type: ignore[assignment]
            self.save(b"new", files.NO_SPACE)
            self.assertEqual(self.content("file"), b"the old content")
        self.failing = {"fsync": [errno.EIO]}
        self.assertEqual(self.save(b"new" * 10, files.FAILED), 500)
        self.assertEqual(self.content("file"), b"the old content")

    def test_what_cannot_be_put_back_is_said(self) -> None:
        """Nobody is told that all is well."""
        self.failing = {"fsync": [errno.EIO], "pwrite": [None, errno.EIO]}
        self.assertEqual(self.save(b"new", files.SAVE_INCOMPLETE), 500)

    def test_a_file_that_could_not_be_filled_is_not_there(self) -> None:
        """As before."""
        for name in ("pwrite", "fsync"):
            self.failing = {name: [errno.ENOSPC]}
            self.save(b"new", files.NO_SPACE, "made")
            self.assertEqual(os.listdir(self.project), ["file"])

    def test_a_file_system_without_reservations(self) -> None:
        """Is written all the same."""
        self.failing = {"posix_fallocate": [errno.EOPNOTSUPP]}
        self.successResultOf(self.files.save(self.saving("file", b"new" * 10)))
        self.assertEqual(self.content("file"), b"new" * 10)

    def test_nothing_is_left_open(self) -> None:
        """After failures of every kind."""
        before = self.held_files()
        for name in ("posix_fallocate", "pwrite", "ftruncate", "fsync"):
            for path in ("file", "made"):
                self.failing = {name: [errno.ENOSPC]}
                self.files.save(self.saving(path, b"n")).addErrback(lambda _: None)
        self.assertEqual(self.held_files(), before)


class DirectoryTests(FilesCase):
    """``POST /files/directories``."""

    def test_one_directory_is_made(self) -> None:
        """In a directory of the base, or in the base."""
        made = self.successResultOf(self.files.create_directory("project", "new"))
        self.assertEqual((made.name, made.path), ("new", f"{self.project}/new"))
        self.assertTrue(os.path.isdir(made.path))
        made = self.successResultOf(self.files.create_directory(None, "other"))
        self.assertEqual(made.path, f"{self.base}/other")

    def test_names(self) -> None:
        """One name of at most 255 bytes; nothing that leads anywhere."""
        for name in ("", ".", "..", "a/b", "/", "a\0", "ü" * 128):
            self.failure(self.files.create_directory(None, name), "VALIDATION_FAILED")
        self.successResultOf(self.files.create_directory(None, "ü" * 127 + "x"))

    def test_what_is_there_stays(self) -> None:
        """Whatever it is; links count by themselves."""
        os.symlink(self.outside, os.path.join(self.project, "link"))
        self.write("file", "x")
        for name in ("link", "file"):
            error = self.failure(self.files.create_directory("project", name), files.EXISTS)
            self.assertEqual(error.status, 409)

    def test_only_inside(self) -> None:
        """Of the base, in a directory that is there."""
        os.symlink(self.outside, os.path.join(self.project, "out"))
        self.write("file")
        for path, code in (
            (self.outside, files.OUTSIDE),
            ("project/out", files.OUTSIDE),
            ("missing", files.TREE_NOT_FOUND),
            ("project/file", files.TREE_DIRECTORY_REQUIRED),
        ):
            self.failure(self.files.create_directory(path, "new"), code)
        self.assertEqual(os.listdir(self.outside), [])
