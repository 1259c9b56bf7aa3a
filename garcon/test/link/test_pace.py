"""How long lanes hold up one turn of the reactor."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any

from attrs import define, field
from autobahn.twisted.websocket import WebSocketServerFactory
from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from garcon.link.framing import framed
from garcon.link.pace import SHARE, Pace, pace_of
from garcon.link.paced import ENDING
from garcon.link.settings import LinkSettings
from garcon.link.websocket import _OPTIONS, LaneServerProtocol
from garcon.link.wire import IWire
from garcon.test.link.test_pacing import Turning

BIT = SHARE / 1000


class Line(SynchronousTestCase):
    """What waits, by how long it takes."""

    def setUp(self) -> None:
        self.clock = Turning()
        self.pace = Pace(self.clock)
        self.ran: list[str] = []
        self.steps: dict[str, Callable[[], None]] = {}

    def later(self, *steps: tuple[str, float]) -> None:
        """Put steps into the line that take so long."""
        for name, seconds in steps:
            self.steps[name] = partial(self.step, name, seconds)
            self.pace.later(self.steps[name])

    def step(self, name: str, seconds: float) -> None:
        """Take that long."""
        self.ran.append(name)
        self.clock.rightNow += seconds

    def turn(self) -> list[str]:
        """Return what one more turn runs."""
        self.ran.clear()
        self.clock.turn()
        return list(self.ran)

    def test_a_turn_runs_what_begins_within_its_share(self) -> None:
        """In order; the step that completes the share is the last, one bit less is not enough."""
        self.later(("a", SHARE / 2), ("b", SHARE / 2 - BIT), ("c", SHARE), ("d", 0.0))
        self.assertEqual(self.turn(), ["a", "b", "c"])
        self.assertEqual(self.turn(), ["d"])
        self.later(("a", SHARE / 2), ("b", SHARE / 2 + BIT), ("c", 0.0))
        self.assertEqual(self.turn(), ["a", "b"])
        self.assertEqual(self.turn(), ["c"])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_reading_takes_of_the_share(self) -> None:
        """Steps get what it left, and wait for another turn where it left nothing."""
        self.later(("a", SHARE / 2), ("b", 0.0))
        self.pace.spent(SHARE / 4)
        self.pace.spent(SHARE / 4 + BIT)
        self.assertEqual(self.turn(), ["a"])
        self.pace.spent(SHARE)
        self.assertEqual(self.turn(), [])
        self.assertEqual(self.turn(), ["b"])

    def test_reading_in_every_turn_keeps_no_step_waiting(self) -> None:
        """Each second turn runs steps for as long as reading took, however much that is."""
        self.later(*((str(n), SHARE) for n in range(9)))
        ran = []
        for _ in range(6):
            self.pace.spent(3 * SHARE)
            ran.append("".join(self.turn()))
        self.assertEqual(ran, ["", "012", "", "345", "", "678"])

    def test_a_step_that_goes_on_waits_for_the_next_turn(self) -> None:
        """However short it is, and behind what waits already."""

        def again() -> None:
            self.ran.append("again")
            self.pace.later(again)

        self.pace.later(again)
        self.later(("a", 0.0))
        self.assertEqual(self.turn(), ["again", "a"])
        self.assertEqual(self.turn(), ["again"])
        self.pace.forget(again)
        self.assertEqual(self.turn(), [])

    def test_a_step_waits_once(self) -> None:
        """Whoever asks twice is served once."""
        self.later(("a", 0.0))
        self.pace.later(self.steps["a"])
        self.assertEqual(self.turn(), ["a"])
        self.assertEqual(self.turn(), [])

    def test_what_is_forgotten_does_not_run(self) -> None:
        """With the last of the line its timer goes; also one forgotten by a step before it."""
        self.later(("a", 0.0))
        self.pace.forget(self.steps["a"])
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.later(("b", 0.0))
        self.pace.later(lambda: self.pace.forget(self.steps["c"]))
        self.later(("c", 0.0), ("d", 0.0))
        self.assertEqual(self.turn(), ["b", "d"])

    def test_a_step_that_breaks_stops_nobody(self) -> None:
        """The rest runs in the next turn."""

        def broken() -> None:
            raise ZeroDivisionError

        self.pace.later(broken)
        self.later(("a", 0.0))
        self.assertRaises(ZeroDivisionError, self.clock.turn)
        self.assertEqual(self.turn(), ["a"])

    def test_lanes_of_a_reactor_share_one_line(self) -> None:
        """Another reactor has its own."""
        pace = pace_of(self.clock)
        self.assertIs(pace_of(self.clock), pace)
        self.assertIsNot(pace_of(Clock()), pace)


class Socket(StringTransport):
    """A transport as a lane's protocol needs it."""

    bufferSize = 0

    def setTcpNoDelay(self, enabled: bool) -> None:
        """There is no Nagle here."""

    def registerProducer(self, producer: object, streaming: bool) -> None:
        """Nothing is ever full here."""

    def unregisterProducer(self) -> None:
        """Likewise."""


