"""Chats that are made of others, rule by rule (chats.md 5.8, 5.10); `test_forks.py` has their
commands.
"""

from __future__ import annotations

from typing import Any

from garcon.contract import operations
from garcon.contract.events import ProcessingUpdated
from garcon.contract.messages import ErrorMessage
from garcon.contract.runs import RowProduced
from garcon.test.controller.chats.cast import CHAT, SETTINGS, ChatsTestCase, Said
from garcon.testing.fake_runtime import AT, agent_entry

FORK, SECOND = "1767323045000777", "1767323045000778"
TAKEN_OVER = (
    *("agentId", "executorId", "model", "apiProviderId", "modelEndpointId", "modelProtocol"),
    *("permissionMode", "thinkingMode", "agentSettings", "tags", "projectPath"),
    "effectiveProjectKey",
)


class SuccessorCase(ChatsTestCase):
    """A named, tagged and pinned chat with one answered turn."""

    def setUp(self) -> None:
        super().setUp()
        self.view = self.started(
            tags=["a"],
            permissionMode="acceptEdits",
            thinkingMode="high",
            agentSettings=SETTINGS | {"values": {"a": 1}},
        )
        self.asked(operations.SESSION_NAME, {"chatId": CHAT, "title": "named"})
        self.asked(operations.PIN, {"chatId": CHAT, "pinned": True})
        self.asked(operations.MARK_READ, {"entries": [{"chatId": CHAT}]})
        self.told.clear()

    def fork(self, **more: Any) -> Said:
        """Fork the chat."""
        return self.asked(operations.FORK, {"sourceChatId": CHAT, "chatId": FORK} | more)

    def made(self, operation: Any, **more: Any) -> Said:
        """Make a chat of it and run its first turn."""
        body = {
            "clientRequestId": self.request_id(),
            "clientMessageId": f"m-{self.requests}",
            "sourceChatId": CHAT,
            "chatId": FORK,
            "command": "go on",
        }
        return self.asked(operation, body | more)

    def entry(self, chat_id: str) -> dict[str, Any]:
        """Return a chat as it is listed."""
        [found] = [one for one in self.listed() if one["id"] == chat_id]
        return found

    def texts(self, chat_id: str) -> list[Any]:
        """Return what is shown of a chat."""
        return [text for _, _, text in self.kinds(chat_id)]


