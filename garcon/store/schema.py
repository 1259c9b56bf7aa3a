"""The tables of a workspace's store and the statements that fill and read them.  Runs in the
store's thread only.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from garcon.store.interfaces import Damaged, NotStored
from garcon.store.records import (
    AppendRows,
    Change,
    PutChat,
    PutSetting,
    PutView,
    RemoveChat,
    Row,
    StoredChat,
    TouchChat,
    decode_record,
    encode_record,
)

SCHEMA_VERSION = 1

_TABLES = """
CREATE TABLE chats (
    chat_id TEXT PRIMARY KEY NOT NULL,
    record BLOB NOT NULL,
    check_value INTEGER NOT NULL,
    last_activity_at TEXT,
    last_message TEXT NOT NULL DEFAULT ''
);
CREATE TABLE views (
    view INTEGER PRIMARY KEY,
    view_id TEXT NOT NULL UNIQUE,
    chat_id TEXT NOT NULL REFERENCES chats ON DELETE CASCADE,
    is_current INTEGER NOT NULL
);
CREATE INDEX views_of_chat ON views (chat_id);
CREATE TABLE rows (
    view INTEGER NOT NULL REFERENCES views ON DELETE CASCADE,
    ordinal INTEGER NOT NULL,
    kind TEXT NOT NULL,
    at TEXT NOT NULL,
    client_message_id TEXT,
    payload BLOB NOT NULL,
    check_value INTEGER NOT NULL,
    PRIMARY KEY (view, ordinal)
);
CREATE UNIQUE INDEX messages ON rows (view, client_message_id)
    WHERE client_message_id IS NOT NULL;
CREATE TABLE settings (key TEXT PRIMARY KEY NOT NULL, value TEXT NOT NULL);
"""

_DAMAGE = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})

_ROW = "SELECT ordinal, kind, at, payload, client_message_id, check_value FROM rows WHERE view = ?"


def create(connection: sqlite3.Connection) -> None:
    """Make the tables of a new file."""
    script = f"BEGIN IMMEDIATE; {_TABLES} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
    connection.executescript(script)


def is_damage(error: sqlite3.Error) -> bool:
    """Whether an error says that a page of the file cannot be read as one."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGE


