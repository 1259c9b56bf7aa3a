"""Queues and steering with real processes: chats on Local and on the worker, as a strict client and
a strict browser socket see them (chats.md 3.11 to 3.19a, 5.4 to 5.6, 5.11).
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from garcon.contract import operations
from garcon.contract.events import (
    ControlUpdated,
    ProcessingUpdated,
    RunFinished,
    SessionStopped,
)
from garcon.contract.queues import ExecutionControl, QueuePause
from garcon.test.live.strict import StrictTestCase
from garcon.testing.fleet import eventually
from garcon.testing.strict_client import StrictClient
from garcon.testing.strict_rules import refusal

BUSY = (409, "SESSION_BUSY", True)


class QueueCase(StrictTestCase):
    """A pair, and what is asked of the controller."""

    def busy(self, executor_id: str, seconds: float = 60) -> tuple[str, str, Any]:
        """Start a chat whose second turn waits; returns chat, view and turn."""
        chat, view, _ = self.begun(self.direct, executor_id, "say first")
        run = self.direct.run(
            self.direct.run_body(view, chat, f"say begun\nsleep {seconds}\nsay slept")
        )
        eventually("the turn", lambda: "begun" in self.texts(chat))
        return chat, view, run.turn_id

    def texts(self, chat: str) -> list[str]:
        """Return what was said in a chat."""
        messages = self.direct.messages(chat, limit=200).messages
        return [getattr(one.message, "content", "") for one in messages]

    def queued(self, view: str, chat: str, content: str) -> str:
        """Queue a message; returns its entry."""
        entry = self.direct.create(self.direct.entry_body(view, chat, content))
        return entry.entry_id

    def contents(self, control: ExecutionControl) -> list[str]:
        return [entry.content for entry in control.queue.entries]

    def paused(self, chat: str) -> QueuePause:
        """Wait until something holds the queue."""
        pause: QueuePause = eventually("a pause", lambda: self.direct.queue(chat).queue.pause)
        return pause

    def idle(self, chat: str) -> None:
        """Wait until nothing runs and nothing waits."""

        def over() -> bool:
            snapshot = self.direct.snapshot(chat, 0)
            return snapshot.processing_phase is None and not snapshot.control.queue.entries

        eventually("an idle chat", over)

    def everyone(self) -> tuple[str, str]:
        return "local", self.executor_id


class QueueTests(QueueCase):
    """The queue's routes and its draining."""

    def test_what_waits_is_sent_one_by_one(self) -> None:
        """Edited, moved and taken out before; each as its own turn after the one before."""
        for executor_id in self.everyone():
            chat, view, _ = self.busy(executor_id)
            one, two, three = (self.queued(view, chat, f"say {n}") for n in ("one", "two", "three"))
            refused = self.direct.ask(
                operations.RUN_CHAT, self.direct.run_body(view, chat, "say no")
            )
            self.assertEqual(refusal(refused), BUSY)
            self.direct.change(
                operations.REPLACE_ENTRY, two, chat, content="say TWO", expectedRevision=1
            )
            self.direct.change(
                operations.MOVE_ENTRY,
                two,
                chat,
                targetEntryId=one,
                placement="before",
                expectedReorderRevision=0,
                expectedSourceRevision=2,
                expectedTargetRevision=1,
            )
            control = self.direct.change(operations.DELETE_ENTRY, three, chat).control
            self.assertEqual(self.contents(control), ["say TWO", "say one"])
            body = {"clientRequestId": self.direct.request_id(), "chatId": chat}
            stopped = self.direct.asked(operations.INTERRUPT_AND_SEND, body)
            self.assertEqual(stopped.outcome, "interrupt-requested")
            self.idle(chat)
            self.assertEqual(self.texts(chat)[-2:], ["say one", "one"])
            self.assertEqual(
                [sent.entry_id for sent in self.direct.queue(chat).queue.recently_dispatched],
                [two, one],
            )
            for sent in (two, one):
                body = {"clientRequestId": self.direct.request_id(), "chatId": chat}
                already = self.direct.refused(operations.DELETE_ENTRY, body | {"entryId": sent})
                self.assertEqual(already, (409, "QUEUE_ENTRY_ALREADY_SENT", False))

    def test_stop_pauses_and_resume_goes_on(self) -> None:
        """Nothing is sent in between, and no run is let in; the text says why."""
        for executor_id in self.everyone():
            chat, view, turn = self.busy(executor_id)
            self.queued(view, chat, "say waited")
            body = {"clientRequestId": self.direct.request_id(), "chatId": chat}
            stopped = self.direct.stop(body)
            pause = stopped.control.queue.pause
            assert pause is not None
            self.assertEqual((stopped.outcome, pause.kind), ("interrupt-requested", "manual"))
            receipt = self.direct.settled(chat, turn)
            self.assertEqual((receipt.state, receipt.reason), ("interrupted", "user-stop"))
            run = self.direct.ask(operations.RUN_CHAT, self.direct.run_body(view, chat, "say no"))
            self.assertEqual(refusal(run), BUSY)
            self.assertIn(b"pending control state", run.body)
            self.assertEqual(self.contents(self.direct.queue(chat)), ["say waited"])
            wrong = self.direct.refused(
                operations.RESUME_QUEUE, {"chatId": chat, "pauseId": "another"}
            )
            self.assertEqual(wrong, (409, "QUEUE_PAUSE_CHANGED", False))
            self.direct.hold(operations.RESUME_QUEUE, chat, pauseId=pause.id)
            self.idle(chat)
            self.assertIn("say waited", self.texts(chat))
            self.assertNotIn("say no", self.texts(chat))

    def test_a_queued_turn_that_fails(self) -> None:
        """It holds what is left, and clearing ends that."""
        for executor_id in self.everyone():
            chat, view, _ = self.begun(self.direct, executor_id, "say first")
            failed = self.queued(view, chat, "say failing\nfail no luck")
            self.queued(view, chat, "say never")
            pause = self.paused(chat)
            self.assertEqual((pause.kind, pause.entry_id), ("queued-turn-failed", failed))
            self.direct.hold(operations.CLEAR_QUEUE, chat)
            run = self.direct.run(self.direct.run_body(view, chat, "say after"))
            self.assertEqual(self.direct.settled(chat, run.turn_id).state, "completed")
            self.assertNotIn("never", self.texts(chat))

    def test_a_queue_waits_for_its_executor(self) -> None:
        """A worker that is away when its chat is idle: sent when it is back."""
        chat, view, _ = self.begun(self.direct, self.executor_id, "say first")
        self.worker.kill()

        def gone() -> bool:
            shown = self.executor_snapshot(self.controller, self.executor_id)
            return bool(shown["availability"] != "ready")

        eventually("the worker's loss", gone)
        self.queued(view, chat, "say back again")
        control = self.direct.queue(chat)
        self.assertEqual((self.contents(control), control.queue.pause), (["say back again"], None))
        url = self.fleet.garcon(self.controller, "executor", "connection", self.executor_id).out
        self.fleet.worker("--no-tls", url=url.strip())
        self.idle(chat)
        self.assertEqual(self.texts(chat)[-1], "back again")

    def test_a_restart_forgets_the_queue(self) -> None:
        """The initial control, and nothing of it in the transcript (5.5.8)."""
        chat, view, _ = self.busy("local")
        self.queued(view, chat, "say waited")
        self.socket.close()
        self.assertEqual(self.controller.stop(), 0)
        own = self.fleet.controller(config=self.controller.config).descriptor()
        self.direct = StrictClient(own["baseUrl"], own["localCapability"])
        control = self.direct.queue(chat)
        self.assertEqual((control.version, control.updated_at), (0, None))
        self.assertEqual(control.server_instance_id, own["instanceId"])
        self.assertEqual(control.queue.entries, [])
        self.assertNotIn("say waited", self.texts(chat))


