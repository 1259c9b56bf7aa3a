"""Forks, fork-runs and continuations (chats.md 3.6 to 3.8, 5.8, 5.10)."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from garcon.contract import operations
from garcon.contract.events import ChatMessages, ListRefreshRequested
from garcon.store.interfaces import IStore
from garcon.store.sqlite import SqliteStore
from garcon.test.controller.chats.cast import CHAT, ChatsTestCase, Said
from garcon.testing.inline_threads import InlinePool, InlineReactor
from garcon.testing.memory_store import MemoryStore

FORK, SECOND = "1767323045000777", "1767323045000778"


class ForksTestCase(ChatsTestCase):
    """A chat with one answered turn, on a store of its own kind."""

    def setUp(self) -> None:
        super().setUp()
        self.view = self.started(tags=["a"], permissionMode="acceptEdits")

    def fork(self, **more: Any) -> Said:
        """Fork the chat."""
        return self.asked(operations.FORK, {"sourceChatId": CHAT, "chatId": FORK} | more)

    def made_body(self, **more: Any) -> dict[str, Any]:
        """Return a command that makes a chat and runs it."""
        body = {
            "clientRequestId": self.request_id(),
            "clientMessageId": "m-fork",
            "sourceChatId": CHAT,
            "chatId": FORK,
            "command": "go on",
        }
        return body | more

    def texts(self, chat_id: str = FORK) -> list[tuple[int, str, Any]]:
        return self.kinds(chat_id)


class ForkTests(ForksTestCase):
    """Without a turn."""

    def test_the_target_has_the_sources_choices_and_conversation(self) -> None:
        """Its own epoch, a numbered title, on top of the list; no session and no run end."""
        source = self.listed()[0]
        answer = self.fork()
        self.assertEqual((answer.status, answer.body["success"]), (200, True))
        chat = answer.body["chat"]
        for same in (
            "agentId",
            "model",
            "permissionMode",
            "thinkingMode",
            "agentSettings",
            "tags",
            "projectPath",
            "executorId",
        ):
            self.assertEqual(chat[same], source[same], same)
        self.assertNotEqual(chat["agentOwnershipEpoch"], source["agentOwnershipEpoch"])
        self.assertEqual((chat["title"], chat["isProcessing"]), ("hello (1)", False))
        self.assertEqual(chat["preview"], {"firstMessage": "hello", "lastMessage": "hi"})
        self.assertEqual(
            chat["parentChat"],
            {"chatId": CHAT, "relation": "fork", "transcriptViewId": self.view, "ordinal": 4},
        )
        self.assertEqual([one["id"] for one in self.listed()], [FORK, CHAT])
        self.assertEqual(
            self.texts(), [(1, "user-message", "hello"), (2, "assistant-message", "hi")]
        )
        page = self.messages(FORK).body
        self.assertEqual((page["lastOrdinal"], page["resendCandidates"]), (2, []))
        self.assertNotEqual(page["transcriptViewId"], self.view)

    def test_forks_are_counted_over_restarts(self) -> None:
        """From one on, each source for itself."""
        self.fork()
        self.restart()
        answer = self.fork(chatId=SECOND)
        self.assertEqual(answer.body["chat"]["title"], "hello (2)")
        again = self.fork(sourceChatId=SECOND, chatId="1767323045000779")
        self.assertEqual(again.body["chat"]["title"], "hello (2) (1)")

    def test_a_fork_up_to_a_row(self) -> None:
        """That row included, with the activity of what was copied."""
        self.run_chat(self.view)
        self.local.last.say("later")
        self.local.last.finish()
        answer = self.fork(upToOrdinal=3, transcriptViewId=self.view)
        self.assertEqual(
            self.texts(), [(1, "user-message", "hello"), (2, "assistant-message", "hi")]
        )
        self.assertEqual(answer.body["chat"]["preview"]["lastMessage"], "hi")
        self.assertEqual(answer.body["chat"]["parentChat"]["ordinal"], 3)

    def test_what_is_not_copied(self) -> None:
        """Errors, notices, chat rows and permissions stay where they were said."""
        self.run_chat(self.view)
        self.local.last.ask("occurrence")
        body = {
            "clientRequestId": "r",
            "clientMessageId": "row",
            "chatId": CHAT,
            "transcriptViewId": self.view,
            "type": "notice",
            "content": "aside",
        }
        self.assertEqual(self.asked(operations.ADD_ROW, body).status, 200)
        self.local.last.fail("broken")
        self.fork()
        self.assertEqual(
            [kind for _, kind, _ in self.texts()],
            ["user-message", "assistant-message", "user-message"],
        )

    def test_a_fork_of_a_running_chat(self) -> None:
        """Is made of what is there; the source never shows as changed (5.4)."""
        self.run_chat(self.view, command="parent")
        self.told.clear()
        self.assertEqual(self.fork().status, 200)
        self.assertEqual(self.phase(), "running")
        (event,) = self.told
        assert isinstance(event, ListRefreshRequested)
        self.assertEqual((event.chat_id, event.reason), (FORK, "chat-added"))
        fork_view = self.messages(FORK).body["transcriptViewId"]
        candidates = self.messages(FORK).body["resendCandidates"]
        self.assertEqual([one["content"] for one in candidates], ["parent"])
        self.run_chat(fork_view, chatId=FORK, command="child")
        self.assertEqual(self.local.last.launch.prompt, "parent\n\nchild")
        history = [(one.role, one.content) for one in self.local.last.launch.history]
        self.assertEqual(history, [("user", "hello"), ("assistant", "hi")])
        self.assertIsNone(self.local.last.launch.agent_session_id)

    def test_source_and_target_are_independent(self) -> None:
        """What is said in one is not in the other, also after a restart."""
        self.fork()
        fork_view = self.messages(FORK).body["transcriptViewId"]
        self.run_chat(self.view, command="here")
        self.run_chat(fork_view, chatId=FORK, command="there")
        self.restart()
        self.assertEqual([text for _, _, text in self.kinds()], ["hello", "hi", "here"])
        self.assertEqual([text for _, _, text in self.texts()], ["hello", "hi", "there"])

    def test_what_is_refused(self) -> None:
        """Each by its code, and nothing is made."""
        for change, failure in (
            ({"sourceChatId": SECOND}, (404, "SESSION_NOT_FOUND", False)),
            ({"chatId": CHAT}, (400, "VALIDATION_FAILED", False)),
            ({"chatId": "17"}, (400, "VALIDATION_FAILED", False)),
            ({"upToOrdinal": 1}, (400, "VALIDATION_FAILED", False)),
            ({"transcriptViewId": self.view}, (400, "VALIDATION_FAILED", False)),
            ({"parentChat": None}, (400, "VALIDATION_FAILED", False)),
            (
                {"upToOrdinal": 0, "transcriptViewId": self.view},
                (400, "VALIDATION_FAILED", False),
            ),
            (
                {"upToOrdinal": 1, "transcriptViewId": "old"},
                (409, "STALE_TRANSCRIPT_VIEW", True),
            ),
            (
                {"upToOrdinal": 5, "transcriptViewId": self.view},
                (422, "TRANSCRIPT_UNAVAILABLE", False),
            ),
        ):
            self.assertEqual(self.fork(**change).failure, failure, change)
        self.assertEqual([one["id"] for one in self.listed()], [CHAT])
        self.fork()
        self.assertEqual(self.fork().failure, (409, "IDEMPOTENCY_CONFLICT", False))
        self.local.agents = []
        self.clock.advance(61)
        answer = self.fork(chatId=SECOND)
        self.assertEqual(answer.failure, (422, "UNSUPPORTED_AGENT", False))

    def test_an_executor_that_is_away(self) -> None:
        """Is not asked for a copy; what runs there needs it."""
        self.executors.states["local"] = "offline"
        self.assertEqual(self.fork().status, 200)
        answer = self.asked(operations.FORK_RUN, self.made_body(chatId=SECOND))
        self.assertEqual(answer.failure, (503, "EXECUTOR_UNAVAILABLE", True))

    def test_a_count_that_is_written_while_a_turn_runs(self) -> None:
        """Neither the fork nor the turn takes back what the other wrote."""
        self.run_chat(self.view)
        self.memory_held(True)
        waiting = self.ask(operations.FORK, {"sourceChatId": CHAT, "chatId": FORK})
        self.local.last.session("another")
        self.memory_held(False)
        self.assertEqual(self.successResultOf(waiting).status, 200)
        self.restart()
        self.assertEqual(self.fork(chatId=SECOND).body["chat"]["title"], "hello (2)")
        found = self.asked(operations.CHAT_DETAILS, query={"chatId": CHAT}).body
        self.assertEqual(found["agentSessionId"], "another")

    def memory_held(self, held: bool) -> None:
        """Hold the store's writes, where it is the double, or let them go."""
        if isinstance(self.store, MemoryStore):
            if held:
                self.store.held = True
            else:
                self.store.release()


class StoreTests(ForksTestCase):
    """Stores that cannot, and the real one."""

    def test_a_store_that_refuses(self) -> None:
        """Nothing is made, and the fork may be tried again."""
        self.memory.refusals = 1
        self.assertEqual(self.fork().status, 500)
        self.assertEqual(self.fork().body["chat"]["title"], "hello (1)")

    def test_a_damaged_source(self) -> None:
        """Cannot be forked."""
        self.memory.damage(self.view, 2)
        self.assertEqual(self.fork().failure, (422, "TRANSCRIPT_UNAVAILABLE", False))
        self.assertEqual([one["id"] for one in self.listed()], [CHAT])


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
        """Is busy."""
        self.run_chat(self.view)
        self.assertEqual(self.handoff_run().failure, (409, "SESSION_BUSY", True))

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


class SqliteForkTests(ForkTests):
    """The same over the real store."""

    def make_store(self) -> IStore:
        return SqliteStore(self.mktemp(), InlineReactor(), InlinePool())
