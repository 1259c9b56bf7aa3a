"""What lists show of a conversation, and what does not change it (chats.md 4.1, 5.14)."""

from __future__ import annotations

from typing import Any

from garcon.contract import operations
from garcon.contract.events import TitleUpdated
from garcon.contract.messages import (
    AssistantMessage,
    Compaction,
    ErrorMessage,
    ProviderRow,
    Thinking,
    TranscriptNotice,
)
from garcon.contract.runs import PermissionWithdrawn, RowProduced
from garcon.test.controller.chats.cast import CHAT, OTHER, ChatsTestCase
from garcon.testing.fake_runtime import agent_entry

PICTURE = {"data": "data:image/png;base64,AAAA"}
LATER = "2030-01-01T00:00:00.000Z"


class FirstMessageTests(ChatsTestCase):
    """`firstMessage` is the first text that a user sends, wherever it stands."""

    def setUp(self) -> None:
        super().setUp()
        self.view = self.started(command="", images=[PICTURE])
        self.told.clear()

    def shown(self) -> tuple[str, Any]:
        """What the list calls the chat, and the first message in it."""
        [entry] = self.listed()
        return entry["title"], entry["preview"].get("firstMessage")

    def assert_named(self, name: str) -> None:
        """It is called so, now and after a restart, and that was told once."""
        self.assertEqual(self.shown(), (name, name))
        self.assertEqual(
            [event for event in self.told if isinstance(event, TitleUpdated)],
            [TitleUpdated(chat_id=CHAT, title=name)],
        )
        details = self.asked(operations.CHAT_DETAILS, query={"chatId": CHAT}).body
        self.assertEqual(details["firstMessage"], name)
        self.restart()
        self.assertEqual(self.shown(), (name, name))

    def test_there_is_none_before_anything_was_written(self) -> None:
        """Pictures have no words."""
        self.assertEqual(self.shown(), ("New Session", None))
        self.run_chat(self.view, command="", images=[PICTURE])
        self.assertEqual(self.shown(), ("New Session", None))
        self.assertFalse([event for event in self.told if isinstance(event, TitleUpdated)])

    def test_the_text_of_a_later_run(self) -> None:
        """And of that the first line; what follows changes nothing."""
        self.run_chat(self.view, command="  what is this?\nand that?")
        self.local.last.finish()
        self.run_chat(self.view, command="more")
        self.assert_named("what is this?")

    def test_the_text_of_a_queued_message(self) -> None:
        """As of a run."""
        body = {
            "clientRequestId": "q",
            "clientMessageId": "q",
            "chatId": CHAT,
            "transcriptViewId": self.view,
            "content": "queued",
        }
        self.assertEqual(self.asked(operations.CREATE_ENTRY, body).status, 202)
        self.assert_named("queued")

    def test_the_text_of_a_steer(self) -> None:
        """Once its row is there."""
        self.run_chat(self.view, command="", images=[PICTURE])
        body = {
            "clientRequestId": "s",
            "clientMessageId": "s",
            "chatId": CHAT,
            "transcriptViewId": self.view,
            "content": "steered",
        }
        self.assertEqual(self.asked(operations.STEER, body).status, 202)
        self.assert_named("steered")

    def test_the_text_of_a_continuation(self) -> None:
        """Its source keeps what it had."""
        body = {
            "clientRequestId": "c",
            "clientMessageId": "c",
            "sourceChatId": CHAT,
            "chatId": OTHER,
            "command": "go on",
        }
        self.assertEqual(self.asked(operations.HANDOFF_RUN, body).status, 202)
        self.assertEqual([entry["title"] for entry in self.listed()], ["go on", "New Session"])

    def test_a_name_hides_it(self) -> None:
        """It is the first message all the same, and no new title is told."""
        self.asked(operations.SESSION_NAME, {"chatId": CHAT, "title": "named"})
        self.told.clear()
        self.run_chat(self.view, command="words")
        self.assertEqual(self.shown(), ("named", "words"))
        self.assertFalse([event for event in self.told if isinstance(event, TitleUpdated)])

    def test_a_store_that_refuses(self) -> None:
        """What was not kept is not shown."""
        self.memory.refusals = 1
        self.assertEqual(self.run_chat(self.view, command="lost").status, 500)
        self.assertEqual(self.shown(), ("New Session", None))
        self.assertFalse([event for event in self.told if isinstance(event, TitleUpdated)])


