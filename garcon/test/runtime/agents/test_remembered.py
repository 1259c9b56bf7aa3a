"""What a program tells of itself: asked once, for a while, and again for whoever still waits."""

from __future__ import annotations

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from garcon.runtime.agents.remembered import Remembered


class RememberedTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.told: Remembered[str] = Remembered(self.clock, "assumed")
        self.asked: list[Deferred[str]] = []
        self.seconds = 10.0

    def get(self, of: object = "program") -> Deferred[str]:
        """Ask; the test answers."""

        async def ask() -> tuple[str, float]:
            self.asked.append(Deferred())
            return await self.asked[-1], self.seconds

        return Deferred.fromCoroutine(self.told.get(of, ask))

    def test_one_question_for_all_who_ask_meanwhile_and_later(self) -> None:
        """Until it is not good any more."""
        both = [self.get(), self.get()]
        self.assertEqual(len(self.asked), 1)
        self.asked[0].callback("one")
        self.assertEqual([self.successResultOf(d) for d in both], ["one", "one"])
        self.clock.advance(9)
        self.assertEqual(self.successResultOf(self.get()), "one")
        self.clock.advance(1)
        self.assertNoResult(self.get())
        self.assertEqual(self.told.value, "one")

    def test_another_program_is_asked(self) -> None:
        """What the one has told is not what the other can do."""
        first, other = self.get(), self.get("other")
        self.asked[0].callback("one")
        self.assertEqual(self.successResultOf(first), "one")
        self.asked[1].callback("two")
        self.assertEqual(self.successResultOf(other), "two")

    def test_a_question_that_is_given_up_is_asked_again_by_who_waits(self) -> None:
        """By one of them; nobody is told what was assumed before."""
        first, *others = (self.get() for _ in range(3))
        first.cancel()
        self.failureResultOf(first, CancelledError)
        self.assertEqual(len(self.asked), 2)
        for d in others:
            self.assertNoResult(d)
        self.asked[1].callback("one")
        self.assertEqual([self.successResultOf(d) for d in others], ["one", "one"])

    def test_one_who_waits_and_gives_up(self) -> None:
        """Ends nothing for the others."""
        first, second = self.get(), self.get()
        second.cancel()
        self.failureResultOf(second, CancelledError)
        self.asked[0].callback("one")
        self.assertEqual(self.successResultOf(first), "one")

    def test_a_question_that_fails(self) -> None:
        """Fails for who asked; the next one asks again."""
        first, second = self.get(), self.get()
        self.asked[0].errback(ValueError("no"))
        self.failureResultOf(first, ValueError)
        self.asked[1].callback("one")
        self.assertEqual(self.successResultOf(second), "one")
