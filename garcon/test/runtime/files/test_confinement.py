"""Nothing outside the project is reached, by whatever path (server.md D.1)."""

from __future__ import annotations

import os

from garcon.contract import files
from garcon.runtime.files.walk import open_root
from garcon.test.runtime.files.cast import FilesCase


class PathTests(FilesCase):
    """Which paths lead to a file."""

    def setUp(self) -> None:
        super().setUp()
        self.write("a/b/file", "inside")
        self.write("secret", "outside", where=self.outside)

    def read(self, path: str) -> bytes:
        """Return what is read at a path of the project."""
        return self.successResultOf(self.files.read(self.target(path))).data

    def assert_outside(self, path: str) -> None:
        """Assert that every operation refuses a path of the project."""
        for d in (
            self.files.read(self.target(path)),
            self.files.revision(self.target(path)),
            self.files.save(self.saving(path)),
        ):
            error = self.failure(d, files.OUTSIDE)
            self.assertEqual((error.status, error.retryable), (403, False))

    def test_relative_and_absolute_paths(self) -> None:
        """Both mean a file of the project; dots are followed as the system does."""
        for path in ("a/b/file", "./a//b/./file", "a/b/../b/file", f"{self.project}/a/b/file"):
            self.assertEqual(self.read(path), b"inside")

    def test_dots_do_not_lead_out(self) -> None:
        """Not even through names that do not exist."""
        for path in (
            "../../outside/secret",
            "..",
            "/",
            "missing/../../../outside/secret",
            f"{self.outside}/secret",
            "/etc/passwd",
        ):
            self.assert_outside(path)

    def test_nothing_is_said_of_what_lies_outside(self) -> None:
        """There or not, a directory or a file: the refusal is the same."""
        os.chmod(self.outside, 0o700)
        for path in ("nothing", "secret", "secret/below", ""):
            self.assert_outside(os.path.join(self.outside, path))

    def test_another_project_of_the_base_is_outside(self) -> None:
        """A file belongs to the project it was asked for."""
        self.write("other/file", "x", where=self.base)
        self.assert_outside("../other/file")
        self.assert_outside(f"{self.base}/other/file")

    def test_links_inside_are_followed(self) -> None:
        """Relative and absolute ones, to files and to directories, and several after each other."""
        os.symlink("b", os.path.join(self.project, "a/link"))
        os.symlink(os.path.join(self.project, "a/link"), os.path.join(self.project, "far"))
        os.symlink("far/file", os.path.join(self.project, "leaf"))
        for path in ("a/link/file", "far/file", "leaf", "far/../b/file"):
            self.assertEqual(self.read(path), b"inside")

    def test_links_that_lead_out_are_refused(self) -> None:
        """To a file, to a directory, over a link, and where nothing is yet."""
        os.symlink(f"{self.outside}/secret", os.path.join(self.project, "file"))
        os.symlink("../../outside", os.path.join(self.project, "directory"))
        os.symlink("directory", os.path.join(self.project, "again"))
        os.symlink(f"{self.outside}/new", os.path.join(self.project, "dangling"))
        for path in ("file", "directory/secret", "again/secret", "dangling", "directory/x/y"):
            self.assert_outside(path)
        self.assertEqual(os.listdir(self.outside), ["secret"])

    def test_a_link_that_leads_out_and_back_is_inside(self) -> None:
        """Where it ends counts."""
        os.symlink(self.project, os.path.join(self.outside, "back"))
        os.symlink(f"{self.outside}/back/a", os.path.join(self.project, "around"))
        self.assertEqual(self.read("around/b/file"), b"inside")

    def test_as_many_links_as_the_system_follows(self) -> None:
        """Forty in one path, not one more; nor do links that go in circles."""
        os.symlink("a/b/file", os.path.join(self.project, "link1"))
        for number in range(2, 42):
            os.symlink(f"link{number - 1}", os.path.join(self.project, f"link{number}"))
        self.assertEqual(self.read("link40"), b"inside")
        self.failure(self.files.read(self.target("link41")), files.NOT_FOUND)
        os.symlink("circle", os.path.join(self.project, "circle"))
        self.failure(self.files.read(self.target("circle")), files.NOT_FOUND)

    def test_a_base_that_is_a_link(self) -> None:
        """Both of its spellings work, and what is told is canonical."""
        spelling = os.path.join(self.top, "spelling")
        os.symlink(self.base, spelling)
        for base in (spelling, self.base):
            with open_root(base) as root:
                self.assertEqual(root.path, self.base)
                for path in (f"{spelling}/project/a/b/file", f"{self.base}/project/a/b/file"):
                    with root.find(path) as place:
                        self.assertEqual(place.path, f"{self.project}/a/b/file")
                        self.assertEqual(place.relative_path, "project/a/b/file")

    def test_other_names_of_a_file(self) -> None:
        """A hard link in the project is a file of the project, wherever its other names are."""
        os.link(f"{self.outside}/secret", os.path.join(self.project, "mine"))
        self.assertEqual(self.read("mine"), b"outside")

    def test_what_cannot_be_a_path(self) -> None:
        """4,096 characters may be looked up, one more and NUL are refused."""
        longest = self.files.revision(self.target("a/" * 2047 + "no"))
        self.assertIsNone(self.successResultOf(longest))
        for path in ("x" * 4097, "a\0b"):
            self.failure(self.files.revision(self.target(path)), "VALIDATION_FAILED")
            self.failure(self.files.tree(path), "VALIDATION_FAILED")
            self.failure(self.files.project_files(path), "VALIDATION_FAILED")

    def test_a_name_that_is_too_long(self) -> None:
        """Is refused, not taken for one that is missing."""
        self.failure(self.files.read(self.target("x" * 256)), "VALIDATION_FAILED")

    def test_projects(self) -> None:
        """A project lies inside the base and is a directory."""
        self.write("file", where=self.base)
        for path, code, status in (
            (self.outside, files.OUTSIDE, 403),
            (f"{self.base}/missing", "PROJECT_PATH_NOT_FOUND", 404),
            (f"{self.base}/file", "PROJECT_PATH_NOT_DIRECTORY", 400),
        ):
            error = self.failure(self.files.project_files(path), code)
            self.assertEqual(error.status, status)
        found = self.successResultOf(self.files.project_files("project/a"))
        self.assertEqual(found.project_path, f"{self.project}/a")

    def test_nothing_is_left_open(self) -> None:
        """Whatever comes of a walk."""
        os.symlink(f"{self.outside}/secret", os.path.join(self.project, "file"))
        before = self.held_files()
        for path in ("a/b/file", "a/../a/b", "file", "missing/x", "a/b/file/x", "../..", "/etc"):
            for d in (
                self.files.read(self.target(path)),
                self.files.revision(self.target(path)),
                self.files.identity(self.target(path)),
                self.files.save(self.saving(path)),
            ):
                d.addErrback(lambda _: None)
        self.assertEqual(self.held_files(), before)


