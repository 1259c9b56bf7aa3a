"""How queued messages are sent (chats.md 5.4, 5.5)."""

from __future__ import annotations

import msgspec
from twisted.internet.defer import Deferred

from garcon.contract import operations
from garcon.contract.events import OperationalNotice
from garcon.contract.runs import Launch
from garcon.controller.chats.lanes import WAITING
from garcon.errors import GarconError
from garcon.test.controller.chats.cast import CHAT, OTHER, WORKER
from garcon.test.controller.chats.queue_cast import QueueTestCase


class DispatchTests(QueueTestCase):
    """An entry becomes a turn (5.5.1 to 5.5.3)."""

    def test_a_create_on_an_idle_chat_is_sent_at_once(self) -> None:
        """The answer still shows the entry (5.5.2)."""
        answer = self.create("now")
        self.assertEqual(len(answer.body["control"]["queue"]["entries"]), 1)
        self.assertEqual((self.prompts(), self.waiting()), (["now"], []))
        self.assertEqual(self.phase(), "running")
        (sent,) = self.control()["queue"]["recentlyDispatched"]
        self.assertEqual((sent["entryId"], sent["revision"]), (answer.body["entryId"], 1))

    def test_one_at_a_time_in_order(self) -> None:
        """Each as its own turn, after the end of the one before."""
        for content in ("one", "two", "three"):
            self.queued(content)
        self.assertEqual(self.prompts(), ["one"])
        for n in range(3):
            self.local.last.say(f"answer {n}")
            self.local.last.finish()
        self.assertEqual(self.prompts(), ["one", "two", "three"])
        self.assertEqual((self.waiting(), self.phase()), ([], None))
        self.assertEqual(
            [text for _, _, text in self.kinds()[2:]],
            ["one", "answer 0", "two", "answer 1", "three", "answer 2"],
        )

    def test_the_row_has_the_entry_s_message_id(self) -> None:
        """And the turn fresh ids; it has no receipt (3.21)."""
        self.queued("one", clientMessageId="mine", clientRequestId="asked")
        launch: Launch = self.local.last.launch
        message = self.messages().body["messages"][-1]["message"]
        self.assertEqual(message["metadata"], {"clientMessageId": "mine"})
        self.assertEqual(self.receipt(launch.run_id).failure[:2], (404, "TURN_RECEIPT_NOT_FOUND"))
        self.local.last.say("yes")
        self.local.last.finish()
        finished = msgspec.to_builtins(self.told[-1])
        self.assertEqual(finished["type"], "agent-run-finished")
        self.assertEqual(finished["turnId"], launch.run_id)
        self.assertNotEqual(finished["clientRequestId"], "asked")

    def test_it_leaves_the_queue_when_its_row_is_durable(self) -> None:
        """Not before: until then it waits."""
        self.memory.held = True
        self.queued("one")
        self.assertEqual(self.waiting(), ["one"])
        self.assertEqual(self.phase(), "running")
        self.memory.release()
        self.assertEqual((self.waiting(), self.prompts()), ([], ["one"]))

    def test_an_edit_before_it_is_sent(self) -> None:
        """What goes out is what it says then, and its revision is remembered."""
        self.run_chat(self.view)
        entry = self.queued("one")
        self.replace(entry, "better")
        self.local.last.finish()
        self.assertEqual(self.prompts()[-1], "better")
        self.assertEqual(self.control()["queue"]["recentlyDispatched"][0]["revision"], 2)

    def test_unanswered_input_is_carried(self) -> None:
        """As by a direct run, but for what its creator excluded (5.2.4)."""
        self.run_chat(self.view, command="stop-a")
        self.successResultOf(self.stop())
        candidate = self.messages().body["resendCandidates"][0]["ordinal"]
        self.queued("stop-b")
        self.assertEqual(self.prompts()[-1], "stop-a\n\nstop-b")
        self.local.last.finish()
        self.run_chat(self.view, command="stop-c")
        self.successResultOf(self.stop())
        candidate = self.messages().body["resendCandidates"][0]["ordinal"]
        self.queued("stop-d", excludedResendOrdinals=[candidate])
        self.assertEqual(self.prompts()[-1], "stop-d")

    def test_draining_goes_on_after_a_direct_turn(self) -> None:
        """However it ended (5.5.3)."""
        for end in ("finish", "fail"):
            self.run_chat(self.view, command="direct")
            self.queued(end)
            run = self.local.last
            run.finish() if end == "finish" else run.fail("bad")
            self.assertEqual(self.prompts()[-1], end)
            self.local.last.finish()

    def test_draining_goes_on_after_resume(self) -> None:
        """And not before."""
        self.run_chat(self.view)
        self.queued("one")
        pause = self.pause()
        self.local.last.finish()
        self.assertEqual(self.prompts(), ["again"])
        self.resume(pause)
        self.assertEqual(self.prompts(), ["again", "one"])

    def test_chats_are_independent(self) -> None:
        """A queue of one chat does not wait for another."""
        self.start(chatId=OTHER, clientMessageId="m-other")
        self.queued("one")
        self.assertEqual(self.local.last.launch.chat_id, CHAT)

    def test_a_message_that_was_said_already(self) -> None:
        """It is not said again, and the next one goes out (2.4)."""
        self.run_chat(self.view, command="said", clientMessageId="m")
        self.queued("said", clientMessageId="m")
        self.queued("new")
        self.local.last.finish()
        self.assertEqual(self.prompts(), ["said", "new"])
        self.assertEqual(len(self.control()["queue"]["recentlyDispatched"]), 2)
        self.assertEqual([text for _, _, text in self.kinds()[2:]], ["said", "new"])

    def test_it_waits_for_its_turn_among_the_chat_s_commands(self) -> None:
        """However many of those there are."""
        self.run_chat(self.view)
        self.queued("one")
        self.local.holds_aborts = True
        stop = self.stop()
        waiting = [
            self.ask(operations.CLEAR_QUEUE, {"chatId": "1767000000000009"}) for _ in range(2)
        ]
        commands = [self.ask(operations.PAUSE_QUEUE, {"chatId": CHAT}) for _ in range(WAITING)]
        for d in waiting:
            self.assertEqual(self.successResultOf(d).code, "SESSION_NOT_FOUND")
        refused = self.asked(operations.PAUSE_QUEUE, {"chatId": CHAT})
        self.assertEqual(refused.code, "SESSION_BUSY")
        self.local.last.interrupted()
        self.successResultOf(stop)
        for d in commands:
            self.assertEqual(self.successResultOf(d).status, 200)
        self.assertEqual((self.waiting(), self.pause_kind()), (["one"], "manual"))

    def test_settings_of_the_chat(self) -> None:
        """Its own model and modes, not those of the turn before."""
        self.run_chat(self.view, permissionMode="acceptEdits", thinkingMode="high")
        self.queued("one")
        self.local.last.finish()
        launch = self.local.last.launch
        self.assertEqual((launch.permission_mode, launch.thinking_mode), ("default", "none"))
        self.assertEqual((launch.model, launch.agent_session_id), ("scripted", "agent-session"))


