"""Compacting a chat's agent session (chats.md 3.9)."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from garcon.contract import operations
from garcon.test.controller.chats.cast import CHAT, ChatsTestCase, Said
from garcon.testing.fake_runtime import agent_entry

OTHER = "1767323045000778"


class CompactionTests(ChatsTestCase):
    """A turn that compacts."""

    def setUp(self) -> None:
        super().setUp()
        self.view = self.started()

    def compact(self, **more: Any) -> Said:
        body = {"clientRequestId": self.request_id(), "chatId": CHAT}
        return self.asked(operations.COMPACT, body | more)

    def test_an_agent_that_cannot(self) -> None:
        """Accepts the command, and the turn fails."""
        answer = self.compact()
        self.assertEqual((answer.status, answer.body["commandType"]), (202, "agent-compact"))
        receipt = self.receipt(answer.body["turnId"]).body
        self.assertEqual(receipt["state"], "failed")
        self.assertIn("compact", receipt["error"])
        self.assertIsNone(self.phase())
        self.assertEqual(len(self.kinds()), 2)

    def test_an_agent_that_can(self) -> None:
        """Is told so in its session, with the instructions as they are."""
        entry = structs.replace(agent_entry(), supports_compact=True)
        self.local.agents = [entry]
        self.clock.advance(61)
        answer = self.compact(instructions=" keep names ")
        launch = self.local.last.launch
        self.assertTrue(launch.is_compaction)
        self.assertEqual(launch.prompt, " keep names ")
        self.assertEqual(launch.agent_session_id, "agent-session")
        self.local.last.finish()
        self.assertEqual(self.receipt(answer.body["turnId"]).body["state"], "completed")

    def test_a_chat_that_runs(self) -> None:
        """Is not compacted."""
        self.run_chat(self.view)
        self.assertEqual(self.compact().failure, (409, "VALIDATION_FAILED", False))

    def test_a_chat_whose_queue_is_held(self) -> None:
        """Is busy, without its control."""
        self.run_chat(self.view)
        body = {
            "clientRequestId": "q",
            "clientMessageId": "m-q",
            "chatId": CHAT,
            "transcriptViewId": self.view,
            "content": "later",
        }
        self.assertEqual(self.asked(operations.CREATE_ENTRY, body).status, 202)
        self.successResultOf(self.stop())
        answer = self.compact()
        self.assertEqual(answer.failure, (409, "SESSION_BUSY", True))
        self.assertNotIn("control", answer.body)

    def test_a_replay(self) -> None:
        """Is a duplicate; other instructions conflict; an unknown chat is unknown."""
        first = self.compact(clientRequestId="c")
        again = self.compact(clientRequestId="c")
        self.assertEqual(again.body["status"], "duplicate")
        self.assertEqual(again.body["turnId"], first.body["turnId"])
        other = self.compact(clientRequestId="c", instructions="x")
        self.assertEqual(other.failure, (409, "IDEMPOTENCY_CONFLICT", False))
        self.assertEqual(self.compact(chatId=OTHER).failure, (404, "SESSION_NOT_FOUND", False))
