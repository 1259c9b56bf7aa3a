"""Wires over WebSockets, both ends, and the resource that takes them from an HTTP port.

Autobahn upgrades, closes and judges whatever is unusual; everything else it could do is off: its
timers run on a reactor of its own choice, its pings end at the next proxy, and its log lines cost
more than sealing a small record.  The frames that lanes consist of are framing.py's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, Protocol

from autobahn.twisted.websocket import (
    WebSocketClientFactory,
    WebSocketClientProtocol,
    WebSocketServerFactory,
    WebSocketServerProtocol,
)
from autobahn.websocket import USES_NVX
from autobahn.websocket.types import ConnectingRequest
from OpenSSL import SSL
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import (
    IDelayedCall,
    IHandshakeListener,
    IPushProducer,
    IReactorTime,
)
from twisted.internet.protocol import connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.resource import IResource, Resource
from zope.interface import implementer

from garcon.contract.limits import KIB, PENDING_SOCKETS
from garcon.link.admission import Admission
from garcon.link.causes import Cause
from garcon.link.framing import RECORD, begins, framed, unframed
from garcon.link.paced import PacedWire
from garcon.link.settings import LinkSettings
from garcon.link.wire import ITicket, IWire, IWireUser
from garcon.sockets import write_now

_BITE = 128 * KIB
"""What is read at once, and above which much unsent data the transport asks its producer to pause.
Twisted's own is half as much, which costs a lane with large messages a tenth of its speed.
"""
_LONGEST_ANSWER = 16 * KIB
"""No answer to our upgrade has more than this before its end."""

_log = Logger()


@cache
def warn_without_nvx() -> None:
    """Say in the log, once, what a build without native masking costs."""
    if not USES_NVX:
        _log.warn(
            "Autobahn runs without its native parts: executor links are some hundred times slower"
        )


@implementer(IPushProducer)
class _LaneProtocol(PacedWire):
    """What both ends add to Autobahn's protocol.  Mixed in before it."""

    user: Any
    close_time: float
    STATE_CONNECTING: Any
    data: bytes

    is_writable = True
    _given = 0
    _begun = b""
    """What is still to be taken: a record's message whose end has not come yet, or whatever is left
    when this turn's share is over.
    """
    _is_open = False
    _masks = False
    _lost: Failure | None = None
    _abort_timer: IDelayedCall | None = None

    # -- IWire --

    @property
    def buffered(self) -> int:
        """See `IWire`."""
        return 0 if self.is_writable else self._given

    def send(self, record: bytes, *, soon: bool = False) -> None:
        """See `IWire`."""
        if self.state == self.STATE_OPEN:
            self._given += len(record)
            message = framed(record, self._masks)
            if soon:
                self.transport.write(message)
            else:
                write_now(self.transport, message)

    def close(self) -> None:
        """See `IWire`."""
        if self._is_over or self._abort_timer is not None:
            return
        if self.state != self.STATE_OPEN:
            self.abort()
            return
        self._abort_timer = self.factory.reactor.callLater(self.close_time, self._close_too_long)
        self.sendClose(1000)  # type: ignore[attr-defined]  # Autobahn's

    def _close_too_long(self) -> None:
        self._abort_timer = None
        self.abort()

    # -- IPushProducer --

    def pauseProducing(self) -> None:
        """The transport has enough; it says so for every further write too."""
        if self.is_writable:
            self.is_writable = False
            self._given = _BITE

    def resumeProducing(self) -> None:
        """The transport has sent what it had."""
        if not self.is_writable:
            self.is_writable = True
            self._given = 0
            self.user.wire_writable()

    # -- Autobahn --

    def onOpen(self) -> None:
        """The upgrade is done."""
        self._is_open = True
        self._masks = not self.factory.isServer
        self.transport.bufferSize = _BITE
        self._take_over()
        self.user.wire_opened(self)

    def dataReceived(self, data: bytes) -> None:
        """Parse; Autobahn's own method first builds the words of a log line."""
        if self._waits:
            self._begun += data
            return
        if self._begun:
            data, self._begun = self._begun + data, b""
        if (
            self.state == self.STATE_OPEN
            and not self.data
            and self.current_frame is None  # type: ignore[attr-defined]  # Autobahn's
            and not self.inside_message  # type: ignore[attr-defined]  # Autobahn's
        ):
            data = self._take_records(data)
            if not data:
                return
        if self.state != self.STATE_CONNECTING:
            self._dataReceived(data)  # type: ignore[attr-defined]  # Autobahn's
            return
        try:
            self._dataReceived(data)  # type: ignore[attr-defined]  # Autobahn's
        except (ValueError, LookupError):  # of which UnicodeDecodeError is one
            self.abort()
        if self.state == self.STATE_CONNECTING and len(self.data) > _LONGEST_ANSWER:
            self.abort()

    def _take_records(self, data: bytes) -> bytes:
        """Take whole binary messages off the front, as far as this turn's share goes, and keep one
        that has only begun; the rest is for Autobahn to judge.
        """
        at = 0
        now, share = self.factory.reactor.seconds, self._pace.share
        began = now()
        while self.state == self.STATE_OPEN:
            found = unframed(data, at, not self._masks)
            if found is None:
                break
            record, at = found
            self.user.record_received(record)
            if now() - began >= share and at < len(data):
                self._wait_for_turn()
                self._read_or_not()
                break
        self._pace.spent(now() - began)
        if self._waits:
            self._begun = data[at:]
            return b""
        if self.state == self.STATE_OPEN and begins(data, at, not self._masks):
            self._begun = data[at:]
            return b""
        return data[at:]

    def _is_owed(self) -> bool:
        # Records that came whole; what Autobahn has is nothing that a lane sends.
        return bool(self._begun) and not self.data

    def _take_rest(self) -> None:
        self._waits = False
        self.dataReceived(b"")
        self._read_or_not()

    def onMessageEnd(self) -> None:
        """A whole WebSocket message came.  Autobahn's own method also makes Deferreds for
        listeners.
        """
        record = self._taken()
        if self.failedByMe:
            return
        if not self.message_is_binary:  # type: ignore[attr-defined]  # Autobahn's
            self.abort()
            return
        self.user.record_received(record)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Take what has come, and remember for `onClose` why nothing more does."""
        self._lost = reason
        super().connectionLost(reason)

    def onClose(self, was_clean: bool, code: int | None, reason: str | None) -> None:
        """The connection is gone, or never became a WebSocket."""
        if self._is_over:
            return
        self._is_over = True
        if self._abort_timer is not None:
            self._abort_timer.cancel()
            self._abort_timer = None
        kind, text = self._why()
        self.user.wire_closed(kind, text)

    def _why(self) -> tuple[Cause, str]:
        if self.failedByMe:
            return Cause.PROTOCOL_ERROR, "the other side broke the WebSocket protocol"
        if self._lost is None or self._lost.check(ConnectionDone):
            return Cause.SOCKET_CLOSED, "the connection was closed"
        return Cause.SOCKET_ERROR, "the connection broke"


_OPTIONS: dict[str, Any] = {
    "utf8validateIncoming": False,
    "maxFramePayloadSize": RECORD,
    "maxMessagePayloadSize": RECORD,
    "autoPingInterval": 0,
    "openHandshakeTimeout": 0,
    "closeHandshakeTimeout": 0,
}
"""Autobahn's timeouts are off because they ignore the injected reactor; the link has its own."""


