"""Send budgets and order."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.limits import FRAGMENT, KIB, MESSAGE, MIB
from garcon.contract.rpc import Lane
from garcon.link.fragments import LAST, MORE, WHOLE
from garcon.link.queue import (
    WHOLES_PER_FRAGMENT,
    Item,
    Kind,
    LaneQueue,
    Progress,
    SendBudget,
    fits,
)

ORDINARY, PRODUCER, CONTROL, SMALL = Kind.ORDINARY, Kind.PRODUCER, Kind.CONTROL, Kind.SMALL


class Budgets(SynchronousTestCase):
    """How much may wait (control.md J.4); each bound at N and N + 1."""

    def setUp(self) -> None:
        self.budget = SendBudget()
        self.primary = LaneQueue(Lane.PRIMARY, self.budget)
        self.bulk = LaneQueue(Lane.BULK, self.budget)

    def fill(self, queue: LaneQueue, size: int, kind: Kind = ORDINARY) -> None:
        while size:
            piece = min(size, MESSAGE)
            self.assertIsNotNone(queue.offer(bytes(piece), kind))
            size -= piece

    def test_bytes_of_both_lanes(self) -> None:
        """32 MiB in all, less the 32 KiB kept for bulk control."""
        self.fill(self.bulk, 20 * MIB)
        self.fill(self.primary, 12 * MIB - 32 * KIB)
        self.assertIsNone(self.primary.offer(b"x", ORDINARY))
        self.assertIsNotNone(self.primary.offer(b"x", CONTROL))

    def test_messages_of_both_lanes(self) -> None:
        """4096 messages in all, less the four kept for bulk control."""
        for _ in range(4092):
            self.assertIsNotNone(self.primary.offer(b"x", ORDINARY))
        self.assertIsNone(self.primary.offer(b"x", ORDINARY))
        for _ in range(4):
            self.assertIsNotNone(self.primary.offer(b"x", CONTROL))
        self.assertIsNone(self.primary.offer(b"x", CONTROL))

    def test_bulk_share(self) -> None:
        """Bulk has 24 MiB and 3072 messages, and primary still goes on."""
        self.fill(self.bulk, 24 * MIB)
        self.assertIsNone(self.bulk.offer(b"x", ORDINARY))
        self.assertIsNotNone(self.primary.offer(b"x", ORDINARY))
        self.bulk.drop()
        for _ in range(3072):
            self.assertIsNotNone(self.bulk.offer(b"x", ORDINARY))
        self.assertIsNone(self.bulk.offer(b"x", ORDINARY))
        self.assertIsNotNone(self.primary.offer(b"x", ORDINARY))

    def test_one_control_message(self) -> None:
        """A bulk control message has at most 8 KiB."""
        self.assertIsNotNone(self.primary.offer(bytes(8 * KIB), CONTROL))
        self.assertIsNone(self.primary.offer(bytes(8 * KIB + 1), CONTROL))

    def test_producer_bytes(self) -> None:
        """Producer frames join while less than 4 MiB wait."""
        self.fill(self.primary, 4 * MIB - 1)
        self.assertIsNotNone(self.primary.offer(b"x", PRODUCER))
        self.assertIsNone(self.primary.offer(b"x", PRODUCER))
        self.assertIsNotNone(self.primary.offer(b"x", ORDINARY))

    def test_producer_messages(self) -> None:
        """Producer frames join while less than 512 messages wait."""
        for _ in range(512):
            self.assertIsNotNone(self.primary.offer(b"x", PRODUCER))
        self.assertIsNone(self.primary.offer(b"x", PRODUCER))

    def test_an_oversize_producer_frame_waits_for_an_empty_queue(self) -> None:
        """A frame of 4 MiB or more goes alone."""
        item = self.primary.offer(b"x", ORDINARY)
        assert item is not None
        self.assertIsNone(self.primary.offer(bytes(4 * MIB), PRODUCER))
        self.primary.remove(item)
        self.assertIsNotNone(self.primary.offer(bytes(4 * MIB), PRODUCER))

    def test_one_message(self) -> None:
        """16 MiB are a message, one byte more is none; a request's number counts."""
        self.assertIsNone(self.primary.offer(bytes(MESSAGE + 1), ORDINARY))
        self.assertIsNotNone(self.primary.offer(bytes(MESSAGE), ORDINARY))
        self.assertTrue(fits(bytes(MESSAGE)))
        self.assertFalse(fits(bytes(MESSAGE + 1)))
        self.assertTrue(fits(bytes(MESSAGE - 24), needs_number=True))
        self.assertFalse(fits(bytes(MESSAGE - 23), needs_number=True))

    def test_what_is_sent_removed_or_dropped_is_free_again(self) -> None:
        """The budget and the lane's count return to nothing."""
        sent = self.primary.offer(bytes(100_000), ORDINARY)
        removed = self.bulk.offer(bytes(50), ORDINARY)
        assert sent is not None and removed is not None
        self.assertEqual((self.primary.queued_bytes, self.bulk.queued_bytes), (100_000, 50))
        while self.primary.next_record() is not None:
            pass
        self.bulk.remove(removed)
        self.bulk.offer(bytes(70), ORDINARY)
        self.bulk.offer(bytes(70), CONTROL)
        self.bulk.drop()
        left = self.budget
        self.assertEqual(
            (left.bytes, left.messages, left.bulk_bytes, left.bulk_messages, left.controls),
            (0, 0, 0, 0, 0),
        )
        self.assertEqual((self.primary.queued_bytes, self.bulk.queued_bytes), (0, 0))


