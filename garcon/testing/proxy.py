"""Proxies on loopback: one that makes faults, and one that ends TLS and rewrites a path prefix.

``python -m garcon.testing.proxy --tls-cert FILE --tls-private-key FILE --target PORT --prefix
/garcon`` runs the second in the foreground, as an example of what a real one has to do.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, cast

from OpenSSL import crypto
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.endpoints import TCP4ClientEndpoint
from twisted.internet.interfaces import IAddress, IListeningPort, ITCPTransport
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.internet.ssl import CertificateOptions
from twisted.python.failure import Failure

LOOPBACK = "127.0.0.1"
_LONGEST_HEAD = 16 * 1024


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


class _Inward(Protocol):
    """The proxy's side towards whoever connected."""

    def __init__(self, proxy: FaultProxy) -> None:
        self.proxy = proxy
        self.outward: _Outward | None = None
        self._waiting: list[bytes] = []
        self._is_lost = False

    def connectionMade(self) -> None:
        self.proxy.connections.add(self)
        self.proxy.accepted += 1
        target = TCP4ClientEndpoint(self.proxy.reactor, LOOPBACK, self.proxy.target, timeout=5)
        target.connect(Factory.forProtocol(lambda: _Outward(self))).addErrback(
            lambda _: self.lose()
        )

    def outward_made(self, outward: _Outward) -> None:
        if self._is_lost:
            cast(ITCPTransport, outward.transport).abortConnection()
            return
        self.outward = outward
        waiting, self._waiting = self._waiting, []
        for data in waiting:
            self.forward(data)

    def dataReceived(self, data: bytes) -> None:
        if self.proxy.is_black_hole:
            return
        self.proxy.seen += data
        self.forward(data)

    def forward(self, data: bytes) -> None:
        """Pass on what came from outside."""
        if self.outward is None:
            self._waiting.append(data)
        else:
            assert self.outward.transport is not None
            self.outward.transport.write(data)

    def back(self, data: bytes) -> None:
        """Pass on what the target said."""
        if not self.proxy.is_black_hole and self.transport is not None:
            self.transport.write(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._is_lost = True
        if self.outward is None:
            self.proxy.connections.discard(self)
        elif not self.proxy.is_black_hole:
            assert self.outward.transport is not None
            self.outward.transport.loseConnection()

    def outward_lost(self) -> None:
        """The target's side is gone, so this one goes too, unless nothing may pass."""
        self.outward = None
        if self._is_lost:
            self.proxy.connections.discard(self)
        else:
            self.lose()

    def lose(self) -> None:
        """End this side, unless nothing may pass."""
        if self.transport is not None and not self.proxy.is_black_hole:
            self.transport.loseConnection()

    def abort(self) -> None:
        """Break both sides."""
        if self.transport is not None:
            cast(ITCPTransport, self.transport).abortConnection()
        if self.outward is not None and self.outward.transport is not None:
            cast(ITCPTransport, self.outward.transport).abortConnection()


class FaultProxy(Factory):
    """Forwards TCP connections to one loopback port, until told otherwise.

    `seen` is all that came from the connecting side, `accepted` how many connections did.
    """

    noisy = False

    def __init__(self, reactor: Any, target: int) -> None:
        self.reactor = reactor
        self.target = target
        self.connections: set[_Inward] = set()
        self.accepted = 0
        self.seen = bytearray()
        self.is_black_hole = False
        self.is_refusing = False
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