@implementer(IWire)
class LaneServerProtocol(_LaneProtocol, WebSocketServerProtocol):  # type: ignore[misc]
    """An accepted lane."""

    on_gone: Callable[[], None] | None = None

    def onClose(self, was_clean: bool, code: int | None, reason: str | None) -> None:
        """The connection is gone."""
        super().onClose(was_clean, code, reason)
        on_gone, self.on_gone = self.on_gone, None
        if on_gone is not None:
            on_gone()


class _Leaving:
    """Sockets that have lost their place.

    Nothing is read of them any more, but they are closed only a moment later and one after the
    other: whoever was thrown out and comes again at once would throw out the next one, and so on
    without an end, and nobody would have the time to prove himself.
    """

    def __init__(self, reactor: IReactorTime, settings: LinkSettings) -> None:
        self._reactor = reactor
        self._settings = settings
        self._timers: dict[LaneServerProtocol, IDelayedCall] = {}
        self._last = 0.0

    def add(self, protocol: LaneServerProtocol) -> None:
        """Close a socket soon; the one that has waited longest at once where there are too many."""
        if protocol.transport is None or protocol in self._timers:
            return
        if len(self._timers) >= PENDING_SOCKETS:
            oldest = next(iter(self._timers))
            self._gone(oldest)
            oldest.abort()
        protocol.hold_reading(True)
        protocol.on_gone = partial(self._gone, protocol)
        now = self._reactor.seconds()
        settings = self._settings
        self._last = max(now + settings.eviction_time, self._last + settings.eviction_pace)
        self._timers[protocol] = self._reactor.callLater(self._last - now, protocol.abort)

    def _gone(self, protocol: LaneServerProtocol) -> None:
        timer = self._timers.pop(protocol, None)
        if timer is not None and timer.active():
            timer.cancel()


