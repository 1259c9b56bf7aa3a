"""Running a turn (chats.md 2.3, 2.4, 3.5, 5.1, 5.2)."""

from __future__ import annotations

from typing import Any

from garcon.contract import operations
from garcon.errors import CallError, GarconError
from garcon.store.records import PutChat
from garcon.test.controller.chats.cast import OTHER, SETTINGS, WORKER, ChatsTestCase
from garcon.testing.fake_runtime import agent_entry

PNG = {"data": "data:image/png;base64,AAAA", "name": "a.png"}
BUSY = (409, "SESSION_BUSY", True)
NO_QUEUE: dict[str, Any] = {
    "entries": [],
    "steeringEntryId": None,
    "recentlyDispatched": [],
    "pause": None,
    "reorderRevision": 0,
}


class RunTests(ChatsTestCase):
    """A chat that is idle."""

    def setUp(self) -> None:
        super().setUp()
        self.view = self.started()
        self.before = self.kinds()

    def assertUntouched(self) -> None:
        """Nothing of a refused run is there."""
        self.assertEqual((self.kinds(), len(self.local.runs)), (self.before, 1))

    def test_is_answered_once_the_input_is_durable(self) -> None:
        """Not before, and without waiting for the launch."""
        self.local.holds_launches = True
        self.memory.held = True
        d = self.ask(operations.RUN_CHAT, self.run_body(self.view))
        self.assertNoResult(d)
        self.assertEqual(len(self.local.runs), 1)
        self.memory.release()
        answer = self.successResultOf(d)
        turn = answer.body["turnId"]
        self.assertEqual((answer.status, answer.body["commandType"]), (202, "agent-run"))
        self.assertIn(f"turnId={turn}", answer.headers["Location"])
        self.assertNotIn("chat", answer.body)
        self.assertEqual((len(self.local.runs), self.phase()), (2, "running"))
        self.assertEqual(self.receipt(turn).body["state"], "pending")

    def test_resumes_the_agents_session(self) -> None:
        """With the chat's own settings."""
        self.run_chat(self.view)
        launch = self.local.last.launch
        self.assertEqual((launch.agent_session_id, launch.prompt), ("agent-session", "again"))
        self.assertEqual((launch.model, launch.permission_mode), ("scripted", "default"))

    def test_the_command_is_stored_as_sent(self) -> None:
        """Untrimmed; only a start trims."""
        self.run_chat(self.view, command="  again\n")
        self.assertEqual(self.kinds()[-1][2], "  again\n")

    def test_the_answer_reaches_transcript_and_receipt(self) -> None:
        """Rows in order, the receipt completed, the chat idle."""
        turn = self.run_chat(self.view).body["turnId"]
        self.local.last.say("one")
        self.local.last.say("two")
        self.local.last.finish()
        self.assertEqual([text for _, _, text in self.kinds()[-3:]], ["again", "one", "two"])
        receipt = self.receipt(turn).body
        self.assertEqual(receipt["state"], "completed")
        self.assertEqual(receipt["output"]["assistantMessages"], ["one", "two"])
        self.assertIsNone(self.phase())

    def test_a_busy_chat_refuses(self) -> None:
        """With its control; nothing changes and nothing comes later (5.1.3)."""
        self.run_chat(self.view)
        answer = self.run_chat(self.view, command="refused")
        self.assertEqual(answer.failure, BUSY)
        self.assertEqual(answer.body["control"]["queue"], NO_QUEUE)
        self.assertNotIn("pending control state", answer.body["error"])
        self.local.last.finish()
        self.assertNotIn("refused", [text for _, _, text in self.kinds()])
        self.assertEqual(len(self.local.runs), 2)

    def test_a_refused_run_may_be_sent_again(self) -> None:
        """Busy can be retried: the same request is then a new command with a new turn."""
        self.run_chat(self.view)
        body = self.run_body(self.view)
        self.assertEqual(self.asked(operations.RUN_CHAT, body).failure, BUSY)
        self.local.last.finish()
        answer = self.asked(operations.RUN_CHAT, body)
        self.assertEqual((answer.status, answer.body["status"]), (202, "accepted"))

    def test_the_same_run_again_is_a_duplicate(self) -> None:
        """Also while it runs; its tags are added again, and nothing else happens."""
        body = self.run_body(self.view, tagsToAdd=["New Tag"])
        first = self.asked(operations.RUN_CHAT, body)
        again = self.asked(operations.RUN_CHAT, body)
        self.assertEqual((again.status, again.body["status"]), (202, "duplicate"))
        self.assertEqual(again.body["turnId"], first.body["turnId"])
        self.assertEqual((len(self.local.runs), self.listed()[0]["tags"]), (2, ["new-tag"]))

    def test_tags_are_merged(self) -> None:
        """Normalised, and durable."""
        self.run_chat(self.view, tagsToAdd=["b", "A"])
        self.local.last.finish()
        self.run_chat(self.view, tagsToAdd=["b", "c"])
        self.assertEqual(self.listed()[0]["tags"], ["a", "b", "c"])
        self.restart()
        self.assertEqual(self.listed()[0]["tags"], ["a", "b", "c"])

    def test_every_compared_field_makes_another_run(self) -> None:
        """The same request id with any of them changed conflicts."""
        body = self.run_body(self.view)
        self.asked(operations.RUN_CHAT, body)
        epoch = self.listed()[0]["agentOwnershipEpoch"]
        changes: list[dict[str, Any]] = [
            {"clientMessageId": "x"},
            {"command": "x"},
            {"images": [PNG]},
            {"excludedResendOrdinals": [1]},
            {"permissionMode": "default"},
            {"thinkingMode": "none"},
            {"agentSettings": SETTINGS},
            {"model": "x"},
            {"expectedAgentId": "scripted"},
            {"expectedAgentOwnershipEpoch": epoch},
            {"tagsToAdd": ["x"]},
            {"permissionFallbackPolicy": "require-explicit-bypass"},
            {"userMessagePresentation": {"presentation": {"style": "info"}}},
        ]
        for change in changes:
            answer = self.asked(operations.RUN_CHAT, body | change)
            self.assertEqual(answer.failure, (409, "IDEMPOTENCY_CONFLICT", False), change)

    def test_a_request_id_is_used_for_one_kind_of_command(self) -> None:
        """A stop under the id of a run conflicts."""
        body = self.run_body(self.view)
        self.asked(operations.RUN_CHAT, body)
        stop = self.successResultOf(self.stop(clientRequestId=body["clientRequestId"]))
        self.assertEqual(stop.failure, (409, "IDEMPOTENCY_CONFLICT", False))

    def test_fields_are_checked(self) -> None:
        """400 for whatever is malformed."""
        changes: list[dict[str, Any]] = [
            {"clientRequestId": ""},
            {"clientMessageId": "x" * 257},
            {"chatId": "x"},
            {"transcriptViewId": " "},
            {"command": " \n"},
            {"excludedResendOrdinals": [0]},
            {"excludedResendOrdinals": ["1"]},
            {"model": " "},
            {"apiProviderId": "p"},
            {"model": "m", "modelEndpointId": "e"},
            {"permissionMode": "nonsense"},
            {"thinkingMode": "ultrathink"},
            {"expectedAgentId": " "},
            {"tagsToAdd": "x"},
            {"permissionFallbackPolicy": "other"},
            {"images": [{"data": "x"}]},
            {"agentSettings": SETTINGS | {"ownerId": "other"}},
            {"handoff": {}},
            {"handoff": {"expectedAgentOwnershipEpoch": "e", "target": {"agentId": "a"}}},
            {"handoff": {"expectedAgentOwnershipEpoch": "e"}, "model": "m"},
        ]
        for change in changes:
            answer = self.run_chat(self.view, **change)
            self.assertEqual(answer.failure, (400, "VALIDATION_FAILED", False), change)
        self.assertUntouched()

    def test_a_stale_view_is_refused_first(self) -> None:
        """Even before a replay, and before an empty command is noticed."""
        body = self.run_body(self.view)
        self.asked(operations.RUN_CHAT, body)
        for change in ({}, {"command": ""}):
            answer = self.asked(operations.RUN_CHAT, body | {"transcriptViewId": "old"} | change)
            self.assertEqual(answer.failure, (409, "STALE_TRANSCRIPT_VIEW", False))

    def test_an_unknown_chat(self) -> None:
        """404 (chats.md 8.1)."""
        answer = self.run_chat(self.view, chatId=OTHER)
        self.assertEqual(answer.failure, (404, "SESSION_NOT_FOUND", False))

    def test_expectations_of_the_owner(self) -> None:
        """The agent first, then the epoch; met ones do no harm."""
        answer = self.run_chat(self.view, expectedAgentId="other")
        self.assertEqual(answer.failure, (409, "EXPECTED_AGENT_MISMATCH", False))
        answer = self.run_chat(self.view, expectedAgentOwnershipEpoch="old")
        self.assertEqual(answer.failure, (409, "STALE_CHAT_OWNERSHIP", False))
        self.assertUntouched()
        epoch = self.listed()[0]["agentOwnershipEpoch"]
        met = {"expectedAgentId": "scripted", "expectedAgentOwnershipEpoch": epoch}
        self.assertEqual(self.run_chat(self.view, **met).status, 202)

    def test_a_replay_comes_before_the_owner(self) -> None:
        """A committed run is a duplicate whatever has happened to the chat since."""
        body = self.run_body(self.view)
        self.asked(operations.RUN_CHAT, body)
        self.local.last.finish()
        self.local.agents = []
        self.assertEqual(self.asked(operations.RUN_CHAT, body).body["status"], "duplicate")

    def test_modes_must_be_the_agents(self) -> None:
        """Known ones that it does not have: 422."""
        for change in ({"permissionMode": "plan"}, {"thinkingMode": "max"}):
            answer = self.run_chat(self.view, **change)
            self.assertEqual(answer.failure, (422, "VALIDATION_FAILED", False))
        self.assertUntouched()

    def test_attachments_must_be_supported(self) -> None:
        """422 by the agent's code; with support they go along."""
        self.assertEqual(self.run_chat(self.view, command="", images=[PNG]).status, 202)
        self.assertEqual(self.local.last.launch.images[0].name, "a.png")
        self.local.last.finish()
        self.local.agents = [agent_entry(supports_images=False)]
        self.clock.advance(61)
        answer = self.run_chat(self.view, images=[PNG])
        self.assertEqual(answer.failure, (422, "UNSUPPORTED_AGENT", False))

    def test_an_agent_that_is_gone(self) -> None:
        """422 here, where a start answers 400 (1.3)."""
        self.local.agents = []
        self.clock.advance(61)
        answer = self.run_chat(self.view)
        self.assertEqual(answer.failure, (422, "UNSUPPORTED_AGENT", False))
        self.assertUntouched()

    def test_the_catalog_is_asked_once_a_minute(self) -> None:
        """At 60 s the kept entry is still good, beyond it is not."""
        asked = self.local.catalogs
        self.clock.advance(60)
        self.run_chat(self.view)
        self.local.last.finish()
        self.assertEqual(self.local.catalogs, asked)
        self.clock.advance(1)
        self.run_chat(self.view)
        self.assertEqual(self.local.catalogs, asked + 1)

    def test_an_inherited_bypass_can_be_forbidden(self) -> None:
        """Asked for by name it is fine, and so is a chat without it."""
        self.start(chatId=OTHER, permissionMode="bypassPermissions")
        self.local.last.finish()
        view = self.messages(OTHER).body["transcriptViewId"]
        policy = {"permissionFallbackPolicy": "require-explicit-bypass"}
        answer = self.run_chat(view, chatId=OTHER, **policy)
        self.assertEqual(answer.failure, (422, "EXPLICIT_BYPASS_REQUIRED", False))
        named = policy | {"permissionMode": "bypassPermissions"}
        self.assertEqual(self.run_chat(view, chatId=OTHER, **named).status, 202)
        self.assertEqual(self.run_chat(self.view, **policy).status, 202)

    def test_a_chat_without_model_or_settings_is_incomplete(self) -> None:
        """422; naming the model helps."""
        [stored] = self.successResultOf(self.store.load())
        record = stored.record
        for change in ({"model": None}, {"agent_settings": agent_entry("x").default_settings}):
            fields = {name: getattr(record, name) for name in record.__struct_fields__} | change
            self.successResultOf(self.store.write([PutChat(type(record)(**fields))]))
            self.restart()
            answer = self.run_chat(self.view)
            self.assertEqual(answer.failure, (422, "INCOMPLETE_EXECUTION_CONFIG", False))

    def test_overrides_are_for_this_turn(self) -> None:
        """A chat with an agent session keeps its stored model and modes."""
        self.run_chat(self.view, model="big", permissionMode="acceptEdits", thinkingMode="high")
        launch = self.local.last.launch
        self.assertEqual(
            (launch.model, launch.permission_mode, launch.thinking_mode),
            ("big", "acceptEdits", "high"),
        )
        self.local.last.finish()
        self.run_chat(self.view)
        self.assertEqual(self.local.last.launch.model, "scripted")

    def test_a_fresh_session_keeps_the_model(self) -> None:
        """The selection of the turn that starts an agent session becomes the chat's own."""
        self.start(chatId=OTHER)
        self.local.last.fail("before any session")
        view = self.messages(OTHER).body["transcriptViewId"]
        self.run_chat(view, chatId=OTHER, model="big", permissionMode="acceptEdits")
        self.assertIsNone(self.local.last.launch.agent_session_id)
        self.local.last.session("fresh")
        self.local.last.finish()
        chat = self.snapshot(OTHER).body["chat"]
        self.assertEqual((chat["model"], chat["permissionMode"]), ("big", "default"))
        self.restart()
        self.assertEqual(self.snapshot(OTHER).body["chat"]["model"], "big")

    def test_an_executor_that_is_away(self) -> None:
        """503, to be tried again; the chat never moves to Local."""
        view = self.started(chatId=OTHER, executorId=WORKER)
        self.executors.states[WORKER] = "offline"
        answer = self.run_chat(view, chatId=OTHER)
        self.assertEqual(answer.failure, (503, "EXECUTOR_UNAVAILABLE", True))
        self.assertUntouched()

    def test_chats_are_independent(self) -> None:
        """Order of completion, failure and abort of one never touch another (5.1.6)."""
        self.start(chatId=OTHER)
        other = self.local.last
        self.run_chat(self.view)
        self.local.last.say("mine")
        other.fail("broken")
        self.assertEqual(self.phase(), "running")
        self.local.last.finish()
        self.assertEqual([text for _, _, text in self.kinds(OTHER)], ["hello"])

    def test_a_store_that_refuses(self) -> None:
        """The turn is given back, and the same run can be sent again."""
        self.memory.refusals = 1
        body = self.run_body(self.view, tagsToAdd=["x"])
        answer = self.asked(operations.RUN_CHAT, body)
        self.assertEqual(answer.failure, (500, "INTERNAL_ERROR", True))
        self.assertUntouched()
        self.assertEqual((self.phase(), self.listed()[0]["tags"]), (None, []))
        self.assertEqual(self.asked(operations.RUN_CHAT, body).body["status"], "accepted")


