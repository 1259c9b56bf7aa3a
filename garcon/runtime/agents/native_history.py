"""Handing over what an agent remembers of a session: read in a thread, piece by piece, each when
the one before was taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThreadPool

from garcon.contract.limits import KIB, RUN_EVENT
from garcon.contract.runs import NativeRow
from garcon.deferreds import returns_deferred
from garcon.errors import GarconError
from garcon.runtime.cutting import fitting_row
from garcon.runtime.interfaces import TakeRows

PIECE_ROWS, PIECE_BYTES = 200, 512 * KIB
"""What one piece holds at most, but for the row that passes it."""

Piece = list[NativeRow]


def in_pieces(rows: Iterable[NativeRow]) -> Iterator[Piece]:
    """Yield rows in pieces; one that is too large for a message is cut."""
    piece: Piece = []
    size = 0
    for row in rows:
        length = len(msgspec.json.encode(row))
        if length > RUN_EVENT - PIECE_BYTES:
            row = fitting_row(row, RUN_EVENT - PIECE_BYTES)
            length = RUN_EVENT - PIECE_BYTES
        piece.append(row)
        size += length
        if len(piece) >= PIECE_ROWS or size >= PIECE_BYTES:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


@returns_deferred
async def hand_over(
    reactor: Any, open_pieces: Callable[[], Iterator[Piece]], take: TakeRows
) -> None:
    """Take pieces out of an iterator that may block, and hand them on.  Cancelling ends it with the
    piece that is being read.
    """

    def in_thread(f: Callable[..., Any], *args: Any) -> Deferred[Any]:
        d: Deferred[Any] = deferToThreadPool(reactor, reactor.getThreadPool(), f, *args)
        return d

    pieces = await in_thread(open_pieces)
    try:
        while (piece := await in_thread(next, pieces, None)) is not None:
            await take(piece)
    except OSError as error:
        raise not_read(str(error.strerror)) from None
    finally:
        close = getattr(pieces, "close", None)
        if close is not None:
            reactor.callInThread(_closed, close)


def not_read(why: str) -> GarconError:
    """A history could not be read, now."""
    text = f"The agent's history cannot be read: {why}."
    return GarconError("HISTORY_LOAD_FAILED", text, status=503, retryable=True)


def no_history(text: str) -> GarconError:
    """There is none to be read, now or later."""
    return GarconError("HISTORY_LOAD_FAILED", text, status=404)


def _closed(close: Callable[[], None]) -> None:
    try:
        close()
    except ValueError:
        pass  # a cancelled read still runs in it; it is collected when that ends