@implementer(IWire, IHandshakeListener)
class LaneClientProtocol(_LaneProtocol, WebSocketClientProtocol):  # type: ignore[misc]
    """A dialled lane.  Over TLS nothing is sent before the server's certificate has been judged."""

    _refused: str | None = None
    has_begun = False
    """Whether the upgrade was asked for."""
    http_status_line = ""

    def connectionMade(self) -> None:
        """Begin the upgrade; over TLS only after its handshake."""
        if not self.factory.is_tls:
            self._begin()

    def handshakeCompleted(self) -> None:
        """Judge the certificate before the first byte of ours is sent."""
        self._refused = self.factory.judge(self.transport)
        if self._refused is None:
            self._begin()
        else:
            self.abort()

    def _begin(self) -> None:
        self.has_begun = True
        super().connectionMade()

    def onConnecting(self, details: object) -> ConnectingRequest:
        """Ask for exactly the address that was given."""
        return ConnectingRequest(
            host=self.factory.host_header,
            port=self.factory.port_number,
            resource=self.factory.target,
            headers={},
        )

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Autobahn knows nothing of a connection that it never began."""
        self._lost = reason
        if self.has_begun:
            super().connectionLost(reason)
        else:
            self.onClose(False, None, None)

    def _why(self) -> tuple[Cause, str]:
        if self._is_open:
            return super()._why()
        if self._refused is not None:
            return Cause.TLS_FAILED, self._refused
        assert self._lost is not None
        if isinstance(self._lost.value, SSL.Error):
            explained = self.factory.explain() if self.factory.explain is not None else None
            return Cause.TLS_FAILED, explained or tls_reason(self._lost.value)
        status = self.http_status_line.split()
        if len(status) > 1 and status[1].isdecimal() and status[1] != "101":
            return (
                Cause.UPGRADE_REFUSED,
                f"the address answered with HTTP status {status[1][:3]} instead of a WebSocket",
            )
        return Cause.CONNECT_FAILED, "the connection ended before it was a WebSocket"


def tls_reason(error: BaseException) -> str:
    """Return what TLS itself says went wrong, in its own few words."""
    reasons = [r[-1] for r in error.args[0] if r] if error.args and error.args[0] else []
    words = ", ".join(str(r) for r in reasons if r)
    return f"TLS failed: {words}" if words else "TLS failed"


class LaneClientFactory(WebSocketClientFactory):
    """Makes the one protocol of one attempt.

    `judge` gets the TLS transport and says why its certificate is refused, or None.  `explain`
    says, once TLS has failed, what of the certificate made it fail, or None.
    """

    noisy = False

    def __init__(
        self,
        reactor: Any,
        user: IWireUser,
        close_time: float,
        host: str,
        port: int,
        target: str,
        is_tls: bool,
        judge: Callable[[Any], str | None],
        explain: Callable[[], str | None] | None = None,
    ) -> None:
        super().__init__(reactor=reactor)
        warn_without_nvx()
        self.setProtocolOptions(serverConnectionDropTimeout=0, **_OPTIONS)
        self.is_tls = is_tls
        self.judge = judge
        self.explain = explain
        self.host_header = f"[{host}]" if ":" in host else host
        self.port_number = port
        self.target = target
        self.made: LaneClientProtocol | None = None
        self._user = user
        self._close_time = close_time

    def buildProtocol(self, address: object) -> LaneClientProtocol:
        """Make it."""
        self.made = protocol = LaneClientProtocol()
        protocol.factory = self
        protocol.user = self._user
        protocol.close_time = self._close_time
        return protocol


class Acceptor(Protocol):
    """A link, as a listening port sees it."""

    @property
    def accepts_sockets(self) -> bool:
        """Whether the peer dials this link, and may now."""

    def answer(self, ticket: ITicket | None = None) -> IWireUser:
        """Return who speaks for the link on a new socket."""


class _Prepared:
    """What Autobahn's resource takes for a factory: it makes a protocol that exists already."""

    def __init__(self, protocol: LaneServerProtocol) -> None:
        self._protocol = protocol

    def buildProtocol(self, address: object) -> LaneServerProtocol:
        return self._protocol


