"""Liveness, redialling, failure notices, admission and the bulk life cycle: decisions over time."""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.limits import REDIAL_DELAYS, REDIAL_RESET_AFTER, SOCKET_BUFFER
from garcon.link.admission import Admission, Ticket
from garcon.link.bulk import BulkState, Phase
from garcon.link.liveness import Beat, Heart, Liveness, heart_of
from garcon.link.redial import Failures, Redial


class LivenessTests(SynchronousTestCase):
    """5 s of silence are asked about, 15 s are the end."""

    def setUp(self) -> None:
        self.liveness = Liveness(5.0, 15.0, 100.0)

    def test_a_ping_after_five_seconds_of_silence(self) -> None:
        """Not before, and not again before five more."""
        self.assertIs(self.liveness.check(104.9, 0), Beat.NOTHING)
        self.assertIs(self.liveness.check(105.0, 0), Beat.PING)
        self.assertIs(self.liveness.check(109.9, 0), Beat.NOTHING)
        self.assertIs(self.liveness.check(110.0, 0), Beat.PING)

    def test_dead_after_fifteen(self) -> None:
        """Whatever the socket holds."""
        self.assertIsNot(self.liveness.check(114.9, 0), Beat.DEAD)
        self.assertIs(self.liveness.check(115.0, SOCKET_BUFFER), Beat.DEAD)

    def test_no_ping_behind_a_full_socket(self) -> None:
        """With 512 KiB unsent a ping would only wait."""
        self.assertIs(self.liveness.check(106.0, SOCKET_BUFFER), Beat.NOTHING)
        self.assertIs(self.liveness.check(106.0, SOCKET_BUFFER - 1), Beat.PING)

    def test_a_busy_peer_is_not_asked(self) -> None:
        """Anything authenticated is a sign of life."""
        self.liveness.heard = 108.0
        self.liveness.spoke = 108.0
        self.assertIs(self.liveness.check(112.9, 0), Beat.NOTHING)

    def test_a_silent_receiver_says_a_word(self) -> None:
        """A side that only receives lets its peer hear of it."""
        self.liveness.heard = 105.0
        self.assertIs(self.liveness.check(105.5, 0), Beat.PONG)
        self.liveness.spoke = 105.5
        self.liveness.heard = 108.0
        self.assertIs(self.liveness.check(109.0, 0), Beat.NOTHING)


class Lane:
    def __init__(self) -> None:
        self.liveness = Liveness(5.0, 15.0, 0.0)
        self.beats: list[float] = []

    def beat(self, now: float) -> None:
        self.beats.append(now)

    def woken(self, now: float) -> None:
        raise AssertionError("it did not sleep")


class HeartTests(SynchronousTestCase):
    """One timer for all lanes."""

    def test_one_timer_and_none_without_lanes(self) -> None:
        """However many lanes there are, one call is pending; with none there is none."""
        clock = Clock()
        heart = heart_of(clock)
        self.assertIs(heart_of(clock), heart)
        lanes = [Lane() for _ in range(10)]
        for lane in lanes:
            heart.add(lane)
        self.assertEqual(len(clock.getDelayedCalls()), 1)
        clock.pump([1.0] * 3)
        self.assertEqual([lane.beats for lane in lanes], [[1.0, 2.0, 3.0]] * 10)
        for lane in lanes:
            heart.remove(lane)
        self.assertEqual(clock.getDelayedCalls(), [])

    def test_a_stalled_process_reads_first(self) -> None:
        """After a long stall lanes are judged a beat later, when their sockets have been read."""
        clock = Clock()
        heart, lane = Heart(clock), Lane()
        heart.add(lane)
        clock.advance(60.0)
        self.assertEqual(lane.beats, [])
        clock.advance(1.0)
        self.assertEqual(lane.beats, [61.0])

    def test_a_dead_lane_is_found_at_its_deadline(self) -> None:
        """15 s after its last word, not at the next beat: beats and words need not be aligned."""
        for began, heard in ((0.0, 0.0), (0.37, 0.62), (0.37, 7.011), (1234.567, 1300.001)):
            clock = Clock()
            clock.advance(began)
            heart, lane = Heart(clock), Lane()
            heart.add(lane)
            lane.liveness.heard = lane.liveness.spoke = heard
            while clock.seconds() + 1.0 < heard + 14.99:
                clock.advance(1.0)
            clock.advance(heard + 14.99 - clock.seconds())
            states = [lane.liveness.check(now, SOCKET_BUFFER) for now in lane.beats]
            self.assertNotIn(Beat.DEAD, states)
            before = len(lane.beats)
            clock.advance(0.01000001)
            self.assertEqual(len(lane.beats), before + 1)
            self.assertIs(lane.liveness.check(lane.beats[-1], SOCKET_BUFFER), Beat.DEAD)
            self.assertAlmostEqual(lane.beats[-1], heard + 15.0, delta=1e-6)
            # One that is past its deadline gets no more than the ordinary beats.
            clock.advance(0.9)
            self.assertLessEqual(len(lane.beats), before + 2)
            heart.remove(lane)

    def test_a_tested_lane_is_found_at_its_deadline(self) -> None:
        """The same for the five seconds after a sleep."""
        clock = Clock()
        heart, lane = Heart(clock), Lane()
        heart.add(lane)
        clock.pump([1.0] * 3)
        lane.liveness.test(3.25)
        clock.pump([1.0] * 5)
        self.assertEqual(lane.beats[-1], 8.0)
        clock.advance(0.24)
        self.assertEqual(lane.beats[-1], 8.0)
        clock.advance(0.01)
        self.assertEqual(lane.beats[-1], 8.25)
        self.assertIs(lane.liveness.check(8.25, 0), Beat.DEAD)
        self.assertIs(Liveness(5.0, 15.0, 0.0).check(8.25, SOCKET_BUFFER), Beat.NOTHING)
        heart.remove(lane)


