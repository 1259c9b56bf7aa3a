"""Facts of a run that wait until something is known: the fate of a decision, a steer or a stop."""

from __future__ import annotations

import msgspec
from attrs import define, field

from garcon.contract.runs import RunEvent
from garcon.controller.chats.commits import PENDING_BYTES, PENDING_ROWS


@define
class Held:
    """Keeps facts in order while at least one thing is waited for."""

    _holds: int = 0
    _events: list[RunEvent] = field(factory=list)
    _size: int = 0
    is_closed: bool = False
    """Nothing of it will be wanted any more."""

    @property
    def is_on(self) -> bool:
        return self._holds > 0

    @property
    def is_full(self) -> bool:
        """Whether more waits than may."""
        return len(self._events) > PENDING_ROWS or self._size > PENDING_BYTES

    def hold(self) -> None:
        """Wait for one thing more."""
        self._holds += 1

    def let_go(self) -> None:
        """Wait for one thing less; `taken` then has what may go on."""
        self._holds -= 1

    def keep(self, event: RunEvent) -> None:
        """Let a fact wait; it is dropped once this is closed."""
        if self.is_closed:
            return
        self._events.append(event)
        self._size += len(msgspec.json.encode(event))

    def taken(self) -> list[RunEvent]:
        """Return what need not wait any more, once."""
        if self._holds:
            return []
        events, self._events, self._size = self._events, [], 0
        return events

    def close(self) -> None:
        """Forget what waits, and whatever comes."""
        self.is_closed = True
        self.drop()

    def drop(self) -> None:
        """Forget what waits."""
        self._events, self._size = [], 0
