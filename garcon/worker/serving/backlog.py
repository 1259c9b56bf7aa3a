"""What the controller has not acknowledged yet: numbered frames of every binding, in publication
order.

Values only: the shell that offers them to the link is `relay.py`.
"""

from __future__ import annotations

from collections import deque

from attrs import define, field, frozen

from garcon.contract import limits


@frozen
class Frame:
    """One encoded event.  `seq` counts from 1 within its binding."""

    binding_id: str
    seq: int
    content: bytes


@define(eq=False)
class _Stream:
    last: int = 0
    sent: int = 0
    retained: deque[Frame] = field(factory=deque)


@define(eq=False)
class Backlog:
    """Keep every frame until it is acknowledged, within one budget for all bindings.

    Rows are refused when they no longer fit; the few other facts of a run (session, permissions,
    end) always are taken, since without them the controller could not even tell that something is
    missing.
    """

    budget: int = limits.PRODUCER_RETENTION
    largest: int = limits.RUN_EVENT
    size: int = field(default=0, init=False)
    _streams: dict[str, _Stream] = field(factory=dict, init=False)
    _unsent: deque[Frame] = field(factory=deque, init=False)

    def open(self, binding_id: str) -> None:
        """Start a stream; opening it twice changes nothing."""
        self._streams.setdefault(binding_id, _Stream())

    def close(self, binding_id: str) -> None:
        """Forget a stream and all that is left of it."""
        stream = self._streams.pop(binding_id, None)
        if stream is not None:
            self.size -= sum(len(frame.content) for frame in stream.retained)

    def add(self, binding_id: str, content: bytes, *, must: bool) -> bool:
        """Number and keep an event; False if there is no room (never with `must`), if no message
        can hold it, or if its stream is closed.
        """
        stream = self._streams.get(binding_id)
        if stream is None or len(content) > self.largest:
            return False
        if not must and self.size + len(content) > self.budget:
            return False
        stream.last += 1
        frame = Frame(binding_id, stream.last, content)
        stream.retained.append(frame)
        self._unsent.append(frame)
        self.size += len(content)
        return True

    def take(self) -> Frame | None:
        """Return the oldest frame that was not sent, as sent from now on, or None.

        It stays kept until it is acknowledged, which can happen while it is being handed over.
        """
        while self._unsent:
            frame = self._unsent.popleft()
            stream = self._streams.get(frame.binding_id)
            if stream is not None:
                stream.sent = frame.seq
                return frame
        return None

    def put_back(self, frame: Frame) -> None:
        """The frame just taken was not admitted: it is the next one again."""
        stream = self._streams.get(frame.binding_id)
        if stream is not None:
            stream.sent = frame.seq - 1
            self._unsent.appendleft(frame)

    def acknowledge(self, binding_id: str, seq: int) -> None:
        """Free a stream's frames up to `seq`; unknown streams and unsent numbers are ignored."""
        stream = self._streams.get(binding_id)
        if stream is None:
            return
        retained, seq = stream.retained, min(seq, stream.sent)
        while retained and retained[0].seq <= seq:
            self.size -= len(retained.popleft().content)

    def is_drained(self, binding_id: str) -> bool:
        """Whether nothing of this stream waits for an acknowledgement."""
        stream = self._streams.get(binding_id)
        return stream is None or not stream.retained
