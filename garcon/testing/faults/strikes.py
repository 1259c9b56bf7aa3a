"""What a fault does to the bytes of one direction of a connection, as values: the proxy asks here
what to do with what it has read (pure; time is the proxy's).

A strike waits for a position: a number of bytes, or the end of a number of WebSocket messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Literal

from attrs import define, evolve, field, frozen

Kind = Literal["cut", "half-close", "black-hole", "delay", "throttle", "duplicate"]
_EVERY_ONE = 1 << 62
KINDS: tuple[Kind, ...] = ("cut", "half-close", "black-hole", "delay", "throttle", "duplicate")
Unit = Literal["bytes", "messages"]


@frozen
class Strike:
    """One fault: what happens once so much has passed in one direction.

    `amount` is the seconds of a delay, or the bytes per second of a throttle.
    """

    kind: Kind
    inward: bool
    """In the direction of the target."""
    position: int
    unit: Unit = "bytes"
    amount: float = 0.0


@frozen
class Pass:
    """These bytes go on."""

    data: bytes


def struck(chance: Random, most: int = 2) -> tuple[Strike, ...]:
    """Return the strikes of one connection, made by chance; often there are none."""
    return tuple(_strike(chance) for _ in range(chance.randint(0, most)))


def _strike(chance: Random) -> Strike:
    kind = chance.choice(KINDS)
    unit: Unit = chance.choice(("bytes", "messages"))
    position = chance.choice((0, 1, 150, 400, 900, 2000, 9000)) + chance.randrange(200)
    if unit == "messages":
        position = chance.randrange(14)
    amount = {"delay": chance.uniform(0.02, 0.6), "throttle": chance.uniform(2e3, 2e5)}
    return Strike(kind, chance.random() < 0.5, position, unit, amount.get(kind, 0.0))


@define
class Messages:
    """Find where the messages of a WebSocket end in a stream that begins with an HTTP head."""

    passed: int = 0
    """Messages that have ended; the head counts as the first."""
    _head: bytes | None = b""
    _frame: bytes = b""
    _left: int = 0

    def take(self, data: bytes, position: int) -> int:
        """Count what ends in `data`; return how much of it belongs to the first `position`."""
        offset = 0
        while offset < len(data) and self.passed < position:
            offset = self._step(data, offset)
        return offset

    def _step(self, data: bytes, offset: int) -> int:
        """Take a piece that does not go beyond the end of a message."""
        if self._head is not None:
            before = len(self._head)
            end = (self._head + data[offset:]).find(b"\r\n\r\n")
            if end < 0:
                self._head = (self._head + data[offset:])[-3:]
                return len(data)
            self._head = None
            self.passed += 1
            return offset + end + 4 - before
        if self._left:
            taken = min(self._left, len(data) - offset)
            self._left -= taken
            self.passed += self._left == 0
            return offset + taken
        self._frame += data[offset : offset + 1]
        size = _frame_size(self._frame)
        if size is not None:
            self._frame, self._left = b"", size
            self.passed += size == 0
        return offset + 1


def _frame_size(head: bytes) -> int | None:
    """Return how much follows a WebSocket frame's head; None when the head is not whole."""
    if len(head) < 2:
        return None
    masked, size = head[1] >> 7, head[1] & 0x7F
    extended = {126: 2, 127: 8}.get(size, 0)
    if len(head) < 2 + extended + 4 * masked:
        return None
    return int.from_bytes(head[2 : 2 + extended], "big") if extended else size


@define
class Direction:
    """One direction of a connection: it cuts what comes at the positions of its strikes."""

    strikes: list[Strike]
    passed: int = 0
    _messages: Messages = field(factory=Messages)
    _next: int = 0

    def take(self, data: bytes) -> list[Pass | Strike]:
        """Return what to do with `data`, in order: pass some of it on, or strike."""
        todo: list[Pass | Strike] = []
        while True:
            strike = self.strikes[self._next] if self._next < len(self.strikes) else None
            room = self._room(strike, data)
            if room:
                todo.append(Pass(data[:room]))
                self.passed += room
                data = data[room:]
            if strike is None or not self._is_due(strike):
                return todo
            todo.append(strike)
            self._next += 1

    def add(self, strike: Strike) -> None:
        """Strike once so many more bytes have passed, after all that was to come before."""
        self.strikes.append(evolve(strike, position=strike.position + self.passed))

    def _room(self, strike: Strike | None, data: bytes) -> int:
        """Return how much may pass before the next strike; its messages are counted."""
        if strike is None:
            return len(data)
        if strike.unit == "messages":
            return self._messages.take(data, strike.position)
        room = max(0, min(len(data), strike.position - self.passed))
        self._messages.take(data[:room], _EVERY_ONE)
        return room

    def _is_due(self, strike: Strike) -> bool:
        if strike.unit == "bytes":
            return self.passed >= strike.position
        return self._messages.passed >= strike.position


def directions(strikes: Sequence[Strike]) -> tuple[Direction, Direction]:
    """Return both directions of a connection, the one to the target first.

    Strikes come in the order in which they are given, each when its position is reached.
    """
    return (
        Direction([s for s in strikes if s.inward]),
        Direction([s for s in strikes if not s.inward]),
    )
