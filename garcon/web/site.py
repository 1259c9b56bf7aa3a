"""The door: a bounded HTTP/1.1 site over twisted.web's parser.  `channel.py` has one connection of
it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IAddress, IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.web.http import datetimeToString
from twisted.web.resource import Resource
from twisted.web.server import Site

from garcon.deferreds import Waiters
from garcon.web.channel import BoundedChannel, Phase
from garcon.web.exchange import PLAIN_REFUSALS, Answerer, DoorLimits, IDoorPolicy, Refusals

_QUIET = 1.0
"""How long a connection keeps its place though it asks for nothing, or for what anybody may ask."""
_EVICTION_PACE = 0.05
"""How long a connection that has lost its place is kept at least after the one before."""


class BoundedSite(Site):
    """Serve `answer` behind `policy`, within `limits`.

    `headers` go with every answer that has none of the same name.  Nothing is access-logged: paths
    and queries may name private things.
    """

    _log = Logger()

    displayTracebacks = False
    # The factory's own start and stop lines say nothing to an operator.
    noisy = False

    def __init__(
        self,
        reactor: IReactorTime,
        policy: IDoorPolicy,
        answer: Answerer,
        limits: DoorLimits | None = None,
        headers: Mapping[str, str] | None = None,
        wall_clock: Callable[[], float] = time.time,
        refusals: Refusals = PLAIN_REFUSALS,
    ) -> None:
        super().__init__(Resource(), timeout=None, reactor=reactor, parsePOSTFormSubmission=False)
        self.policy = policy
        self.answer = answer
        self.limits = limits or DoorLimits()
        self.refusals = refusals
        self.channels: dict[BoundedChannel, None] = {}
        """All connections, oldest first."""
        self._leaving: dict[BoundedChannel, IDelayedCall] = {}
        self._last_thrown_out = 0.0
        self.uploading = 0
        """Body bytes in memory, of all connections."""
        self._fixed = dict(headers or {})
        self._wall_clock = wall_clock
        self._second = -1
        self._date = self._common = b""
        self._closing = False
        self._emptied: Waiters[None] = Waiters()

    def startFactory(self) -> None:
        """Nothing is opened: there is no access log and no clock tick for one."""

    def stopFactory(self) -> None:
        """Nothing to close; see `close`."""

    def log(self, request: Any) -> None:
        """Keep no access log."""

    def buildProtocol(  # type: ignore[override]  # ours speaks no HTTP/2, so nothing is wrapped
        self, addr: IAddress | None
    ) -> BoundedChannel | None:
        """Take a connection.  When there are too many, one that has asked for nothing for a while
        gives its place, or else one of nobody who is known; where there is none, the newcomer is
        closed at once.
        """
        if self._closing:
            return None
        if len(self.channels) - len(self._leaving) >= self.limits.connections:
            oldest = self._oldest_idle() or self._oldest_unknown()
            if oldest is None or len(self._leaving) >= self.limits.connections:
                return None
            self._throw_out(oldest)
        channel = BoundedChannel(self)
        self.channels[channel] = None
        return channel

    def _oldest_idle(self) -> BoundedChannel | None:
        """Return the oldest connection that asks for nothing: if possible one that never has, else
        one that was refused and whose body is only swallowed, at last one that takes nothing of
        its answer.
        """
        long_ago = self.reactor.seconds() - _QUIET
        quiet = [
            channel
            for channel in self.channels
            if channel not in self._leaving and channel.quiet_since <= long_ago
        ]
        for phase in (Phase.HEADERS, Phase.LINGERING, Phase.IDLE, Phase.DRAINING):
            for channel in quiet:
                if channel.phase is phase:
                    return channel
        return None

    def _oldest_unknown(self) -> BoundedChannel | None:
        """Return the oldest connection that has had its time to say who asks, and has not: it may
        keep its place as long as there is room, however much it asks.
        """
        long_ago = self.reactor.seconds() - _QUIET
        for channel in self.channels:
            if not (channel in self._leaving or channel.is_known or channel.began > long_ago):
                return channel
        return None

    def _throw_out(self, channel: BoundedChannel) -> None:
        """Read no more of a connection, and close it a moment later: whoever comes again at once
        must not throw out the next one before that can have said anything.
        """
        channel.stop_reading()
        now, kept = self.reactor.seconds(), self.limits.eviction
        before, self._last_thrown_out = self._last_thrown_out, now + kept
        if kept:
            self._last_thrown_out = max(now + kept, before + _EVICTION_PACE)
        self._leaving[channel] = self.reactor.callLater(self._last_thrown_out - now, channel.abort)

    def forget(self, channel: BoundedChannel) -> None:
        """A connection has ended, or belongs to a WebSocket now."""
        self.channels.pop(channel, None)
        timer = self._leaving.pop(channel, None)
        if timer is not None and timer.active():
            timer.cancel()
        if not self.channels:
            self._emptied.fire(None)

    def common_headers(self, own: Mapping[str, str]) -> bytes:
        """Return the headers of every answer, with the current date, but for an answer's `own`;
        those of most answers are made anew once a second.
        """
        now = int(self._wall_clock())
        if now != self._second:
            self._second = now
            self._date = b"Date: " + datetimeToString(now) + b"\r\n"
            self._common = self._date + _rendered(self._fixed)
        if self._fixed.keys().isdisjoint(own):
            return self._common
        return self._date + _rendered({k: v for k, v in self._fixed.items() if k not in own})

    def close(self, grace: float) -> Deferred[None]:
        """End every connection: idle ones now, those with an answer under way within `grace`
        seconds.

        Fires when all are gone.  The caller has stopped listening.
        """
        self._closing = True
        for channel in list(self.channels):
            channel.retire()
        if not self.channels:
            return succeed(None)

        def abort() -> None:
            for channel in list(self.channels):
                channel.abort()

        timer = self.reactor.callLater(grace, abort)
        gone = self._emptied.wait()

        def ended(result: None) -> None:
            if timer.active():
                timer.cancel()

        return gone.addCallback(ended)


def _rendered(headers: Mapping[str, str]) -> bytes:
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode("latin-1")
