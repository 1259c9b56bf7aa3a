"""The file methods a worker serves (control.md J.9 ``files.*``).

A content is a large reply.  It is handed to the link only while the lane's queue has room for it,
so that a slow link is waited for and nothing is refused for want of room; contents that wait count
among those that are under way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twisted.internet.defer import Deferred, DeferredSemaphore
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater

from garcon.contract import rpc
from garcon.contract.files import (
    CALL_TIME,
    CONTENT_OPERATIONS,
    Browsed,
    DirectoryPath,
    FileContent,
    FileSaved,
    FileTarget,
    FoundRevision,
    IdentifiedFile,
    ListedDirectory,
    MakeDirectory,
    ProjectFiles,
    ProjectPath,
    SaveFile,
    Tree,
)
from garcon.contract.limits import MIB
from garcon.deferreds import returns_deferred
from garcon.link.interfaces import CallContext, Handler, ILaneSession
from garcon.runtime.files import failures
from garcon.runtime.interfaces import IFiles

QUEUED = 12 * MIB
"""Half of what bulk may queue: the largest content, as JSON, is less than half of the rest."""
LOOK_AGAIN = 0.01
WAIT_FOR_ROOM = CALL_TIME


class FileServing:
    """One worker's files, as the controller may call for them."""

    def __init__(self, clock: IReactorTime, files: IFiles) -> None:
        self._clock = clock
        self._files = files
        self._contents = DeferredSemaphore(CONTENT_OPERATIONS)

    def handlers(self) -> Mapping[str, Handler]:
        """Return every file method, by name."""
        table: list[tuple[rpc.Method, Callable[[Any, CallContext], Deferred[Any]]]] = [
            (rpc.FILE_IDENTITY, self.identity),
            (rpc.FILE_REVISION, self.revision),
            (rpc.FILE_TREE, self.tree),
            (rpc.BROWSE_FILES, self.browse),
            (rpc.LIST_FILES, self.project_files),
            (rpc.READ_FILE, self.read),
            (rpc.SAVE_FILE, self.save),
            (rpc.MAKE_DIRECTORY, self.make_directory),
        ]
        return {method.name: handler for method, handler in table}

    def identity(self, request: FileTarget, context: CallContext) -> Deferred[IdentifiedFile]:
        """Say which file is meant."""
        return self._files.identity(request)

    @returns_deferred
    async def revision(self, request: FileTarget, context: CallContext) -> FoundRevision:
        """Say at which revision a file is."""
        return FoundRevision(await self._files.revision(request))

    def tree(self, request: DirectoryPath, context: CallContext) -> Deferred[Tree]:
        """Show a directory."""
        return self._files.tree(request.path)

    def browse(self, request: DirectoryPath, context: CallContext) -> Deferred[Browsed]:
        """Name the directories of a directory."""
        return self._files.browse(request.path)

    def project_files(self, request: ProjectPath, context: CallContext) -> Deferred[ProjectFiles]:
        """Name the files of a project."""
        return self._files.project_files(request.project_path)

    @returns_deferred
    async def read(self, request: FileTarget, context: CallContext) -> FileContent:
        """Read a file, and keep it back while the link is full."""
        await self._contents.acquire()
        try:
            content = await self._files.read(request)
            await self._room(context.session, len(content.data) * 4 // 3)
            return content
        finally:
            self._contents.release()

    def save(self, request: SaveFile, context: CallContext) -> Deferred[FileSaved]:
        """Write a file; that goes on when the link is lost, and is told on the next."""
        return self._files.save(request)

    def make_directory(
        self, request: MakeDirectory, context: CallContext
    ) -> Deferred[ListedDirectory]:
        """Make a directory; likewise."""
        return self._files.create_directory(request.path, request.name)

    async def _room(self, session: ILaneSession, size: int) -> None:
        until = self._clock.seconds() + WAIT_FOR_ROOM
        while session.is_open and session.queued_bytes and session.queued_bytes + size > QUEUED:
            if self._clock.seconds() >= until:
                raise failures.busy()
            await deferLater(self._clock, LOOK_AGAIN, lambda: None)
