"""What hangs on this process, noted in a file every now and then: should the process be killed, its
successor knows what of that goes on, also where it has taken its mark away (`marks.py`).

Orphans come home to this process (`garcon.orphans`), so everything that it or its children started
hangs on it.  What was started in the last moment before the end may be missing.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Struct
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from twisted.python.failure import Failure

from garcon.deferreds import returns_deferred
from garcon.runtime.agents import tree
from garcon.runtime.agents.tree import Process

LOOK_EVERY = 2.0
MOST = 4_096
"""Processes that are noted."""
_SIZE = 256 * 1024
_BOOT = "/proc/sys/kernel/random/boot_id"


class _File(Struct):
    """Start times count from the boot of the system, so they say nothing after another one."""

    boot: str
    processes: list[tuple[int, int]]


class NotedProcesses:
    """Those of one executor, in the file at `path` (mode 0600), which is there only while something
    hangs on it.  Owned by the runtime, which stops it.
    """

    _log = Logger()

    def __init__(self, reactor: Any, path: str) -> None:
        self._reactor = reactor
        self._clock: IReactorTime = reactor
        self._path = path
        self._earlier = read(path)
        self._written = self._earlier
        self._timer: IDelayedCall | None = None
        self._looking: Deferred[None] | None = None
        self._has_begun = self._is_over = self._has_failed = False

    @property
    def earlier(self) -> frozenset[Process]:
        """What hung on a process of an earlier life, as far as that has not been seen to end."""
        return self._earlier

    def start(self) -> None:
        """Look from now on, until `stop`."""
        self._has_begun = True
        self._later()

    @returns_deferred
    async def stop(self) -> None:
        """Look for the last time; fires when what is left has been noted."""
        if not self._has_begun:
            return
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._looking is not None:
            await self._looking
        await self._look()

    def _later(self) -> None:
        if not self._is_over:
            self._timer = self._clock.callLater(LOOK_EVERY, self._begin)

    def _begin(self) -> None:
        self._timer = None
        # It fires by itself, and `stop` waits for it.
        self._looking = self._look()
        self._looking.addCallback(lambda _: self._later())

    def _look(self) -> Deferred[None]:
        pool = self._reactor.getThreadPool()
        d: Deferred[Any] = deferToThreadPool(
            self._reactor, pool, look, self._path, self._earlier, self._written
        )

        def seen(found: tuple[frozenset[Process], frozenset[Process]]) -> None:
            self._earlier, self._written = found
            self._has_failed = False

        def failed(f: Failure) -> None:
            if not self._has_failed:
                self._log.warn("processes cannot be noted: {why}", why=f.getErrorMessage())
            self._has_failed = True

        return d.addCallbacks(seen, failed)


def look(
    path: str, earlier: frozenset[Process], written: frozenset[Process]
) -> tuple[frozenset[Process], frozenset[Process]]:
    """Return those of an earlier life that go on, and all that is noted now.  Blocks."""
    earlier = frozenset(tree.running(earlier))
    found = frozenset(sorted(tree.below(os.getpid()) | earlier, key=lambda one: one.started)[:MOST])
    if found != written:
        write(path, found)
    return earlier, found


def read(path: str) -> frozenset[Process]:
    """Return what is noted; nothing where that cannot be read, or is of before the last boot."""
    try:
        with open(path, "rb") as file:
            noted = msgspec.json.decode(file.read(_SIZE), type=_File)
        if noted.boot != _boot():
            return frozenset()
    except (OSError, msgspec.MsgspecError):
        return frozenset()
    return frozenset(Process(pid, started) for pid, started in noted.processes)


def write(path: str, processes: frozenset[Process]) -> None:
    """Note these; nothing leaves no file.  It need not outlive the system, so nothing is synced."""
    if not processes:
        with suppress(FileNotFoundError):
            os.unlink(path)
        return
    content = _File(_boot(), sorted((one.pid, one.started) for one in processes))
    temporary = f"{path}.{os.getpid()}.tmp"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with open(fd, "wb") as file:
            file.write(msgspec.json.encode(content))
        os.rename(temporary, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def _boot() -> str:
    with open(_BOOT) as file:
        return file.read(100).strip()
