"""The file routes (server.md D.1-D.3)."""

from __future__ import annotations

import os
from typing import Any

from garcon.contract import files, operations
from garcon.contract.files import CONTENT_BYTES, CONTENT_OPERATIONS
from garcon.contract.operations import Operation
from garcon.controller.files.operations import OMITTED, REVISION, TRUNCATED, WAITING
from garcon.runtime.files import listing
from garcon.runtime.files.service import OPERATION_TIME
from garcon.test.controller.files.cast import BARE, CHAT, WORKER, FileRoutesCase

VALIDATION = "VALIDATION_FAILED"
OF_A_FILE = (
    operations.IDENTIFY_FILE,
    operations.FILE_REVISION,
    operations.READ_TEXT,
    operations.READ_CONTENT,
    operations.SAVE_TEXT,
)
OF_A_PROJECT = (operations.LIST_FILES, *OF_A_FILE)
OF_A_DIRECTORY = (operations.FILE_TREE, operations.BROWSE_FILES, operations.MAKE_DIRECTORY)


class SelectionTests(FileRoutesCase):
    """Which executor and which project are meant."""

    def setUp(self) -> None:
        super().setUp()
        self.write("file", b"of Local")
        self.write("file", b"of the worker", self.theirs)

    def body(self, operation: Operation) -> dict[str, Any] | None:
        """Return a body that the operation takes."""
        if operation is operations.SAVE_TEXT:
            return {"content": "x", "expectedRevision": None, "conflictResolution": "overwrite"}
        return {"name": "new"} if operation is operations.MAKE_DIRECTORY else None

    def refused(self, operation: Operation, query: Any, failure: tuple[int, str, bool]) -> None:
        said = self.ask(operation, query, self.body(operation))
        self.assertEqual(said.failure, failure, operation)
        self.assertEqual(said.headers.get("Cache-Control"), "no-store")

    def read(self, **query: str) -> str:
        said = self.ask(operations.READ_TEXT, {"path": "file"} | query)
        content: str = said.body["content"]
        return content

    def test_local_unless_it_is_said_otherwise(self) -> None:
        """By the query."""
        theirs = os.path.join(self.theirs, "project")
        self.assertEqual(self.read(projectPath=self.project), "of Local")
        self.assertEqual(self.read(projectPath=self.project, executorId="local"), "of Local")
        self.assertEqual(self.read(projectPath=theirs, executorId=WORKER), "of the worker")

    def test_a_chat_s_project_is_on_its_executor(self) -> None:
        """Whether that is said or not; the project's path does not count then."""
        self.assertEqual(self.read(chatId=CHAT), "of the worker")
        self.assertEqual(self.read(chatId=CHAT, executorId=WORKER), "of the worker")
        self.assertEqual(self.read(chatId=CHAT, projectPath=self.project), "of the worker")
        self.assertEqual(self.read(chatId="", projectPath=self.project), "of Local")

    def test_another_executor_than_the_chat_s(self) -> None:
        """Is stale; also when it is said to be Local."""
        for operation in OF_A_PROJECT:
            query = {"chatId": CHAT, "executorId": "local", "path": "file"}
            self.refused(operation, query, (409, "STALE_CHAT_OWNERSHIP", False))

    def test_no_such_chat(self) -> None:
        """Or one without a directory."""
        self.chats["1767000000000002"] = ("local", "")
        for operation in OF_A_PROJECT:
            query = {"chatId": "1767000000000003", "path": "file"}
            self.refused(operation, query, (404, "SESSION_NOT_FOUND", False))
            query["chatId"] = "1767000000000002"
            self.refused(operation, query, (404, "PROJECT_PATH_NOT_FOUND", False))

    def test_neither_chat_nor_project(self) -> None:
        """And no path of a file."""
        for operation in OF_A_PROJECT:
            self.refused(operation, {"path": "file"}, (400, VALIDATION, False))
        for operation in OF_A_FILE:
            for query in ({"projectPath": self.project}, self.file("")):
                self.refused(operation, query, (400, VALIDATION, False))

    def test_executor_ids(self) -> None:
        """Local or a UUID, once."""
        for operation in (*OF_A_PROJECT, *OF_A_DIRECTORY):
            for wrong in ("", "Local", WORKER.replace("-4", "-5"), WORKER[:-1], "11111111"):
                query = self.file("file", executorId=wrong)
                self.refused(operation, query, (400, VALIDATION, False))
            twice = [*self.file("file", executorId="local").items(), ("executorId", "local")]
            self.refused(operation, twice, (400, VALIDATION, False))

    def test_executors_that_are_not_there(self) -> None:
        """Nothing falls back to Local."""
        unknown = "33333333-3333-4333-8333-333333333333"
        self.executors.states[WORKER] = "offline"
        for operation in (*OF_A_PROJECT, *OF_A_DIRECTORY):
            for where, failure in (
                (unknown, (404, "EXECUTOR_NOT_FOUND", False)),
                (WORKER, (503, "EXECUTOR_UNAVAILABLE", True)),
                (BARE, (501, files.UNSUPPORTED, False)),
            ):
                self.refused(operation, self.file("file", executorId=where), failure)

    def test_an_executor_that_is_away_for_a_moment(self) -> None:
        """Is asked: its link knows how long that can be waited for."""
        self.executors.states[WORKER] = "reconnecting"
        self.assertEqual(self.read(chatId=CHAT), "of the worker")

    def test_the_chat_s_directory_changes_meanwhile(self) -> None:
        """Before the turn of a content comes: nothing is read or written there."""
        self.held = []
        first = [
            self.asking(operations.READ_TEXT, {"chatId": CHAT, "path": "file"})
            for _ in range(CONTENT_OPERATIONS)
        ]
        query = {"chatId": CHAT, "path": "file"}
        late = [
            self.asking(operations.READ_CONTENT, query),
            self.asking(operations.SAVE_TEXT, query, self.body(operations.SAVE_TEXT)),
        ]
        self.chats[CHAT] = (WORKER, os.path.join(self.theirs, "elsewhere"))
        self.release()
        for d in first:
            self.assertEqual(self.heard(d).status, 200)
        for d in late:
            self.assertEqual(self.heard(d).failure, (409, "PROJECT_PATH_CHANGED", True))
        with open(os.path.join(self.theirs, "project", "file"), "rb") as file:
            self.assertEqual(file.read(), b"of the worker")


