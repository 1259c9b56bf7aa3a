"""The order of chats in lists: groups, and positions in them that leave room for moves (chats.md
3.1, 3.25, 3.26).

A move writes the chat that moves and no other.  Only when there is no number left between two
neighbours does it write their whole group, numbered anew.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from datetime import datetime

from attrs import define, field, frozen

from garcon.store.records import ChatRecord, OrderGroup

STEP = 1 << 16
"""How far apart neighbours are put, where nothing keeps them together."""

GROUPS: tuple[OrderGroup, ...] = ("pinned", "orphan", "normal", "archived")
_RANKS: dict[OrderGroup, int] = {group: rank for rank, group in enumerate(GROUPS)}

Key = tuple[int, int, int, str]
"""Group, position, age and id: a chat's place among all.  Orphans have no position."""


@frozen
class Gap:
    """Where a chat is to stand: between two others of a group, either of which may be missing."""

    group: OrderGroup
    before: str | None
    after: str | None


@define(eq=False)
class Order:
    """Knows the place of every chat; positions are the records' own."""

    _keys: dict[str, Key] = field(factory=dict)
    _sorted: list[Key] = field(factory=list)

    def put(self, record: ChatRecord) -> None:
        """Add a chat, or take notice of its new place."""
        self.drop(record.chat_id)
        key = self._keys[record.chat_id] = _key(record)
        insort(self._sorted, key)

    def drop(self, chat_id: str) -> None:
        """Forget a chat."""
        key = self._keys.pop(chat_id, None)
        if key is not None:
            del self._sorted[bisect_left(self._sorted, key)]

    def ids(self) -> list[str]:
        """Return all chats as lists show them: pinned, orphans (newest first), normal, archived."""
        return [key[3] for key in self._sorted]

    def of(self, group: OrderGroup) -> list[str]:
        """Return the chats of one group, in order."""
        first, last = self._bounds(group)
        return [key[3] for key in self._sorted[first:last]]

    def top(self, group: OrderGroup) -> Gap:
        """Return the place above all of a group."""
        first, last = self._bounds(group)
        return Gap(group, None, self._sorted[first][3] if first < last else None)

    def bottom(self, group: OrderGroup) -> Gap:
        """Return the place below all of a group."""
        first, last = self._bounds(group)
        return Gap(group, self._sorted[last - 1][3] if first < last else None, None)

    def beside(self, chat_id: str, group: OrderGroup, *, after: bool) -> Gap:
        """Return the place right before or after a chat of that group."""
        first, last = self._bounds(group)
        at = bisect_left(self._sorted, self._keys[chat_id])
        if after:
            following = self._sorted[at + 1][3] if at + 1 < last else None
            return Gap(group, chat_id, following)
        return Gap(group, self._sorted[at - 1][3] if at > first else None, chat_id)

    def position(self, gap: Gap) -> int | None:
        """Return a position inside a gap, or None where there is no number left."""
        low, high = self._position(gap.before), self._position(gap.after)
        if low is None and high is None:
            return 0
        if low is None or high is None:
            return high - STEP if high is not None else low + STEP if low is not None else 0
        return (low + high) // 2 if high - low >= 2 else None

    def numbered(self, gap: Gap, chat_id: str) -> list[tuple[str, int]]:
        """Return the gap's whole group with `chat_id` put into it, and every position anew."""
        ids: list[str] = [other for other in self.of(gap.group) if other != chat_id]
        ids.insert(_index(ids, gap), chat_id)
        return [(other, number * STEP) for number, other in enumerate(ids)]

    def _position(self, chat_id: str | None) -> int | None:
        return None if chat_id is None else self._keys[chat_id][1]

    def _bounds(self, group: OrderGroup) -> tuple[int, int]:
        rank = _RANKS[group]
        first = bisect_left(self._sorted, (rank,))
        return first, bisect_left(self._sorted, (rank + 1,))


def _index(ids: Sequence[str], gap: Gap) -> int:
    if gap.before is not None:
        return ids.index(gap.before) + 1
    return ids.index(gap.after) if gap.after is not None else 0


def _key(record: ChatRecord) -> Key:
    # Equal positions are those of chats that were made at the same time: the newest is above.
    position = 0 if record.order_group == "orphan" else record.position
    return (_RANKS[record.order_group], position, -_age(record.created_at), record.chat_id)


def _age(created_at: str) -> int:
    try:
        return int(datetime.fromisoformat(created_at).timestamp() * 1000)
    except (ValueError, OverflowError):
        return 0
