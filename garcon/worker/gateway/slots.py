"""How many answers the gateway works on at once, with some of them kept for the primary lane."""

from __future__ import annotations

from attrs import define, field

from garcon.contract import limits
from garcon.contract.rpc import Lane


@define(eq=False)
class Slot:
    """One answer in flight, from the request's headers to the last byte the client took."""

    _slots: Slots
    _lane: Lane
    _is_held: bool = True

    def release(self) -> None:
        """Give the slot back; again changes nothing."""
        if self._is_held:
            self._is_held = False
            self._slots._released(self._lane)


@define(eq=False)
class Slots:
    """Admit at most `total` answers, of them at most `bulk` on the bulk lane.  Nobody waits: full
    is full.
    """

    total: int = limits.GATEWAY_RESPONSES
    bulk: int = limits.GATEWAY_RESPONSES_BULK
    _taken: dict[Lane, int] = field(factory=lambda: dict.fromkeys(Lane, 0), init=False)

    @property
    def taken(self) -> int:
        return sum(self._taken.values())

    def take(self, lane: Lane) -> Slot | None:
        """Return a slot, or None when there is none for this lane."""
        if self.taken >= self.total:
            return None
        if lane is Lane.BULK and self._taken[Lane.BULK] >= self.bulk:
            return None
        self._taken[lane] += 1
        return Slot(self, lane)

    def _released(self, lane: Lane) -> None:
        self._taken[lane] -= 1
