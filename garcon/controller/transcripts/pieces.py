"""Reading a whole view in pieces that are bounded in memory and keep the store a moment only."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from garcon.contract.limits import MIB
from garcon.controller.transcripts.transcript import Transcript
from garcon.store.records import Row

ROWS, BYTES = 1_000, 4 * MIB
"""What one piece holds at most, but for the row that passes it."""


async def in_pieces(transcript: Transcript, last: int) -> AsyncIterator[Sequence[Row]]:
    """Yield the rows of a view up to the row `last`; fails with `Damaged`."""
    first = 1
    while first <= last:
        some = await transcript.raw(first, min(last, first + ROWS - 1), BYTES)
        yield some
        first = some[-1].ordinal + 1
