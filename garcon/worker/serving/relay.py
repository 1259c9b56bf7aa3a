"""The shell around the backlog: offers frames to the link as its queue drains, until each is
acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from msgspec import Raw, Struct
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from garcon.contract.limits import KIB, RETRY
from garcon.contract.rpc import ProducerFrame
from garcon.deferreds import Waiters
from garcon.worker.serving.backlog import Backlog

BURST_FRAMES, BURST_BYTES = 64, 256 * KIB
"""Offered in one turn of the reactor; a long replay must not keep others from theirs."""


@define(eq=False)
class Relay:
    """Publish encoded events of all bindings in the order in which they came.

    While no stream is live nothing is offered, and no timer runs.
    """

    _clock: IReactorTime
    _offer: Callable[[int, Struct], bool]
    _backlog: Backlog = field(factory=Backlog)
    _retry_after: float = RETRY
    _retry: IDelayedCall | None = None
    _is_pumping: bool = False
    _rooms: dict[str, Waiters[None]] = field(factory=dict)
    """Who waits until more is welcome, by binding."""

    def open(self, binding_id: str) -> None:
        """Start the stream of a binding, numbered from 1."""
        self._backlog.open(binding_id)

    def close(self, binding_id: str) -> None:
        """End a stream; what was not delivered of it is dropped."""
        self._backlog.close(binding_id)
        self._let_in()

    def orphan(self, binding_id: str) -> None:
        """Keep a stream whose session is lost, for the next one that resumes it."""
        self._backlog.orphan(binding_id)
        self._let_in()

    def resume(self, binding_id: str, acknowledged: int) -> int:
        """Send a stream's frames again that were not acknowledged, in a moment: the caller's answer
        goes first.  Returns the number up to which they have been given out so far.
        """
        last = self._backlog.resume(binding_id, acknowledged)
        self._pump_soon()
        return last

    def publish(
        self, binding_id: str, content: bytes, *, is_row: bool, is_due: bool = False
    ) -> bool:
        """Send an event, now or as soon as the link takes it; False if it cannot be kept."""
        kept = self._backlog.add(binding_id, content, is_row=is_row, is_due=is_due)
        if kept and self._retry is None and not self._is_pumping:
            self._pump()
        return kept

    def room(self, binding_id: str) -> Deferred[None]:
        """Fire once more is welcome of a stream; at once when it is."""
        if self._backlog.has_room(binding_id):
            return succeed(None)
        return self._rooms.setdefault(binding_id, Waiters()).wait()

    def acknowledged(self, acknowledgements: dict[str, int]) -> list[str]:
        """Free what the controller has; return those of the streams with nothing outstanding."""
        for binding_id, seq in acknowledgements.items():
            self._backlog.acknowledge(binding_id, seq)
        self._pump_soon()
        self._let_in()
        return [name for name in acknowledgements if self._backlog.is_drained(name)]

    def is_drained(self, binding_id: str) -> bool:
        """Whether the controller has acknowledged all of this stream."""
        return self._backlog.is_drained(binding_id)

    def stop(self) -> None:
        """Offer nothing more."""
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None

    def _pump_soon(self) -> None:
        if self._retry is None and not self._is_pumping and self._backlog.may_offer:
            self._retry = self._clock.callLater(0, self._pump)

    def _pump(self) -> None:
        self._retry = None
        self._is_pumping = True
        try:
            wait = self._offer_some()
        finally:
            self._is_pumping = False
        if wait is not None:
            self._retry = self._clock.callLater(wait, self._pump)
        self._let_in()

    def _let_in(self) -> None:
        for binding_id in [name for name in self._rooms if self._backlog.has_room(name)]:
            self._rooms.pop(binding_id).fire(None)

    def _offer_some(self) -> float | None:
        """Offer a burst of frames; return how long to wait before the next, None if there is none
        to offer.
        """
        frames = size = 0
        while frames < BURST_FRAMES and size < BURST_BYTES:
            frame = self._backlog.take()
            if frame is None:
                return None
            if not self._offer(frame.seq, ProducerFrame(frame.binding_id, Raw(frame.content))):
                self._backlog.put_back(frame)
                return self._retry_after
            frames += 1
            size += len(frame.content)
        return 0