class FailureTests(QueueTestCase):
    """What holds a queue after a failure (5.5.4)."""

    def test_a_queued_turn_that_fails_pauses_what_is_left(self) -> None:
        """The pause names the failed entry, which does not come back."""
        failed = self.queued("one")
        self.queued("two")
        self.local.last.fail("bad")
        pause = self.control()["queue"]["pause"]
        self.assertEqual((pause["kind"], pause["entryId"]), ("queued-turn-failed", failed))
        self.assertEqual((self.waiting(), self.prompts()), (["two"], ["one"]))
        self.resume(pause["id"])
        self.assertEqual(self.prompts(), ["one", "two"])

    def test_one_failure_is_told_once(self) -> None:
        """Rows, then the phase, the failure, once, and the pause (server.md A.11.2, A.11.6)."""
        self.queued("one")
        self.queued("two")
        self.told.clear()
        self.local.last.fail("bad")
        self.assertEqual(self.order(), ["hidden", "phase None", "failed", "control 4"])

    def test_without_anything_left_there_is_no_pause(self) -> None:
        """A direct run is admitted."""
        self.queued("one")
        self.local.last.fail("bad")
        self.assertIsNone(self.pause_kind())
        self.assertEqual(self.run_chat(self.view).status, 202)

    def test_a_pause_below_a_failure(self) -> None:
        """A user paused while the entry ran: two things hold the queue."""
        self.queued("one")
        self.queued("two")
        manual = self.pause()
        self.local.last.fail("bad")
        self.assertEqual(self.pause_kind(), "queued-turn-failed")
        self.resume(self.control()["queue"]["pause"]["id"])
        self.assertEqual((self.pause_kind(), self.waiting()), ("manual", ["two"]))
        self.resume(manual)
        self.assertEqual(self.prompts(), ["one", "two"])

    def test_a_direct_turn_that_fails_does_not_pause(self) -> None:
        """Its failed event comes before the row of its successor (5.5.4, 5.19)."""
        self.run_chat(self.view)
        self.queued("one")
        self.told.clear()
        self.local.last.fail("bad")
        self.assertEqual(
            self.order(),
            ["hidden", "phase None", "failed", "phase running", "rows", "control 2"],
        )
        self.assertIsNone(self.pause_kind())

    def test_a_launch_that_fails(self) -> None:
        """It is a failed turn like any other."""
        self.run_chat(self.view)
        self.queued("one")
        self.queued("two")
        self.local.launch_error = GarconError("INTERNAL_ERROR", "no agent", status=500)
        self.local.last.finish()
        self.assertEqual((self.waiting(), self.pause_kind()), (["two"], "queued-turn-failed"))
        self.assertEqual(self.prompts(), ["again"])
        self.assertIsNone(self.phase())