@define(eq=False)
class Slow:
    """Takes a time for each record, the one that the record names in shares."""

    clock: Turning
    taken: list[bytes] = field(factory=list)
    is_over: bool = False

    def wire_opened(self, wire: IWire) -> None:
        """See `IWireUser`."""

    def record_received(self, record: bytes) -> None:
        """See `IWireUser`."""
        assert not self.is_over
        self.taken.append(record)
        self.clock.rightNow += float(record) * SHARE

    def wire_closed(self, kind: str, text: str) -> None:
        """See `IWireUser`."""
        self.is_over = True


class Reading(SynchronousTestCase):
    """Records that came at once, taken over several turns."""

    def setUp(self) -> None:
        self.clock = Turning()
        self.user = Slow(self.clock)
        factory = WebSocketServerFactory(reactor=self.clock)
        factory.setProtocolOptions(webStatus=False, **_OPTIONS)
        self.lane = LaneServerProtocol()
        self.lane.factory, self.lane.user, self.lane.close_time = factory, self.user, 1.0
        self.socket = Socket()
        self.lane.makeConnection(self.socket)
        self.lane.dataReceived(
            b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        self.socket.clear()

    def come(self, *records: bytes, more: bytes = b"") -> None:
        """Let these be read at once."""
        self.lane.dataReceived(b"".join(framed(r, True) for r in records) + more)

    def turn(self) -> list[bytes]:
        """Return what one more turn takes."""
        self.user.taken.clear()
        self.clock.turn()
        return list(self.user.taken)

    def test_a_record_that_takes_long_is_the_last_of_its_turn(self) -> None:
        """The reactor looks at its sockets before the next one is taken: reading spent this
        turn's share, so the rest waits for the turn after.
        """
        self.come(b"2", b"3", b"0", b"0")
        self.assertEqual(self.user.taken, [b"2"])
        self.assertEqual(self.turn(), [])
        self.assertEqual(self.turn(), [b"3"])
        self.assertEqual(self.turn(), [b"0", b"0"])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_lane_reads_as_much_as_it_sends_in_a_turn(self) -> None:
        """A burst of the peer's is read at once."""
        self.assertEqual(self.socket.bufferSize, LinkSettings().burst)

    def test_short_ones_add_up(self) -> None:
        """To the share, not beyond it."""
        self.come(*[b"0.4"] * 5)
        self.assertEqual(len(self.user.taken), 3)
        self.turn()
        self.assertEqual(len(self.turn()), 2)

    def test_nothing_is_read_while_something_waits(self) -> None:
        """What a transport still gives goes behind it; the owner's own hold outlasts the wait."""
        self.come(b"1", b"1.5", b"0")
        self.assertEqual(self.socket.producerState, "paused")
        self.come(b"0.5")
        self.assertEqual(self.user.taken, [b"1"])
        self.turn()
        self.assertEqual(self.turn(), [b"1.5"])
        self.assertEqual(self.socket.producerState, "paused")
        self.lane.hold_reading(True)
        self.assertEqual(self.turn(), [b"0", b"0.5"])
        self.assertEqual(self.socket.producerState, "paused")
        self.lane.hold_reading(False)
        self.assertEqual(self.socket.producerState, "producing")

    def test_a_hold_that_ends_meanwhile(self) -> None:
        """Reading goes on when nothing waits any more, not before."""
        self.lane.hold_reading(True)
        self.come(b"1", b"0")
        self.lane.hold_reading(False)
        self.assertEqual(self.socket.producerState, "paused")
        self.turn()
        self.assertEqual(self.turn(), [b"0"])
        self.assertEqual(self.socket.producerState, "producing")

    def test_a_part_of_a_record_behind_it(self) -> None:
        """It is joined with its end, which is read only then."""
        whole = framed(b"0.25", True)
        self.come(b"1", b"0", more=whole[:3])
        self.turn()
        self.assertEqual(self.turn(), [b"0"])
        self.user.taken.clear()
        self.lane.dataReceived(whole[3:])
        self.assertEqual(self.user.taken, [b"0.25"])

    def test_a_record_that_came_alone_leaves_nothing_to_wait_for(self) -> None:
        """Reading was never paused."""
        self.come(b"5")
        self.assertEqual(self.socket.producerState, "producing")
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_what_came_is_taken_before_the_end(self) -> None:
        """Whatever waits when the connection is lost comes first, and nothing is left behind."""
        self.come(b"2", b"2", b"0", b"2", b"0")
        self.lane.connectionLost(Failure(ConnectionDone()))
        self.assertEqual(self.user.taken, [b"2", b"2", b"0", b"2", b"0"])
        self.assertTrue(self.user.is_over)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_autobahns_frames_wait_behind_records(self) -> None:
        """A ping that came behind them is answered when they are taken."""
        self.come(b"2", b"0", more=b"\x89\x80" + bytes(4))
        self.turn()
        self.assertEqual(self.socket.value(), b"")
        self.assertEqual(self.turn(), [b"0"])
        self.assertEqual(self.socket.value()[:1], b"\x8a")

    def slowly(self, ping: bytes) -> None:
        """Take as long for a ping as it says, in shares."""
        self.user.taken.append(ping)
        self.clock.rightNow += float(ping) * SHARE

    def test_autobahns_frames_take_their_turns_too(self) -> None:
        """Whoever sends them need not have proven anything yet; what comes behind them waits, in
        order, and so does reading.
        """
        lane: Any = self.lane
        lane.onPing = self.slowly
        pings = b"".join(b"\x89\x83" + bytes(4) + one for one in (b"1.0", b"0.5", b"0.6"))
        self.lane.dataReceived(pings)
        self.come(b"0.1")
        self.assertEqual(self.user.taken, [b"1.0"])
        self.assertEqual(self.socket.producerState, "paused")
        taken: list[bytes] = []
        for _ in range(6):
            taken += self.turn()
        self.assertEqual(taken, [b"0.5", b"0.6", b"0.1"])
        self.assertEqual(self.socket.producerState, "producing")
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_autobahns_frames_hold_up_no_end(self) -> None:
        """As many are taken when the connection is lost as take no longer than is let."""
        lane: Any = self.lane
        lane.onPing = self.slowly
        many = int(ENDING / SHARE)
        self.lane.dataReceived((b"\x89\x81" + bytes(4) + b"1") * (many + 10))
        self.lane.connectionLost(Failure(ConnectionDone()))
        self.assertIn(len(self.user.taken), (many + 1, many + 2))
        self.assertTrue(self.user.is_over)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_record_in_very_many_pieces_takes_no_more_than_its_size(self) -> None:
        """Also in pieces that hold nothing, of which there may be any number."""
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        self.lane.dataReceived(b"\x02\x80" + bytes(4))
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(100):
            self.lane.dataReceived((b"\x00\x80" + bytes(4)) * 1_000)
        self.assertLess(tracemalloc.get_traced_memory()[0] - before, 100_000)
        self.lane.dataReceived(b"\x80\x81" + bytes(4) + b"0")
        self.assertEqual(self.user.taken, [b"0"])
