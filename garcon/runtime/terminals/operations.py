"""What waits to be done with a terminal: input and sizes, in one order (values only; server.md
C.5).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from attrs import define, field

from garcon.contract.limits import TERMINAL_OPERATIONS, TERMINAL_OPERATIONS_BYTES
from garcon.contract.terminals import BACKPRESSURE, TerminalSize, terminal_error


@define(eq=False)
class Operation:
    """One input, or a size; `generation` is the ownership it was given under.

    `tickets` are for whoever wants to know of its end: one for an input, one for each of the sizes
    that became this one.
    """

    generation: int
    data: bytes | None = None
    size: TerminalSize | None = None
    tickets: list[Any] = field(factory=list)

    @property
    def weight(self) -> int:
        """What it takes of the byte bound."""
        return 0 if self.data is None else len(self.data)


@define(eq=False)
class Operations:
    """One terminal's queue.  Sizes are merged while no input lies between them."""

    limit: int = TERMINAL_OPERATIONS
    bytes_limit: int = TERMINAL_OPERATIONS_BYTES
    weight: int = field(default=0, init=False)
    _waiting: deque[Operation] = field(factory=deque, init=False)

    def __len__(self) -> int:
        return len(self._waiting)

    def type(self, generation: int, data: bytes, ticket: Any) -> None:
        """Add an input, or raise ``terminal-backpressure`` and add nothing of it."""
        self._add(Operation(generation, data=data, tickets=[ticket]))

    def resize(self, generation: int, size: TerminalSize, ticket: Any) -> None:
        """Add a size, or let it take the place of one that nothing follows."""
        last = self._waiting[-1] if self._waiting else None
        if last is not None and last.size is not None and last.generation == generation:
            last.size = size
            last.tickets.append(ticket)
        else:
            self._add(Operation(generation, size=size, tickets=[ticket]))

    def _add(self, operation: Operation) -> None:
        if len(self._waiting) >= self.limit or self.weight + operation.weight > self.bytes_limit:
            raise terminal_error(
                BACKPRESSURE, "Too much input waits for this terminal; nothing of it was typed."
            )
        self._waiting.append(operation)
        self.weight += operation.weight

    def next(self) -> Operation | None:
        """Take the oldest one out."""
        if not self._waiting:
            return None
        operation = self._waiting.popleft()
        self.weight -= operation.weight
        return operation

    def drop(self, which: Callable[[Operation], bool]) -> list[Operation]:
        """Take some of them out and return them; the order of the others stays."""
        dropped = [operation for operation in self._waiting if which(operation)]
        if dropped:
            kept = [operation for operation in self._waiting if not which(operation)]
            self._waiting = deque(kept)
            self.weight = sum(operation.weight for operation in kept)
        return dropped
