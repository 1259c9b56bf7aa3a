"""Small Deferred tools without domain words: coroutines as Deferreds, owned background work, many
waiters.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from functools import wraps
from typing import Any, Generic, ParamSpec, TypeVar

from twisted.application.service import Service
from twisted.internet.defer import (
    CancelledError,
    Deferred,
    DeferredList,
    DeferredSemaphore,
    FirstError,
    gatherResults,
)
from twisted.logger import Logger
from twisted.python.failure import Failure

P = ParamSpec("P")
T = TypeVar("T")


def returns_deferred(f: Callable[P, Coroutine[Deferred[Any], Any, T]]) -> Callable[P, Deferred[T]]:
    """Let a coroutine function honour an interface that promises a Deferred."""

    @wraps(f)
    def start(*args: P.args, **kwargs: P.kwargs) -> Deferred[T]:
        return Deferred.fromCoroutine(f(*args, **kwargs))

    return start


async def gathered(
    works: Iterable[Callable[[], Coroutine[Deferred[Any], Any, T]]], most: int
) -> list[T]:
    """Do all of it, `most` at a time, and return what comes of each, in order.

    The first failure cancels what has not ended and is raised; so does a cancellation.
    """

    def begin(work: Callable[[], Coroutine[Deferred[Any], Any, T]]) -> Deferred[T]:
        return Deferred.fromCoroutine(work())

    turns = DeferredSemaphore(most)
    begun = [turns.run(begin, work) for work in works]
    try:
        return await gatherResults(begun, consumeErrors=True)
    except FirstError as error:
        for d in begun:
            d.cancel()
        assert error.subFailure.value is not None
        raise error.subFailure.value from None


class Tasks(Service):
    """Own background work, so that stopping the service really stops it.

    An unexpected failure of a task is logged once, here, with the task's name.
    """

    _log = Logger()

    def __init__(self) -> None:
        self._running: set[Deferred[object]] = set()

    def spawn(self, what: str, coro: Coroutine[Deferred[Any], Any, object]) -> None:
        """Start `coro` at once and own it until it ends."""
        d: Deferred[object] = Deferred.fromCoroutine(coro)
        self._running.add(d)

        def ended(result: object) -> object:
            self._running.discard(d)
            return result

        def unexpected(f: Failure) -> None:
            if not f.check(CancelledError):
                self._log.failure("background task {what} failed", failure=f, what=what)

        d.addBoth(ended).addErrback(unexpected)

    def settled(self) -> Deferred[None]:
        """Fire when all that runs now has ended; cancelling this cancels what has not."""
        ended = DeferredList(list(self._running), consumeErrors=True)
        return ended.addCallback(lambda _: None)

    def stopService(self) -> Deferred[None]:
        """Cancel what runs and fire when all of it has ended."""
        super().stopService()
        running = list(self._running)
        ended = DeferredList(running, consumeErrors=True)
        for d in running:
            d.cancel()
        return ended.addCallback(lambda _: None)


class Waiters(Generic[T]):
    """Give each of many parties a Deferred of its own for one coming event; a cancelled one is
    forgotten.
    """

    def __init__(self) -> None:
        self._waiting: list[Deferred[T]] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def wait(self) -> Deferred[T]:
        """Return a new Deferred that fires with the next event."""
        d: Deferred[T] = Deferred(self._waiting.remove)
        self._waiting.append(d)
        return d

    def fire(self, result: T) -> None:
        """Fire everyone who waits now; those who come later wait for the next event."""
        waiting, self._waiting = self._waiting, []
        for d in waiting:
            d.callback(result)

    def fail(self, error: BaseException) -> None:
        """Fail everyone who waits now."""
        waiting, self._waiting = self._waiting, []
        for d in waiting:
            d.errback(Failure(error))