class RedialTests(SynchronousTestCase):
    """When the next attempt is made."""

    def test_the_delays(self) -> None:
        """0, 5, 5, 10 five times, then 30 for ever."""
        redial = Redial(REDIAL_DELAYS, REDIAL_RESET_AFTER)
        delays = [redial.next_delay() for _ in range(11)]
        self.assertEqual(delays, [0, 5, 5, 10, 10, 10, 10, 10, 30, 30, 30])

    def test_a_session_of_ten_seconds_resets_them(self) -> None:
        """A shorter one does not."""
        redial = Redial(REDIAL_DELAYS, REDIAL_RESET_AFTER)
        redial.next_delay()
        redial.next_delay()
        redial.lived(9.9)
        self.assertEqual(redial.next_delay(), 5)
        redial.lived(10.0)
        self.assertEqual(redial.next_delay(), 0)


class FailureTests(SynchronousTestCase):
    """Which failures are told and logged."""

    def test_counts_are_logged_at_powers_of_two(self) -> None:
        """1, 2, 4, 8 of each kind by itself."""
        failures = Failures(0.0)
        logged = [n for n in range(1, 20) if failures.note("a", float(n))[0]]
        self.assertEqual(logged, [1, 2, 4, 8, 16])
        self.assertTrue(failures.note("b", 99.0)[0])

    def test_one_notice_a_second(self) -> None:
        """Whatever their kinds."""
        failures = Failures(1.0)
        times = [0.0, 0.5, 0.9, 1.0, 1.5, 2.0]
        told = [failures.note(f"kind {t}", t)[1] for t in times]
        self.assertEqual(told, [True, False, False, True, False, True])