@implementer(IResource)
class LaneResource(Resource):
    """Takes workers' or controllers' sockets at and below the path it hangs at.

    `find` gets the one further path segment, or None where there is none, and returns the link that
    it belongs to; with the link the pre-shared key is chosen, before the upgrade.  An unknown one
    is 404, a full one 503.
    """

    isLeaf = True

    def __init__(
        self,
        find: Callable[[bytes | None], Acceptor | None],
        reactor: Any,
        admission: Admission,
        settings: LinkSettings | None = None,
    ) -> None:
        super().__init__()
        warn_without_nvx()
        settings = settings or LinkSettings()
        self._find = find
        self._admission = admission
        self._leaving = _Leaving(reactor, settings)
        self._close_time = settings.close_time
        self._factory = WebSocketServerFactory(reactor=reactor)
        self._factory.setProtocolOptions(webStatus=False, **_OPTIONS)

    def render(self, request: Any) -> Any:
        """Take the socket over, or answer why not."""
        link = self._link(request.postpath)
        if link is None or not link.accepts_sockets:
            return _refuse(request, 404, b"Not found")
        if not _is_upgrade(request):
            request.setHeader(b"Upgrade", b"websocket")
            return _refuse(request, 426, b"Upgrade Required")
        protocol = LaneServerProtocol()
        protocol.factory = self._factory
        protocol.close_time = self._close_time
        ticket = self._admission.admit(
            link, partial(self._leaving.add, protocol), getattr(request.client, "host", "")
        )
        if ticket is None:
            return _refuse(request, 503, b"Service Unavailable")
        protocol.user = link.answer(ticket)
        # Imported late because it imports the reactor, which a composition root has yet to choose.
        from autobahn.twisted.resource import WebSocketResource

        return WebSocketResource(_Prepared(protocol)).render(request)

    def _link(self, segments: list[bytes]) -> Acceptor | None:
        if len(segments) > 1:
            return None
        return self._find(segments[0] if segments else None)


def _is_upgrade(request: Any) -> bool:
    """Whether Autobahn will accept this as the beginning of a WebSocket."""
    upgrade = (request.getHeader(b"upgrade") or b"").lower()
    connection = (request.getHeader(b"connection") or b"").lower()
    return (
        request.method == b"GET"
        and upgrade == b"websocket"
        and b"upgrade" in [part.strip() for part in connection.split(b",")]
        and request.getHeader(b"sec-websocket-version") == b"13"
        and len(request.getHeader(b"sec-websocket-key") or b"") == 24
    )


def _refuse(request: Any, status: int, text: bytes) -> bytes:
    request.setResponseCode(status)
    request.setHeader(b"Content-Type", b"text/plain; charset=utf-8")
    return text
