"""The shell around the backlog: offers frames to the link as its queue drains, until each is
acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from msgspec import Raw, Struct
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from garcon.worker.serving.backlog import Backlog

RETRY = 0.01
"""How long a frame waits that the link did not admit (control.md J.5)."""


class SealedFrame(Struct, frozen=True, rename="camel"):
    """A `ProducerFrame` whose event is encoded already: on the wire the two are the same."""

    binding_id: str
    event: Raw


@define(eq=False)
class Relay:
    """Publish encoded events of all bindings in the order in which they came."""

    _clock: IReactorTime
    _offer: Callable[[int, Struct], bool]
    _backlog: Backlog = field(factory=Backlog)
    _retry: IDelayedCall | None = None

    def open(self, binding_id: str) -> None:
        """Start the stream of a binding, numbered from 1."""
        self._backlog.open(binding_id)

    def close(self, binding_id: str) -> None:
        """End a stream; what was not delivered of it is dropped."""
        self._backlog.close(binding_id)

    def publish(self, binding_id: str, content: bytes, *, must: bool) -> bool:
        """Send an event, now or as soon as the link takes it; False if it cannot be kept."""
        kept = self._backlog.add(binding_id, content, must=must)
        if kept and self._retry is None:
            self._pump()
        return kept

    def acknowledged(self, acknowledgements: dict[str, int]) -> list[str]:
        """Free what the controller has; return those of the streams with nothing outstanding."""
        for binding_id, seq in acknowledgements.items():
            self._backlog.acknowledge(binding_id, seq)
        return [name for name in acknowledgements if self._backlog.is_drained(name)]

    def is_drained(self, binding_id: str) -> bool:
        """Whether the controller has acknowledged all of this stream."""
        return self._backlog.is_drained(binding_id)

    def stop(self) -> None:
        """Offer nothing more."""
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None

    def _pump(self) -> None:
        self._retry = None
        while (frame := self._backlog.take()) is not None:
            if not self._offer(frame.seq, SealedFrame(frame.binding_id, Raw(frame.content))):
                self._backlog.put_back(frame)
                self._retry = self._clock.callLater(RETRY, self._pump)
                return
