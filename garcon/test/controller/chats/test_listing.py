"""The chat list as it is joined, and the chat that was last looked at (chats.md 3.1, 3.3, 4.1)."""

from __future__ import annotations

import os
from typing import Any

import msgspec
from twisted.internet.defer import Deferred
from zope.interface import implementer

from garcon.contract import operations
from garcon.contract.chats import ChatList
from garcon.contract.events import ProcessingUpdated, SessionDeleted
from garcon.contract.runs import NativeSession
from garcon.controller.chats.paths import KEPT, PAUSE
from garcon.errors import GarconError
from garcon.runtime.interfaces import INativeHistory
from garcon.test.controller.chats.cast import CHAT, OTHER, WORKER, ChatsTestCase, Said
from garcon.testing.fake_runtime import FakeRuntime

UNKNOWN = "1767000000000009"


@implementer(INativeHistory)
class KeepingRuntime(FakeRuntime):
    """An executor whose agents keep what was said."""

    keeps = True

    def keeps_history(self, agent_id: str) -> bool:
        """Say so."""
        return self.keeps

    def read_history(self, session: NativeSession, take: Any) -> Deferred[None]:
        """Nobody asks for it here."""
        raise NotImplementedError


class ListTests(ChatsTestCase):
    """Entries that are encoded once for each change."""

    def setUp(self) -> None:
        super().setUp()
        self.view = self.started()

    def entry(self) -> dict[str, Any]:
        """Return the entry of the first chat."""
        return next(entry for entry in self.listed() if entry["id"] == CHAT)

    def test_it_is_of_its_type(self) -> None:
        """The joined body is what the contract says, to the key."""
        self.started(chatId=OTHER, tags=["a"])
        body = self.asked(operations.LIST_CHATS).body
        self.assertEqual(msgspec.to_builtins(msgspec.convert(body, ChatList)), body)
        self.assertEqual((body["total"], body["lastSelectedChatId"]), (2, None))

    def test_an_answer_is_made_once_while_nothing_changes(self) -> None:
        """The same bytes, not bytes that are equal; whatever changes, others are made."""
        lists: Any = self.handlers._handlers["GET /chats"]

        def answer() -> Any:
            return self.successResultOf(Deferred.fromCoroutine(lists(None)))

        first = answer()
        self.assertIs(answer(), first)
        self.asked(operations.SET_TAGS, {"chatId": CHAT, "tags": ["new"]})
        second = answer()
        self.assertIsNot(second, first)
        self.assertIs(answer(), second)
        self.run_chat(self.view)
        self.assertIsNot(answer(), second)

    def test_every_change_shows(self) -> None:
        """No entry is older than its chat."""
        before = self.entry()
        self.assertEqual(self.entry(), before)
        for operation, body, seen in (
            (operations.SESSION_NAME, {"title": "a name"}, ("title", "a name")),
            (operations.SET_TAGS, {"tags": ["x"]}, ("tags", ["x"])),
            (operations.PIN, {"pinned": True}, ("isPinned", True)),
            (operations.MARK_READ, {"entries": [{"chatId": CHAT}]}, ("isUnread", False)),
            (
                operations.CHANGE_EXECUTION_SETTINGS,
                {"permissionMode": "acceptEdits"},
                ("permissionMode", "acceptEdits"),
            ),
            (operations.CHANGE_MODEL, {"model": "other"}, ("model", "other")),
        ):
            self.assertNotEqual(before.get(seen[0]), seen[1])
            self.clock.advance(1)
            self.assertEqual(self.asked(operation, {"chatId": CHAT} | body).status, 200)
            self.assertEqual(self.entry()[seen[0]], seen[1])

    def test_a_turn_shows(self) -> None:
        """Its phase, what was said, and that it is over."""
        self.run_chat(self.view, command="long")
        self.assertEqual(self.entry()["processingPhase"], "running")
        self.assertEqual(self.entry()["preview"]["lastMessage"], "long")
        self.local.holds_aborts = True
        d = self.stop()
        self.assertEqual(self.entry()["processingPhase"], "stopping")
        self.local.last.interrupted()
        self.successResultOf(d)
        entry = self.entry()
        self.assertEqual((entry["processingPhase"], entry["isProcessing"]), (None, False))

    def test_an_executor_that_is_waited_for_shows(self) -> None:
        """And that it is back."""
        self.start(chatId=OTHER, executorId=WORKER)
        seen = []
        for state in ("ready", "reconnecting", "ready"):
            self.executors.states[WORKER] = state
            self.chats.availability_changed(WORKER)
            [entry] = [one for one in self.listed() if one["id"] == OTHER]
            seen.append(entry["processingPhase"])
        self.assertEqual(seen, ["running", "reconnecting", "running"])

    def test_a_new_chat_is_listed_before_it_is_told_to_run(self) -> None:
        """A first turn's state is told only of a chat that is there (server.md A.11.9)."""
        listed: list[bool] = []

        def told(event: Any) -> None:
            if isinstance(event, ProcessingUpdated):
                listed.append(any(one["isProcessing"] for one in self.listed()))

        self.publisher.subscribe(told)
        self.start(chatId=OTHER)
        self.assertEqual(listed, [True])

    def test_a_start_that_failed_takes_its_chat_out_of_every_list(self) -> None:
        """It was there while its agent was launched; then it is told to be gone."""
        self.local.holds_launches = True
        d = self.ask(operations.START_CHAT, self.start_body(chatId=OTHER))
        self.assertEqual(len(self.listed()), 2)
        self.told.clear()
        self.local.last.refuse(GarconError("AGENT_FAILED", "no", status=500))
        self.assertEqual(self.successResultOf(d).status, 500)
        self.assertEqual(len(self.listed()), 1)
        self.assertEqual(self.told[-1], SessionDeleted(chat_id=OTHER))

    def test_what_can_be_made_anew_from_its_agents_history(self) -> None:
        """A chat whose agent has a session, and keeps what was said in it."""
        self.local = KeepingRuntime(self.base)
        self.executors.runtimes["local"] = self.local
        self.start(chatId=OTHER)

        def shown() -> dict[str, Any]:
            return {one["id"]: one["canReloadFromNativeHistory"] for one in self.listed()}

        self.assertEqual(shown(), {CHAT: True, OTHER: False})
        self.local.last.session("another")
        self.assertEqual(shown(), {CHAT: True, OTHER: True})
        chat = self.snapshot(OTHER).body["chat"]
        self.assertTrue(chat["canReloadFromNativeHistory"])
        self.local.keeps = False
        self.clock.advance(PAUSE)
        self.assertEqual(shown(), {CHAT: False, OTHER: False})
        del self.executors.runtimes["local"]
        self.clock.advance(PAUSE)
        self.assertEqual(shown(), {CHAT: False, OTHER: False})

    def test_a_project_that_comes_back_shows_its_chat(self) -> None:
        """At the latest after a while."""
        os.rename(f"{self.base}/p", f"{self.base}/q")
        self.clock.advance(KEPT + 1)
        self.assertEqual(self.listed(), [])
        os.rename(f"{self.base}/q", f"{self.base}/p")
        self.clock.advance(KEPT + 1)
        self.assertEqual(len(self.listed()), 1)


