"""The store's file: durability, shared commits, damage, versions."""

from __future__ import annotations

import os
import sqlite3
import stat
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.ids import minted_at
from garcon.errors import StartupError
from garcon.store.interfaces import Damaged, NotStored
from garcon.store.records import AppendRows, Change, PutChat, PutSetting, PutView, RemoveChat
from garcon.store.schema import SCHEMA_VERSION, Tables
from garcon.store.sqlite import SqliteStore
from garcon.test.store.test_stores import CHAT, OTHER, record, row
from garcon.testing.inline_threads import InlinePool, InlineReactor


class FileTests(SynchronousTestCase):
    """One store and its file."""

    def setUp(self) -> None:
        self.path = Path(self.mktemp())
        self.store = self.opened()

    def opened(self) -> SqliteStore:
        store = self.made()
        self.successResultOf(store.open())
        return store

    def made(self) -> SqliteStore:
        return SqliteStore(str(self.path), InlineReactor(), InlinePool())

    def tearDown(self) -> None:
        self.successResultOf(self.store.close())

    def write(self, *changes: Any) -> None:
        self.successResultOf(self.store.write(changes))

    def fill(self) -> None:
        for chat_id, view_id in ((CHAT, "v1"), (OTHER, "v2")):
            rows = tuple(row(n, f"row {n}") for n in range(1, 4))
            self.write(
                PutChat(record(chat_id)), PutView(chat_id, view_id), AppendRows(view_id, rows)
            )

    def damage(self, statement: str, *values: Any) -> None:
        """Change the file behind the store's back."""
        self.successResultOf(self.store.close())
        with sqlite3.connect(self.path) as other:
            other.execute(statement, values)
        other.close()
        self.store = self.opened()

    def pragma(self, name: str) -> Any:
        """Ask the store's own connection."""
        connection = self.store._connection
        assert connection is not None
        return connection.execute(f"PRAGMA {name}").fetchone()[0]

    def test_writes_ahead_and_to_the_disk(self) -> None:
        """An accepted write must survive a power cut: WAL with full synchronisation."""
        self.assertEqual(self.pragma("journal_mode"), "wal")
        self.assertEqual(self.pragma("synchronous"), 2)
        self.assertEqual(self.pragma("foreign_keys"), 1)

    def test_is_private(self) -> None:
        """Transcripts are the owner's only."""
        self.assertEqual(stat.S_IMODE(os.stat(self.path).st_mode), 0o600)

    def test_a_damaged_row_is_found(self) -> None:
        """A changed payload fails its check; the other chat is untouched."""
        self.fill()
        self.damage("UPDATE rows SET payload = x'7b7d' WHERE view = 1 AND ordinal = 2")
        failure = self.failureResultOf(self.store.read_rows("v1", 1, 3), Damaged)
        self.assertEqual(failure.value.code, "LEDGER_FENCED")
        self.assertEqual(len(self.successResultOf(self.store.read_rows("v1", 1, 1))), 1)
        self.assertEqual(len(self.successResultOf(self.store.read_rows("v2", 1, 3))), 3)

    def test_a_misplaced_row_is_found(self) -> None:
        """A row that is whole but in another view does not pass either."""
        self.fill()
        self.damage(
            "UPDATE rows SET view = 1, ordinal = 4 WHERE view = 2 AND ordinal = 3",
        )
        self.failureResultOf(self.store.read_rows("v1", 1, 4), Damaged)

    def test_a_lost_row_is_found(self) -> None:
        """A gap is damage."""
        self.fill()
        self.damage("DELETE FROM rows WHERE view = 1 AND ordinal = 2")
        self.failureResultOf(self.store.read_rows("v1", 1, 3), Damaged)

    def test_a_damaged_record_is_marked_and_legible(self) -> None:
        """A record unlike its check is still read, and its chat marked."""
        self.fill()
        self.damage("UPDATE chats SET check_value = 1 WHERE chat_id = ?", CHAT)
        chats = {chat.record.chat_id: chat for chat in self.successResultOf(self.store.load())}
        self.assertEqual((chats[CHAT].damaged, chats[OTHER].damaged), (True, False))
        self.assertEqual(chats[CHAT].record, record())

    def test_an_illegible_record_keeps_its_chat_id(self) -> None:
        """Of a record that cannot be decoded the id is left, which says when the chat was made
        (chats.md 2.1), and the other chats load.
        """
        self.fill()
        self.damage("UPDATE chats SET record = x'00' WHERE chat_id = ?", CHAT)
        chats = {chat.record.chat_id: chat for chat in self.successResultOf(self.store.load())}
        self.assertEqual((chats[CHAT].damaged, chats[OTHER].damaged), (True, False))
        self.assertEqual(chats[CHAT].record.created_at, minted_at(CHAT))

    def test_an_unreadable_page_is_of_the_chats_whose_rows_it_holds(self) -> None:
        """Where even the end of a view cannot be read the others load, and are read to theirs."""
        self.fill()
        rows = tuple(row(n, "x") for n in range(4, 1_500))
        self.write(AppendRows("v1", rows))
        self.write(AppendRows("v2", rows))
        self.successResultOf(self.store.close())
        self.spoil_page_of_the_last_rows()
        self.store = self.opened()
        chats = {chat.record.chat_id: chat for chat in self.successResultOf(self.store.load())}
        self.assertEqual((chats[CHAT].last_ordinal, chats[OTHER].last_ordinal), (1_499, None))
        self.assertEqual((chats[CHAT].damaged, chats[OTHER].damaged), (False, False))
        self.assertEqual(len(self.successResultOf(self.store.read_rows("v1", 1, 1_499))), 1_499)
        self.failureResultOf(self.store.read_rows("v2", 1, 1_499), Damaged)

    def spoil_page_of_the_last_rows(self) -> None:
        """Overwrite the last page of the index of rows, which leads to those of the last view."""
        with sqlite3.connect(self.path) as other:
            query = "SELECT rootpage FROM sqlite_master WHERE name = 'sqlite_autoindex_rows_1'"
            [root] = other.execute(query).fetchone()
            [size] = other.execute("PRAGMA page_size").fetchone()
        other.close()
        content = bytearray(self.path.read_bytes())
        page = (root - 1) * size
        self.assertEqual(content[page], 2, "the index has more than one page")
        last = (int.from_bytes(content[page + 8 : page + 12]) - 1) * size
        content[last : last + 64] = b"\xff" * 64
        self.path.write_bytes(content)

    def test_an_unreadable_file_is_set_aside_and_named(self) -> None:
        """Start fails with the name of the kept file, and the next start has an empty store."""
        self.fill()
        self.successResultOf(self.store.close())
        self.path.write_bytes(b"this is no database, whatever else it is" * 40)
        failure = self.failureResultOf(self.made().open(), StartupError)
        [kept] = self.path.parent.glob(f"{self.path.name}.unreadable-*")
        self.assertIn(str(kept), failure.value.text)
        self.assertTrue(kept.read_bytes().startswith(b"this is no database"))
        self.store = self.opened()
        self.assertEqual(self.successResultOf(self.store.load()), [])

    def test_a_newer_file_is_refused_and_left_alone(self) -> None:
        """A schema of the future is no damage: nothing is moved."""
        self.successResultOf(self.store.close())
        with sqlite3.connect(self.path) as other:
            other.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
        other.close()
        self.failureResultOf(self.made().open(), StartupError)
        self.assertEqual(list(self.path.parent.glob(f"{self.path.name}.unreadable*")), [])
        with sqlite3.connect(self.path) as other:
            other.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        other.close()
        self.store = self.opened()

    def test_chats_are_read_once_at_a_start(self) -> None:
        """What was read to judge the file is what the first asks for, whatever settings were
        written before; later it is read anew, and at once where anything else was written before.
        """
        self.fill()
        self.successResultOf(self.store.close())
        counting = Counting(str(self.path), InlineReactor(), InlinePool())
        counting.check()
        self.successResultOf(counting.open())
        self.successResultOf(counting.write([PutSetting("a", "1")]))
        first = self.successResultOf(counting.load())
        self.assertEqual({chat.record.chat_id for chat in first}, {CHAT, OTHER})
        self.assertEqual(counting.statements("FROM chats"), 1)
        self.assertEqual(self.successResultOf(counting.load()), first)
        self.assertEqual(counting.statements("FROM chats"), 2)
        self.successResultOf(counting.close())
        self.store = self.opened()
        self.write(RemoveChat(OTHER))
        left = self.successResultOf(self.store.load())
        self.assertEqual([chat.record.chat_id for chat in left], [CHAT])

    def test_what_is_alike_in_many_chats_is_in_memory_once(self) -> None:
        """Ten thousand chats of one project do not name it ten thousand times."""
        self.fill()
        one, other = (chat.record for chat in self.successResultOf(self.store.load()))
        self.assertEqual(one.project_path, other.project_path)
        self.assertIs(one.project_path, other.project_path)
        self.assertIs(one.permission_mode, other.permission_mode)

    def test_a_place_without_a_directory_is_refused(self) -> None:
        """One line for the operator."""
        store = SqliteStore(f"{self.path}/nowhere/x", InlineReactor(), InlinePool())
        self.failureResultOf(store.open(), StartupError)


