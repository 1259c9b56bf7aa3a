"""A chat's queue as a value (chats.md 3.16 to 3.19a, 4.2 to 4.6, 5.5)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from msgspec import to_builtins
from twisted.trial.unittest import SynchronousTestCase

from garcon.controller.chats.applied import KEPT, Applied, AppliedCommands
from garcon.controller.chats.queue import CONTENT, ENTRIES, PAUSES, RECENT, Entry, Move, Queue
from garcon.errors import GarconError

AT, LATER = "2026-01-02T03:04:05.678Z", "2026-01-02T03:04:06.678Z"


def entry(name: str, content: str = "text") -> Entry:
    return Entry(name, content, f"m-{name}", "view", (), AT, AT)


def filled(*names: str) -> Queue:
    queue = Queue()
    for name in names:
        queue = queue.added(entry(name), AT)
    return queue


def move(source: str, placement: Any, target: str, /, order: int = 0, **known: int) -> Move:
    """A wish of somebody who knows revision 1 of both, unless told otherwise."""
    return Move(source, target, placement, order, known.get("source", 1), known.get("target", 1))


class QueueCase(SynchronousTestCase):
    """Values only."""

    def ids(self, queue: Queue) -> str:
        return "".join(entry.id for entry in queue.entries)

    def refused(self, code: str, change: Any, *args: Any) -> GarconError:
        error: GarconError = self.assertRaises(GarconError, change, *args)
        self.assertEqual(error.code, code)
        return error


class ControlTests(QueueCase):
    """What clients see (4.6)."""

    def test_initial_control(self) -> None:
        """Empty, version 0, never changed."""
        self.assertEqual(
            to_builtins(Queue().shown("instance")),
            {
                "serverInstanceId": "instance",
                "queue": {
                    "entries": [],
                    "steeringEntryId": None,
                    "recentlyDispatched": [],
                    "pause": None,
                    "reorderRevision": 0,
                },
                "version": 0,
                "updatedAt": None,
            },
        )

    def test_server_only_bookkeeping_is_not_sent(self) -> None:
        """Entries show their content and revision, not their identities; one pause of a stack."""
        queue = filled("a").paused("p1", AT).failed("z", "p2", LATER)
        shown = to_builtins(queue.shown("instance"))
        self.assertEqual(
            shown["queue"]["entries"],
            [{"id": "a", "content": "text", "revision": 1, "createdAt": AT, "updatedAt": AT}],
        )
        self.assertEqual(
            shown["queue"]["pause"],
            {"id": "p2", "kind": "queued-turn-failed", "entryId": "z", "pausedAt": LATER},
        )
        self.assertEqual((shown["version"], shown["updatedAt"]), (3, LATER))

    def test_a_manual_pause_names_no_entry(self) -> None:
        """Three members."""
        pause = to_builtins(filled("a").paused("p1", AT).shown("i"))["queue"]["pause"]
        self.assertEqual(pause, {"id": "p1", "kind": "manual", "pausedAt": AT})


class EntryTests(QueueCase):
    """Adding, editing, taking out (3.15 to 3.17)."""

    def test_fifo(self) -> None:
        """In the order of their creation."""
        queue = filled("a", "b", "c")
        self.assertEqual(self.ids(queue), "abc")
        self.assertEqual(queue.next, queue.entries[0])

    def test_a_hundred_entries_and_one_more(self) -> None:
        """N fit, N + 1 do not, and one that left makes room."""
        queue = Queue()
        for n in range(ENTRIES):
            queue = queue.added(entry(f"e{n}"), AT)
        error = self.refused("QUEUE_FULL", queue.added, entry("more"), AT)
        self.assertEqual((error.status, error.retryable), (409, True))
        self.assertEqual(len(queue.dispatched("e0", AT).added(entry("more"), AT).entries), ENTRIES)

    def test_bytes_at_the_bound_and_one_more(self) -> None:
        """All contents together, in UTF-8; an edit counts like a new one."""
        queue = Queue().added(entry("a", "é" * (CONTENT // 2 - 1)), AT)
        full = queue.added(entry("b", "xx"), AT)
        self.assertEqual(full.size, CONTENT)
        self.refused("QUEUE_FULL", queue.added, entry("b", "xxx"), AT)
        self.refused("QUEUE_FULL", full.replaced, "b", "xxx", 1, AT)
        self.assertEqual(full.replaced("b", "x", 1, AT).size, CONTENT - 1)
        self.assertEqual(full.deleted("a", AT).size, 2)

    def test_an_edit_counts_the_revision(self) -> None:
        """From 1; the time of the edit, not of the creation, changes (5.5.6)."""
        queue = filled("a", "b").replaced("b", "other", 1, LATER)
        edited = queue.entries[1]
        self.assertEqual(
            (edited.content, edited.revision, edited.created_at, edited.updated_at),
            ("other", 2, AT, LATER),
        )
        self.refused("QUEUE_ENTRY_REVISION_CONFLICT", queue.replaced, "b", "more", 1, LATER)
        self.assertEqual(queue.replaced("b", "more", 2, LATER).entries[1].revision, 3)

    def test_an_unknown_and_a_sent_entry(self) -> None:
        """404 for what never was, 409 for what was sent."""
        queue = filled("a", "b").dispatched("a", AT)
        for change in (
            lambda name: queue.replaced(name, "x", 1, AT),
            lambda name: queue.deleted(name, AT),
            lambda name: queue.moved(move(name, "after", "b"), AT),
            lambda name: queue.steering(name, 1, 0, AT),
        ):
            self.assertEqual(self.refused("QUEUE_ENTRY_NOT_FOUND", change, "z").status, 404)
            self.assertEqual(self.refused("QUEUE_ENTRY_ALREADY_SENT", change, "a").status, 409)

    def test_deleting_the_last_entry_ends_every_pause(self) -> None:
        """But not while another is left."""
        queue = filled("a", "b").paused("p1", AT).failed("z", "p2", AT)
        self.assertEqual(len(queue.deleted("a", AT).pauses), 2)
        left = queue.deleted("a", AT).deleted("b", AT)
        self.assertEqual((left.entries, left.pauses, left.holds_runs), ((), (), False))

    def test_clear_always_makes_a_version(self) -> None:
        """Of an empty queue too; what was sent of late stays known."""
        queue = filled("a", "b").dispatched("a", AT).paused("p", AT)
        cleared = queue.cleared(LATER)
        self.assertEqual((cleared.entries, cleared.pauses), ((), ()))
        self.assertEqual(cleared.recent, queue.recent)
        self.assertEqual(cleared.version, queue.version + 1)
        self.assertEqual(cleared.cleared(LATER).version, cleared.version + 1)
        self.assertEqual(cleared.size, 0)


class MoveTests(QueueCase):
    """Reordering (3.18)."""

    def test_before_and_after(self) -> None:
        """Every place can be reached."""
        queue = filled("a", "b", "c")
        for source, placement, target, wanted in (
            ("c", "before", "a", "cab"),
            ("a", "after", "c", "bca"),
            ("a", "after", "b", "bac"),
            ("b", "before", "a", "bac"),
            ("c", "after", "a", "acb"),
        ):
            moved = queue.moved(move(source, placement, target), LATER)
            self.assertEqual(self.ids(moved), wanted)
            self.assertEqual((moved.reorder_revision, moved.version), (1, queue.version + 1))

    def test_a_move_that_changes_nothing_is_a_version_all_the_same(self) -> None:
        """The order's revision, which begins at 0, counts changes of the order only (5.5.6)."""
        queue = filled("a", "b")
        for wish in (move("a", "before", "b"), move("b", "after", "a")):
            moved = queue.moved(wish, LATER)
            self.assertEqual((moved.reorder_revision, moved.version), (0, queue.version + 1))

    def test_check_order(self) -> None:
        """Source exists, in flight, source revision, order revision, target revision, target."""
        queue = filled("a", "b", "c").dispatched("a", AT)
        wrong: dict[str, int] = {"order": 7, "source": 7, "target": 7}
        steering = queue.steering("b", 1, 0, AT)
        for given, changes, code in (
            (queue, {}, "QUEUE_ENTRY_NOT_FOUND"),
            (steering, {}, "QUEUE_ENTRY_IN_FLIGHT"),
            (queue, {}, "QUEUE_ENTRY_REVISION_CONFLICT"),
            (queue, {"source": 1}, "QUEUE_ENTRY_REORDER_CONFLICT"),
            (queue, {"source": 1, "order": 0}, "QUEUE_ENTRY_REVISION_CONFLICT"),
        ):
            source = "z" if code == "QUEUE_ENTRY_NOT_FOUND" else "b"
            wish = move(source, "after", "c", **{**wrong, **changes})
            self.refused(code, given.moved, wish, AT)
        self.refused("QUEUE_ENTRY_REORDER_CONFLICT", queue.moved, move("b", "after", "nobody"), AT)

    def test_a_target_that_was_just_sent_means_the_head(self) -> None:
        """With the revision that its wisher knew; with another one it is a conflict."""
        queue = filled("a", "b", "c").dispatched("a", AT)
        for placement in ("before", "after"):
            moved = queue.moved(move("c", placement, "a"), AT)
            self.assertEqual((self.ids(moved), moved.reorder_revision), ("cb", 1))
        self.refused(
            "QUEUE_ENTRY_REVISION_CONFLICT",
            queue.moved,
            move("c", "after", "a", target=2),
            AT,
        )

    def test_a_pause_stays(self) -> None:
        """Edits and moves are allowed while paused (5.5.5)."""
        queue = filled("a", "b").paused("p", AT)
        moved = queue.moved(move("b", "before", "a"), AT).replaced("a", "x", 1, AT)
        self.assertEqual(moved.pauses, queue.pauses)


