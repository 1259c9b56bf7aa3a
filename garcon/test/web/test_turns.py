"""What one connection gets of a door that many use: one request a turn, and a place of its own only
for those who are known.
"""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionLost
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from garcon.test.web.test_site import DoorCase, Transport
from garcon.web.channel import BoundedChannel
from garcon.web.exchange import DoorLimits, Outgoing, text_answer

GET = b"GET /%d HTTP/1.1\r\nHost: h\r\n\r\n"


class TurningClock(Clock):
    """A clock that, like a reactor, calls in one turn what was asked for before it."""

    def turn(self) -> None:
        """Make one turn."""
        for call in [c for c in self.calls if c.time <= self.rightNow]:
            if call.active():
                self.calls.remove(call)
                call.called = 1
                call.func(*call.args, **call.kw)


class Turns(DoorCase):
    """Requests that are sent without waiting for the answers."""

    clock: TurningClock

    def setUp(self) -> None:
        super().setUp()
        self.clock = TurningClock()
        self.site = self.make_site(DoorLimits())
        self.connect()

    def paths(self) -> list[str]:
        return [incoming.path for incoming in self.answered]

    def say(self, *numbers: int) -> None:
        self.channel.dataReceived(b"".join(GET % number for number in numbers))

    def test_one_in_a_turn(self) -> None:
        """The others wait, in their order, and the connection is not read meanwhile."""
        self.say(1, 2, 3)
        self.assertEqual(self.paths(), ["/1"])
        self.assertEqual(self.transport.producerState, "paused")
        self.clock.turn()
        self.assertEqual(self.paths(), ["/1", "/2"])
        self.assertEqual(self.transport.producerState, "paused")
        self.clock.turn()
        self.assertEqual(self.paths(), ["/1", "/2", "/3"])
        self.assertEqual(self.transport.producerState, "producing")
        self.assertEqual(self.received().count("200 OK"), 3)

    def test_refused_ones_too(self) -> None:
        """They cost as much."""
        self.policy.verdicts["/1"] = text_answer(401, "no")
        self.say(1, 1)
        self.assertEqual(len(self.policy.asked), 1)
        self.clock.turn()
        self.assertEqual(len(self.policy.asked), 2)

    def test_everybody_has_a_turn(self) -> None:
        """A connection full of requests comes once before another comes again."""
        other, _ = self.open()
        self.say(1, 2, 3)
        other.dataReceived(GET % 7 + GET % 8)
        self.clock.turn()
        self.assertEqual(self.paths(), ["/1", "/7", "/2", "/8"])

    def test_behind_a_body(self) -> None:
        """What follows one waits like what follows none."""
        head = b"POST /1 HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody"
        self.channel.dataReceived(head + head + GET % 2)
        self.assertEqual(self.paths(), ["/1"])
        self.clock.turn()
        self.clock.turn()
        self.assertEqual(self.paths(), ["/1", "/1", "/2"])
        self.assertEqual([i.body for i in self.answered], [b"body", b"body", b""])

    def test_a_part_of_a_request(self) -> None:
        """It is looked at in its turn, read on, and has its time from then on."""
        whole = GET % 2
        self.channel.dataReceived(GET % 1 + whole[:9])
        self.clock.turn()
        self.assertEqual(self.transport.producerState, "producing")
        self.clock.advance(self.site.limits.header_time - 0.01)
        self.assertFalse(self.transport.disconnecting)
        self.channel.dataReceived(whole[9:])
        self.assertEqual(self.paths(), ["/1", "/2"])

    def test_a_part_that_is_never_finished(self) -> None:
        """Runs out of time like any other."""
        self.channel.dataReceived(GET % 1 + b"GET / HTTP/1.1\r\nHo")
        self.clock.turn()
        self.clock.advance(self.site.limits.header_time)
        self.assertIn(" 408 ", self.received())

    def test_what_comes_all_the_same(self) -> None:
        """A transport that is resumed by taking an answer may read once more; then it is paused
        again, and the order is kept.
        """
        self.say(1, 2)
        self.channel.resumeProducing()
        self.assertEqual(self.transport.producerState, "producing")
        self.say(3)
        self.assertEqual(self.transport.producerState, "paused")
        for _ in range(2):
            self.clock.turn()
        self.assertEqual(self.paths(), ["/1", "/2", "/3"])

    def test_a_full_transport_is_not_read(self) -> None:
        """Nor when the turn has come: only what has been read is answered."""
        self.say(1, 2)
        self.channel.pauseProducing()
        self.clock.turn()
        self.assertEqual(self.paths(), ["/1", "/2"])
        self.assertEqual(self.transport.producerState, "paused")
        self.channel.resumeProducing()
        self.assertEqual(self.transport.producerState, "producing")

    def test_a_connection_that_ends(self) -> None:
        """Nothing is left of what waited."""
        self.say(1, 2)
        self.channel.connectionLost(Failure(ConnectionLost()))
        self.clock.turn()
        self.assertEqual(self.paths(), ["/1"])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_door_that_closes(self) -> None:
        """What waited is not answered any more."""
        self.say(1, 2)
        self.site.close(1.0)
        self.clock.turn()
        self.assertEqual(self.paths(), ["/1"])
        self.assertTrue(self.transport.disconnecting)
        self.channel.connectionLost(Failure(ConnectionLost()))

    def test_the_last_request_of_a_connection(self) -> None:
        """Nothing behind it is anybody's."""
        last = b"GET /1 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
        self.channel.dataReceived(last + GET % 2)
        self.clock.turn()
        self.assertEqual(self.paths(), ["/1"])