class SteeringTests(QueueCase):
    """Further input for a turn that runs."""

    def test_steers_join_the_turn(self) -> None:
        """From both endpoints, into chats of both executors, in order; a file it mentions too."""
        (self.fleet.project("project") / "note.txt").write_text("say from the file\n")
        for client, executor_id in self.everywhere():
            chat, view, turn = self.busy(executor_id, 3)
            for n in ("one", "two"):
                body = client.entry_body(view, chat, f"say steered {n}")
                accepted = client.steer(body)
                self.assertEqual((accepted.turn_id, accepted.parent_chat), (turn, None))
                self.assertEqual(client.steer(body, "duplicate").turn_id, turn)
            client.steer(client.entry_body(view, chat, "see @note.txt"))
            self.assertEqual(
                self.texts(chat)[-3:], ["say steered one", "say steered two", "see @note.txt"]
            )
            receipt = self.direct.settled(chat, turn)
            assert receipt.output is not UNSET and receipt.output.assistant_messages is not UNSET
            said = receipt.output.assistant_messages
            self.assertEqual(said[:4], ["begun", "slept", "steered one", "steered two"])
            self.assertIn("You said: see @note.txt", said[4])
            self.assertIn("say from the file", said[4])
            late = client.refused(operations.STEER, client.entry_body(view, chat, "say late"))
            self.assertEqual(late, (409, "STEER_TURN_UNAVAILABLE", False))

    def test_the_head_of_the_queue(self) -> None:
        """It joins the turn out of a paused queue, and the rest stays."""
        for executor_id in self.everyone():
            chat, view, turn = self.busy(executor_id, 3)
            head, _ = self.queued(view, chat, "say head"), self.queued(view, chat, "say rest")
            pause = self.direct.hold(operations.PAUSE_QUEUE, chat).queue.pause
            body = {
                "clientRequestId": self.direct.request_id(),
                "chatId": chat,
                "transcriptViewId": view,
                "entryId": head,
                "expectedRevision": 1,
                "expectedReorderRevision": 0,
            }
            steered = self.direct.steer_entry(body)
            self.assertEqual(steered.turn_id, turn)
            control = self.direct.queue(chat)
            self.assertEqual((self.contents(control), control.queue.pause), (["say rest"], pause))
            self.assertEqual(control.queue.recently_dispatched[0].entry_id, head)
            again = self.direct.ask(
                operations.STEER_ENTRY, body | {"clientRequestId": self.direct.request_id()}
            )
            self.assertEqual(refusal(again), (409, "QUEUE_ENTRY_ALREADY_SENT", False))
            self.assertIn(b'"deliveryOutcome":"not-sent"', again.body)
            receipt = self.direct.settled(chat, turn)
            assert receipt.output is not UNSET and receipt.output.assistant_messages is not UNSET
            self.assertEqual(receipt.output.assistant_messages, ["begun", "slept", "head"])
            self.direct.hold(operations.CLEAR_QUEUE, chat)

    def test_a_stopped_steer_is_carried(self) -> None:
        """Its row survives, and the next run says it (5.11.6)."""
        for executor_id in self.everyone():
            chat, view, _ = self.busy(executor_id)
            self.direct.steer(self.direct.entry_body(view, chat, "and this"))
            self.direct.stop({"clientRequestId": self.direct.request_id(), "chatId": chat})
            candidates = self.direct.messages(chat).resend_candidates
            self.assertEqual(candidates[-1].content, "and this")
            run = self.direct.run(self.direct.run_body(view, chat, "and that"))
            receipt = self.direct.settled(chat, run.turn_id)
            assert receipt.output is not UNSET and receipt.output.text is not UNSET
            self.assertIn("and this\n\nand that", receipt.output.text)


