"""The gateway's budget of answers in flight."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from garcon.contract import limits
from garcon.contract.rpc import Lane
from garcon.worker.gateway.slots import Slots


class Budget(SynchronousTestCase):
    """At most 16 answers, of them at most 12 on bulk."""

    def test_bulk_at_n_and_n_plus_one(self) -> None:
        """Bulk gets its share and no more; primary still has its own four."""
        slots = Slots()
        for _ in range(limits.GATEWAY_RESPONSES_BULK):
            self.assertIsNotNone(slots.take(Lane.BULK))
        self.assertIsNone(slots.take(Lane.BULK))
        for _ in range(limits.GATEWAY_RESPONSES - limits.GATEWAY_RESPONSES_BULK):
            self.assertIsNotNone(slots.take(Lane.PRIMARY))
        self.assertIsNone(slots.take(Lane.PRIMARY))

    def test_primary_may_use_all_of_them(self) -> None:
        """Nothing is kept for bulk."""
        slots = Slots()
        for _ in range(limits.GATEWAY_RESPONSES):
            self.assertIsNotNone(slots.take(Lane.PRIMARY))
        self.assertIsNone(slots.take(Lane.PRIMARY))
        self.assertIsNone(slots.take(Lane.BULK))

    def test_releasing_twice_frees_one(self) -> None:
        """A slot can be given back once only."""
        slots = Slots(total=2, bulk=1)
        slot = slots.take(Lane.BULK)
        assert slot is not None
        slot.release()
        slot.release()
        self.assertEqual(slots.taken, 0)
        self.assertIsNotNone(slots.take(Lane.BULK))
        self.assertIsNone(slots.take(Lane.BULK))