class FailedRunTests(ChatsTestCase):
    """A launch or a turn that fails after the run was answered."""

    def setUp(self) -> None:
        super().setUp()
        self.view = self.started()

    def test_a_failed_launch_is_a_failed_turn(self) -> None:
        """The input stays, once; the chat is idle; the receipt says why."""
        self.local.launch_error = GarconError("AGENT_BROKEN", "no binary")
        body = self.run_body(self.view)
        answer = self.asked(operations.RUN_CHAT, body)
        self.assertEqual(answer.status, 202)
        receipt = self.receipt(answer.body["turnId"]).body
        self.assertEqual((receipt["state"], receipt["error"]), ("failed", "no binary"))
        self.assertEqual((self.kinds()[-1][2], self.phase()), ("again", None))
        self.assertEqual(self.messages().body["resendCandidates"], [])
        self.assertEqual(self.asked(operations.RUN_CHAT, body).body["status"], "duplicate")

    def test_a_launch_has_twenty_seconds(self) -> None:
        """Then the turn has failed."""
        self.local.holds_launches = True
        turn = self.run_chat(self.view).body["turnId"]
        self.clock.advance(19.9)
        self.assertEqual(self.receipt(turn).body["state"], "pending")
        self.clock.advance(0.1)
        self.assertEqual(self.receipt(turn).body["state"], "failed")

    def test_an_unknown_end_is_told(self) -> None:
        """A notice says to reload from native history, before the end of the run."""
        turn = self.run_chat(self.view).body["turnId"]
        self.local.last.fail("link lost", "OUTCOME_UNKNOWN")
        self.assertEqual(self.receipt(turn).body["error"], "link lost")
        kind, text = self.kinds()[-1][1:]
        self.assertEqual(kind, "transcript-notice")
        self.assertIn("native history", text)

    def test_a_launch_of_unknown_outcome_is_told_too(self) -> None:
        """It may have run, and its receipt does not deny it."""
        self.local.launch_error = CallError("EXECUTOR_UNAVAILABLE", "lost", outcome="unknown")
        turn = self.run_chat(self.view).body["turnId"]
        self.assertEqual(self.kinds()[-1][1], "transcript-notice")
        self.assertIn("Whether it began is not known", self.receipt(turn).body["error"])

    def test_the_failure_text_is_the_agents(self) -> None:
        """And no assistant row is invented (5.1.5, 5.7.3)."""
        turn = self.run_chat(self.view).body["turnId"]
        self.local.last.fail("HTTP 529: overloaded")
        receipt = self.receipt(turn).body
        self.assertEqual(receipt["error"], "HTTP 529: overloaded")
        self.assertEqual(receipt["output"]["completeness"], "best-effort")
        self.assertEqual(self.kinds()[-1][1], "user-message")


