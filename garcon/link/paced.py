"""What WebSockets over Autobahn have in common here, lanes as well as browsers' sockets.

Whatever comes is taken within a share of the reactor's turns (`pace.py`); what is left when that is
over waits, and nothing more is read.  A read buffer holds ten thousand of the smallest frames, and
whoever sends them need not have proven anything yet: they would hold up everybody else for a
quarter of a second, again and again.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure

from garcon.link.pace import Pace, pace_of

ENDING = 0.01
"""Seconds for what is left when a connection has ended, all at once."""


class _Quiet:
    """What Autobahn logs to: its lines cost more than sealing a small record, and could show what a
    client sends.
    """

    def _nothing(self, *args: object, **more: object) -> None:
        pass

    trace = debug = info = warn = error = critical = failure = _nothing


class PacedWire:
    """Mixed in before Autobahn's protocol, which parses.  Whoever uses it sets `_is_over` in
    `onClose`.
    """

    log = _Quiet()
    factory: Any
    transport: Any
    state: Any
    STATE_OPEN: Any
    STATE_CLOSING: Any
    STATE_CLOSED: Any
    failedByMe: Any
    frame_data: Any

    _pace: Pace
    _waits = False
    """Whether something that was read is for a later turn."""
    _is_held = False
    _reads = True
    _is_over = False
    _message: bytes | bytearray = b""
    """What has come of a message."""

    def hold_reading(self, is_held: bool) -> None:
        """Read no further, or go on as soon as nothing waits."""
        self._is_held = is_held
        self._read_or_not()

    def abort(self) -> None:
        """Close at once, with whatever is unsent."""
        if not self._is_over and self.transport is not None:
            self.transport.abortConnection()

    def _take_over(self) -> None:
        """The upgrade is done: the connection is ours."""
        self._pace = pace_of(self.factory.reactor)
        # Autobahn 26.10.2 looks for its own option before it has one, and swallows the error; with
        # Nagle's algorithm the end of a large message waits for a delayed acknowledgement.
        self.transport.setTcpNoDelay(True)
        # On a server the HTTP channel is still the transport's producer.
        self.transport.unregisterProducer()
        self.transport.registerProducer(self, True)

    def _read_or_not(self) -> None:
        reads = not (self._is_held or self._waits)
        if reads is not self._reads and not self._is_over:
            self._reads = reads
            if reads:
                self.transport.resumeProducing()
            else:
                self.transport.pauseProducing()

    def _wait_for_turn(self) -> None:
        self._waits = True
        self._pace.later(self._take_rest)

    def _take_rest(self) -> None:
        self._waits = False
        self.consumeData()

    def _is_owed(self) -> bool:
        """Whether what waits has to be taken although the connection has ended."""
        return False

    def stopProducing(self) -> None:
        """The connection's end is told by `onClose`."""

    # -- Autobahn

    def consumeData(self) -> None:
        """Parse what has come, as far as this turn's share goes."""
        if self.state not in (self.STATE_OPEN, self.STATE_CLOSING):
            super().consumeData()  # type: ignore[misc]  # Autobahn's
            return
        if self._waits:
            return
        now, share = self.factory.reactor.seconds, self._pace.share
        began = now()
        while self.processData() and self.state != self.STATE_CLOSED:  # type: ignore[attr-defined]
            if now() - began >= share:
                self._wait_for_turn()
                break
        self._pace.spent(now() - began)
        self._read_or_not()

    def onMessageFrameData(self, payload: bytes) -> None:
        """A piece of a message came.  Autobahn's own method keeps a list of them, and a million
        pieces, of which each may be empty, take fifty times what they hold.
        """
        if not self.failedByMe:
            if not self._message:
                self._message = payload
                return
            if isinstance(self._message, bytes):
                self._message = bytearray(self._message)
            self._message += payload

    def onMessageFrameEnd(self) -> None:
        """One of a message's frames is complete."""
        self.frame_data = None

    def _taken(self) -> bytes:
        """Return a message that is complete."""
        message, self._message = self._message, b""
        return bytes(message)

    def sendData(self, data: bytes, sync: bool = False, chopsize: int | None = None) -> None:
        """Write; Autobahn's own method first builds the words of a log line."""
        self.transport.write(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Take what had come before the end: all of it where it is owed, else as much as takes no
        longer than `ENDING`.
        """
        now = self.factory.reactor.seconds
        until = now() + ENDING
        while self._waits:
            self._pace.forget(self._take_rest)
            if not self._is_owed() and now() >= until:
                break
            self._take_rest()
        super().connectionLost(reason)  # type: ignore[misc]  # Autobahn's
