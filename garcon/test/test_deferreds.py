"""Work that is done together, owned, or waited for by many (`deferreds`)."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from twisted.internet.defer import CancelledError, Deferred, fail, succeed
from twisted.trial.unittest import SynchronousTestCase

from garcon.deferreds import Ending, Tasks, gathered


class GatheredTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.begun: list[Deferred[str]] = []
        self.cancelled: list[Deferred[str]] = []

    def gather(self, count: int, most: int) -> Deferred[list[str]]:
        async def work() -> str:
            d: Deferred[str] = Deferred(self.cancelled.append)
            self.begun.append(d)
            return await d

        works: list[Callable[[], Coroutine[Deferred[Any], Any, str]]] = [work] * count
        return Deferred.fromCoroutine(gathered(works, most))

    def test_at_most_so_many_at_a_time(self) -> None:
        """The next one begins as one ends, and what comes of each is in the order given."""
        d = self.gather(3, 2)
        self.assertEqual(len(self.begun), 2)
        self.begun[1].callback("b")
        self.assertEqual(len(self.begun), 3)
        self.begun[2].callback("c")
        self.assertNoResult(d)
        self.begun[0].callback("a")
        self.assertEqual(self.successResultOf(d), ["a", "b", "c"])

    def test_the_first_failure(self) -> None:
        """Is raised, and nothing goes on or begins any more."""
        d = self.gather(3, 2)
        self.begun[1].errback(ValueError("no"))
        self.failureResultOf(d, ValueError)
        self.assertEqual(self.cancelled, [one for one in self.begun if one is not self.begun[1]])
        self.assertEqual(self.flushLoggedErrors(), [])

    def test_cancelling(self) -> None:
        """Cancels all of it, what has not begun included."""
        d = self.gather(3, 2)
        d.cancel()
        self.failureResultOf(d, CancelledError)
        self.assertEqual(self.cancelled[:2], self.begun[:2])
        self.assertTrue(all(one.called for one in self.begun))
        self.assertEqual(self.flushLoggedErrors(), [])

    def test_nothing(self) -> None:
        """Is done at once."""
        self.assertEqual(self.successResultOf(self.gather(0, 2)), [])


class CleanUpTests(SynchronousTestCase):
    """Work whose end takes its time."""

    def setUp(self) -> None:
        self.cleaning: list[Deferred[None]] = []
        self.cleaned: list[str] = []

    async def work(self, name: str) -> None:
        """Wait until it is cancelled, and then until the test says so."""
        try:
            await Deferred[None]()
        finally:
            self.cleaning.append(Deferred())
            await self.cleaning[-1]
            self.cleaned.append(name)

    def gather(self) -> Deferred[list[None]]:
        works = [partial(self.work, name) for name in ("a", "b")]
        return Deferred.fromCoroutine(gathered(works, 2))

    def test_what_is_cancelled_together_ends_together(self) -> None:
        """The first to have cleaned up does not disturb the other, and both are waited for."""
        d = self.gather()
        d.cancel()
        first, second = self.cleaning
        first.callback(None)
        self.assertEqual(self.cleaned, ["a"])
        self.assertNoResult(d)
        second.callback(None)
        self.assertEqual(self.cleaned, ["a", "b"])
        self.failureResultOf(d, CancelledError)

    def test_a_failure_is_told_when_the_others_have_cleaned_up(self) -> None:
        """Which nothing cuts short."""

        async def fails() -> None:
            raise ValueError("no")

        works: list[Callable[[], Coroutine[Deferred[Any], Any, None]]]
        works = [partial(self.work, "a"), fails]
        d = Deferred.fromCoroutine(gathered(works, 2))
        self.assertNoResult(d)
        self.cleaning[0].callback(None)
        self.assertEqual(self.cleaned, ["a"])
        self.failureResultOf(d, ValueError)

    def test_who_gives_up_twice(self) -> None:
        """Is not waited for, and what cleans up is left to itself."""
        d = self.gather()
        d.cancel()
        d.cancel()
        self.failureResultOf(d, CancelledError)
        for cleaning in self.cleaning:
            cleaning.callback(None)
        self.assertEqual(self.cleaned, ["a", "b"])

    def test_what_is_kept_is_given_up_once(self) -> None:
        """Whoever asked for it is told when it has cleaned up; a stop in between does not disturb
        it, and waits.
        """
        tasks = Tasks()
        asked = tasks.keep(Deferred.fromCoroutine(self.work("a")))
        asked.cancel()
        stopping = tasks.stopService()
        self.assertNoResult(asked)
        self.assertNoResult(stopping)
        self.cleaning[0].callback(None)
        self.assertEqual(self.cleaned, ["a"])
        self.failureResultOf(asked, CancelledError)
        self.successResultOf(stopping)

    def test_what_is_kept_outlives_whoever_gives_it_up_twice(self) -> None:
        """The stop still waits for it."""
        tasks = Tasks()
        asked = tasks.keep(Deferred.fromCoroutine(self.work("a")))
        asked.cancel()
        asked.cancel()
        self.failureResultOf(asked, CancelledError)
        stopping = tasks.stopService()
        self.assertNoResult(stopping)
        self.cleaning[0].callback(None)
        self.successResultOf(stopping)

    def test_what_comes_of_what_is_kept(self) -> None:
        """Is told to whoever asked for it, a failure too, and to nobody else."""
        tasks = Tasks()
        self.assertEqual(self.successResultOf(tasks.keep(succeed("x"))), "x")
        self.failureResultOf(tasks.keep(fail(ValueError("no"))), ValueError)
        self.successResultOf(tasks.stopService())
        self.assertEqual(self.flushLoggedErrors(), [])

    def test_a_stop_that_is_given_up(self) -> None:
        """Leaves the tasks to their cleaning up as well."""
        tasks = Tasks()
        tasks.spawn("a", self.work("a"))
        stopping = tasks.stopService()
        stopping.cancel()
        self.failureResultOf(stopping, CancelledError)
        self.cleaning[0].callback(None)
        self.assertEqual(self.cleaned, ["a"])


class EndingTests(SynchronousTestCase):
    """How one work ends, for many."""

    def setUp(self) -> None:
        self.work: Deferred[str] = Deferred()
        self.ending = Ending.of(self.work)

    def test_everybody_hears_of_it(self) -> None:
        """Those who come late too, and a failure as well as a result."""
        waits = [self.ending.wait() for _ in range(2)]
        self.work.callback("x")
        waits.append(self.ending.wait())
        self.assertEqual([self.successResultOf(d) for d in waits], ["x", "x", "x"])
        failed = Ending.of(fail(ValueError("no")))
        for _ in range(2):
            self.failureResultOf(failed.wait(), ValueError)

    def test_cancelling_forgets_one_who_waits(self) -> None:
        """And nothing else."""
        gone, waits = self.ending.wait(), self.ending.wait()
        gone.cancel()
        self.failureResultOf(gone, CancelledError)
        self.assertFalse(self.work.called)
        self.work.callback("x")
        self.assertEqual(self.successResultOf(waits), "x")

    def test_a_failure_when_all_have_gone(self) -> None:
        """Is logged, unless it was cancelled."""
        for error, logged in ((ValueError("no"), 1), (CancelledError(), 0)):
            work: Deferred[str] = Deferred()
            gone = Ending.of(work).wait()
            gone.cancel()
            self.failureResultOf(gone, CancelledError)
            work.errback(error)
            self.assertEqual(len(self.flushLoggedErrors()), logged)
