"""Which replies are kept, and what is remembered of ended sessions; values only."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.limits import JOURNAL_BULK_BYTES, JOURNAL_BYTES, MIB, RECEIPT_SESSIONS
from garcon.contract.rpc import Lane
from garcon.link.calls import Exemptions, Numbers
from garcon.link.journal import ENTRY, Journal
from garcon.link.receipts import Receipts


class Keeping(SynchronousTestCase):
    """A small journal: four entries of 100 bytes, three of them on bulk."""

    def setUp(self) -> None:
        self.size = 100
        charge = self.size + ENTRY
        self.journal = Journal(4 * charge, 3 * charge)

    def keep(
        self, call_id: str, lane: Lane = Lane.PRIMARY, *, delivered: bool, more: int = 0
    ) -> bool:
        return self.journal.keep(lane, "s", call_id, b"x" * (self.size + more), delivered)

    def kept(self) -> str:
        return "".join(sorted(c for c in "abcdefgh" if c in self.journal))

    def test_the_contracts_amounts(self) -> None:
        """64 MiB, of them 48 on bulk."""
        self.assertEqual((JOURNAL_BYTES, JOURNAL_BULK_BYTES), (64 * MIB, 48 * MIB))
        journal = Journal()
        full = b"x" * (16 * MIB - ENTRY)
        for n in range(3):
            self.assertTrue(journal.keep(Lane.BULK, "s", f"b{n}", full, False))
        self.assertFalse(journal.keep(Lane.BULK, "s", "b3", b"", False))
        self.assertTrue(journal.keep(Lane.PRIMARY, "s", "p0", full, False))
        self.assertFalse(journal.keep(Lane.PRIMARY, "s", "p1", b"", False))
        self.assertEqual(journal.used, JOURNAL_BYTES)

    def test_the_oldest_delivered_goes_first(self) -> None:
        """On either lane; what was never delivered stays."""
        self.keep("a", delivered=False)
        self.keep("b", Lane.BULK, delivered=True)
        self.keep("c", delivered=True)
        self.keep("d", delivered=True)
        self.assertTrue(self.keep("e", delivered=False))
        self.assertEqual(self.kept(), "acde")
        self.assertTrue(self.keep("f", delivered=False))
        self.assertEqual(self.kept(), "adef")

    def test_what_finds_no_room_changes_nothing(self) -> None:
        """A reply too large even without all that was delivered pushes nothing out."""
        self.keep("a", delivered=False)
        self.keep("b", delivered=False)
        self.keep("c", delivered=True)
        room = 2 * (self.size + ENTRY)
        self.assertFalse(self.keep("d", delivered=False, more=room - self.size - ENTRY + 1))
        self.assertEqual(self.kept(), "abc")
        self.assertTrue(self.keep("d", delivered=False, more=room - self.size - ENTRY))
        self.assertEqual(self.kept(), "abd")

    def test_bulk_has_its_share(self) -> None:
        """Bulk's own oldest goes when its share is used up; primary's stays."""
        self.keep("a", delivered=True)
        for call_id in "bcd":
            self.keep(call_id, Lane.BULK, delivered=True)
        self.assertTrue(self.keep("e", Lane.BULK, delivered=True))
        self.assertEqual(self.kept(), "acde")

    def test_delivering_makes_room(self) -> None:
        """Once a session has taken a reply, it may go."""
        for call_id in "abcd":
            self.keep(call_id, delivered=False)
        self.assertFalse(self.keep("e", delivered=False))
        reply = self.journal.find(Lane.PRIMARY, "b")
        assert reply is not None
        self.journal.delivered(reply, "s2")
        self.journal.delivered(reply, "s3")
        self.assertEqual(reply.session, "s3")
        self.assertTrue(self.keep("e", delivered=False))
        self.assertEqual(self.kept(), "acde")

    def test_forgotten_by_its_own_lane_only(self) -> None:
        """Another lane neither finds nor frees a reply."""
        self.keep("a", Lane.BULK, delivered=True)
        self.assertIsNone(self.journal.find(Lane.PRIMARY, "a"))
        self.assertFalse(self.journal.forget(Lane.PRIMARY, "a"))
        self.assertIsNotNone(self.journal.find(Lane.BULK, "a"))
        self.assertTrue(self.journal.forget(Lane.BULK, "a"))
        self.assertFalse(self.journal.forget(Lane.BULK, "a"))
        self.assertEqual((self.journal.used, len(self.journal)), (0, 0))

    def test_what_is_not_named_is_dropped(self) -> None:
        """Of that lane and of earlier sessions."""
        self.keep("a", delivered=True)
        self.keep("b", delivered=False)
        self.keep("c", Lane.BULK, delivered=True)
        self.journal.keep(Lane.PRIMARY, "present", "d", b"", True)
        self.journal.retain(Lane.PRIMARY, ["b"], "present")
        self.assertEqual(self.kept(), "bcd")


class Receiving(SynchronousTestCase):
    """Receipts of ended sessions."""

    def numbers(self, *, missing: bool = False) -> Numbers:
        numbers = Numbers()
        numbers.request(1, whole=True, assembling=False)
        if missing:
            numbers.request(3, whole=True, assembling=True)
        return numbers

    def test_what_came_and_what_did_not(self) -> None:
        """The request that was being assembled has not come, though a later one has."""
        receipts = Receipts()
        receipts.ended("s", self.numbers(missing=True))
        self.assertEqual(
            [receipts.received("s", seq) for seq in (0, 1, 2, 3, 4)],
            [False, True, False, True, False],
        )
        self.assertIsNone(receipts.received("another", 1))

    def test_sixteen_sessions(self) -> None:
        """The seventeenth pushes the first out."""
        self.assertEqual(RECEIPT_SESSIONS, 16)
        receipts = Receipts()
        for n in range(16):
            receipts.ended(f"s{n}", self.numbers())
        self.assertIs(receipts.received("s0", 1), True)
        receipts.ended("s16", self.numbers())
        self.assertIsNone(receipts.received("s0", 1))
        self.assertIs(receipts.received("s1", 2), False)
        self.assertEqual(len(receipts), 16)


class Exempting(SynchronousTestCase):
    """Installation calls outside the budget."""

    def test_a_pair_once_at_a_time(self) -> None:
        """A repetition beside the first takes an ordinary place."""
        exemptions = Exemptions(Lane.PRIMARY)
        self.assertTrue(exemptions.take("m", "i"))
        self.assertFalse(exemptions.take("m", "i"))
        self.assertTrue(exemptions.take("m", "j"))
        exemptions.free("m", "i")
        self.assertTrue(exemptions.take("m", "i"))

    def test_sixty_four_pairs(self) -> None:
        """The sixty-fifth is not exempt."""
        exemptions = Exemptions(Lane.PRIMARY)
        self.assertEqual([exemptions.take("m", str(n)) for n in range(65)], [True] * 64 + [False])

    def test_only_the_reconciliation_on_bulk(self) -> None:
        """Nothing else is installed there."""
        exemptions = Exemptions(Lane.BULK)
        self.assertFalse(exemptions.take("executor.describe", ""))
        self.assertTrue(exemptions.take("calls.reconcile", ""))
        self.assertFalse(exemptions.take("calls.reconcile", ""))