class LookingTests(FileRoutesCase):
    """Trees, lists and revisions."""

    def test_the_tree(self) -> None:
        """As the contract has it, member by member."""
        self.write("file", b"12345")
        said = self.ask(operations.FILE_TREE, {"path": "project"})
        self.assertEqual(said.status, 200)
        body = said.body
        self.assertEqual(
            set(body), {"fileRootPath", "directory", "entries", "homeDirectory", "omittedNames"}
        )
        self.assertEqual(
            body["directory"],
            {
                "path": self.project,
                "relativePath": "project",
                "parentPath": self.base,
                "breadcrumbs": [
                    {"name": "local", "path": self.base},
                    {"name": "project", "path": self.project},
                ],
            },
        )
        (entry,) = body["entries"]
        self.assertEqual(
            set(entry),
            {"name", "path", "relativePath", "type", "size", "modified", "permissionsRwx"},
        )
        home = body["homeDirectory"]
        self.assertEqual(home["path"], self.base)

    def test_without_a_path_the_base(self) -> None:
        """Of the executor that is asked."""
        for query, base in (({}, self.base), ({"executorId": WORKER}, self.theirs)):
            said = self.ask(operations.FILE_TREE, query)
            self.assertEqual(said.body["directory"]["path"], base)
            (one,) = self.ask(operations.BROWSE_FILES, query).body
            project = {"name": "project", "path": f"{base}/project", "type": "directory"}
            self.assertEqual(one, project)

    def test_refusals_of_the_tree(self) -> None:
        """With their own codes."""
        self.write("file")
        for path, failure in (
            ("project/file", (400, files.TREE_DIRECTORY_REQUIRED, False)),
            ("missing", (404, files.TREE_NOT_FOUND, False)),
            ("/etc", (403, files.OUTSIDE, False)),
        ):
            for operation in (operations.FILE_TREE, operations.BROWSE_FILES):
                self.assertEqual(self.ask(operation, {"path": path}).failure, failure)

    def test_the_list(self) -> None:
        """Name, path and relative path of each file."""
        self.write("a/file")
        query = {"projectPath": "project"}
        said = self.ask(operations.LIST_FILES, query)
        self.assertEqual(
            said.body,
            [
                {
                    "name": "file",
                    "path": f"{self.project}/a/file",
                    "relativePath": "a/file",
                    "type": "file",
                }
            ],
        )
        self.assertNotIn(TRUNCATED, said.headers)
        self.patch(listing, "LIST_FILES", 1)
        self.write("b")
        said = self.ask(operations.LIST_FILES, query)
        self.assertEqual((len(said.body), said.headers[TRUNCATED]), (1, "true"))

    def test_names_that_are_not_text(self) -> None:
        """Are left out and counted, in the body or in a header."""
        with open(os.path.join(os.fsencode(self.project), b"\xff"), "wb"):
            pass
        self.assertEqual(
            self.ask(operations.FILE_TREE, {"path": "project"}).body["omittedNames"], 1
        )
        for operation, query in (
            (operations.LIST_FILES, {"projectPath": "project"}),
            (operations.BROWSE_FILES, {"path": "project"}),
        ):
            said = self.ask(operation, query)
            self.assertEqual((said.body, said.headers[OMITTED]), ([], "1"))

    def test_identity(self) -> None:
        """Names the executor too."""
        self.write("a/file", base=self.theirs)
        said = self.ask(operations.IDENTIFY_FILE, {"chatId": CHAT, "path": "./a/file"})
        self.assertEqual(
            said.body,
            {
                "success": True,
                "identity": {
                    "executorId": WORKER,
                    "canonicalFileRootPath": f"{self.theirs}/project",
                    "normalizedRelativePath": "a/file",
                },
            },
        )

    def test_revision(self) -> None:
        """Of a file that is there, and of one that is not."""
        self.write("file")
        said = self.ask(operations.FILE_REVISION, self.file("file"))
        self.assertEqual(set(said.body), {"status", "revision"})
        self.assertEqual(said.body["status"], "ready")
        said = self.ask(operations.FILE_REVISION, self.file("missing"))
        self.assertEqual(said.body, {"status": "missing"})
        said = self.ask(operations.FILE_REVISION, self.file("."))
        self.assertEqual(said.failure, (400, files.NOT_A_FILE, False))


