"""Directories and projects as they are shown (server.md D.2)."""

from __future__ import annotations

import os
import unicodedata

import msgspec

from garcon.contract import files
from garcon.contract.files import Entry, ListedDirectory
from garcon.runtime.files import listing, tree
from garcon.runtime.files.naming import sort_key
from garcon.runtime.files.service import LocalFiles
from garcon.runtime.files.stopping import Stop, Stopped
from garcon.test.runtime.files.cast import FilesCase

NOT_TEXT = b"\xff\xfe"


class TreeTests(FilesCase):
    """``GET /files/tree``."""

    def tree(self, path: str | None = None) -> files.Tree:
        return self.successResultOf(self.files.tree(path))

    def names(self, path: str | None = None) -> list[str]:
        return [entry.name for entry in self.tree(path).entries]

    def test_the_base_is_where_it_begins(self) -> None:
        """It has no relative path and no parent, and is the only breadcrumb."""
        for path in (None, "", self.base, "."):
            shown = self.tree(path)
            self.assertEqual(shown.file_root_path, self.base)
            where = shown.directory
            self.assertEqual(
                (where.path, where.relative_path, where.parent_path), (self.base, "", None)
            )
            self.assertEqual([crumb.path for crumb in where.breadcrumbs], [self.base])

    def test_below_the_base(self) -> None:
        """Breadcrumbs lead from the base to the directory."""
        self.write("a/file")
        where = self.tree("project/a").directory
        self.assertEqual(where.relative_path, "project/a")
        self.assertEqual(where.parent_path, self.project)
        self.assertEqual(
            [(crumb.name, crumb.path) for crumb in where.breadcrumbs],
            [("base", self.base), ("project", self.project), ("a", f"{self.project}/a")],
        )

    def test_an_entry(self) -> None:
        """Size, time and permissions; hidden names are shown."""
        relative, modified = "project/.hidden", "2023-11-14T22:13:20.123Z"
        path = self.write(".hidden", "12345")
        os.chmod(path, 0o4751)
        os.utime(path, ns=(0, 1_700_000_000_123_999_999))
        (entry,) = self.tree("project").entries
        self.assertEqual(
            entry,
            Entry(".hidden", path, relative, "file", 5, modified, "rwxr-x--x"),
        )

    def test_directories_first_then_names_as_people_read_them(self) -> None:
        """Capitals and marks do not part what belongs together."""
        for name in ("b", "A.txt", "é.txt", "E.txt", "f.txt", "Z", "a.txt"):
            if "." in name:
                self.write(name)
            else:
                os.mkdir(os.path.join(self.project, name))
        expected = ["b", "Z", "a.txt", "A.txt", "E.txt", "é.txt", "f.txt"]
        self.assertEqual(self.names("project"), expected)

    def test_links_are_what_they_lead_to(self) -> None:
        """What leads out, nowhere or in circles is left out."""
        self.write("d/file", "1234")
        for name, target in (
            ("to-file", "d/file"),
            ("to-directory", "d"),
            ("to-base", self.base),
            ("out", self.outside),
            ("nothing", "missing"),
            ("circle", "circle"),
        ):
            os.symlink(target, os.path.join(self.project, name))
        found = {entry.name: (entry.type, entry.path) for entry in self.tree("project").entries}
        self.assertEqual(
            found,
            {
                "d": ("directory", f"{self.project}/d"),
                "to-base": ("directory", f"{self.project}/to-base"),
                "to-directory": ("directory", f"{self.project}/to-directory"),
                "to-file": ("file", f"{self.project}/to-file"),
            },
        )

    def test_names_that_are_not_text_are_counted(self) -> None:
        """No JSON can hold them."""
        self.write("file")
        for name in (NOT_TEXT, b"a" + NOT_TEXT):
            with open(os.path.join(os.fsencode(self.project), name), "wb"):
                pass
        shown = self.tree("project")
        self.assertEqual((len(shown.entries), shown.omitted_names), (1, 2))
        msgspec.json.encode(shown)

    def test_a_directory_whose_name_is_not_text(self) -> None:
        """Reached by a link, it cannot be shown, and that is said."""
        os.mkdir(os.path.join(os.fsencode(self.project), NOT_TEXT))
        os.symlink(NOT_TEXT, os.path.join(os.fsencode(self.project), b"link"))
        self.failure(self.files.tree("project/link"), "VALIDATION_FAILED")
        self.failure(self.files.project_files("project/link"), "VALIDATION_FAILED")
        self.failure(self.files.read(self.target("link/file")), "VALIDATION_FAILED")

    def test_names_that_differ_only_by_normalization(self) -> None:
        """Are two files, and each is reached by its own name."""
        composed = unicodedata.normalize("NFC", "café")
        apart = unicodedata.normalize("NFD", "café")
        self.write(composed, "composed")
        self.write(apart, "apart")
        self.assertEqual(sorted(self.names("project")), sorted((composed, apart)))
        for name in (composed, apart):
            found = self.successResultOf(self.files.identity(self.target(name)))
            self.assertEqual(found.normalized_relative_path, name)
        self.successResultOf(self.files.save(self.saving(apart, b"new")))
        self.assertEqual((self.content(composed), self.content(apart)), (b"composed", b"new"))

    def test_what_cannot_be_shown(self) -> None:
        """A file, nothing, what lies outside."""
        self.write("file")
        for path, code, status in (
            ("project/file", files.TREE_DIRECTORY_REQUIRED, 400),
            ("missing", files.TREE_NOT_FOUND, 404),
            ("project/file/x", files.TREE_NOT_FOUND, 404),
            (self.outside, files.OUTSIDE, 403),
        ):
            for d in (self.files.tree(path), self.files.browse(path)):
                error = self.failure(d, code)
                self.assertEqual((error.status, error.retryable), (status, False))

    def test_where_home_is(self) -> None:
        """Told where it is inside the base."""
        self.assertIsNone(self.tree().home_directory)
        shown = self.successResultOf(
            LocalFiles(self.clock, self.base, self.project, in_thread=self.in_thread).tree(None)
        )
        home = shown.home_directory
        assert home is not None
        self.assertEqual(home.path, self.project)
        self.assertEqual([crumb.name for crumb in home.breadcrumbs], ["base", "project"])

    def test_as_many_entries_as_are_shown(self) -> None:
        """And not one more, whatever there is beside them."""
        self.patch(tree, "LIST_ENTRIES", 10)
        for number in range(10):
            os.mkdir(os.path.join(self.project, f"{number}"))
        os.symlink("missing", os.path.join(self.project, "link"))
        self.assertEqual(len(self.names("project")), 10)
        self.assertEqual(len(self.successResultOf(self.files.browse("project")).directories), 10)
        os.mkdir(os.path.join(self.project, "more"))
        for d in (self.files.tree("project"), self.files.browse("project")):
            self.assertEqual(self.failure(d, files.LIST_TOO_LARGE).status, 413)

    def test_the_bound_of_entries(self) -> None:
        """Ten thousand and one mebibyte, as the contract has it."""
        self.assertEqual((files.LIST_ENTRIES, files.LIST_BYTES), (10_000, 1024 * 1024))

    def test_as_many_bytes_as_are_shown(self) -> None:
        """Of JSON; one more is too many."""
        self.write("file")
        size = len(msgspec.json.encode(self.tree("project")))
        self.patch(tree, "LIST_BYTES", size)
        self.assertEqual(self.names("project"), ["file"])
        self.patch(tree, "LIST_BYTES", size - 1)
        self.failure(self.files.tree("project"), files.LIST_TOO_LARGE)

    def test_nothing_is_left_open(self) -> None:
        """Links that lead out, refusals, whole trees."""
        self.test_links_are_what_they_lead_to()
        before = self.held_files()
        for path in (None, "project", "missing", self.outside, "project/d/file"):
            self.files.tree(path).addErrback(lambda _: None)
            self.files.browse(path).addErrback(lambda _: None)
            self.files.project_files(path or "").addErrback(lambda _: None)
        self.assertEqual(self.held_files(), before)

    def test_work_that_nobody_waits_for_stops(self) -> None:
        """At the next entry."""
        self.write("file")
        for work in (
            lambda stop: tree.tree(self.base, None, "", stop),
            lambda stop: tree.browse(self.base, None, stop),
            lambda stop: listing.project_files(self.base, "project", stop),
        ):
            with self.assertRaises(Stopped):
                work(Stop(is_set=True))


