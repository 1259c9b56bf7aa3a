"""Slots of the bridge (control.md F.4)."""

from __future__ import annotations

from typing import Literal

from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.rpc import Lane
from garcon.controller.bridge.pools import Pools, Slot


class PoolTests(SynchronousTestCase):
    """N fit, N + 1 do not, and a released slot can be taken again."""

    def setUp(self) -> None:
        self.pools = Pools()

    def take(
        self, n: int, pool: Literal["short", "long"], lane: Lane, executor: str = "e"
    ) -> list[Slot]:
        """Take exactly `n` slots and find that there is none more."""
        slots = [self.pools.take(executor, pool, lane) for _ in range(n)]
        self.assertNotIn(None, slots)
        self.assertIsNone(self.pools.take(executor, pool, lane))
        return [slot for slot in slots if slot is not None]

    def test_four_of_six_short_slots_are_for_bulk(self) -> None:
        """The two others are primary's, also while bulk is full."""
        self.take(4, "short", Lane.BULK)
        self.take(2, "short", Lane.PRIMARY)

    def test_six_for_primary(self) -> None:
        """And then bulk has none either."""
        self.take(6, "short", Lane.PRIMARY)
        self.assertIsNone(self.pools.take("e", "short", Lane.BULK))

    def test_two_long(self) -> None:
        """Beside the short ones."""
        self.take(2, "long", Lane.BULK)
        self.take(4, "short", Lane.BULK)

    def test_24_of_32_short_slots_in_all_are_for_bulk(self) -> None:
        """Over six executors; the eight others are primary's."""
        for executor in range(6):
            self.take(4, "short", Lane.BULK, f"e{executor}")
        self.assertIsNone(self.pools.take("e9", "short", Lane.BULK))
        self.take(6, "short", Lane.PRIMARY, "e9")
        self.take(2, "short", Lane.PRIMARY, "e8")
        self.assertIsNone(self.pools.take("e7", "short", Lane.PRIMARY))

    def test_eight_long_in_all(self) -> None:
        """Over four executors."""
        for executor in range(4):
            self.take(2, "long", Lane.BULK, f"e{executor}")
        self.assertIsNone(self.pools.take("e9", "long", Lane.BULK))

    def test_release(self) -> None:
        """Once; a second release gives nothing away."""
        slots = self.take(4, "short", Lane.BULK)
        slots[0].release()
        slots[0].release()
        self.take(1, "short", Lane.BULK)

    def test_a_refused_take_takes_nothing(self) -> None:
        """Not of the total either."""
        slots = self.take(6, "short", Lane.PRIMARY)
        for slot in slots:
            slot.release()
        self.assertFalse(any(self.pools.used.values()))
