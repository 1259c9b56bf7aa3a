"""Forks with a first turn, and continuations (chats.md 3.7, 3.8, 5.8.5, 5.10)."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from garcon.contract import operations
from garcon.contract.events import ChatMessages
from garcon.test.controller.chats.cast import CHAT, Said
from garcon.test.controller.chats.test_forks import FORK, SECOND, ForksTestCase


class ForkRunTests(ForksTestCase):
    """With a turn."""

    def fork_run(self, body: dict[str, Any] | None = None, **more: Any) -> Said:
        return self.asked(operations.FORK_RUN, body or self.made_body(**more))

    def test_one_command_makes_the_chat_and_runs_it(self) -> None:
        """202, the chat as it is listed, and a receipt."""
        answer = self.fork_run(permissionMode="bypassPermissions", thinkingMode="think")
        self.assertEqual(answer.status, 202)
        body = answer.body
        self.assertEqual((body["commandType"], body["chatId"]), ("fork-run", FORK))
        self.assertEqual((body["chat"]["id"], body["chat"]["processingPhase"]), (FORK, "running"))
        self.assertEqual(body["parentChat"]["relation"], "fork")
        launch = self.local.last.launch
        self.assertEqual((launch.chat_id, launch.prompt), (FORK, "go on"))
        self.assertEqual(launch.permission_mode, "bypassPermissions")
        self.assertEqual(launch.thinking_mode, "low")
        self.local.last.say("done")
        self.local.last.finish()
        receipt = self.receipt(body["turnId"], FORK).body
        self.assertEqual(receipt["output"]["assistantMessages"], ["done"])
        self.assertEqual([text for _, _, text in self.texts()], ["hello", "hi", "go on", "done"])

    def test_a_replay(self) -> None:
        """The same turn and chat; other content under the id conflicts."""
        body = self.made_body()
        first = self.fork_run(body)
        again = self.fork_run(body | {"allowHandoffFork": True})
        self.assertEqual((again.status, again.body["status"]), (202, "duplicate"))
        self.assertEqual(again.body["turnId"], first.body["turnId"])
        self.assertEqual(len(self.local.runs), 2)
        other = self.fork_run(body | {"command": "else"})
        self.assertEqual(other.failure, (409, "IDEMPOTENCY_CONFLICT", False))

    def test_preparation_that_fails_leaves_nothing(self) -> None:
        """The target is rolled back, and the same command may be tried again."""
        body = self.made_body()
        self.executors.states["local"] = "offline"
        self.assertEqual(self.fork_run(body).failure, (503, "EXECUTOR_UNAVAILABLE", True))
        self.executors.states["local"] = "ready"
        self.memory.refusals = 1
        self.assertEqual(self.fork_run(body).status, 500)
        self.assertEqual([one["id"] for one in self.listed()], [CHAT])
        self.assertEqual(self.fork_run(body).body["status"], "accepted")
        self.restart()
        self.assertEqual([one["id"] for one in self.listed()], [FORK, CHAT])

    def test_the_input_that_cannot_be_kept_takes_the_fork_along(self) -> None:
        """Also out of the store."""
        write, writes = self.memory.write, []

        def second_fails(changes: Any) -> Deferred[None]:
            writes.append(changes)
            self.memory.refusals = 1 if len(writes) == 2 else 0
            return write(changes)

        self.patch(self.memory, "write", second_fails)
        self.assertEqual(self.fork_run().status, 500)
        self.restart()
        self.assertEqual([one["id"] for one in self.listed()], [CHAT])

    def test_the_same_command_after_a_crash(self) -> None:
        """Is a duplicate that runs nothing; another command's chat is not its to make."""
        body = self.made_body()
        self.fork_run(body)
        self.restart()
        again = self.fork_run(body)
        self.assertEqual((again.status, again.body["status"]), (202, "duplicate"))
        self.assertEqual(again.body["chat"]["id"], FORK)
        receipt = self.receipt(again.body["turnId"], FORK).body
        self.assertEqual(receipt["state"], "completed")
        self.assertEqual(self.local.runs, [])
        self.assertEqual([text for _, _, text in self.texts()], ["hello", "hi", "go on"])
        other = self.fork_run(clientMessageId="m-other")
        self.assertEqual(other.failure, (409, "IDEMPOTENCY_CONFLICT", False))

    def test_modes_of_the_agent(self) -> None:
        """What it does not have is refused before anything is made."""
        answer = self.fork_run(permissionMode="plan")
        self.assertEqual(answer.failure, (422, "VALIDATION_FAILED", False))
        answer = self.fork_run(apiProviderId="profile")
        self.assertEqual(answer.failure, (400, "VALIDATION_FAILED", False))
        answer = self.fork_run(command=" ")
        self.assertEqual(answer.failure, (400, "VALIDATION_FAILED", False))
        self.assertEqual([one["id"] for one in self.listed()], [CHAT])

    def test_events_of_the_fork(self) -> None:
        """That it runs, its input, that the list has one more; once each, and not of the source."""
        self.told.clear()
        self.fork_run()
        kinds = [event.__struct_config__.tag for event in self.told]
        self.assertEqual(
            kinds, ["chat-processing-updated", "chat-messages", "chat-list-refresh-requested"]
        )
        self.assertEqual({getattr(event, "chat_id", None) for event in self.told}, {FORK})
        (rows,) = (event for event in self.told if isinstance(event, ChatMessages))
        self.assertEqual((rows.first_ordinal, rows.resend_candidates), (3, []))

    def test_nothing_is_told_of_a_fork_that_was_not_to_be(self) -> None:
        """Neither events nor lists know of it, nor is its number used up."""
        write, writes, listed = self.memory.write, [], []

        def last_fails(changes: Any) -> Deferred[None]:
            writes.append(changes)
            listed.append(len(self.listed()))
            self.memory.refusals = 1 if len(writes) == 2 else 0
            return write(changes)

        self.told.clear()
        self.patch(self.memory, "write", last_fails)
        self.assertEqual(self.fork_run().status, 500)
        self.assertEqual((self.told, set(listed)), ([], {1}))
        self.assertEqual(self.messages(FORK).code, "SESSION_NOT_FOUND")
        self.assertEqual(self.fork_run().body["chat"]["title"], "hello (1)")

    def test_an_input_that_was_said_in_the_source(self) -> None:
        """Is there already: it is answered, and nothing is run (2.4)."""
        answer = self.fork_run(clientMessageId="m-start", command="hello")
        self.assertEqual((answer.status, answer.body["status"]), (202, "accepted"))
        receipt = self.receipt(answer.body["turnId"], FORK).body
        self.assertEqual(
            (receipt["state"], receipt["output"]["assistantMessages"]), ("completed", [])
        )
        self.assertEqual([text for _, _, text in self.texts()], ["hello", "hi"])
        self.assertIsNone(self.phase(FORK))
        other = self.fork_run(clientMessageId="m-start", chatId=SECOND)
        self.assertEqual(other.failure, (409, "IDEMPOTENCY_CONFLICT", False))
        self.assertEqual([one["id"] for one in self.listed()], [FORK, CHAT])

    def test_a_command_that_failed_for_good(self) -> None:
        """Is refused again with the words it failed by (2.3)."""
        self.memory.damage(self.view, 2)
        body = self.made_body()
        first = self.fork_run(body)
        self.assertEqual(first.failure, (422, "TRANSCRIPT_UNAVAILABLE", False))
        again = self.fork_run(body)
        self.assertEqual(again.failure, (409, "INTERNAL_ERROR", False))
        self.assertEqual(again.body["error"], first.body["error"])
        other = self.fork_run(body | {"command": "else"})
        self.assertEqual(other.failure, (409, "IDEMPOTENCY_CONFLICT", False))

    def test_a_mode_that_is_no_choice(self) -> None:
        """Null and absent are the same command, and so are two names of one effort."""
        body = self.made_body(thinkingMode="think")
        self.fork_run(body)
        again = self.fork_run(body | {"thinkingMode": "low", "permissionMode": None})
        self.assertEqual(again.body["status"], "duplicate")

    def test_a_source_that_is_deleted_meanwhile(self) -> None:
        """Goes only when the fork is whole."""
        self.memory.held = True
        forking = self.ask(operations.FORK_RUN, self.made_body())
        deleting = self.ask(operations.DELETE_CHAT, {"chatId": CHAT})
        self.assertNoResult(deleting)
        self.memory.release()
        self.assertEqual(self.successResultOf(forking).status, 202)
        self.assertEqual(self.successResultOf(deleting).status, 200)
        self.assertEqual([one["id"] for one in self.listed()], [FORK])
        self.assertEqual([text for _, _, text in self.texts()], ["hello", "hi", "go on"])

    def test_forks_whose_ids_cross(self) -> None:
        """Do not wait for each other for ever: one makes the chat, the other finds it made."""
        self.memory.held = True
        one = self.ask(operations.FORK, {"sourceChatId": CHAT, "chatId": FORK})
        other = self.ask(operations.FORK, {"sourceChatId": FORK, "chatId": CHAT})
        self.assertNoResult(one)
        self.memory.release()
        self.assertEqual(self.successResultOf(one).status, 200)
        failure = self.successResultOf(other).failure
        self.assertEqual(failure, (409, "IDEMPOTENCY_CONFLICT", False))


