"""A browser socket on the wire: the thin shell over Autobahn.

Autobahn upgrades, parses, inflates and closes.  What goes out is framed and compressed elsewhere,
once for many sockets; its timers are off because they run on a reactor of its own choice, and so
are its log lines, which could show what a client sends.

A client's frames share the turns of the reactor with those of executors' lanes (`link/pace.py`):
what is left of them when a turn's share is over waits, and nothing more is read.  A read buffer
full of the smallest frames, or of messages that inflate, would hold up everybody else for a second.
"""

from __future__ import annotations

from typing import Any

from autobahn.twisted.websocket import WebSocketServerFactory, WebSocketServerProtocol
from autobahn.websocket.compress import PerMessageDeflateOfferAccept
from twisted.internet.interfaces import IDelayedCall, IPushProducer
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from garcon.controller.ws.socket import Socket
from garcon.controller.ws.upgrade import OLDER
from garcon.link.pace import Pace, pace_of
from garcon.sockets import write_now

CLOSE_TIME = 1.0
"""Seconds that a client has to answer a closing handshake."""


class _Quiet:
    def _nothing(self, *args: object, **more: object) -> None:
        pass

    trace = debug = info = warn = error = critical = failure = _nothing


@implementer(IPushProducer)
class BrowserProtocol(WebSocketServerProtocol):
    """One socket on the wire.  `on_gone` is called once, when the connection has ended or never
    became a WebSocket.
    """

    log = _Quiet()
    factory: Any
    transport: Any
    frame_data: Any
    _pace: Pace

    def __init__(self, socket: Socket, on_open: Any, on_gone: Any) -> None:
        super().__init__()
        self._socket = socket
        self._on_open = on_open
        self._on_gone = on_gone
        self._closing: IDelayedCall | None = None
        self._message = bytearray()
        """What has come of a message, whatever pieces it comes in: a list of a million would take
        fifty times as much."""
        self._waits = False
        """Whether something that was read is for a later turn."""
        self._is_held = False
        self._reads = True
        self._is_over = False

    # IWire

    def put(self, frame: bytes) -> None:
        """See `IWire`."""
        if self.state == self.STATE_OPEN:
            write_now(self.transport, frame)

    def ping(self) -> None:
        """See `IWire`."""
        if self.state == self.STATE_OPEN:
            self.sendPing()

    def hold_reading(self, is_held: bool) -> None:
        """See `IWire`."""
        self._is_held = is_held
        self._read_or_not()

    def _read_or_not(self) -> None:
        reads = not (self._is_held or self._waits)
        if reads is not self._reads and not self._is_over:
            self._reads = reads
            if reads:
                self.transport.resumeProducing()
            else:
                self.transport.pauseProducing()

    def close(self, code: int, reason: str) -> None:
        """See `IWire`."""
        if self._is_over or self._closing is not None:
            return
        self._closing = self.factory.reactor.callLater(CLOSE_TIME, self._close_too_long)
        # Autobahn's sendClose takes no code that belongs to servers.
        self.sendCloseFrame(code=code, reasonUtf8=reason.encode())

    def abort(self) -> None:
        """See `IWire`."""
        if not self._is_over and self.transport is not None:
            self.transport.abortConnection()

    def _close_too_long(self) -> None:
        self._closing = None
        self.abort()

    # IPushProducer

    def pauseProducing(self) -> None:
        """The transport has enough; it says so for every further write too."""
        self._socket.wire_full()

    def resumeProducing(self) -> None:
        """The transport has sent what it had."""
        self._socket.wire_empty()

    def stopProducing(self) -> None:
        """The connection's end is told by `onClose`."""

    # Autobahn

    def onConnect(self, request: object) -> str | None:
        """The upgrade was judged before it came here; what is offered still is what is selected."""
        return OLDER if OLDER in self.websocket_protocols else None

    def onOpen(self) -> None:
        """The upgrade is done."""
        self._pace = pace_of(self.factory.reactor)
        # Autobahn 26.10.2 looks for its own option before it has one, and swallows the error.
        self.transport.setTcpNoDelay(True)
        # The HTTP channel is still the transport's producer.
        self.transport.unregisterProducer()
        self.transport.registerProducer(self, True)
        self._on_open(self)

    def dataReceived(self, data: bytes) -> None:
        """Parse; Autobahn's own method first builds the words of a log line."""
        self._socket.heard()
        self._dataReceived(data)

    def consumeData(self) -> None:
        """Take what has come, as far as this turn's share goes."""
        if self.state not in (self.STATE_OPEN, self.STATE_CLOSING):
            super().consumeData()
            return
        if self._waits:
            return
        now, share = self.factory.reactor.seconds, self._pace.share
        began = now()
        while self.processData() and self.state != self.STATE_CLOSED:
            if now() - began >= share:
                self._waits = True
                self._pace.later(self._take_rest)
                break
        self._pace.spent(now() - began)
        self._read_or_not()

    def _take_rest(self) -> None:
        self._waits = False
        self.consumeData()

    def sendData(self, data: bytes, sync: bool = False, chopsize: int | None = None) -> None:
        """Write; likewise without the words."""
        self.transport.write(data)

    def onPing(self, payload: bytes) -> None:
        """Answer, unless the client does not take what it is sent: pongs would pile up."""
        if self.state == self.STATE_OPEN and self._socket.unsent == 0:
            self.sendPong(payload)

    def onCloseFrame(self, code: int, reasonRaw: bytes) -> bool | None:
        """Answer a goodbye.  Who then takes nothing of what is unsent does not keep his place."""
        result = super().onCloseFrame(code, reasonRaw)
        if not self._is_over and self._closing is None:
            self._closing = self.factory.reactor.callLater(CLOSE_TIME, self._close_too_long)
        return result

    def onMessageFrameData(self, payload: bytes) -> None:
        """A piece of a message came."""
        if not self.failedByMe:
            self._message += payload

    def onMessageFrameEnd(self) -> None:
        """One of a message's frames is complete."""
        self.frame_data = None

    def onMessageEnd(self) -> None:
        """A whole message came, text or binary: both are read alike."""
        message, self._message = self._message, bytearray()
        if not self.failedByMe and self.state == self.STATE_OPEN:
            self._socket.received(bytes(message))

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Take what had come before the end."""
        while self._waits:
            self._pace.forget(self._take_rest)
            self._take_rest()
        super().connectionLost(reason)

    def onClose(self, was_clean: bool, code: int | None, reason: str | None) -> None:
        """The connection is gone, or never became a WebSocket."""
        if self._is_over:
            return
        self._is_over = True
        if self._closing is not None:
            self._closing.cancel()
            self._closing = None
        self._socket.closed()
        self._on_gone()


def browser_factory(reactor: Any, most_bytes: int) -> WebSocketServerFactory:
    """Return what every socket's protocol belongs to; messages may have `most_bytes`."""
    factory = WebSocketServerFactory(reactor=reactor, server="")
    factory.setProtocolOptions(
        webStatus=False,
        # Text that is not UTF-8 is answered as what it is: malformed JSON (server.md A.4).
        utf8validateIncoming=False,
        maxFramePayloadSize=most_bytes,
        maxMessagePayloadSize=most_bytes,
        autoPingInterval=0,
        openHandshakeTimeout=0,
        closeHandshakeTimeout=0,
        perMessageCompressionAccept=_accept,
    )
    return factory


def _accept(offers: list[Any]) -> PerMessageDeflateOfferAccept:
    """Keep the one offer that was written for an agreement already made (`deflate.agree`)."""
    return PerMessageDeflateOfferAccept(offers[0], request_no_context_takeover=True)
