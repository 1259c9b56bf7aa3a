"""What can be replayed of a terminal: the end of its output, in whole chunks (values only;
server.md C.5).
"""

from __future__ import annotations

from collections import deque

from attrs import define, field

from garcon.contract.limits import TERMINAL_TAIL, TERMINAL_TAIL_CHUNKS
from garcon.runtime.terminals.text import Chunk, size_of


@define(eq=False)
class Scrollback:
    """Numbers chunks from 1 and keeps the latest, oldest dropped first.

    A chunk that is larger than all of it is numbered, and nothing is kept then.
    """

    limit: int = TERMINAL_TAIL
    chunks_limit: int = TERMINAL_TAIL_CHUNKS
    latest: int = field(default=0, init=False)
    """The number of the newest chunk, 0 before the first."""
    size: int = field(default=0, init=False)
    _chunks: deque[Chunk] = field(factory=deque, init=False)

    @property
    def first(self) -> int:
        """The number of the oldest chunk that is kept; of the next one to come if none is."""
        return self.latest - len(self._chunks) + 1

    def append(self, text: str, cost: int) -> Chunk:
        """Number a text and keep it."""
        self.latest += 1
        chunk = Chunk(self.latest, text, size_of(text), cost)
        self._chunks.append(chunk)
        self.size += chunk.size
        while self.size > self.limit or len(self._chunks) > self.chunks_limit:
            self.size -= self._chunks.popleft().size
        return chunk

    def after(self, sequence: int) -> list[Chunk]:
        """Return what is kept beyond a number."""
        return [chunk for chunk in self._chunks if chunk.sequence > sequence]
