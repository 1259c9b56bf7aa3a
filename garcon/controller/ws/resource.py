"""The upgrade of ``/ws``: judged step by step from its headers (server.md A.1), then carried
out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.web.http_headers import Headers
from twisted.web.resource import IResource, Resource
from zope.interface import implementer

from garcon.controller.principals import Principal
from garcon.controller.ws.deflate import Deflate, agree
from garcon.controller.ws.hub import Sockets
from garcon.controller.ws.protocol import BrowserProtocol, browser_factory
from garcon.controller.ws.upgrade import Offer, is_handshake, read_offer
from garcon.web.exchange import Incoming, Outgoing, Upgrade, text_answer

PATH = "/ws"

_NO_STORE = {"Cache-Control": "no-store"}
NOT_FOUND = text_answer(404, "Not found")
UNAUTHORIZED = text_answer(401, "Unauthorized", {**_NO_STORE, "WWW-Authenticate": "Bearer"})
FULL = text_answer(503, "hard-capacity", {**_NO_STORE, "Retry-After": "1"})
FAILED = text_answer(400, "WebSocket upgrade failed", _NO_STORE)

Identify = Callable[[str | None], Principal | None]
"""Returns whose token it is; without accounts it looks at none and knows everybody."""


class BrowserDoor:
    """Admits browser sockets.  One serves every port of the controller."""

    def __init__(self, reactor: Any, sockets: Sockets, identify: Identify) -> None:
        self._sockets = sockets
        self._identify = identify
        self._factory = browser_factory(reactor, sockets.limits.message)

    def admit(self, incoming: Incoming) -> Outgoing | Upgrade:
        """Judge a request for the path whose ``Host`` and ``Origin`` were found right."""
        if incoming.method != "GET":
            return NOT_FOUND
        offer = read_offer(
            incoming.header(b"authorization"), incoming.header(b"sec-websocket-protocol")
        )
        principal = self._identify(offer.token)
        if principal is None:
            return UNAUTHORIZED
        if self._sockets.is_full:
            return FULL
        if incoming.length != 0 or not is_handshake(incoming.method, incoming.header):
            return FAILED
        deflate = agree(incoming.header(b"sec-websocket-extensions"))
        return Upgrade(_Opening(self, offer, principal, deflate))

    def take_over(
        self, request: Any, offer: Offer, principal: Principal, deflate: Deflate | None
    ) -> Any:
        """Make a socket of an admitted request."""
        number = self._sockets.reserve()
        if number is None:
            request.setResponseCode(FULL.status)
            return FULL.body
        try:
            socket = self._sockets.made(principal, is_newer=offer.is_newer, deflate=deflate)
            protocol = BrowserProtocol(
                socket,
                lambda wire: self._sockets.opened(number, socket, wire),
                lambda: self._sockets.gone(number, socket),
            )
            protocol.factory = self._factory
            request.requestHeaders = _handshake(request.requestHeaders, offer, deflate)
            request.uri = PATH.encode()
            # Imported late because it imports the reactor, which a composition root has yet to
            # choose.
            from autobahn.twisted.resource import WebSocketResource

            return WebSocketResource(_Prepared(protocol)).render(request)
        except BaseException:
            self._sockets.release(number)
            raise


@implementer(IResource)
class _Opening(Resource):
    """One admitted upgrade."""

    isLeaf = True

    def __init__(
        self, door: BrowserDoor, offer: Offer, principal: Principal, deflate: Deflate | None
    ) -> None:
        super().__init__()
        self._door = door
        self._admitted = offer, principal, deflate

    def render(self, request: Any) -> Any:
        """Carry it out."""
        return self._door.take_over(request, *self._admitted)


class _Prepared:
    """What Autobahn's resource takes for a factory: it makes a protocol that exists already."""

    def __init__(self, protocol: BrowserProtocol) -> None:
        self._protocol = protocol

    def buildProtocol(self, address: object) -> BrowserProtocol:
        """Return it."""
        return self._protocol


def _handshake(headers: Headers, offer: Offer, deflate: Deflate | None) -> Headers:
    """Return the handshake as Autobahn is to see it: what was judged here already, and no more.

    It refuses much of what we take (an offer of a window of 8 bits, a subprotocol named twice), and
    the token does not concern it.
    """
    key = headers.getRawHeaders(b"sec-websocket-key") or [b""]
    kept = Headers(
        {
            b"Host": [b"localhost"],
            b"Upgrade": [b"websocket"],
            b"Connection": [b"Upgrade"],
            b"Sec-WebSocket-Version": [b"13"],
            b"Sec-WebSocket-Key": [key[0].strip()],
        }
    )
    if offer.selected is not None:
        kept.setRawHeaders(b"Sec-WebSocket-Protocol", [offer.selected.encode()])
    if deflate is not None:
        kept.setRawHeaders(b"Sec-WebSocket-Extensions", [deflate.offer.encode()])
    return kept
