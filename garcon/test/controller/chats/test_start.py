"""Starting a chat (chats.md 3.4, 5.1; decisions.md 22, 26 to 29)."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, succeed

from garcon.contract import operations
from garcon.contract.events import ChatMessages, ProcessingUpdated
from garcon.controller.principals import delegated
from garcon.errors import CallError, GarconError
from garcon.test.controller.chats.cast import CHAT, OTHER, SETTINGS, WORKER, ChatsTestCase, Said
from garcon.testing.fake_runtime import agent_entry

PNG = {"data": "data:image/png;base64,AAAA", "name": "a.png"}


class StartTests(ChatsTestCase):
    """What a start does."""

    def test_is_answered_with_the_turn_and_the_chat(self) -> None:
        """202, where the receipt is, and the chat as listed."""
        answer = self.start(command=" hello\nworld ", tags=["B", "a"])
        self.assertEqual(answer.status, 202)
        body = answer.body
        turn = body["turnId"]
        self.assertEqual(
            (body["commandType"], body["status"], body["chat"]["id"]),
            ("chat-start", "accepted", CHAT),
        )
        self.assertEqual(
            answer.headers["Location"],
            f"/api/v1/chats/turn-receipt?chatId={CHAT}&turnId={turn}",
        )
        chat = body["chat"]
        self.assertEqual((chat["title"], chat["tags"]), ("hello", ["a", "b"]))
        self.assertEqual((chat["isProcessing"], chat["orderGroup"]), (True, "normal"))
        self.assertEqual(self.local.last.launch.prompt, "hello\nworld")
        self.assertEqual(self.local.last.launch.run_id, turn)

    def test_the_input_is_durable_before_the_launch(self) -> None:
        """While its commit runs nothing is launched, and no chat is seen (5.1.1, 5.1.2)."""
        self.memory.held = True
        d = self.ask(operations.START_CHAT, self.start_body())
        self.assertEqual((self.local.runs, self.listed()), ([], []))
        self.memory.release()
        self.assertEqual(self.successResultOf(d).status, 202)
        self.assertEqual(len(self.local.runs), 1)

    def test_is_answered_after_the_launch(self) -> None:
        """The chat is listed and its row visible at once, the answer waits for the agent."""
        self.local.holds_launches = True
        d = self.ask(operations.START_CHAT, self.start_body())
        self.assertNoResult(d)
        self.assertEqual(self.kinds(), [(1, "user-message", "hello")])
        self.assertTrue(self.listed()[0]["isProcessing"])
        self.local.last.begin()
        self.assertEqual(self.successResultOf(d).status, 202)

    def test_that_it_runs_is_told_before_its_input(self) -> None:
        """As of every turn (server.md I, turn contract), once the chat is there."""
        self.start()
        running, first = self.told[:2]
        self.assertEqual(running, ProcessingUpdated(chat_id=CHAT, phase="running"))
        assert isinstance(first, ChatMessages)
        self.assertEqual([row.ordinal for row in first.messages], [1])
        self.assertEqual(first.resend_candidates, [])

    def test_user_rows_carry_only_the_message_identity(self) -> None:
        """No request id, no turn id; how it is shown is kept apart, and only where it was said."""
        self.start(userMessagePresentation={"presentation": {"style": "notice"}, "title": "T"})
        [row] = self.messages().body["messages"]
        self.assertEqual(row["message"]["metadata"], {"clientMessageId": "m-start"})
        self.assertEqual(
            row["message"]["presentation"],
            {"presentation": {"style": "notice"}, "title": "T", "bodyDisclosure": "expanded"},
        )
        self.start(chatId=OTHER)
        [row] = self.messages(OTHER).body["messages"]
        self.assertEqual(set(row["message"]), {"type", "timestamp", "content", "metadata"})

    def test_new_chats_come_first(self) -> None:
        """Each at the top of the normal list."""
        self.started()
        self.started(chatId=OTHER)
        self.assertEqual([chat["id"] for chat in self.listed()], [OTHER, CHAT])

    def test_the_same_start_again_is_a_duplicate(self) -> None:
        """Same turn, same status, no second launch; the chat as it is now."""
        body = self.start_body()
        first = self.asked(operations.START_CHAT, body)
        self.local.last.finish()
        again = self.asked(operations.START_CHAT, body)
        self.assertEqual((again.status, again.body["status"]), (202, "duplicate"))
        for name in ("turnId", "acceptedAt", "clientRequestId"):
            self.assertEqual(again.body[name], first.body[name])
        self.assertFalse(again.body["chat"]["isProcessing"])
        self.assertEqual((len(self.local.runs), again.headers), (1, first.headers))

    def test_the_same_start_while_it_launches_waits(self) -> None:
        """Commands of one chat are serialised: the second is a duplicate of the first."""
        self.local.holds_launches = True
        body = self.start_body()
        first, second = (self.ask(operations.START_CHAT, body) for _ in "ab")
        self.assertNoResult(second)
        self.local.last.begin()
        self.assertEqual(self.successResultOf(first).body["status"], "accepted")
        self.assertEqual(self.successResultOf(second).body["status"], "duplicate")

    def test_a_caller_that_gives_up_changes_nothing(self) -> None:
        """The start goes on, and the same start again is its duplicate."""
        self.local.holds_launches = True
        body = self.start_body()
        d = self.ask(operations.START_CHAT, body)
        d.cancel()
        self.failureResultOf(d)
        self.local.last.begin()
        self.assertEqual(self.asked(operations.START_CHAT, body).body["status"], "duplicate")

    def test_every_compared_field_makes_another_start(self) -> None:
        """The same request id with any of them changed conflicts (decisions.md 26)."""
        self.started(chatId=OTHER)
        body = self.start_body(parentChatId=OTHER)
        self.asked(operations.START_CHAT, body)
        changes: list[dict[str, Any]] = [
            {"clientMessageId": "x"},
            {"agentId": "other", "agentSettings": SETTINGS | {"ownerId": "other"}},
            {"projectPath": f"{self.base}/q"},
            {"command": "x"},
            {"model": "x"},
            {"images": [PNG]},
            {"permissionMode": "acceptEdits"},
            {"thinkingMode": "high"},
            {"agentSettings": SETTINGS | {"values": {"a": 1}}},
            {"tags": ["x"]},
            {"executorId": WORKER},
            {"parentChatId": None},
            {"orderedPreambleIds": []},
            {"userMessagePresentation": {"presentation": {"style": "info"}}},
            {"apiProviderId": "p", "modelEndpointId": "e"},
            {"modelProtocol": "openai-compatible"},
        ]
        for change in changes:
            answer = self.asked(operations.START_CHAT, body | change)
            self.assertEqual(answer.failure, (409, "IDEMPOTENCY_CONFLICT", False), change)
        same = body | {"permissionMode": "nonsense", "executorId": None, "images": []}
        self.assertEqual(self.asked(operations.START_CHAT, same).body["status"], "duplicate")

    def test_a_taken_id_collides(self) -> None:
        """Another start with the id of an existing chat."""
        self.started()
        self.assertEqual(self.start().failure, (409, "CHAT_ID_COLLISION", False))

    def test_a_parent_is_remembered(self) -> None:
        """As a delegation, in the answer, the list and the snapshot."""
        self.started(chatId=OTHER)
        answer = self.start(parentChatId=OTHER)
        parent = {"chatId": OTHER, "relation": "delegation"}
        self.assertEqual(answer.body["parentChat"], parent)
        self.assertEqual(self.listed()[0]["parentChat"], parent)
        self.assertEqual(self.snapshot().body["chat"]["parentChat"], parent)

    def test_runs_where_it_was_asked_to(self) -> None:
        """On a worker, with that worker's agents and paths."""
        answer = self.start(executorId=WORKER)
        self.assertEqual(answer.body["chat"]["executorId"], WORKER)
        self.assertEqual((len(self.worker.runs), len(self.local.runs)), (1, 0))
        self.assertEqual(self.chats.running_on(WORKER), [CHAT])
        self.assertEqual(self.chats.running_on("local"), [])
        self.worker.last.finish()
        self.assertEqual(self.chats.running_on(WORKER), [])