class PreparationTests(QueueTestCase):
    """What cannot be sent is not lost."""

    def setUp(self) -> None:
        super().setUp()
        self.run_chat(self.view)
        self.entry = self.queued("one")

    def notices(self) -> list[str]:
        return [event.content for event in self.told if isinstance(event, OperationalNotice)]

    def assertHeld(self, why: str) -> None:
        """The entry still waits, and its user is told why."""
        pause = self.control()["queue"]["pause"]
        self.assertEqual((pause["kind"], pause["entryId"]), ("queued-turn-failed", self.entry))
        self.assertEqual((self.waiting(), self.prompts()), (["one"], ["again"]))
        (notice,) = self.notices()
        self.assertIn(why, notice)
        self.assertIsNone(self.phase())

    def assertSentAfterResume(self) -> None:
        self.resume(self.control()["queue"]["pause"]["id"])
        self.assertEqual((self.waiting(), self.prompts()), ([], ["again", "one"]))

    def test_an_agent_that_is_gone(self) -> None:
        """Sent when it is back."""
        agents, self.local.agents = self.local.agents, []
        self.clock.advance(120)
        self.local.last.finish()
        self.assertHeld("no agent scripted")
        self.local.agents = agents
        self.assertSentAfterResume()

    def test_a_store_that_refuses(self) -> None:
        """Nothing of the turn is left."""
        self.executors.states["local"] = "offline"
        self.local.last.finish()
        before = self.kinds()
        self.executors.states["local"] = "ready"
        self.memory.refusals = 1
        self.chats.availability_changed("local")
        self.assertHeld("it was told to refuse")
        self.assertEqual(self.kinds(), before)
        self.assertSentAfterResume()

    def test_a_damaged_transcript(self) -> None:
        """It takes no input."""
        self.memory.damage(self.view, 1)
        self.assertEqual(self.messages().body["historyState"]["kind"], "degraded")
        self.local.last.finish()
        self.assertHeld("transcript")

    def test_an_executor_that_does_not_exist_any_more(self) -> None:
        """It is not waited for."""
        del self.executors.runtimes["local"]
        self.local.last.finish()
        self.assertHeld("no such executor")

    def test_a_bug_of_ours(self) -> None:
        """It shows no internals."""
        self.local.agents = [None]  # type: ignore[list-item]
        self.clock.advance(120)
        self.local.last.finish()
        self.assertHeld("something went wrong inside Garcon")
        self.assertEqual(len(self.flushLoggedErrors(AttributeError)), 1)


