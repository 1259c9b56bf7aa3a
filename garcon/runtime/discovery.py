"""Asking an endpoint for its models over HTTP: bounded in time, in size and in where it leads.

A key is sent to the origin it is meant for and nowhere else: a redirection to another one ends the
discovery.  An endpoint that fails is an answer; its own words are not repeated, as some services
quote the key they were given.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urljoin, urlsplit

import msgspec
from msgspec import UNSET
from twisted.internet.defer import CancelledError, Deferred, TimeoutError
from twisted.internet.error import (
    ConnectError,
    ConnectingCancelledError,
    ConnectionClosed,
    DNSLookupError,
)
from twisted.internet.interfaces import IReactorTime
from twisted.internet.protocol import Protocol, connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.client import Agent, HTTPConnectionPool, ResponseDone, ResponseFailed
from twisted.web.http import PotentialDataLoss
from twisted.web.http_headers import Headers
from twisted.web.iweb import IAgentEndpointFactory, IResponse

from garcon.contract.decoding import decode
from garcon.contract.limits import KIB, MIB
from garcon.contract.providers import Discovered, DiscoverModels, EndpointModel
from garcon.deferreds import returns_deferred
from garcon.errors import GarconError
from garcon.runtime import model_lists
from garcon.runtime.connections import Connection, OwnedEndpoints
from garcon.runtime.model_lists import NotAList

CALL_TIME = 10.0
"""Seconds for one call, from its first byte to the last of its answer (control.md B.6)."""
BODY = 8 * MIB
HEAD = 256 * KIB
"""What may come beside the body."""
REDIRECTIONS = 3
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_WORDS = {
    401: "it wants another key",
    403: "it wants another key, or one with more rights",
    404: "there is no list of models at this address",
    429: "it is asked too often",
}


class Unanswered(Exception):
    """The endpoint did not tell; `text` says why, without any secret."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class ModelDiscovery:
    """Carries out discoveries of one executor.  Every connection is for one call and is dropped
    with it.
    """

    def __init__(
        self,
        reactor: Any,
        endpoints: IAgentEndpointFactory,
        *,
        clock: IReactorTime | None = None,
        body: int = BODY,
        head: int = HEAD,
    ) -> None:
        self._reactor = reactor
        self._clock: IReactorTime = reactor if clock is None else clock
        self._endpoints = endpoints
        self._body, self._head = body, head

    @returns_deferred
    async def discover(self, wanted: DiscoverModels) -> Discovered:
        """Ask for the models of an endpoint.  Fails by cancellation only."""
        try:
            models = model_lists.distinct(await self._models(wanted))
        except CancelledError:
            raise
        except Unanswered as failed:
            return Discovered(success=False, error=failed.text)
        except NotAList:
            return Discovered(success=False, error="The endpoint answered with no list of models.")
        return Discovered(success=True, models=models or UNSET)

    async def _models(self, wanted: DiscoverModels) -> list[EndpointModel]:
        found: list[EndpointModel] = []
        after: str | None = None
        for _ in range(model_lists.PAGES):
            ask = model_lists.ask(wanted, after)
            call = _Call(self._reactor, self._clock, self._endpoints, self._body, self._head)
            d = Deferred.fromCoroutine(call.get(ask.url, ask.headers))
            expires = self._clock.seconds() + CALL_TIME
            try:
                body = await d.addTimeout(CALL_TIME, self._clock)
            except (TimeoutError, Unanswered):
                if self._clock.seconds() < expires:
                    raise
                # However the call fails when it is cancelled.
                raise _too_late() from None
            finally:
                call.drop()
            try:
                page = model_lists.read(wanted, decode(body, object))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                raise NotAList from None
            found += page.models
            if page.after is None or page.after == after:
                break
            after = page.after
        return found


