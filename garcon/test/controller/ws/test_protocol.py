"""A browser socket on the wire: how much of a turn its frames take, and of the memory (server.md
A.2).
"""

from __future__ import annotations

import struct
import tracemalloc

from twisted.internet.error import ConnectionDone
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.limits import KIB
from garcon.controller.principals import LOCAL_PRINCIPAL
from garcon.controller.ws.deflate import Compressor
from garcon.controller.ws.protocol import BrowserProtocol, browser_factory
from garcon.controller.ws.socket import Socket, SocketLimits
from garcon.link.pace import SHARE
from garcon.test.link.test_pacing import Turning

LIMIT = 64 * KIB
TEXT, CONTINUED, PING = 0x81, 0x00, 0x89
BEGUN = 0x01


class Transport(StringTransport):
    """A transport as the protocol needs it."""

    def setTcpNoDelay(self, enabled: bool) -> None:
        """There is no Nagle here."""

    def registerProducer(self, producer: object, streaming: bool) -> None:
        """Nothing is ever full here."""

    def unregisterProducer(self) -> None:
        """Likewise."""

    def abortConnection(self) -> None:
        """The connection is gone at once."""
        self.disconnecting = True


class Taking(Socket):
    """A socket that takes a time for each message, the one that it names in shares."""

    clock: Turning
    taken: list[bytes]

    def received(self, payload: bytes) -> None:
        self.taken.append(payload)
        self.clock.rightNow += float(payload or 0) * SHARE


def frame(first: int, payload: bytes = b"") -> bytes:
    """One masked frame of a client's, with a mask that leaves the payload as it is."""
    size = len(payload)
    head = bytes((first, 0x80 | size)) if size < 126 else struct.pack("!BBH", first, 0xFE, size)
    return head + bytes(4) + payload


class WireCase(SynchronousTestCase):
    """One open socket on a transport of the test's."""

    def setUp(self) -> None:
        self.clock = Turning()
        self.socket = Taking(self.clock, Compressor(), SocketLimits(), LOCAL_PRINCIPAL)
        self.socket.clock, self.socket.taken = self.clock, []
        self.ends = 0
        self.wire = BrowserProtocol(self.socket, lambda wire: None, self._gone)
        self.wire.factory = browser_factory(self.clock, LIMIT)
        self.transport = Transport()
        self.wire.makeConnection(self.transport)
        self.wire.dataReceived(
            b"GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        self.transport.clear()

    def _gone(self) -> None:
        self.ends += 1

    def come(self, *messages: bytes) -> None:
        """Let these be read at once."""
        self.wire.dataReceived(b"".join(frame(TEXT, one) for one in messages))

    def turn(self) -> list[bytes]:
        """Return what one more turn takes."""
        self.socket.taken.clear()
        self.clock.turn()
        return list(self.socket.taken)


class TurnTests(WireCase):
    """Frames that came at once, taken over several turns."""

    def test_a_message_that_takes_long_is_the_last_of_its_turn(self) -> None:
        """Whatever was read behind it waits, and nothing more is read."""
        self.come(b"2", b"3", b"0", b"0")
        self.assertEqual(self.socket.taken, [b"2"])
        self.assertEqual(self.transport.producerState, "paused")
        taken: list[bytes] = []
        for _ in range(6):
            taken += self.turn()
        self.assertEqual(taken, [b"3", b"0", b"0"])
        self.assertEqual(self.transport.producerState, "producing")
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_short_messages_are_taken_at_once(self) -> None:
        """Reading goes on, and nothing waits."""
        self.come(*[b"0"] * 1_000)
        self.assertEqual(len(self.socket.taken), 1_000)
        self.assertEqual(self.transport.producerState, "producing")
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_what_a_transport_still_gives_goes_behind_it(self) -> None:
        """In the order in which it came."""
        self.come(b"1", b"0.1")
        self.come(b"0.2")
        taken: list[bytes] = []
        for _ in range(4):
            taken += self.turn()
        self.assertEqual(taken, [b"0.1", b"0.2"])

    def test_a_hold_outlasts_the_wait(self) -> None:
        """And the wait outlasts a hold that ends meanwhile."""
        self.come(b"1", b"0")
        self.wire.hold_reading(True)
        for _ in range(4):
            self.turn()
        self.assertEqual(self.transport.producerState, "paused")
        self.wire.hold_reading(False)
        self.assertEqual(self.transport.producerState, "producing")
        self.wire.hold_reading(True)
        self.come(b"1", b"0")
        self.wire.hold_reading(False)
        self.assertEqual(self.transport.producerState, "paused")

    def test_what_came_is_taken_before_the_end(self) -> None:
        """And nothing is left behind."""
        self.come(b"1", b"2", b"0")
        self.wire.connectionLost(Failure(ConnectionDone()))
        self.assertEqual(self.socket.taken, [b"1", b"2", b"0"])
        self.assertEqual((self.ends, self.clock.getDelayedCalls()), (1, []))


class PieceTests(WireCase):
    """Messages in more than one frame, and frames in more than one piece."""

    def test_pieces_become_one_message(self) -> None:
        """Whatever comes between them."""
        whole = frame(BEGUN, b"0.") + frame(CONTINUED) + frame(PING) + frame(0x80, b"5")
        for at in range(len(whole)):
            self.wire.dataReceived(whole[at : at + 1])
        self.assertEqual(self.socket.taken, [b"0.5"])

    def test_a_message_in_a_million_pieces_takes_no_more_than_its_size(self) -> None:
        """Pieces of two bytes, and such as hold nothing, of which there may be any number."""
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        self.wire.dataReceived(frame(BEGUN))
        for piece in (b"", b"00"):
            many = frame(CONTINUED, piece) * 1_000
            before = tracemalloc.get_traced_memory()[0]
            for _ in range(LIMIT // 2 // 1_000):
                self.wire.dataReceived(many)
            self.assertLess(tracemalloc.get_traced_memory()[0] - before, 2 * LIMIT)
        self.wire.dataReceived(frame(0x80))
        self.assertEqual([len(one) for one in self.socket.taken], [LIMIT // 2 // 1_000 * 2_000])

    def test_pieces_at_the_limit_and_one_byte_more(self) -> None:
        """Together, not each."""
        half = b"0" * (LIMIT // 2)
        self.wire.dataReceived(frame(BEGUN, half) + frame(0x80, half))
        self.assertEqual([len(one) for one in self.socket.taken], [LIMIT])
        self.wire.dataReceived(frame(BEGUN, half) + frame(CONTINUED, half) + frame(0x80, b"0"))
        self.assertEqual(len(self.socket.taken), 1)
        self.assertTrue(self.transport.disconnecting)
