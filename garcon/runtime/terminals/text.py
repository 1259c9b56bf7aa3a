"""From the bytes of a PTY to numbered text: whole characters in pieces that a link record holds
(values only).
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator

import msgspec
from attrs import frozen

from garcon.contract.limits import KIB
from garcon.contract.terminals import TerminalChunk

PIECE = 28 * KIB
"""What one chunk may take as JSON, so that a record holds it with everything around it."""
LONGEST_ESCAPE = 6


@frozen
class Chunk:
    """One piece of output.  `size` is its UTF-8, `cost` its JSON."""

    sequence: int
    text: str
    size: int
    cost: int

    def shown(self) -> TerminalChunk:
        """Return it as it crosses."""
        return TerminalChunk(sequence=self.sequence, data=self.text)


class Decoder:
    """UTF-8 that comes in any portions; what is none becomes U+FFFD."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, data: bytes) -> str:
        """Return the characters that are whole now."""
        return self._decoder.decode(data)

    def end(self) -> str:
        """Return what is left of a character that will not be finished."""
        return self._decoder.decode(b"", True)


def size_of(text: str) -> int:
    """Return how many bytes of UTF-8 a text is."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def cost_of(text: str) -> int:
    """Return how many bytes of JSON are inside the quotes of a text."""
    return len(msgspec.json.encode(text)) - 2


def pieces(text: str, limit: int = PIECE) -> Iterator[tuple[str, int]]:
    """Cut a text into pieces that cost at most `limit`; with each comes its cost."""
    start = 0
    while start < len(text):
        length = limit
        while True:
            piece = text[start : start + length]
            cost = cost_of(piece)
            if cost <= limit:
                break
            # Proportionally shorter; a single character always fits.
            length = max(1, min(length, len(piece)) * limit // cost)
        yield piece, cost
        start += len(piece)
