"""A store that forgets with its process: for tests that are about what is remembered, not about
files.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from attrs import define, field
from twisted.internet.defer import Deferred, fail, succeed
from zope.interface import implementer

from garcon.store.interfaces import Damaged, IStore, NotStored
from garcon.store.records import (
    AppendRows,
    Change,
    ChatRecord,
    PutChat,
    PutSetting,
    PutView,
    RemoveChat,
    Row,
    StoredChat,
    TouchChat,
)


@define
class _Chat:
    record: ChatRecord
    last_activity_at: str | None = None
    last_message: str = ""
    view_id: str | None = None


@define
class _Contents:
    chats: dict[str, _Chat] = field(factory=dict)
    views: dict[str, tuple[str, tuple[Row, ...]]] = field(factory=dict)
    settings: dict[str, str] = field(factory=dict)

    def copy(self) -> _Contents:
        chats = {
            key: _Chat(chat.record, chat.last_activity_at, chat.last_message, chat.view_id)
            for key, chat in self.chats.items()
        }
        return _Contents(chats, dict(self.views), dict(self.settings))


@implementer(IStore)
class MemoryStore:
    """`IStore` in dictionaries.  It survives `close`, so that another owner can find what this one
    left.

    `held` writes wait for `release`; `refusals` is how many of the next writes fail.
    """

    def __init__(self) -> None:
        self._now = _Contents()
        self._damaged: set[tuple[str, int]] = set()
        self._waiting: list[tuple[tuple[Change, ...], Deferred[None]]] = []
        self._open = False
        self.held = False
        self.refusals = 0
        self.writes = 0

    def open(self) -> Deferred[None]:
        self._open = True
        return succeed(None)

    def close(self) -> Deferred[None]:
        self._open = False
        return succeed(None)

    def load(self) -> Deferred[list[StoredChat]]:
        return succeed(
            [
                StoredChat(
                    record=chat.record,
                    last_activity_at=chat.last_activity_at,
                    last_message=chat.last_message,
                    view_id=chat.view_id,
                    last_ordinal=len(self._now.views[chat.view_id][1]) if chat.view_id else 0,
                )
                for chat in self._now.chats.values()
            ]
        )

    def settings(self) -> Deferred[dict[str, str]]:
        return succeed(dict(self._now.settings))

    def write(self, changes: Sequence[Change]) -> Deferred[None]:
        if not self._open:
            return fail(NotStored("it is not open"))
        if self.held:
            done: Deferred[None] = Deferred()
            self._waiting.append((tuple(changes), done))
            return done
        return self._write(changes)

    def release(self) -> None:
        """Let the writes that were held, and all later ones, go on, in their order."""
        self.held = True
        while self._waiting:
            changes, done = self._waiting.pop(0)
            self._write(changes).chainDeferred(done)
        self.held = False

    def lose(self) -> None:
        """Forget the writes that are held, as a crash does; later ones go on."""
        self._waiting.clear()
        self.held = False

    def damage(self, view_id: str, ordinal: int) -> None:
        """Make one row unlike its check value."""
        self._damaged.add((view_id, ordinal))

    def read_rows(
        self, view_id: str, first: int, last: int, most_bytes: int | None = None
    ) -> Deferred[list[Row]]:
        if view_id not in self._now.views:
            return fail(NotStored(f"no view {view_id}"))
        rows = list(self._now.views[view_id][1][first - 1 : last])
        if most_bytes is not None:
            sizes = accumulate(len(row.payload) for row in rows)
            enough = sum(size <= most_bytes for size in sizes) + 1
            rows, last = rows[:enough], min(last, first + enough - 1)
        if len(rows) != last - first + 1 or any(
            (view_id, row.ordinal) in self._damaged for row in rows
        ):
            return fail(Damaged(view_id, f"rows {first} to {last}"))
        return succeed(rows)

    def find_message(self, view_id: str, client_message_id: str) -> Deferred[Row | None]:
        if view_id not in self._now.views:
            return fail(NotStored(f"no view {view_id}"))
        for row in self._now.views[view_id][1]:
            if row.client_message_id == client_message_id:
                if (view_id, row.ordinal) in self._damaged:
                    return fail(Damaged(view_id, f"row {row.ordinal}"))
                return succeed(row)
        return succeed(None)

    def _write(self, changes: Sequence[Change]) -> Deferred[None]:
        self.writes += 1
        if self.refusals:
            self.refusals -= 1
            return fail(NotStored("it was told to refuse"))
        after = self._now.copy()
        try:
            for change in changes:
                _apply(after, change)
        except NotStored as error:
            return fail(error)
        self._now = after
        return succeed(None)


def _apply(to: _Contents, change: Change) -> None:
    match change:
        case PutChat(record):
            if record.chat_id in to.chats:
                to.chats[record.chat_id].record = record
            else:
                to.chats[record.chat_id] = _Chat(record)
        case TouchChat(chat_id, at, text):
            if chat_id in to.chats:
                to.chats[chat_id].last_activity_at = at
                if text is not None:
                    to.chats[chat_id].last_message = text
        case RemoveChat(chat_id):
            to.chats.pop(chat_id, None)
            to.views = {key: view for key, view in to.views.items() if view[0] != chat_id}
        case PutView(chat_id, view_id):
            if chat_id not in to.chats:
                raise NotStored(f"no chat {chat_id}")
            to.views = {
                key: view for key, view in to.views.items() if view[0] != chat_id or key == view_id
            }
            to.views.setdefault(view_id, (chat_id, ()))
            to.chats[chat_id].view_id = view_id
        case PutSetting(key, None):
            to.settings.pop(key, None)
        case PutSetting(key, value):
            assert value is not None
            to.settings[key] = value
        case AppendRows(view_id, rows):
            _append(to, view_id, rows)


def _append(to: _Contents, view_id: str, rows: tuple[Row, ...]) -> None:
    if view_id not in to.views:
        raise NotStored(f"no view {view_id}")
    chat_id, present = to.views[view_id]
    for row in rows:
        if row.ordinal <= len(present):
            if present[row.ordinal - 1] != row:
                raise NotStored(f"row {row.ordinal} is taken")
            continue
        if row.ordinal != len(present) + 1:
            raise NotStored(f"row {row.ordinal} would follow a gap")
        if row.client_message_id is not None and any(
            other.client_message_id == row.client_message_id for other in present
        ):
            raise NotStored("that message identity is taken")
        present = (*present, row)
    to.views[view_id] = (chat_id, present)
