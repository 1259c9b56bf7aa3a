"""What is kept of streams, as values (control.md J.4, J.10)."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.limits import (
    KIB,
    MIB,
    PRODUCER_RETENTION,
    PRODUCER_WINDOW_BYTES,
    PRODUCER_WINDOW_FRAMES,
)
from garcon.worker.serving.backlog import WELCOME_BYTES, WELCOME_FRAMES, Backlog


class BacklogCase(SynchronousTestCase):
    """A small backlog and what a session takes of it."""

    def setUp(self) -> None:
        self.backlog = Backlog(budget=100, share=0)
        for name in ("a", "b"):
            self.backlog.open(name)

    def row(self, name: str, size: int = 10) -> bool:
        return self.backlog.add(name, b"r" * size, is_row=True)

    def fact(self, name: str, size: int = 10) -> bool:
        return self.backlog.add(name, b"f" * size, is_row=False)

    def taken(self) -> list[tuple[str, int]]:
        """Hand out everything that can be."""
        frames = []
        while (frame := self.backlog.take()) is not None:
            frames.append((frame.binding_id, frame.seq))
        return frames

    def lose(self) -> None:
        for name in ("a", "b"):
            self.backlog.orphan(name)


class Order(BacklogCase):
    """First published, first offered."""

    def test_over_all_streams(self) -> None:
        """Numbers are each stream's own, the order is everybody's."""
        for name in "abbab":
            self.row(name)
        self.assertEqual(self.taken(), [("a", 1), ("b", 1), ("b", 2), ("a", 2), ("b", 3)])

    def test_what_is_put_back_is_next(self) -> None:
        """And what is published meanwhile comes after it."""
        self.row("a")
        frame = self.backlog.take()
        assert frame is not None
        self.backlog.put_back(frame)
        self.row("b")
        self.assertEqual(self.taken(), [("a", 1), ("b", 1)])

    def test_nothing_is_offered_of_a_lost_session(self) -> None:
        """But kept, and offered again once its stream is resumed, before what is newer."""
        self.row("a")
        self.row("b")
        self.taken()
        self.lose()
        self.row("a")
        self.row("b")
        self.assertEqual(self.taken(), [])
        self.assertEqual(self.backlog.resume("b", 1), 2)
        self.assertEqual(self.backlog.resume("a", 0), 2)
        self.assertEqual(self.taken(), [("a", 1), ("a", 2), ("b", 2)])

    def test_lost_again_in_the_middle(self) -> None:
        """What was put back or handed out comes again, each once, in order."""
        for _ in range(4):
            self.row("a")
        self.lose()
        self.backlog.resume("a", 0)
        self.backlog.take()
        second = self.backlog.take()
        assert second is not None
        self.backlog.put_back(second)
        self.lose()
        self.assertEqual(self.taken(), [])
        self.backlog.resume("a", 1)
        self.assertEqual(self.taken(), [("a", 2), ("a", 3), ("a", 4)])

    def test_resumed_while_newer_frames_wait(self) -> None:
        """What comes again stands before them."""
        self.row("a")
        self.taken()
        self.row("b")
        self.row("a")
        self.backlog.resume("a", 0)
        self.assertEqual(self.taken(), [("a", 1), ("b", 1), ("a", 2)])


class Acknowledgements(BacklogCase):
    """What the controller has is kept no longer."""

    def test_up_to_the_number(self) -> None:
        """And nothing that was never handed out."""
        for _ in range(3):
            self.row("a")
        self.backlog.take()
        self.backlog.take()
        self.backlog.acknowledge("a", 9)
        self.assertEqual(self.backlog.size, 10)
        self.assertFalse(self.backlog.is_drained("a"))
        self.assertEqual(self.taken(), [("a", 3)])
        self.backlog.acknowledge("a", 3)
        self.assertEqual(self.backlog.size, 0)
        self.assertTrue(self.backlog.is_drained("a"))

    def test_by_a_resume(self) -> None:
        """As by any other."""
        for _ in range(3):
            self.row("a")
        self.taken()
        self.lose()
        self.backlog.resume("a", 2)
        self.assertEqual((self.taken(), self.backlog.size), ([("a", 3)], 10))

    def test_while_it_is_handed_over(self) -> None:
        """An answer can come before the sender has returned."""
        self.row("a")
        frame = self.backlog.take()
        assert frame is not None
        self.backlog.acknowledge("a", 1)
        self.assertTrue(self.backlog.is_drained("a"))

    def test_unknown_streams(self) -> None:
        """Are nobody's."""
        self.backlog.acknowledge("x", 1)
        self.assertTrue(self.backlog.is_drained("x"))
        self.assertFalse(self.row("x"))

    def test_a_closed_stream_frees_its_room(self) -> None:
        """Handed out or not."""
        self.row("a")
        self.taken()
        self.row("a")
        self.row("b")
        self.backlog.close("a")
        self.assertEqual((self.backlog.size, self.taken()), (10, [("b", 1)]))


