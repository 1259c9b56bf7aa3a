"""Work that is done together (`deferreds.gathered`)."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.trial.unittest import SynchronousTestCase

from garcon.deferreds import gathered


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
