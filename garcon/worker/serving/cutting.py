"""Making an event fit into one message of the link: its longest texts lose their ends, and say so.

Pure.  On the controller's own machine rows have no such bound; here one that is too long would
otherwise cost its run everything after it.  A permission request is never cut: nobody should allow
what they cannot see whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import msgspec

from garcon.contract.runs import RelayedEvent, RowProduced, RunEnded, RunEvent

NOTE = "\n[Cut here: {count} more characters did not fit into a message of the executor's link.]"
_TEXTS = 16
"""Texts of one event that are cut at most; an event with more long ones is not cut."""


def cut_event(event: RelayedEvent, limit: int) -> bytes | None:
    """Return an event of at most `limit` encoded bytes, or None when it must not be cut or cutting
    texts does not get it there.
    """
    if not isinstance(event, RowProduced | RunEnded):
        return None
    plain = msgspec.to_builtins(event)
    for _ in range(_TEXTS):
        content = msgspec.json.encode(plain)
        if len(content) <= limit:
            # What is sent must still be an event.
            return msgspec.json.encode(msgspec.convert(plain, cast(type[RunEvent], RunEvent)))
        place = max(_texts(plain), key=lambda found: len(found[2]), default=None)
        if place is None:
            return None
        holder, key, text = place
        left = _size(text) - (len(content) - limit) - len(NOTE) - 20
        if len(text) <= len(NOTE) + 20:
            return None
        holder[key] = _beginning(text, max(left, 0))
    return None


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