class SocketTests(QueueCase):
    """What the browser socket tells of it, in its order."""

    def test_controls_and_stops(self) -> None:
        """Every change of a queue, and one stopped event for each stop, before the chat is idle."""
        chat, view, _ = self.busy(self.executor_id)
        self.queued(view, chat, "say waited")
        self.direct.stop({"clientRequestId": self.direct.request_id(), "chatId": chat})
        self.direct.hold(operations.CLEAR_QUEUE, chat)

        self.socket.ping()
        controls = self.socket.heard(ControlUpdated, chat)
        self.assertEqual([one.control.version for one in controls], [1, 2, 3])
        self.assertEqual(controls[-1].control, self.direct.queue(chat))
        (stopped,) = self.socket.heard(SessionStopped, chat)
        self.assertEqual((stopped.outcome, stopped.intent), ("interrupt-requested", "stop"))
        kinds = [type(one) for one in self.socket.heard(object, chat)]
        after = kinds[kinds.index(SessionStopped) :]
        self.assertLess(after.index(ProcessingUpdated), after.index(RunFinished))

    def test_a_reconnecting_client_reads_the_controls(self) -> None:
        """Of the chats that it asks for, changed ones included."""
        chat, view, _ = self.busy("local")
        self.queued(view, chat, "say waited")
        state = self.socket.reconnect(chat, "1700000000000000")
        found, missing = state.control_results
        self.assertEqual((found.outcome, missing.outcome), ("snapshot", "not-found"))
        self.assertEqual(found.control, self.direct.queue(chat))
