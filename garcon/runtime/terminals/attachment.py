"""One socket's hold on a terminal, and what it has still to be told (values only; server.md C.5).

What waits for an owner is bounded, and so is what was given to it and not taken yet: a consumer
that stops costs no more than that, and is detached before anything would be left out.
"""

from __future__ import annotations

from collections import deque

from attrs import define, field

from garcon.contract.limits import (
    KIB,
    TERMINAL_LAG,
    TERMINAL_TAIL_CHUNKS,
    TERMINAL_WINDOW,
    TERMINAL_WINDOW_CHUNKS,
)
from garcon.contract.terminals import (
    TerminalChanged,
    TerminalDetached,
    TerminalEvent,
    TerminalGone,
    TerminalInfo,
    TerminalOutput,
    TerminalTakenOver,
)
from garcon.runtime.terminals.text import Chunk

BATCH = 30 * KIB
"""The chunks of one event as JSON; a record holds that and what is around it."""
AROUND_CHUNK = 48


@define(eq=False)
class Attachment:
    """An owner while `is_owner`; otherwise it only hears of the terminal's status and end."""

    id: str
    client_id: str
    expires_at: float | None = None
    lag_limit: int = TERMINAL_LAG
    window: int = TERMINAL_WINDOW
    is_owner: bool = False
    generation: int = 0
    """Of its ownership."""
    lag: int = 0
    """Bytes of output that wait to be given."""
    is_over: bool = False
    """Its last event was given."""
    _waiting: deque[Chunk] = field(factory=deque)
    _given: deque[Chunk] = field(factory=deque)
    _given_size: int = 0
    _taken: int = 0
    """Up to this number; who is being given something may say so at once."""
    _owes_status: bool = False
    _replacement: str | None = None
    _end: TerminalGone | TerminalDetached | None = None

    @property
    def is_ending(self) -> bool:
        """Whether all that is left for it to hear is its end."""
        return self._end is not None

    def queue(self, chunk: Chunk) -> bool:
        """Let a chunk wait; False where that is too much."""
        self._waiting.append(chunk)
        self.lag += chunk.size
        return self.lag <= self.lag_limit and len(self._waiting) <= 2 * TERMINAL_TAIL_CHUNKS

    def owe_status(self) -> None:
        """The terminal's state has changed."""
        self._owes_status = True

    def displace(self, replacement: str | None) -> None:
        """Lose the terminal, with what was not given yet, to a client that is to be named."""
        self._disown()
        self._replacement = replacement

    def finish(self, end: TerminalGone | TerminalDetached) -> None:
        """Lose everything; this comes last."""
        self._disown()
        self._end = self._end or end

    def _disown(self) -> None:
        self.is_owner = False
        self._waiting.clear()
        self.lag = 0
        self._given.clear()
        self._given_size = 0

    def taken(self, sequence: int) -> None:
        """What was given up to this number does not count any more."""
        self._taken = max(sequence, self._taken)
        while self._given and self._given[0].sequence <= self._taken:
            self._given_size -= self._given.popleft().size

    def next_event(self, info: TerminalInfo) -> TerminalEvent | None:
        """Return what is to be given next; `gave` says that it was.

        That the process has exited comes after all output, a new title before what waits.
        """
        is_running = info.process_status == "running"
        if self._owes_status and (is_running or not self._waiting):
            return TerminalChanged(terminal=info)
        if self._waiting:
            batch = self._batch()
            return TerminalOutput(chunks=[chunk.shown() for chunk in batch]) if batch else None
        if self._replacement is not None:
            return TerminalTakenOver(replacement_client_id=self._replacement)
        return None if self.is_over else self._end

    def _batch(self) -> list[Chunk]:
        batch: list[Chunk] = []
        cost, size = 0, self._given_size
        for chunk in self._waiting:
            cost += chunk.cost + AROUND_CHUNK
            if (
                size >= self.window
                or len(self._given) + len(batch) >= TERMINAL_WINDOW_CHUNKS
                or (batch and cost > BATCH)
            ):
                break
            batch.append(chunk)
            size += chunk.size
        return batch

    def gave(self, event: TerminalEvent) -> None:
        """The event that `next_event` returned just now was given."""
        match event:
            case TerminalOutput():
                for _ in event.chunks:
                    chunk = self._waiting.popleft()
                    self.lag -= chunk.size
                    self._given.append(chunk)
                    self._given_size += chunk.size
                self.taken(self._taken)
            case TerminalChanged():
                self._owes_status = False
            case TerminalTakenOver():
                self._replacement = None
            case _:
                self.is_over = True
