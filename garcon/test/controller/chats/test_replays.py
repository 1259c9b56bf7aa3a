"""Every command that the ledger knows, once more: the same, another, and under another's name
(chats.md 2.3, 2.5).
"""

from __future__ import annotations

from typing import Any

from garcon.contract import operations
from garcon.contract.operations import Operation
from garcon.test.controller.chats.bodies import requests, start
from garcon.test.controller.chats.cast import CHAT, INSTANCE, OTHER, SETTINGS, Said
from garcon.test.controller.chats.queue_cast import QueueTestCase
from garcon.testing.fake_runtime import agent_entry

CONFLICT = (409, "IDEMPOTENCY_CONFLICT", False)
LEDGERED = (
    *(operations.RUN_CHAT, operations.COMPACT, operations.STOP_CHAT),
    *(operations.INTERRUPT_AND_SEND, operations.PERMISSION_DECISION, operations.CREATE_ENTRY),
    *(operations.REPLACE_ENTRY, operations.DELETE_ENTRY, operations.MOVE_ENTRY),
    *(operations.STEER, operations.STEER_ENTRY),
)
"""Commands on a chat that exists."""
BASE = {"success", "commandType", "clientRequestId", "chatId", "status", "acceptedAt"}
Variants = tuple[dict[str, Any], ...]
"""Members that are changed, one set at a time."""
OVERRIDES: Variants = (
    {"model": "other"},
    {"model": "other", "apiProviderId": "p", "modelEndpointId": "e"},
    {"model": "other", "modelProtocol": "anthropic-messages"},
    {"permissionMode": "acceptEdits"},
    {"thinkingMode": "high"},
    {"agentSettings": SETTINGS | {"values": {"a": 1}}},
)


def picture(text: str) -> dict[str, str]:
    """Return an attachment."""
    return {"data": f"data:image/png;base64,{text}"}


