"""A connection through an HTTP proxy: one CONNECT, then the bytes are the other end's.

An endpoint, because Twisted has none for this.  Its factory's protocol is made when the proxy has
agreed; nothing of it is sent before.
"""

from __future__ import annotations

from typing import Any, cast

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import (
    IAddress,
    IHandshakeListener,
    IProtocolFactory,
    IStreamClientEndpoint,
    ITCPTransport,
)
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from garcon.errors import GarconError

_LONGEST_ANSWER = 16 * 1024
"""No proxy's answer has more than this before its end."""


class ProxyFailed(GarconError):
    """There is no way through the proxy; `text` names neither it nor what it was asked for."""

    def __init__(self, text: str) -> None:
        super().__init__("PROXY_FAILED", text)


def request(host: str, port: int, authorization: bytes | None) -> bytes:
    """Return the one request a proxy gets (RFC 9110, 9.3.6)."""
    authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    lines = [f"CONNECT {authority} HTTP/1.1".encode("ascii"), b"Host: " + authority.encode("ascii")]
    if authorization is not None:
        lines.append(b"Proxy-Authorization: " + authorization)
    return b"\r\n".join([*lines, b"", b""])


def answered(head: bytes, authorized: bool) -> None:
    """Judge an answer's head: return when the tunnel stands, or raise `ProxyFailed`."""
    words = head.split(b"\r\n", 1)[0].split(b" ", 2)
    known = words[0] in (b"HTTP/1.1", b"HTTP/1.0") and len(words) > 1
    if not known or len(words[1]) != 3 or not words[1].isdigit():
        raise ProxyFailed("the proxy's answer is no HTTP")
    status = int(words[1])
    if 200 <= status <= 299:
        return
    if status == 407:
        raise ProxyFailed(
            "the proxy refused the user name or password it was given (HTTP status 407)"
            if authorized
            else "the proxy wants a user name and password (HTTP status 407)"
        )
    raise ProxyFailed(f"the proxy refused to connect (HTTP status {status})")


@implementer(IHandshakeListener)
class _Tunnel(Protocol):
    """The connection to the proxy, which becomes the one behind it."""

    def __init__(self, endpoint: ConnectEndpoint, factory: IProtocolFactory) -> None:
        self._endpoint = endpoint
        self._factory = factory
        self._head = b""
        self._inner: Any = None
        self._is_over = False
        self.standing: Deferred[Any] = Deferred(lambda _: self._drop())

    def connectionMade(self) -> None:
        """Ask; of a TLS proxy only when it is known to be the right one."""
        if not self._endpoint.is_tls:
            self._ask()

    def handshakeCompleted(self) -> None:
        """Judge the proxy's certificate before it is shown a password."""
        refused = self._endpoint.judge(self.transport)
        if refused is None:
            self._ask()
        else:
            self._fail(ProxyFailed(f"the proxy is not trusted: {refused}"))

    def _ask(self) -> None:
        assert self.transport is not None
        self.transport.write(self._endpoint.request)

    def dataReceived(self, data: bytes) -> None:
        """Read the answer, then pass everything on."""
        if self._inner is not None:
            self._inner.dataReceived(data)
            return
        if self._is_over:
            return
        self._head += data
        head, end, rest = self._head.partition(b"\r\n\r\n")
        if not end:
            if len(self._head) > _LONGEST_ANSWER:
                self._fail(ProxyFailed("the proxy's answer does not end"))
            return
        self._head = b""
        if head.startswith((b"HTTP/1.1 1", b"HTTP/1.0 1")):
            self.dataReceived(rest)  # an interim answer; the real one follows
            return
        try:
            answered(head, self._endpoint.is_authorized)
        except ProxyFailed as error:
            self._fail(error)
            return
        self._stand(rest)

    def _stand(self, rest: bytes) -> None:
        assert self.transport is not None
        inner = self._factory.buildProtocol(self.transport.getPeer())
        if inner is None:
            self._fail(ProxyFailed("the connection through the proxy is not wanted any more"))
            return
        self._inner = inner
        inner.makeConnection(self.transport)
        self.standing.callback(inner)
        if rest:
            inner.dataReceived(rest)

    def _fail(self, error: Exception) -> None:
        if not self._is_over:
            self._drop()
            self.standing.errback(Failure(error))

    def _drop(self) -> None:
        self._is_over = True
        if self.transport is not None:
            cast(ITCPTransport, self.transport).abortConnection()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Tell whoever has the connection, or waits for it."""
        if self._inner is not None:
            self._inner.connectionLost(reason)
        elif not self._is_over:
            self._is_over = True
            if self._endpoint.is_tls and not reason.check(ConnectionDone):
                error = ProxyFailed("the encrypted connection to the proxy failed")
            else:
                error = ProxyFailed("the proxy closed the connection without an answer")
            self.standing.errback(Failure(error))


class _Tunnels(Factory):
    noisy = False

    def __init__(self, endpoint: ConnectEndpoint, factory: IProtocolFactory) -> None:
        self._endpoint = endpoint
        self._factory = factory

    def buildProtocol(self, address: IAddress | None) -> _Tunnel:
        return _Tunnel(self._endpoint, self._factory)


@implementer(IStreamClientEndpoint)
class ConnectEndpoint:
    """Connects to `host` and `port` through the proxy that `way` leads to.

    `judge` gets the transport of a TLS proxy and says why its certificate is refused, or None.
    Where the proxy does not lead on, `connect` fails with `ProxyFailed`.
    """

    def __init__(
        self,
        way: IStreamClientEndpoint,
        host: str,
        port: int,
        authorization: bytes | None,
        *,
        is_tls: bool = False,
        judge: Any = lambda transport: None,
    ) -> None:
        self._way = way
        self.request = request(host, port, authorization)
        self.is_authorized = authorization is not None
        self.is_tls = is_tls
        self.judge = judge

    def connect(self, factory: IProtocolFactory) -> Deferred[Any]:
        """Connect, ask, and fire with the factory's protocol; cancelling drops the connection."""
        reaching = self._way.connect(_Tunnels(self, factory))
        return reaching.addCallbacks(lambda tunnel: tunnel.standing, _unreachable)


def _unreachable(failure: Failure) -> Failure:
    if failure.check(CancelledError):
        return failure
    name = type(failure.value).__name__
    return Failure(ProxyFailed(f"the proxy could not be reached ({name})"))