class PauseTests(QueueCase):
    """What holds a queue (3.19a, 4.4, 5.5.4, 5.5.5)."""

    def test_only_where_something_waits_and_nothing_holds_it(self) -> None:
        """Otherwise nothing changes, not even the version."""
        empty, paused = Queue(), filled("a").paused("p1", AT)
        self.assertIs(empty.paused("p", AT), empty)
        self.assertIs(paused.paused("p2", AT), paused)
        self.assertIsNone(paused.next)

    def test_resume_needs_the_pause_that_is_there(self) -> None:
        """Another one is refused; none is no change."""
        queue = filled("a").paused("p1", AT)
        self.assertEqual(self.refused("QUEUE_PAUSE_CHANGED", queue.resumed, "p0", AT).status, 409)
        resumed = queue.resumed("p1", LATER)
        self.assertEqual((resumed.pauses, resumed.version), ((), queue.version + 1))
        self.assertIs(resumed.resumed("p1", LATER), resumed)

    def test_a_pause_below_comes_back(self) -> None:
        """A failure hides a manual pause, and its end shows it again."""
        queue = filled("a").paused("p1", AT).failed("z", "p2", AT)
        resumed = queue.resumed("p2", AT)
        self.assertEqual([pause.id for pause in resumed.pauses], ["p1"])
        self.assertIsNone(resumed.next)

    def test_a_failure_without_anything_left_holds_nothing(self) -> None:
        """There is no pause of an empty queue."""
        queue = filled("a").dispatched("a", AT)
        self.assertIs(queue.failed("a", "p", AT), queue)

    def test_eight_pauses_and_one_more(self) -> None:
        """The one at the bottom goes."""
        queue = filled("a")
        for n in range(PAUSES):
            queue = queue.failed("z", f"p{n}", AT)
        self.assertEqual(len(queue.pauses), PAUSES)
        more = queue.failed("z", "last", AT)
        self.assertEqual(
            [pause.id for pause in more.pauses], [f"p{n}" for n in range(1, PAUSES)] + ["last"]
        )


