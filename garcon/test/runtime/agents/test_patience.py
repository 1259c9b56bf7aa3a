"""How long a handshake is waited for."""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from garcon.runtime.agents.patience import LOOKS, MOST, Patience


class PatienceTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.has_read = False
        self.over: list[float] = []
        self.patience = Patience(
            self.clock,
            3.0,
            lambda: self.has_read,
            lambda: self.over.append(self.clock.seconds()),
        )
        self.patience.begin()

    def a_patience(self, clock: Clock, over: list[float], has_read: bool, most: float) -> Patience:
        """Return one that notes when it is over."""
        return Patience(clock, 3.0, lambda: has_read, lambda: over.append(clock.seconds()), most)

    def wait(self, seconds: int) -> None:
        """Let so many seconds pass."""
        for _ in range(seconds):
            self.clock.advance(1.0)

    def test_it_counts_from_when_the_program_has_read(self) -> None:
        """However long that takes."""
        self.wait(6)
        self.has_read = True
        self.wait(3)
        self.assertEqual(self.over, [])
        self.wait(1)
        self.assertEqual(self.over, [10.0])
        self.wait(60)
        self.assertEqual(len(self.over), 1)

    def test_what_was_read_once_and_is_behind_again(self) -> None:
        """It is told more, and is slow again."""
        self.has_read = True
        self.wait(2)
        self.has_read = False
        self.wait(1)
        self.has_read = True
        self.wait(3)
        self.assertEqual(self.over, [])
        self.wait(1)
        self.assertEqual(self.over, [7.0])

    def test_a_program_that_never_reads(self) -> None:
        """Is not waited for without an end."""
        self.wait(LOOKS * MOST - 1)
        self.assertEqual(self.over, [])
        self.wait(1)
        self.assertEqual(self.over, [15.0])

    def test_in_any_case_after_so_long(self) -> None:
        """Whether the program reads or not, where somebody cannot wait for longer."""
        for has_read, most, at in ((False, 3.0, 3.0), (True, 2.5, 2.5), (True, 30.0, 4.0)):
            self.patience.end()
            clock, over = Clock(), list[float]()
            self.patience = self.a_patience(clock, over, has_read, most)
            self.patience.begin()
            for _ in range(40):
                clock.advance(0.5)
            self.assertEqual(over, [at])

    def test_an_end_before(self) -> None:
        """Nothing is left of it."""
        self.patience.end()
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.patience.end()