class ExecutorTests(QueueTestCase):
    """Queued turns wait for their executor (contract/README.md)."""

    def change(self, state: str) -> None:
        self.executors.states["local"] = state  # type: ignore[assignment]
        self.chats.availability_changed("local")

    def test_not_ready(self) -> None:
        """A message is taken, and sent when the executor is there; others do not wait with it."""
        for state in ("offline", "reconnecting"):
            self.change(state)
            self.queued(state)
            self.assertEqual((self.waiting(), self.phase()), ([state], None))
            self.chats.availability_changed(WORKER)
            self.assertEqual(self.waiting(), [state])
            self.change("ready")
            self.assertEqual((self.waiting(), self.prompts()[-1]), ([], state))
            self.local.last.finish()

    def test_lost_while_a_turn_runs(self) -> None:
        """The next one waits after its end."""
        self.run_chat(self.view)
        self.queued("one")
        self.change("reconnecting")
        self.local.last.finish()
        self.assertEqual((self.waiting(), self.pause_kind()), (["one"], None))
        self.change("ready")
        self.assertEqual(self.prompts()[-1], "one")

    def test_lost_while_an_entry_is_being_prepared(self) -> None:
        """It still waits."""
        self.run_chat(self.view)
        self.queued("one")
        asked: Deferred[object] = Deferred()
        self.clock.advance(120)
        self.local.reads.append(asked)
        self.local.last.finish()
        self.change("reconnecting")
        asked.errback(GarconError("EXECUTOR_UNAVAILABLE", "gone", status=503, retryable=True))
        self.assertEqual((self.waiting(), self.pause_kind()), (["one"], None))
        self.change("ready")
        self.assertEqual(self.prompts()[-1], "one")

    def test_paused(self) -> None:
        """An executor that is there again ends no pause."""
        self.change("offline")
        self.queued("one")
        self.pause()
        self.change("ready")
        self.assertEqual(self.waiting(), ["one"])


class EndTests(QueueTestCase):
    """Nothing is sent any more (5.5.3)."""

    def test_the_controller_stops(self) -> None:
        """Its end sends nothing; the queue is forgotten with it."""
        self.run_chat(self.view)
        self.queued("one")
        self.successResultOf(self.chats.shut_down())
        self.assertEqual(self.prompts(), ["again"])

    def test_a_deleted_chat(self) -> None:
        """Its queue goes with it."""
        self.run_chat(self.view)
        self.queued("one")
        self.assertEqual(self.asked(operations.DELETE_CHAT, {"chatId": CHAT}).status, 200)
        self.assertEqual(self.prompts(), ["again"])

    def test_a_chat_that_could_not_be_deleted(self) -> None:
        """Its queue goes on when its turn has ended (3.2)."""
        self.run_chat(self.view)
        self.queued("one")
        self.local.abort_error = GarconError("EXECUTOR_UNAVAILABLE", "down", status=503)
        refused = self.asked(operations.DELETE_CHAT, {"chatId": CHAT})
        self.assertEqual(refused.failure, (409, "SESSION_BUSY", True))
        self.local.last.finish()
        self.assertEqual(self.prompts(), ["again", "one"])