class Window(BacklogCase):
    """How much of one stream is under way."""

    def setUp(self) -> None:
        super().setUp()
        self.backlog.budget = PRODUCER_RETENTION

    def test_frames_at_the_window_and_past_it(self) -> None:
        """The rest waits for an acknowledgement; other streams do not."""
        for _ in range(PRODUCER_WINDOW_FRAMES + 2):
            self.row("a")
        self.row("b")
        self.assertEqual(len(self.taken()), PRODUCER_WINDOW_FRAMES + 1)
        self.assertFalse(self.backlog.may_offer)
        self.backlog.acknowledge("a", 1)
        self.assertTrue(self.backlog.may_offer)
        self.assertEqual(self.taken(), [("a", PRODUCER_WINDOW_FRAMES + 1)])

    def test_bytes(self) -> None:
        """Once they are under way the next one waits, whatever its size."""
        for size in (PRODUCER_WINDOW_BYTES - 1, 1, 1):
            self.row("a", size)
        self.assertEqual(self.taken(), [("a", 1), ("a", 2)])
        self.backlog.acknowledge("a", 1)
        self.assertEqual(self.taken(), [("a", 3)])

    def test_one_frame_is_always_under_way(self) -> None:
        """However large it is."""
        for _ in range(2):
            self.row("a", 2 * PRODUCER_WINDOW_BYTES)
        self.assertEqual(self.taken(), [("a", 1)])
        self.backlog.acknowledge("a", 1)
        self.assertEqual(self.taken(), [("a", 2)])

    def test_a_new_session_has_all_of_it(self) -> None:
        """What the lost one had under way counts no more."""
        for _ in range(2 * PRODUCER_WINDOW_FRAMES):
            self.row("a")
        self.taken()
        self.lose()
        self.backlog.resume("a", 100)
        self.assertEqual(self.taken(), [("a", n + 101) for n in range(PRODUCER_WINDOW_FRAMES)])


class Welcome(BacklogCase):
    """Whether more of a stream is welcome."""

    def setUp(self) -> None:
        super().setUp()
        self.backlog = Backlog(share=100)
        self.backlog.open("a")
        self.backlog.open("b")

    def test_frames_at_the_bound_and_past_it(self) -> None:
        """Those that wait count, not those under way; other streams are left alone."""
        for _ in range(PRODUCER_WINDOW_FRAMES):
            self.row("a")
        self.taken()
        for _ in range(WELCOME_FRAMES):
            self.row("a")
        self.assertTrue(self.backlog.has_room("a"))
        self.row("a")
        self.assertFalse(self.backlog.has_room("a"))
        self.assertTrue(self.backlog.has_room("b"))
        self.backlog.acknowledge("a", 1)
        self.taken()
        self.assertTrue(self.backlog.has_room("a"))

    def test_bytes_at_the_bound_and_past_it(self) -> None:
        """However few frames they are."""
        self.row("a", WELCOME_BYTES)
        self.assertTrue(self.backlog.has_room("a"))
        self.row("a", 1)
        self.assertFalse(self.backlog.has_room("a"))
        self.taken()
        self.assertTrue(self.backlog.has_room("a"))

    def test_without_a_session(self) -> None:
        """A run goes on without its controller: nobody could tell how long."""
        for _ in range(WELCOME_FRAMES + 1):
            self.row("a")
        self.lose()
        self.assertTrue(self.backlog.has_room("a"))
        self.backlog.resume("a", 0)
        self.assertFalse(self.backlog.has_room("a"))

    def test_many_streams_together(self) -> None:
        """Past half of the budget only those that keep less than their share."""
        self.backlog.budget = 400
        self.row("a", 150)
        self.row("b", 50)
        self.assertTrue(self.backlog.has_room("a"))
        self.row("b", 1)
        self.assertEqual([self.backlog.has_room(name) for name in "ab"], [False, True])

    def test_streams_that_are_not_there(self) -> None:
        """Whatever comes of them is dropped."""
        self.row("a", 2 * WELCOME_BYTES)
        self.backlog.close("a")
        self.assertTrue(self.backlog.has_room("a"))


