"""What leaves one lane: queue, sealing and pace (control.md J.4).

Records are sealed only while the socket asks for more, and no more than a burst of them in one turn
of the reactor, so that a large message holds up neither the lane nor the process.  On bulk, one
that is more than a burst begins in a later turn than it came in: encoding it took that one's share
(pace.py).

What is sent without admission (errors, pongs, cancels) is an answer to what was read.  A peer that
makes much of it and takes none is not read from until it does.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import IReactorTime

from garcon.contract import limits
from garcon.contract.rpc import Lane
from garcon.link import frames
from garcon.link.fragments import WHOLE
from garcon.link.liveness import Liveness
from garcon.link.noise import Cipher, RecordLimit
from garcon.link.pace import pace_of
from garcon.link.queue import Item, Kind, LaneQueue, Progress, SendBudget
from garcon.link.wire import IWire

MOST_SMALL = limits.CALLS
"""So many unadmitted texts may wait before reading pauses: the errors of all calls at once."""


class Outbox:
    """The sending half of a session, which owns it and is told of a used-up key by `used_up`."""

    def __init__(
        self,
        lane: Lane,
        budget: SendBudget,
        wire: IWire,
        cipher: Cipher,
        liveness: Liveness,
        clock: IReactorTime,
        burst: int,
        used_up: Callable[[], None],
    ) -> None:
        self._lane = lane
        self._queue = LaneQueue(lane, budget)
        self._wire = wire
        self._cipher = cipher
        self._liveness = liveness
        self._clock = clock
        self._pace = pace_of(clock)
        self._burst = burst
        self._used_up = used_up
        self._flushing = False
        self._waits = False
        """Whether nothing more leaves in this turn."""
        self._pong: Item | None = None
        self._holds_reading = False
        self.is_open = True

    @property
    def queued_bytes(self) -> int:
        """See `ILaneSession`."""
        return self._queue.queued_bytes

    @property
    def queued_messages(self) -> int:
        """How many texts wait, or are on their way."""
        return self._queue.messages

    @property
    def oldest(self) -> float | None:
        """When the text was admitted that has waited longest."""
        return self._queue.oldest

    def offer(self, text: bytes, kind: Kind, *, needs_number: bool = False) -> Item | None:
        """Admit a text; `flush` sends it."""
        now = self._clock.seconds()
        item = self._queue.offer(text, kind, needs_number=needs_number, now=now)
        if item is not None and item.charged > self._burst and self._lane is Lane.BULK:
            self._wait()
        return item

    def send(self, text: bytes, kind: Kind) -> bool:
        """Admit a text and send what can be sent; False when it is not admitted now."""
        if not self.is_open or (kind is Kind.TERMINAL and not self._wire.is_writable):
            return False
        if self.offer(text, kind) is None:
            return False
        # Rows come in crowds; everything else is one message that somebody waits for.
        self.flush(soon=kind is Kind.PRODUCER)
        if self._queue.small > MOST_SMALL and self.is_open and not self._holds_reading:
            self._holds_reading = True
            self._wire.hold_reading(True)
        return True

    def pong(self) -> None:
        """Give a sign of life, unless one is still to be sent."""
        if self.is_open and (self._pong is None or self._pong.progress is not Progress.WAITING):
            self._pong = self.offer(frames.PONG, Kind.SMALL)
            self.flush()

    def withdraw(self, item: Item, instead: bytes) -> bool:
        """Take a waiting text out of the line, or else send `instead` behind it; return whether
        sending had begun.
        """
        if not self.is_open or self._queue.remove(item):
            return False
        self._queue.offer_behind(instead, item)
        self.flush()
        return True

    def flush(self, *, soon: bool = False) -> None:
        """Seal and send while the socket asks for more, a burst in each turn of the reactor; `soon`
        as the wire's `send` means it.
        """
        if self._flushing or not self.is_open or self._waits:
            return
        self._flushing = True
        room = self._burst
        wire, seal, next_record = self._wire, self._cipher.seal, self._queue.next_record
        try:
            while wire.is_writable and self.is_open:
                record = next_record()
                if record is None:
                    return
                wire.send(seal(record), soon=soon)
                self._liveness.spoke = self._clock.seconds()
                room -= len(record)
                if room <= 0:
                    self._wait()
                    return
        except RecordLimit:
            self._used_up()
        finally:
            self._flushing = False
            if self._holds_reading and self._queue.small <= MOST_SMALL // 2 and self.is_open:
                self._holds_reading = False
                self._wire.hold_reading(False)

    def _wait(self) -> None:
        self._waits = True
        self._pace.later(self._flush_on)

    def _flush_on(self) -> None:
        self._waits = False
        self.flush()

    def close(self, notice: frames.Close | None) -> None:
        """Send nothing more but the notice; what waited is dropped."""
        self.is_open = False
        self._pace.forget(self._flush_on)
        if notice is not None:
            try:
                text = frames.encode(notice)
                self._wire.send(self._cipher.seal(WHOLE + text, last=True))
            except RecordLimit:
                pass  # Then the peer has counted as far as we have.
        self._queue.drop()