class RefusedStartTests(ChatsTestCase):
    """What is no start, and leaves nothing behind."""

    def refused(self, expected: tuple[int, str, bool], **more: Any) -> Said:
        answer = self.start(**more)
        self.assertEqual(answer.failure, expected, more)
        self.assertEqual(self.listed(), [])
        return answer

    def test_fields_are_checked(self) -> None:
        """400 for whatever is malformed."""
        changes: list[dict[str, Any]] = [
            {"clientRequestId": " "},
            {"clientRequestId": "x" * 257},
            {"clientMessageId": ""},
            {"chatId": "1"},
            {"agentId": " "},
            {"projectPath": ""},
            {"model": " "},
            {"command": "  "},
            {"command": "", "images": []},
            {"agentSettings": SETTINGS | {"ownerId": "other"}},
            {"agentSettings": SETTINGS | {"schemaVersion": 0}},
            {"modelProtocol": "other"},
            {"options": None},
            {"options": {}},
            {"parentChat": {"chatId": OTHER, "relation": "fork"}},
            {"parentChatId": "x"},
            {"parentChatId": CHAT},
            {"executorId": "somewhere"},
            {"origin": "other"},
            {"images": [{"data": "x"}]},
            {"userMessagePresentation": {}},
        ]
        for change in changes:
            self.refused((400, "VALIDATION_FAILED", False), **change)

    def test_absent_fields_are_refused(self) -> None:
        """Each required one."""
        for name in ("clientRequestId", "clientMessageId", "chatId", "agentId", "agentSettings"):
            body = self.start_body()
            del body[name]
            self.assertEqual(self.asked(operations.START_CHAT, body).status, 400, name)

    def test_an_unknown_agent(self) -> None:
        """400, by its own code."""
        settings = SETTINGS | {"ownerId": "nobody"}
        self.refused((400, "UNSUPPORTED_AGENT", False), agentId="nobody", agentSettings=settings)

    def test_projects(self) -> None:
        """Outside the base 403, missing 404."""
        self.refused((403, "PROJECT_PATH_OUTSIDE_BASE", False), projectPath="/elsewhere")
        self.refused((404, "VALIDATION_FAILED", False), projectPath=f"{self.base}/missing")

    def test_executors(self) -> None:
        """An unknown one is not found, one that is away can be tried again; Local is never a
        substitute.
        """
        other = WORKER.replace("1", "2")
        self.refused((404, "EXECUTOR_NOT_FOUND", False), executorId=other)
        self.executors.states[WORKER] = "offline"
        self.refused((503, "EXECUTOR_UNAVAILABLE", True), executorId=WORKER)
        self.assertEqual(self.local.runs, [])

    def test_a_worker_names_the_executor(self) -> None:
        """Behind a gateway the executor is never implied."""
        answer = self.asked(operations.START_CHAT, self.start_body(), principal=delegated(WORKER))
        self.assertEqual(answer.failure, (400, "VALIDATION_FAILED", False))

    def test_models(self) -> None:
        """Half a provider pair, an unknown endpoint, a protocol the agent does not speak: 422."""
        changes: list[dict[str, Any]] = [
            {"apiProviderId": "p"},
            {"modelEndpointId": "e"},
            {"apiProviderId": "p", "modelEndpointId": "e"},
            {"modelProtocol": "openai-compatible"},
            {"permissionMode": "plan"},
            {"thinkingMode": "max"},
        ]
        for change in changes:
            self.refused((422, "VALIDATION_FAILED", False), **change)

    def test_attachments_must_be_supported(self) -> None:
        """422 by the agent's code."""
        self.local.agents = [agent_entry(supports_images=False)]
        self.refused((422, "UNSUPPORTED_AGENT", False), images=[PNG], command="")

    def test_a_preamble_that_does_not_exist(self) -> None:
        """Named in the answer."""
        answer = self.refused((404, "PREAMBLE_NOT_FOUND", False), orderedPreambleIds=["x"])
        self.assertEqual(answer.body["details"], "x: missing")

    def test_an_unknown_parent(self) -> None:
        """It must exist."""
        self.refused((404, "SESSION_NOT_FOUND", False), parentChatId=OTHER)

    def test_a_store_that_refuses(self) -> None:
        """Nothing was accepted: the same start can be tried again."""
        self.memory.refusals = 1
        body = self.start_body()
        self.assertEqual(
            self.asked(operations.START_CHAT, body).failure, (500, "INTERNAL_ERROR", True)
        )
        self.assertEqual(self.local.runs, [])
        self.assertEqual(self.asked(operations.START_CHAT, body).body["status"], "accepted")