class LatestTests(ChatsTestCase):
    """`lastMessage` and `lastActivityAt` follow what users and agents say."""

    def setUp(self) -> None:
        super().setUp()
        self.view = self.started()
        self.run_chat(self.view, command="again")

    def latest(self) -> tuple[str, str]:
        """Return the preview and its time."""
        [entry] = self.listed()
        return entry["preview"]["lastMessage"], entry["activity"]["lastActivityAt"]

    def test_an_agents_rows_move_them(self) -> None:
        """Any row moves the time, one with a text the preview too."""
        rows: tuple[tuple[ProviderRow, str], ...] = (
            (Thinking(timestamp="2031-01-01T00:00:00.000Z", content="hm"), "again"),
            (
                Compaction(timestamp="2032-01-01T00:00:00.000Z", trigger="auto", summary="s"),
                "again",
            ),
            (AssistantMessage(timestamp="2033-01-01T00:00:00.000Z", content="so\nit is"), "so"),
        )
        for message, preview in rows:
            self.local.last.emit(RowProduced(message=message))
            self.assertEqual(self.latest(), (preview, message.timestamp))

    def test_nothing_else_moves_them(self) -> None:
        """Errors, notices, questions and what became of them, chat rows, sessions, ends."""
        before = self.latest()
        self.clock.advance(3600)
        run = self.local.last
        run.emit(RowProduced(message=ErrorMessage(timestamp=LATER, content="oh")))
        run.emit(RowProduced(message=TranscriptNotice(timestamp=LATER, content="lost")))
        run.session("another")
        run.ask("one")
        run.emit(PermissionWithdrawn(permission_occurrence_id="one"))
        row = {
            "clientRequestId": "r",
            "clientMessageId": "r",
            "chatId": CHAT,
            "transcriptViewId": self.view,
            "type": "notice",
            "content": "aside",
        }
        self.assertEqual(self.asked(operations.ADD_ROW, row).status, 200)
        run.finish()
        self.assertEqual(self.latest(), before)
        self.restart()
        self.assertEqual(self.latest(), before)

    def test_a_change_of_hands_moves_them_by_its_input_only(self) -> None:
        """The switch is no word of anybody's."""
        self.local.last.finish()
        self.local.agents.append(agent_entry("other"))
        epoch = self.listed()[0]["agentOwnershipEpoch"]
        target = {"agentId": "other", "model": "other"}
        handoff = {"expectedAgentOwnershipEpoch": epoch, "target": target}
        self.clock.advance(60)
        answer = self.run_chat(self.view, command="you", handoff=handoff)
        self.assertEqual(self.latest(), ("you", answer.body["acceptedAt"]))


class ReadingTests(ChatsTestCase):
    """Who only looks changes nothing."""

    def test_reading_leaves_everything_as_it_was(self) -> None:
        """Markers, titles, tags, modes, order, control; and nobody is told anything."""
        view = self.started(tags=["a"], permissionMode="acceptEdits")
        self.started(chatId=OTHER)
        before = self.listed(), self.snapshot().body["control"], self.memory.writes
        self.told.clear()
        for operation, query in (
            (operations.SNAPSHOT, {"chatId": CHAT, "limit": 200}),
            (operations.MESSAGES, {"chatId": CHAT, "purpose": "activation"}),
            (
                operations.MESSAGES,
                {"chatId": CHAT, "transcriptViewId": view, "beforeOrdinal": 3},
            ),
            (operations.CHAT_DETAILS, {"chatId": CHAT}),
            (operations.READ_QUEUE, {"chatId": CHAT}),
            (operations.READ_ROWS, {"chatId": CHAT}),
            (operations.READ_TAGS, {"chatId": CHAT}),
            (operations.RUNNING_CHATS, {}),
        ):
            self.assertEqual(self.asked(operation, query=query).status, 200, operation.route.key)
        after = self.listed(), self.snapshot().body["control"], self.memory.writes
        self.assertEqual((after, self.told), (before, []))
        self.assertTrue(after[0][0]["isUnread"])