class Pressure(BacklogCase):
    """The budget of everything."""

    def test_at_the_budget_and_past_it(self) -> None:
        """Ten rows of ten stay; the eleventh costs the oldest."""
        for _ in range(10):
            self.row("a")
        self.assertEqual((self.backlog.size, self.backlog.dropped), (100, 0))
        self.row("a")
        self.assertEqual((self.backlog.size, self.backlog.dropped), (100, 1))
        self.assertEqual(self.taken(), [("a", n) for n in range(2, 12)])

    def test_the_largest_backlog_pays(self) -> None:
        """Whoever publishes."""
        for _ in range(6):
            self.row("a")
        for _ in range(5):
            self.row("b")
        self.assertEqual([seq for name, seq in self.taken() if name == "a"], [2, 3, 4, 5, 6])

    def test_facts_are_kept(self) -> None:
        """Older or newer than the rows that go, and when there is no row left."""
        self.fact("a")
        for _ in range(9):
            self.row("a")
        self.fact("a")
        for _ in range(9):
            self.fact("a")
        self.assertEqual(self.backlog.dropped, 9)
        self.fact("b")
        self.assertEqual((self.backlog.size, self.backlog.dropped), (120, 9))
        facts = [("a", 1), *(("a", n) for n in range(11, 21)), ("b", 1)]
        self.assertEqual(self.taken(), facts)

    def test_facts_at_twice_the_budget_and_past_it(self) -> None:
        """Then a fact is refused, but for one that is due; rows are only numbered."""
        for _ in range(20):
            self.assertTrue(self.fact("a"))
        self.assertFalse(self.fact("a"))
        self.assertTrue(self.row("a"))
        self.assertTrue(self.backlog.add("a", b"end", is_row=False, is_due=True))
        self.assertEqual(self.taken(), [*(("a", n) for n in range(1, 21)), ("a", 22)])

    def test_a_stream_has_a_share_of_its_own(self) -> None:
        """At it and past it, when another has taken all there is."""
        self.assertEqual((Backlog().budget, Backlog().share), (32 * MIB, 256 * KIB))
        self.backlog.share = 30
        self.fact("a", 200)
        self.assertFalse(self.fact("a", 1))
        self.row("b", 20)
        self.assertEqual([self.fact("b") for _ in range(4)], [True, True, True, False])
        self.assertEqual((self.backlog.size, self.backlog.dropped), (230, 1))

    def test_rows_handed_out_go_too(self) -> None:
        """They are the oldest; on the session that has them they are not missing."""
        for _ in range(10):
            self.row("a")
        self.taken()
        self.row("a")
        self.backlog.acknowledge("a", 5)
        self.assertEqual(self.backlog.size, 60)
        self.lose()
        self.backlog.resume("a", 5)
        self.assertEqual(self.taken(), [("a", n) for n in range(6, 12)])

    def test_a_refused_frame_that_was_dropped_is_not_offered(self) -> None:
        """The next one is."""
        for _ in range(10):
            self.row("a")
        frame = self.backlog.take()
        assert frame is not None
        self.backlog.put_back(frame)
        self.row("a")
        self.assertEqual(self.taken()[0], ("a", 2))

    def test_a_row_that_no_message_holds(self) -> None:
        """Is a number that never comes; such a fact is refused."""
        self.backlog.largest = 20
        self.assertTrue(self.row("a", 20))
        self.assertTrue(self.row("a", 21))
        self.assertFalse(self.fact("a", 21))
        self.assertTrue(self.fact("a", 20))
        self.assertEqual(self.taken(), [("a", 1), ("a", 3)])

    def test_blocked_and_under_pressure_for_long(self) -> None:
        """What is kept about what is kept stays small too."""
        self.fact("b", 100)
        for _ in range(1000):
            self.row("a")
        self.assertLess(len(self.backlog._heads), 4)
        self.assertEqual(self.taken(), [("b", 1)])
        self.row("a")
        self.assertEqual(self.taken(), [])