class BrowseTests(FilesCase):
    """``GET /files/browse``."""

    def test_directories_by_name(self) -> None:
        """Links to directories count, files do not, and some names are not of interest."""
        for name in ("b", "a", ".git", "node_modules", "dist", "build", ".svn", ".hg", ".config"):
            os.mkdir(os.path.join(self.project, name))
        self.write("file")
        os.symlink("a", os.path.join(self.project, "link"))
        os.symlink("file", os.path.join(self.project, "to-file"))
        os.symlink(self.outside, os.path.join(self.project, "out"))
        with open(os.path.join(os.fsencode(self.project), NOT_TEXT), "wb"):
            pass
        found = self.successResultOf(self.files.browse("project"))
        self.assertEqual(
            found.directories,
            [
                ListedDirectory(name, f"{self.project}/{name}")
                for name in (".config", "a", "b", "link")
            ],
        )
        self.assertEqual(found.omitted_names, 1)


class ListTests(FilesCase):
    """``GET /files/list``."""

    def list(self) -> files.ProjectFiles:
        return self.successResultOf(self.files.project_files("project"))

    def test_files_depth_first_in_the_order_of_names(self) -> None:
        """By paths relative to the project."""
        for path in ("b/z", "b/a/file", "a.txt", "c", "B.txt"):
            self.write(path)
        found = self.list()
        self.assertEqual(found.project_path, self.project)
        self.assertEqual(found.relative_paths, ["a.txt", "b/a/file", "b/z", "B.txt", "c"])
        self.assertFalse(found.truncated)

    def test_names_that_are_skipped(self) -> None:
        """At every level."""
        for name in ("node_modules", "dist", "build", ".git", ".svn", ".hg"):
            self.write(f"{name}/file")
            self.write(f"a/{name}/file")
        self.write("a/.github/file")
        self.assertEqual(self.list().relative_paths, ["a/.github/file"])

    def test_only_files(self) -> None:
        """Links to files of the project are such, linked directories are not entered."""
        self.write("d/file")
        self.write("secret", where=self.outside)
        os.mkfifo(os.path.join(self.project, "pipe"))
        for name, target in (
            ("to-file", "d/file"),
            ("to-directory", "d"),
            ("circle", "."),
            ("out", f"{self.outside}/secret"),
            ("nothing", "missing"),
        ):
            os.symlink(target, os.path.join(self.project, name))
        self.assertEqual(self.list().relative_paths, ["d/file", "to-file"])

    def test_ten_directories_deep_and_not_eleven(self) -> None:
        """Counted from the project."""
        ten = "/".join(f"d{number}" for number in range(10))
        self.write(f"{ten}/file")
        self.write(f"{ten}/more/file")
        self.assertEqual(self.list().relative_paths, [f"{ten}/file"])

    def test_as_many_files_as_are_listed(self) -> None:
        """One more, and it says that there are more."""
        self.assertEqual(files.LIST_FILES, 10_000)
        self.patch(listing, "LIST_FILES", 5)
        for number in range(5):
            self.write(f"d/{number}")
        found = self.list()
        self.assertEqual((len(found.relative_paths), found.truncated), (5, False))
        self.write("e")
        found = self.list()
        self.assertEqual((len(found.relative_paths), found.truncated), (5, True))

    def test_as_many_bytes_as_an_answer_holds(self) -> None:
        """A deep project is cut before its answer is too large."""
        self.write("a")
        self.patch(
            listing,
            "LARGEST_LISTING",
            2 * (2 + len(self.project) + 1 + files.ENTRY_OVERHEAD),
        )
        self.write("b")
        self.assertFalse(self.list().truncated)
        self.write("c")
        found = self.list()
        self.assertEqual((found.relative_paths, found.truncated), (["a", "b"], True))

    def test_names_that_are_not_text_are_counted(self) -> None:
        """Below the project too."""
        self.write("d/file")
        for where in (self.project, f"{self.project}/d"):
            with open(os.path.join(os.fsencode(where), NOT_TEXT), "wb"):
                pass
        found = self.list()
        self.assertEqual((found.relative_paths, found.omitted_names), (["d/file"], 2))

    def test_a_directory_with_too_many_names(self) -> None:
        """Is cut as well."""
        self.patch(listing, "LARGEST_DIRECTORY", 3)
        for name in "abc":
            self.write(name)
        self.assertFalse(self.list().truncated)
        self.write("d")
        found = self.list()
        self.assertEqual((len(found.relative_paths), found.truncated), (3, True))


class OrderTests(FilesCase):
    """The order of names."""

    def test_no_two_names_are_equal(self) -> None:
        """So that every listing has the same order."""
        names = ["a", "A", "á", "Á", unicodedata.normalize("NFD", "á"), "\uff41"]
        self.assertEqual(len({sort_key(name) for name in names}), len(names))
        self.assertEqual(sorted(reversed(names), key=sort_key), sorted(names, key=sort_key))
