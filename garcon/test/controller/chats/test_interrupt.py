"""Stopping with a queue, going on with it, and what is told of both (chats.md 3.10, 3.11, 5.6;
server.md A.11).
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from garcon.contract import operations
from garcon.errors import GarconError
from garcon.test.controller.chats.cast import CHAT, OTHER, Said
from garcon.test.controller.chats.queue_cast import QueueTestCase


class InterruptCase(QueueTestCase):
    """A turn runs."""

    def setUp(self) -> None:
        super().setUp()
        self.turn = self.run_chat(self.view, command="long").body["turnId"]
        self.told.clear()

    def interrupt(self, **more: Any) -> Deferred[Said]:
        """Interrupt and send."""
        body = {"clientRequestId": self.request_id(), "chatId": CHAT}
        return self.ask(operations.INTERRUPT_AND_SEND, body | more)


class StopTests(InterruptCase):
    """POST stop (5.6.1 to 5.6.3)."""

    def test_pauses_what_waits(self) -> None:
        """By hand, so that nothing is sent until it is resumed, and no direct run either."""
        self.queued("one")
        answer = self.successResultOf(self.stop())
        self.assertEqual(answer.body["outcome"], "interrupt-requested")
        self.assertEqual(answer.body["control"]["queue"]["pause"]["kind"], "manual")
        self.assertEqual((self.waiting(), self.prompts(), self.phase()), (["one"], ["long"], None))
        self.assertEqual(self.run_chat(self.view).failure, (409, "SESSION_BUSY", True))
        self.resume(self.control()["queue"]["pause"]["id"])
        self.assertEqual(self.prompts(), ["long", "long\n\none"])

    def test_an_empty_queue_is_not_paused(self) -> None:
        """There is nothing to hold."""
        self.assertIsNone(self.successResultOf(self.stop()).body["control"]["queue"]["pause"])

    def test_a_pause_that_is_there_stays(self) -> None:
        """No second one on top of it."""
        self.queued("one")
        pause = self.pause()
        control = self.successResultOf(self.stop()).body["control"]
        self.assertEqual((control["queue"]["pause"]["id"], control["version"]), (pause, 2))

    def test_while_an_entry_runs(self) -> None:
        """It does not come back; the others wait (5.6.3)."""
        self.queued("one")
        self.queued("two")
        self.local.last.finish()
        self.successResultOf(self.stop())
        self.assertEqual((self.waiting(), self.pause_kind()), (["two"], "manual"))
        self.assertEqual(self.prompts(), ["long", "one"])

    def test_an_idle_chat_with_a_queue_is_paused_too(self) -> None:
        """A stop is a stop."""
        self.local.last.finish()
        self.executors.states["local"] = "offline"
        self.queued("one")
        answer = self.successResultOf(self.stop())
        self.assertEqual(answer.body["outcome"], "already-idle")
        self.assertEqual(answer.body["control"]["queue"]["pause"]["kind"], "manual")

    def test_a_replay_shows_the_control_of_now(self) -> None:
        """And pauses nothing again (3.10)."""
        self.queued("one")
        self.successResultOf(self.stop(clientRequestId="stop"))
        self.clear()
        again = self.successResultOf(self.stop(clientRequestId="stop"))
        self.assertEqual(again.body["status"], "duplicate")
        self.assertEqual(again.body["control"], self.control())


class StopEventTests(InterruptCase):
    """What is told, in its order (5.6.5, 5.19; A.11.2, A.11.4)."""

    def test_interrupt_then_stopped_then_idle(self) -> None:
        """And the turn's event is the finished one, after its last row."""
        self.successResultOf(self.stop())
        self.assertEqual(
            self.order(),
            ["phase stopping", "stop: interrupt-requested", "hidden", "phase None", "finished"],
        )

    def test_idle_then_stopped(self) -> None:
        """One event for each request."""
        self.local.last.finish()
        self.told.clear()
        for _ in range(2):
            self.successResultOf(self.stop())
        self.assertEqual(self.order(), ["phase None", "stop: already-idle"] * 2)

    def test_a_stop_that_fails(self) -> None:
        """Stopped, with its outcome, and then that the turn goes on."""
        self.local.abort_error = GarconError("EXECUTOR_UNAVAILABLE", "down", status=503)
        self.successResultOf(self.stop())
        self.assertEqual(self.order(), ["phase stopping", "stop: failed", "phase running"])

    def test_two_at_once(self) -> None:
        """The second is idle; each is told of once."""
        self.local.holds_aborts = True
        first, second = self.stop(), self.stop()
        self.local.last.interrupted()
        self.assertEqual(self.successResultOf(first).body["outcome"], "interrupt-requested")
        self.assertEqual(self.successResultOf(second).body["outcome"], "already-idle")
        self.assertEqual(
            self.order(),
            [
                "phase stopping",
                "stop: interrupt-requested",
                "hidden",
                "phase None",
                "finished",
                "phase None",
                "stop: already-idle",
            ],
        )

    def test_a_replay_tells_nothing(self) -> None:
        """It stopped nothing."""
        self.successResultOf(self.stop(clientRequestId="stop"))
        self.told.clear()
        self.successResultOf(self.stop(clientRequestId="stop"))
        self.assertEqual(self.told, [])

    def test_a_stop_that_is_kept(self) -> None:
        """Told of at once, and once; the turn still shows as stopping."""
        self.local.say_nothing = True
        self.executors.states["local"] = "reconnecting"
        self.successResultOf(self.stop())
        self.successResultOf(self.stop())
        self.assertEqual(self.order(), ["phase stopping", "stop: interrupt-requested"])
        self.assertEqual(self.phase(), "stopping")

    def test_the_last_row_is_still_being_kept(self) -> None:
        """A turn that has ended is idle, but is told so only when its row is durable."""
        self.memory.held = True
        self.local.last.finish()
        stop = self.stop()
        self.assertNoResult(stop)
        self.memory.release()
        self.assertEqual(self.successResultOf(stop).body["outcome"], "already-idle")
        self.assertEqual(
            self.order(), ["hidden", "phase None", "finished", "phase None", "stop: already-idle"]
        )


