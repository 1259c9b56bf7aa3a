"""Making an event fit into its bound: its longest texts lose their ends, and say so.

Pure.  The bound is what a message of the link can hold, and on the controller's own machine it is
the same: without it, one tool's output could cost its run everything after it.  A permission
request is never cut: nobody should allow what they cannot see whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar, cast

import msgspec
from msgspec import UNSET, structs

from garcon.contract.messages import UserMessage
from garcon.contract.runs import NativeRow, RowProduced, RunEnded, RunEvent

T = TypeVar("T")

NOTE = "\n[Cut here: {count} more characters were too many for one row.]"
_TEXTS = 16
"""Texts of one event that are cut at most; an event with more long ones is not cut."""


def fitting(event: RunEvent, limit: int) -> RunEvent:
    """Return an event that takes at most `limit` encoded bytes, cut if need be.

    One that must not be cut, or does not get there by it, is returned as it is.
    """
    if not isinstance(event, RowProduced | RunEnded):
        return event
    return _cut(event, cast(type[RunEvent], RunEvent), limit)


def fitting_row(row: NativeRow, limit: int) -> NativeRow:
    """Return a row that an agent remembers, cut likewise; the pictures of an input are left out
    first, because a part of one shows nothing.
    """
    if isinstance(row, UserMessage) and len(msgspec.json.encode(row)) > limit:
        row = structs.replace(row, images=UNSET)
    return _cut(row, cast(type[NativeRow], NativeRow), limit)


def _cut(value: T, kind: type[T], limit: int) -> T:
    content = msgspec.json.encode(value)
    if len(content) <= limit:
        return value
    plain = msgspec.to_builtins(value)
    for _ in range(_TEXTS):
        place = max(_texts(plain), key=lambda found: len(found[2]), default=None)
        if place is None or len(place[2]) <= len(NOTE) + 20:
            break
        holder, key, text = place
        left = _size(text) - (len(content) - limit) - len(NOTE) - 20
        holder[key] = _beginning(text, max(left, 0))
        content = msgspec.json.encode(plain)
        if len(content) <= limit:
            return msgspec.convert(plain, kind)
    return value


def _beginning(text: str, size: int) -> str:
    """Return as much of a text as takes `size` encoded bytes, and how much that leaves out."""
    fits, too_many = 0, min(len(text), size) + 1
    if _size(text[: too_many - 1]) <= size:
        fits = too_many - 1
    while too_many - fits > 1:
        middle = (fits + too_many) // 2
        if _size(text[:middle]) <= size:
            fits = middle
        else:
            too_many = middle
    return text[:fits] + NOTE.format(count=len(text) - fits)


def _size(text: str) -> int:
    return len(msgspec.json.encode(text))


def _texts(value: Any) -> Iterator[tuple[Any, Any, str]]:
    """Find every text below a value, with what holds it."""
    waiting = [value]
    while waiting:
        holder = waiting.pop()
        for key, found in holder.items() if isinstance(holder, dict) else enumerate(holder):
            if isinstance(found, str):
                yield holder, key, found
            elif isinstance(found, dict | list):
                waiting.append(found)
