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

    The first failure cancels what has not ended, once, and is raised when all of it has; so does a
    cancellation.  A second one waits no longer, and leaves what still cleans up to itself.
    """

    def begin(work: Callable[[], Coroutine[Deferred[Any], Any, T]]) -> Deferred[T]:
        return Deferred.fromCoroutine(work())

    failures: list[Failure] = []

    def failed(f: Failure) -> None:
        failures.append(f)
        if len(failures) == 1:
            for d in begun:
                d.cancel()

    turns = DeferredSemaphore(most)
    begun = [turns.run(begin, work) for work in works]
    for d in begun:
        d.addErrback(failed)
    ending = Ending.of(DeferredList(begun))
    try:
        results = await ending.wait()
    except CancelledError:
        failed(Failure())
        await ending.wait()
        raise
    if failures:
        assert failures[0].value is not None
        raise failures[0].value from None
    return [result for _, result in results]


class Tasks(Service):
    """Own background work, so that stopping the service really stops it.

    An unexpected failure of a task is logged once, here, with the task's name.
    """

    _log = Logger()

    def __init__(self) -> None:
        self._running: dict[Deferred[Any], bool] = {}
        """And whether it was cancelled: a second time would cut its cleaning up short."""

    def spawn(self, what: str, coro: Coroutine[Deferred[Any], Any, object]) -> None:
        """Start `coro` at once and own it until it ends."""

        def unexpected(f: Failure) -> None:
            if not f.check(CancelledError):
                self._log.failure("background task {what} failed", failure=f, what=what)

        self._own(Deferred.fromCoroutine(coro)).addErrback(unexpected)

    def keep(self, work: Deferred[T]) -> Deferred[T]:
        """Own `work` until it ends, and fire with what comes of it.

        Cancelling cancels `work`, and fires when it has ended; cancelling again only waits no
        longer.
        """
        self._own(work)
        ending = Ending.of(work)

        async def waited() -> T:
            try:
                return await ending.wait()
            except CancelledError:
                self._cancel(work)
                await ending.wait()
                raise

        return Deferred.fromCoroutine(waited())

    def settled(self) -> Deferred[None]:
        """Fire when all that runs now has ended; cancelling this only waits no longer."""
        ended = DeferredList(list(self._running), consumeErrors=True)
        return Ending.of(ended.addCallback(lambda _: None)).wait()

    def stopService(self) -> Deferred[None]:
        """Cancel what runs and fire when all of it has ended; cancelling this only waits no
        longer.
        """
        super().stopService()
        ended = self.settled()
        for work in list(self._running):
            self._cancel(work)
        return ended

    def _own(self, work: Deferred[T]) -> Deferred[T]:
        self._running[work] = False

        def ended(result: T | Failure) -> T | Failure:
            del self._running[work]
            return result

        return work.addBoth(ended)

    def _cancel(self, work: Deferred[Any]) -> None:
        if self._running.get(work) is False:
            self._running[work] = True
            work.cancel()


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


class Ending(Generic[T]):
    """How some work ends, for any number of those who wait for it and cannot cancel it."""

    _log = Logger()

    def __init__(self) -> None:
        self._results: list[T | Failure] = []
        """What came of it, once it is over."""
        self._waiting: list[Deferred[T]] = []
        self._was_left = False

    @classmethod
    def of(cls, work: Deferred[T]) -> Ending[T]:
        """Return that of a work which is nobody else's."""
        ending: Ending[T] = cls()
        work.addBoth(ending.done)
        return ending

    def done(self, result: T | Failure) -> None:
        """It is over.  A failure is logged where whoever waited for it has gone."""
        self._results.append(result)
        waiting, self._waiting = self._waiting, []
        is_unheard = self._was_left and not waiting
        if isinstance(result, Failure) and is_unheard and not result.check(CancelledError):
            self._log.failure("what nobody waits for any more failed", failure=result)
        for d in waiting:
            d.callback(result)

    def wait(self) -> Deferred[T]:
        """Fire when it is over; cancelling forgets the waiter and nothing else."""

        def leave(d: Deferred[T]) -> None:
            self._waiting.remove(d)
            self._was_left = True

        d: Deferred[T] = Deferred(leave)
        if self._results:
            d.callback(self._results[0])
        else:
            self._waiting.append(d)
        return d