class MessageIdentityTests(ChatsTestCase):
    """`clientMessageId` is unique per view and survives restarts (chats.md 2.4)."""

    def setUp(self) -> None:
        super().setUp()
        self.view = self.started()
        self.body = self.run_body(self.view, clientMessageId="m", command="once", images=[PNG])
        self.asked(operations.RUN_CHAT, self.body)
        self.local.last.say("done")
        self.local.last.finish()
        self.before = self.kinds()

    def again(self, **more: Any) -> Any:
        return self.asked(operations.RUN_CHAT, self.body | {"clientRequestId": "new"} | more)

    def test_a_committed_message_is_not_run_again(self) -> None:
        """Success, no row, no launch, and a receipt that is complete and empty (chats.md 8.3)."""
        answer = self.again()
        self.assertEqual((answer.status, answer.body["status"]), (202, "accepted"))
        self.assertEqual((self.kinds(), len(self.local.runs)), (self.before, 2))
        receipt = self.receipt(answer.body["turnId"]).body
        self.assertEqual(receipt["state"], "completed")
        self.assertEqual(
            (receipt["output"]["completeness"], receipt["output"]["assistantMessages"]),
            ("complete", []),
        )
        self.assertIsNone(self.phase())

    def test_also_after_a_restart(self) -> None:
        """The ledger is empty, the transcript is not."""
        self.restart()
        answer = self.asked(operations.RUN_CHAT, self.body)
        self.assertEqual((answer.status, answer.body["status"]), (202, "accepted"))
        self.assertEqual((self.kinds(), self.local.runs), (self.before, []))

    def test_other_content_conflicts(self) -> None:
        """Other text or other attachment bytes; the transcript is untouched."""
        other = PNG | {"data": "data:image/png;base64,AAAB"}
        changes: list[dict[str, Any]] = [{"command": "x"}, {"images": [other]}, {"images": []}]
        for n, change in enumerate(changes):
            answer = self.again(clientRequestId=f"r{n}", **change)
            self.assertEqual(answer.failure, (409, "IDEMPOTENCY_CONFLICT", False))
        self.assertEqual((self.kinds(), self.phase()), (self.before, None))

    def test_a_conflict_repeats_its_text(self) -> None:
        """The same request again: it failed for good, and says with what."""
        first = self.again(command="x")
        second = self.again(command="x")
        self.assertEqual(second.failure, (409, "INTERNAL_ERROR", False))
        self.assertEqual(second.body["error"], first.body["error"])

    def test_the_starts_identity_counts(self) -> None:
        """The first input has one like any other."""
        self.assertEqual(self.again(clientMessageId="m-start").status, 409)

    def test_equal_content_under_another_identity_is_another_row(self) -> None:
        """Two rows."""
        self.again(clientMessageId="m2")
        self.assertEqual([text for _, _, text in self.kinds()].count("once"), 2)


