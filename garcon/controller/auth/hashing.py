"""Threads for what signing in costs: few, and with a bounded queue before them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from twisted.internet.defer import Deferred, fail
from twisted.internet.interfaces import IReactorFromThreads
from twisted.internet.threads import deferToThreadPool
from twisted.python.threadpool import ThreadPool

from garcon.errors import GarconError

T = TypeVar("T")

THREADS = 2
"""Each holds 32 MiB while it hashes, and a core."""
WAITING = 16
"""Pieces of work that wait or run; the last of them is done within two seconds or so."""


class Hashing:
    """Runs blocking work beside the reactor.  What has begun is not cancelled: nobody waits for it
    any more, that is all.
    """

    def __init__(self, reactor: IReactorFromThreads, pool: ThreadPool | None = None) -> None:
        self._reactor = reactor
        self._pool = ThreadPool(0, THREADS, "hashing") if pool is None else pool
        self._under_way = 0
        self._is_open = False

    def start(self) -> None:
        """Take work."""
        self._is_open = True
        self._pool.start()

    def stop(self) -> None:
        """Take no more; waits for what runs, a fraction of a second."""
        if self._is_open:
            self._is_open = False
            self._pool.stop()

    def run(self, work: Callable[[], T]) -> Deferred[T]:
        """Do it; 503 when too much waits already."""
        if self._under_way >= WAITING or not self._is_open:
            return fail(_too_many())
        self._under_way += 1

        def done() -> T:
            try:
                if not self._is_open:
                    raise _too_many()
                return work()
            finally:
                self._reactor.callFromThread(self._done)

        d: Deferred[Any] = deferToThreadPool(self._reactor, self._pool, done)
        return d

    def _done(self) -> None:
        self._under_way -= 1


def _too_many() -> GarconError:
    return GarconError(
        "INTERNAL_ERROR",
        "Too many are signing in at this moment; try again.",
        status=503,
        retryable=True,
        retry_after=1,
    )
