"""Acknowledgements of replies that the peer keeps, sent in batches (control.md J.5, J.6)."""

from __future__ import annotations

from twisted.internet.interfaces import IDelayedCall, IReactorTime

from garcon.contract import limits
from garcon.link.frames import ReplyAck, encode
from garcon.link.outbox import Outbox
from garcon.link.queue import Kind


class Acks:
    """One session's batch.  What the session's end leaves unsaid the next reconciliation says."""

    def __init__(self, outbox: Outbox, clock: IReactorTime, every: float) -> None:
        self._outbox = outbox
        self._clock = clock
        self._every = every
        self._ids: list[str] = []
        self._timer: IDelayedCall | None = None

    def add(self, call_id: str) -> None:
        """A kept reply has arrived."""
        self._ids.append(call_id)
        if len(self._ids) >= limits.ACK_IDS:
            self._flush()
        elif self._timer is None:
            self._timer = self._clock.callLater(self._every, self._due)

    def _due(self) -> None:
        self._timer = None
        self._flush()

    def _flush(self) -> None:
        self.close_timer()
        ids, self._ids = self._ids, []
        self._outbox.send(encode(ReplyAck(ids)), Kind.SMALL)

    def close_timer(self) -> None:
        """Send no more by itself."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
