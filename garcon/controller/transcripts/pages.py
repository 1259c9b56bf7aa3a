"""Page arithmetic over raw ordinals (chats.md 4.9): what a page covers, and where the next older
one ends.
"""

from __future__ import annotations

from attrs import frozen

from garcon.contract.events import ShownRow


@frozen
class Span:
    """The raw rows of one page, `first` to `last`; empty when `first` is beyond `last`."""

    first: int
    last: int
    next_before: int | None


@frozen
class Page:
    """One page as its readers get it: its messages are JSON, as they are stored."""

    messages: list[ShownRow]
    last_ordinal: int
    page_oldest: int
    page_newest: int
    next_before: int | None


def span(last_ordinal: int, limit: int, before: int | None = None) -> Span:
    """Return the newest `limit` raw rows, or those just below `before`; beyond the end is
    clamped.
    """
    newest = last_ordinal if before is None else min(before, last_ordinal + 1) - 1
    cursor = newest - limit + 1
    return Span(max(cursor, 1), newest, cursor if cursor > 1 else None)
