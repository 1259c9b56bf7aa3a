"""The one kind of WebSocket frame that a lane writes and reads itself (RFC 6455, 5.2 and 5.3)."""

from __future__ import annotations

import os

from attrs import define, field
from autobahn.twisted.websocket import WebSocketServerFactory
from autobahn.websocket.xormasker import create_xor_masker  # type: ignore[attr-defined]  # native or not
from msgspec import Raw
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.trial.unittest import SynchronousTestCase

from garcon.errors import BadMessage
from garcon.link import frames
from garcon.link.framing import SMALL, begins, framed, unframed, xored
from garcon.link.websocket import _OPTIONS, LaneServerProtocol
from garcon.link.wire import IWire

SIZES = (1, 125, 126, 127, 65_535)


class Framing(SynchronousTestCase):
    """Whole binary messages, in both directions."""

    def test_round_trip_at_every_form_of_length(self) -> None:
        """What one side frames the other one reads, masked by clients and only by them."""
        for size in SIZES:
            record = bytes(n % 251 for n in range(size))
            for masks in (False, True):
                frame = framed(record, masks)
                self.assertEqual(frame[0], 0x82)
                self.assertEqual(frame[1] >= 0x80, masks)
                self.assertEqual(unframed(frame, 0, masks), (record, len(frame)))
                self.assertEqual(unframed(b"xx" + frame + b"y", 2, masks), (record, len(frame) + 2))

    def test_lengths_have_their_shortest_form(self) -> None:
        """Up to 125 bytes the length is one byte, above it three."""
        self.assertEqual(framed(b"a" * 125, False)[:2], b"\x82\x7d")
        self.assertEqual(framed(b"a" * 126, False)[:4], b"\x82\x7e\x00\x7e")
        self.assertEqual(framed(b"a" * 65_535, False)[:4], b"\x82\x7e\xff\xff")

    def test_masks_differ(self) -> None:
        """Each frame has a mask of its own, and it hides the record."""
        frames = {framed(b"a" * 64, True) for _ in range(8)}
        self.assertEqual(len(frames), 8)
        self.assertFalse(any(b"aaaa" in frame for frame in frames))

    def test_a_record_that_has_only_begun(self) -> None:
        """Every part of one from its first byte on can become one."""
        for size in (1, 125, 126, 127, 300, 65_535):
            for masks in (True, False):
                frame = framed(b"a" * size, masks)
                for end in {1, 2, 3, 4, 5, 8, len(frame) - 1}:
                    if end < len(frame):
                        self.assertTrue(begins(b"x" + frame[:end], 1, masks), (size, end))
        self.assertFalse(begins(b"x", 1, False))

    def test_what_autobahn_must_judge_is_not_kept_from_it(self) -> None:
        """Anything that no record's message begins with goes to it at once."""
        whole = framed(b"record", False)
        for data, masked in (
            (whole[:3], True),
            (framed(b"record", True)[:3], False),
            (b"\x02", False),
            (b"\x81\x06rec", False),
            (b"\xc2", False),
            (b"\x88\x02", False),
            (b"\x82\x00", False),
            (b"\x82\x7e\x00\x06rec", False),
            (b"\x82\x7f\x00", False),
        ):
            self.assertFalse(begins(data, 0, masked), data)

    def test_small_records_are_masked_as_autobahn_does(self) -> None:
        """On both sides of the size from which its native masker is used."""
        for size in (1, 2, 3, 4, 5, 125, 126, SMALL, SMALL + 1):
            mask, record = os.urandom(4), os.urandom(size)
            theirs = create_xor_masker(mask, size).process(record)
            self.assertEqual(xored(record, mask), theirs)
            self.assertEqual(xored(theirs, mask), record)

    def test_everything_else_is_left_to_autobahn(self) -> None:
        """Incomplete, wrongly masked, fragmented, text, control, empty and oddly long frames."""
        whole = framed(b"record", False)
        for end in range(len(whole)):
            self.assertIsNone(unframed(whole[:end], 0, False))
        for data, masked in (
            (whole, True),
            (framed(b"record", True), False),
            (b"\x02" + whole[1:], False),
            (b"\x80" + whole[1:], False),
            (b"\x81" + whole[1:], False),
            (b"\xc2" + whole[1:], False),
            (b"\x88\x02\x03\xe8", False),
            (b"\x89\x04abcd", False),
            (b"\x82\x00\x82\x00", False),
            (b"\x82\x7e\x00\x06record", False),
            (b"\x82\x7f" + (6).to_bytes(8, "big") + b"record", False),
        ):
            self.assertIsNone(unframed(data, 0, masked))


class LargeFrames(SynchronousTestCase):
    """Large calls are taken apart without a look at their payload, small ones are not."""

    CALL = "c1de4c62-9c2d-4d0c-8f0a-000000000020"

    def test_they_are_what_the_general_decoder_finds(self) -> None:
        """For every form that our own encoding gives them."""
        payload = b'{"text":"%b"}' % (b"x" * 9_000)
        head = frames.request_head(self.CALL, "test.echo", "one-two", payload)
        for text in (
            frames.result(self.CALL, payload),
            frames.result(self.CALL, b'"%b"' % (b"}" * 9_000)),
            frames.numbered(head, 1),
            frames.numbered(head, 1234567890123456),
        ):
            for form in (text, memoryview(text)):
                found, general = frames.decode(form), frames._decode(text)
                self.assertIs(type(found), type(general))
                for name in found.__struct_fields__:
                    value = getattr(found, name)
                    if isinstance(value, Raw | memoryview):
                        value = bytes(value)
                    wanted = getattr(general, name)
                    if isinstance(wanted, Raw):
                        wanted = bytes(wanted)
                    self.assertEqual(value, wanted, name)

    def test_every_other_form_is_left_to_the_general_decoder(self) -> None:
        """Which takes any JSON that says the same, and refuses what is none."""
        filling = b'"%b"' % (b"x" * 9_000)
        for text in (
            b'{"id":"%b","type":"result","value":%b}' % (self.CALL.encode(), filling),
            b'{"type":"request","seq":1,"id":"a","method":"b","request":%b}' % filling,
            b'{"type":"producer","seq":1,"notification":%b}' % filling,
        ):
            self.assertEqual(frames.decode(text), frames._decode(text))
        for text in (
            frames.result(self.CALL, filling)[:-1],
            frames.numbered(frames.request_head(self.CALL, "a", "", filling), 0)[:-1] + b"]",
            b"x" * 9_000,
        ):
            self.assertRaises(BadMessage, frames.decode, text)


