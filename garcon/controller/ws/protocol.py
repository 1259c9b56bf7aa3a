"""A browser socket on the wire: the thin shell over Autobahn.

Autobahn upgrades, parses, inflates and closes.  What goes out is framed and compressed elsewhere,
once for many sockets; its timers are off because they run on a reactor of its own choice.
"""

from __future__ import annotations

from typing import Any

from autobahn.twisted.websocket import WebSocketServerFactory, WebSocketServerProtocol
from autobahn.websocket.compress import PerMessageDeflateOfferAccept
from autobahn.websocket.protocol import FrameHeader
from twisted.internet.interfaces import IDelayedCall, IPushProducer
from zope.interface import implementer

from garcon.controller.ws.frames import small_frame
from garcon.controller.ws.socket import Socket
from garcon.controller.ws.upgrade import OLDER
from garcon.link.paced import PacedWire
from garcon.sockets import write_now

CLOSE_TIME = 1.0
"""Seconds that a client has to answer a closing handshake."""


@implementer(IPushProducer)
class BrowserProtocol(PacedWire, WebSocketServerProtocol):  # type: ignore[misc]
    """One socket on the wire.  `on_gone` is called once, when the connection has ended or never
    became a WebSocket.
    """

    def __init__(self, socket: Socket, on_open: Any, on_gone: Any) -> None:
        super().__init__()
        self._socket = socket
        self._on_open = on_open
        self._on_gone = on_gone
        self._closing: IDelayedCall | None = None
        self._owed_pong: bytes | None = None

    # IWire

    def put(self, frame: bytes) -> None:
        """See `IWire`."""
        if self.state == self.STATE_OPEN:
            write_now(self.transport, frame)

    def ping(self) -> None:
        """See `IWire`."""
        if self.state == self.STATE_OPEN:
            self.sendPing()

    def close(self, code: int, reason: str) -> None:
        """See `IWire`."""
        if self._is_over or self._closing is not None:
            return
        self._closing = self.factory.reactor.callLater(CLOSE_TIME, self._close_too_long)
        # Autobahn's sendClose takes no code that belongs to servers.
        self.sendCloseFrame(code=code, reasonUtf8=reason.encode())

    def _close_too_long(self) -> None:
        self._closing = None
        self.abort()

    # IPushProducer

    def pauseProducing(self) -> None:
        """The transport has enough; it says so for every further write too."""
        self._socket.wire_full()

    def resumeProducing(self) -> None:
        """The transport has sent what it had."""
        owed, self._owed_pong = self._owed_pong, None
        if owed is not None and self.state == self.STATE_OPEN:
            self.sendPong(owed)
        self._socket.wire_empty()

    # Autobahn

    def onConnect(self, request: object) -> str | None:
        """The upgrade was judged before it came here; what is offered still is what is selected."""
        return OLDER if OLDER in self.websocket_protocols else None

    def onOpen(self) -> None:
        """The upgrade is done."""
        self._take_over()
        self._on_open(self)

    def dataReceived(self, data: bytes) -> None:
        """Parse; Autobahn's own method first builds the words of a log line."""
        self._socket.heard()
        self._dataReceived(data)

    def processData(self) -> bool:
        """Take a small whole frame in one step.  Autobahn's general way through one makes a native
        masker first, and for a key that takes a third of all the time until it is sent on.
        """
        is_next = self.current_frame is None and not self.inside_message
        found = small_frame(self.data) if is_next else None
        if found is None or (found.rsv and self._perMessageCompress is None):
            taken: bool = super().processData()
            return taken
        self.data = self.data[found.end :]
        # Nobody asks for a mask that is done with.
        self.current_frame = FrameHeader(found.opcode, True, found.rsv, len(found.payload), "")
        self.onFrameBegin()
        if found.payload and self.onFrameData(found.payload) is False:
            return False
        return self.onFrameEnd() is not False and len(self.data) > 0

    def onPing(self, payload: bytes) -> None:
        """Answer; a client that does not take what it is sent gets one answer, to the last, once it
        does: pongs would pile up.
        """
        if self.state != self.STATE_OPEN:
            return
        if self._socket.unsent == 0:
            self.sendPong(payload)
        else:
            self._owed_pong = payload

    def onCloseFrame(self, code: int, reasonRaw: bytes) -> bool | None:
        """Answer a goodbye.  Who then takes nothing of what is unsent does not keep his place."""
        result = super().onCloseFrame(code, reasonRaw)
        if not self._is_over and self._closing is None:
            self._closing = self.factory.reactor.callLater(CLOSE_TIME, self._close_too_long)
        return result

    def onMessageEnd(self) -> None:
        """A whole message came, text or binary: both are read alike."""
        message = self._taken()
        if not self.failedByMe and self.state == self.STATE_OPEN:
            self._socket.received(message)

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
