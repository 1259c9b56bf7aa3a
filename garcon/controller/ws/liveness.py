"""Whether a socket's peer is still there (server.md A.2): times in, what to do out.

Pings keep the connection known to whatever lies between, and a peer that answers none of them is
gone.  Only what is heard counts: sending proves nothing.
"""

from __future__ import annotations

from enum import Enum

from attrs import define

PING_EVERY = 30.0
"""Proxies and address translators forget a quiet connection after a minute or more."""
_PINGS = 4
"""A short idle time has room for so many pings at least."""


class Due(Enum):
    """What the time has come for."""

    NOTHING = "nothing"
    PING = "ping"
    CLOSE = "close"


@define(eq=False)
class Liveness:
    """One socket's silence.  `idle` seconds without any frame end it."""

    idle: float
    _heard: float
    _pinged: float = 0.0

    @property
    def interval(self) -> float:
        """Seconds between pings."""
        return min(PING_EVERY, self.idle / _PINGS)

    def heard(self, now: float) -> None:
        """Any frame came."""
        self._heard = now

    def due(self, now: float) -> tuple[Due, float]:
        """Return what to do now, and after how many seconds to ask again."""
        silent_until = self._heard + self.idle
        if now >= silent_until:
            return Due.CLOSE, 0.0
        next_ping = max(self._heard, self._pinged) + self.interval
        if now < next_ping:
            return Due.NOTHING, min(next_ping, silent_until) - now
        self._pinged = now
        return Due.PING, min(self.interval, silent_until - now)