class FailedLaunchTests(ChatsTestCase):
    """On launch failure the new chat is rolled back completely."""

    def assertGone(self) -> None:
        self.assertEqual(self.listed(), [])
        self.assertEqual(self.messages().status, 404)
        self.assertEqual(self.snapshot().status, 404)
        self.assertEqual(self.chats.running_on("local"), [])
        self.assertEqual(self.successResultOf(self.store.load()), [])

    def test_leaves_nothing_but_a_failed_receipt(self) -> None:
        """500, no chat; the same start again is a duplicate without a chat (chats.md 3.4, 8.4)."""
        self.local.launch_error = GarconError("AGENT_BROKEN", "no binary")
        body = self.start_body()
        answer = self.asked(operations.START_CHAT, body)
        self.assertEqual(answer.failure, (500, "INTERNAL_ERROR", False))
        self.assertIn("no binary", answer.body["error"])
        self.assertGone()
        again = self.asked(operations.START_CHAT, body)
        self.assertEqual((again.status, again.body["status"]), (202, "duplicate"))
        self.assertIsNone(again.body["chat"])
        receipt = self.receipt(again.body["turnId"]).body
        self.assertEqual(receipt["state"], "failed")
        self.assertIn("no binary", receipt["error"])

    def test_an_unavailable_executor_can_be_tried_again(self) -> None:
        """Nothing ran: the same start again is a new one, with a new turn."""
        self.local.launch_error = GarconError(
            "EXECUTOR_UNAVAILABLE", "down", status=503, retryable=True
        )
        body = self.start_body()
        answer = self.asked(operations.START_CHAT, body)
        self.assertEqual(answer.failure, (503, "EXECUTOR_UNAVAILABLE", True))
        self.assertGone()
        self.local.launch_error = None
        again = self.asked(operations.START_CHAT, body)
        self.assertEqual((again.status, again.body["status"]), (202, "accepted"))

    def test_an_unknown_outcome_is_not_tried_again(self) -> None:
        """It may have run: the same start must not launch a second time."""
        self.local.launch_error = CallError(
            "EXECUTOR_UNAVAILABLE", "lost", outcome="unknown", status=503, retryable=True
        )
        body = self.start_body()
        refused = self.asked(operations.START_CHAT, body)
        self.assertEqual(refused.failure, (500, "INTERNAL_ERROR", False))
        self.assertEqual(refused.body["details"], "OUTCOME_UNKNOWN")
        self.assertIn("Whether it began is not known", refused.body["error"])
        self.assertGone()
        self.local.launch_error = None
        again = self.asked(operations.START_CHAT, body).body
        self.assertEqual(again["status"], "duplicate")
        receipt = self.receipt(again["turnId"]).body
        self.assertEqual((receipt["state"], receipt["error"]), ("failed", refused.body["error"]))
        self.assertEqual(self.local.runs, [])

    def test_twenty_seconds_are_enough(self) -> None:
        """Just below the agent may still begin, then the launch is cancelled."""
        self.local.holds_launches = True
        early = self.ask(operations.START_CHAT, self.start_body(chatId=OTHER))
        self.clock.advance(19.9)
        self.local.last.begin()
        self.assertEqual(self.successResultOf(early).status, 202)
        late: Deferred[Said] = self.ask(operations.START_CHAT, self.start_body())
        self.clock.advance(19.9)
        self.assertNoResult(late)
        self.clock.advance(0.1)
        self.assertEqual(self.successResultOf(late).failure, (500, "INTERNAL_ERROR", False))
        self.assertEqual([chat["id"] for chat in self.listed()], [OTHER])

    def test_reads_under_the_lock(self) -> None:
        """An executor that says nothing of its agents, or of the project, is given up after 25
        seconds and not before: 20 to wait for it, and five more for a read that was sent.
        """
        for answered in (0, 1):
            self.local.reads = [succeed((agent_entry(),))] * answered + [Deferred()]
            d = self.ask(operations.START_CHAT, self.start_body())
            self.assertEqual(self.local.reads, [])
            self.clock.advance(24.9)
            self.assertNoResult(d)
            self.clock.advance(0.1)
            self.assertEqual(self.successResultOf(d).failure, (503, "EXECUTOR_UNAVAILABLE", True))
            self.assertGone()
        self.assertEqual(self.start().status, 202)

    def test_output_before_the_failure_is_dropped(self) -> None:
        """Rows that were on their way have no chat to go to."""
        self.local.holds_launches = True
        d = self.ask(operations.START_CHAT, self.start_body())
        self.memory.held = True
        self.local.last.say("early")
        self.local.last.refuse(GarconError("AGENT_BROKEN", "no binary"))
        self.memory.release()
        self.assertEqual(self.successResultOf(d).status, 500)
        self.clock.advance(10)
        self.assertGone()

    def test_a_bug_of_the_runtime_is_hidden(self) -> None:
        """Its text stays in the log."""
        self.local.launch_error = RuntimeError("secret path")
        answer = self.start()
        self.assertEqual(answer.failure, (500, "INTERNAL_ERROR", False))
        self.assertNotIn("secret", str(answer.body))
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)
        self.assertGone()
