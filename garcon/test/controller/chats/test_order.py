"""The order of chats in lists, as a value (chats.md 3.1)."""

from __future__ import annotations

import random

from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.catalogs import AgentSettings
from garcon.controller.chats.order import STEP, Gap, Order
from garcon.store.records import ChatRecord, OrderGroup

DAY = "2026-01-0{}T00:00:00.000Z"


def record(
    chat_id: str, group: OrderGroup = "normal", position: int = 0, created_at: str = DAY.format(1)
) -> ChatRecord:
    """Return a chat's record with its place."""
    return ChatRecord(
        chat_id=chat_id,
        executor_id="local",
        agent_id="scripted",
        agent_ownership_epoch="epoch",
        agent_settings=AgentSettings("scripted", 1, {}),
        project_path="/p",
        project_key="/p",
        order_group=group,
        position=position,
        created_at=created_at,
    )


def order(*records: ChatRecord) -> Order:
    """Return the order of these."""
    made = Order()
    for one in records:
        made.put(one)
    return made


class Listing(SynchronousTestCase):
    """Which chat comes before which."""

    def test_pinned_then_orphans_then_normal_then_archived(self) -> None:
        """Inside a group by position; orphans newest first, ties by id."""
        found = order(
            record("archived", "archived", -9),
            record("normal-2", "normal", 5),
            record("normal-1", "normal", -5),
            record("orphan-b", "orphan", 1, DAY.format(2)),
            record("orphan-a", "orphan", 2, DAY.format(2)),
            record("orphan-new", "orphan", 3, DAY.format(3)),
            record("pinned-2", "pinned", 2),
            record("pinned-1", "pinned", 1),
        )
        self.assertEqual(
            found.ids(),
            [
                *("pinned-1", "pinned-2", "orphan-new", "orphan-a", "orphan-b"),
                *("normal-1", "normal-2", "archived"),
            ],
        )
        self.assertEqual(found.of("normal"), ["normal-1", "normal-2"])

    def test_equal_positions_are_newest_first(self) -> None:
        """Two chats that were started at once have one position, and still an order."""
        found = order(record("a"), record("c", created_at=DAY.format(2)), record("b"))
        self.assertEqual(found.ids(), ["c", "a", "b"])

    def test_a_chat_is_there_once(self) -> None:
        """Put again it has moved; dropped it is gone, dropped twice too."""
        found = order(record("a"), record("b", position=1))
        found.put(record("a", position=2))
        self.assertEqual(found.ids(), ["b", "a"])
        found.drop("b")
        found.drop("b")
        self.assertEqual(found.ids(), ["a"])

    def test_a_creation_time_nobody_can_read(self) -> None:
        """The chat is listed all the same."""
        self.assertEqual(order(record("a", created_at="once upon a time")).ids(), ["a"])


class Places(SynchronousTestCase):
    """Where a move puts a chat."""

    def test_gaps(self) -> None:
        """Ends and neighbours, of one group only."""
        found = order(
            record("p", "pinned"), record("a"), record("b", position=STEP), record("z", "archived")
        )
        self.assertEqual(found.top("normal"), Gap("normal", None, "a"))
        self.assertEqual(found.bottom("normal"), Gap("normal", "b", None))
        self.assertEqual(found.beside("a", "normal", after=False), Gap("normal", None, "a"))
        self.assertEqual(found.beside("a", "normal", after=True), Gap("normal", "a", "b"))
        self.assertEqual(found.beside("b", "normal", after=True), Gap("normal", "b", None))
        self.assertEqual(found.top("orphan"), Gap("orphan", None, None))

    def test_positions(self) -> None:
        """Ends leave room; a gap is halved as long as there is a number in it."""
        found = order(record("a"), record("b", position=2), record("c", position=3))
        self.assertEqual(found.position(Gap("pinned", None, None)), 0)
        self.assertEqual(found.position(found.top("normal")), -STEP)
        self.assertEqual(found.position(found.bottom("normal")), 3 + STEP)
        self.assertEqual(found.position(Gap("normal", "a", "b")), 1)
        self.assertIsNone(found.position(Gap("normal", "b", "c")))

    def test_a_group_numbered_anew(self) -> None:
        """Every chat of it, in the order that was meant, with room between."""
        found = order(record("a"), record("b", position=1), record("z", "pinned"))
        self.assertEqual(
            found.numbered(Gap("normal", "a", "b"), "z"), [("a", 0), ("z", STEP), ("b", 2 * STEP)]
        )
        self.assertEqual(found.numbered(Gap("normal", None, "a"), "b"), [("b", 0), ("a", STEP)])
        self.assertEqual(found.numbered(Gap("archived", None, None), "z"), [("z", 0)])

    def test_any_moves_keep_the_order_that_was_asked_for(self) -> None:
        """A thousand moves beside others end as in a plain list, and few number a group anew."""
        dice = random.Random(4)
        records = {name: record(name, position=n) for n, name in enumerate("abcdefghij")}
        found, plain, renumbered = order(*records.values()), sorted(records), 0
        for _ in range(1_000):
            moving, reference = dice.sample(plain, 2)
            after = dice.random() < 0.5
            plain.remove(moving)
            plain.insert(plain.index(reference) + after, moving)
            gap = found.beside(reference, "normal", after=after)
            if moving in (gap.before, gap.after):
                self.assertEqual(found.ids(), plain)
                continue
            position = found.position(gap)
            places = [(moving, position)] if position is not None else found.numbered(gap, moving)
            renumbered += position is None
            for name, place in places:
                assert place is not None
                found.put(record(name, position=place))
            self.assertEqual(found.ids(), plain)
        self.assertLess(renumbered, 60)
