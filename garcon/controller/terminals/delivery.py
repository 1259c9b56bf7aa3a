"""What terminals have to say to a socket that takes no more for now (values only; server.md C.6).

Each terminal waits in a line of its own, and they take turns.  Output is asked for only while there
is `room`, far below the bounds: it can wait where it comes from.  What cannot wait there, as the
answer to something wrong, has the rest of them.
"""

from __future__ import annotations

from collections import deque

from attrs import define, field, frozen

from garcon.contract.limits import (
    MIB,
    TERMINAL_SOCKET_BYTES,
    TERMINAL_SOCKET_MESSAGES,
    TERMINAL_WAITING_BYTES,
    TERMINAL_WAITING_MESSAGES,
)
from garcon.controller.terminals.subscription import Subscription

OUTPUT_OWN, OUTPUT_ALL, OUTPUT_FIRST = 32, 160, 224
"""Messages of output that may wait of one terminal, of all, and of all where the terminal has none
waiting yet, so that a noisy one keeps out no other.
"""
OUTPUT_OWN_BYTES, OUTPUT_BYTES = MIB, 12 * MIB


@frozen
class Part:
    """One message.  With it `source` has delivered its output up to number `through`."""

    text: bytes = field(repr=False)
    source: Subscription | None = None
    through: int = 0


@define
class _Line:
    parts: deque[Part] = field(factory=deque)
    size: int = 0


@define(eq=False)
class Delivery:
    """One socket's messages of terminals; those of no terminal have a line of their own."""

    _lines: dict[str | None, _Line] = field(factory=dict)
    """Those that have something, in the order of their turns."""
    _count: int = 0
    _size: int = 0

    def __len__(self) -> int:
        return self._count

    @property
    def size(self) -> int:
        """Bytes that wait."""
        return self._size

    def room(self, terminal_id: str) -> int:
        """How many more messages of output a terminal may add."""
        if self._size >= OUTPUT_BYTES:
            return 0
        line = self._lines.get(terminal_id)
        if line is None:
            return max(min(OUTPUT_OWN, OUTPUT_ALL - self._count), int(self._count < OUTPUT_FIRST))
        if line.size >= OUTPUT_OWN_BYTES:
            return 0
        return max(0, min(OUTPUT_OWN - len(line.parts), OUTPUT_ALL - self._count))

    def put(self, terminal_id: str | None, part: Part) -> bool:
        """Let a message wait; False where that is too much."""
        line = self._lines.get(terminal_id)
        size = len(part.text)
        if (
            self._count >= TERMINAL_SOCKET_MESSAGES
            or self._size + size > TERMINAL_SOCKET_BYTES
            or (
                line is not None
                and (
                    len(line.parts) >= TERMINAL_WAITING_MESSAGES
                    or line.size + size > TERMINAL_WAITING_BYTES
                )
            )
        ):
            return False
        if line is None:
            line = self._lines[terminal_id] = _Line()
        line.parts.append(part)
        line.size += size
        self._count += 1
        self._size += size
        return True

    def next(self) -> Part | None:
        """Take out the next message: one of each terminal in turn."""
        if not self._count:
            return None
        terminal_id = next(iter(self._lines))
        line = self._lines[terminal_id]
        part = line.parts.popleft()
        size = len(part.text)
        line.size -= size
        self._count -= 1
        self._size -= size
        if len(self._lines) > 1 or not line.parts:
            del self._lines[terminal_id]
            if line.parts:
                self._lines[terminal_id] = line
        return part

    def drop(self, terminal_id: str) -> None:
        """Nothing that waits of a terminal is to be sent."""
        line = self._lines.pop(terminal_id, None)
        if line is not None:
            self._count -= len(line.parts)
            self._size -= line.size

    def clear(self) -> None:
        """Nothing of it is to be sent."""
        self._lines.clear()
        self._count = self._size = 0
