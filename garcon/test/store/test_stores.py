"""What every store promises: one interface test for the real one and its double."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from garcon.contract.catalogs import AgentSettings
from garcon.store.interfaces import Damaged, IStore, NotStored
from garcon.store.records import (
    AppendRows,
    ChatRecord,
    PutChat,
    PutSetting,
    PutView,
    RemoveChat,
    Row,
    TouchChat,
)
from garcon.store.sqlite import SqliteStore
from garcon.testing.inline_threads import InlinePool, InlineReactor
from garcon.testing.memory_store import MemoryStore

CHAT, OTHER = "1767000000000001", "1767000000000002"


def record(chat_id: str = CHAT, **more: Any) -> ChatRecord:
    """Return a chat's record."""
    fields: dict[str, Any] = {
        "chat_id": chat_id,
        "executor_id": "local",
        "agent_id": "scripted",
        "agent_ownership_epoch": f"epoch-{chat_id}",
        "agent_settings": AgentSettings("scripted", 1, {"a": 1}),
        "project_path": "/p",
        "project_key": "/p",
        "created_at": "2026-01-02T03:04:05.678Z",
    }
    return ChatRecord(**(fields | more))


def row(ordinal: int, text: str = "x", message_id: str | None = None) -> Row:
    """Return a row; with a message identity it is an input."""
    kind: Any = "provider-row" if message_id is None else "user-input"
    payload = f'{{"type":"x","content":"{text}"}}'.encode()
    return Row(ordinal, kind, "2026-01-02T03:04:05.678Z", payload, message_id)


