"""How an HTTP client of ours reaches a server: the same trust and the same proxies as a link's.

What runs agents is handed this as Twisted's own `IAgentEndpointFactory` and knows nothing of links.
A connection through TLS is there only when the server's certificate has been judged: nothing that a
client writes can be sent before (see `endpoints.py` for why Twisted's own check is not enough).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import HostnameEndpoint, wrapClientTLS
from twisted.internet.interfaces import (
    IAddress,
    IHandshakeListener,
    IProtocolFactory,
    IStreamClientEndpoint,
    ITCPTransport,
)
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure
from twisted.web.client import URI
from twisted.web.iweb import IAgentEndpointFactory
from zope.interface import implementer

from garcon.errors import GarconError, StartupError
from garcon.link.endpoints import TlsConnections, Trust, judge_name
from garcon.link.proxy_route import Proxy, ProxyRoutes
from garcon.link.tunnel import ConnectEndpoint

_UNLIMITED: Any = None
"""An endpoint's own timeout (its type says float): whoever asks for the connection has one."""
_SECURE = {b"http": False, b"https": True}


class NotTrusted(GarconError):
    """The server is not the one that was asked for, as far as its certificate can tell."""

    def __init__(self, text: str) -> None:
        super().__init__("NOT_TRUSTED", text, status=502)


@implementer(IAgentEndpointFactory)
@define(eq=False)
class OutgoingEndpoints:
    """Where `http:` and `https:` URLs lead.  Has no deadline of its own."""

    _reactor: Any
    _trust: Trust
    _proxies: ProxyRoutes = field(factory=ProxyRoutes)
    _refusal: str | None = None

    @classmethod
    def from_environment(
        cls, reactor: Any, environment: Mapping[str, str], trust: Trust | None = None
    ) -> OutgoingEndpoints:
        """Read the variables that name certificate authorities and proxies.

        One that cannot be used keeps nothing from starting here: it fails each connection instead,
        with its own words.
        """
        try:
            if trust is None:
                trust = Trust.from_environment(
                    environment.get("SSL_CERT_FILE"), environment.get("SSL_CERT_DIR")
                )
            return cls(reactor, trust, ProxyRoutes.from_environment(environment))
        except StartupError as error:
            return cls(reactor, Trust(), refusal=error.text)

    def endpointForURI(self, uri: URI) -> IStreamClientEndpoint:
        """Return an endpoint.  Raises `GarconError` for a URL that leads nowhere.

        Its `connect` fails with `NotTrusted`, with `ProxyFailed`, or as Twisted's do.
        """
        if self._refusal is not None:
            raise GarconError("PROXY_FAILED", self._refusal, status=502)
        is_tls = _SECURE.get(uri.scheme)
        if is_tls is None:
            raise GarconError("VALIDATION_FAILED", "The address is neither http: nor https:.")
        host = uri.host.decode("ascii")
        proxy = self._proxies.to(host, uri.port, is_tls=is_tls)
        way: Any
        if proxy is None:
            way = HostnameEndpoint(self._reactor, host, uri.port, timeout=_UNLIMITED)
        else:
            way = self._through(proxy, host, uri.port)
        return cast(IStreamClientEndpoint, self._secured(way, host) if is_tls else way)

    def _through(self, proxy: Proxy, host: str, port: int) -> ConnectEndpoint:
        way: Any = HostnameEndpoint(self._reactor, proxy.host, proxy.port, timeout=_UNLIMITED)
        if proxy.is_tls:
            way = wrapClientTLS(TlsConnections(self._trust.verifying(), proxy.host), way)
        return ConnectEndpoint(
            way,
            host,
            port,
            proxy.authorization,
            is_tls=proxy.is_tls,
            judge=lambda transport: judge_name(transport.getHandle(), proxy.host),
        )

    def _secured(self, way: Any, host: str) -> _SecuredEndpoint:
        connections = TlsConnections(self._trust.verifying(), host)
        return _SecuredEndpoint(wrapClientTLS(connections, way), host, connections)


@implementer(IStreamClientEndpoint)
@define(eq=False)
class _SecuredEndpoint:
    """Connects when TLS stands and the server's name is right."""

    _way: Any
    host: str
    connections: TlsConnections

    def connect(self, factory: IProtocolFactory) -> Deferred[Any]:
        """Fire with the factory's protocol; cancelling drops the connection."""
        reaching: Deferred[Any] = self._way.connect(_Guards(self, factory))
        return reaching.addCallback(lambda guard: guard.standing)


@define(eq=False)
class _Guards(Factory):
    _endpoint: _SecuredEndpoint
    _factory: IProtocolFactory
    noisy = False

    def buildProtocol(self, address: IAddress | None) -> _Guard:
        return _Guard(self._endpoint, self._factory)


@implementer(IHandshakeListener)
class _Guard(Protocol):
    """Stands before the real protocol until the handshake is complete and the name judged."""

    def __init__(self, endpoint: _SecuredEndpoint, factory: IProtocolFactory) -> None:
        self._endpoint = endpoint
        self._factory = factory
        self._inner: Any = None
        self._is_over = False
        self.standing: Deferred[Any] = Deferred(lambda _: self._drop())

    def handshakeCompleted(self) -> None:
        """Let the real protocol have the connection, or nobody."""
        transport: Any = self.transport
        if self._is_over:
            return
        refused = judge_name(transport.getHandle(), self._endpoint.host)
        if refused is not None:
            self._drop()
            self.standing.errback(Failure(NotTrusted(refused)))
            return
        inner: Any = self._factory.buildProtocol(transport.getPeer())
        self._inner = inner
        inner.makeConnection(transport)
        self.standing.callback(inner)

    def dataReceived(self, data: bytes) -> None:
        """Pass on what the server says."""
        if self._inner is not None:
            self._inner.dataReceived(data)

    def _drop(self) -> None:
        self._is_over = True
        cast(ITCPTransport, self.transport).abortConnection()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Tell whoever has the connection, or waits for it."""
        if self._inner is not None:
            self._inner.connectionLost(reason)
        elif not self._is_over:
            self._is_over = True
            doubt = self._endpoint.connections.explain()
            self.standing.errback(reason if doubt is None else Failure(NotTrusted(doubt)))