class Places(DoorCase):
    """A door of three places, all taken by those who ask without pause."""

    def setUp(self) -> None:
        super().setUp()
        self.policy.anybodys = {"/1"}
        self.policy.verdicts["/2"] = text_answer(401, "no")
        self.site = self.make_site(DoorLimits(connections=3))
        self.doors = [self.open() for _ in range(3)]

    def ask(self, number: int, path: int) -> None:
        self.doors[number][0].dataReceived(GET % path)

    def come(self) -> tuple[BoundedChannel, Transport] | None:
        """Come as one more."""
        channel = self.site.buildProtocol(None)
        if channel is None:
            return None
        channel.makeConnection(transport := Transport())
        return channel, transport

    def gone(self) -> list[int]:
        """Who has lost his place."""
        self.clock.advance(0.6)
        return [n for n, (_, transport) in enumerate(self.doors) if transport.aborted]

    def test_who_asks_what_anybody_may(self) -> None:
        """The oldest of them gives his place after a second, refused or not, and whatever he asks
        meanwhile.  Who has been known once keeps his, however long ago that was.
        """
        self.clock.advance(0.9)
        for number, path in enumerate((3, 1, 2)):
            self.ask(number, path)
        self.assertIsNone(self.come())
        self.clock.advance(0.1)
        self.ask(0, 1)
        self.ask(1, 1)
        self.assertIsNotNone(self.come())
        self.assertEqual(self.gone(), [1])
        self.ask(2, 2)
        self.assertIsNotNone(self.come())
        self.assertEqual(self.gone(), [1, 2])

    def test_a_body_that_does_not_come(self) -> None:
        """Of nobody who is known it holds no place either."""
        self.clock.advance(1.0)
        self.ask(0, 3)
        self.ask(1, 3)
        self.doors[2][0].dataReceived(b"POST /1 HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n")
        self.assertIsNotNone(self.come())
        self.assertEqual(self.gone(), [2])

    def test_an_answer_under_way(self) -> None:
        """Nor does a slow one, though those who wait for less go first."""
        waiting: list[Deferred[Outgoing]] = []
        self.reply = lambda incoming: waiting.append(Deferred()) or waiting[-1]  # type: ignore[func-returns-value]
        self.ask(0, 1)
        self.ask(1, 3)
        self.clock.advance(1.0)
        self.assertIsNotNone(self.come())
        self.assertEqual(self.gone(), [2])
        self.assertIsNotNone(self.come())
        self.assertEqual(self.gone(), [0, 2])

    def test_all_are_known(self) -> None:
        """Then there is no place."""
        self.reply = lambda incoming: Deferred()
        for number in range(3):
            self.ask(number, 3)
        self.clock.advance(60.0)
        self.assertIsNone(self.come())
