"""An HTTP proxy on loopback that knows CONNECT: the double of what stands between a company's
machines and the world.

Whatever host it is asked for, it leads to one loopback port.  It can want a password, refuse, hang,
close, answer nonsense, or open the TLS that passes through it with a certificate of its own.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any, cast

from twisted.internet.address import IPv4Address
from twisted.internet.interfaces import ITLSTransport
from twisted.internet.ssl import CertificateOptions

from garcon.testing.proxy import LOOPBACK, FaultProxy, _Inward, _Outward


class _Tunnelling(_Inward):
    """One client of the proxy: a request head, then whatever it wants to say to the target."""

    proxy: ConnectProxy

    def __init__(self, proxy: ConnectProxy) -> None:
        super().__init__(proxy)
        self._head: bytes | None = b""

    def connectionMade(self) -> None:
        """Wait for the request before anything is reached for."""
        self.proxy.connections.add(self)

    def dataReceived(self, data: bytes) -> None:
        if self._head is None:
            super().dataReceived(data)
            return
        self._head += data
        head, end, rest = self._head.partition(b"\r\n\r\n")
        if end:
            self._head = None
            self.proxy.heads.append(head)
            self._answer(head)
            if rest:
                super().dataReceived(rest)

    def _answer(self, head: bytes) -> None:
        proxy = self.proxy
        if proxy.is_hanging:
            return
        wanted = proxy.wanted
        if wanted is not None and b"Proxy-Authorization: " + wanted not in head.split(b"\r\n"):
            self._end(
                b"HTTP/1.1 407 Proxy Authentication Required\r\n"
                b'Proxy-Authenticate: Basic realm="proxy"\r\n'
            )
        elif not head.startswith(b"CONNECT "):
            self._end(b"HTTP/1.1 405 Method Not Allowed\r\n")
        elif proxy.instead is not None:
            self._end(proxy.instead)
        else:
            super().connectionMade()

    def _end(self, answer: bytes) -> None:
        assert self.transport is not None
        if answer:
            self.transport.write(answer + b"Content-Length: 0\r\n\r\n")
        self.transport.loseConnection()

    def outward_made(self, outward: _Outward) -> None:
        """The target is there: say so, and from here on carry bytes."""
        assert self.transport is not None
        if not self.is_lost:
            self.transport.write(self.proxy.greeting)
            if self.proxy.intercept is not None:
                cast(ITLSTransport, self.transport).startTLS(self.proxy.intercept)
        super().outward_made(outward)


class ConnectProxy(FaultProxy):
    """Serves CONNECT.  `heads` are the requests it got, passwords included; `accepted` counts those
    that it grants.

    `instead` is answered in place of a connection, `is_hanging` answers nothing; `tls` makes the
    proxy itself speak TLS, `intercept` opens the tunnelled one.
    """

    def __init__(
        self,
        reactor: Any,
        target: int,
        *,
        user: str | None = None,
        password: str = "",
        tls: CertificateOptions | None = None,
        intercept: CertificateOptions | None = None,
    ) -> None:
        super().__init__(reactor, target)
        self.wanted = None
        if user is not None:
            self.wanted = b"Basic " + b64encode(f"{user}:{password}".encode())
        self.intercept = intercept
        self.heads: list[bytes] = []
        self.is_hanging = False
        self.instead: bytes | None = None
        self.greeting = b"HTTP/1.1 200 Connection established\r\n\r\n"
        self._tls = tls

    def start(self, port: int = 0) -> int:
        """Listen and return the port."""
        if self._tls is None:
            return super().start(port)
        self._listening = self.reactor.listenSSL(port, self, self._tls, interface=LOOPBACK)
        assert self._listening is not None
        return cast(IPv4Address, self._listening.getHost()).port

    def _inward(self) -> _Inward:
        return _Tunnelling(self)
