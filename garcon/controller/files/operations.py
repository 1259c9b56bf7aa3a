"""The file routes: which executor is asked, and how its answers are put (server.md D.2)."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import UNSET
from twisted.internet.defer import Deferred, TimeoutError
from twisted.internet.interfaces import IReactorTime
from twisted.internet.threads import deferToThreadPool

from garcon.contract import operations
from garcon.contract.files import (
    CALL_TIME,
    CONTENT_BYTES,
    CONTENT_OPERATIONS,
    DirectoryMade,
    DirectoryQuery,
    FileContent,
    FileIdentity,
    FileQuery,
    FileTarget,
    IdentityReply,
    ListedFile,
    NameDirectory,
    ProjectQuery,
    RevisionReply,
    SaveFile,
    SaveText,
    TextReply,
    TextSaved,
    Tree,
)
from garcon.controller.executors.interfaces import IExecutors
from garcon.controller.files import media, uploads
from garcon.controller.files.targets import ChatPlace, Target, Targets
from garcon.controller.files.turns import Turns
from garcon.controller.handlers import Call, Encoded, Form, Handlers, Reply
from garcon.controller.http.shell import NOTHING
from garcon.controller.providers.operations import executor_id
from garcon.errors import validation
from garcon.runtime.files import failures
from garcon.runtime.interfaces import IFiles

WAITING = 32
"""Of contents, by executor."""
UPLOADS, UPLOADS_WAITING = 2, 8
"""Each takes some five times its own size while it is answered."""
TRUNCATED = "X-Garcon-File-List-Truncated"
OMITTED = "X-Garcon-File-List-Omitted"
"""How many names are left out because they are not UTF-8."""
REVISION = "X-Garcon-File-Revision"
CONTENT_POLICY = f"sandbox; {NOTHING}"
"""A page or a drawing that is opened by itself runs nothing in our name."""

T = TypeVar("T")


class FileOperations:
    """Handlers of the file routes."""

    def __init__(self, reactor: Any, executors: IExecutors, place: ChatPlace) -> None:
        self._reactor = reactor
        self._clock: IReactorTime = reactor
        self._targets = Targets(executors, place)
        self._contents: dict[str, Turns] = {}
        self._uploads = Turns(UPLOADS, UPLOADS_WAITING)

    def register(self, handlers: Handlers) -> None:
        """Serve the operations."""
        for operation, handler in (
            (operations.FILE_TREE, self.tree),
            (operations.LIST_FILES, self.project_files),
            (operations.IDENTIFY_FILE, self.identity),
            (operations.FILE_REVISION, self.revision),
            (operations.READ_TEXT, self.text),
            (operations.SAVE_TEXT, self.save),
            (operations.READ_CONTENT, self.content),
            (operations.BROWSE_FILES, self.browse),
            (operations.MAKE_DIRECTORY, self.make_directory),
            (operations.UPLOAD_ATTACHMENTS, self.upload),
            (operations.UPLOAD_IMAGES, self.upload),
        ):
            handlers.register(operation, handler)

    async def tree(self, call: Call[DirectoryQuery, None]) -> Tree:
        """Show a directory."""
        return await self._directory_files(call.query).tree(call.query.path or None)

    async def browse(self, call: Call[DirectoryQuery, None]) -> Reply:
        """Name the directories of a directory."""
        found = await self._directory_files(call.query).browse(call.query.path or None)
        return Reply(found.directories, headers=_omitted(found.omitted_names))

    async def make_directory(self, call: Call[DirectoryQuery, NameDirectory]) -> DirectoryMade:
        """Make a directory."""
        files = self._directory_files(call.query)
        made = await files.create_directory(call.query.path or None, call.body.name)
        return DirectoryMade(True, made)

    async def project_files(self, call: Call[ProjectQuery, None]) -> Reply:
        """Name the files of a project."""
        target = self._targets.project(call.query)
        found = await self._targets.files(target.executor_id).project_files(target.project_path)
        listed = [
            ListedFile(os.path.basename(path), f"{found.project_path.rstrip('/')}/{path}", path)
            for path in found.relative_paths
        ]
        headers = _omitted(found.omitted_names)
        if found.truncated:
            headers[TRUNCATED] = "true"
        return Reply(listed, headers=headers)

    async def identity(self, call: Call[FileQuery, None]) -> IdentityReply:
        """Say which file is meant."""
        target, files, file = self._file(call.query)
        found = await files.identity(file)
        return IdentityReply(
            True,
            FileIdentity(
                target.executor_id,
                found.canonical_file_root_path,
                found.normalized_relative_path,
            ),
        )

    async def revision(self, call: Call[FileQuery, None]) -> RevisionReply:
        """Say at which revision a file is."""
        _, files, file = self._file(call.query)
        revision = await files.revision(file)
        if revision is None:
            return RevisionReply("missing")
        return RevisionReply("ready", revision)

    async def text(self, call: Call[FileQuery, None]) -> TextReply:
        """Read a file as text."""
        found = await self._read(call.query)
        return TextReply(found.data.decode(errors="replace"), found.path, found.revision)

    async def content(self, call: Call[FileQuery, None]) -> Reply:
        """Read a file as it is."""
        found = await self._read(call.query)
        headers = {
            REVISION: found.revision,
            "ETag": f'"{found.revision}"',
            "Content-Security-Policy": CONTENT_POLICY,
        }
        return Reply(Encoded(found.data, media.content_type(found.path)), headers=headers)

    async def save(self, call: Call[FileQuery, SaveText]) -> TextSaved:
        """Save a file."""
        body = call.body
        if any(
            value is not UNSET
            for value in (body.executor_id, body.chat_id, body.project_path, body.file_path)
        ):
            raise validation("Which file is meant belongs in the URL, not in the body.")
        data = body.content.encode()
        if len(data) > CONTENT_BYTES:
            raise failures.too_large()
        target, files, file = self._file(call.query)
        wanted = SaveFile(
            file.project_path, file.path, data, body.expected_revision, body.conflict_resolution
        )
        saved = await self._in_turn(target, lambda: files.save(wanted))
        return TextSaved(True, saved.path, "The file is saved.", saved.revision)

    async def upload(self, call: Call[None, None]) -> Reply:
        """Give files back as data URLs."""
        form = call.form or Form("", b"")
        await self._waited(self._uploads)
        try:
            pool = self._reactor.getThreadPool()
            body: bytes = await deferToThreadPool(self._reactor, pool, uploads.answer, form)
        finally:
            self._uploads.end()
        # Base64 of what is compressed already; and nobody asks for the same again.
        return Reply(Encoded(body), headers={"Cache-Control": "no-store, no-transform"})

    def _directory_files(self, query: DirectoryQuery) -> IFiles:
        return self._targets.files(executor_id(query.executor_id))

    def _file(self, query: FileQuery) -> tuple[Target, IFiles, FileTarget]:
        if not query.path:
            raise validation("path is required.")
        target = self._targets.project(query)
        files = self._targets.files(target.executor_id)
        return target, files, FileTarget(target.project_path, query.path)

    async def _read(self, query: FileQuery) -> FileContent:
        target, files, file = self._file(query)
        return await self._in_turn(target, lambda: files.read(file))

    async def _in_turn(self, target: Target, work: Callable[[], Deferred[T]]) -> T:
        """Move a content when there are not too many of that executor, and its project is still
        the one that was asked for.
        """
        where = target.executor_id
        turns = self._contents.setdefault(where, Turns(CONTENT_OPERATIONS, WAITING))
        await self._waited(turns)
        try:
            self._targets.must_be_current(target)
            return await work()
        finally:
            turns.end()
            if turns.is_idle:
                self._contents.pop(where, None)

    async def _waited(self, turns: Turns) -> None:
        try:
            await turns.begin().addTimeout(CALL_TIME, self._clock)
        except TimeoutError:
            raise failures.busy() from None


def _omitted(number: int) -> dict[str, str]:
    return {OMITTED: str(number)} if number else {}
