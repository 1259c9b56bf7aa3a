"""How many blocking operations run at once, how many wait, and how long anybody waits for one.

A thread that the file system does not let go cannot be ended: its caller is answered when the time
is over, its place stays taken until it comes back.  So a file system that hangs costs at most the
places there are, and others are told at once that there is none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import Thread
from typing import Any, TypeVar

from attrs import define, field
from twisted.internet.defer import Deferred, fail
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.python.threadpool import ThreadPool

from garcon.deferreds import Waiters, returns_deferred
from garcon.errors import GarconError
from garcon.runtime.files import failures
from garcon.runtime.files.stopping import Stop, Stopped

T = TypeVar("T")
InThread = Callable[[Callable[[], Any]], "Deferred[Any]"]
"""Runs something blocking on another thread."""


class _Daemon(Thread):
    """Ends with the process, wherever it hangs."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, daemon=True, **more)


class Threads:
    """Threads of our own, so that a file system that hangs takes none of the reactor's."""

    def __init__(self, reactor: Any, most: int) -> None:
        self._reactor = reactor
        self._pool = ThreadPool(0, most, "files")
        self._pool.threadFactory = _Daemon

    def run(self, work: Callable[[], Any]) -> Deferred[Any]:
        """See `InThread`."""
        if not self._pool.started:
            self._pool.start()
        d: Deferred[Any] = deferToThreadPool(self._reactor, self._pool, work)
        return d

    def stop(self) -> None:
        """End the threads.  Called when none of them works, as this waits for them."""
        if self._pool.started:
            self._pool.stop()


@define(eq=False)
class _Job:
    work: Callable[[Stop], Any]
    overdue: Callable[[], GarconError]
    over: Callable[[], None] | None
    waiter: Deferred[Any] = field(factory=Deferred)
    stop: Stop = field(factory=Stop)
    is_begun: bool = False
    is_answered: bool = False
    timer: IDelayedCall | None = None

    def answer(self) -> bool:
        """Whether the caller is still to be answered; from now on they are not."""
        if self.timer is not None and self.timer.active():
            self.timer.cancel()
        waits, self.is_answered = not self.is_answered, True
        return waits


class Workshop:
    """One kind of operation: `at_once` of them run, `most_waiting` wait."""

    _log = Logger()

    def __init__(
        self,
        in_thread: InThread,
        clock: IReactorTime,
        at_once: int,
        most_waiting: int,
    ) -> None:
        self._in_thread = in_thread
        self._clock = clock
        self._at_once = at_once
        self._most_waiting = most_waiting
        self._waiting: deque[_Job] = deque()
        self._running: set[_Job] = set()
        self._at_rest: Waiters[None] = Waiters()
        self._is_stopping = False

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def do(
        self,
        work: Callable[[Stop], T],
        seconds: float,
        overdue: Callable[[], GarconError] = failures.overdue,
        over: Callable[[], None] | None = None,
    ) -> Deferred[T]:
        """Run `work`, or fail with ``FILE_OPERATIONS_BUSY`` where there is no room, or when it was
        not begun in time.

        If it has begun and does not end in time it is told to stop, and its caller gets `overdue`.
        Cancelling tells it to stop as well.  `over` is called when it has really ended, or is known
        not to begin, exactly once.
        """
        job = _Job(work, overdue, over)
        if self._is_stopping:
            return self._refused(job, _stopping())
        if seconds <= 0:
            return self._refused(job, failures.busy())
        if len(self._running) >= self._at_once and len(self._waiting) >= self._most_waiting:
            return self._refused(job, failures.busy())
        job.waiter = Deferred(lambda _: self._cancelled(job))
        job.timer = self._clock.callLater(seconds, self._expired, job)
        self._waiting.append(job)
        self._begin()
        return job.waiter

    def _refused(self, job: _Job, error: GarconError) -> Deferred[Any]:
        self._over(job)
        return fail(error)

    def _over(self, job: _Job) -> None:
        over, job.over = job.over, None
        if over is not None:
            over()

    def _begin(self) -> None:
        while self._waiting and len(self._running) < self._at_once:
            job = self._waiting.popleft()
            job.is_begun = True
            self._running.add(job)
            self._in_thread(lambda job=job: job.work(job.stop)).addBoth(  # type: ignore[misc]
                self._ended, job
            )

    def _ended(self, result: Any, job: _Job) -> None:
        self._running.discard(job)
        self._over(job)
        self._begin()
        if job.answer():
            if isinstance(result, Failure):
                job.waiter.errback(result)
            else:
                job.waiter.callback(result)
        elif isinstance(result, Failure) and not result.check(Stopped, GarconError):
            self._log.failure("a file operation failed when nobody waited for it", failure=result)
        if not self._running:
            self._at_rest.fire(None)

    def _expired(self, job: _Job) -> None:
        if not job.answer():
            return
        if not job.is_begun:
            self._waiting.remove(job)
            self._over(job)
            job.waiter.errback(failures.busy())
            return
        job.stop.is_set = True
        job.waiter.errback(job.overdue())

    def _cancelled(self, job: _Job) -> None:
        if not job.answer():
            return
        if job.is_begun:
            job.stop.is_set = True
        else:
            self._waiting.remove(job)
            self._over(job)

    @returns_deferred
    async def stop(self) -> None:
        """Refuse what waits and what comes; fires when nothing runs any more."""
        self._is_stopping = True
        waiting, self._waiting = list(self._waiting), deque()
        for job in waiting:
            self._over(job)
            if job.answer():
                job.waiter.errback(_stopping())
        if self._running:
            await self._at_rest.wait()


def _stopping() -> GarconError:
    return GarconError(
        "SERVER_SHUTTING_DOWN", "This executor is stopping.", status=503, retryable=True
    )
