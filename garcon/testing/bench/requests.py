"""The smallest HTTP client that can be timed: one blocking socket, no library between."""

from __future__ import annotations

import socket
import time
from urllib.parse import urlsplit

from attrs import field, frozen


@frozen
class Target:
    """Where one way to the controller begins, and what every request to it carries."""

    name: str
    url: str
    headers: dict[str, str] = field(factory=dict)

    def get(self, path: str) -> bytes:
        """Make one request on a connection of its own; return the body of a 200."""
        parts = urlsplit(self.url)
        assert parts.hostname is not None and parts.port is not None
        request = request_of(self, path)
        with socket.create_connection((parts.hostname, parts.port), timeout=60) as sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.sendall(request)
            return _reply(sock, self.name)


def request_of(target: Target, path: str) -> bytes:
    """Return a GET that ends its connection."""
    host = urlsplit(target.url).netloc
    lines = [f"GET {path} HTTP/1.1", f"Host: {host}", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in target.headers.items()]
    return "\r\n".join([*lines, "", ""]).encode()


def _reply(sock: socket.socket, name: str) -> bytes:
    data = bytearray()
    while (end := data.find(b"\r\n\r\n")) < 0:
        more = sock.recv(262_144)
        assert more, f"{name}: no answer"
        data += more
    head = bytes(data[:end]).lower()
    assert head.split(b" ", 2)[1] == b"200", f"{name}: {bytes(data[:2000])!r}"
    body = data[end + 4 :]
    at = head.find(b"\r\ncontent-length:")
    if at >= 0:
        size = int(head[at + 17 :].split(b"\r\n", 1)[0])
        while len(body) < size:
            more = sock.recv(262_144)
            assert more, f"{name}: cut short"
            body += more
        return bytes(body)
    while more := sock.recv(262_144):
        body += more
    return bytes(body)


def times(target: Target, path: str, count: int) -> list[float]:
    """Return how long each of `count` requests took, in milliseconds."""
    taken = []
    for _ in range(count):
        began = time.perf_counter()
        target.get(path)
        taken.append((time.perf_counter() - began) * 1e3)
    return taken


def throughput(target: Target, path: str, count: int) -> float:
    """Return how many MiB of body a second `count` requests brought."""
    began, size = time.perf_counter(), 0
    for _ in range(count):
        size += len(target.get(path))
    return size / 2**20 / (time.perf_counter() - began)