class _Call:
    """One call, redirections included, and the connections it has."""

    _log = Logger()

    def __init__(
        self,
        reactor: Any,
        clock: IReactorTime,
        endpoints: IAgentEndpointFactory,
        body: int,
        head: int,
    ) -> None:
        self._body = body
        self._left = head
        """What may still come; the body's share only when its head is complete."""
        ours = OwnedEndpoints(self, endpoints, clock, CALL_TIME, _too_late)
        pool = HTTPConnectionPool(reactor, persistent=False)
        self._agent = Agent.usingEndpointFactory(reactor, ours, pool)
        self._connections: set[Connection] = set()

    def connected(self, connection: Connection) -> None:
        """There is a new connection."""
        self._connections.add(connection)

    def disconnected(self, connection: Connection) -> None:
        """One is gone."""
        self._connections.discard(connection)

    def lets_in(self, size: int) -> bool:
        """Whether what came is still within what an answer may have, head and all."""
        self._left -= size
        return self._left >= 0

    def drop(self) -> None:
        """Have no connection any more, whatever the peer would like to say."""
        for connection in list(self._connections):
            connection.loseConnection()

    async def get(self, url: str, headers: Mapping[str, str]) -> bytes:
        """Return what a URL leads to, at its own origin."""
        for _ in range(REDIRECTIONS + 1):
            response = await self._ask(url, headers)
            if response.code not in _REDIRECTS:
                if not 200 <= response.code < 300:
                    why = _WORDS.get(response.code)
                    said = "" if why is None else f": {why}"
                    raise Unanswered(f"The endpoint answered with status {response.code}{said}.")
                self._left += self._body
                return await self._collect(response)
            url = _elsewhere(url, response.headers)
        raise Unanswered("The endpoint redirects without an end.")

    async def _ask(self, url: str, headers: Mapping[str, str]) -> IResponse:
        fields = Headers({name: [value] for name, value in headers.items()})
        try:
            response: IResponse = await self._agent.request(b"GET", url.encode("ascii"), fields)
        except (CancelledError, Unanswered):
            raise
        except GarconError as error:
            # Of a proxy or a certificate, in words for a person.
            raise Unanswered(error.text) from None
        except DNSLookupError:
            raise Unanswered("The endpoint's host name is not known.") from None
        except ConnectError:
            raise Unanswered("Nothing answers at the endpoint's address.") from None
        except (ResponseFailed, ConnectionClosed, ConnectingCancelledError):
            raise self._cut_short() from None
        except Exception as error:
            self._log.warn("asking for models failed: {kind}", kind=type(error).__name__)
            raise Unanswered("The endpoint could not be asked.") from None
        return response

    async def _collect(self, response: IResponse) -> bytes:
        body = _Body(self._body)
        response.deliverBody(body)
        try:
            return await body.whole
        except ResponseFailed:
            raise self._cut_short() from None

    def _cut_short(self) -> Unanswered:
        return _too_large() if self._left < 0 else Unanswered("The connection was cut short.")


def _elsewhere(url: str, headers: Headers) -> str:
    """Return where a redirection leads, if that is the same origin."""
    location = (headers.getRawHeaders("location") or [""])[0]
    try:
        target = urljoin(url, location)
        here, there = urlsplit(url), urlsplit(target)
        same = (here.scheme, here.hostname, here.port) == (
            there.scheme,
            there.hostname,
            there.port,
        )
    except ValueError:
        same = False
    if not location or not same or not target.isascii() or "@" in there.netloc:
        raise Unanswered("The endpoint redirects to another place, which is not followed.")
    return target


def _too_late() -> Unanswered:
    return Unanswered(f"The endpoint did not answer within {CALL_TIME:g} seconds.")


def _too_large() -> Unanswered:
    return Unanswered("The endpoint's answer is too large.")


class _Body(Protocol):
    """Takes the body of an answer, up to a limit.  Whoever made the call drops it."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pieces: list[bytes] = []
        self._size = 0
        self.whole: Deferred[bytes] = Deferred()

    def dataReceived(self, data: bytes) -> None:
        self._size += len(data)
        if self._size <= self._limit:
            self._pieces.append(data)
        elif not self.whole.called:
            self.whole.errback(_too_large())

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if self.whole.called:
            return
        if reason.check(ResponseDone, PotentialDataLoss):
            self.whole.callback(b"".join(self._pieces))
        else:
            self.whole.errback(reason)
