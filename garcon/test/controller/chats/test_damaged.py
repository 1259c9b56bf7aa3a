"""What can be done with chats whose storage is damaged (chats.md 5.17; decisions.md 24)."""

from __future__ import annotations

import os
import sqlite3
from typing import Any

from garcon.contract import operations
from garcon.store.interfaces import IStore
from garcon.store.sqlite import SqliteStore
from garcon.test.controller.chats.cast import CHAT, OTHER, ChatsTestCase
from garcon.testing.inline_threads import InlinePool, InlineReactor

UNREADABLE = (422, "TRANSCRIPT_UNAVAILABLE", False)


class FencedTests(ChatsTestCase):
    """A chat with a damaged row, and a sound one."""

    def setUp(self) -> None:
        super().setUp()
        self.view = self.started()
        self.started(chatId=OTHER)
        self.memory.damage(self.view, 2)

    def test_it_is_listed_and_looked_after(self) -> None:
        """Its transcript is fenced, not its place, tags, name and marks."""
        self.assertEqual(
            self.messages().body["historyState"],
            {"kind": "degraded", "errorCode": "LEDGER_FENCED", "retryable": False},
        )
        self.assertEqual(len(self.listed()), 2)
        for operation, more in (
            (operations.PIN, {"pinned": True}),
            (operations.SET_TAGS, {"tags": ["x"]}),
            (operations.SESSION_NAME, {"title": "name"}),
            (operations.MARK_READ, {"entries": [{"chatId": CHAT}]}),
        ):
            self.assertEqual(self.asked(operation, {"chatId": CHAT} | more).status, 200)
        entry = self.listed()[0]
        self.assertEqual((entry["id"], entry["title"], entry["tags"]), (CHAT, "name", ["x"]))

    def test_it_can_be_deleted(self) -> None:
        """And the other chat is what it was."""
        self.messages()
        self.assertEqual(self.asked(operations.DELETE_CHAT, {"chatId": CHAT}).status, 200)
        self.restart()
        self.assertEqual([entry["id"] for entry in self.listed()], [OTHER])
        self.assertEqual(self.messages(OTHER).body["lastOrdinal"], 4)


class DamagedRecordTests(ChatsTestCase):
    """A chat whose own record is damaged: what is stored of it is never written over."""

    def make_store(self) -> IStore:
        """Keep chats in a file, which can be damaged."""
        self.file = os.path.abspath(self.mktemp())
        store = SqliteStore(self.file, InlineReactor(), InlinePool())
        self.addCleanup(lambda: self.successResultOf(self.store.close()))
        return store

    def setUp(self) -> None:
        super().setUp()
        self.view = self.started()
        self.started(chatId=OTHER)
        with sqlite3.connect(self.file) as db:
            db.execute("UPDATE chats SET check_value = check_value + 1 WHERE chat_id = ?", (CHAT,))
        self.stored = self.record()
        self.restart()

    def record(self) -> Any:
        """Return the damaged record as it lies in the file."""
        with sqlite3.connect(self.file) as db:
            query = "SELECT record, check_value FROM chats WHERE chat_id = ?"
            return db.execute(query, (CHAT,)).fetchone()

    def test_nothing_is_written_over_it(self) -> None:
        """Whatever would is refused, and a read mark left out; others may be moved beside it."""
        row = {
            "clientRequestId": "r",
            "clientMessageId": "m",
            "transcriptViewId": self.view,
            "type": "notice",
            "content": "x",
        }
        beside = {"kind": "relative", "referenceChatId": CHAT, "position": "after"}
        for operation, more in (
            (operations.PIN, {"pinned": True}),
            (operations.TOGGLE_ARCHIVE, {}),
            (operations.REORDER_CHAT, {"placement": {"kind": "boundary", "boundary": "bottom"}}),
            (operations.SET_TAGS, {"tags": ["x"]}),
            (operations.SESSION_NAME, {"title": "name"}),
            (operations.CHANGE_EXECUTION_SETTINGS, {"thinkingMode": "high"}),
            (operations.ADD_ROW, row),
        ):
            body: dict[str, Any] = {"chatId": CHAT} | more
            self.assertEqual(self.asked(operation, body).failure, UNREADABLE, operation.route)
        marks = self.asked(operations.MARK_READ, {"entries": [{"chatId": CHAT}, {"chatId": OTHER}]})
        self.assertEqual([one["chatId"] for one in marks.body["results"]], [OTHER])
        moved = self.asked(operations.REORDER_CHAT, {"chatId": OTHER, "placement": beside})
        self.assertTrue(moved.body["changed"])
        self.assertEqual(self.record(), self.stored)

    def test_it_can_be_deleted(self) -> None:
        """For good."""
        self.assertEqual(self.asked(operations.DELETE_CHAT, {"chatId": CHAT}).status, 200)
        self.assertIsNone(self.record())