class Order(SynchronousTestCase):
    """Which record comes next."""

    def setUp(self) -> None:
        self.budget = SendBudget()
        self.queue = LaneQueue(Lane.PRIMARY, self.budget)

    def offer(self, text: bytes, kind: Kind = ORDINARY, needs_number: bool = False) -> Item:
        item = self.queue.offer(text, kind, needs_number=needs_number)
        assert item is not None
        return item

    def rest(self) -> list[bytes]:
        records = []
        while (record := self.queue.next_record()) is not None:
            records.append(record)
        return records

    def test_small_texts_go_whole_and_in_order(self) -> None:
        """Each small text is one record."""
        for text in (b"a", b"b", b"c"):
            self.offer(text)
        self.assertEqual(self.rest(), [WHOLE + b"a", WHOLE + b"b", WHOLE + b"c"])

    def test_a_small_text_passes_between_fragments(self) -> None:
        """What is offered while a large message is under way goes next."""
        self.offer(bytes(FRAGMENT) + bytes(FRAGMENT) + b"end")
        first = self.queue.next_record()
        assert first is not None
        self.assertEqual(first[:1], MORE)
        self.offer(b"small")
        self.assertEqual(self.queue.next_record(), WHOLE + b"small")
        self.assertEqual([r[:1] for r in self.rest()], [MORE, LAST])

    def test_small_texts_do_not_starve_the_stream(self) -> None:
        """After so many whole texts comes a fragment."""
        self.offer(bytes(2 * FRAGMENT))
        for _ in range(2 * WHOLES_PER_FRAGMENT + 1):
            self.offer(b"s")
        kinds = [r[:1] for r in self.rest()]
        n = WHOLES_PER_FRAGMENT
        self.assertEqual(kinds, [WHOLE] * n + [MORE] + [WHOLE] * n + [LAST] + [WHOLE])

    def test_producer_frames_never_overtake_each_other(self) -> None:
        """Large and small ones keep their order, also behind other large messages."""
        self.offer(b"1" * (FRAGMENT + 1), PRODUCER)
        self.offer(b"2", PRODUCER)
        self.offer(b"3" * (FRAGMENT + 1))
        self.offer(b"4", PRODUCER)
        self.assertEqual(
            [(r[:1], r[1:2]) for r in self.rest()],
            [
                (MORE, b"1"),
                (LAST, b"1"),
                (LAST, b"2"),
                (MORE, b"3"),
                (LAST, b"3"),
                (LAST, b"4"),
            ],
        )

    def test_numbers_follow_the_first_records(self) -> None:
        """A request is numbered when its sending begins, so a removed one leaves no gap."""
        large = self.offer(b'{"a":"' + b"x" * FRAGMENT + b'"', needs_number=True)
        self.queue.next_record()
        gone = self.offer(b'{"b":1', needs_number=True)
        self.offer(b'{"c":1', needs_number=True)
        self.assertTrue(self.queue.remove(gone))
        self.assertEqual(self.queue.next_record(), WHOLE + b'{"c":1,"seq":2}')
        last = self.queue.next_record()
        assert last is not None
        self.assertTrue(last.endswith(b',"seq":1}'))
        self.assertIs(large.progress, Progress.SENT)

    def test_what_is_being_sent_cannot_be_removed(self) -> None:
        """A cancel of it goes behind its last record, before anything else."""
        item = self.offer(bytes(2 * FRAGMENT))
        self.queue.next_record()
        self.assertIs(item.progress, Progress.SENDING)
        self.assertFalse(self.queue.remove(item))
        self.queue.offer_behind(b"cancel", item)
        self.offer(b"small")
        self.assertEqual(self.queue.next_record(), WHOLE + b"small")
        self.offer(b"later")
        records = self.rest()
        self.assertLess([r[:1] for r in records].index(LAST), records.index(WHOLE + b"cancel"))
        self.assertEqual(self.budget.messages, 0)

    def test_a_cancel_of_what_was_sent_goes_at_once(self) -> None:
        """Behind a sent text there is nothing to wait for."""
        item = self.offer(b"request")
        self.rest()
        self.assertFalse(self.queue.remove(item))
        self.queue.offer_behind(b"cancel", item)
        self.assertEqual(self.rest(), [WHOLE + b"cancel"])

    def test_dropping_frees_followers_too(self) -> None:
        """A queue dropped in the midst of a message leaves nothing charged."""
        item = self.offer(bytes(2 * FRAGMENT))
        self.queue.next_record()
        self.queue.offer_behind(b"cancel", item)
        self.queue.drop()
        self.assertEqual((self.budget.bytes, self.budget.messages), (0, 0))
        self.assertEqual(self.rest(), [])
        self.offer(b"s", SMALL)
