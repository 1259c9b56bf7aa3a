"""How many browser sockets there may be: places are reserved before the upgrade and confirmed when
the socket is open (server.md A.1, A.3).
"""

from __future__ import annotations

from typing import Literal

from attrs import define, field

Refusal = Literal["hard-capacity", "duplicate-connection", "unknown-reservation"]


@define(eq=False)
class Slots:
    """At most `limit` places, each with a number that is never used again."""

    limit: int
    _last: int = 0
    _reserved: set[int] = field(factory=set)
    _open: set[int] = field(factory=set)

    def __len__(self) -> int:
        return len(self._reserved) + len(self._open)

    def reserve(self) -> int | None:
        """Take a place and return its number; None when there is none."""
        if len(self) >= self.limit:
            return None
        self._last += 1
        self._reserved.add(self._last)
        return self._last

    def confirm(self, number: int) -> Refusal | None:
        """Make a reserved place an open socket's, or say why it cannot be."""
        if number in self._open:
            return "duplicate-connection"
        if number not in self._reserved:
            return "unknown-reservation"
        if len(self) > self.limit:
            return "hard-capacity"
        self._reserved.remove(number)
        self._open.add(number)
        return None

    def release(self, number: int) -> None:
        """Give a place back, reserved or open; again is no change."""
        self._reserved.discard(number)
        self._open.discard(number)
