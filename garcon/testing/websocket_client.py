"""A WebSocket client that blocks, sees every frame, and can do what no good client does.

Written against RFC 6455 and 7692 and nothing of ours, so that what a controller puts on the wire is
read by somebody else.  A server that breaks the protocol fails the test that listens.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import socket
import ssl
import struct
import time
import zlib
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from attrs import define, field, frozen

from garcon.testing.fleet import expect

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
WAIT = 20.0

_MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_TAIL = b"\x00\x00\xff\xff"


@frozen
class Refused(Exception):
    """The upgrade was answered as an HTTP request."""

    status: int
    headers: dict[str, str]
    body: bytes


@frozen
class Frame:
    """One frame of the server's, as it came; `payload` is not inflated."""

    opcode: int
    payload: bytes
    is_compressed: bool

    @property
    def code(self) -> int | None:
        """The code of a close frame."""
        return struct.unpack("!H", self.payload[:2])[0] if len(self.payload) >= 2 else None


@define(eq=False)
class WebSocketClient:
    """One open WebSocket.  `headers` are those of the server's answer, in lower case."""

    connection: socket.socket
    headers: dict[str, str]
    _data: bytearray = field(factory=bytearray)
    received: int = 0
    """Bytes that came after the upgrade."""

    @classmethod
    def open(
        cls,
        url: str,
        *,
        path: str = "/ws",
        protocols: Sequence[str] = (),
        token: str | None = None,
        deflate: str | None = "permessage-deflate; client_max_window_bits",
        headers: Mapping[str, str] | None = None,
        receive_buffer: int | None = None,
        trust: ssl.SSLContext | None = None,
    ) -> WebSocketClient:
        """Connect and upgrade; raises `Refused`.  An empty value in `headers` leaves one out;
        `trust` is for TLS.
        """
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or 80
        connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if receive_buffer is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        connection.settimeout(WAIT)
        try:
            connection.connect((host, port))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if trust is not None:
                connection = trust.wrap_socket(connection, server_hostname=host)
            key = base64.b64encode(os.urandom(16)).decode()
            sent = {
                "Host": f"{host}:{port}",
                "Upgrade": "websocket",
                "Connection": "Upgrade",
                "Sec-WebSocket-Version": "13",
                "Sec-WebSocket-Key": key,
                "Sec-WebSocket-Extensions": deflate or "",
                "Sec-WebSocket-Protocol": ", ".join(protocols),
                "Authorization": "" if token is None else f"Bearer {token}",
                **(headers or {}),
            }
            lines = [f"{name}: {value}\r\n" for name, value in sent.items() if value]
            connection.sendall(f"GET {path} HTTP/1.1\r\n{''.join(lines)}\r\n".encode())
            client = cls(connection, {})
            client._upgrade(key)
            return client
        except BaseException:
            connection.close()
            raise

    def _upgrade(self, key: str) -> None:
        while b"\r\n\r\n" not in self._data:
            self._more(time.monotonic() + WAIT)
        head, _, rest = bytes(self._data).partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        names = [line.partition(": ") for line in lines]
        self.headers = {name.lower(): value for name, _, value in names}
        self._data = bytearray(rest)
        status = int(first.split(" ")[1])
        if status != 101:
            length = int(self.headers.get("content-length", "0"))
            while len(self._data) < length:
                self._more(time.monotonic() + WAIT)
            raise Refused(status, self.headers, bytes(self._data[:length]))
        accept = base64.b64encode(hashlib.sha1(key.encode() + _MAGIC).digest()).decode()
        expect(self.headers.get("sec-websocket-accept") == accept, "the key is not answered")

    @property
    def is_compressed(self) -> bool:
        """Whether compression was agreed on."""
        return "sec-websocket-extensions" in self.headers

    # Sending

    def send(self, message: Any) -> None:
        """Send a message as JSON text."""
        self.send_frame(TEXT, json.dumps(message).encode())

    def send_frame(self, opcode: int, payload: bytes, first: int = 0x80) -> None:
        """Send one frame; `first` are the upper bits of its first byte."""
        size = len(payload)
        if size < 126:
            length = bytes((0x80 | size,))
        elif size < 65_536:
            length = bytes((0x80 | 126,)) + struct.pack("!H", size)
        else:
            length = bytes((0x80 | 127,)) + struct.pack("!Q", size)
        # A mask of zeros is one, and leaves the payload as it is.
        self.connection.sendall(bytes((first | opcode,)) + length + bytes(4) + payload)

    def send_compressed(self, payload: bytes) -> None:
        """Send a compressed text message."""
        compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
        data = compressor.compress(payload) + compressor.flush(zlib.Z_SYNC_FLUSH)
        self.send_frame(TEXT, data.removesuffix(_TAIL), 0xC0)

    # Receiving

    def frame(self, seconds: float = WAIT) -> Frame:
        """Return the next frame; raises `ConnectionError` at the end of the connection."""
        deadline = time.monotonic() + seconds
        head = self._take(2, deadline)
        size, is_long = head[1] & 0x7F, 0
        expect(head[1] < 0x80, "a server's frame is masked")
        if size >= 126:
            is_long = 2 if size == 126 else 8
            size = int.from_bytes(self._take(is_long, deadline), "big")
            expect(size >= (126 if is_long == 2 else 65_536), "a length in a longer form")
        opcode, is_compressed = head[0] & 0x0F, bool(head[0] & 0x40)
        expect(head[0] & 0x80, "a message in pieces")
        expect(not head[0] & 0x30, "a reserved bit is set")
        expect(opcode in (TEXT, CLOSE, PING, PONG), f"opcode {opcode}")
        if opcode == TEXT:
            expect(is_compressed == self.is_compressed, "compression is not as agreed")
        else:
            expect(not is_compressed and size < 126, "a control frame like a message")
        return Frame(opcode, self._take(size, deadline), is_compressed)

    def frames_now(self) -> list[Frame]:
        """Return the frames that are there, after reading what can be read without waiting."""
        self.connection.setblocking(False)
        try:
            while data := self.connection.recv(1 << 18):
                self.received += len(data)
                self._data += data
        except BlockingIOError:
            pass
        found = []
        while self._has_frame():
            found.append(self.frame())
        return found

    def _has_frame(self) -> bool:
        data = self._data
        if len(data) < 2:
            return False
        more = {126: 2, 127: 8}.get(data[1] & 0x7F, 0)
        size = int.from_bytes(data[2 : 2 + more], "big") if more else data[1] & 0x7F
        return len(data) >= 2 + more + size

    def message(self, seconds: float = WAIT) -> bytes:
        """Return the next message, inflated; pings are answered on the way."""
        deadline = time.monotonic() + seconds
        while True:
            frame = self.frame(deadline - time.monotonic())
            if frame.opcode == PING:
                self.send_frame(PONG, frame.payload)
            elif frame.opcode == CLOSE:
                raise ConnectionError(f"closed with {frame.code} {frame.payload[2:]!r}")
            elif frame.opcode == TEXT:
                return self.inflated(frame)

    def json(self, seconds: float = WAIT) -> Any:
        """Return the next message, decoded."""
        return json.loads(self.message(seconds))

    def ask(self, message: Mapping[str, Any], seconds: float = WAIT) -> Any:
        """Send a request and return the next message that names it."""
        self.send(message)
        deadline = time.monotonic() + seconds
        while True:
            answer = self.json(deadline - time.monotonic())
            if answer.get("clientRequestId") == message["clientRequestId"]:
                return answer

    def inflated(self, frame: Frame) -> bytes:
        """Return a message's text; each is read by itself, as the agreement says."""
        if not frame.is_compressed:
            return frame.payload
        return zlib.decompressobj(-15).decompress(frame.payload + _TAIL)

    def ended(self, seconds: float = WAIT) -> str:
        """Read to the end of the connection and say how it came."""
        deadline = time.monotonic() + seconds
        try:
            while True:
                frame = self.frame(deadline - time.monotonic())
                if frame.opcode == CLOSE:
                    return f"closed {frame.code} {frame.payload[2:].decode()}"
        except TimeoutError:
            raise AssertionError("the connection does not end") from None
        except ConnectionError:
            return "dropped"

    def close(self) -> None:
        """Let the connection go."""
        self.connection.close()

    def _take(self, size: int, deadline: float) -> bytes:
        while len(self._data) < size:
            self._more(deadline)
        taken = bytes(self._data[:size])
        del self._data[:size]
        return taken

    def _more(self, deadline: float) -> None:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("nothing came")
        self.connection.settimeout(left)
        data = self.connection.recv(1 << 18)
        if not data:
            raise ConnectionError("the connection has ended")
        self.received += len(data)
        self._data += data
