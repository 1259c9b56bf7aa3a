"""The peer of the link bench: a plain Autobahn WebSocket with an echo, both ends.

Messages begin with a letter: E is echoed, T taken and answered by one byte, G asks for so many
bytes, B for so many bytes and, right behind them, 128 with the time in them.
"""

from __future__ import annotations

import struct
import time
from typing import Any

from autobahn.twisted.websocket import (
    WebSocketClientFactory,
    WebSocketClientProtocol,
    WebSocketServerFactory,
    WebSocketServerProtocol,
)
from twisted.internet.defer import Deferred

from garcon.deferreds import returns_deferred
from garcon.testing.bench.driving import Socket

_OPTIONS = {"tcpNoDelay": True, "openHandshakeTimeout": 10}


def _of(order: bytes) -> bytes:
    """Return as many bytes as were asked for.  Zeros would be no fair peer: they take no memory."""
    size: int = struct.unpack(">I", order[1:5])[0]
    return b"D" + b"x" * (size - 1)


class _Echo(WebSocketServerProtocol):
    def onMessage(self, payload: bytes, isBinary: bool) -> None:
        order = payload[:1]
        if order == b"E":
            self.sendMessage(payload, True)
        elif order == b"T":
            self.sendMessage(b"A", True)
        elif order == b"G":
            self.sendMessage(_of(payload), True)
        elif order == b"B":
            self.sendMessage(_of(payload), True)
            self.sendMessage((b"P" + struct.pack(">d", time.perf_counter())).ljust(128), True)


def listen(reactor: Any, port: int) -> None:
    """Serve one after the other, or many."""
    factory = WebSocketServerFactory()
    factory.protocol = _Echo
    factory.setProtocolOptions(**_OPTIONS)
    reactor.listenTCP(port, factory, interface="127.0.0.1")


class PlainSocket(Socket):
    """The dialling end."""

    def __init__(self) -> None:
        self._protocol: Any = None
        self._waiting: list[Deferred[None]] = []
        self._behind: Deferred[float] = Deferred()
        self._messages: dict[tuple[bytes, int], bytes] = {}

    def connect(self, reactor: Any, port: int) -> Deferred[None]:
        """Fires when messages can be sent."""
        opened: Deferred[None] = Deferred()
        ours = self

        class Asking(WebSocketClientProtocol):
            def onOpen(self) -> None:
                ours._protocol = self
                opened.callback(None)

            def onMessage(self, payload: bytes, isBinary: bool) -> None:
                ours._received(payload)

        factory = WebSocketClientFactory(f"ws://127.0.0.1:{port}")
        factory.protocol = Asking
        factory.setProtocolOptions(**_OPTIONS)
        reactor.connectTCP("127.0.0.1", port, factory, timeout=10)
        return opened

    def _received(self, payload: bytes) -> None:
        if payload[:1] == b"P":
            behind, self._behind = self._behind, Deferred()
            behind.callback(time.perf_counter() - struct.unpack(">d", payload[1:9])[0])
        else:
            self._waiting.pop(0).callback(None)

    def _ask(self, message: bytes) -> Deferred[None]:
        d: Deferred[None] = Deferred()
        self._waiting.append(d)
        self._protocol.sendMessage(message, True)
        return d

    def _message(self, order: bytes, size: int) -> bytes:
        message = self._messages.get((order, size))
        if message is None:
            message = self._messages[order, size] = order + b"x" * (size - 1)
        return message

    def echo(self, size: int) -> Deferred[Any]:
        """See `Socket`."""
        return self._ask(self._message(b"E", size))

    def give(self, size: int) -> Deferred[Any]:
        """See `Socket`."""
        return self._ask(self._message(b"T", size))

    def take(self, size: int) -> Deferred[Any]:
        """See `Socket`."""
        return self._ask(b"G" + struct.pack(">I", size))

    @returns_deferred
    async def wait_behind(self, size: int) -> float:
        """See `Socket`."""
        behind = self._behind
        done = self._ask(b"B" + struct.pack(">I", size))
        waited = await behind
        await done
        return waited
