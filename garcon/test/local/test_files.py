"""Private files: whole or not at all, and only ours."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from unittest import skipUnless

from twisted.trial.unittest import SynchronousTestCase

from garcon.local.files import (
    InsecureFile,
    private_directory,
    read_private,
    remove_if_there,
    write_private,
)


class WriteTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = Path(self.mktemp())
        self.folder.mkdir()
        self.path = self.folder / "secret.json"

    def test_mode_is_0600_whatever_the_umask(self) -> None:
        """The file is readable by its owner alone, even under a permissive or a strict umask."""
        for mask in (0o000, 0o277):
            previous = os.umask(mask)
            try:
                write_private(self.path, b"x")
            finally:
                os.umask(previous)
            self.assertEqual(0o600, stat.S_IMODE(self.path.stat().st_mode))

    def test_replaces_whole(self) -> None:
        """A second write leaves the new content only, and no other file."""
        write_private(self.path, b"first, and longer")
        write_private(self.path, b"second")
        self.assertEqual(b"second", read_private(self.path))
        self.assertEqual(["secret.json"], os.listdir(self.folder))

    def test_replaces_a_link_not_its_target(self) -> None:
        """Writing over a symbolic link leaves what it pointed at alone."""
        other = self.folder / "other"
        other.write_bytes(b"theirs")
        self.path.symlink_to(other)
        write_private(self.path, b"ours")
        self.assertEqual(b"theirs", other.read_bytes())
        self.assertFalse(self.path.is_symlink())

    def test_failure_leaves_nothing(self) -> None:
        """When the target cannot be replaced the temporary file is gone and the error is told."""
        self.path.mkdir()
        self.assertRaises(OSError, write_private, self.path, b"x")
        self.assertEqual(["secret.json"], os.listdir(self.folder))

    def test_exclusive_keeps_what_is_there(self) -> None:
        """Without replacing, an existing file stays as it is."""
        self.path.write_bytes(b"theirs")
        self.assertRaises(FileExistsError, write_private, self.path, b"ours", replace=False)
        self.assertEqual(b"theirs", self.path.read_bytes())
        self.assertEqual(["secret.json"], os.listdir(self.folder))

    def test_exclusive_makes_a_new_one(self) -> None:
        """Without replacing, a missing file is written all the same."""
        write_private(self.path, b"ours", replace=False)
        self.assertEqual(b"ours", read_private(self.path))
        self.assertEqual(["secret.json"], os.listdir(self.folder))

    def test_existing_directories_keep_their_mode(self) -> None:
        """A directory that is there is never changed; a new one is private."""
        self.folder.chmod(0o755)
        private_directory(self.folder / "new")
        private_directory(self.folder)
        self.assertEqual(0o755, stat.S_IMODE(self.folder.stat().st_mode))
        self.assertEqual(0o700, stat.S_IMODE((self.folder / "new").stat().st_mode))

    def test_parents_are_private_too(self) -> None:
        """A worker makes the config root on its way to its own folder."""
        private_directory(self.folder / "root" / "executor")
        for name in ("root", "root/executor"):
            self.assertEqual(0o700, stat.S_IMODE((self.folder / name).stat().st_mode), name)

    def test_removing(self) -> None:
        """Removing says whether there was anything."""
        write_private(self.path, b"x")
        self.assertTrue(remove_if_there(self.path))
        self.assertFalse(remove_if_there(self.path))


class ReadTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = Path(self.mktemp())
        self.folder.mkdir()
        self.path = self.folder / "secret.json"
        write_private(self.path, b"ours")

    def test_absent_is_its_own_answer(self) -> None:
        """A missing file is missing, not insecure."""
        self.assertRaises(FileNotFoundError, read_private, self.folder / "other")

    def test_any_foreign_bit_is_refused(self) -> None:
        """Each group and other bit by itself makes the file insecure; 0400 does not."""
        for bit in (0o040, 0o020, 0o010, 0o004, 0o002, 0o001):
            self.path.chmod(0o600 | bit)
            self.assertRaises(InsecureFile, read_private, self.path)
        self.path.chmod(0o400)
        self.assertEqual(b"ours", read_private(self.path))

    def test_links_are_refused(self) -> None:
        """A symbolic link is not followed, not even to a private file, and not if it dangles."""
        link = self.folder / "link"
        link.symlink_to(self.path)
        self.assertRaises(InsecureFile, read_private, link)
        link.unlink()
        link.symlink_to(self.folder / "nowhere")
        self.assertRaises(InsecureFile, read_private, link)

    def test_only_regular_files(self) -> None:
        """A directory and a pipe are refused, and the pipe does not block."""
        folder, pipe = self.folder / "folder", self.folder / "pipe"
        folder.mkdir(0o700)
        os.mkfifo(pipe, 0o600)
        self.assertRaises(InsecureFile, read_private, folder)
        self.assertRaises(InsecureFile, read_private, pipe)

    def test_size_is_bounded(self) -> None:
        """A file of exactly the limit is read, one byte more is refused."""
        self.assertEqual(b"ours", read_private(self.path, 4))
        self.assertRaises(InsecureFile, read_private, self.path, 3)

    @skipUnless(os.geteuid() == 0, "giving a file away takes root")
    def test_another_owner_is_refused(self) -> None:
        """A file of someone else is insecure, even to root."""
        os.chown(self.path, 65_534, 65_534)
        self.assertRaises(InsecureFile, read_private, self.path)