class LastSelectedTests(ChatsTestCase):
    """`PUT /chats/last-selected`."""

    def setUp(self) -> None:
        super().setUp()
        self.started()

    def select(self, **body: Any) -> Said:
        """Remember a chat."""
        return self.asked(operations.SELECT_CHAT, body)

    def selected(self) -> str | None:
        """Return what the list says of it."""
        said: str | None = self.asked(operations.LIST_CHATS).body["lastSelectedChatId"]
        return said

    def test_is_remembered(self) -> None:
        """Until another is, or none."""
        answer = self.select(chatId=CHAT)
        self.assertEqual(answer.body, {"success": True, "lastSelectedChatId": CHAT})
        self.assertEqual(self.selected(), CHAT)
        answer = self.select(chatId=None)
        self.assertEqual(answer.body, {"success": True, "lastSelectedChatId": None})
        self.assertIsNone(self.selected())

    def test_what_is_no_chat(self) -> None:
        """It has to be said, as a text that is a chat, and changes nothing otherwise."""
        self.select(chatId=CHAT)
        for body in ({}, {"chatId": ""}, {"chatId": " "}, {"chatId": 7}):
            self.assertEqual(self.select(**body).failure, (400, "VALIDATION_FAILED", False))
        self.assertEqual(self.select(chatId=UNKNOWN).failure, (404, "SESSION_NOT_FOUND", False))
        self.assertEqual(self.selected(), CHAT)

    def test_a_deleted_chat_is_forgotten(self) -> None:
        """A new one under its id is not the one that was looked at."""
        self.select(chatId=CHAT)
        self.asked(operations.DELETE_CHAT, {"chatId": CHAT})
        self.assertIsNone(self.selected())
        self.started()
        self.assertIsNone(self.selected())

    def test_a_chat_that_is_not_listed_is_not_named(self) -> None:
        """It is still remembered, for when it is back."""
        self.select(chatId=CHAT)
        os.rename(f"{self.base}/p", f"{self.base}/q")
        self.clock.advance(KEPT + 1)
        self.assertIsNone(self.selected())
        os.rename(f"{self.base}/q", f"{self.base}/p")
        self.clock.advance(KEPT + 1)
        self.assertEqual(self.selected(), CHAT)

    def test_is_lost_on_restart(self) -> None:
        """It is in memory only."""
        self.select(chatId=CHAT)
        self.restart()
        self.assertIsNone(self.selected())
