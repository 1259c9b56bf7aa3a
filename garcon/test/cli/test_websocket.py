"""The client's end of a WebSocket, as values."""

from __future__ import annotations

import base64
import hashlib

from twisted.trial.unittest import SynchronousTestCase

from garcon.cli.websocket import LARGEST, ProtocolError, UpgradeRefused, WebSocket

KEY = bytes(range(16))
MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
ACCEPT = base64.b64encode(hashlib.sha1(base64.b64encode(KEY) + MAGIC).digest()).decode()
MASK = b"\x01\x02\x03\x04"


def random(length: int) -> bytes:
    return KEY if length == 16 else MASK


def head(status: int = 101, *more: str, accept: str = ACCEPT) -> bytes:
    lines = [f"HTTP/1.1 {status} Whatever", f"Sec-WebSocket-Accept: {accept}", *more, "", ""]
    return "\r\n".join(lines).encode()


def frame(opcode: int, payload: bytes, *, is_last: bool = True) -> bytes:
    first = bytes(((0x80 if is_last else 0) | opcode,))
    size = len(payload)
    if size < 126:
        return first + bytes((size,)) + payload
    if size < 65_536:
        return first + b"\x7e" + size.to_bytes(2, "big") + payload
    return first + b"\x7f" + size.to_bytes(8, "big") + payload


class UpgradeTests(SynchronousTestCase):
    """How a socket begins."""

    def setUp(self) -> None:
        self.socket = WebSocket(random)

    def test_the_token_is_a_bearer(self) -> None:
        """It is in one header and in nothing else; without one there is no such header."""
        self.socket.upgrade("/ws", "127.0.0.1:1", "garcon_user_x")
        lines = bytes(self.socket.outgoing).decode().split("\r\n")
        self.assertEqual(lines[0], "GET /ws HTTP/1.1")
        self.assertEqual(
            [line for line in lines if "garcon_user_x" in line],
            ["Authorization: Bearer garcon_user_x"],
        )
        other = WebSocket(random)
        other.upgrade("/ws", "127.0.0.1:1", None)
        self.assertNotIn(b"Authorization", other.outgoing)

    def test_it_is_open_with_the_right_answer(self) -> None:
        """Byte by byte, and what comes right behind it is not lost."""
        for byte in head():
            self.assertFalse(self.socket.is_open)
            self.socket.feed(bytes((byte,)))
        self.assertTrue(self.socket.is_open)
        other = WebSocket(random)
        self.assertEqual(other.feed(head() + frame(1, b"early")), ["early"])

    def test_refusals(self) -> None:
        """Another status is known by its number."""
        for status in (400, 401, 503):
            error = self.assertRaises(UpgradeRefused, WebSocket(random).feed, head(status))
            self.assertEqual(error.status, status)

    def test_what_is_no_answer(self) -> None:
        """Another key's answer, an extension, no HTTP, a header without end."""
        wrong = (
            head(accept="x"),
            head(101, "Sec-WebSocket-Extensions: permessage-deflate"),
            b"SSH-2.0-x\r\n\r\n",
            b"HTTP/1.1\r\n\r\n",
            b"x" * (16 * 1024 + 1),
        )
        for data in wrong:
            self.assertRaises(ProtocolError, WebSocket(random).feed, data)
        self.assertEqual(WebSocket(random).feed(b"x" * (16 * 1024)), [])


class MessageTests(SynchronousTestCase):
    """An open socket."""

    def setUp(self) -> None:
        self.socket = WebSocket(random)
        self.socket.feed(head())

    def sent(self) -> tuple[int, bytes]:
        """Take the one frame that was sent; it is masked."""
        data = bytes(self.socket.outgoing)
        self.socket.outgoing.clear()
        self.assertTrue(data[1] & 0x80)
        size, at = data[1] & 0x7F, 2
        if size > 125:
            at = 4 if size == 126 else 10
            size = int.from_bytes(data[2:at], "big")
        self.assertEqual(data[at : at + 4], MASK)
        payload = data[at + 4 :]
        self.assertEqual(len(payload), size)
        return data[0], bytes(byte ^ MASK[i % 4] for i, byte in enumerate(payload))

    def test_what_is_sent(self) -> None:
        """Whole masked texts, with each of the three forms of length."""
        for text in ("", "é", "x" * 125, "x" * 126, "x" * 65_535, "x" * 65_536):
            self.socket.send(text)
            self.assertEqual(self.sent(), (0x81, text.encode()))
        self.socket.close()
        self.assertEqual(self.sent(), (0x88, b"\x03\xe8"))

    def test_texts_of_every_length(self) -> None:
        """At once or byte by byte."""
        texts = ["", "é", "x" * 125, "y" * 126, "z" * 65_536]
        data = b"".join(frame(1, text.encode()) for text in texts)
        self.assertEqual(self.socket.feed(data), texts)
        found = [text for byte in data for text in self.socket.feed(bytes((byte,)))]
        self.assertEqual(found, texts)

    def test_a_message_in_pieces(self) -> None:
        """With a ping in between, and with a character that came apart."""
        data = frame(1, b"a\xc3", is_last=False) + frame(9, b"p")
        data += frame(0, b"", is_last=False) + frame(0, b"\xa9")
        self.assertEqual(self.socket.feed(data), ["a\u00e9"])
        self.assertEqual(self.sent(), (0x8A, b"p"))

    def test_bytes_are_no_text(self) -> None:
        """A binary message is nothing that we know."""
        self.assertEqual(self.socket.feed(frame(2, b"\xff") + frame(1, b"a")), ["a"])

    def test_the_largest(self) -> None:
        """One of `LARGEST` bytes is kept; one byte more, in one frame or more, is skipped."""
        self.assertEqual(self.socket.feed(frame(1, b"x" * LARGEST)), ["x" * LARGEST])
        self.assertEqual(self.socket.feed(frame(1, b"x" * (LARGEST + 1)) + frame(1, b"a")), ["a"])
        half = frame(1, b"x" * LARGEST, is_last=False)
        data = half + frame(0, b"x", is_last=False) + frame(0, b"y") + frame(1, b"b")
        self.assertEqual(self.socket.feed(data), ["b"])

    def test_what_is_skipped_is_not_kept(self) -> None:
        """However much of it comes."""
        self.socket.feed(frame(1, b"x" * (4 * LARGEST))[: 3 * LARGEST])
        self.assertEqual(len(self.socket._buffer), 0)

    def test_the_end(self) -> None:
        """Its code and reason are known; nothing is read behind it."""
        self.assertEqual(self.socket.feed(frame(8, b"\x03\xf5full") + frame(1, b"late")), [])
        self.assertEqual(self.socket.closed, "closed with 1013 full")
        other = WebSocket(random)
        other.feed(head() + frame(8, b""))
        self.assertEqual(other.closed, "closed with 1005")

    def test_what_is_no_websocket(self) -> None:
        """Masks, reserved bits and opcodes, long or divided control frames, no UTF-8."""
        wrong = (
            b"\x81\x80" + MASK,
            b"\xc1\x00",
            b"\x83\x00",
            b"\x8b\x00",
            b"\x89\x7e\x00\x7e",
            b"\x09\x00",
            frame(0, b"x"),
            frame(1, b"x", is_last=False) + frame(1, b"y"),
            frame(1, b"\xff"),
        )
        for data in wrong:
            socket = WebSocket(random)
            socket.feed(head())
            self.assertRaises(ProtocolError, socket.feed, data)