class StoreTests:
    """The interface test."""

    store: IStore
    successResultOf: Any
    failureResultOf: Any
    assertEqual: Any
    assertTrue: Any

    def make(self) -> IStore:
        raise AssertionError("each kind of store makes its own")

    def setUp(self) -> None:
        self.store = self.make()
        self.done(self.store.open())

    def done(self, d: Deferred[Any]) -> Any:
        return self.successResultOf(d)

    def write(self, *changes: Any) -> None:
        self.done(self.store.write(changes))

    def start(self, chat_id: str = CHAT, view_id: str = "v1", rows: int = 1) -> None:
        added = tuple(row(n, f"row {n}") for n in range(1, rows + 1))
        self.write(PutChat(record(chat_id)), PutView(chat_id, view_id), AppendRows(view_id, added))

    def test_provides_its_interface(self) -> None:
        """A store is an `IStore`."""
        self.assertTrue(verifyObject(IStore, self.store))

    def test_returns_what_was_written(self) -> None:
        """A chat comes back with its record, view, last ordinal and latest activity."""
        self.start(rows=2)
        self.write(TouchChat(CHAT, "2026-01-03T00:00:00.000Z", "hello"))
        [chat] = self.done(self.store.load())
        self.assertEqual(chat.record, record())
        self.assertEqual((chat.view_id, chat.last_ordinal, chat.damaged), ("v1", 2, False))
        self.assertEqual(
            (chat.last_activity_at, chat.last_message), ("2026-01-03T00:00:00.000Z", "hello")
        )

    def test_activity_without_text_keeps_the_preview(self) -> None:
        """A row without text moves the time only."""
        self.start()
        self.write(TouchChat(CHAT, "2026-01-03T00:00:00.000Z", "hello"))
        self.write(TouchChat(CHAT, "2026-01-04T00:00:00.000Z", None))
        [chat] = self.done(self.store.load())
        self.assertEqual(
            (chat.last_activity_at, chat.last_message), ("2026-01-04T00:00:00.000Z", "hello")
        )

    def test_a_record_is_replaced_and_its_transcript_kept(self) -> None:
        """Putting a chat again changes its attributes and nothing else."""
        self.start(rows=2)
        self.write(PutChat(record(name="Named", tags=["a"])))
        [chat] = self.done(self.store.load())
        self.assertEqual((chat.record.name, chat.last_ordinal), ("Named", 2))

    def test_rows_are_read_by_ordinal(self) -> None:
        """A range gives exactly its rows, in order."""
        self.start(rows=5)
        rows = self.done(self.store.read_rows("v1", 2, 4))
        self.assertEqual([one.ordinal for one in rows], [2, 3, 4])
        self.assertEqual(rows[0], row(2, "row 2"))

    def test_rows_that_are_missing_are_damage(self) -> None:
        """A range beyond the end is not shortened silently."""
        self.start(rows=2)
        self.failureResultOf(self.store.read_rows("v1", 1, 3), Damaged)

    def test_a_read_ends_with_the_row_that_passes_its_bytes(self) -> None:
        """So many bytes are read and one row more; without that many, all."""
        self.start(rows=5)
        size = len(row(1, "row 1").payload)

        def read(most_bytes: int, last: int = 5) -> list[int]:
            rows = self.done(self.store.read_rows("v1", 2, last, most_bytes))
            return [one.ordinal for one in rows]

        self.assertEqual(read(2 * size - 1), [2, 3])
        self.assertEqual(read(2 * size), [2, 3, 4])
        self.assertEqual(read(0), [2])
        self.assertEqual(read(4 * size), [2, 3, 4, 5])
        self.failureResultOf(self.store.read_rows("v1", 2, 6, 9 * size), Damaged)

    def test_a_view_that_is_replaced_is_forgotten(self) -> None:
        """The new one begins empty, or with what the same write gives it; other chats stay."""
        self.start()
        self.start(OTHER, "v2")
        rows = (row(1, "new"), row(2, "newer"))
        self.write(PutView(CHAT, "v1-again"), AppendRows("v1-again", rows))
        self.assertEqual(self.done(self.store.read_rows("v1-again", 1, 2)), list(rows))
        self.failureResultOf(self.store.read_rows("v1", 1, 1))
        self.failureResultOf(self.store.write([AppendRows("v1", (row(2),))]), NotStored)
        self.assertEqual(len(self.done(self.store.read_rows("v2", 1, 1))), 1)
        [stored] = [one for one in self.done(self.store.load()) if one.record.chat_id == CHAT]
        self.assertEqual((stored.view_id, stored.last_ordinal), ("v1-again", 2))

    def test_a_message_is_found_by_its_identity(self) -> None:
        """The identity belongs to its view; an unknown one finds nothing."""
        self.start()
        self.write(AppendRows("v1", (row(2, "in", "m1"),)))
        self.assertEqual(self.done(self.store.find_message("v1", "m1")), row(2, "in", "m1"))
        self.assertEqual(self.done(self.store.find_message("v1", "m2")), None)

    def test_a_message_identity_is_unique_in_its_view(self) -> None:
        """The second row with one identity is refused, in another view it is not."""
        self.start()
        self.start(OTHER, "v2")
        self.write(AppendRows("v1", (row(2, "in", "m1"),)))
        again = self.store.write([AppendRows("v1", (row(3, "other", "m1"),))])
        self.failureResultOf(again, NotStored)
        self.write(AppendRows("v2", (row(2, "in", "m1"),)))

    def test_an_append_may_be_repeated(self) -> None:
        """The same rows again are no change: a write of unknown fate can be tried again."""
        self.start()
        self.write(AppendRows("v1", (row(2), row(3))))
        self.write(AppendRows("v1", (row(2), row(3))))
        self.assertEqual(len(self.done(self.store.read_rows("v1", 1, 3))), 3)

    def test_an_append_may_repeat_a_part(self) -> None:
        """What is there stays, and what follows is added."""
        self.start()
        self.write(AppendRows("v1", (row(2), row(3))))
        self.write(AppendRows("v1", (row(3), row(4))))
        self.assertEqual(self.done(self.store.read_rows("v1", 2, 4)), [row(2), row(3), row(4)])

    def test_an_ordinal_is_never_given_twice(self) -> None:
        """Another row in a place that is taken is refused."""
        self.start()
        self.failureResultOf(self.store.write([AppendRows("v1", (row(1, "y"),))]), NotStored)
        self.assertEqual(self.done(self.store.read_rows("v1", 1, 1)), [row(1, "row 1")])

    def test_ordinals_have_no_gap(self) -> None:
        """Neither before the rows of an append nor between them, and whatever went before it."""
        self.start()
        self.failureResultOf(self.store.write([AppendRows("v1", (row(3),))]), NotStored)
        self.failureResultOf(self.store.write([AppendRows("v1", (row(2), row(4)))]), NotStored)
        self.write(AppendRows("v1", (row(2),)))
        self.failureResultOf(self.store.write([AppendRows("v1", (row(4),))]), NotStored)
        self.write(AppendRows("v1", (row(3),)))

    def test_a_refused_write_keeps_nothing(self) -> None:
        """All the changes of a write happen or none."""
        self.start()
        d = self.store.write([PutChat(record(name="Lost")), AppendRows("v1", (row(9),))])
        self.failureResultOf(d, NotStored)
        [chat] = self.done(self.store.load())
        self.assertEqual((chat.record.name, chat.last_ordinal), (None, 1))

    def test_a_removed_chat_takes_everything_along(self) -> None:
        """Views and rows go with their chat, others stay, and the id can be used again."""
        self.start(rows=2)
        self.start(OTHER, "v2")
        self.write(RemoveChat(CHAT))
        [chat] = self.done(self.store.load())
        self.assertEqual(chat.record.chat_id, OTHER)
        self.failureResultOf(self.store.read_rows("v1", 1, 1))
        self.start(CHAT, "v3")

    def test_settings_are_kept(self) -> None:
        """A setting is set, replaced and removed."""
        self.write(PutSetting("a", "1"), PutSetting("b", "2"))
        self.write(PutSetting("a", "3"), PutSetting("b", None))
        self.assertEqual(self.done(self.store.settings()), {"a": "3"})

    def test_an_empty_write_is_a_barrier(self) -> None:
        """A write without changes succeeds."""
        self.write()

    def test_a_closed_store_takes_nothing(self) -> None:
        """After close every write fails."""
        self.done(self.store.close())
        self.failureResultOf(self.store.write([]), NotStored)


class MemoryStoreTests(StoreTests, SynchronousTestCase):
    """The double keeps the promises."""

    def make(self) -> IStore:
        return MemoryStore()


class SqliteStoreTests(StoreTests, SynchronousTestCase):
    """The real one keeps them too, and across processes."""

    def make(self) -> IStore:
        self.path = Path(self.mktemp())
        return self.again()

    def again(self) -> SqliteStore:
        return SqliteStore(str(self.path), InlineReactor(), InlinePool())

    def tearDown(self) -> None:
        self.successResultOf(self.store.close())

    def test_what_was_written_survives(self) -> None:
        """Another process finds chats, rows and settings."""
        self.start(rows=3)
        self.write(PutSetting("a", "1"))
        self.done(self.store.close())
        self.store = self.again()
        self.done(self.store.open())
        [chat] = self.done(self.store.load())
        self.assertEqual((chat.record, chat.last_ordinal), (record(), 3))
        self.assertEqual(self.done(self.store.read_rows("v1", 3, 3)), [row(3, "row 3")])
        self.assertEqual(self.done(self.store.settings()), {"a": "1"})