class IdentityTests(FilesCase):
    """Which file is meant (server.md D.2)."""

    def setUp(self) -> None:
        super().setUp()
        self.write("a/file")

    def test_a_file_is_identified_by_its_root_and_its_path(self) -> None:
        """However it was spelled."""
        for path in ("a/file", "./a//file", "b/../a/file"):
            found = self.successResultOf(self.files.identity(self.target(path)))
            self.assertEqual(
                (found.canonical_file_root_path, found.normalized_relative_path),
                (self.project, "a/file"),
            )

    def test_paths_that_are_not_below_the_project(self) -> None:
        """Absolute ones, the project itself and what is above it."""
        for path in ("", ".", "..", "a/..", "../x", "a/../../x", f"{self.project}/a/file"):
            error = self.failure(self.files.identity(self.target(path)), "VALIDATION_FAILED")
            self.assertEqual(error.status, 400)

    def test_what_is_no_file(self) -> None:
        """A directory, a pipe, nothing, something outside."""
        os.mkfifo(os.path.join(self.project, "pipe"))
        os.symlink(self.outside, os.path.join(self.project, "out"))
        for path, code, status in (
            ("a", files.NOT_A_FILE, 400),
            ("pipe", files.NOT_A_FILE, 400),
            ("missing", files.NOT_FOUND, 404),
            ("out/file", files.OUTSIDE, 403),
        ):
            error = self.failure(self.files.identity(self.target(path)), code)
            self.assertEqual(error.status, status)