class ForkTests(SuccessorCase):
    """Forks (5.8.1 to 5.8.5)."""

    def test_1_what_the_target_gets(self) -> None:
        """The source's choices, a new epoch, a number behind its visible title, the top of the
        normal list; whether it is made with a turn or without.
        """
        self.assertEqual(self.fork().status, 200)
        self.assertEqual(self.made(operations.FORK_RUN, chatId=SECOND).status, 202)
        source = self.entry(CHAT)
        for number, chat_id in enumerate((FORK, SECOND), 1):
            entry = self.entry(chat_id)
            for name in TAKEN_OVER:
                self.assertEqual(entry[name], source[name], name)
            self.assertEqual(entry["title"], f"named ({number})")
            self.assertNotEqual(entry["agentOwnershipEpoch"], source["agentOwnershipEpoch"])
            self.assertEqual((entry["orderGroup"], entry["isPinned"]), ("normal", False))
            self.assertIsNone(entry["activity"]["lastReadAt"])
        self.assertEqual([one["id"] for one in self.listed()], [CHAT, SECOND, FORK])

    def test_2_what_is_copied(self) -> None:
        """Users' rows, agents' but errors, changes of hands; of a point fork up to it, and it."""
        self.local.agents.append(agent_entry("other"))
        epoch = self.entry(CHAT)["agentOwnershipEpoch"]
        target = {"agentId": "other", "model": "other"}
        handoff = {"expectedAgentOwnershipEpoch": epoch, "target": target}
        self.run_chat(self.view, handoff=handoff)
        run = self.local.last
        run.emit(RowProduced(message=ErrorMessage(timestamp=AT, content="oh")))
        run.ask("o")
        run.say("from other")
        run.finish()
        self.fork()
        copied = [
            *("user-message", "assistant-message", "agent-switch", "user-message"),
            "assistant-message",
        ]
        self.assertEqual([kind for _, kind, _ in self.kinds(FORK)], copied)
        [point] = [n for n, kind, _ in self.kinds() if kind == "agent-switch"]
        self.fork(chatId=SECOND, upToOrdinal=point, transcriptViewId=self.view)
        self.assertEqual([kind for _, kind, _ in self.kinds(SECOND)], copied[:3])
        self.assertEqual(self.messages(SECOND).body["lastOrdinal"], 3)

    def test_3_an_agent_begins_anew_with_the_copy(self) -> None:
        """It has no session there, and is told what was said, whether consent was given or not."""
        for chat_id, consent in ((FORK, None), (SECOND, True)):
            self.fork(chatId=chat_id, allowHandoffFork=consent)
            view = self.messages(chat_id).body["transcriptViewId"]
            self.run_chat(view, chatId=chat_id)
            launch = self.local.last.launch
            self.assertIsNone(launch.agent_session_id)
            self.assertEqual([one.content for one in launch.history], ["hello", "hi"])

    def test_4_source_and_target_are_independent(self) -> None:
        """Neither conversation nor view of the source changes; a fork is forked again, also after
        a restart.
        """
        before = self.messages().body
        self.fork()
        view = self.messages(FORK).body["transcriptViewId"]
        self.run_chat(view, chatId=FORK, command="there")
        self.local.last.say("yes")
        self.local.last.finish()
        self.assertEqual(self.messages().body, before)
        self.restart()
        self.assertEqual(self.texts(FORK), ["hello", "hi", "there", "yes"])
        self.assertEqual(self.fork(sourceChatId=FORK, chatId=SECOND).status, 200)
        self.assertEqual(self.texts(SECOND), ["hello", "hi", "there", "yes"])
        self.assertEqual(self.texts(CHAT), ["hello", "hi"])

    def test_5_one_command_one_request(self) -> None:
        """However often a fork-run is sent."""
        body = {"clientRequestId": "f", "clientMessageId": "f"}
        turns = {self.made(operations.FORK_RUN, **body).body["turnId"] for _ in range(3)}
        self.assertEqual((len(turns), len(self.local.runs)), (1, 2))
        other = self.made(operations.FORK_RUN, **body, command="else")
        self.assertEqual(other.failure, (409, "IDEMPOTENCY_CONFLICT", False))

    def test_a_source_that_runs_never_shows_it(self) -> None:
        """Its phase is that of its turn, and none is told (5.4)."""
        self.run_chat(self.view)
        self.told.clear()
        self.assertEqual(self.fork().status, 200)
        self.local.last.finish()
        phases = [e for e in self.told if isinstance(e, ProcessingUpdated)]
        self.assertEqual([(one.chat_id, one.phase) for one in phases], [(CHAT, None)])


class ContinuationTests(SuccessorCase):
    """Continuations (5.10)."""

    def test_what_the_target_gets(self) -> None:
        """The source's choices, name and first message, a new epoch, and the new input behind the
        copied conversation.
        """
        answer = self.made(operations.HANDOFF_RUN)
        self.assertEqual(answer.status, 202)
        source, entry = self.entry(CHAT), self.entry(FORK)
        self.assertEqual(answer.body["chat"], entry)
        for name in (*TAKEN_OVER, "title"):
            self.assertEqual(entry[name], source[name], name)
        self.assertEqual(entry["preview"]["firstMessage"], source["preview"]["firstMessage"])
        self.assertNotEqual(entry["agentOwnershipEpoch"], source["agentOwnershipEpoch"])
        self.assertEqual(self.texts(FORK), ["hello", "hi", "go on"])
        launch = self.local.last.launch
        self.assertEqual((launch.chat_id, launch.prompt), (FORK, "go on"))
        self.assertEqual([one.content for one in launch.history], ["hello", "hi"])

    def test_the_source_is_untouched(self) -> None:
        """Its conversation, view, place and count of forks."""
        before = self.entry(CHAT), self.messages().body
        self.made(operations.HANDOFF_RUN)
        self.assertEqual((self.entry(CHAT), self.messages().body), before)
        self.fork(chatId=SECOND)
        self.assertEqual(self.entry(SECOND)["title"], "named (1)")