class ReplayTests(QueueTestCase):
    """Each command once, with the fields that make it the same one."""

    def assert_ledgered(
        self,
        operation: Operation,
        body: dict[str, Any],
        command_type: str,
        changed: Variants,
        same: Variants = (),
        *,
        has_turn: bool,
    ) -> None:
        """Judge the first answer, the duplicate's, and those to whatever is not the same."""
        first = self.asked(operation, body)
        self.assert_base(first, operation, body, command_type, has_turn=has_turn)
        self.assertEqual(first.body["status"], "accepted")
        told, runs = len(self.told), len(self.local.runs)
        for again in (body, *(body | one for one in same)):
            answer = self.asked(operation, again)
            self.assertEqual((answer.status, answer.code), (first.status, None), answer.body)
            self.assertEqual(answer.body["status"], "duplicate")
            for name in ("turnId", "entryId", "acceptedAt", "commandType", "outcome"):
                self.assertEqual(answer.body.get(name), first.body.get(name), name)
            self.assertEqual(answer.headers.get("Location"), first.headers.get("Location"))
        for one in changed:
            self.assertEqual(self.asked(operation, body | one).failure, CONFLICT, one)
        self.assert_taken(body["chatId"], body["clientRequestId"], operation)
        self.assertEqual((len(self.told), len(self.local.runs)), (told, runs))

    def assert_base(
        self,
        answer: Said,
        operation: Operation,
        body: dict[str, Any],
        command_type: str,
        *,
        has_turn: bool,
    ) -> None:
        """The members that every command's answer has (2.5)."""
        self.assertEqual(answer.status, operation.status, answer.body)
        self.assertLessEqual(BASE, answer.body.keys())
        self.assertEqual("turnId" in answer.body, has_turn)
        # Of the commands that begin a turn two say where its receipt is (3.4, 3.5, 3.7).
        named = operation in (operations.START_CHAT, operations.RUN_CHAT)
        self.assertEqual("Location" in answer.headers, named)
        said = answer.body
        self.assertEqual(
            (said["success"], said["commandType"], said["clientRequestId"], said["chatId"]),
            (True, command_type, body["clientRequestId"], body["chatId"]),
        )
        self.assertRegex(said["acceptedAt"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")

    def assert_taken(self, chat_id: str, request_id: str, by: Operation) -> None:
        """No other kind of command may have the id (2.3)."""
        view = self.messages(chat_id).body["transcriptViewId"]
        for operation in LEDGERED:
            _, body, _ = requests(chat_id, OTHER)[operation.route.key]
            body = body | {"clientRequestId": request_id}
            if "transcriptViewId" in body:
                body["transcriptViewId"] = view
            if operation is not by:
                answer = self.asked(operation, body)
                self.assertEqual(answer.failure, CONFLICT, operation.route.key)

    def body_of(self, operation: Operation, **more: Any) -> dict[str, Any]:
        """Return a body that is in order."""
        _, body, _ = requests(CHAT, OTHER)[operation.route.key]
        given = body | {"clientRequestId": self.request_id()}
        if "transcriptViewId" in body:
            given["transcriptViewId"] = self.view
        return given | more

    def test_chat_start(self) -> None:
        """Every field but how it is kept in mind; null and absent are one."""
        body = start(OTHER, f"{self.base}/p") | {"tags": ["b", "A"], "images": [picture("AAAA")]}
        changed: Variants = (
            *({"clientMessageId": "other"}, {"command": "other"}),
            {"agentId": "other", "agentSettings": SETTINGS | {"ownerId": "other"}},
            *({"projectPath": "/other"}, {"images": [picture("BBBB")]}, {"images": []}),
            *({"tags": ["b"]}, {"permissionMode": "plan"}, {"thinkingMode": "low"}),
            *({"apiProviderId": "p"}, {"modelEndpointId": "e"}, {"model": "other"}),
            *({"modelProtocol": "openai-compatible"}, {"parentChatId": CHAT}),
            {"agentSettings": SETTINGS | {"values": {"a": 1}}},
            {"orderedPreambleIds": []},
        )
        same: Variants = (
            *({"tags": [" a", "B", "b"]}, {"command": " hello\n"}, {"permissionMode": "nonsense"}),
            *({"apiProviderId": None, "modelProtocol": None}, {"origin": "cli"}),
            {"executorId": "local"},
        )
        self.assert_ledgered(
            operations.START_CHAT, body, "chat-start", changed, same, has_turn=True
        )

    def test_agent_run(self) -> None:
        """Every field; ordinals are a set, tags are normalised."""
        body = self.run_body(
            self.view, tagsToAdd=["b"], excludedResendOrdinals=[1, 3], images=[picture("AAAA")]
        )
        changed: Variants = (
            *({"clientMessageId": "x"}, {"command": "again "}, {"images": [picture("BBBB")]}),
            *({"excludedResendOrdinals": [1]}, {"tagsToAdd": ["c"]}, {"expectedAgentId": "x"}),
            *({"permissionFallbackPolicy": "require-explicit-bypass"}, *OVERRIDES),
            {
                "handoff": {
                    "expectedAgentOwnershipEpoch": "e",
                    "target": {"agentId": "a", "model": "m"},
                }
            },
        )
        same: Variants = (
            *({"excludedResendOrdinals": [3, 1, 3]}, {"tagsToAdd": [" B "]}),
            {"permissionFallbackPolicy": None, "handoff": None},
        )
        self.assert_ledgered(operations.RUN_CHAT, body, "agent-run", changed, same, has_turn=True)

    def test_agent_run_with_a_handoff(self) -> None:
        """Whatever it says of the hand-off."""
        self.local.agents.append(agent_entry("other"))
        epoch = self.listed()[0]["agentOwnershipEpoch"]
        target = {"agentId": "other", "model": "other"}
        handoff = {"expectedAgentOwnershipEpoch": epoch, "target": target}
        body = self.run_body(self.view, handoff=handoff)
        changed: Variants = (
            {"handoff": handoff | {"expectedAgentOwnershipEpoch": "e"}},
            {"handoff": handoff | {"target": target | {"model": "x"}}},
            {"handoff": handoff | {"target": target | {"thinkingMode": "high"}}},
            {"handoff": None},
        )
        self.assert_ledgered(operations.RUN_CHAT, body, "agent-run", changed, has_turn=True)

    def test_fork_run(self) -> None:
        """Consent may be added by a retry; all else makes another command."""
        body = self.body_of(operations.FORK_RUN, clientMessageId="f")
        self.started(chatId="1767000000000005")
        changed: Variants = (
            *({"sourceChatId": "1767000000000005"}, {"clientMessageId": "x"}, {"command": "y"}),
            *({"images": [picture("AAAA")]}, *OVERRIDES),
        )
        same: Variants = ({"allowHandoffFork": True}, {"allowHandoffFork": None})
        self.assert_ledgered(operations.FORK_RUN, body, "fork-run", changed, same, has_turn=True)

    def test_handoff_run(self) -> None:
        """It is a fork-run by its type, and no fork-run by its content."""
        body = self.body_of(operations.HANDOFF_RUN, clientMessageId="f")
        changed: Variants = (
            *({"clientMessageId": "x"}, {"command": "y"}, {"images": [picture("AAAA")]}),
        )
        same: Variants = ({"permissionMode": "plan"}, {"allowHandoffFork": True})
        self.assert_ledgered(operations.HANDOFF_RUN, body, "fork-run", changed, same, has_turn=True)
        self.assertEqual(self.asked(operations.FORK_RUN, body).failure, CONFLICT)

    def test_agent_compact(self) -> None:
        """Its instructions, or that there are none."""
        body = self.body_of(operations.COMPACT)
        changed: Variants = ({"instructions": "x"}, {"instructions": ""})
        same: Variants = ({"instructions": None},)
        self.assert_ledgered(
            operations.COMPACT, body, "agent-compact", changed, same, has_turn=True
        )

    def test_agent_stop_and_interrupt(self) -> None:
        """The agent that its sender saw."""
        for operation, command in (
            (operations.STOP_CHAT, "agent-stop"),
            (operations.INTERRUPT_AND_SEND, "agent-interrupt-and-send"),
        ):
            self.run_chat(self.view)
            body = self.body_of(operation, agentId="scripted")
            changed: Variants = ({"agentId": "other"}, {"agentId": None})
            self.assert_ledgered(operation, body, command, changed, has_turn=False)

    def test_permission_decision(self) -> None:
        """What was decided, on what, and by which controls."""
        turn = self.run_chat(self.view).body["turnId"]
        self.local.last.ask("o")
        control = {
            "serverInstanceId": INSTANCE,
            "chatId": CHAT,
            "runId": turn,
            "permissionOccurrenceId": "o",
        }
        body = self.body_of(operations.PERMISSION_DECISION, control=control)
        changed = (
            *({"allow": False}, {"alwaysAllow": True}, {"response": {"type": "x"}}),
            *(
                {"control": control | {"runId": "x"}},
                {"control": control | {"serverInstanceId": "x"}},
            ),
            {"permissionOccurrenceId": "p", "control": control | {"permissionOccurrenceId": "p"}},
        )
        same: Variants = ({"response": None},)
        self.assert_ledgered(
            operations.PERMISSION_DECISION,
            body,
            "permission-decision",
            changed,
            same,
            has_turn=False,
        )

    def test_queue_entry_create(self) -> None:
        """Content, identity, and what it leaves out."""
        self.run_chat(self.view)
        body = self.body_of(operations.CREATE_ENTRY, excludedResendOrdinals=[2, 1])
        changed: Variants = (
            *({"content": "y"}, {"clientMessageId": "y"}, {"excludedResendOrdinals": [1]}),
        )
        same: Variants = ({"excludedResendOrdinals": [1, 2, 2]},)
        self.assert_ledgered(
            operations.CREATE_ENTRY, body, "queue-entry-create", changed, same, has_turn=False
        )

    def test_queue_entry_replace_move_and_delete(self) -> None:
        """The entry, and what its sender knew of it."""
        self.run_chat(self.view)
        one, two = self.queued("one"), self.queued("two")
        replace = self.body_of(operations.REPLACE_ENTRY, entryId=one)
        move = self.body_of(
            operations.MOVE_ENTRY, entryId=one, targetEntryId=two, expectedSourceRevision=2
        )
        delete = self.body_of(operations.DELETE_ENTRY, entryId=one)
        cases: tuple[tuple[Operation, dict[str, Any], str, Variants], ...] = (
            (
                operations.REPLACE_ENTRY,
                replace,
                "queue-entry-replace",
                ({"content": "y"}, {"entryId": two}, {"expectedRevision": 2}),
            ),
            (
                operations.MOVE_ENTRY,
                move,
                "queue-entry-move",
                (
                    *({"entryId": "y"}, {"targetEntryId": "y"}, {"placement": "before"}),
                    *({"expectedReorderRevision": 1}, {"expectedSourceRevision": 1}),
                    {"expectedTargetRevision": 2},
                ),
            ),
            (operations.DELETE_ENTRY, delete, "queue-entry-delete", ({"entryId": two},)),
        )
        for operation, body, command, changed in cases:
            self.assert_ledgered(operation, body, command, changed, has_turn=False)

    def test_steer(self) -> None:
        """Both kinds: by what is said, and by the entry that its sender saw."""
        turn = self.run_chat(self.view).body["turnId"]
        body = self.body_of(operations.STEER)
        changed: Variants = ({"content": "y"}, {"clientMessageId": "y"})
        self.assert_ledgered(operations.STEER, body, "steer", changed, has_turn=True)
        body = self.body_of(operations.STEER_ENTRY, entryId=self.queued())
        changed = (*({"entryId": "y"}, {"expectedRevision": 2}, {"expectedReorderRevision": 1}),)
        self.assert_ledgered(operations.STEER_ENTRY, body, "steer", changed, has_turn=True)
        self.assertEqual(self.asked(operations.STEER_ENTRY, body).body["turnId"], turn)


class EarlierAttemptTests(QueueTestCase):
    """What became of the first attempt decides on the second (2.3)."""

    def test_one_that_could_be_tried_again(self) -> None:
        """Is a new command: fresh turn, fresh time, accepted."""
        self.run_chat(self.view)
        body = self.run_body(self.view)
        self.assertEqual(self.asked(operations.RUN_CHAT, body).failure, (409, "SESSION_BUSY", True))
        self.local.last.finish()
        before = self.snapshot().body["observedAt"]
        self.clock.advance(5)
        answer = self.asked(operations.RUN_CHAT, body)
        self.assertEqual(answer.body["status"], "accepted")
        self.assertGreater(answer.body["acceptedAt"], before)
        self.assertEqual(answer.body["turnId"], self.local.last.launch.run_id)

    def test_one_that_failed_for_good(self) -> None:
        """Says so with its first text, for a run and for a fork-run."""
        _, fork_run, _ = requests(CHAT, OTHER)[operations.FORK_RUN.route.key]
        for operation, body in (
            (operations.RUN_CHAT, self.run_body(self.view)),
            (operations.FORK_RUN, fork_run),
        ):
            body = body | {"clientMessageId": "m-start", "command": "not what it was"}
            first = self.asked(operation, body)
            self.assertEqual(first.failure, CONFLICT)
            again = self.asked(operation, body)
            self.assertEqual(again.failure, (409, "INTERNAL_ERROR", False))
            self.assertEqual(again.body["error"], first.body["error"])
        self.assertEqual(len(self.listed()), 1)

    def test_one_that_ran_and_failed(self) -> None:
        """Is a duplicate: its receipt says why."""
        body = self.run_body(self.view)
        turn = self.asked(operations.RUN_CHAT, body).body["turnId"]
        self.local.last.fail("broken")
        again = self.asked(operations.RUN_CHAT, body)
        self.assertEqual((again.status, again.body["turnId"]), (202, turn))
        self.assertEqual(self.receipt(turn).body["error"], "broken")

    def test_a_restart_forgets_all(self) -> None:
        """Only what is in the transcript is known then, by the message's identity (2.4)."""
        body = self.run_body(self.view)
        first = self.asked(operations.RUN_CHAT, body)
        self.local.last.say("done")
        self.local.last.finish()
        before = self.kinds()
        self.restart()
        again = self.asked(operations.RUN_CHAT, body)
        self.assertEqual((again.status, again.body["status"]), (202, "accepted"))
        self.assertNotEqual(again.body["turnId"], first.body["turnId"])
        self.assertEqual((self.kinds(), self.local.runs), (before, []))
