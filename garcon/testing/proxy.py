"""Proxies on loopback: one that makes faults, and one that ends TLS and rewrites a path prefix.

``python -m garcon.testing.proxy --tls-cert FILE --tls-private-key FILE --target PORT --prefix
/garcon`` runs the second in the foreground, as an example of what a real one has to do.
"""

from __future__ import annotations

import argparse
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, cast

from OpenSSL import crypto
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.endpoints import TCP4ClientEndpoint
from twisted.internet.interfaces import IAddress, IDelayedCall, IListeningPort, ITCPTransport
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.internet.ssl import CertificateOptions
from twisted.python.failure import Failure

from garcon.testing.faults.strikes import Direction, Pass, Strike, directions

LOOPBACK = "127.0.0.1"
_LONGEST_HEAD = 16 * 1024
_MOST_WAITING = 256 * 1024
_TICK = 0.01
"""How often a throttled direction passes something on."""


class _Outward(Protocol):
    """The proxy's side towards the target."""

    def __init__(self, inward: _Inward) -> None:
        self.inward = inward

    def connectionMade(self) -> None:
        self.inward.outward_made(self)

    def dataReceived(self, data: bytes) -> None:
        self.inward.back(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.inward.outward_lost()


class _Line:
    """One direction of a connection: what waits in it, and how fast it goes on."""

    def __init__(self, inward: _Inward, direction: Direction) -> None:
        self._inward = inward
        self._direction = direction
        self._queue: deque[Pass | Strike | None] = deque()
        self._bytes = 0
        self._rate: float | None = None
        self._timer: IDelayedCall | None = None
        self._source: Any = None
        self._sink: ITCPTransport | None = None
        self._is_shut = False
        self._is_held = False

    def reads_from(self, transport: Any) -> None:
        """Slow this transport down when more comes than may go on."""
        self._source = transport

    def writes_to(self, transport: Any) -> None:
        """Send what waits there."""
        self._sink = transport
        self._run()

    def feed(self, data: bytes) -> None:
        """Take bytes that came."""
        if self._is_shut:
            return
        self._queue.extend(self._direction.take(data))
        self._bytes += len(data)
        self._run()
        if self._bytes > _MOST_WAITING and self._source is not None:
            self._source.pauseProducing()

    def end(self) -> None:
        """Nothing more comes: end the other side once it has what waits."""
        self._queue.append(None)
        self._run()

    def strike_after(self, strike: Strike) -> None:
        """Let a fault happen once so many more bytes have come."""
        self._direction.add(strike)

    def hold(self, is_held: bool) -> None:
        """Let what comes wait, or go on."""
        self._is_held = is_held
        self._run()

    def stop(self) -> None:
        """Pass nothing more on."""
        self._is_shut = True
        self._queue.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _run(self) -> None:
        while self._queue and self._timer is None and self._sink is not None and not self._is_held:
            todo = self._queue.popleft()
            if todo is None:
                self._sink.loseConnection()
            elif isinstance(todo, Pass):
                self._pass(todo.data)
            else:
                self._strike(todo)

    def _pass(self, data: bytes) -> None:
        assert self._sink is not None
        if self._rate is not None:
            most = max(1, int(self._rate * _TICK))
            if data[most:]:
                self._queue.appendleft(Pass(data[most:]))
            data = data[:most]
            self._wait(_TICK)
        self._bytes -= len(data)
        self._sink.write(data)
        if self._bytes <= _MOST_WAITING and self._source is not None:
            self._source.resumeProducing()

    def _strike(self, strike: Strike) -> None:
        assert self._sink is not None
        self._inward.proxy.struck.append(strike)
        match strike.kind:
            case "cut":
                self._inward.abort()
            case "half-close":
                self.stop()
                self._sink.loseWriteConnection()
            case "black-hole":
                self._inward.swallow()
            case "delay":
                self._wait(strike.amount)
            case "throttle":
                self._rate = strike.amount
            case "duplicate":
                self._inward.duplicate()

    def _wait(self, seconds: float) -> None:
        def over() -> None:
            self._timer = None
            self._run()

        self._timer = self._inward.proxy.reactor.callLater(seconds, over)


class _Copy(Protocol):
    """Says to the target what another connection has said to it, and hears nothing."""

    def __init__(self, original: _Inward, said: bytes) -> None:
        self._original = original
        self._said = said

    def connectionMade(self) -> None:
        if self._original.is_lost:
            # The other connection ended while this one was being made.
            self.abort()
        else:
            assert self.transport is not None
            self.transport.write(self._said)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._original.proxy.copies.discard(self)

    def abort(self) -> None:
        """Break it, if it has been made."""
        if self.transport is not None:
            cast(ITCPTransport, self.transport).abortConnection()


class _Inward(Protocol):
    """The proxy's side towards whoever connected."""

    def __init__(self, proxy: FaultProxy) -> None:
        self.proxy = proxy
        self.outward: _Outward | None = None
        self._said = bytearray()
        self._copies: list[_Copy] = []
        self.is_lost = False
        self._is_swallowed = proxy.is_deaf
        self.number = proxy.accepted
        inwards, outwards = directions(proxy.strikes(self.number))
        self._in, self._out = _Line(self, inwards), _Line(self, outwards)

    @property
    def _is_silent(self) -> bool:
        return self.proxy.is_black_hole or self._is_swallowed

    def connectionMade(self) -> None:
        self.proxy.connections.add(self)
        self.proxy.accepted += 1
        self._in.reads_from(self.transport)
        self._out.writes_to(self.transport)
        target = TCP4ClientEndpoint(self.proxy.reactor, LOOPBACK, self.proxy.target, timeout=5)
        target.connect(Factory.forProtocol(lambda: _Outward(self))).addErrback(
            lambda _: self.lose()
        )

    def outward_made(self, outward: _Outward) -> None:
        if self.is_lost:
            cast(ITCPTransport, outward.transport).abortConnection()
            return
        self.outward = outward
        self._out.reads_from(outward.transport)
        self._in.writes_to(outward.transport)

    def dataReceived(self, data: bytes) -> None:
        if self._is_silent:
            return
        self.proxy.seen += data
        self._said += data
        self.forward(data)

    def forward(self, data: bytes) -> None:
        """Pass on what came from outside."""
        self._in.feed(data)

    def back(self, data: bytes) -> None:
        """Pass on what the target said."""
        if not self._is_silent:
            self._out.feed(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.is_lost = True
        self._out.stop()
        for copy in self._copies:
            copy.abort()
        if self.outward is None:
            self.proxy.connections.discard(self)
        elif not self._is_silent:
            self._in.end()

    def outward_lost(self) -> None:
        """The target's side is gone, so this one goes too, unless nothing may pass."""
        self.outward = None
        self._in.stop()
        if self.is_lost:
            self.proxy.connections.discard(self)
        elif not self._is_silent:
            self._out.end()

    def lose(self) -> None:
        """End this side, unless nothing may pass."""
        if self.transport is not None and not self._is_silent:
            self.transport.loseConnection()

    def line(self, side: int) -> _Line:
        """Return the direction towards the dialling side (even), or towards the target (odd)."""
        return self._in if side % 2 else self._out

    def half_open(self, side: int) -> None:
        """Break one side, the dialling one if even; the other never hears of it."""
        self.swallow()
        end = self if side % 2 == 0 else self.outward
        if end is not None and end.transport is not None:
            cast(ITCPTransport, end.transport).abortConnection()

    def swallow(self) -> None:
        """From now on nothing passes on this connection, and nobody is told."""
        self._is_swallowed = True
        self._in.stop()
        self._out.stop()

    def duplicate(self) -> None:
        """Say all that was said to the target so far once more, on a connection beside this."""
        copy = _Copy(self, bytes(self._said))
        self._copies.append(copy)
        self.proxy.copies.add(copy)
        target = TCP4ClientEndpoint(self.proxy.reactor, LOOPBACK, self.proxy.target, timeout=5)
        target.connect(Factory.forProtocol(lambda: copy)).addErrback(
            lambda _: self.proxy.copies.discard(copy)
        )

    def abort(self) -> None:
        """Break both sides."""
        self._in.stop()
        self._out.stop()
        if self.transport is not None:
            cast(ITCPTransport, self.transport).abortConnection()
        if self.outward is not None and self.outward.transport is not None:
            cast(ITCPTransport, self.outward.transport).abortConnection()


class FaultProxy(Factory):
    """Forwards TCP connections to one loopback port, until told otherwise.

    `seen` is all that came from the connecting side, `accepted` how many connections did.
    `strikes` says what is to happen to each connection by its number, from 0; `struck` is what did.
    """

    noisy = False

    def __init__(
        self,
        reactor: Any,
        target: int,
        strikes: Callable[[int], Sequence[Strike]] = lambda number: (),
    ) -> None:
        self.reactor = reactor
        self.target = target
        self.strikes = strikes
        self.struck: list[Strike] = []
        self.connections: set[_Inward] = set()
        self.copies: set[_Copy] = set()
        """Duplicates that are being made or are there."""
        self.accepted = 0
        self.seen = bytearray()
        self.is_black_hole = False
        self.is_refusing = False
        self.is_deaf = False
        """New connections are taken, and nothing passes on them."""
        self._listening: IListeningPort | None = None

    def start(self, port: int = 0) -> int:
        """Listen and return the port."""
        self._listening = self.reactor.listenTCP(port, self, interface=LOOPBACK)
        assert self._listening is not None
        return cast(IPv4Address, self._listening.getHost()).port

    def stop(self) -> Deferred[Any]:
        """Break everything and listen no more."""
        self.cut()
        listening, self._listening = self._listening, None
        assert listening is not None
        return maybeDeferred(listening.stopListening)

    def buildProtocol(self, address: IAddress | None) -> Protocol | None:
        """Take a connection, or close it at once while refusing."""
        return None if self.is_refusing else self._inward()

    def _inward(self) -> _Inward:
        return _Inward(self)

    def open(self) -> list[_Inward]:
        """Return the connections there are, oldest first."""
        return sorted(self.connections, key=lambda connection: connection.number)

    def heal(self) -> None:
        """Take new connections as ever, and let go on what waits; what is lost stays lost."""
        self.is_refusing = self.is_deaf = False
        for connection in list(self.connections):
            for side in (0, 1):
                connection.line(side).hold(False)

    def cut(self) -> None:
        """Break every connection there is."""
        for connection in list(self.connections):
            connection.abort()

    def black_hole(self) -> None:
        """From now on nothing passes in either direction, and nobody is told."""
        self.is_black_hole = True

    def refuse(self, is_refusing: bool = True) -> None:
        """Close new connections at once, or take them again."""
        self.is_refusing = is_refusing


class _Rewriting(_Inward):
    """Rewrites the path of a connection's first request; what follows passes unchanged."""

    proxy: PathProxy

    def __init__(self, proxy: PathProxy) -> None:
        super().__init__(proxy)
        self._head: bytes | None = b""

    def dataReceived(self, data: bytes) -> None:
        if self._head is None:
            super().dataReceived(data)
            return
        self._head += data
        if b"\r\n\r\n" not in self._head:
            if len(self._head) > _LONGEST_HEAD:
                self.abort()
            return
        head, self._head = self._head, None
        method, _, rest = head.partition(b" ")
        if not rest.startswith(self.proxy.prefix + b"/"):
            assert self.transport is not None
            self.transport.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
            self.transport.loseConnection()
            return
        super().dataReceived(method + b" " + rest[len(self.proxy.prefix) :])


class PathProxy(FaultProxy):
    """Ends TLS, takes `prefix` off the path of each connection's request, and forwards it.

    It serves one request on each connection, which is all that a WebSocket needs.
    """

    def __init__(self, reactor: Any, target: int, prefix: str, tls: CertificateOptions) -> None:
        super().__init__(reactor, target)
        self.prefix = prefix.rstrip("/").encode("ascii")
        self._tls = tls

    def start(self, port: int = 0) -> int:
        """Listen and return the port."""
        self._listening = self.reactor.listenSSL(port, self, self._tls, interface=LOOPBACK)
        assert self._listening is not None
        return cast(IPv4Address, self._listening.getHost()).port

    def _inward(self) -> _Inward:
        return _Rewriting(self)


def load_pair(certificate: str, key: str) -> CertificateOptions:
    """Return TLS options from two PEM files."""
    with open(certificate, "rb") as one, open(key, "rb") as other:
        return CertificateOptions(
            privateKey=crypto.load_privatekey(crypto.FILETYPE_PEM, other.read()),
            certificate=crypto.load_certificate(crypto.FILETYPE_PEM, one.read()),
        )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a TLS-ending proxy until interrupted."""
    parser = argparse.ArgumentParser(prog="garcon.testing.proxy", description=__doc__)
    parser.add_argument("--listen", type=int, default=0, metavar="PORT")
    parser.add_argument("--target", type=int, required=True, metavar="PORT")
    parser.add_argument("--prefix", default="", help="path prefix to take off")
    parser.add_argument("--tls-cert", required=True, metavar="FILE")
    parser.add_argument("--tls-private-key", required=True, metavar="FILE")
    options = parser.parse_args(arguments)
    from twisted.internet import reactor

    tls = load_pair(options.tls_cert, options.tls_private_key)
    port = PathProxy(reactor, options.target, options.prefix, tls).start(options.listen)
    print(f"Listening at https://{LOOPBACK}:{port}{options.prefix}", flush=True)
    reactor.run()


if __name__ == "__main__":
    main()
