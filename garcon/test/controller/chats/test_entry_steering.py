"""Steering the head of the queue (chats.md 3.19, 5.11.5)."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from garcon.contract import operations
from garcon.contract.steering import SteerCapture, Steered, SteerTarget
from garcon.controller.chats.commits import RETRIES
from garcon.test.controller.chats.cast import INSTANCE, OTHER, Said
from garcon.test.controller.chats.test_steering import SteerCase


class EntryCase(SteerCase):
    """A turn runs, and two messages wait."""

    def setUp(self) -> None:
        super().setUp()
        self.one = self.queued("one", clientMessageId="m-one")
        self.two = self.queued("two", clientMessageId="m-two")
        self.told.clear()

    def entry(self, entry: str | None = None, **more: Any) -> Deferred[Said]:
        """Steer an entry, the head unless told otherwise."""
        body = self.entry_body(
            entry or self.one,
            transcriptViewId=self.view,
            expectedRevision=1,
            expectedReorderRevision=0,
        )
        return self.ask(operations.STEER_ENTRY, body | more)

    def entered(self, entry: str | None = None, **more: Any) -> Said:
        """Steer an entry, and be answered at once."""
        answer: Said = self.successResultOf(self.entry(entry, **more))
        return answer

    def assertSaid(self, answer: Said, delivery: str) -> None:
        """The error has the members that a queue's user needs."""
        self.assertEqual(answer.body["deliveryOutcome"], delivery)
        self.assertEqual(answer.body["serverInstanceId"], INSTANCE)
        self.assertEqual(answer.body["control"], self.control())


class DeliveredTests(EntryCase):
    """One that is taken."""

    def test_the_head_joins_the_turn(self) -> None:
        """202: it has left the queue, as sent, with its own message id."""
        answer = self.entered()
        self.assertEqual((answer.status, answer.body["commandType"]), (202, "steer"))
        self.assertEqual(answer.body["turnId"], self.turn)
        self.assertEqual(answer.body["serverInstanceId"], INSTANCE)
        self.assertEqual(answer.body["control"], self.control())
        self.assertEqual((self.waiting(), self.delivered()), (["two"], ["one"]))
        (sent,) = self.control()["queue"]["recentlyDispatched"]
        self.assertEqual((sent["entryId"], sent["revision"]), (self.one, 1))
        message = self.messages().body["messages"][-1]["message"]
        self.assertEqual(message["metadata"], {"clientMessageId": "m-one"})
        self.assertIs(message["steer"], True)
        self.assertEqual(self.local.steers[0].client_message_id, "m-one")

    def test_it_is_in_flight_until_then(self) -> None:
        """It can neither be edited nor sent another way."""
        delivery = self.held()
        d = self.entry()
        self.assertEqual(self.control()["queue"]["steeringEntryId"], self.one)
        in_flight = (409, "QUEUE_ENTRY_IN_FLIGHT", False)
        self.assertEqual(self.replace(self.one, "x").failure, in_flight)
        self.assertEqual(self.delete(self.one).failure, in_flight)
        self.assertEqual(self.move(self.one, "after", self.two).failure, in_flight)
        for entry in (self.one, self.two):
            answer = self.entered(entry)
            self.assertEqual(answer.failure, in_flight)
            self.assertSaid(answer, "not-sent")
        delivery.callback(Steered(outcome="delivered"))
        self.assertEqual(self.successResultOf(d).status, 202)
        self.assertIsNone(self.control()["queue"]["steeringEntryId"])

    def test_a_paused_queue(self) -> None:
        """The head goes all the same; pause and others are as before (5.11.5)."""
        pause = self.pause()
        self.assertEqual(self.entered().status, 202)
        queue = self.control()["queue"]
        self.assertEqual(queue["pause"]["id"], pause)
        self.assertEqual(self.waiting(), ["two"])

    def test_an_edited_entry(self) -> None:
        """Its revision is the one that is known afterwards."""
        self.replace(self.one, "better")
        self.assertEqual(self.entered().failure, (409, "QUEUE_ENTRY_REVISION_CONFLICT", False))
        self.assertEqual(self.entered(expectedRevision=2).status, 202)
        self.assertEqual(self.delivered(), ["better"])
        self.assertEqual(self.control()["queue"]["recentlyDispatched"][0]["revision"], 2)

    def test_the_same_steer_again(self) -> None:
        """A duplicate with the control of now."""
        self.entered(clientRequestId="r")
        self.clear()
        again = self.entered(clientRequestId="r")
        self.assertEqual((again.status, again.body["status"]), (202, "duplicate"))
        self.assertEqual(again.body["control"], self.control())
        self.assertEqual(self.delivered(), ["one"])

    def test_another_steer_under_its_id(self) -> None:
        """A conflict, in the plain form."""
        self.entered(clientRequestId="r")
        answer = self.entered(self.two, clientRequestId="r")
        self.assertEqual(answer.failure, (409, "IDEMPOTENCY_CONFLICT", False))
        self.assertNotIn("deliveryOutcome", answer.body)

    def test_the_rest_is_sent_after_the_turn(self) -> None:
        """As ever."""
        self.entered()
        self.local.last.finish()
        self.assertEqual(self.prompts(), ["long", "two"])

    def test_a_deleted_chat(self) -> None:
        """The answer has no control."""
        delivery = self.held()
        d = self.entry()
        self.asked(operations.DELETE_CHAT, {"chatId": "1767000000000001"})
        delivery.callback(Steered(outcome="delivered"))
        answer = self.successResultOf(d)
        self.assertNotIn("control", answer.body)