class DispatchTests(QueueCase):
    """What leaves the queue (4.3, 5.5.1)."""

    def test_it_is_known_by_its_revision(self) -> None:
        """And the moment it was sent."""
        queue = filled("a", "b").replaced("a", "x", 1, AT).dispatched("a", LATER)
        self.assertEqual(
            to_builtins(list(queue.recent)),
            [{"entryId": "a", "revision": 2, "dispatchedAt": LATER}],
        )
        self.assertEqual(self.ids(queue), "b")

    def test_thirty_two_are_remembered_and_one_more_is_not(self) -> None:
        """The oldest goes, and is unknown from then on."""
        queue = filled(*(f"e{n}" for n in range(RECENT + 1)))
        for n in range(RECENT):
            queue = queue.dispatched(f"e{n}", AT)
        self.refused("QUEUE_ENTRY_ALREADY_SENT", queue.deleted, "e0", AT)
        queue = queue.dispatched(f"e{RECENT}", AT)
        self.assertEqual(len(queue.recent), RECENT)
        self.refused("QUEUE_ENTRY_NOT_FOUND", queue.deleted, "e0", AT)

    def test_one_that_was_taken_out_meanwhile_changes_nothing(self) -> None:
        """There is nothing to remember."""
        queue = filled("a")
        self.assertIs(queue.dispatched("b", AT), queue)