class AdmissionTests(SynchronousTestCase):
    """Who may keep a socket."""

    def setUp(self) -> None:
        self.evicted: list[str] = []
        self.admission = Admission()

    def admit(self, link: object, name: str = "", host: str = "") -> Ticket | None:
        return self.admission.admit(link, lambda: self.evicted.append(name), host)

    def given(self, link: object, name: str = "", host: str = "") -> Ticket:
        ticket = self.admit(link, name, host)
        assert ticket is not None
        return ticket

    def test_the_fifth_socket_takes_the_oldest_unproven_place(self) -> None:
        """Four have their place; the next pushes out the oldest that has not proven the secret."""
        link = object()
        first = self.given(link, "first")
        first.proven()
        for name in ("second", "third", "fourth"):
            self.given(link, name)
        self.assertEqual(self.evicted, [])
        self.given(link, "fifth")
        self.assertEqual(self.evicted, ["second"])
        self.assertEqual(len(self.admission), 4)

    def test_then_the_oldest_in_its_handshake(self) -> None:
        """When all have proven the secret the oldest that is not established goes."""
        link = object()
        tickets = [self.given(link, str(n)) for n in range(4)]
        for ticket in tickets:
            ticket.proven()
        self.assertTrue(tickets[0].established("primary"))
        self.given(link)
        self.assertEqual(self.evicted, ["1"])

    def test_who_has_said_nothing_goes_before_who_has_said_something(self) -> None:
        """A first message made with the secret is no proof, and better than none."""
        link = object()
        tickets = [self.given(link, str(n)) for n in range(4)]
        tickets[0].keyed()
        tickets[1].proven()
        tickets[1].keyed()
        for n in range(4, 9):
            self.given(link, str(n)).keyed()
        self.assertEqual(self.evicted, ["2", "3", "0", "4", "5"])

    def test_the_address_with_the_most_loses_one(self) -> None:
        """Whoever comes over and over pushes out only himself, from however many addresses of one
        network; the others' oldest goes when they have as many.
        """
        link = object()
        self.given(link, "worker", "192.0.2.1")
        for n in range(9):
            self.given(link, str(n), "192.0.2.2" if n < 5 else "::ffff:192.0.2.2")
        self.assertEqual(self.evicted, ["0", "1", "2", "3", "4", "5"])
        other = object()
        self.given(other, "worker", "2001:db8::1")
        for n in range(9):
            self.given(other, str(n), f"2001:db8:0:1::{n}")
        self.assertNotIn("worker", self.evicted)
        third = object()
        for n in range(4):
            self.given(third, f"third {n}", f"192.0.2.{n}")
        self.given(third, "", "192.0.2.9")
        self.assertEqual(self.evicted[-1], "third 0")

    def test_the_address_with_the_most_loses_one_of_all_links(self) -> None:
        """The same where the pending sockets are too many."""
        self.given(object(), "worker", "192.0.2.1")
        for n in range(64):
            self.given(object(), str(n), "192.0.2.2")
        self.assertEqual(self.evicted, ["0"])

    def test_established_lanes_are_never_pushed_out(self) -> None:
        """A link full of lanes takes no more."""
        link = object()
        tickets = [self.given(link, str(n)) for n in range(4)]
        for ticket in tickets:
            self.assertTrue(ticket.established("primary"))
        self.assertIsNone(self.admit(link))
        tickets[0].release()
        self.assertIsNotNone(self.admit(link))
        self.assertEqual(self.evicted, [])

    def test_sixty_four_pending(self) -> None:
        """The 65th pending socket of all links takes the oldest unproven place."""
        for n in range(64):
            self.given(object(), str(n))
        self.assertEqual(self.evicted, [])
        self.given(object())
        self.assertEqual((self.evicted, len(self.admission)), (["0"], 64))

    def test_sixty_four_of_each_lane(self) -> None:
        """64 primaries and 64 bulk lanes are established, and no more; 64 more may be pending."""
        for lane in ("primary", "bulk"):
            for _ in range(64):
                self.assertTrue(self.given(object()).established(lane))
            refused = self.given(object())
            self.assertFalse(refused.established(lane))
            refused.release()
        for _ in range(64):
            self.given(object())
        self.assertEqual((len(self.admission), self.evicted), (192, []))
        self.given(object(), "new")
        self.assertEqual(len(self.admission), 192)

    def test_an_evicted_socket_cannot_be_established(self) -> None:
        """Its place is another's already."""
        link = object()
        first = self.given(link)
        for _ in range(4):
            self.given(link)
        self.assertFalse(first.established("primary"))
        first.release()
        self.assertEqual(len(self.admission), 4)


class BulkTests(SynchronousTestCase):
    """The phases of bulk."""

    def test_the_way_up(self) -> None:
        """Each step leads to the next, for the one current session."""
        bulk = BulkState()
        self.assertIs(bulk.phase, Phase.OFFLINE)
        bulk.prepare("s")
        self.assertFalse(bulk.grants("s"))
        self.assertTrue(bulk.prepared("s"))
        self.assertTrue(bulk.grants("s"))
        self.assertTrue(bulk.attached("s"))
        self.assertFalse(bulk.grants("s"))
        self.assertTrue(bulk.reconciled("s"))
        self.assertTrue(bulk.active("s"))
        self.assertIs(bulk.phase, Phase.READY)

    def test_other_sessions_and_other_orders_change_nothing(self) -> None:
        """What is said of an old session is ignored."""
        bulk = BulkState()
        bulk.prepare("new")
        for step in (bulk.prepared, bulk.attached, bulk.reconciled, bulk.active, bulk.lost):
            self.assertFalse(step("old"))
        for step in (bulk.attached, bulk.reconciled, bulk.active):
            self.assertFalse(step("new"))
        self.assertIs(bulk.phase, Phase.PREPARING)

    def test_loss(self) -> None:
        """A lost attempt waits for the next; a lost primary ends it."""
        bulk = BulkState()
        bulk.prepare("s")
        self.assertTrue(bulk.lost("s"))
        self.assertIs(bulk.phase, Phase.RECONNECTING)
        self.assertFalse(bulk.lost("s"))
        self.assertFalse(bulk.lost(None))
        bulk.primary_lost()
        self.assertIs(bulk.phase, Phase.OFFLINE)
