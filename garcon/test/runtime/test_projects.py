"""Project directories, resolved inside an executor's base."""

from __future__ import annotations

import os
from pathlib import Path
from unittest import skipUnless

from twisted.trial.unittest import SynchronousTestCase

from garcon.errors import GarconError
from garcon.runtime.projects import NO_ACCESS, PATH_CHARACTERS, inspect


class Inspection(SynchronousTestCase):
    def setUp(self) -> None:
        root = Path(self.mktemp()).resolve()
        self.base, self.outside = root / "base", root / "base-not"
        (self.base / "project").mkdir(parents=True)
        self.outside.mkdir()
        (self.base / "file").write_text("")

    def refusal(self, path: str) -> tuple[str, int]:
        error = self.assertRaises(GarconError, inspect, path, str(self.base))
        return error.code, error.status

    def test_project_is_canonical(self) -> None:
        """Links and dots are resolved, in the path and in the base; key and path are the same."""
        (self.base / "link").symlink_to("project")
        alias = self.base.parent / "alias"
        alias.symlink_to(self.base)
        for path in ("project", "link", "./x/../project", "project/"):
            for base in (self.base, alias):
                found = inspect(str(alias / path), str(base))
                self.assertEqual(found.project_path, str(self.base / "project"))
                self.assertEqual(found.project_key, found.project_path)

    def test_base_itself_is_inside(self) -> None:
        """The base may be a project."""
        self.assertEqual(inspect(str(self.base), str(self.base)).project_path, str(self.base))
        self.assertEqual(inspect("/", "/").project_path, "/")

    def test_relative_path_is_the_bases(self) -> None:
        """What is not absolute is taken from the base."""
        self.assertEqual(
            inspect("project", str(self.base)).project_path, str(self.base / "project")
        )

    def test_outside_is_refused_whether_it_exists_or_not(self) -> None:
        """Nobody learns what lies outside, by dots, links or a common beginning of the name."""
        (self.base / "out").symlink_to(self.outside)
        for path in ("..", "/", str(self.outside), str(self.outside / "gone"), "out", "out/gone"):
            self.assertEqual(self.refusal(path), ("PROJECT_PATH_OUTSIDE_BASE", 403), path)
        error = self.assertRaises(GarconError, inspect, "/", str(self.base))
        self.assertIn(f"directory, {self.base}.", error.text)

    def test_missing_and_wrong_kinds(self) -> None:
        """What is not there, cannot be followed, or is no directory."""
        (self.base / "loop").symlink_to("loop")
        for path in ("gone", "loop", "file/below"):
            self.assertEqual(self.refusal(path), ("PROJECT_PATH_NOT_FOUND", 404), path)
        self.assertEqual(self.refusal("file"), ("PROJECT_PATH_NOT_DIRECTORY", 400))

    def test_what_is_no_path(self) -> None:
        """Empty, with NUL, too long, or a name that no wire could carry."""
        os.mkdir(os.fsencode(self.base) + b"/\xff")
        for path in ("", "a\0b", "\udcff", "x" * (PATH_CHARACTERS + 1)):
            self.assertEqual(self.refusal(path), ("VALIDATION_FAILED", 400), path[:9])
        (self.base / "odd").symlink_to(os.fsdecode(b"\xff"))
        self.assertEqual(self.refusal("odd"), ("VALIDATION_FAILED", 400))
        longest = "./" * (PATH_CHARACTERS // 2 - 4) + "project/"
        self.assertEqual(len(longest), PATH_CHARACTERS)
        self.assertEqual(self.refusal(longest + "/"), ("VALIDATION_FAILED", 400))
        inspect(longest, str(self.base))

    def test_a_repository_is_told(self) -> None:
        """The top of a work tree and everything below it, a linked work tree too; what lies above
        the base does not count.
        """
        (self.base.parent / ".git").mkdir()
        self.assertFalse(inspect("project", str(self.base)).is_git_repo)
        below = self.base / "project" / "a" / "b"
        below.mkdir(parents=True)
        (self.base / "project" / ".git").mkdir()
        for path in ("project", "project/a/b"):
            self.assertTrue(inspect(path, str(self.base)).is_git_repo, path)
        linked = self.base / "linked"
        linked.mkdir()
        (linked / ".git").write_text("gitdir: elsewhere")
        self.assertTrue(inspect("linked", str(self.base)).is_git_repo)
        (self.base / ".git").mkdir()
        for path in (str(self.base), str(linked)):
            self.assertTrue(inspect(path, str(self.base)).is_git_repo)

    @skipUnless(os.getuid() == 0, "becomes another user")
    def test_what_may_not_be_read(self) -> None:
        """A directory that this account may not look into, and what lies below it."""
        os.chmod(self.base.parent, 0o755)
        hidden = self.base / "hidden"
        (hidden / "below").mkdir(parents=True)
        hidden.chmod(0o700)
        os.seteuid(65534)
        self.addCleanup(os.seteuid, 0)
        for path in ("hidden", "hidden/below"):
            self.assertEqual(self.refusal(path), (NO_ACCESS, 403), path)
