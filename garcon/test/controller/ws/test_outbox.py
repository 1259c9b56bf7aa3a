"""What waits for a socket, and its silence (server.md A.2, A.12)."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from garcon.controller.ws.liveness import Due, Liveness
from garcon.controller.ws.outbox import TRANSPORT_FULL, Outbox


class Unsent(SynchronousTestCase):
    """Frames and their limit."""

    def test_frames_leave_in_order_while_the_transport_takes_them(self) -> None:
        """One that has enough gets no more until it is empty."""
        outbox = Outbox(1_000)
        for frame in (b"a", b"b", b"c"):
            self.assertTrue(outbox.put(frame))
        self.assertEqual(outbox.next(), b"a")
        outbox.hold()
        self.assertEqual(outbox.next(), None)
        outbox.release()
        self.assertEqual([outbox.next(), outbox.next(), outbox.next()], [b"b", b"c", None])
        self.assertTrue(outbox.is_empty)

    def test_the_limit_is_met_at_the_byte(self) -> None:
        """As long as no more than the limit waits, another message is taken."""
        outbox = Outbox(TRANSPORT_FULL + 10)
        outbox.hold()
        self.assertTrue(outbox.put(b"x" * 10))
        self.assertEqual(outbox.unsent, TRANSPORT_FULL + 10)
        self.assertTrue(outbox.put(b"y"))
        self.assertFalse(outbox.put(b"z"))
        self.assertEqual(outbox.unsent, TRANSPORT_FULL + 11)

    def test_one_message_may_be_larger(self) -> None:
        """It is no fault of the client's, so it is taken where nothing waits before it."""
        outbox = Outbox(10)
        self.assertTrue(outbox.put(b"x" * 1_000))
        self.assertFalse(outbox.put(b"y"))

    def test_what_was_sent_does_not_count(self) -> None:
        """A slow reader who takes everything in the end is never over the limit."""
        outbox = Outbox(TRANSPORT_FULL + 100)
        for _ in range(100):
            outbox.hold()
            self.assertTrue(outbox.put(b"x" * 90))
            outbox.release()
            outbox.next()
        self.assertEqual(outbox.unsent, 0)

    def test_nothing_is_kept_for_a_socket_that_is_gone(self) -> None:
        """Its frames are let go."""
        outbox = Outbox(10)
        outbox.put(b"x")
        outbox.clear()
        self.assertEqual((outbox.next(), outbox.unsent), (None, 0))


class Silence(SynchronousTestCase):
    """Pings, and the end of a peer that answers none."""

    def test_a_silent_peer_is_given_up_at_its_time(self) -> None:
        """Not a moment earlier, however often it is pinged."""
        liveness = Liveness(960.0, 0.0)
        now, pings = 0.0, 0
        while True:
            due, after = liveness.due(now)
            if due is Due.CLOSE:
                break
            pings += due is Due.PING
            now += after
        self.assertEqual(now, 960.0)
        self.assertEqual(pings, 31)

    def test_the_idle_time_is_met_at_the_moment(self) -> None:
        """Just before it the socket lives, at it no longer."""
        self.assertIsNot(Liveness(960.0, 0.0).due(959.999)[0], Due.CLOSE)
        self.assertIs(Liveness(960.0, 0.0).due(960.0)[0], Due.CLOSE)

    def test_whoever_speaks_is_not_pinged(self) -> None:
        """A ping comes half a minute after the last word."""
        liveness = Liveness(960.0, 0.0)
        liveness.heard(20.0)
        self.assertEqual(liveness.due(30.0), (Due.NOTHING, 20.0))
        self.assertIs(liveness.due(50.0)[0], Due.PING)

    def test_any_frame_begins_the_time_anew(self) -> None:
        """Also the answer to a ping."""
        liveness = Liveness(960.0, 0.0)
        liveness.heard(500.0)
        self.assertIsNot(liveness.due(1_459.0)[0], Due.CLOSE)
        self.assertIs(liveness.due(1_460.0)[0], Due.CLOSE)

    def test_a_short_idle_time_has_room_for_pings(self) -> None:
        """An operator who sets two seconds gets a ping each half second."""
        liveness = Liveness(2.0, 0.0)
        self.assertEqual(liveness.due(0.0), (Due.NOTHING, 0.5))
        self.assertEqual(liveness.due(0.5), (Due.PING, 0.5))
