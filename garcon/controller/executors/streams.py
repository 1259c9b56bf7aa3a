"""The numbered stream of one run's facts: what is new, what was seen, what is missing (J.10)."""

from __future__ import annotations

from enum import Enum

from attrs import define


class Arrival(Enum):
    """What a numbered frame is to its stream."""

    NEXT = "next"
    DUPLICATE = "duplicate"
    AFTER_GAP = "after-gap"


@define
class Stream:
    """Numbers from 1, each taken once; a skipped one is output that will never come."""

    taken: int = 0
    """The highest number taken: everything up to it may be acknowledged."""

    def take(self, seq: int) -> Arrival:
        """Take a frame by its number."""
        if seq <= self.taken:
            return Arrival.DUPLICATE
        arrival = Arrival.NEXT if seq == self.taken + 1 else Arrival.AFTER_GAP
        self.taken = seq
        return arrival
