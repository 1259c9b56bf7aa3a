"""Answers that let an echo go first."""

from __future__ import annotations

from twisted.internet.defer import CancelledError
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from garcon.controller.executors.remote_typing import UNDER_WAY
from garcon.worker.serving.answers import MOMENT, MOST, Answers


class Order(SynchronousTestCase):
    """When they go."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.answers = Answers(self.clock)

    def tearDown(self) -> None:
        self.clock.advance(MOMENT)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_behind_what_is_shown(self) -> None:
        """All that wait, each with its own answer."""
        waiting = [self.answers.behind(self.answers.shown, name) for name in "ab"]
        for d in waiting:
            self.assertNoResult(d)
        self.answers.was_shown()
        self.assertEqual([self.successResultOf(d) for d in waiting], ["a", "b"])

    def test_at_once_where_something_was_shown_meanwhile(self) -> None:
        """There is nothing left to wait for."""
        before = self.answers.shown
        self.answers.was_shown()
        self.assertEqual(self.successResultOf(self.answers.behind(before, "a")), "a")

    def test_in_a_moment(self) -> None:
        """Where nothing is shown; a moment is counted from the first that waits."""
        first = self.answers.behind(0, "a")
        self.clock.advance(MOMENT / 2)
        second = self.answers.behind(0, "b")
        self.clock.advance(MOMENT / 4)
        self.assertNoResult(first)
        self.clock.advance(MOMENT / 4)
        self.assertEqual(self.successResultOf(first), "a")
        self.assertEqual(self.successResultOf(second), "b")

    def test_at_most(self) -> None:
        """So many wait; one more, and all go, long before the controller may send no more."""
        self.assertLess(MOST, UNDER_WAY)
        waiting = [self.answers.behind(0, str(number)) for number in range(MOST)]
        for d in waiting:
            self.assertNoResult(d)
        waiting.append(self.answers.behind(0, "last"))
        self.assertEqual(
            [self.successResultOf(d) for d in waiting], [*map(str, range(MOST)), "last"]
        )

    def test_one_that_is_cancelled(self) -> None:
        """Gets no answer, and the others do."""
        cancelled, other = self.answers.behind(0, "a"), self.answers.behind(0, "b")
        cancelled.cancel()
        self.failureResultOf(cancelled, CancelledError)
        self.answers.was_shown()
        self.assertEqual(self.successResultOf(other), "b")
