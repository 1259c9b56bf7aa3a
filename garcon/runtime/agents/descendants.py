"""What one agent has started, by ids and start times: noted while it runs, killed when it ends."""

from __future__ import annotations

from collections.abc import Callable, Set
from functools import partial
from typing import Any, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger

from garcon.deferreds import returns_deferred
from garcon.runtime.agents import tree

T = TypeVar("T")

LOOK_EVERY, COUNT_EVERY = 2.0, 1.0
"""How often what hangs on an agent is noted, and how often where it is counted as well."""
KILL_WAIT, KILL_POLL = 2.0, 0.02


class Descendants:
    """Those of the process `pid`, whose environment has `mark`.  Owned by that process's owner,
    which is told at each look how many threads there are, its own included, where it counts them.
    """

    _log = Logger()

    def __init__(
        self,
        reactor: Any,
        pid: int,
        mark: bytes,
        counted: Callable[[int], None] | None = None,
    ) -> None:
        self._reactor = reactor
        self._clock: IReactorTime = reactor
        self._pid = pid
        self._mark = mark
        self._gone_at: int | None = None
        """When the id became free for others."""
        self._known: frozenset[tree.Process] = frozenset()
        self._counted = counted
        self._every = LOOK_EVERY if counted is None else COUNT_EVERY
        self._looking: IDelayedCall | None = self._clock.callLater(self._every, self._look)

    @property
    def known(self) -> frozenset[tree.Process]:
        """What was noted, as far as that has not been seen to end."""
        return self._known

    def parent_gone(self) -> None:
        """The agent's exit has been collected."""
        self._gone_at = tree.ticks()
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None

    def note(self) -> None:
        """Note what hangs on the agent now, at once: it takes far less than a millisecond for each
        process, and must not wait for a thread.
        """
        if self._gone_at is None:
            self._known |= tree.below(self._pid)

    @returns_deferred
    async def record(self) -> None:
        """Note all that can be found now."""
        find = partial(tree.find, self._pid, self._mark, gone_at=self._gone_at, known=self._known)
        had_gone = self._gone_at is not None
        found = await self._in_thread(find)
        # Others may have been noted meanwhile.
        self._known |= found if had_gone else self._until_gone(found)

    @returns_deferred
    async def kill(self) -> None:
        """Kill what is left, look again for what was started meanwhile, and wait until all of it is
        gone, or for two seconds.
        """
        deadline = self._clock.seconds() + KILL_WAIT
        while True:
            await self.record()
            left = await self._in_thread(tree.kill, self._known)
            if not left:
                return
            if self._clock.seconds() > deadline:
                pids = sorted(process.pid for process in left)
                self._log.warn("agent {pid} left processes {left}", pid=self._pid, left=pids)
                return
            await deferLater(self._clock, KILL_POLL, lambda: None)

    def _look(self) -> None:
        """Note what hangs on the agent: when it is killed, what it started without its mark hangs
        on it no more.
        """
        self._looking = None
        before = self._known

        def seen(result: tuple[frozenset[tree.Process], int | None]) -> None:
            found, count = result
            self._known = self._until_gone(found) | (self._known - before)
            if self._gone_at is None:
                self._looking = self._clock.callLater(self._every, self._look)
                if self._counted is not None and count is not None:
                    self._counted(count)

        # Not cancelled by anyone: it ends by itself.
        if self._counted is None:
            look = partial(_still_there, self._pid, before)
        else:
            look = partial(_all_there, self._pid, self._mark, before)
        looking = self._in_thread(look)
        looking.addCallbacks(
            seen, lambda f: self._log.failure("looking below an agent failed", failure=f)
        )

    def _until_gone(self, found: Set[tree.Process]) -> frozenset[tree.Process]:
        """Return those that were there before the id became free: if that was during the look, it
        may have seen what hangs on another.
        """
        gone_at = self._gone_at
        return frozenset(one for one in found if gone_at is None or one.started <= gone_at)

    def _in_thread(self, f: Callable[..., T], *args: Any) -> Deferred[T]:
        d: Deferred[T] = deferToThreadPool(self._reactor, self._reactor.getThreadPool(), f, *args)
        return d


def _still_there(pid: int, known: Set[tree.Process]) -> tuple[frozenset[tree.Process], int | None]:
    """Return what hangs on an agent, and what has hung on it and still runs."""
    return frozenset(tree.below(pid) | tree.running(known)), None


def _all_there(
    pid: int, mark: bytes, known: Set[tree.Process]
) -> tuple[frozenset[tree.Process], int | None]:
    """Return all that is an agent's, whatever it hangs on, and the number of their threads."""
    found = frozenset(tree.find(pid, mark, known=known))
    agent = tree.look(pid)
    return found, tree.threads(found if agent is None else found | {agent.process})
