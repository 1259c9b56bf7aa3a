"""What the controller has not acknowledged yet: numbered frames of every binding, in publication
order (control.md J.10).

A stream is offered while it is live, that is: bound or resumed by the session that is there now.
Frames that were handed to a session wait for their acknowledgement; when the session is lost they
are offered again to the next one that resumes their stream.  All that is kept has one budget: what
passes it costs the largest backlog its oldest rows, and never a session, a permission or the end of
a run, without which the controller could not even tell that something is missing.

Such facts are never dropped, and a worker's memory is bounded (security.txt).  So past twice the
budget a fact is refused before it is numbered, and whoever published it has to end its run and say
why; `is_due` facts, of which a stream has one or two at most, are always kept, and every stream has
a small share that what others keep cannot take from it.

Of each stream only so much is handed out and not acknowledged.  The controller acknowledges what it
has put where it belongs, so that a long replay comes no faster than it can be stored.  A stream in
which something waits behind that welcomes no more: its agent is left to its pipe.  Not so one whose
session is lost, as its run goes on without the controller.

Values only: the shell that offers frames to the link is `relay.py`.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from heapq import heapify, heappop, heappush, heapreplace

from attrs import define, field

from garcon.contract import limits

WELCOME_FRAMES, WELCOME_BYTES = 1_024, limits.MIB
"""As long as no more of a stream waits to be handed out, more is welcome."""


@define(eq=False)
class Frame:
    """One encoded event.  `seq` counts from 1 within its binding, `order` over all of them."""

    binding_id: str
    seq: int
    order: int
    content: bytes


@define(eq=False)
class _Stream:
    is_live: bool = True
    is_announced: bool = False
    """It has its one entry in the heap of heads."""
    last: int = 0
    size: int = 0
    handed_size: int = 0
    handed: OrderedDict[int, Frame] = field(factory=OrderedDict)
    """Given to the present session, or to a lost one, and not acknowledged."""
    waiting: OrderedDict[int, Frame] = field(factory=OrderedDict)
    rows: deque[Frame] = field(factory=deque)
    """Those of both that may be dropped, oldest first."""

    def head(self) -> Frame | None:
        """The next frame to be offered, if there is one and not too much is under way."""
        if (
            not self.is_live
            or not self.waiting
            or len(self.handed) >= limits.PRODUCER_WINDOW_FRAMES
            or self.handed_size >= limits.PRODUCER_WINDOW_BYTES
        ):
            return None
        return next(iter(self.waiting.values()))

    def hand_out(self, frame: Frame) -> None:
        del self.waiting[frame.seq]
        self.handed[frame.seq] = frame
        self.handed_size += len(frame.content)

    def take_back(self) -> None:
        """Everything handed out waits again, before what waits already."""
        self.handed.update(self.waiting)
        self.handed, self.waiting = OrderedDict(), self.handed
        self.handed_size = 0

    def remove(self, frame: Frame) -> None:
        if self.handed.pop(frame.seq, None) is not None:
            self.handed_size -= len(frame.content)
        self.waiting.pop(frame.seq, None)
        self.size -= len(frame.content)

    def acknowledge(self, seq: int) -> None:
        """Free what was handed out up to a number."""
        while self.handed:
            first = next(iter(self.handed.values()))
            if first.seq > seq:
                break
            self.remove(first)
            while self.rows and self.rows[0].seq <= first.seq:
                self.rows.popleft()


@define(eq=False)
class Backlog:
    """Keep every frame until it is acknowledged, within one budget for all bindings."""

    budget: int = limits.PRODUCER_RETENTION
    largest: int = limits.RUN_EVENT
    share: int = limits.PRODUCER_SHARE
    size: int = field(default=0, init=False)
    dropped: int = field(default=0, init=False)
    """Rows given up so far."""
    _streams: dict[str, _Stream] = field(factory=dict, init=False)
    _order: int = field(default=0, init=False)
    _heads: list[tuple[int, str]] = field(factory=list, init=False)
    """A heap with the first waiting frame of each live stream, by order; corrected when read."""
    _refused: Frame | None = field(default=None, init=False)

    def open(self, binding_id: str) -> None:
        """Start a live stream; one that is there is live from now on."""
        if binding_id in self._streams:
            self.resume(binding_id, 0)
        else:
            self._streams[binding_id] = _Stream()

    def close(self, binding_id: str) -> None:
        """Forget a stream and all that is left of it."""
        stream = self._streams.pop(binding_id, None)
        if stream is not None:
            self.size -= stream.size

    def orphan(self, binding_id: str) -> None:
        """The session of a stream is lost: keep its frames, and offer none."""
        stream = self._streams.get(binding_id)
        if stream is not None:
            stream.is_live = False

    def resume(self, binding_id: str, acknowledged: int) -> int:
        """Offer what was not acknowledged again, first things first; return the last number given
        out.
        """
        stream = self._streams[binding_id]
        before = stream.size
        stream.acknowledge(acknowledged)
        self.size -= before - stream.size
        stream.take_back()
        stream.is_live = True
        # What comes again is older than what the stream's entry stands for.
        self._heads = [entry for entry in self._heads if entry[1] != binding_id]
        heapify(self._heads)
        stream.is_announced = False
        self._announce(binding_id, stream)
        return stream.last

    def add(self, binding_id: str, content: bytes, *, is_row: bool, is_due: bool = False) -> bool:
        """Number and keep an event.

        A row that cannot be kept is a number that never comes; False for anything else that cannot,
        or if the stream is closed.
        """
        stream = self._streams.get(binding_id)
        if stream is None:
            return False
        fits = len(content) <= self.largest and (
            is_row
            or is_due
            or self.size + len(content) <= 2 * self.budget
            or stream.size + len(content) <= self.share
        )
        if not fits and not is_row:
            return False
        stream.last += 1
        self._order += 1
        if not fits:
            self.dropped += 1
            return True
        frame = Frame(binding_id, stream.last, self._order, content)
        stream.waiting[frame.seq] = frame
        stream.size += len(content)
        self.size += len(content)
        if is_row:
            stream.rows.append(frame)
        self._announce(binding_id, stream)
        while self.size > self.budget and self._drop_a_row():
            pass
        return True

    def take(self) -> Frame | None:
        """Return the oldest frame that was not handed out, as handed out from now on, or None.

        It stays kept until it is acknowledged, which can happen while it is being handed over.
        """
        refused, self._refused = self._refused, None
        if refused is not None:
            stream = self._streams.get(refused.binding_id)
            if stream is not None and stream.is_live and stream.handed.get(refused.seq) is refused:
                return refused
        while self._heads:
            order, binding_id = self._heads[0]
            stream = self._streams.get(binding_id)
            frame = None if stream is None else stream.head()
            if stream is None or frame is None:
                heappop(self._heads)
                if stream is not None:
                    stream.is_announced = False
            elif frame.order != order:
                heapreplace(self._heads, (frame.order, binding_id))
            else:
                heappop(self._heads)
                stream.is_announced = False
                stream.hand_out(frame)
                self._announce(binding_id, stream)
                return frame
        return None

    @property
    def may_offer(self) -> bool:
        """Whether it is worth while to ask for the next frame."""
        return bool(self._heads) or self._refused is not None

    def put_back(self, frame: Frame) -> None:
        """The frame just taken was not admitted: it is the next one again."""
        self._refused = frame

    def acknowledge(self, binding_id: str, seq: int) -> None:
        """Free a stream's frames up to `seq`; unknown streams and numbers that were not handed out
        are ignored.
        """
        stream = self._streams.get(binding_id)
        if stream is not None:
            before = stream.size
            stream.acknowledge(seq)
            self.size -= before - stream.size
            self._announce(binding_id, stream)

    def is_drained(self, binding_id: str) -> bool:
        """Whether nothing of this stream waits for an acknowledgement."""
        stream = self._streams.get(binding_id)
        return stream is None or not (stream.handed or stream.waiting)

    def has_room(self, binding_id: str) -> bool:
        """Whether more is welcome of this stream; of one that is not there whatever comes is
        dropped.
        """
        stream = self._streams.get(binding_id)
        if stream is None or not stream.is_live:
            return True
        if 2 * self.size > self.budget and stream.size > self.share:
            return False  # many streams together: before rows of one must go
        waiting = stream.size - stream.handed_size
        return len(stream.waiting) <= WELCOME_FRAMES and waiting <= WELCOME_BYTES

    def _announce(self, binding_id: str, stream: _Stream) -> None:
        head = stream.head()
        if head is not None and not stream.is_announced:
            stream.is_announced = True
            heappush(self._heads, (head.order, binding_id))

    def _drop_a_row(self) -> bool:
        largest = max(
            (stream for stream in self._streams.values() if stream.rows),
            key=lambda stream: stream.size,
            default=None,
        )
        if largest is None:
            return False
        frame = largest.rows.popleft()
        largest.remove(frame)
        self.size -= len(frame.content)
        self.dropped += 1
        return True
