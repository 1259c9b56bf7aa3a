"""One HTTP connection of a door: bounds on headers and times, early answers, slow readers.

The parser is twisted.web's; what it does not bound is bounded here (pitfalls.md, "twisted.web").
One timer serves a connection through its phases: between requests, reading headers, reading a body,
draining an answer, lingering.

A connection has one request answered in a turn of the reactor.  What it has sent beyond that waits,
and nothing more is read of it: the parser would answer a thousand at once, and a few connections
full of cheap requests would leave nobody else a turn.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, cast

from twisted.internet.interfaces import (
    IDelayedCall,
    IPushProducer,
    ISSLTransport,
    ITCPTransport,
)
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure
from twisted.web.http import HTTPChannel

from garcon.sockets import close_now, read_now, write_now
from garcon.web.exchange import Outgoing
from garcon.web.request import BoundedRequest, render_answer

if TYPE_CHECKING:
    from garcon.web.site import BoundedSite

LINGER_BYTES = 64 * 1024 * 1024
"""At most this much of a refused body is swallowed; a sender of more sees a reset.  It is more than
the usual bound of a body, so that whoever sends a little too much is told so.
"""


class Phase(Enum):
    IDLE = "idle"
    HEADERS = "headers"
    BODY = "body"
    ANSWERING = "answering"
    DRAINING = "draining"
    LINGERING = "lingering"


class BoundedChannel(HTTPChannel):
    """One connection; owned by its site until it closes or a WebSocket takes it over."""

    requestFactory = BoundedRequest  # type: ignore[assignment]  # a subclass serves
    timeOut = None

    def __init__(self, site: BoundedSite) -> None:
        super().__init__()
        self.site = site
        self.factory = site
        limits = site.limits
        self.totalHeadersSize = limits.headers
        self.MAX_LENGTH = limits.headers
        self.phase = Phase.HEADERS
        self.retiring = False
        self.began: float = site.reactor.seconds()
        self.quiet_since = self.began
        """When the connection began, or its last answer ended, was a refusal, or went on."""
        self.is_known = False
        """Whether it has had a request of somebody who is known here."""
        self._lingered = 0
        self._last: BoundedRequest | None = None
        self._body_length: int | None = 0
        self._timer: IDelayedCall | None = None
        self._turn: IDelayedCall | None = None
        """When the next request is looked at that was sent along with the last one."""

    # Connection

    def connectionMade(self) -> None:
        """Begin; a connection that says nothing has as long as one whose headers dawdle."""
        super().connectionMade()
        self._arm(self.site.limits.header_time)
        if self.site.limits.eager:
            read_now(self.transport)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Forget everything; a handler that still works is cancelled through its request."""
        self._disarm()
        self._forgo_turn()
        # It may come while a request is being parsed: what else was sent is nobody's.
        self.clearLineBuffer()
        self.site.forget(self)
        super().connectionLost(reason)
        if self._last is not None:
            self._last.settle()

    def dataReceived(self, data: bytes) -> None:
        """Parse, unless the request has been answered already: then its rest is swallowed."""
        if self.phase is Phase.LINGERING:
            self._swallow(len(data))
            return
        if self._turn is not None:
            # The transport may have been resumed by what it took of the last answer.
            self._buffer += data
            self._networkProducer.pauseProducing()
            return
        if self.phase is Phase.IDLE:
            self.phase = Phase.HEADERS
            self._arm(self.site.limits.header_time)
        # TimeoutMixin is not used, so HTTPChannel's own method would only add a call.
        super(HTTPChannel, self).dataReceived(data)

    def retire(self) -> None:
        """Take no further request: close now when idle, else after the answer under way."""
        self.retiring = True
        self.persistent = False
        if self.phase in (Phase.IDLE, Phase.HEADERS):
            self.loseConnection()

    def stop_reading(self) -> None:
        """Take nothing more of what comes."""
        self._disarm()
        self._forgo_turn()
        if self.transport is not None:
            cast(IPushProducer, self.transport).pauseProducing()

    def abort(self) -> None:
        """Drop the connection with whatever is unsent."""
        if self.transport is not None:
            cast(ITCPTransport, self.transport).abortConnection()

    def put(self, data: bytes) -> None:
        """Hand bytes to the transport."""
        assert self.transport is not None
        self.transport.write(data)

    def put_now(self, data: bytes) -> None:
        """Let the network have a small answer at once."""
        write_now(self.transport, data)

    def loseConnection(self) -> None:
        """Close when everything is written, after a last answer without waiting for a turn."""
        self._forgo_turn()
        if self.phase is Phase.DRAINING:
            cast(Any, self._networkProducer).unregisterProducer()
            close_now(self.transport)
        else:
            super().loseConnection()

    def isSecure(self) -> bool:
        """Whether the transport is TLS.  The parser's own method looks for an adapter besides."""
        return bool(ISSLTransport.providedBy(self.transport))

    # Parsing

    def lineReceived(self, line: bytes) -> None:
        """Bound request line and headers together, then parse."""
        if self.phase is Phase.LINGERING:
            return
        if self._receivedHeaderSize + len(line) > self.totalHeadersSize:
            self.refuse(self.site.refusals.long)
            return
        super().lineReceived(line)

    def lineLengthExceeded(self, line: bytes) -> None:
        """One line alone is over the bound."""
        self.refuse(self.site.refusals.long)

    def headerReceived(self, line: bytes) -> bool:
        """Parse a header; after a refusal the rest of the block means nothing."""
        if self.phase is Phase.LINGERING:
            return False
        if self._receivedHeaderCount >= self.maxHeaders:
            self.refuse(self.site.refusals.long)
            return False
        return bool(super().headerReceived(line))

    def allHeadersReceived(self) -> None:
        """Let the policy decide before a byte of the body is taken."""
        if self.phase is Phase.LINGERING:
            return
        request: BoundedRequest = self.requests[-1]
        version: bytes = self._version
        persistent = self.checkPersistence(request, version) and not self.retiring
        self.persistent = persistent and self.site.limits.keep_alive
        self._body_length = self.length
        refusal = request.begin(self._command, self._path, version, self.length)
        if refusal is not None:
            self.refuse(refusal)
            return
        if self.length == 0:
            return
        self.phase = Phase.BODY
        self._arm(self.site.limits.upload_time)
        if version == b"HTTP/1.1" and request.expects_continue():
            self._send100Continue()

    def allContentReceived(self) -> None:
        """Hand the complete request over, unless it has been answered meanwhile."""
        if self.phase is not Phase.LINGERING:
            self.phase = Phase.ANSWERING
            super().allContentReceived()

    def rawDataReceived(self, data: bytes) -> None:
        """Take a piece of a body; or what follows a refused head in the same segment."""
        if self.phase is Phase.LINGERING:
            self._swallow(len(data))
        else:
            super().rawDataReceived(data)

    # Answers

    def refuse(self, answer: Outgoing) -> None:
        """Answer now and close; what still comes of the request is swallowed for a moment, so that
        no reset eats the answer.
        """
        request = self.requests[-1] if self.requests else None
        self.persistent = False
        self.put(render_answer(self.site, answer, close=True, method=_method(request)))
        waits = request is not None and request.expects_continue()
        self.phase = Phase.LINGERING
        self.quiet_since = self.site.reactor.seconds()
        self.setRawMode()
        if request is not None:
            request.refused()
            self.closing(request)
        self._arm(self.site.limits.linger)
        if self._body_length == 0 or waits:
            self.loseConnection()

    def _respondToBadRequestAndDisconnect(self) -> None:
        if self.phase is not Phase.LINGERING:
            self.refuse(self.site.refusals.malformed)

    def drain_begun(self) -> None:
        """An answer waits for its reader; each step it takes begins the time anew."""
        self.phase = Phase.DRAINING
        self.quiet_since = self.site.reactor.seconds()
        self._arm(self.site.limits.drain)

    def closing(self, request: BoundedRequest) -> None:
        """This answer is the connection's last: what it reserved is free when the connection has
        ended.
        """
        self._last = request

    def requestDone(self, request: Any) -> None:
        """Go on with the next request, or close; a reader that never takes the rest is cut off."""
        keep = self.persistent and not self.retiring
        self.persistent = keep
        self.phase = Phase.IDLE if keep else Phase.DRAINING
        self.quiet_since = self.site.reactor.seconds()
        self._arm(self.site.limits.idle if keep else self.site.limits.drain)
        # The parser's own flag, which ends its loop over what was sent.
        self.paused = bool(keep)
        super().requestDone(request)
        if keep:
            self.paused = False
            if self._buffer:
                self._wait_for_turn()

    def _wait_for_turn(self) -> None:
        """Let others have theirs before the next request of this connection is looked at."""
        self.paused = True
        self._networkProducer.pauseProducing()
        self._turn = self.site.reactor.callLater(0, self._take_turn)

    def _take_turn(self) -> None:
        self._turn = None
        self.paused = False
        if not self._waitingForTransport:
            self._networkProducer.resumeProducing()
        self.dataReceived(b"")

    def _forgo_turn(self) -> None:
        turn, self._turn = self._turn, None
        if turn is not None:
            turn.cancel()

    def hand_over(self) -> None:
        """The transport belongs to someone else from now on."""
        self._disarm()
        self.site.forget(self)

    # Time

    def _arm(self, seconds: float) -> None:
        if self._timer is not None and self._timer.active():
            self._timer.reset(seconds)
        else:
            self._timer = self.site.reactor.callLater(seconds, self._due)

    def _disarm(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None and timer.active():
            timer.cancel()

    def _due(self) -> None:
        self._timer = None
        if self.phase in (Phase.HEADERS, Phase.BODY) and self.requests:
            # The sender is slow, not gone: say so, and swallow no more than what is under way.
            self._body_length = 0
            self.refuse(self.site.refusals.slow)
        elif self.phase in (Phase.IDLE, Phase.HEADERS, Phase.LINGERING):
            self.loseConnection()
            self.phase = Phase.DRAINING
            self._arm(self.site.limits.linger)
        elif self.phase is Phase.DRAINING:
            self.abort()

    def _swallow(self, size: int) -> None:
        self._lingered += size
        length = self._body_length
        if self._lingered > LINGER_BYTES or (length is not None and self._lingered >= length):
            self.loseConnection()


def _method(request: BoundedRequest | None) -> str:
    return "GET" if request is None else request.incoming_method