class ResendTests(ChatsTestCase):
    """Input nobody answered goes with the next (chats.md 5.2)."""

    def setUp(self) -> None:
        super().setUp()
        self.view = self.started()
        self.run_chat(self.view, command="stop-a")
        self.candidate = self.messages().body["lastOrdinal"]

    def stopped(self) -> None:
        self.successResultOf(self.stop())

    def test_is_reported_only_while_idle(self) -> None:
        """During the turn there is none."""
        self.assertEqual(self.messages().body["resendCandidates"], [])
        self.stopped()
        self.assertEqual(
            self.messages().body["resendCandidates"],
            [{"ordinal": self.candidate, "content": "stop-a", "attachmentNames": []}],
        )

    def test_is_prepended(self) -> None:
        """Joined by a blank line; the transcript shows both apart."""
        self.stopped()
        self.run_chat(self.view, command="stop-b")
        self.assertEqual(self.local.last.launch.prompt, "stop-a\n\nstop-b")
        self.assertEqual([text for _, _, text in self.kinds()[-2:]], ["stop-a", "stop-b"])

    def test_can_be_excluded(self) -> None:
        """For one request only."""
        self.stopped()
        excluded = [self.candidate, self.candidate]
        self.run_chat(self.view, command="b", excludedResendOrdinals=excluded)
        self.assertEqual(self.local.last.launch.prompt, "b")
        self.stopped()
        self.run_chat(self.view, command="c")
        self.assertEqual(self.local.last.launch.prompt, "stop-a\n\nb\n\nc")

    def test_survives_a_crash(self) -> None:
        """An input whose turn was cut off by the end of the process is unanswered."""
        self.restart()
        self.assertEqual(self.messages().body["resendCandidates"][0]["content"], "stop-a")
        self.assertEqual((self.local.runs, self.phase()), ([], None))
        self.run_chat(self.view, command="b")
        self.assertEqual(self.local.last.launch.prompt, "stop-a\n\nb")
        self.assertEqual(self.local.last.launch.agent_session_id, "agent-session")

    def test_an_answer_or_a_failure_ends_it(self) -> None:
        """After either there is nothing to send again."""
        self.local.last.fail("broken")
        self.assertEqual(self.messages().body["resendCandidates"], [])
        self.run_chat(self.view, command="b")
        self.assertEqual(self.local.last.launch.prompt, "b")

    def test_attachments_go_along(self) -> None:
        """Those of the earlier input first."""
        self.stopped()
        self.run_chat(self.view, command="", images=[PNG])
        self.stopped()
        self.run_chat(self.view, command="c", images=[PNG | {"name": "b.png"}])
        names = [image.name for image in self.local.last.launch.images]
        self.assertEqual(names, ["a.png", "b.png"])
        self.assertEqual(self.local.last.launch.prompt, "stop-a\n\nc")
