"""The files of an executor behind its link.

Looking and reading may be tried again by whoever asked.  A save and a new directory are sent once:
when nobody confirms them, that is what their caller is told, and nothing here sends them again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from msgspec import Struct
from twisted.internet.defer import Deferred, TimeoutError, succeed
from twisted.internet.interfaces import IReactorTime
from zope.interface import implementer

from garcon.contract import rpc
from garcon.contract.files import (
    CALL_TIME,
    CONTENT_BYTES,
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
from garcon.deferreds import returns_deferred
from garcon.errors import CallError, GarconError
from garcon.runtime.files import failures
from garcon.runtime.interfaces import IFiles

SAVING = 3 * CONTENT_BYTES
"""Contents on their way at once: as JSON they are two thirds of what bulk may queue."""

Ask = Callable[[rpc.Method, Struct, float], "Deferred[Any]"]
"""Calls over the link, waiting for it as long as whoever looks on would."""


class Room:
    """A number of bytes, given out in the order of asking."""

    def __init__(self, total: int) -> None:
        self._left = total
        self._waiting: deque[tuple[int, Deferred[None]]] = deque()

    def take(self, size: int) -> Deferred[None]:
        """Fire once `size` bytes are ours; cancelling gives the place up."""
        if not self._waiting and size <= self._left:
            self._left -= size
            return succeed(None)

        def leave(d: Deferred[None]) -> None:
            self._waiting.remove((size, d))

        d: Deferred[None] = Deferred(leave)
        self._waiting.append((size, d))
        return d

    def give(self, size: int) -> None:
        """Take them back."""
        self._left += size
        while self._waiting and self._waiting[0][0] <= self._left:
            taken, d = self._waiting.popleft()
            self._left -= taken
            d.callback(None)


@implementer(IFiles)
class RemoteFiles:
    """One remote executor's files.  `ask` calls its worker."""

    def __init__(self, clock: IReactorTime, ask: Ask) -> None:
        self._clock = clock
        self._ask = ask
        self._room = Room(SAVING)

    @returns_deferred
    async def tree(self, path: str | None) -> Tree:
        tree: Tree = await self._look(rpc.FILE_TREE, DirectoryPath(path))
        return tree

    @returns_deferred
    async def browse(self, path: str | None) -> Browsed:
        browsed: Browsed = await self._look(rpc.BROWSE_FILES, DirectoryPath(path))
        return browsed

    @returns_deferred
    async def project_files(self, project_path: str) -> ProjectFiles:
        found: ProjectFiles = await self._look(rpc.LIST_FILES, ProjectPath(project_path))
        return found

    @returns_deferred
    async def identity(self, target: FileTarget) -> IdentifiedFile:
        identified: IdentifiedFile = await self._look(rpc.FILE_IDENTITY, target)
        return identified

    @returns_deferred
    async def revision(self, target: FileTarget) -> str | None:
        found: FoundRevision = await self._look(rpc.FILE_REVISION, target)
        return found.revision

    @returns_deferred
    async def read(self, target: FileTarget) -> FileContent:
        content: FileContent = await self._look(rpc.READ_FILE, target)
        return content

    @returns_deferred
    async def save(self, save: SaveFile) -> FileSaved:
        """Send a content once there is room for it, and wait for its confirmation."""
        size = len(save.data)
        if size > CONTENT_BYTES:
            raise failures.too_large()
        until = self._clock.seconds() + CALL_TIME
        try:
            await self._room.take(size).addTimeout(CALL_TIME, self._clock)
        except TimeoutError:
            raise failures.busy() from None
        try:
            saved: FileSaved = await self._change(
                rpc.SAVE_FILE, save, until - self._clock.seconds(), failures.save_unknown
            )
            return saved
        finally:
            self._room.give(size)

    @returns_deferred
    async def create_directory(self, path: str | None, name: str) -> ListedDirectory:
        made: ListedDirectory = await self._change(
            rpc.MAKE_DIRECTORY, MakeDirectory(path, name), CALL_TIME, failures.directory_unknown
        )
        return made

    async def _look(self, method: rpc.Method, request: Struct) -> Any:
        try:
            return await self._ask(method, request, CALL_TIME)
        except CallError as error:
            if error.outcome != "unknown":
                raise
            # What became of it does not matter: it may be asked again.
            raise GarconError(error.code, error.text, status=error.status, retryable=True) from None

    async def _change(
        self,
        method: rpc.Method,
        request: Struct,
        seconds: float,
        unknown: Callable[[], GarconError],
    ) -> Any:
        try:
            return await self._ask(method, request, seconds)
        except CallError as error:
            if error.outcome != "unknown":
                raise
            raise unknown() from None
