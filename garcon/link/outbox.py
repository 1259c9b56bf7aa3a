"""What leaves one lane: queue, sealing and pace (control.md J.4).

Records are sealed only while the socket asks for more, and no more than a burst of them in one turn
of the reactor, so that a large message holds up neither the lane nor the process.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import IDelayedCall, IReactorTime

from garcon.contract.rpc import Lane
from garcon.link import frames
from garcon.link.fragments import WHOLE
from garcon.link.liveness import Liveness
from garcon.link.noise import Cipher, RecordLimit
from garcon.link.queue import Item, Kind, LaneQueue, SendBudget
from garcon.link.wire import IWire


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
        self._queue = LaneQueue(lane, budget)
        self._wire = wire
        self._cipher = cipher
        self._liveness = liveness
        self._clock = clock
        self._burst = burst
        self._used_up = used_up
        self._flushing = False
        self._later: IDelayedCall | None = None
        self.is_open = True

    @property
    def queued_bytes(self) -> int:
        """See `ILaneSession`."""
        return self._queue.queued_bytes

    def offer(self, text: bytes, kind: Kind, *, needs_number: bool = False) -> Item | None:
        """Admit a text; `flush` sends it."""
        return self._queue.offer(text, kind, needs_number=needs_number)

    def send(self, text: bytes, kind: Kind) -> bool:
        """Admit a text and send what can be sent; False when it is not admitted now."""
        if not self.is_open or self._queue.offer(text, kind) is None:
            return False
        self.flush()
        return True

    def withdraw(self, item: Item, instead: bytes) -> bool:
        """Take a waiting text out of the line, or else send `instead` behind it; return whether
        sending had begun.
        """
        if not self.is_open or self._queue.remove(item):
            return False
        self._queue.offer_behind(instead, item)
        self.flush()
        return True

    def flush(self) -> None:
        """Seal and send while the socket asks for more, a burst in each turn of the reactor."""
        if self._flushing or not self.is_open or self._later is not None:
            return
        self._flushing = True
        room = self._burst
        wire, seal, next_record = self._wire, self._cipher.seal, self._queue.next_record
        try:
            while wire.is_writable and self.is_open:
                record = next_record()
                if record is None:
                    return
                wire.send(seal(record))
                self._liveness.spoke = self._clock.seconds()
                room -= len(record)
                if room <= 0:
                    self._later = self._clock.callLater(0, self._flush_on)
                    return
        except RecordLimit:
            self._used_up()
        finally:
            self._flushing = False

    def _flush_on(self) -> None:
        self._later = None
        self.flush()

    def close(self, notice: frames.Close | None) -> None:
        """Send nothing more but the notice; what waited is dropped."""
        self.is_open = False
        if self._later is not None:
            self._later.cancel()
            self._later = None
        if notice is not None:
            try:
                text = frames.encode(notice)
                self._wire.send(self._cipher.seal(WHOLE + text, last=True))
            except RecordLimit:
                pass  # Then the peer has counted as far as we have.
        self._queue.drop()