class Socket(StringTransport):
    """A transport as a lane's protocol needs it."""

    disconnected = False

    def setTcpNoDelay(self, enabled: bool) -> None:
        """There is no Nagle here."""

    def registerProducer(self, producer: object, streaming: bool) -> None:
        """Nothing is ever full here."""

    def unregisterProducer(self) -> None:
        """Likewise."""

    def abortConnection(self) -> None:
        """Drop it."""
        self.disconnected = True


@define(eq=False)
class Records:
    """Keeps what a lane was given."""

    taken: list[bytes] = field(factory=list)

    def wire_opened(self, wire: IWire) -> None:
        """See `IWireUser`."""

    def record_received(self, record: bytes) -> None:
        """See `IWireUser`."""
        self.taken.append(record)


def _opened() -> tuple[LaneServerProtocol, Records]:
    factory = WebSocketServerFactory(reactor=Clock())
    factory.setProtocolOptions(webStatus=False, **_OPTIONS)
    lane, records = LaneServerProtocol(), Records()
    lane.factory, lane.user, lane.close_time = factory, records, 1.0
    socket = Socket()
    lane.makeConnection(socket)
    lane.dataReceived(
        b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    socket.clear()
    return lane, records


def _frame(first: int, payload: bytes, length: bytes) -> bytes:
    """Return a masked frame whose first byte and form of length are given."""
    mask = b"\x01\x02\x03\x04"
    return bytes((first,)) + length + mask + xored(payload, mask)


class Stream(SynchronousTestCase):
    """Records between frames that only Autobahn knows, however the network cuts them."""

    BEFORE, PARTS, LONG, AFTER = b"before", (b"in ", b"two"), b"l" * 126, b"after"
    SENT = b"".join(
        (
            framed(BEFORE, True),
            _frame(0x02, PARTS[0], b"\x83"),
            _frame(0x89, b"ping", b"\x84"),
            _frame(0x80, PARTS[1], b"\x83"),
            framed(LONG, True),
            _frame(0x8A, b"", b"\x80"),
            framed(AFTER, True),
        )
    )
    TAKEN = (BEFORE, b"".join(PARTS), LONG, AFTER)

    def test_cut_at_every_byte(self) -> None:
        """Order and content are the same at each place of one cut, and of a second a little on."""
        for cut in range(1, len(self.SENT)):
            for further in (1, 3, len(self.SENT)):
                lane, records = _opened()
                lane.dataReceived(self.SENT[:cut])
                lane.dataReceived(self.SENT[cut : cut + further])
                if rest := self.SENT[cut + further :]:
                    lane.dataReceived(rest)
                self.assertEqual(tuple(records.taken), self.TAKEN, (cut, further))

    def test_byte_by_byte(self) -> None:
        """The smallest pieces there can be."""
        lane, records = _opened()
        for at in range(len(self.SENT)):
            lane.dataReceived(self.SENT[at : at + 1])
        self.assertEqual(tuple(records.taken), self.TAKEN)

    def test_sizes(self) -> None:
        """Every form of length, whole and in two pieces; one byte more than a record may have ends
        the connection.
        """
        for size in SIZES:
            record = bytes(n % 251 for n in range(size))
            frame = framed(record, True)
            for cut in (len(frame), len(frame) - 1, 1, 2, 3, 7):
                lane, records = _opened()
                lane.dataReceived(frame[:cut])
                if cut < len(frame):
                    lane.dataReceived(frame[cut:])
                self.assertEqual(records.taken, [record])
        lane, records = _opened()
        long = _frame(0x82, b"x" * 65_536, b"\xff" + (65_536).to_bytes(8, "big"))
        lane.dataReceived(framed(b"before", True) + long + framed(b"after", True))
        self._assert_ended(lane, records)

    def test_autobahn_ends_what_is_wrong(self) -> None:
        """What came before it is taken, and nothing that comes after."""
        for wrong in (
            _frame(0x82, b"record", b"\xfe\x00\x06"),
            _frame(0x82, b"record", b"\xff" + (6).to_bytes(8, "big")),
            _frame(0xC2, b"record", b"\x86"),
            _frame(0x80, b"record", b"\x86"),
            framed(b"record", False),
        ):
            lane, records = _opened()
            lane.dataReceived(framed(b"before", True) + wrong + framed(b"after", True))
            self._assert_ended(lane, records)

    def test_text_is_no_record(self) -> None:
        """The connection is dropped."""
        lane, records = _opened()
        lane.dataReceived(framed(b"before", True) + _frame(0x81, b"text", b"\x84"))
        self.assertEqual(records.taken, [b"before"])
        self.assertTrue(lane.transport.disconnected)

    def _assert_ended(self, lane: LaneServerProtocol, records: Records) -> None:
        self.assertEqual(records.taken, [b"before"])
        socket = lane.transport
        self.assertTrue(
            socket.disconnecting or socket.disconnected or socket.value()[:1] == b"\x88"
        )
