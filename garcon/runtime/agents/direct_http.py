"""One session's way to its provider: requests over HTTP, one at a time, each with its deadlines.

Twisted's client does the protocol.  Around it: a connection that is dropped the moment nobody wants
it (a polite end would wait for the provider), a bound on what may come before an answer's head is
complete, and one exchange that knows how it may fail.  Redirects are not followed, and no proxy or
certificate is chosen here: the endpoints that this is given do that.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

from attrs import frozen
from OpenSSL import SSL
from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.internet.error import (
    ConnectError,
    ConnectionDone,
    ConnectionLost,
    ConnectionRefusedError,
    DNSLookupError,
    UnknownHostError,
)
from twisted.internet.interfaces import (
    IConsumer,
    IReactorTime,
)
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from twisted.web.client import URI, Agent, HTTPConnectionPool, ResponseDone
from twisted.web.http import PotentialDataLoss
from twisted.web.http_headers import Headers
from twisted.web.iweb import IAgentEndpointFactory, IBodyProducer, IResponse
from zope.interface import implementer

from garcon.contract.limits import KIB, MIB
from garcon.deferreds import Waiters
from garcon.errors import GarconError, LimitExceeded
from garcon.runtime.agents.direct_events import EventStream
from garcon.runtime.agents.direct_wire import (
    EVENT,
    ModelRequest,
    ProviderFailed,
    Reader,
    Reply,
    refused,
    unstreamed,
)
from garcon.runtime.connections import Connection, OwnedEndpoints, within

HEAD = 256 * KIB
"""What may come before an answer's head is complete: nobody sends as much."""
ERROR_BODY = 64 * KIB
STREAM = 512 * MIB
"""A whole answer, with what its events say beside their text."""
DRAIN, DRAIN_TIME = 64 * KIB, 1.0
"""What is still read when an answer is over, so that its connection can serve another one."""
CACHED_TIME = 60

_WORDS: tuple[tuple[type[Exception], str], ...] = (
    (ConnectionRefusedError, "the connection was refused"),
    (DNSLookupError, "its name could not be resolved"),
    (UnknownHostError, "its name could not be resolved"),
    (ConnectionDone, "it closed the connection"),
    (ConnectionLost, "it closed the connection"),
    (SSL.Error, "the encrypted connection failed"),
    (ConnectError, "the connection failed"),
)


@frozen
class Deadlines:
    """Seconds: until connected, until an answer begins, between two pieces of it."""

    connect: float = 20.0
    head: float = 600.0
    idle: float = 300.0


class ModelClient:
    """Asks one provider; owned by a session, which closes it.

    Keeps at most one idle connection, for a minute.
    """

    def __init__(
        self,
        reactor: Any,
        endpoints: IAgentEndpointFactory,
        deadlines: Deadlines | None = None,
    ) -> None:
        self._clock: IReactorTime = reactor
        self._deadlines = deadlines or Deadlines()
        self._pool = HTTPConnectionPool(reactor)
        self._pool.maxPersistentPerHost = 1
        self._pool.cachedConnectionTimeout = CACHED_TIME
        self._pool.retryAutomatically = False
        seconds = self._deadlines.connect
        ours = OwnedEndpoints(self, endpoints, self._clock, seconds, _unreachable)
        self._agent = Agent.usingEndpointFactory(reactor, ours, self._pool)
        self._connections: set[Connection] = set()
        self._all_gone: Waiters[None] = Waiters()
        self._is_closed = False
        self._head_left: float = inf
        """What may still come before the head that is waited for is complete."""

    def exchange(self, request: ModelRequest, reader: Reader) -> Deferred[Reply]:
        """Send a request and read its answer to the end.  Not while another goes on.

        Fails with `ProviderFailed`; cancelling drops the connection.
        """
        return Deferred.fromCoroutine(self._exchange(request, reader))

    async def _exchange(self, request: ModelRequest, reader: Reader) -> Reply:
        response = await self._begin(request)
        is_json = (_header(response, "Content-Type") or "").lower().startswith("application/json")
        if response.code == 200 and not is_json:
            return await self._stream(response, reader)
        body = await self._beginning(response)
        if response.code == 200:
            raise unstreamed(body)
        raise refused(response.code, body, _header(response, "Retry-After"))

    async def _begin(self, request: ModelRequest) -> IResponse:
        """Send a request and return the head of its answer."""
        try:
            url = request.url.encode("ascii")
            URI.fromBytes(url)
            headers = Headers()
            for name, value in request.headers.items():
                headers.addRawHeader(name.encode("ascii"), value.encode("latin-1"))
        except ValueError:
            raise ProviderFailed(
                "The endpoint's address, key or headers cannot be sent over HTTP."
            ) from None
        late = ProviderFailed("The provider did not answer in time.")
        self._head_left = HEAD
        try:
            answer = self._agent.request(b"POST", url, headers, _Body(request.body))
            return await within(answer, self._clock, self._deadlines.head, late)
        except (ProviderFailed, CancelledError):
            raise
        except GarconError as error:
            # The way there is closed on purpose: a certificate, a proxy.
            raise ProviderFailed(f"The provider could not be reached: {error.text}.") from None
        except Exception as error:
            if any(reason.check(CancelledError) for reason in getattr(error, "reasons", ())):
                raise CancelledError from None
            if self._head_left <= 0:
                raise ProviderFailed("The head of the provider's answer is too large.") from None
            raise ProviderFailed(
                f"The provider could not be reached ({_cause(error)}).", is_temporary=True
            ) from None
        finally:
            self._head_left = inf

    async def _stream(self, response: IResponse, reader: Reader) -> Reply:
        events = EventStream(EVENT)
        encoding = _header(response, "Content-Encoding") or "identity"

        def take(data: bytes | None) -> bool:
            if encoding.strip().lower() != "identity":
                raise ProviderFailed("The provider's answer is compressed, which nobody asked for.")
            found = events.end() if data is None else events.feed(data)
            return any(reader.take(event) for event in found)

        await self._deliver(response, take, self._deadlines.idle)
        return reader.reply()

    async def _beginning(self, response: IResponse) -> bytes:
        """Return the beginning of an answer that is no stream."""
        body = bytearray()

        def take(data: bytes | None) -> bool:
            body.extend(data or b"")
            return len(body) >= ERROR_BODY

        await self._deliver(response, take, self._deadlines.connect)
        return bytes(body[:ERROR_BODY])

    async def _deliver(
        self, response: IResponse, take: Callable[[bytes | None], bool], idle: float
    ) -> None:
        """Have a body taken until it is over, or lost: what came may be all that was wanted."""
        body = _Answer(self._clock, idle, take)
        response.deliverBody(body)
        try:
            await body.over
        except LimitExceeded as error:
            raise ProviderFailed(f"The provider's answer cannot be taken: {error.text}") from None

    def close(self) -> Deferred[None]:
        """Drop every connection; fires when they are gone."""
        self._is_closed = True
        self._pool.closeCachedConnections()
        for connection in list(self._connections):
            connection.loseConnection()
        return self._all_gone.wait() if self._connections else succeed(None)

    # -- what its connections say

    def connected(self, connection: Connection) -> None:
        """There is a new connection."""
        self._connections.add(connection)

    def disconnected(self, connection: Connection) -> None:
        """One is gone."""
        self._connections.discard(connection)
        if self._is_closed:
            # Its answer may have ended well after all, and the pool have kept it, and a timer.
            self._pool.closeCachedConnections()
        if not self._connections:
            self._all_gone.fire(None)

    def lets_in(self, size: int) -> bool:
        """Whether a connection may pass on what came."""
        self._head_left -= size
        return self._head_left > 0