class Counting(SqliteStore):
    """A store that remembers what it asks of its file."""

    def __init__(self, path: str, reactor: Any, pool: Any) -> None:
        super().__init__(path, reactor, pool)
        self.asked: list[str] = []

    def statements(self, words: str) -> int:
        """How many statements had these words."""
        return sum(words in statement for statement in self.asked)

    def _prepare(self, connection: sqlite3.Connection) -> Tables:
        connection.set_trace_callback(self.asked.append)
        return super()._prepare(connection)


class HeldStoreCase(SynchronousTestCase):
    """A store that does its work when the test says."""

    def setUp(self) -> None:
        self.pool = InlinePool()
        self.store = SqliteStore(self.mktemp(), InlineReactor(), self.pool)
        self.successResultOf(self.store.open())
        self.pool.held = True

    def tearDown(self) -> None:
        self.pool.held = False
        while len(self.pool):
            self.pool.run_next()
        self.successResultOf(self.store.close())


class SharedReadTests(HeldStoreCase):
    """Reads that wait are done together: a hop to the thread and back costs more than most."""

    def setUp(self) -> None:
        super().setUp()
        self.pool.held = False
        rows = tuple(row(n, f"row {n}") for n in range(1, 41))
        changes: list[Change] = [PutChat(record()), PutView(CHAT, "v1"), AppendRows("v1", rows)]
        self.successResultOf(self.store.write(changes))
        self.pool.held = True

    def test_they_share_a_hop(self) -> None:
        """Thirty-two of them do, and one more waits for the next: commits wait for them, and
        whoever asked is answered in one step.
        """
        reads = [self.store.read_rows("v1", n, n) for n in range(1, 34)]
        self.assertEqual(len(self.pool), 1)
        self.pool.run_next()
        for n, d in enumerate(reads[:32], 1):
            self.assertEqual([one.ordinal for one in self.successResultOf(d)], [n])
        self.assertNoResult(reads[32])
        self.pool.run_next()
        self.assertEqual([one.ordinal for one in self.successResultOf(reads[32])], [33])
        self.assertEqual(len(self.pool), 0)

    def test_few_of_them_are_large(self) -> None:
        """Once the rows of some hold a quarter of a MiB the others wait."""
        self.pool.held = False
        half = "x" * (131_072 - len(row(1, "").payload))
        rows = (row(41, half[:-1]), row(42, half), row(43, half))
        self.successResultOf(self.store.write([AppendRows("v1", rows)]))
        self.pool.held = True
        for ordinals, together in (((41, 42, 1, 2), 3), ((42, 43, 1, 2), 2)):
            reads = [self.store.read_rows("v1", n, n) for n in ordinals]
            self.pool.run_next()
            self.assertEqual([d.called for d in reads].count(True), together)
            while len(self.pool):
                self.pool.run_next()
            for d in reads:
                self.successResultOf(d)

    def test_one_that_fails_leaves_the_others_alone(self) -> None:
        """Each is answered for itself."""
        good, bad = self.store.read_rows("v1", 1, 1), self.store.read_rows("v1", 40, 41)
        missing, last = self.store.read_rows("nowhere", 1, 1), self.store.find_message("v1", "x")
        self.pool.run_next()
        self.assertEqual(len(self.successResultOf(good)), 1)
        self.failureResultOf(bad, Damaged)
        self.failureResultOf(missing, NotStored)
        self.assertIsNone(self.successResultOf(last))

    def test_giving_up_leaves_the_others_alone(self) -> None:
        """Its answer goes nowhere."""
        given_up, other = (self.store.read_rows("v1", 1, 1) for _ in range(2))
        given_up.cancel()
        self.failureResultOf(given_up)
        self.pool.run_next()
        self.assertEqual(len(self.successResultOf(other)), 1)

    def test_reads_that_were_given_up_are_not_done(self) -> None:
        """However many there were, they leave no work: the next read is done at once."""
        for _ in range(1_000):
            given_up = self.store.read_rows("v1", 1, 40)
            given_up.cancel()
            self.failureResultOf(given_up)
        other = self.store.read_rows("v1", 1, 1)
        self.pool.run_next()
        self.assertEqual(len(self.successResultOf(other)), 1)

    def test_a_commit_comes_in_between(self) -> None:
        """In the order in which both were begun."""
        first = self.store.read_rows("v1", 1, 1)
        write = self.store.write([AppendRows("v1", (row(41),))])
        self.pool.run_next()
        self.successResultOf(first)
        after = self.store.read_rows("v1", 41, 41)
        self.pool.run_next()
        self.successResultOf(write)
        self.assertNoResult(after)
        self.pool.run_next()
        self.assertEqual(len(self.successResultOf(after)), 1)


