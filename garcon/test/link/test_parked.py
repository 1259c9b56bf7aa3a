"""What becomes of a caller's calls when sessions come and go; values only."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.limits import DISPATCH_RESERVE, INTERACTIVE_WAIT, MIB
from garcon.contract.rpc import CallState, Lane, LostCall
from garcon.link.parked import (
    Deadlines,
    KeptBytes,
    ParkedCall,
    Place,
    Sending,
    deadlines,
    judge,
    name,
)

FOREVER = Deadlines(None, None)


def lost(call_id: str, *, dispatch_by: float | None = None) -> ParkedCall:
    call = ParkedCall(call_id, Deadlines(dispatch_by, None))
    call.sent()
    call.session_lost(Sending("s1", 7))
    return call


class Times(SynchronousTestCase):
    """Until when a call may be sent, and until when its caller waits."""

    def test_a_second_is_kept_back(self) -> None:
        """Of 120 s a call may wait 119 for a session."""
        self.assertEqual(deadlines(10.0, 120.0, longest_wait=None), Deadlines(129.0, 130.0))
        self.assertEqual(DISPATCH_RESERVE, 1.0)

    def test_at_most_half_is_kept_back(self) -> None:
        """A call of one second may wait half of it."""
        self.assertEqual(deadlines(0.0, 1.0, longest_wait=None), Deadlines(0.5, 1.0))
        self.assertEqual(deadlines(0.0, 0.0, longest_wait=None), Deadlines(0.0, 0.0))

    def test_an_interactive_wait_is_bounded(self) -> None:
        """Twenty seconds at most; once sent, the call's own deadline counts."""
        bound = INTERACTIVE_WAIT
        self.assertEqual(deadlines(0.0, 120.0, longest_wait=bound), Deadlines(20.0, 120.0))
        self.assertEqual(deadlines(0.0, 20.0, longest_wait=bound), Deadlines(19.0, 20.0))
        self.assertEqual(deadlines(0.0, None, longest_wait=bound), Deadlines(20.0, None))

    def test_no_deadline_is_none(self) -> None:
        """None waits for as long as there is hope."""
        self.assertEqual(deadlines(5.0, None, longest_wait=None), FOREVER)


class Calls(SynchronousTestCase):
    """One call's way."""

    def test_never_sent_has_not_happened(self) -> None:
        """Nor has one that a lost session had not sent whole."""
        call = ParkedCall("a", FOREVER)
        self.assertEqual(call.outcome, "not-dispatched")
        call.sent()
        call.session_lost(None)
        self.assertEqual((call.place, call.outcome), (Place.WAITING, "not-dispatched"))

    def test_sent_whole_is_uncertain(self) -> None:
        """It is lost, and stays so over further sessions that only awaited its reply."""
        call = lost("a")
        self.assertEqual((call.place, call.outcome), (Place.LOST, "unknown"))
        call.sent()
        call.session_lost(None)
        self.assertEqual((call.place, call.outcome), (Place.LOST, "unknown"))
        self.assertEqual(name([call]), [LostCall("a", "s1", 7)])

    def test_its_last_sending_is_named(self) -> None:
        """One that was sent again is asked about under its new number."""
        call = lost("a")
        call.not_received()
        call.sent()
        call.session_lost(Sending("s2", 1))
        self.assertEqual(name([call]), [LostCall("a", "s2", 1)])

    def test_not_received_and_then_half_sent(self) -> None:
        """A sending that is known not to have arrived is no uncertainty any more."""
        call = lost("a")
        call.not_received()
        call.sent()
        call.session_lost(None)
        self.assertEqual((call.place, call.outcome), (Place.WAITING, "not-dispatched"))
        self.assertEqual(name([call]), [])

    def test_the_dispatch_deadline_counts_while_it_waits(self) -> None:
        """Once sent, only the caller's own."""
        call = ParkedCall("a", Deadlines(5.0, 9.0))
        self.assertEqual(call.due, 5.0)
        call.sent()
        self.assertEqual(call.due, 9.0)
        call.session_lost(Sending("s1", 1))
        self.assertEqual(call.due, 9.0)
        self.assertEqual(ParkedCall("b", Deadlines(5.0, None)).due, 5.0)
        self.assertEqual(ParkedCall("c", Deadlines(None, 9.0)).due, 9.0)
        self.assertIsNone(ParkedCall("d", FOREVER).due)


class Judging(SynchronousTestCase):
    """What a reconciliation's answer does."""

    def test_each_state(self) -> None:
        """Pending stays, not received goes again if there is time, the rest is unknown."""
        pending, again, late, unknown, left_out = (
            lost("p"),
            lost("a", dispatch_by=10.1),
            lost("l", dispatch_by=10.0),
            lost("u"),
            lost("o"),
        )
        verdict = judge(
            [pending, again, late, unknown, left_out],
            [
                CallState("p", "pending"),
                CallState("a", "not-received"),
                CallState("l", "not-received"),
                CallState("u", "unknown"),
                CallState("nobody's", "pending"),
            ],
            10.0,
        )
        self.assertEqual(
            (verdict.again, verdict.too_late, verdict.unknown),
            ([again], [late], [unknown, left_out]),
        )
        self.assertEqual([c.outcome for c in (again, late)], ["not-dispatched"] * 2)
        self.assertEqual([c.outcome for c in (pending, unknown, left_out)], ["unknown"] * 3)


class Room(SynchronousTestCase):
    """Requests are kept within what the send queue may hold."""

    def test_in_all(self) -> None:
        """32 MiB, and not a byte more."""
        room = KeptBytes()
        self.assertTrue(room.take(Lane.BULK, 24 * MIB))
        self.assertFalse(room.take(Lane.BULK, 1))
        self.assertTrue(room.take(Lane.PRIMARY, 8 * MIB))
        self.assertFalse(room.take(Lane.PRIMARY, 1))
        room.free(Lane.BULK, 1)
        self.assertTrue(room.take(Lane.PRIMARY, 1))
        self.assertFalse(room.take(Lane.BULK, 1))
        room.free(Lane.PRIMARY, 8 * MIB + 1)
        room.free(Lane.BULK, 24 * MIB - 1)
        self.assertEqual((room.used, room.bulk_used), (0, 0))