class _Answer(Protocol):
    """An answer's body on its way to `take`, which gets None when it ended as it should, and says
    whether it has enough.
    """

    def __init__(
        self, clock: IReactorTime, idle: float, take: Callable[[bytes | None], bool]
    ) -> None:
        self._take = take
        self._idle = idle
        self._left = STREAM
        self._is_over = False
        self._silence = clock.callLater(idle, self._silent)
        self.over: Deferred[None] = Deferred(self._cancelled)

    def dataReceived(self, data: bytes) -> None:
        """Take the next piece, or count what comes when all is said."""
        self._left -= len(data)
        if self._is_over:
            if self._left < 0:
                self._drop()
            return
        self._silence.reset(self._idle)
        try:
            if self._left < 0:
                raise LimitExceeded("PROVIDER_FAILED", f"It is larger than {STREAM} bytes.")
            enough = self._take(data)
        except Exception:
            self._fail(Failure())
            return
        if enough:
            self._is_over = True
            self._left = DRAIN
            self._silence.reset(DRAIN_TIME)
            self.over.callback(None)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """It is over, in one way or the other."""
        if self._silence.active():
            self._silence.cancel()
        if self._is_over:
            return
        self._is_over = True
        try:
            if reason.check(ResponseDone, PotentialDataLoss):
                self._take(None)
        except Exception:
            self.over.errback(Failure())
        else:
            self.over.callback(None)

    def _silent(self) -> None:
        if self._is_over:
            self._drop()
        else:
            self._fail(Failure(ProviderFailed("The provider stopped in mid-answer.")))

    def _fail(self, failure: Failure) -> None:
        self._is_over = True
        self._drop()
        self.over.errback(failure)

    def _cancelled(self, _: Deferred[None]) -> None:
        self._is_over = True
        self._drop()

    def _drop(self) -> None:
        if self._silence.active():
            self._silence.cancel()
        if self.transport is not None:
            self.transport.loseConnection()


@implementer(IBodyProducer)
@frozen
class _Body:
    """A request's body, which is all there already."""

    _content: bytes

    @property
    def length(self) -> int:
        """How long it is."""
        return len(self._content)

    def startProducing(self, consumer: IConsumer) -> Deferred[None]:
        """Write it."""
        consumer.write(self._content)
        return succeed(None)

    def pauseProducing(self) -> None:
        """Nothing is left to pause."""

    def resumeProducing(self) -> None:
        """Nothing is left to resume."""

    def stopProducing(self) -> None:
        """Nothing is left to stop."""


def _unreachable() -> ProviderFailed:
    return ProviderFailed("The provider could not be reached in time.", is_temporary=True)


def _header(response: IResponse, name: str) -> str | None:
    found = response.headers.getRawHeaders(name)
    return found[0] if found else None


def _cause(error: Exception) -> str:
    """Say in a few words why there was no answer."""
    reasons = getattr(error, "reasons", None)
    if reasons:
        error = reasons[0].value
    for kind, words in _WORDS:
        if isinstance(error, kind):
            return words
    return type(error).__name__
