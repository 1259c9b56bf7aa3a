"""When a socket's rights on terminals end (server.md C.7)."""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from garcon.controller.terminals.deadline import LONGEST_STEP, Deadline

DAY = 86_400.0


class Deadlines(SynchronousTestCase):
    """A clock, and the time of day, which need not agree."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.shift = 1_000.0
        self.ended = 0

    def make(self, after: float | None) -> Deadline:
        at = None if after is None else self.now() + after
        deadline = Deadline(at, self.clock, self.now, self.end)
        deadline.watch()
        return deadline

    def now(self) -> float:
        return self.clock.seconds() + self.shift

    def end(self) -> None:
        self.ended += 1

    def test_at_its_time(self) -> None:
        """Once, and not before."""
        deadline = self.make(10)
        self.clock.advance(9.9)
        self.assertEqual((self.ended, deadline.has_come), (0, False))
        self.clock.advance(0.1)
        self.assertEqual((self.ended, deadline.has_come), (1, True))
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_never(self) -> None:
        """Where there is none no timer waits."""
        deadline = self.make(None)
        self.assertEqual((deadline.left, deadline.has_come), (None, False))
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_far_away(self) -> None:
        """In steps of less than 24.9 days."""
        self.make(60 * DAY)
        steps = 0
        while self.ended == 0:
            (timer,) = self.clock.getDelayedCalls()
            step = timer.getTime() - self.clock.seconds()
            self.assertTrue(0 < step <= LONGEST_STEP)
            self.clock.advance(step)
            steps += 1
        self.assertEqual((steps, self.ended), (3, 1))
        self.assertAlmostEqual(self.clock.seconds(), 60 * DAY, 3)

    def test_a_clock_that_was_set(self) -> None:
        """The time of day decides: a timer that comes too soon waits again."""
        self.make(10)
        self.shift -= 5
        self.clock.advance(10)
        self.assertEqual(self.ended, 0)
        self.clock.advance(5)
        self.assertEqual(self.ended, 1)

    def test_stopped(self) -> None:
        """It is not waited for any more."""
        deadline = self.make(10)
        deadline.stop()
        deadline.stop()
        self.assertEqual(self.clock.getDelayedCalls(), [])
