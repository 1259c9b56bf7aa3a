"""Starting and running, views, phases and locks, rule by rule (chats.md 5.1, 5.3, 5.4, 5.18)."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from garcon.contract import operations
from garcon.contract.events import ChatMessages, ProcessingUpdated
from garcon.test.controller.chats.cast import CHAT, OTHER, ChatsTestCase, Said
from garcon.test.controller.chats.queue_cast import QueueTestCase
from garcon.testing.fake_runtime import agent_entry

FORK = "1767323045000777"
STALE = (409, "STALE_TRANSCRIPT_VIEW", False)


class RunningTests(QueueTestCase):
    """An idle chat (5.1.1 to 5.1.3)."""

    def test_1_a_started_chat_is_listed_at_once(self) -> None:
        """At the top of the normal ones, below what is pinned, and processing while its turn
        runs, of which the start does not see the end.
        """
        self.asked(operations.PIN, {"chatId": CHAT, "pinned": True})
        third = "1767000000000003"
        self.started(chatId=third)
        answer = self.start(chatId=OTHER)
        self.assertEqual([one["id"] for one in self.listed()], [CHAT, OTHER, third])
        entry = self.listed()[1]
        self.assertEqual((entry["isProcessing"], entry["isActive"]), (True, True))
        self.assertEqual(answer.body["chat"], entry)
        self.local.last.finish()
        entry = self.listed()[1]
        self.assertEqual((entry["isProcessing"], entry["isActive"]), (False, False))

    def test_2_an_input_is_there_once_however_its_turn_ends(self) -> None:
        """Before the agent is asked, and after it has finished, failed, or was stopped."""
        for end in ("finish", "fail", "stop"):
            self.local.holds_launches = True
            self.run_chat(self.view, command=end)
            self.assertEqual(self.kinds()[-1][1:], ("user-message", end))
            self.local.last.begin()
            self.local.holds_launches = False
            if end == "stop":
                self.successResultOf(self.stop())
            elif end == "fail":
                self.local.last.fail("broken")
            else:
                self.local.last.finish()
            texts = [text for _, kind, text in self.kinds() if kind == "user-message"]
            self.assertEqual(texts.count(end), 1)

    def test_3_a_refused_run_is_never_seen(self) -> None:
        """No row, no event, no launch, also not when the chat is idle again."""
        self.run_chat(self.view, command="long")
        rows, told, runs = self.kinds(), len(self.told), len(self.local.runs)
        self.assertEqual(self.run_chat(self.view, command="refused").code, "SESSION_BUSY")
        self.assertEqual((self.kinds(), len(self.told), len(self.local.runs)), (rows, told, runs))
        self.local.last.finish()
        self.clock.advance(60)
        self.restart()
        self.assertNotIn("refused", [text for _, _, text in self.kinds()])
        self.assertEqual(self.local.runs, [])


class ViewTests(QueueTestCase):
    """The one view that a chat has (5.3.1 to 5.3.4)."""

    def test_1_only_a_reload_replaces_it(self) -> None:
        """Not a turn, a row, a change of hands, a fork, another directory or a restart; and
        ordinals go on.
        """
        self.local.agents.append(agent_entry("other"))
        self.run_chat(self.view)
        self.local.last.fail("broken")
        row = {
            "clientRequestId": "r",
            "clientMessageId": "r",
            "chatId": CHAT,
            "transcriptViewId": self.view,
            "type": "notice",
            "content": "aside",
        }
        self.assertEqual(self.asked(operations.ADD_ROW, row).status, 200)
        epoch = self.listed()[0]["agentOwnershipEpoch"]
        target = {"agentId": "other", "model": "other"}
        handoff = {"expectedAgentOwnershipEpoch": epoch, "target": target}
        self.assertEqual(self.run_chat(self.view, handoff=handoff).status, 202)
        self.local.last.finish()
        fork = {"sourceChatId": CHAT, "chatId": FORK}
        self.assertEqual(self.asked(operations.FORK, fork).status, 200)
        last = self.messages().body["lastOrdinal"]
        self.restart()
        body = self.messages().body
        self.assertEqual((body["transcriptViewId"], body["lastOrdinal"]), (self.view, last))
        self.assertNotEqual(self.messages(FORK).body["transcriptViewId"], self.view)

    def test_2_ordinals_have_no_gap(self) -> None:
        """From one on, hidden rows among them: what was told covers each once."""
        self.restart()
        self.run_chat(self.view)
        self.local.last.session("another")
        self.local.last.say("a")
        self.local.last.finish()
        spans = [
            (event.first_ordinal, event.last_ordinal)
            for event in self.told
            if isinstance(event, ChatMessages)
        ]
        told = [n for first, last in spans for n in range(first, last + 1)]
        self.assertEqual(told, [5, 6, 7, 8])
        self.assertEqual([n for n, _, _ in self.kinds()], [1, 3, 5, 7])

    def test_4_another_view_is_refused_everywhere(self) -> None:
        """A cursor, a run, a queued message, a steer, a row: 409, and nothing has happened.

        A fork point too, and that one may be tried again (8.5).
        """
        self.run_chat(self.view, command="long")
        entry = self.queued()
        wrong = "00000000-0000-4000-8000-000000000000"
        message = {"clientRequestId": "r", "clientMessageId": "m", "chatId": CHAT}
        message["transcriptViewId"] = wrong
        rows, control, told = self.kinds(), self.control(), len(self.told)
        head = {
            "clientRequestId": "r",
            "chatId": CHAT,
            "transcriptViewId": wrong,
            "entryId": entry,
            "expectedRevision": 1,
            "expectedReorderRevision": 0,
        }
        for operation, body in (
            (operations.RUN_CHAT, message | {"command": "x"}),
            (operations.CREATE_ENTRY, message | {"content": "x"}),
            (operations.STEER, message | {"content": "x"}),
            (operations.STEER_ENTRY, head),
            (operations.ADD_ROW, message | {"type": "notice", "content": "x"}),
        ):
            answer = self.asked(operation, body)
            self.assertEqual(answer.failure, STALE, operation.route.key)
            self.assertLessEqual(answer.body.keys(), {"success", "error", "errorCode", "retryable"})
        for query in ({}, {"beforeOrdinal": 2}, {"purpose": "activation"}):
            self.assertEqual(self.messages(transcriptViewId=wrong, **query).failure, STALE)
        fork = {"sourceChatId": CHAT, "chatId": FORK, "upToOrdinal": 1, "transcriptViewId": wrong}
        answer = self.asked(operations.FORK, fork)
        self.assertEqual(answer.failure, (409, "STALE_TRANSCRIPT_VIEW", True))
        self.assertEqual((self.kinds(), self.control(), len(self.told)), (rows, control, told))
        self.assertEqual((len(self.local.steers), len(self.listed())), (0, 1))


class PhaseTests(QueueTestCase):
    """What a chat shows that it does (5.4)."""

    def phases(self) -> list[Any]:
        """Return what was told."""
        return [event.phase for event in self.told if isinstance(event, ProcessingUpdated)]

    def test_a_direct_turn_from_its_admission_to_its_release(self) -> None:
        """Also while its input is only on its way to the store, and while it is launched."""
        self.memory.held = True
        self.local.holds_launches = True
        run = self.ask(operations.RUN_CHAT, self.run_body(self.view))
        self.assertEqual(self.phase(), "running")
        self.memory.release()
        self.assertEqual(self.successResultOf(run).status, 202)
        self.assertEqual(self.phase(), "running")
        self.local.last.begin()
        self.local.last.say("hi")
        self.assertEqual(self.phase(), "running")
        self.local.last.finish()
        self.assertIsNone(self.phase())
        self.assertEqual(self.phases(), ["running", None])

    def test_stopping_while_a_stop_is_in_flight(self) -> None:
        """And running again should it come to nothing."""
        self.run_chat(self.view)
        self.local.say_nothing = True
        self.stop()
        entry = self.listed()[0]
        self.assertEqual((entry["processingPhase"], entry["isProcessing"]), ("stopping", True))
        self.clock.advance(16)
        self.assertEqual(self.phase(), "running")
        self.assertEqual(self.phases(), ["running", "stopping", "running"])

    def test_an_entry_that_is_dispatched(self) -> None:
        """Is running; one that only waits is not."""
        self.executors.states["local"] = "offline"
        self.queued()
        self.assertIsNone(self.phase())
        self.executors.states["local"] = "ready"
        self.memory.held = True
        self.chats.availability_changed("local")
        self.assertEqual(self.phase(), "running")
        self.memory.release()
        self.assertEqual(self.phase(), "running")

    def test_a_compaction(self) -> None:
        """Is a turn like any."""
        body = {"clientRequestId": "c", "chatId": CHAT}
        self.assertEqual(self.asked(operations.COMPACT, body).status, 202)
        self.assertEqual(self.phases()[0], "running")

    def test_a_turn_whose_run_has_ended_shows_when_its_rows_do(self) -> None:
        """Nobody sees an idle chat without the last row of its turn."""
        self.run_chat(self.view)
        self.memory.held = True
        self.local.last.say("last")
        self.local.last.finish()
        self.assertEqual((self.phase(), self.kinds()[-1][2]), ("running", "again"))
        self.memory.release()
        self.assertEqual((self.phase(), self.kinds()[-1][2]), (None, "last"))


class LockTests(ChatsTestCase):
    """Commands of one chat are serialised, and nothing else is (5.18)."""

    def setUp(self) -> None:
        super().setUp()
        self.started(chatId=OTHER)
        self.local.holds_launches = True
        self.launching: Deferred[Said] = self.ask(operations.START_CHAT, self.start_body())

    def test_the_second_command_waits_for_the_first(self) -> None:
        """A run that comes while the chat is being started is judged when it is."""
        view = self.messages().body["transcriptViewId"]
        second = self.ask(operations.RUN_CHAT, self.run_body(view))
        self.assertNoResult(second)
        self.local.last.begin()
        self.assertEqual(self.successResultOf(self.launching).status, 202)
        self.assertEqual(self.successResultOf(second).failure, (409, "SESSION_BUSY", True))

    def test_who_reads_does_not_wait(self) -> None:
        """Neither for a command nor for a turn."""
        for operation, query in (
            (operations.LIST_CHATS, {}),
            (operations.SNAPSHOT, {"chatId": CHAT}),
            (operations.MESSAGES, {"chatId": CHAT}),
            (operations.READ_QUEUE, {"chatId": CHAT}),
            (operations.READ_ROWS, {"chatId": CHAT}),
            (operations.CHAT_DETAILS, {"chatId": CHAT}),
            (operations.READ_TAGS, {"chatId": CHAT}),
            (operations.RUNNING_CHATS, {}),
        ):
            self.assertEqual(self.asked(operation, query=query).status, 200, operation.route.key)
        self.assertNoResult(self.launching)

    def test_other_chats_do_not_wait(self) -> None:
        """Each has a lock of its own."""
        self.local.holds_launches = False
        view = self.messages(OTHER).body["transcriptViewId"]
        self.assertEqual(self.run_chat(view, chatId=OTHER).status, 202)
        self.assertNoResult(self.launching)

    def test_a_fork_waits_for_both(self) -> None:
        """Its source is another chat's business until then; ids decide which comes first."""
        fork = {"sourceChatId": CHAT, "chatId": FORK}
        forking = self.ask(operations.FORK, fork)
        back = {"sourceChatId": OTHER, "chatId": CHAT}
        other = self.ask(operations.FORK, back)
        self.assertNoResult(forking)
        self.assertNoResult(other)
        self.local.last.begin()
        self.assertEqual(self.successResultOf(forking).status, 200)
        failure = self.successResultOf(other).failure
        self.assertEqual(failure, (409, "IDEMPOTENCY_CONFLICT", False))
