"""Whether a Local chat's project directory can be used: what the chat list leaves out (chats.md
3.1).

Directories are looked at in another thread: one may lie on a disk that is far away, or gone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import ClassVar

from attrs import define, field
from twisted.internet.defer import Deferred, TimeoutError, succeed
from twisted.internet.interfaces import IReactorThreads, IReactorTime
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger

from garcon.contract.ids import LOCAL
from garcon.deferreds import Tasks, Waiters

FRESH, KEPT = 60.0, 900.0
"""Seconds after which a directory is looked at again, and for how long what was seen may still be
said meanwhile.
"""
PAUSE = 1.0
LOOK_TIME = 5.0
"""Seconds that a list waits for directories nobody has looked at; then it shows their chats."""

Verdicts = dict[str, bool]
Look = Callable[[list[str]], Deferred[Verdicts]]


@define(eq=False)
class ProjectPaths:
    """Knows which project directories of this machine exist inside the project base."""

    _look: Look
    _clock: IReactorTime
    _tasks: Tasks
    _known: dict[str, tuple[float, bool]] = field(factory=dict)
    _refreshed: float | None = None
    _looking: Waiters[None] | None = None
    _is_slow: bool = False
    """What goes on has been waited for once already, in vain."""

    _log: ClassVar[Logger] = Logger()

    def is_listed(self, executor_id: str, path: str) -> bool:
        """Whether a chat of this project is listed, by what is known; only Local's paths are this
        machine's to judge.
        """
        if executor_id != LOCAL:
            return True
        known = self._known.get(path)
        return known is None or known[1]

    async def refresh(self, paths: Callable[[], Iterable[str]]) -> bool:
        """See to it that these paths of Local were looked at, and forget all others; at most once
        in a second, and in between nothing is done (False).
        """
        now = self._clock.seconds()
        if self._refreshed is not None and now - self._refreshed < PAUSE:
            return False
        self._refreshed, wanted = now, set(paths())
        if len(self._known) > len(wanted):
            self._known = {path: known for path, known in self._known.items() if path in wanted}
        ages = {path: self._age(path, now) for path in wanted}
        stale = [path for path, age in ages.items() if age > FRESH]
        if not stale:
            return True
        if self._looking is None:
            self._looking = Waiters()
            looked = self._looking.wait()
            self._tasks.spawn("looking at project directories", self._look_at(stale))
        else:
            looked = self._looking.wait()
        if self._is_slow or max(ages.values()) <= KEPT:
            return True
        try:
            await looked.addTimeout(LOOK_TIME, self._clock)
        except TimeoutError:
            self._is_slow = True
            self._log.warn("project directories take long to be looked at")
        return True

    def _age(self, path: str, now: float) -> float:
        known = self._known.get(path)
        return KEPT + 1 if known is None else now - known[0]

    async def _look_at(self, paths: list[str]) -> None:
        looking = self._looking
        try:
            verdicts = await self._look(paths)
            now = self._clock.seconds()
            self._known.update((path, (now, good)) for path, good in verdicts.items())
        finally:
            self._looking, self._is_slow = None, False
            if looking is not None:
                looking.fire(None)


def looking(base: str, threads: IReactorThreads | None) -> Look:
    """Return what looks at directories, in a thread where there are any."""
    if threads is None:
        return lambda paths: succeed(look(base, paths))

    def in_thread(paths: list[str]) -> Deferred[Verdicts]:
        pool = threads.getThreadPool()
        d: Deferred[Verdicts] = deferToThreadPool(threads, pool, look, base, paths)
        return d

    return in_thread


def look(base: str, paths: Iterable[str]) -> Verdicts:
    """Say of each path whether it is a directory inside `base`.  Blocks on the file system."""
    real_base = os.path.realpath(base)
    inside = real_base.rstrip("/") + "/"
    return {path: _is_inside(path, real_base, inside) for path in paths}


def _is_inside(path: str, base: str, inside: str) -> bool:
    if not path:
        return False
    real = os.path.realpath(path)
    return (real == base or real.startswith(inside)) and os.path.isdir(real)