class ContentTests(FileRoutesCase):
    """Reading."""

    def test_text(self) -> None:
        """What is not UTF-8 is replaced; the path is where links lead."""
        self.write("a/file", b"\xef\xbb\xbfgr\xc3\xbc\xc3\x9fe \xff")
        os.symlink("a/file", os.path.join(self.project, "link"))
        said = self.ask(operations.READ_TEXT, self.file("link"))
        revision = self.ask(operations.FILE_REVISION, self.file("link")).body["revision"]
        self.assertEqual(
            said.body,
            {
                "content": "\ufeffgr\u00fc\u00dfe \ufffd",
                "path": f"{self.project}/a/file",
                "revision": revision,
            },
        )

    def test_content(self) -> None:
        """Bytes of the file's type, tagged with its revision; nothing in it may run."""
        self.write("picture.svg", b"<svg/>")
        said = self.ask(operations.READ_CONTENT, self.file("picture.svg"))
        self.assertEqual((said.status, said.raw), (200, b"<svg/>"))
        revision = said.headers[REVISION]
        self.assertRegex(revision, files.REVISION)
        self.assertEqual(said.headers["ETag"], f'"{revision}"')
        self.assertEqual(said.headers["Content-Type"], "image/svg+xml")
        self.assertEqual(said.headers["Cache-Control"], "no-store")
        self.assertTrue(said.headers["Content-Security-Policy"].startswith("sandbox;"))

    def test_an_empty_file(self) -> None:
        """Has a type too."""
        self.write("empty", b"")
        said = self.ask(operations.READ_CONTENT, self.file("empty"))
        self.assertEqual((said.status, said.raw), (200, b""))
        self.assertEqual(said.headers["Content-Type"], "application/octet-stream")

    def test_refusals(self) -> None:
        """Are whole envelopes."""
        os.symlink("/etc", os.path.join(self.project, "out"))
        self.write("large", b"x" * (CONTENT_BYTES + 1))
        for path, failure in (
            ("missing", (404, files.NOT_FOUND, False)),
            (".", (400, files.NOT_A_FILE, False)),
            ("out/passwd", (403, files.OUTSIDE, False)),
            ("large", (413, files.TOO_LARGE, False)),
            ("x" * 4097, (400, VALIDATION, False)),
            ("a\0b", (400, VALIDATION, False)),
        ):
            for operation in (operations.READ_TEXT, operations.READ_CONTENT):
                self.assertEqual(self.ask(operation, self.file(path)).failure, failure)

    def test_so_many_at_once_and_so_many_wait(self) -> None:
        """By executor; one more is busy, and says when to come again."""
        self.write("file")
        self.write("file", base=self.theirs)
        self.held = []
        given = [
            self.asking(operations.READ_TEXT, self.file("file"))
            for _ in range(CONTENT_OPERATIONS + WAITING)
        ]
        said = self.ask(operations.READ_CONTENT, self.file("file"))
        self.assertEqual(said.failure, (503, files.BUSY, True))
        self.assertEqual(said.headers["Retry-After"], "1")
        other = self.asking(operations.READ_TEXT, {"chatId": CHAT, "path": "file"})
        self.release()
        for d in (*given, other):
            self.assertEqual(self.heard(d).status, 200)

    def test_waiting_has_an_end(self) -> None:
        """What hangs is given up, and with it what would have to wait for its place."""
        self.write("file")
        self.held = []
        given = [
            self.asking(operations.READ_TEXT, self.file("file"))
            for _ in range(CONTENT_OPERATIONS + 1)
        ]
        self.reactor.advance(OPERATION_TIME)
        for d in given[:-1]:
            self.assertEqual(self.heard(d).failure, (504, files.TIMEOUT, True))
        self.reactor.advance(OPERATION_TIME)
        self.assertEqual(self.heard(given[-1]).failure, (503, files.BUSY, True))
        self.release()

    def test_whoever_goes_away_gives_their_turn_to_the_next(self) -> None:
        """A read that nobody waits for any more."""
        self.write("file")
        self.held = []
        given = [
            self.asking(operations.READ_TEXT, self.file("file"))
            for _ in range(CONTENT_OPERATIONS + 1)
        ]
        for d in given[:-1]:
            d.cancel()
            d.addErrback(lambda _: None)
        self.release()
        self.assertEqual(self.heard(given[-1]).status, 200)