class Tables:
    """The tables of one open connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection
        self.bytes_read = 0
        """Bytes of rows that were read."""
        self._views: dict[str, int] = {}
        """The numbers of views that were asked for."""
        self._ends: dict[int, int] = {}
        """The last ordinals of views that were written, by their numbers."""

    def apply(self, changes: Sequence[Change]) -> None:
        """Make the changes inside the transaction that is open."""
        for change in changes:
            match change:
                case AppendRows():
                    self._append(change)
                case TouchChat():
                    self._db.execute(
                        "UPDATE chats SET last_activity_at = ?,"
                        " last_message = coalesce(?, last_message) WHERE chat_id = ?",
                        (change.last_activity_at, change.last_message, change.chat_id),
                    )
                case PutChat():
                    blob, check = encode_record(change.record)
                    self._db.execute(
                        "INSERT INTO chats (chat_id, record, check_value) VALUES (?, ?, ?)"
                        " ON CONFLICT (chat_id) DO UPDATE"
                        " SET record = excluded.record, check_value = excluded.check_value",
                        (change.record.chat_id, blob, check),
                    )
                case PutView():
                    self._put_view(change)
                case RemoveChat():
                    self.forget()
                    self._db.execute("DELETE FROM chats WHERE chat_id = ?", (change.chat_id,))
                case PutSetting(key, None):
                    self._db.execute("DELETE FROM settings WHERE key = ?", (key,))
                case PutSetting(key, value):
                    self._db.execute("INSERT OR REPLACE INTO settings VALUES (?, ?)", (key, value))

    def forget(self) -> None:
        """Drop what is known of views: some may be gone, or may not have come to be."""
        self._views.clear()
        self._ends.clear()

    def chats(self) -> list[StoredChat]:
        """Return every chat with its current view and last ordinal."""
        try:
            ends = dict(
                self._db.execute(
                    "SELECT view, (SELECT max(ordinal) FROM rows WHERE rows.view = views.view)"
                    " FROM views WHERE is_current"
                )
            )
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            ends = None
        views = {
            chat_id: (view_id, view)
            for chat_id, view_id, view in self._db.execute(
                "SELECT chat_id, view_id, view FROM views WHERE is_current"
            )
        }
        found: list[StoredChat] = []
        texts: dict[str, str] = {}
        for chat_id, blob, check, at, text in self._db.execute(
            "SELECT chat_id, record, check_value, last_activity_at, last_message FROM chats"
        ).fetchall():
            record, damaged = decode_record(chat_id, blob, check, texts)
            view_id, view = views.get(chat_id, (None, None))
            found.append(
                StoredChat(
                    record=record,
                    last_activity_at=at,
                    last_message=text,
                    view_id=view_id,
                    last_ordinal=self._end_seen(view) if ends is None else ends.get(view) or 0,
                    damaged=damaged,
                )
            )
        return found

    def _end_seen(self, view: int | None) -> int | None:
        """Return a view's last ordinal where some page of the rows cannot be read: None if it is
        one of this view's.
        """
        try:
            found = self._db.execute(
                "SELECT max(ordinal) FROM rows WHERE view = ?", (view,)
            ).fetchone()
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            return None
        return found[0] or 0

    def settings(self) -> dict[str, str]:
        return dict(self._db.execute("SELECT key, value FROM settings").fetchall())

    def read(self, view_id: str, first: int, last: int, most_bytes: int | None = None) -> list[Row]:
        """Return exactly the rows asked for, as far as `most_bytes` goes, or raise `Damaged`."""
        rows = []
        expected, size = first, 0
        for found in self._db.execute(
            f"{_ROW} AND ordinal BETWEEN ? AND ? ORDER BY ordinal",
            (self._number(view_id), first, last),
        ):
            row = _checked(view_id, found)
            if row.ordinal != expected:
                raise Damaged(view_id, f"row {expected} is missing")
            rows.append(row)
            expected += 1
            size += len(row.payload)
            self.bytes_read += len(row.payload)
            if most_bytes is not None and size > most_bytes:
                return rows
        if expected != last + 1:
            raise Damaged(view_id, f"row {expected} is missing")
        return rows

    def find(self, view_id: str, client_message_id: str) -> Row | None:
        found = self._db.execute(
            f"{_ROW} AND client_message_id = ?", (self._number(view_id), client_message_id)
        ).fetchone()
        return None if found is None else _checked(view_id, found)

    def _number(self, view_id: str) -> int:
        number = self._views.get(view_id)
        if number is None:
            found = self._db.execute(
                "SELECT view FROM views WHERE view_id = ?", (view_id,)
            ).fetchone()
            if found is None:
                raise NotStored(f"no view {view_id}")
            number = self._views[view_id] = int(found[0])
        return number

    def _put_view(self, change: PutView) -> None:
        replaced = self._db.execute(
            "DELETE FROM views WHERE chat_id = ? AND view_id != ?", (change.chat_id, change.view_id)
        )
        if replaced.rowcount:
            self.forget()
        self._db.execute(
            "INSERT INTO views (view_id, chat_id, is_current) VALUES (?, ?, 1)"
            " ON CONFLICT (view_id) DO UPDATE SET is_current = 1",
            (change.view_id, change.chat_id),
        )

    def _append(self, change: AppendRows) -> None:
        if not change.rows:
            return
        number = self._number(change.view_id)
        end = self._end(number)
        first, last = change.rows[0].ordinal, change.rows[-1].ordinal
        if first > end + 1 or last - first + 1 != len(change.rows):
            raise NotStored(f"rows {first} to {last} would leave a gap")
        if first <= end:
            self._must_hold(change, end)
        self._db.executemany(
            "INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?, ?)",
            [
                (
                    number,
                    row.ordinal,
                    row.kind,
                    row.at,
                    row.client_message_id,
                    row.payload,
                    row.check(change.view_id),
                )
                for row in change.rows
                if row.ordinal > end
            ],
        )
        self._ends[number] = max(last, end)

    def _end(self, number: int) -> int:
        """Return the last ordinal of a view that is there, 0 for none."""
        end = self._ends.get(number)
        if end is None:
            found = self._db.execute(
                "SELECT max(ordinal) FROM rows WHERE view = ?", (number,)
            ).fetchone()
            end = self._ends[number] = found[0] or 0
        return end

    def _must_hold(self, change: AppendRows, end: int) -> None:
        """A repeated append is fine when it says what is there already."""
        first, last = change.rows[0].ordinal, min(change.rows[-1].ordinal, end)
        present = [row for row in change.rows if row.ordinal <= end]
        if self.read(change.view_id, first, last) != present:
            raise NotStored(f"rows {first} to {last} are taken")


def _checked(view_id: str, found: tuple[int, str, str, bytes, str | None, int]) -> Row:
    ordinal, kind, at, payload, client_message_id, check = found
    row = Row(ordinal, kind, at, payload, client_message_id)  # type: ignore[arg-type]  # checked next
    try:
        sound = isinstance(payload, bytes) and row.check(view_id) == check
    except (TypeError, UnicodeError):
        sound = False
    if not sound:
        raise Damaged(view_id, f"row {ordinal}")
    return row