class SteeringTests(QueueCase):
    """The head on its way into a turn (3.19, 4.5)."""

    def test_it_stays_until_its_fate_is_known(self) -> None:
        """Nothing else is sent meanwhile."""
        queue = filled("a", "b").steering("a", 1, 0, AT)
        self.assertEqual((self.ids(queue), queue.steering_id, queue.next), ("ab", "a", None))
        sent = queue.dispatched("a", AT)
        self.assertEqual((self.ids(sent), sent.steering_id), ("b", None))
        back = queue.requeued("a", AT)
        self.assertEqual((self.ids(back), back.steering_id), ("ab", None))
        self.assertIs(back.next, queue.entries[0])

    def test_check_order(self) -> None:
        """In flight, revision, order, head."""
        queue = filled("a", "b")
        steering = queue.steering("a", 1, 0, AT)
        self.refused("QUEUE_ENTRY_IN_FLIGHT", steering.steering, "a", 1, 0, AT)
        self.refused("QUEUE_ENTRY_IN_FLIGHT", steering.steering, "b", 7, 7, AT)
        self.refused("QUEUE_ENTRY_REVISION_CONFLICT", queue.steering, "b", 7, 7, AT)
        self.refused("QUEUE_ENTRY_REORDER_CONFLICT", queue.steering, "b", 1, 7, AT)
        self.refused("QUEUE_ENTRY_REORDER_CONFLICT", queue.steering, "b", 1, 0, AT)

    def test_no_edits_in_flight(self) -> None:
        """Of that entry; others can be edited."""
        queue = filled("a", "b").steering("a", 1, 0, AT)
        self.refused("QUEUE_ENTRY_IN_FLIGHT", queue.replaced, "a", "x", 1, AT)
        self.refused("QUEUE_ENTRY_IN_FLIGHT", queue.deleted, "a", AT)
        self.assertEqual(queue.replaced("b", "x", 1, AT).entries[1].content, "x")

    def test_a_paused_queue_keeps_its_pause(self) -> None:
        """The head goes all the same (5.11.5)."""
        queue = filled("a", "b").paused("p", AT)
        sent = queue.steering("a", 1, 0, AT).dispatched("a", AT)
        self.assertEqual((sent.pauses, self.ids(sent)), (queue.pauses, "b"))

    def test_cleared_meanwhile(self) -> None:
        """What becomes of it then changes nothing here."""
        queue = filled("a").steering("a", 1, 0, AT).cleared(AT)
        self.assertIs(queue.dispatched("a", AT), queue)
        self.assertIs(queue.requeued("a", AT), queue)


class WalkTests(QueueCase):
    """Whatever is done in whatever order."""

    def test_what_always_holds(self) -> None:
        """A change is one version, a refusal none; entries are unique and counted to the byte, and
        what is steered is one of them.
        """
        chance = Random(20260102)
        for _ in range(300):
            queue, made = Queue(), 0
            for _ in range(40):
                ids = [one.id for one in queue.entries] + ["gone"]
                one, other = chance.choice(ids), chance.choice(ids)
                changes: list[Callable[[], Queue]] = [
                    partial(queue.added, entry(f"e{made}", "é" * chance.randrange(9)), AT),
                    partial(queue.replaced, one, "é" * chance.randrange(9), 1, AT),
                    partial(queue.deleted, one, AT),
                    partial(queue.moved, move(one, "after", other, queue.reorder_revision), AT),
                    partial(queue.dispatched, one, AT),
                    partial(queue.steering, one, 1, queue.reorder_revision, AT),
                    partial(queue.requeued, one, AT),
                    partial(queue.paused, f"p{made}", AT),
                    partial(queue.failed, one, f"f{made}", AT),
                    partial(queue.resumed, queue.pause.id if queue.pause else "none", AT),
                    partial(queue.cleared, AT),
                ]
                made += 1
                try:
                    after = chance.choice(changes)()
                except GarconError:
                    continue
                self.assertEqual(after.version, queue.version + (0 if after is queue else 1))
                queue = after
                kept = [one.id for one in queue.entries]
                self.assertEqual(len(set(kept)), len(kept))
                size = sum(len(one.content.encode()) for one in queue.entries)
                self.assertEqual(queue.size, size)
                self.assertIn(queue.steering_id, (None, *kept))


class AppliedTests(SynchronousTestCase):
    """Commands that had their effect (2.3)."""

    def test_a_thousand_and_one_more(self) -> None:
        """The oldest is forgotten."""
        commands = AppliedCommands()
        for n in range(KEPT):
            commands.add(f"r{n}", Applied("queue-entry-create", b"x", f"e{n}", AT))
        known = commands.find("queue-entry-create", "r0", b"x")
        assert known is not None
        self.assertEqual(known.entry_id, "e0")
        commands.add("more", Applied("queue-entry-create", b"x", "e", AT))
        self.assertIsNone(commands.find("queue-entry-create", "r0", b"x"))
        self.assertIsNotNone(commands.find("queue-entry-create", "r1", b"x"))

    def test_another_command_under_the_same_id(self) -> None:
        """A conflict, whether its kind or its content differs."""
        commands = AppliedCommands()
        commands.add("r", Applied("queue-entry-create", b"x", "e", AT))
        for kind, mark in (("queue-entry-delete", b"x"), ("queue-entry-create", b"y")):
            error = self.assertRaises(GarconError, commands.find, kind, "r", mark)
            self.assertEqual(error.code, "IDEMPOTENCY_CONFLICT")
