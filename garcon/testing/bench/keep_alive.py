"""HTTP clients that can be timed: connections that stay, one by one or many at once, on plain
sockets.
"""

from __future__ import annotations

import json
import selectors
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

_CHUNK = 262_144


def get(path: str) -> bytes:
    """Return a request for a path."""
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()


def post(path: str, body: dict[str, Any], method: str = "POST") -> bytes:
    """Return a request with a JSON body."""
    content = json.dumps(body).encode()
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


class Connection:
    """One connection; `ask` blocks, `send` and `received` do not."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None and parts.port is not None
        self.socket = socket.create_connection((parts.hostname, parts.port), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._head = bytearray()
        self._body: list[bytes] = []
        self._missing = -1

    def close(self) -> None:
        """Give the connection up."""
        self.socket.close()

    def ask(self, request: bytes, status: int = 200) -> bytes:
        """Return the body of an answer that must have this status."""
        self.send(request)
        while (answer := self.received()) is None:
            pass
        found, body = answer
        assert found == status, f"{found} instead of {status}: {body[:500]!r}"
        return body

    def send(self, request: bytes) -> None:
        """Begin a request; the one before was answered."""
        self._head.clear()
        self._body.clear()
        self._missing = -1
        self.socket.sendall(request)

    def received(self) -> tuple[int, bytes] | None:
        """Read once; return status and body when the answer is whole."""
        more = self.socket.recv(_CHUNK)
        assert more, "the connection was closed"
        if self._missing < 0:
            self._head += more
            end = self._head.find(b"\r\n\r\n")
            if end < 0:
                return None
            more = bytes(self._head[end + 4 :])
            del self._head[end:]
            self._missing = _length(bytes(self._head))
        self._body.append(more)
        self._missing -= len(more)
        if self._missing > 0:
            return None
        return int(self._head[9:12]), b"".join(self._body)


def _length(head: bytes) -> int:
    lower = head.lower()
    at = lower.find(b"\r\ncontent-length:")
    assert at >= 0, f"an answer without a length: {head!r}"
    return int(lower[at + 17 :].split(b"\r\n", 1)[0])


def one_by_one(connection: Connection, requests: Iterator[bytes], status: int = 200) -> list[float]:
    """Return how long each took, in milliseconds."""
    taken = []
    for request in requests:
        began = time.perf_counter()
        connection.ask(request, status)
        taken.append((time.perf_counter() - began) * 1e3)
    return taken


def at_once(
    url: str,
    clients: int,
    request: Callable[[], bytes | None],
    counts: Callable[[int, bytes], bool],
) -> float:
    """Have so many clients ask, each one request at a time, until there is no `request` any more;
    return how many answers that count came in a second.
    """
    connections = [Connection(url) for _ in range(clients)]
    try:
        return _drive(connections, request, counts)
    finally:
        for connection in connections:
            connection.close()


def _drive(
    connections: list[Connection],
    request: Callable[[], bytes | None],
    counts: Callable[[int, bytes], bool],
) -> float:
    selector = selectors.DefaultSelector()
    counted, waiting = 0, 0
    began = time.perf_counter()
    for connection in connections:
        first = request()
        if first is not None:
            connection.send(first)
            selector.register(connection.socket, selectors.EVENT_READ, connection)
            waiting += 1
    while waiting:
        for key, _ in selector.select(60):
            answer = key.data.received()
            if answer is None:
                continue
            counted += counts(*answer)
            following = request()
            if following is None:
                waiting -= 1
            else:
                key.data.send(following)
    took = time.perf_counter() - began
    selector.close()
    return counted / took
