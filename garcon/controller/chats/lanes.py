"""Commands on one chat, one after the other (chats.md 5.18).

A command that has begun is finished even if its caller gives up: only one that still waits can be
withdrawn.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, ClassVar, TypeVar

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred, DeferredLock
from twisted.logger import Logger
from twisted.python.failure import Failure

from garcon.deferreds import Tasks, returns_deferred
from garcon.errors import GarconError

T = TypeVar("T")
Work = Callable[[], Coroutine[Deferred[Any], Any, T]]

WAITING = 64
"""Commands that may wait for one chat."""


@define(eq=False)
class Lanes:
    """One lock for each chat that has commands."""

    _log: ClassVar[Logger] = Logger()

    _tasks: Tasks
    _locks: dict[str, DeferredLock] = field(factory=dict)

    def must_have_room(self, chat_id: str) -> None:
        """Raise ``SESSION_BUSY`` (409) where `run` would."""
        lock = self._locks.get(chat_id)
        if lock is not None and len(lock.waiting) >= WAITING:
            raise GarconError(
                "SESSION_BUSY", "Too many commands wait for this chat.", status=409, retryable=True
            )

    @returns_deferred
    async def run(self, chat_id: str, work: Work[T], *, is_bounded: bool = True) -> T:
        """Run `work` in its turn and fire with what it returns or raises.  What is no client's
        command, and bounded by itself, may wait beyond the bound.
        """
        if is_bounded:
            self.must_have_room(chat_id)
        lock = self._locks.setdefault(chat_id, DeferredLock())
        await lock.acquire()
        outcome: Deferred[T] = Deferred()
        self._tasks.spawn("a chat command", self._owned(chat_id, lock, work, outcome))
        return await outcome

    def is_busy(self, chat_id: str) -> bool:
        """Whether a command of this chat has begun, or waits."""
        return chat_id in self._locks

    async def _owned(
        self, chat_id: str, lock: DeferredLock, work: Work[T], outcome: Deferred[T]
    ) -> None:
        try:
            result: T | Failure = await work()
        except Exception:
            # Cancellation too: whoever waits for the command must hear of it.
            result = Failure()
        if not lock.waiting:
            self._locks.pop(chat_id, None)
        lock.release()
        if outcome.called and isinstance(result, Failure):
            if not result.check(GarconError, CancelledError):
                self._log.failure("a command that nobody waits for failed", failure=result)
            return
        outcome.callback(result)
