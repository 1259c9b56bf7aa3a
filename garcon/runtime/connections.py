"""Connections to providers as one client owns them: known of, dropped instead of ended, bounded in
what they bring, and made within a deadline.

They know nothing of HTTP; their owners speak it (`agents/direct_http.py`, `discovery.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from attrs import field, frozen
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import (
    IProtocol,
    IProtocolFactory,
    IReactorTime,
    IStreamClientEndpoint,
    ITransport,
)
from twisted.internet.protocol import connectionDone
from twisted.protocols.policies import ProtocolWrapper, WrappingFactory
from twisted.python.failure import Failure
from twisted.web.client import URI
from twisted.web.iweb import IAgentEndpointFactory
from zope.interface import implementer

T = TypeVar("T")


class Owner(Protocol):
    """Who has the connections."""

    def connected(self, connection: Connection) -> None:
        """There is a new connection."""

    def disconnected(self, connection: Connection) -> None:
        """One is gone."""

    def lets_in(self, size: int) -> bool:
        """Whether a connection may pass on what came; it is dropped otherwise."""


async def within(d: Deferred[T], clock: IReactorTime, seconds: float, error: Exception) -> T:
    """Wait for `d`; when it takes longer, cancel it and raise `error`.

    Unlike with `addTimeout` it does not matter how `d` fails when it is cancelled.
    """
    late = False

    def expire() -> None:
        nonlocal late
        late = True
        d.cancel()

    timer = clock.callLater(seconds, expire)
    try:
        return await d
    except Exception:
        if late:
            raise error from None
        raise
    finally:
        if timer.active():
            timer.cancel()


class Connection(ProtocolWrapper):
    """One connection, as its client wants it: dropped, not ended; and known of."""

    def __init__(self, factory: Any, inner: IProtocol) -> None:
        super().__init__(factory, inner)
        self._client: Owner = factory.client

    def makeConnection(self, transport: ITransport) -> None:
        """Be known of."""
        self._client.connected(self)
        super().makeConnection(transport)

    def dataReceived(self, data: bytes) -> None:
        """Pass on what the client lets in."""
        if self._client.lets_in(len(data)):
            super().dataReceived(data)
        else:
            self.loseConnection()

    def loseConnection(self) -> None:
        """Drop it: whoever ends a connection here has all that it wanted, or wants no more."""
        self.disconnecting = True
        self.abortConnection()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Be forgotten."""
        super().connectionLost(reason)
        self._client.disconnected(self)


class _Connections(WrappingFactory):
    protocol = Connection
    noisy = False

    def __init__(self, client: Owner, inner: IProtocolFactory) -> None:
        super().__init__(inner)
        self.client = client


@implementer(IAgentEndpointFactory)
@frozen
class OwnedEndpoints:
    """The endpoints that this client was given, with its own connections and deadline: one that is
    not made within `seconds` fails with what `late` makes.
    """

    client: Owner = field(repr=False)
    _inner: IAgentEndpointFactory = field(repr=False)
    clock: IReactorTime
    seconds: float
    late: Callable[[], Exception]

    def endpointForURI(self, uri: URI) -> IStreamClientEndpoint:
        """See `IAgentEndpointFactory`."""
        return _Endpoint(self, self._inner.endpointForURI(uri))


@implementer(IStreamClientEndpoint)
@frozen
class _Endpoint:
    _of: OwnedEndpoints
    _inner: IStreamClientEndpoint

    def connect(self, factory: IProtocolFactory) -> Deferred[Any]:
        """Fire with the factory's own protocol."""
        return Deferred.fromCoroutine(self._connect(factory))

    async def _connect(self, factory: IProtocolFactory) -> Any:
        owned = self._of
        reaching: Deferred[Any] = self._inner.connect(_Connections(owned.client, factory))
        made = await within(reaching, owned.clock, owned.seconds, owned.late())
        return made.wrappedProtocol
