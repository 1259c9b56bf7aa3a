"""The client's end of a WebSocket as values (RFC 6455): bytes in, texts and bytes out.

It is what the command needs of its own controller on loopback: texts, no extensions.  Autobahn
would bring a reactor and 0.4 s to every attach, ten times what the command takes otherwise.
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha1

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

LARGEST = 1024 * 1024
"""Longer messages are skipped without being kept: no terminal's is longer than 64 KiB, but every
socket also hears of chats.
"""
_LARGEST_HEAD = 16 * 1024
_MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_MORE, _TEXT, _BINARY, _CLOSE, _PING, _PONG = 0, 1, 2, 8, 9, 10


class ProtocolError(Exception):
    """The peer does not speak the WebSocket protocol, or not its part of a conversation."""


class UpgradeRefused(Exception):
    """The upgrade was answered as an HTTP request."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the socket was refused (HTTP {status})")
        self.status = status


class WebSocket:
    """One socket, from its upgrade to its close.

    `outgoing` is what is to be written; its owner takes it from there.  `closed` says how the peer
    has ended the conversation, None until then.
    """

    def __init__(self, random: Callable[[int], bytes]) -> None:
        self.outgoing = bytearray()
        self.is_open = False
        self.closed: str | None = None
        self._random = random
        self._key = b64encode(random(16))
        self._buffer = bytearray()
        self._message = bytearray()
        self._kind = _MORE
        """The opcode of the message that has begun."""
        self._is_dropped = False
        self._skip = 0

    def upgrade(self, target: str, authority: str, token: str | None) -> None:
        """Ask for the socket; a token travels as a bearer."""
        lines = [
            f"GET {target} HTTP/1.1",
            f"Host: {authority}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Key: {self._key.decode()}",
            "Sec-WebSocket-Protocol: garcon-v1",
        ]
        if token is not None:
            lines.append(f"Authorization: Bearer {token}")
        self.outgoing += "\r\n".join([*lines, "", ""]).encode("ascii")

    def send(self, text: str) -> None:
        """Send a text."""
        self._frame(_TEXT, text.encode())

    def close(self) -> None:
        """Say goodbye."""
        self._frame(_CLOSE, b"\x03\xe8")

    def feed(self, data: bytes) -> list[str]:
        """Take bytes as they came; return the texts that are complete by them.

        Raises `UpgradeRefused` and `ProtocolError`.
        """
        self._buffer += data
        texts: list[str] = []
        if not self.is_open and not self._upgraded():
            return texts
        while self.closed is None and self._step(texts):
            pass
        return texts

    def _upgraded(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end > _LARGEST_HEAD or (end < 0 and len(self._buffer) > _LARGEST_HEAD):
            raise ProtocolError("the answer's header is too large")
        if end < 0:
            return False
        first, *lines = self._buffer[:end].decode("latin-1").split("\r\n")
        del self._buffer[: end + 4]
        status = first.split(" ")[1:2]
        if not first.startswith("HTTP/1.1 ") or not status or not status[0].isdigit():
            raise ProtocolError("the answer is not HTTP/1.1")
        if int(status[0]) != 101:
            raise UpgradeRefused(int(status[0]))
        headers = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        expected = b64encode(sha1(self._key + _MAGIC).digest()).decode()
        if headers.get("sec-websocket-accept") != expected:
            raise ProtocolError("the upgrade's answer is not to our question")
        if headers.get("sec-websocket-extensions"):
            raise ProtocolError("the peer uses an extension that nobody asked for")
        self.is_open = True
        return True

    def _step(self, texts: list[str]) -> bool:
        """Take one frame, or what is there of one that is skipped; return whether there was any."""
        buffer = self._buffer
        if self._skip:
            there = min(self._skip, len(buffer))
            del buffer[:there]
            self._skip -= there
            return there > 0
        if len(buffer) < 2:
            return False
        opcode, is_last = buffer[0] & 0x0F, buffer[0] >= 0x80
        size, begin = buffer[1] & 0x7F, 2
        if buffer[0] & 0x70 or buffer[1] >= 0x80:
            raise ProtocolError("a frame has a bit set that it may not have")
        if size >= 126:
            begin = 4 if size == 126 else 10
            if len(buffer) < begin:
                return False
            size = int.from_bytes(buffer[2:begin], "big")
        if opcode >= _CLOSE:
            if not is_last or size > 125 or opcode > _PONG:
                raise ProtocolError("a control frame is malformed")
        elif opcode > _BINARY or (opcode == _MORE) != (self._kind != _MORE):
            raise ProtocolError("a message is in the wrong pieces")
        elif self._is_dropped or len(self._message) + size > LARGEST:
            del buffer[:begin]
            self._skip = size
            self._message.clear()
            self._kind = _MORE if is_last else self._kind or opcode
            self._is_dropped = not is_last
            return True
        if len(buffer) < begin + size:
            return False
        payload = bytes(buffer[begin : begin + size])
        del buffer[: begin + size]
        if opcode >= _CLOSE:
            self._control(opcode, payload)
            return True
        self._message += payload
        self._kind = self._kind or opcode
        if is_last:
            self._whole(texts)
        return True

    def _whole(self, texts: list[str]) -> None:
        kind, self._kind = self._kind, _MORE
        data = bytes(self._message)
        self._message.clear()
        if kind == _TEXT:
            try:
                texts.append(data.decode())
            except UnicodeDecodeError:
                raise ProtocolError("a text is not UTF-8") from None

    def _control(self, opcode: int, payload: bytes) -> None:
        if opcode == _PING:
            self._frame(_PONG, payload)
        elif opcode == _CLOSE:
            code = int.from_bytes(payload[:2], "big") if len(payload) >= 2 else 1005
            reason = payload[2:].decode("utf-8", "replace")
            self.closed = f"closed with {code}{' ' + reason if reason else ''}"

    def _frame(self, opcode: int, payload: bytes) -> None:
        size = len(payload)
        if size < 126:
            head = bytes((0x80 | opcode, 0x80 | size))
        elif size < 65_536:
            head = bytes((0x80 | opcode, 0x80 | 126)) + size.to_bytes(2, "big")
        else:
            head = bytes((0x80 | opcode, 0x80 | 127)) + size.to_bytes(8, "big")
        mask = self._random(4)
        self.outgoing += head + mask + _masked(payload, mask)


def _masked(payload: bytes, mask: bytes) -> bytes:
    size = len(payload)
    key = int.from_bytes((mask * (size // 4 + 1))[:size], "little")
    return (int.from_bytes(payload, "little") ^ key).to_bytes(size, "little")