class SavingTests(FileRoutesCase):
    """``PUT /files/text``."""

    def save(
        self, path: str, content: str, expected: str | None, resolution: str = "reject", **more: Any
    ) -> Any:
        body = {
            "content": content,
            "expectedRevision": expected,
            "conflictResolution": resolution,
        } | more
        return self.ask(operations.SAVE_TEXT, self.file(path), body)

    def test_what_was_read_is_saved(self) -> None:
        """With the revision of what was read; the answer has the next."""
        self.write("file")
        read = self.ask(operations.READ_TEXT, self.file("file")).body
        said = self.save("file", "n\u00e4u", read["revision"])
        self.assertEqual(said.status, 200)
        self.assertEqual(set(said.body), {"success", "path", "message", "revision"})
        self.assertEqual(said.body["path"], f"{self.project}/file")
        self.assertEqual(self.content("file"), "n\u00e4u".encode())
        self.assertEqual(self.save("file", "newer", said.body["revision"]).status, 200)
        self.assertEqual(
            self.save("file", "x", said.body["revision"]).failure,
            (409, files.REVISION_CONFLICT, False),
        )

    def test_a_missing_file(self) -> None:
        """Never equals what is expected; overwriting makes it."""
        failure = (409, files.REVISION_CONFLICT, False)
        self.assertEqual(self.save("new", "x", None).failure, failure)
        self.assertEqual(self.save("new", "x", None, "overwrite").status, 200)
        self.assertEqual(self.content("new"), b"x")
        self.assertEqual(
            self.save("no/new", "x", None, "overwrite").failure, (404, files.NOT_FOUND, False)
        )

    def test_all_members_are_required(self) -> None:
        """And of their kinds."""
        whole = {"content": "x", "expectedRevision": None, "conflictResolution": "overwrite"}
        for name in whole:
            body = {key: value for key, value in whole.items() if key != name}
            said = self.ask(operations.SAVE_TEXT, self.file("file"), body)
            self.assertEqual(said.failure, (400, VALIDATION, False))
        for name, value in (("content", 1), ("expectedRevision", 1), ("conflictResolution", "x")):
            said = self.ask(operations.SAVE_TEXT, self.file("file"), whole | {name: value})
            self.assertEqual(said.failure, (400, VALIDATION, False))

    def test_the_file_is_named_in_the_url(self) -> None:
        """Not in the body, whatever is said there."""
        for name in ("executorId", "chatId", "projectPath", "filePath"):
            for value in ("file", None):
                said = self.save("file", "x", None, "overwrite", **{name: value})
                self.assertEqual(said.failure, (400, VALIDATION, False))
        self.assertEqual(os.listdir(self.project), [])

    def test_four_mebibytes_of_utf_8_and_one_byte_more(self) -> None:
        """Bytes count, not characters."""
        half = "\u00e9" * (CONTENT_BYTES // 2)
        self.assertEqual(self.save("file", half, None, "overwrite").status, 200)
        said = self.save("file", half + "x", None, "overwrite")
        self.assertEqual(said.failure, (413, files.TOO_LARGE, False))


class DirectoryTests(FileRoutesCase):
    """``POST /files/directories``."""

    def test_it_is_made_where_it_is_said(self) -> None:
        """On the executor that is named; 201."""
        said = self.ask(
            operations.MAKE_DIRECTORY, {"path": "project", "executorId": WORKER}, {"name": "new"}
        )
        self.assertEqual(said.status, 201)
        path = f"{self.theirs}/project/new"
        self.assertEqual(
            said.body,
            {"success": True, "directory": {"name": "new", "path": path, "type": "directory"}},
        )
        self.assertTrue(os.path.isdir(path))

    def test_refusals(self) -> None:
        """What is there, names that are none, places that are none."""
        for query, name, failure in (
            ({}, "project", (409, files.EXISTS, False)),
            ({}, "a/b", (400, VALIDATION, False)),
            ({}, "", (400, VALIDATION, False)),
            ({"path": "missing"}, "new", (404, files.TREE_NOT_FOUND, False)),
            ({"path": "/etc"}, "new", (403, files.OUTSIDE, False)),
        ):
            said = self.ask(operations.MAKE_DIRECTORY, query, {"name": name})
            self.assertEqual(said.failure, failure)