class SharedCommitTests(HeldStoreCase):
    """Writes that come while a commit runs share the next one."""

    def test_a_write_fires_only_when_durable(self) -> None:
        """Nothing is said before the commit has been made."""
        d = self.store.write([PutSetting("a", "1")])
        self.assertNoResult(d)
        self.pool.run_next()
        self.successResultOf(d)

    def test_neighbours_share_one_commit(self) -> None:
        """Two writes behind a running commit need one more, not two."""
        first = self.store.write([PutSetting("a", "1")])
        second, third = (self.store.write([PutSetting(key, "1")]) for key in "bc")
        self.assertEqual(len(self.pool), 1)
        self.pool.run_next()
        self.successResultOf(first)
        self.assertNoResult(second)
        self.assertEqual(len(self.pool), 1)
        self.pool.run_next()
        self.successResultOf(second)
        self.successResultOf(third)
        self.assertEqual(len(self.pool), 0)

    def test_a_refused_write_leaves_its_neighbours_alone(self) -> None:
        """In one commit, one write may fail and the others stay."""
        first = self.store.write([])
        good = self.store.write([PutSetting("a", "1")])
        bad = self.store.write([PutSetting("b", "1"), AppendRows("nowhere", (row(1),))])
        late = self.store.write([PutSetting("c", "1")])
        self.pool.held = False
        self.pool.run_next()
        for d in (first, good, late):
            self.successResultOf(d)
        self.failureResultOf(bad, NotStored)
        self.assertEqual(self.successResultOf(self.store.settings()), {"a": "1", "c": "1"})

    def test_commits_are_counted(self) -> None:
        """Those that fail too; why the last one did is known until one does not."""
        self.pool.held = False
        self.successResultOf(self.store.write([PutSetting("a", "1")]))
        self.assertEqual((self.store.commits, self.store.failed_commits), (1, 0))
        self.assertIsNone(self.store.trouble)
        commit = self.store._commit
        self.store._commit = self.fail_to_commit  # type: ignore[assignment, method-assign]
        self.failureResultOf(self.store.write([PutSetting("a", "2")]), NotStored)
        self.assertEqual((self.store.commits, self.store.failed_commits), (2, 1))
        self.assertEqual(self.store.trouble, "disk I/O error")
        self.store._commit = commit  # type: ignore[method-assign]
        self.successResultOf(self.store.write([PutSetting("a", "3")]))
        self.assertIsNone(self.store.trouble)

    def fail_to_commit(self, batch: object) -> Any:
        """Be a broken disk."""
        raise sqlite3.OperationalError("disk I/O error")

    def test_close_waits_for_what_was_accepted(self) -> None:
        """A write accepted before close becomes durable."""
        d, late = self.store.write([PutSetting("a", "1")]), self.store.write([])
        closed = self.store.close()
        self.assertNoResult(closed)
        self.pool.held = False
        self.pool.run_next()
        self.successResultOf(d)
        self.successResultOf(late)
        self.successResultOf(closed)

    def test_giving_up_does_not_undo(self) -> None:
        """A cancelled write happens all the same."""
        d = self.store.write([PutSetting("a", "1")])
        d.cancel()
        self.failureResultOf(d)
        self.pool.held = False
        self.pool.run_next()
        self.assertEqual(self.successResultOf(self.store.settings()), {"a": "1"})