class RefusedTests(EntryCase):
    """One that is not (the table of 3.19)."""

    def test_entry_errors_change_nothing(self) -> None:
        """Each is said with the queue as it is."""
        before = self.control()
        for answer, status, code in (
            (self.entered("nobody"), 404, "QUEUE_ENTRY_NOT_FOUND"),
            (self.entered(expectedRevision=2), 409, "QUEUE_ENTRY_REVISION_CONFLICT"),
            (self.entered(expectedReorderRevision=1), 409, "QUEUE_ENTRY_REORDER_CONFLICT"),
            (self.entered(self.two), 409, "QUEUE_ENTRY_REORDER_CONFLICT"),
        ):
            self.assertEqual(answer.failure, (status, code, False))
            self.assertSaid(answer, "not-sent")
        self.assertEqual((self.control(), self.delivered()), (before, []))

    def test_a_sent_entry(self) -> None:
        """409."""
        self.entered()
        answer = self.entered()
        self.assertEqual(answer.failure, (409, "QUEUE_ENTRY_ALREADY_SENT", False))
        self.assertSaid(answer, "not-sent")

    def test_no_turn(self) -> None:
        """409, and the queue is as it was; entry errors come first."""
        self.pause()
        self.local.last.finish()
        before = self.control()
        answer = self.entered()
        self.assertEqual(answer.failure, (409, "STEER_TURN_UNAVAILABLE", False))
        self.assertSaid(answer, "not-sent")
        self.assertEqual(self.entered("nobody").code, "QUEUE_ENTRY_NOT_FOUND")
        self.assertEqual(self.control(), before)

    def test_other_rejections_put_it_back(self) -> None:
        """It is queued again, without a row, and can be steered or sent later."""
        for outcome, status, code in (
            ("rejected", 409, "STEER_PROVIDER_REJECTED"),
            ("invalid", 400, "VALIDATION_FAILED"),
            ("turn-changed", 409, "STEER_TURN_CHANGED"),
            ("not-delivered", 500, "STEER_NOT_DELIVERED"),
        ):
            self.answers(outcome)
            answer = self.entered()
            self.assertEqual(answer.failure, (status, code, False))
            self.assertSaid(answer, "not-sent")
            self.assertEqual((self.waiting(), self.texts()), (["one", "two"], ["long"]))
            self.assertIsNone(self.control()["queue"]["steeringEntryId"])
        self.local.last.finish()
        self.assertEqual(self.prompts(), ["long", "one"])

    def test_captures(self) -> None:
        """It was never marked."""
        before = self.control()
        capture: Deferred[SteerCapture] = Deferred()
        capture.callback(SteerCapture(outcome="unsupported"))
        self.local.captures.append(capture)
        answer = self.entered()
        self.assertEqual(answer.failure, (422, "OPERATION_UNSUPPORTED", False))
        self.assertSaid(answer, "not-sent")
        self.assertEqual(self.control(), before)

    def test_what_happens_while_it_is_being_captured(self) -> None:
        """The entry is judged again as it is then: edited, taken out, or sent as a turn."""

        def edit() -> None:
            self.replace(self.one, "better")

        def take_out() -> None:
            self.delete(self.one)

        def end() -> None:
            self.local.last.finish()

        for happens, code in (
            (edit, "QUEUE_ENTRY_REVISION_CONFLICT"),
            (take_out, "QUEUE_ENTRY_NOT_FOUND"),
            (end, "QUEUE_ENTRY_ALREADY_SENT"),
        ):
            capture: Deferred[SteerCapture] = Deferred()
            self.local.captures.append(capture)
            d = self.entry()
            happens()
            target = SteerTarget(run_id=self.turn)
            capture.callback(SteerCapture(outcome="captured", target=target))
            answer = self.successResultOf(d)
            self.assertEqual(answer.code, code)
            self.assertSaid(answer, "not-sent")
            self.assertEqual(self.delivered(), [])
            self.clear()
            self.one, self.two = self.queued("one"), self.queued("two")

    def test_a_drain_is_asked_for(self) -> None:
        """Its turn had ended meanwhile: it is the next one's input."""
        delivery = self.held()
        d = self.entry()
        self.local.last.finish()
        self.assertEqual(self.prompts(), ["long"])
        delivery.callback(Steered(outcome="turn-unavailable"))
        answer = self.successResultOf(d)
        self.assertEqual(answer.failure, (409, "STEER_TURN_UNAVAILABLE", False))
        self.assertEqual((self.prompts(), self.waiting()), (["long", "one"], ["two"]))

    def test_an_unknown_outcome(self) -> None:
        """It counts as sent, and its row is there."""
        self.answers("unknown")
        answer = self.entered()
        self.assertEqual(answer.failure, (500, "STEER_OUTCOME_UNKNOWN", False))
        self.assertSaid(answer, "unknown")
        self.assertEqual((self.waiting(), self.texts()), (["two"], ["long", "one"]))
        self.assertEqual(self.control()["queue"]["recentlyDispatched"][0]["entryId"], self.one)

    def test_a_row_that_cannot_be_kept(self) -> None:
        """The agent has it and the transcript has not: it waits again, and its user decides."""
        self.memory.refusals = RETRIES + 1
        d = self.entry()
        self.clock.pump([1.0] * RETRIES)
        answer = self.successResultOf(d)
        self.assertEqual(answer.failure, (500, "QUEUE_STEER_FINALIZATION_FAILED", False))
        self.assertSaid(answer, "accepted")
        pause = self.control()["queue"]["pause"]
        self.assertEqual((pause["kind"], pause["entryId"]), ("completion-uncertain", self.one))
        self.assertEqual((self.waiting(), self.prompts()), (["one", "two"], ["long"]))

    def test_stopped_on_its_way(self) -> None:
        """Its turn kept its row for the next one, so it does not go back, whatever the agent
        says.
        """
        delivery = self.held()
        d = self.entry()
        self.successResultOf(self.stop())
        self.assertEqual(self.texts(), ["long", "one"])
        delivery.callback(Steered(outcome="rejected"))
        answer = self.successResultOf(d)
        self.assertEqual(answer.failure, (500, "STEER_OUTCOME_UNKNOWN", False))
        self.assertSaid(answer, "unknown")
        self.assertEqual((self.waiting(), self.pause_kind()), (["two"], "manual"))
        self.resume(self.control()["queue"]["pause"]["id"])
        self.assertEqual(self.prompts()[-1], "long\n\none\n\ntwo")

    def test_replays_of_failures(self) -> None:
        """The recorded error, with the queue of now."""
        self.answers("rejected", "no")
        self.entered(clientRequestId="r")
        self.delete(self.two)
        again = self.entered(clientRequestId="r")
        self.assertEqual(again.failure, (409, "STEER_PROVIDER_REJECTED", False))
        self.assertSaid(again, "not-sent")
        self.assertEqual(self.delivered(), ["one"])

    def test_a_replay_of_one_under_way(self) -> None:
        """Unknown for good: the entry counts as sent at once, whatever comes of it, and its row
        is there.
        """
        delivery = self.held()
        first = self.entry(clientRequestId="r")
        again = self.entered(clientRequestId="r")
        self.assertEqual(again.failure, (500, "STEER_OUTCOME_UNKNOWN", False))
        self.assertSaid(again, "unknown")
        self.assertEqual(self.waiting(), ["two"])
        delivery.callback(Steered(outcome="rejected"))
        self.assertSaid(self.successResultOf(first), "unknown")
        self.assertEqual((self.waiting(), self.texts()), (["two"], ["long", "one"]))

    def test_a_replay_of_one_that_is_not_sent(self) -> None:
        """Its turn ends before it goes: its row is there, and the next run carries it."""
        self.clear()
        entry = self.queued("see @file")
        resolving: Deferred[str] = Deferred()
        self.local.resolutions.append(resolving)
        first = self.entry(entry, clientRequestId="r")
        again = self.entered(entry, clientRequestId="r")
        self.assertSaid(again, "unknown")
        self.local.last.finish()
        resolving.callback("see the file")
        self.assertSaid(self.successResultOf(first), "unknown")
        self.assertEqual((self.delivered(), self.waiting()), ([], []))
        self.assertEqual(self.texts(), ["long", "see @file"])
        self.run_chat(self.view, command="next")
        self.assertEqual(self.prompts()[-1], "see @file\n\nnext")

    def test_plain_errors(self) -> None:
        """Validation, stale views and unknown chats say nothing of a delivery."""
        for answer, status, code in (
            (self.entered(expectedRevision=0), 400, "VALIDATION_FAILED"),
            (self.entered(expectedReorderRevision=-1), 400, "VALIDATION_FAILED"),
            (self.entered(entryId="e" * 129), 400, "VALIDATION_FAILED"),
            (self.entered(transcriptViewId="other"), 409, "STALE_TRANSCRIPT_VIEW"),
            (self.entered(chatId=OTHER), 404, "SESSION_NOT_FOUND"),
        ):
            self.assertEqual(answer.failure, (status, code, False))
            for member in ("deliveryOutcome", "serverInstanceId", "control"):
                self.assertNotIn(member, answer.body)

    def test_while_the_controller_stops(self) -> None:
        """Not sent."""
        end = self.chats.shut_down()
        answer = self.entered()
        self.assertEqual(answer.failure, (503, "SERVER_SHUTTING_DOWN", False))
        self.assertEqual(answer.body["deliveryOutcome"], "not-sent")
        self.successResultOf(end)

    def test_cleared_on_its_way(self) -> None:
        """A rejected one does not come back into a queue that its user has emptied."""
        delivery = self.held()
        d = self.entry()
        self.clear()
        delivery.callback(Steered(outcome="rejected"))
        self.assertSaid(self.successResultOf(d), "not-sent")
        self.assertEqual(self.waiting(), [])