class ContinuationTests(ForksTestCase):
    """A successor that keeps the agent."""

    def handoff_run(self, body: dict[str, Any] | None = None, **more: Any) -> Said:
        return self.asked(operations.HANDOFF_RUN, body or self.made_body(**more))

    def test_the_successor(self) -> None:
        """No fork's number, the source's first message, and its conversation."""
        answer = self.handoff_run()
        self.assertEqual((answer.status, answer.body["commandType"]), (202, "fork-run"))
        self.assertEqual(answer.body["chat"]["title"], "hello")
        self.assertEqual(answer.body["parentChat"]["relation"], "handoff")
        self.assertEqual([text for _, _, text in self.texts()], ["hello", "hi", "go on"])
        self.assertEqual(self.kinds()[-1][2], "hi")

    def test_a_source_that_runs(self) -> None:
        """Is busy, and without a turn the same command is taken."""
        self.run_chat(self.view)
        body = self.made_body()
        answer = self.handoff_run(body)
        self.assertEqual(answer.failure, (409, "SESSION_BUSY", True))
        self.assertNotIn("control", answer.body)
        self.local.last.finish()
        self.assertEqual(self.handoff_run(body).body["status"], "accepted")

    def test_other_members_are_ignored(self) -> None:
        """Neither settings nor a presentation belong to it (3.8)."""
        answer = self.handoff_run(
            permissionMode="bypassPermissions", model=7, userMessagePresentation={"x": 1}
        )
        self.assertEqual(answer.status, 202)
        self.assertEqual(self.local.last.launch.permission_mode, "acceptEdits")

    def test_a_fork_under_the_same_id(self) -> None:
        """Is another command."""
        body = self.made_body()
        self.handoff_run(body)
        answer = self.asked(operations.FORK_RUN, body)
        self.assertEqual(answer.failure, (409, "IDEMPOTENCY_CONFLICT", False))

    def test_a_replay_after_the_source_is_gone(self) -> None:
        """Is a duplicate."""
        body = self.made_body()
        self.handoff_run(body)
        self.asked(operations.DELETE_CHAT, {"chatId": CHAT})
        self.assertEqual(self.handoff_run(body).body["status"], "duplicate")
        other = self.handoff_run(chatId=SECOND)
        self.assertEqual(other.failure, (404, "SESSION_NOT_FOUND", False))
        self.restart()
        self.assertEqual(self.handoff_run(body).body["status"], "duplicate")
        self.assertEqual(self.local.runs, [])

    def test_a_target_of_another_command(self) -> None:
        """Conflicts."""
        self.fork()
        self.assertEqual(self.handoff_run().failure, (409, "IDEMPOTENCY_CONFLICT", False))