class InterruptAndSendTests(InterruptCase):
    """POST interrupt-and-send (3.11, 5.6.4)."""

    def test_sends_the_head(self) -> None:
        """Nothing is paused; the successor carries what was interrupted."""
        self.queued("one")
        self.queued("two")
        answer = self.successResultOf(self.interrupt())
        self.assertEqual(answer.status, 200)
        self.assertEqual(answer.body["commandType"], "agent-interrupt-and-send")
        self.assertEqual(answer.body["outcome"], "interrupt-requested")
        self.assertIsNone(answer.body["control"]["queue"]["pause"])
        self.assertEqual(self.prompts(), ["long", "long\n\none"])
        self.assertEqual((self.waiting(), self.phase()), (["two"], "running"))

    def test_events(self) -> None:
        """No failure among them; the successor's rows come after the end of the interrupted."""
        self.queued("one")
        self.told.clear()
        self.successResultOf(self.interrupt())
        self.assertEqual(
            self.order(),
            [
                "phase stopping",
                "interrupt-and-send: interrupt-requested",
                "hidden",
                "phase None",
                "finished",
                "phase running",
                "rows",
                "control 2",
            ],
        )

    def test_stale_output_is_ignored(self) -> None:
        """What the interrupted run says late belongs to nobody."""
        self.queued("one")
        stale = self.local.last
        self.successResultOf(self.interrupt())
        stale.say("late")
        self.local.last.say("mine")
        self.assertEqual([text for _, _, text in self.kinds()[2:]], ["long", "one", "mine"])

    def test_the_receipt_of_the_interrupted(self) -> None:
        """A user stopped it."""
        self.successResultOf(self.interrupt())
        receipt = self.receipt(self.turn).body
        self.assertEqual((receipt["state"], receipt["reason"]), ("interrupted", "user-stop"))

    def test_a_paused_queue_stays_paused(self) -> None:
        """This command neither adds a pause nor ends one."""
        self.queued("one")
        self.pause()
        self.successResultOf(self.interrupt())
        self.assertEqual((self.waiting(), self.pause_kind()), (["one"], "manual"))

    def test_an_idle_chat(self) -> None:
        """Already idle; what waited for nothing else goes out."""
        self.local.last.finish()
        answer = self.successResultOf(self.interrupt())
        self.assertEqual(answer.body["outcome"], "already-idle")

    def test_an_interruption_that_fails(self) -> None:
        """The turn goes on, and the queue waits for it."""
        self.queued("one")
        self.local.abort_error = GarconError("EXECUTOR_UNAVAILABLE", "down", status=503)
        answer = self.successResultOf(self.interrupt())
        self.assertEqual(answer.body["outcome"], "failed")
        self.assertEqual((self.waiting(), self.phase()), (["one"], "running"))
        self.local.last.finish()
        self.assertEqual(self.prompts(), ["long", "one"])

    def test_replay_and_conflict(self) -> None:
        """Its ledger is its own."""
        first = self.successResultOf(self.interrupt(clientRequestId="i"))
        again = self.successResultOf(self.interrupt(clientRequestId="i"))
        self.assertEqual(again.body["status"], "duplicate")
        self.assertEqual(again.body["acceptedAt"], first.body["acceptedAt"])
        stop = self.successResultOf(self.stop(clientRequestId="i"))
        self.assertEqual(stop.failure, (409, "IDEMPOTENCY_CONFLICT", False))
        other = self.successResultOf(self.interrupt(clientRequestId="i", agentId="x"))
        self.assertEqual(other.failure, (409, "IDEMPOTENCY_CONFLICT", False))

    def test_unknown_chat(self) -> None:
        """404."""
        answer = self.successResultOf(self.interrupt(chatId=OTHER))
        self.assertEqual(answer.failure, (404, "SESSION_NOT_FOUND", False))
