"""A chat changes hands (chats.md 3.5, 5.9)."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, fail, succeed

from garcon.contract import operations
from garcon.contract.events import ListRefreshRequested
from garcon.errors import GarconError
from garcon.runtime.projects import NO_ACCESS
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
        """New epoch, a row that says so, one event, and all that was said before (5.9.2)."""
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
        """Two switches, the whole context each time, and it survives a crash (5.9.3)."""
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
        self.assertIn("turnId=", again.headers["Location"])
        self.restart()
        again = self.handoff(body)
        self.assertEqual((again.status, again.body["chat"]["agentId"]), (202, "other"))
        self.assertEqual(again.body["status"], "duplicate")
        self.assertEqual(self.local.runs, [])

    def test_a_replay_after_a_crash_while_the_next_turn_runs(self) -> None:
        """Is a duplicate all the same (5.9.5); another input under its id conflicts, and one that
        was never taken is stale.
        """
        body = self.handoff_body()
        self.handoff(body)
        self.restart()
        self.local.agents.append(agent_entry("other"))
        self.run_chat(self.view, command="next")
        before = self.kinds()
        self.assertEqual(self.handoff(body).body["status"], "duplicate")
        other = self.handoff(body | {"clientRequestId": "x", "command": "else"})
        self.assertEqual(other.failure, (409, "IDEMPOTENCY_CONFLICT", False))
        stale = self.handoff(body | {"clientRequestId": "y", "clientMessageId": "y"})
        self.assertEqual(stale.failure, (409, "STALE_CHAT_OWNERSHIP", False))
        self.assertEqual((self.kinds(), self.phase()), (before, "running"))

    def test_killed_before_it_was_kept(self) -> None:
        """The old owner stays, nothing is pending, and the same hand-off can be sent again: owner,
        switch and input are one commit (5.9.4).
        """
        self.memory.held = True
        body = self.handoff_body()
        self.assertNoResult(self.ask(operations.RUN_CHAT, body))
        self.memory.lose()
        self.restart()
        self.local.agents.append(agent_entry("other"))
        entry = self.listed()[0]
        self.assertEqual((entry["agentId"], entry["agentOwnershipEpoch"]), ("scripted", self.epoch))
        self.assertEqual(len(self.kinds()), 2)
        self.assertEqual(self.handoff(body).body["status"], "accepted")
        self.assertEqual(len(self.kinds()), 4)

    def test_a_refusal_changes_nothing(self) -> None:
        """Each by its code."""
        cases: list[tuple[dict[str, Any], tuple[int, str, bool]]] = [
            ({"epoch": "old"}, (409, "STALE_CHAT_OWNERSHIP", False)),
            ({"agentId": "scripted", "model": "scripted"}, (400, "VALIDATION_FAILED", False)),
            ({"agentId": "nobody"}, (422, "UNSUPPORTED_AGENT", False)),
            ({"permissionMode": "plan"}, (422, "VALIDATION_FAILED", False)),
            ({"permissionMode": "rude"}, (400, "VALIDATION_FAILED", False)),
            ({"thinkingMode": "think"}, (400, "VALIDATION_FAILED", False)),
            ({"modelProtocol": "openai-compatible"}, (422, "VALIDATION_FAILED", False)),
            ({"modelEndpointId": "e"}, (400, "VALIDATION_FAILED", False)),
            ({"model": " "}, (400, "VALIDATION_FAILED", False)),
            ({"executorId": "elsewhere"}, (400, "VALIDATION_FAILED", False)),
        ]
        for target, failure in cases:
            self.assertEqual(self.handoff(**target).failure, failure, target)
        self.assertEqual(self.listed()[0]["agentOwnershipEpoch"], self.epoch)
        self.assertEqual(len(self.kinds()), 2)

    def test_a_bypass_that_would_be_inherited(self) -> None:
        """Has to be named (3.5)."""
        body = {"chatId": CHAT, "permissionMode": "bypassPermissions"}
        self.assertEqual(self.asked(operations.CHANGE_EXECUTION_SETTINGS, body).status, 200)
        policy = {"permissionFallbackPolicy": "require-explicit-bypass"}
        answer = self.handoff(self.handoff_body() | policy)
        self.assertEqual(answer.failure, (422, "EXPLICIT_BYPASS_REQUIRED", False))
        named = self.handoff_body(permissionMode="bypassPermissions") | policy
        self.assertEqual(self.handoff(named).status, 202)

    def test_it_is_checked_for_ownership_before_it_is_for_idleness(self) -> None:
        """In the order of 3.5."""
        self.run_chat(self.view)
        answer = self.handoff(epoch="old")
        self.assertEqual(answer.failure, (409, "STALE_CHAT_OWNERSHIP", False))
        self.assertNotIn("control", answer.body)

    def test_a_queue_that_is_held(self) -> None:
        """Refuses it, and keeps its pause (5.9.1)."""
        self.run_chat(self.view)
        entry = {
            "clientRequestId": "q",
            "clientMessageId": "m-q",
            "chatId": CHAT,
            "transcriptViewId": self.view,
            "content": "later",
        }
        self.assertEqual(self.asked(operations.CREATE_ENTRY, entry).status, 202)
        self.successResultOf(self.stop())
        before = self.asked(operations.READ_QUEUE, query={"chatId": CHAT}).body["control"]
        answer = self.handoff()
        self.assertEqual(answer.failure, (409, "AGENT_HANDOFF_REQUIRES_IDLE", True))
        self.assertEqual(answer.body["control"], before)
        self.assertEqual(before["queue"]["pause"]["kind"], "manual")

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

    def test_what_others_write_meanwhile(self) -> None:
        """Read marks and places in the list wait for no chat: they stay, now and after a restart,
        whether the hand-off is kept or not.
        """
        for refusals in (1, 0):
            catalog: Deferred[Any] = Deferred()
            self.clock.advance(61)
            self.local.reads.append(catalog)
            waiting = self.ask(operations.RUN_CHAT, self.handoff_body())
            self.asked(operations.MARK_READ, {"entries": [{"chatId": CHAT}]})
            pinned = {"chatId": CHAT, "pinned": True}
            self.assertEqual(self.asked(operations.PIN, pinned).status, 200)
            read = self.listed()[0]["activity"]["lastReadAt"]
            self.memory.refusals = refusals
            catalog.callback(tuple(self.local.agents))
            status = 500 if refusals else 202
            self.assertEqual(self.successResultOf(waiting).status, status)
            (entry,) = self.listed()
            self.assertTrue(entry["isPinned"])
            self.assertEqual(entry["activity"]["lastReadAt"], read)
        self.restart()
        (entry,) = self.listed()
        self.assertTrue(entry["isPinned"])
        self.assertEqual((entry["agentId"], entry["activity"]["lastReadAt"]), ("other", read))

    def test_a_directory_that_cannot_be_used_there(self) -> None:
        """Has the codes that a change of the directory has (1.3), and nothing has changed."""
        for reason, failure in (
            ("PROJECT_PATH_OUTSIDE_BASE", (403, "PROJECT_PATH_OUTSIDE_BASE", False)),
            ("PROJECT_PATH_NOT_FOUND", (404, "PROJECT_PATH_NOT_FOUND", False)),
            ("PROJECT_PATH_NOT_DIRECTORY", (400, "PROJECT_PATH_NOT_DIRECTORY", False)),
            (NO_ACCESS, (404, "PROJECT_PATH_NOT_FOUND", False)),
        ):
            status = 403 if reason == NO_ACCESS else failure[0]
            error = GarconError(reason, "no", status=status)
            self.clock.advance(61)
            self.worker.reads = [succeed((agent_entry(),)), fail(error)]
            answer = self.handoff(agentId="scripted", model="scripted", executorId=WORKER)
            self.assertEqual(answer.failure, failure)
        self.assertEqual(self.listed()[0]["executorId"], "local")

    def test_another_executor(self) -> None:
        """The same agent there is another owner, and the project is that executor's."""
        answer = self.handoff(agentId="scripted", model="scripted", executorId=WORKER)
        self.assertEqual(answer.status, 202, answer.body)
        self.assertEqual(answer.body["chat"]["executorId"], WORKER)
        self.assertEqual(self.worker.last.launch.chat_id, CHAT)
        self.assertEqual(len(self.local.runs), 1)
