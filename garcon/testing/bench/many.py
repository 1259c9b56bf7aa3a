"""Many clients at once, each with one request at a time on a connection of its own."""

from __future__ import annotations

import selectors
import socket
import time
from urllib.parse import urlsplit

from attrs import define

from garcon.testing.bench.requests import Target, request_of

WAIT = 20.0


@define(eq=False)
class _Client:
    """One connection and what has come of its answer."""

    sock: socket.socket
    data: bytearray
    size: int | None = None

    def is_answered(self, name: str) -> bool:
        """Whether the whole answer is there; fails for any other status than 200."""
        more = self.sock.recv(262_144)
        assert more, f"{name}: no answer"
        self.data += more
        if self.size is None:
            end = self.data.find(b"\r\n\r\n")
            if end < 0:
                return False
            head = bytes(self.data[:end]).lower()
            assert head.split(b" ", 2)[1] == b"200", f"{name}: {bytes(self.data[:2000])!r}"
            at = head.index(b"\r\ncontent-length:")
            length = head[at + 17 :].split(b"\r\n", 1)[0]
            self.size = end + 4 + int(length)
        return len(self.data) >= self.size


def rate(target: Target, path: str, clients: int, seconds: float) -> float:
    """Return how many requests a second `clients` get answered, one connection for each request.

    Whoever still waits at the end is waited for: who comes next finds nobody's place taken.
    """
    parts = urlsplit(target.url)
    assert parts.hostname is not None and parts.port is not None
    address, request = (parts.hostname, parts.port), request_of(target, path)
    done = waiting = 0
    with selectors.DefaultSelector() as selector:

        def begin() -> None:
            sock = socket.create_connection(address, timeout=WAIT)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.sendall(request)
            selector.register(sock, selectors.EVENT_READ, _Client(sock, bytearray()))

        for _ in range(clients):
            begin()
        waiting = clients
        began = now = time.perf_counter()
        while waiting:
            ready = selector.select(WAIT)
            assert ready, f"{target.name}: nobody is answered"
            for key, _ in ready:
                client: _Client = key.data
                if not client.is_answered(target.name):
                    continue
                done += 1
                waiting -= 1
                selector.unregister(client.sock)
                client.sock.close()
                if now - began < seconds:
                    begin()
                    waiting += 1
            now = time.perf_counter()
    return done / (now - began)
