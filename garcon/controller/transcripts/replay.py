"""Bounded replay: the rows behind a cursor, up to a fixed watermark, in pages that fit into a
message (server.md A.6).

A page covers at most so many raw rows, hidden ones included, and its JSON at most so many bytes.
Rows are passed on as they are stored; only their sizes are looked at.

Its message carries things that cannot be parted, of any size: what is unanswered, and what is asked
live.  The bytes are those of the whole message wherever a page that small advances.  Where it would
not, rules 3 and 5 of the contract cannot both be kept: what cannot be parted then comes on top of
them, as only a row of its own may make a page fail.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import TypeVar

import msgspec
from attrs import frozen
from msgspec import Struct
from twisted.internet.defer import Deferred

from garcon.contract.events import ShownRow
from garcon.contract.limits import MIB
from garcon.controller.transcripts.rows import displayed
from garcon.errors import GarconError
from garcon.store.records import Row

PAGE_ORDINALS = 200
PAGE_BYTES = MIB

T = TypeVar("T")

Read = Callable[[int, int, int], Deferred[list[Row]]]
"""Reads from one ordinal to another, or as far as so many bytes of payloads go."""
Render = Callable[[list[ShownRow], int], T]
"""Makes the message of a page from what it shows and the ordinal it ends with."""

_encode = msgspec.json.Encoder().encode
_AROUND = len(b'{"ordinal":,"message":}')


@frozen
class Stretch:
    """What follows `after`: the rows that show something, and the ordinal that was read to."""

    after: int
    shown: list[ShownRow]
    end: int


async def stretch(view_id: str, read: Read, after: int, through: int) -> Stretch:
    """Read what a page may hold of the rows behind `after`; fails as `read` does."""
    last = min(through, after + PAGE_ORDINALS)
    shown: list[ShownRow] = []
    end, size = after, 0
    while end < last and size <= PAGE_BYTES:
        rows = await read(end + 1, last, PAGE_BYTES - size)
        found = [one for row in rows if (one := displayed(view_id, row)) is not None]
        shown += found
        size += sum(_size(one) for one in found)
        end = rows[-1].ordinal
    return Stretch(after, shown, end)


def page(read: Stretch, through: int, render: Render[T], beside: int = 0) -> T:
    """Return the message that holds as much of a stretch as fits; ``HISTORY_LOAD_FAILED`` where
    that is nothing.  `render` leaves out what cannot be parted, which has `beside` bytes.
    """
    sums = [0, *accumulate(_size(one) + 1 for one in read.shown)]

    def end_of(count: int) -> int:
        return read.end if count == len(read.shown) else read.shown[count].ordinal - 1

    def size_of(count: int) -> int:
        commas_too_many = 1 if count else 0
        return len(_encode(render([], end_of(count)))) + sums[count] - commas_too_many

    def fitting(most: int) -> int | None:
        """Return how many rows so many bytes hold, None where a page of them would not advance."""
        # The envelope differs by a few digits from cut to cut: guess with one, then look.
        room = most - len(_encode(render([], read.end)))
        count = max(0, bisect_right(sums, room) - 1)
        while count < len(read.shown) and size_of(count + 1) <= most:
            count += 1
        while count > 0 and size_of(count) > most:
            count -= 1
        end = end_of(count)
        return None if size_of(count) > most or (end == read.after and end < through) else count

    count = fitting(PAGE_BYTES - beside)
    if count is None:
        count = fitting(PAGE_BYTES)
    if count is None:
        raise GarconError(
            "HISTORY_LOAD_FAILED",
            f"What follows row {read.after} is too large for a page of a replay.",
            status=500,
        )
    return render(read.shown[:count], end_of(count))


def weight(*lists: Sequence[Struct]) -> int:
    """Return by how many bytes lists make a message larger than empty ones do."""
    return sum(len(_encode(one)) - len(b"[]") for one in lists)


def _size(row: ShownRow) -> int:
    """Return the size of a row as JSON."""
    return _AROUND + len(str(row.ordinal)) + memoryview(row.message).nbytes
