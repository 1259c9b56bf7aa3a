"""Making an event fit into its bound: its longest texts lose their ends, and say so.

Pure.  The bound is what a message of the link can hold, and on the controller's own machine it is
the same: without it, one tool's output could cost its run everything after it.  A permission
request is never cut: nobody should allow what they cannot see whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar, cast

import msgspec
from attrs import define
from msgspec import UNSET, structs

from garcon.contract.messages import AssistantMessage, UserMessage
from garcon.contract.runs import NativeRow, RowProduced, RunEnded, RunEvent

T = TypeVar("T")
_encode = msgspec.json.encode

NOTE = "\n[Cut here: {count} more characters were too many for one row.]"
_TEXTS = 16
"""Texts of one event that are cut at most; an event with more long ones is not cut."""


def fitting(event: RunEvent, limit: int) -> RunEvent:
    """Return an event that takes at most `limit` encoded bytes, cut if need be.

    One that must not be cut, or does not get there by it, is returned as it is.
    """
    if not isinstance(event, RowProduced | RunEnded):
        return event
    if isinstance(event, RowProduced):
        said = event.message
        # Most of them: no character takes more than six bytes, and nothing else in it is long.
        if isinstance(said, AssistantMessage) and 6 * len(said.content) < limit // 2:
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
    plain = msgspec.to_builtins(value)
    # First what is too long in any case: to encode it all would take long.
    cuts = [_Cut(*place) for place in _texts(plain) if len(place[2]) > limit][:_TEXTS]
    for cut in cuts:
        cut.to(0)
    content = _encode(plain if cuts else value)
    if len(content) <= limit and not cuts:
        return value
    for cut in cuts:
        cut.to((limit - len(content)) // len(cuts))
    content = _encode(plain if cuts else value)
    for _ in range(_TEXTS):
        if len(content) <= limit:
            return msgspec.convert(plain, kind)
        place = max(_texts(plain), key=lambda found: len(found[2]), default=None)
        if place is None or len(place[2]) <= len(NOTE) + 20:
            break
        cut = next((one for one in cuts if one.is_at(place)), None) or _Cut(*place)
        cut.to(_size(place[2]) - (len(content) - limit) - len(NOTE) - 20)
        content = _encode(plain)
    return msgspec.convert(plain, kind) if len(content) <= limit else value


@define(eq=False)
class _Cut:
    """One text, by what holds it, as it was; it can be cut again."""

    _holder: Any
    _key: Any
    _text: str

    def is_at(self, place: tuple[Any, Any, str]) -> bool:
        return self._holder is place[0] and self._key == place[1]

    def to(self, size: int) -> None:
        """Leave as much of it as takes `size` encoded bytes, and say how much that leaves out."""
        fits, left = 0, size - len('""')
        step = 1 << max(min(size, len(self._text)), 1).bit_length()
        while step and left > 0:
            # A character takes a byte at least.
            if step <= left and fits + step <= len(self._text):
                more = _size(self._text[fits : fits + step]) - len('""')
                if more <= left:
                    fits, left = fits + step, left - more
            step //= 2
        self._holder[self._key] = self._text[:fits] + NOTE.format(count=len(self._text) - fits)


def _size(text: str) -> int:
    return len(_encode(text))


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
