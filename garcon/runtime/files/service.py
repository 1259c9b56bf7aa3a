"""The files of this machine, as `IFiles` has them: what blocks is done on threads, in two
workshops so that looking at names does not wait for contents.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from twisted.internet.defer import Deferred, DeferredList, TimeoutError
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from zope.interface import implementer

from garcon.contract.files import (
    CONTENT_BYTES,
    CONTENT_OPERATIONS,
    Browsed,
    FileContent,
    FileSaved,
    FileTarget,
    IdentifiedFile,
    ListedDirectory,
    ProjectFiles,
    SaveFile,
    Tree,
)
from garcon.deferreds import returns_deferred
from garcon.runtime.files import failures, listing, projects, reading, saving, tree
from garcon.runtime.files.locks import Locks
from garcon.runtime.files.stopping import Stop
from garcon.runtime.files.workshop import InThread, Threads, Workshop
from garcon.runtime.interfaces import IFiles

LOOKS = 4
"""Operations at once that read names and no contents."""
WAITING = 32
"""Of each kind; savers that wait for a file are counted on their own."""
OPERATION_TIME = 25.0
"""Waiting included: less than a call over the link may take, so that its caller hears of it."""
STOP_WAIT = 3.0

T = TypeVar("T")


@implementer(IFiles)
class LocalFiles:
    """Files below `base`, a path.  `home` is where the account is at home; `in_thread` runs what
    blocks, on threads of their own unless it is given.
    """

    _log = Logger()

    def __init__(
        self, reactor: Any, base: str, home: str, *, in_thread: InThread | None = None
    ) -> None:
        self._clock: IReactorTime = reactor
        self._base = os.path.abspath(base)
        self._home = home
        self._threads: Threads | None = None
        if in_thread is None:
            self._threads = Threads(reactor, CONTENT_OPERATIONS + LOOKS)
            in_thread = self._threads.run
        self._contents = Workshop(in_thread, reactor, CONTENT_OPERATIONS, WAITING)
        self._looks = Workshop(in_thread, reactor, LOOKS, WAITING)
        self._locks = Locks(WAITING)

    def tree(self, path: str | None) -> Deferred[Tree]:
        """Show a directory."""
        return self._look(lambda stop: tree.tree(self._base, path, self._home, stop))

    def browse(self, path: str | None) -> Deferred[Browsed]:
        """Name the directories of a directory."""
        return self._look(lambda stop: tree.browse(self._base, path, stop))

    def project_files(self, project_path: str) -> Deferred[ProjectFiles]:
        """Name the files of a project."""
        return self._look(lambda stop: listing.project_files(self._base, project_path, stop))

    def identity(self, target: FileTarget) -> Deferred[IdentifiedFile]:
        """Say which file is meant."""
        return self._look(lambda _: projects.identify(self._base, target))

    def revision(self, target: FileTarget) -> Deferred[str | None]:
        """Say at which revision a file is."""
        return self._look(lambda _: reading.found_revision(self._base, target))

    def read(self, target: FileTarget) -> Deferred[FileContent]:
        """Read a file."""
        return self._contents.do(
            lambda stop: reading.read(self._base, target, stop), OPERATION_TIME
        )

    def create_directory(self, path: str | None, name: str) -> Deferred[ListedDirectory]:
        """Make a directory."""
        return self._looks.do(
            lambda stop: saving.make_directory(self._base, path, name, stop),
            OPERATION_TIME,
            failures.directory_unknown,
        )

    @returns_deferred
    async def save(self, save: SaveFile) -> FileSaved:
        """Write a file, after those who save the same one."""
        if len(save.data) > CONTENT_BYTES:
            raise failures.too_large()
        until = self._clock.seconds() + OPERATION_TIME
        key = await self._look(lambda _: saving.key_of(self._base, save))
        waiting = self._locks.acquire(key)
        try:
            await waiting.addTimeout(until - self._clock.seconds(), self._clock)
        except TimeoutError:
            raise failures.busy() from None
        return await self._contents.do(
            lambda stop: saving.save_file(self._base, save, key, stop),
            until - self._clock.seconds(),
            failures.save_unknown,
            lambda: self._locks.release(key),
        )

    def _look(self, work: Callable[[Stop], T]) -> Deferred[T]:
        return self._looks.do(work, OPERATION_TIME)

    @returns_deferred
    async def stop(self) -> None:
        """Refuse what comes, and wait a little for what is under way."""
        both = DeferredList([self._contents.stop(), self._looks.stop()], consumeErrors=True)
        with suppress(TimeoutError):
            await both.addTimeout(STOP_WAIT, self._clock)
        if self._contents.running or self._looks.running:
            # These threads end with the process; waiting for them would never end.
            self._log.warn("file operations did not end in time")
        elif self._threads is not None:
            self._threads.stop()
