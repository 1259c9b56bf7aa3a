"""What this executor or an earlier one on its config root left running: found, and ended one by one
when somebody says so.

Nothing is ended by itself: it may be a server that somebody wants, and what a crash left may be in
the midst of something.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Any, Literal, TypeVar

from attrs import frozen
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.process import reapProcessHandlers
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThreadPool
from zope.interface import implementer

from garcon.contract.leftovers import (
    LISTED,
    NOT_ENDED,
    NOT_FOUND,
    EndProcess,
    LeftoverProcess,
    LeftoverProcesses,
)
from garcon.deferreds import returns_deferred
from garcon.errors import GarconError
from garcon.runtime import marks
from garcon.runtime.agents import tree
from garcon.runtime.interfaces import ILeftovers
from garcon.runtime.marks import Marks
from garcon.runtime.noted import NotedProcesses

T = TypeVar("T")

ASK_WAIT, KILL_WAIT, POLL = 2.0, 2.0, 0.02


@frozen
class Leftover:
    """One of them."""

    seen: tree.Seen
    origin: Literal["earlier", "orphan"]


def find(
    wanted: Marks,
    own: Iterable[int],
    before: int,
    me: int,
    proc: str = "/proc",
    noted: Collection[tree.Process] = (),
) -> list[Leftover]:
    """Return them, the oldest first.  Blocks for some milliseconds.

    `own` are the children that process `me` started itself and has not collected, as they were at
    the tick `before`.  A tree of this generation that one of them belongs to is in use.  `noted` is
    what hung on earlier generations.
    """
    everything = tree.everything(proc)
    above = _with_ancestors(me, everything)
    found_marks = {
        pid: mark
        for pid in everything
        if pid not in above
        and (mark := marks.read(tree.environment(pid, proc))) is not None
        and mark.owner == wanted.owner
    }
    own = frozenset(own)
    in_use = {mark.text for pid, mark in found_marks.items() if pid in own}
    origins: dict[int, Literal["earlier", "orphan"]] = {}
    for pid, mark in found_marks.items():
        if mark.generation != wanted.generation:
            origins[pid] = "earlier"
        elif mark.text not in in_use:
            origins[pid] = "orphan"
    for pid, seen in everything.items():
        # Without a mark, but it came home to this process, which did not start it.
        is_adopted = seen.parent == me and pid not in own and seen.process.started < before
        if is_adopted and pid not in found_marks and pid not in above:
            origins[pid] = "orphan"
    for process in noted:
        there = everything.get(process.pid)
        if there is not None and there.process == process and process.pid not in above:
            origins.setdefault(process.pid, "earlier")
    _with_children(origins, found_marks, everything)
    left = [
        Leftover(everything[pid], origin)
        for pid, origin in origins.items()
        if not everything[pid].has_ended
    ]
    return sorted(left, key=lambda one: (one.seen.process.started, one.seen.process.pid))


def _with_ancestors(me: int, everything: dict[int, tree.Seen]) -> set[int]:
    above = set()
    pid = me
    while pid in everything and pid not in above:
        above.add(pid)
        pid = everything[pid].parent
    return above


def _with_children(
    origins: dict[int, Literal["earlier", "orphan"]],
    known: Iterable[int],
    everything: dict[int, tree.Seen],
) -> None:
    """Add what hangs on those and carries no mark of ours."""
    children = tree.by_parent(everything)
    waiting = list(origins)
    known = set(known)
    while waiting:
        pid = waiting.pop()
        for child in children.get(pid, ()):
            if child not in origins and child not in known:
                origins[child] = origins[pid]
                waiting.append(child)


@implementer(ILeftovers)
class Leftovers:
    """Those of one executor, for whoever looks after it."""

    def __init__(self, reactor: Any, wanted: Marks, noted: NotedProcesses) -> None:
        self._reactor = reactor
        self._noted = noted
        self._clock: IReactorTime = reactor
        self._marks = wanted

    @returns_deferred
    async def read(self) -> LeftoverProcesses:
        """Look for them, in a thread."""
        found = await self._find()
        now, unit = tree.ticks(), tree.ticks_per_second()
        return LeftoverProcesses(
            [
                LeftoverProcess(
                    pid=one.seen.process.pid,
                    started=one.seen.process.started,
                    name=one.seen.name,
                    origin=one.origin,
                    seconds=round(max(0, now - one.seen.process.started) / unit, 1),
                )
                for one in found[:LISTED]
            ],
            len(found),
        )

    @returns_deferred
    async def end(self, wanted: EndProcess) -> None:
        """Ask one of them to end, and kill it when it does not within two seconds."""
        process = tree.Process(wanted.pid, wanted.started)
        if process not in {one.seen.process for one in await self._find()}:
            raise GarconError(
                NOT_FOUND,
                "No process with this id and start time is left over here. It may have ended, or"
                " belongs to what runs.",
                status=404,
            )
        for number, wait in ((signal.SIGTERM, ASK_WAIT), (signal.SIGKILL, KILL_WAIT)):
            if await self._is_gone(process, number, wait):
                return
        raise GarconError(
            NOT_ENDED,
            "The process was killed and has not gone yet: the system holds it, or it is another"
            " user's.",
            status=503,
            retryable=True,
        )

    async def _is_gone(self, process: tree.Process, number: int, wait: float) -> bool:
        await self._in_thread(tree.send, [process], number, signal.SIGCONT)
        until = self._clock.seconds() + wait
        while await self._in_thread(tree.running, [process]):
            if self._clock.seconds() > until:
                return False
            await deferLater(self._clock, POLL, lambda: None)
        return True

    def _find(self) -> Deferred[list[Leftover]]:
        own = frozenset(reapProcessHandlers)
        noted = self._noted.earlier
        look = partial(find, self._marks, own, tree.ticks(), os.getpid(), noted=noted)
        return self._in_thread(look)

    def _in_thread(self, f: Callable[..., T], *args: Any) -> Deferred[T]:
        d: Deferred[T] = deferToThreadPool(self._reactor, self._reactor.getThreadPool(), f, *args)
        return d
