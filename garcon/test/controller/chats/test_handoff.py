"""A chat changes hands (chats.md 3.5, 5.9)."""

from __future__ import annotations

from typing import Any

from garcon.contract import operations
from garcon.contract.events import ListRefreshRequested
from garcon.test.controller.chats.cast import CHAT, WORKER, ChatsTestCase, Said
from garcon.testing.fake_runtime import agent_entry


class HandoffTests(ChatsTestCase):
    """A run that changes the chat's owner (chats.md 5.9)."""

    def setUp(self) -> None:
        super().setUp()
        self.view = self.started()
        self.local.agents.append(agent_entry("other"))
        self.epoch = self.listed()[0]["agentOwnershipEpoch"]

    def handoff(self, body: dict[str, Any] | None = None, **target: Any) -> Said:
        """Run a turn with another agent."""
        return self.asked(operations.RUN_CHAT, body or self.handoff_body(**target))

    def handoff_body(self, **target: Any) -> dict[str, Any]:
        handoff = {
            "expectedAgentOwnershipEpoch": target.pop("epoch", self.epoch),
            "target": {"agentId": "other", "model": "other"} | target,
        }
        return self.run_body(self.view, handoff=handoff)

    def test_the_owner_changes_with_the_turn(self) -> None:
        """New epoch, a row that says so, one event, and all that was said before."""
        self.told.clear()
        answer = self.handoff()
        self.assertEqual(answer.status, 202)
        chat = answer.body["chat"]
        self.assertEqual((chat["agentId"], chat["model"]), ("other", "other"))
        self.assertNotEqual(chat["agentOwnershipEpoch"], self.epoch)
        self.assertEqual(chat["agentSettings"]["ownerId"], "other")
        self.assertEqual(
            [kind for _, kind, _ in self.kinds()],
            ["user-message", "assistant-message", "agent-switch", "user-message"],
        )
        launch = self.local.last.launch
        self.assertEqual((launch.agent_id, launch.agent_session_id), ("other", None))
        self.assertEqual([one.content for one in launch.history], ["hello", "hi"])
        reasons = [e.reason for e in self.told if isinstance(e, ListRefreshRequested)]
        self.assertEqual(reasons, ["agent-handoff"])
        self.assertEqual(self.messages().body["transcriptViewId"], self.view)

    def test_there_and_back(self) -> None:
        """Two switches, the whole context each time, and it survives a crash."""
        self.handoff()
        self.local.last.session("other-session")
        self.local.last.say("from other")
        self.local.last.finish()
        epoch = self.listed()[0]["agentOwnershipEpoch"]
        self.handoff(agentId="scripted", model="scripted", epoch=epoch)
        history = [one.content for one in self.local.last.launch.history]
        self.assertEqual(history, ["hello", "hi", "again", "from other"])
        self.restart()
        switches = [kind for _, kind, _ in self.kinds() if kind == "agent-switch"]
        self.assertEqual(len(switches), 2)
        self.assertEqual(self.listed()[0]["agentId"], "scripted")

    def test_a_replay(self) -> None:
        """Is a duplicate with the chat, and after a crash nothing is run again."""
        body = self.handoff_body()
        first = self.handoff(body)
        again = self.handoff(body)
        self.assertEqual(again.body["status"], "duplicate")
        self.assertEqual(again.body["turnId"], first.body["turnId"])
        self.assertEqual(again.body["chat"]["agentId"], "other")
        self.restart()
        again = self.handoff(body)
        self.assertEqual((again.status, again.body["chat"]["agentId"]), (202, "other"))
        self.assertEqual(self.local.runs, [])

    def test_a_refusal_changes_nothing(self) -> None:
        """Each by its code."""
        cases: list[tuple[dict[str, Any], tuple[int, str, bool]]] = [
            ({"epoch": "old"}, (409, "STALE_CHAT_OWNERSHIP", False)),
            ({"agentId": "scripted", "model": "scripted"}, (400, "VALIDATION_FAILED", False)),
            ({"agentId": "nobody"}, (422, "UNSUPPORTED_AGENT", False)),
            ({"permissionMode": "plan"}, (422, "VALIDATION_FAILED", False)),
            ({"modelEndpointId": "e"}, (400, "VALIDATION_FAILED", False)),
            ({"model": " "}, (400, "VALIDATION_FAILED", False)),
            ({"executorId": "elsewhere"}, (400, "VALIDATION_FAILED", False)),
        ]
        for target, failure in cases:
            self.assertEqual(self.handoff(**target).failure, failure, target)
        self.assertEqual(self.listed()[0]["agentOwnershipEpoch"], self.epoch)
        self.assertEqual(len(self.kinds()), 2)

    def test_it_requires_an_idle_chat(self) -> None:
        """Neither a turn nor a queue, with the control to show why."""
        self.run_chat(self.view)
        answer = self.handoff()
        self.assertEqual(answer.failure, (409, "AGENT_HANDOFF_REQUIRES_IDLE", True))
        self.assertIn("control", answer.body)

    def test_a_store_that_refuses(self) -> None:
        """The old owner stays."""
        self.memory.refusals = 1
        self.assertEqual(self.handoff().status, 500)
        self.assertEqual(self.listed()[0]["agentId"], "scripted")
        self.assertEqual(self.handoff().status, 202)

    def test_another_executor(self) -> None:
        """The same agent there is another owner, and the project is that executor's."""
        answer = self.handoff(agentId="scripted", model="scripted", executorId=WORKER)
        self.assertEqual(answer.status, 202, answer.body)
        self.assertEqual(answer.body["chat"]["executorId"], WORKER)
        self.assertEqual(self.worker.last.launch.chat_id, CHAT)
        self.assertEqual(len(self.local.runs), 1)
