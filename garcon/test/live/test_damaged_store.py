"""A store that is damaged: one chat of it, or the file (chats.md 5.17; decisions.md 24)."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from garcon.contract import operations
from garcon.controller.service import STORE_FILE
from garcon.test.live.fleets import FleetTestCase
from garcon.testing.fleet import Service
from garcon.testing.strict_client import StrictClient
from garcon.testing.strict_socket import StrictSocket

CHATS = 5
FENCED = {"kind": "degraded", "errorCode": "LEDGER_FENCED", "retryable": False}
UNREADABLE = (422, "TRANSCRIPT_UNAVAILABLE", False)


class DamagedStoreTests(FleetTestCase):
    """A controller with five chats, which has ended."""

    def setUp(self) -> None:
        super().setUp()
        self.workspace = self.fleet.root / "workspace"
        self.project = str(self.fleet.project("project"))
        controller = self.started()
        self.chats = [self.begun(f"say reply {n}") for n in range(CHATS)]
        self.views = {chat: self.client.messages(chat).transcript_view_id for chat in self.chats}
        self.pages = {chat: self.page(chat) for chat in self.chats}
        self.entries = {entry.id: entry for entry in self.client.chats()}
        self.assertEqual(controller.stop(), 0)

    def started(self) -> Service:
        """Start a controller and a strict client of it."""
        controller = self.fleet.controller("--workspace-dir", str(self.workspace))
        own = controller.descriptor()
        self.client = StrictClient(own["baseUrl"], own["localCapability"])
        return controller

    def begun(self, command: str, **more: Any) -> str:
        """Start a chat, and wait for its turn."""
        accepted = self.client.start(self.client.start_body("local", self.project, command, **more))
        self.assertEqual(self.client.settled(accepted.chat_id, accepted.turn_id).state, "completed")
        chat: str = accepted.chat_id
        return chat

    def page(self, chat: str) -> Any:
        """Return all of a transcript as it is served."""
        query = {"chatId": chat, "limit": 200}
        return self.client.ask(operations.MESSAGES, query=query).json

    def damage(self, statement: str, *values: Any) -> None:
        """Change the file while nobody has it."""
        db = sqlite3.connect(self.workspace / STORE_FILE)
        with db:
            self.assertEqual(db.execute(statement, values).rowcount, 1)
        db.close()

    def damage_row(self, chat: str, ordinal: int) -> None:
        """Change one letter of one row."""
        self.damage(
            "UPDATE rows SET payload = CAST(replace(payload, 'reply', 'rePly') AS BLOB)"
            " WHERE ordinal = ? AND view = (SELECT view FROM views WHERE chat_id = ?)",
            *(ordinal, chat),
        )

    def test_one_damaged_row_fences_its_chat_alone(self) -> None:
        """Its messages are degraded, for whoever asks and however, and it takes no input; that it
        exists is told as ever, and it can be deleted.  All others are what they were.
        """
        fenced = self.chats[2]
        self.damage_row(fenced, 1)
        controller = self.started()
        client = self.client
        view = self.views[fenced]
        for query in ({}, {"limit": 1}, {"transcriptViewId": view, "beforeOrdinal": 2}):
            said = client.ask(operations.MESSAGES, query={"chatId": fenced, **query})
            body = {"historyState": FENCED, "chatId": fenced, "messages": []}
            self.assertEqual((said.status, said.json), (200, body))
        transcript = client.snapshot(fenced).transcript
        self.assertEqual(
            {key: transcript[key] for key in ("availability", "errorCode", "retryable")},
            {"availability": "unavailable", "errorCode": "LEDGER_FENCED", "retryable": False},
        )
        self.assertEqual(client.snapshot(fenced, 0).transcript, {"availability": "not-requested"})
        self.assert_takes_nothing(fenced)
        self.assert_others_are_what_they_were(fenced)
        self.assertEqual({entry.id: entry for entry in client.chats()}, self.entries)
        client.asked(operations.DELETE_CHAT, {"chatId": fenced})
        missing = client.refused(operations.MESSAGES, query={"chatId": fenced})
        self.assertEqual(missing, (404, "SESSION_NOT_FOUND", False))
        self.assertEqual(controller.stop(), 0)
        self.started()
        self.assertEqual({entry.id for entry in self.client.chats()}, {*self.chats} - {fenced})
        self.assert_others_are_what_they_were(fenced)

    def assert_takes_nothing(self, chat: str) -> None:
        """Every way in is refused, and leaves the chat idle."""
        client, view = self.client, self.views[chat]
        run = client.run_body(view, chat, "say more")
        self.assertEqual(client.refused(operations.RUN_CHAT, run), UNREADABLE)
        row = {
            "clientRequestId": client.request_id(),
            "clientMessageId": client.request_id(),
            "chatId": chat,
            "transcriptViewId": view,
            "type": "notice",
            "content": "look",
        }
        self.assertEqual(client.refused(operations.ADD_ROW, row), UNREADABLE)
        fork = {"sourceChatId": chat, "chatId": "1767000000000001"}
        fork["clientRequestId"] = client.request_id()
        self.assertEqual(client.refused(operations.FORK, fork), UNREADABLE)
        again = client.start_body("local", self.project, "say hi", chatId=chat)
        self.assertEqual(
            client.refused(operations.START_CHAT, again), (409, "CHAT_ID_COLLISION", False)
        )
        self.assertIsNone(client.snapshot(chat, 0).processing_phase)

    def assert_others_are_what_they_were(self, but: str) -> None:
        """Each has its transcript, its place in the list and takes input."""
        for chat in self.chats:
            if chat == but:
                continue
            self.assertEqual(self.page(chat), self.pages[chat])
            run = self.client.run_body(self.views[chat], chat, "say more")
            accepted = self.client.run(run)
            self.client.settled(chat, accepted.turn_id)
            self.pages[chat] = self.page(chat)
            self.assertEqual(self.pages[chat]["historyState"], {"kind": "complete"})
        self.entries = {entry.id: entry for entry in self.client.chats()}

    def test_a_socket_is_told_too(self) -> None:
        """A subscription to the fenced chat is refused, one to another is served."""
        self.damage_row(self.chats[0], 1)
        socket = StrictSocket(self.started().descriptor()["baseUrl"])
        self.addCleanup(socket.close)
        fenced, sound = self.chats[:2]
        cursor = {"transcriptViewId": self.views[fenced], "afterOrdinal": 0}
        refusal = socket.refused("chat-subscribe", chatId=fenced, **cursor)
        self.assertEqual(refusal, ("HISTORY_LOAD_FAILED", False))
        self.assertFalse(socket.page(sound, self.views[sound], 0).has_more)

    def test_an_unreadable_record_fences_its_chat_alone(self) -> None:
        """It keeps its id; nothing of it is guessed at, so that no list has it, and it can only be
        deleted.
        """
        broken = self.chats[1]
        self.damage("UPDATE chats SET record = x'00' WHERE chat_id = ?", broken)
        self.started()
        self.assertEqual(self.page(broken)["historyState"], FENCED)
        self.assert_others_are_what_they_were(broken)
        self.assertEqual({entry.id for entry in self.client.chats()}, {*self.chats} - {broken})
        name = {"chatId": broken, "title": "x"}
        self.assertEqual(self.client.refused(operations.SESSION_NAME, name), UNREADABLE)
        self.client.asked(operations.DELETE_CHAT, {"chatId": broken})
        missing = self.client.refused(operations.MESSAGES, query={"chatId": broken})
        self.assertEqual(missing, (404, "SESSION_NOT_FOUND", False))

    def test_an_unreadable_file_is_set_aside_and_named(self) -> None:
        """That start fails and says where the file is; nothing of it is lost.  The next one begins
        with an empty store.
        """
        file = self.workspace / STORE_FILE
        content = b"no database" + file.read_bytes()
        file.write_bytes(content)
        failed = self.fleet.controller("--workspace-dir", str(self.workspace), wait=False)
        self.assertEqual(failed.process.wait(20), 1)
        [kept] = self.workspace.glob(f"{STORE_FILE}.unreadable-*")
        self.assertIn(str(kept), failed.output.text())
        self.assertEqual(Path(kept).read_bytes(), content)
        self.started()
        self.assertEqual(self.client.chats(), [])
        chat = self.begun("say hello")
        self.assertEqual([entry.id for entry in self.client.chats()], [chat])
        self.assertEqual(Path(kept).read_bytes(), content)
