"""The message identity of a steer while it is under way: its row is not durable yet, and the id is
used all the same (chats.md 2.4).
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from garcon.contract import operations
from garcon.contract.steering import Steered
from garcon.controller.chats.commits import RETRIES
from garcon.test.controller.chats.cast import CHAT, HeldStoreTestCase, Said
from garcon.test.controller.chats.test_entry_steering import EntryCase
from garcon.test.controller.chats.test_steering import SteerCase

CONFLICT = (409, "IDEMPOTENCY_CONFLICT", False)
UNKNOWN = (500, "STEER_OUTCOME_UNKNOWN", False)


class AgainTests(SteerCase):
    """Steers with the message id of one that is under way."""

    def setUp(self) -> None:
        super().setUp()
        self.delivery = self.held()
        self.body = self.steer_body(clientMessageId="m")
        self.first = self.ask(operations.STEER, self.body)

    def again(self, content: str = "more") -> Deferred[Said]:
        """Send the message under another request."""
        return self.steer(content, clientMessageId="m")

    def assertOnce(self) -> None:
        """The message was delivered once and has one row, and its turn goes on."""
        self.local.last.say("answer")
        self.assertEqual((self.delivered(), self.texts()), (["more"], ["long", "more", "answer"]))
        self.assertEqual((self.phase(), self.local.aborted), ("running", []))

    def test_the_same_content_joins_it(self) -> None:
        """Both are answered when it is delivered, and once."""
        second = self.again()
        self.assertNoResult(second)
        self.delivery.callback(Steered(outcome="delivered"))
        for d in (self.first, second):
            answer = self.successResultOf(d)
            self.assertEqual((answer.status, answer.body["turnId"]), (202, self.turn))
        self.assertOnce()

    def test_after_an_unknown_outcome(self) -> None:
        """The repeated request was told that; the new one hears what became of it."""
        self.assertEqual(self.asked(operations.STEER, self.body).failure, UNKNOWN)
        second = self.again()
        self.delivery.callback(Steered(outcome="delivered"))
        self.assertEqual(self.successResultOf(self.first).failure, UNKNOWN)
        self.assertEqual(self.successResultOf(second).status, 202)
        self.assertOnce()

    def test_one_that_joined_is_repeated(self) -> None:
        """Then its row is kept, whatever comes of it."""
        body = self.steer_body(clientMessageId="m")
        second = self.ask(operations.STEER, body)
        self.assertEqual(self.asked(operations.STEER, body).failure, UNKNOWN)
        self.delivery.callback(Steered(outcome="rejected"))
        for d in (self.first, second):
            self.assertEqual(self.successResultOf(d).failure, UNKNOWN)
        self.assertOnce()

    def test_its_row_is_on_its_way_to_the_store(self) -> None:
        """That is no difference."""
        self.memory.held = True
        self.delivery.callback(Steered(outcome="delivered"))
        second = self.again()
        self.assertNoResult(second)
        self.memory.release()
        for d in (self.first, second):
            self.assertEqual(self.successResultOf(d).status, 202)
        self.assertOnce()

    def test_its_row_is_durable_before_its_fate_is_known(self) -> None:
        """The next turn's steer is the row that is there."""
        self.successResultOf(self.stop())
        self.run_chat(self.view, command="next")
        self.assertEqual(self.successResultOf(self.again()).status, 202)
        self.delivery.callback(Steered(outcome="delivered"))
        self.assertEqual((self.delivered(), self.texts()), (["more"], ["long", "more", "next"]))

    def test_other_content(self) -> None:
        """A conflict."""
        self.assertEqual(self.successResultOf(self.again("other")).failure, CONFLICT)
        self.delivery.callback(Steered(outcome="delivered"))
        self.assertEqual(self.successResultOf(self.first).status, 202)
        self.assertOnce()

    def test_a_rejection_is_everybody_s(self) -> None:
        """And frees the id: nothing was said under it."""
        second = self.again()
        self.delivery.callback(Steered(outcome="rejected", text="no"))
        for d in (self.first, second):
            answer = self.successResultOf(d)
            self.assertEqual(answer.failure, (409, "STEER_PROVIDER_REJECTED", False))
        self.assertEqual(self.texts(), ["long"])
        self.assertEqual(self.successResultOf(self.again("other")).status, 202)
        self.assertEqual((self.delivered(), self.texts()), (["more", "other"], ["long", "other"]))

    def test_rows_that_are_lost_free_it(self) -> None:
        """As does the end of a turn that could not be kept."""
        self.memory.refusals = RETRIES + 1
        self.delivery.callback(Steered(outcome="delivered"))
        second = self.again()
        self.clock.pump([1.0] * RETRIES)
        for d in (self.first, second):
            self.assertEqual(self.successResultOf(d).failure, UNKNOWN)
        run = self.run_chat(self.view, command="next", clientMessageId="m")
        self.assertEqual(run.status, 202)

    def test_who_gave_up_keeps_nobody_from_the_answer(self) -> None:
        """Neither the first that asked nor the last."""
        second, third = self.again(), self.again()
        for d in (self.first, third):
            d.addErrback(lambda _: None)
            d.cancel()
        self.delivery.callback(Steered(outcome="delivered"))
        self.assertEqual(self.successResultOf(second).status, 202)
        self.assertOnce()

    def test_a_chat_row(self) -> None:
        """A conflict, and free again once the input was not said (3.20)."""
        body = {
            "clientRequestId": "row",
            "clientMessageId": "m",
            "chatId": CHAT,
            "transcriptViewId": self.view,
            "type": "notice",
            "content": "more",
        }
        self.assertEqual(self.asked(operations.ADD_ROW, body).failure, CONFLICT)
        self.delivery.callback(Steered(outcome="rejected"))
        self.assertEqual(self.asked(operations.ADD_ROW, body).status, 200)
        self.assertEqual(self.texts(), ["long", "more"])

    def test_a_queued_message(self) -> None:
        """It is no steer, so it is another input, and free again once it was not said (3.15)."""
        queued: dict[str, Any] = {"content": "more", "clientMessageId": "m"}
        self.assertEqual(self.create(**queued).failure, CONFLICT)
        self.delivery.callback(Steered(outcome="rejected"))
        self.assertEqual(self.create(**queued).status, 202)


class NewTurnTests(SteerCase):
    """A turn that is begun while a steer of the one before is under way."""

    def test_its_message_id(self) -> None:
        """A conflict; the row that was promised is kept, and so is the next turn."""
        resolving: Deferred[str] = Deferred()
        self.local.resolutions.append(resolving)
        body = self.steer_body("see @a", clientMessageId="m")
        d = self.ask(operations.STEER, body)
        self.assertEqual(self.asked(operations.STEER, body).failure, UNKNOWN)
        self.successResultOf(self.stop())
        run = self.run_chat(self.view, command="see @a", clientMessageId="m")
        self.assertEqual(run.failure, CONFLICT)
        self.run_chat(self.view, command="next")
        resolving.callback("see the file")
        self.assertEqual(self.successResultOf(d).failure, UNKNOWN)
        self.local.last.say("answer")
        self.assertEqual(self.texts(), ["long", "next", "see @a", "answer"])


class QueueTests(EntryCase):
    """The head of the queue and a steer with its message id."""

    def direct(self, content: str = "one") -> Deferred[Said]:
        """Steer what is also the head of the queue."""
        return self.steer(content, clientMessageId="m-one")

    def test_a_steer_joins_the_entry(self) -> None:
        """One delivery, one row, and the entry is sent."""
        delivery = self.held()
        entered, direct = self.entry(), self.direct()
        delivery.callback(Steered(outcome="delivered"))
        for d in (entered, direct):
            self.assertEqual(self.successResultOf(d).status, 202)
        self.assertEqual((self.delivered(), self.waiting()), (["one"], ["two"]))
        self.assertEqual(self.texts(), ["long", "one"])

    def test_the_entry_joins_a_steer(self) -> None:
        """It is in flight meanwhile."""
        delivery = self.held()
        direct, entered = self.direct(), self.entry()
        self.assertEqual(self.control()["queue"]["steeringEntryId"], self.one)
        delivery.callback(Steered(outcome="delivered"))
        for d in (direct, entered):
            self.assertEqual(self.successResultOf(d).status, 202)
        self.assertEqual((self.delivered(), self.waiting()), (["one"], ["two"]))
        self.assertEqual(self.texts(), ["long", "one"])

    def test_a_rejected_entry_goes_back(self) -> None:
        """And is sent after the turn: its id is free by then."""
        delivery = self.held()
        direct, entered = self.direct(), self.entry()
        delivery.callback(Steered(outcome="rejected"))
        for d in (direct, entered):
            self.assertEqual(self.successResultOf(d).code, "STEER_PROVIDER_REJECTED")
        self.assertEqual(self.waiting(), ["one", "two"])
        self.local.last.finish()
        self.assertEqual(self.prompts(), ["long", "one"])

    def test_each_is_told_in_its_own_way_of_a_lost_row(self) -> None:
        """The queue's user decides about the entry; the other's outcome is unknown."""
        delivery = self.held()
        entered, direct = self.entry(), self.direct()
        self.memory.refusals = RETRIES + 1
        delivery.callback(Steered(outcome="delivered"))
        self.clock.pump([1.0] * RETRIES)
        self.assertEqual(self.successResultOf(entered).code, "QUEUE_STEER_FINALIZATION_FAILED")
        self.assertEqual(self.successResultOf(direct).failure, UNKNOWN)
        self.assertEqual(self.pause_kind(), "completion-uncertain")

    def test_other_content(self) -> None:
        """A conflict for whoever comes second."""
        delivery = self.held()
        direct = self.direct("other")
        entered = self.successResultOf(self.entry())
        self.assertEqual(entered.failure, CONFLICT)
        self.assertIsNone(self.control()["queue"]["steeringEntryId"])
        delivery.callback(Steered(outcome="delivered"))
        self.assertEqual(self.successResultOf(direct).status, 202)


class StoreTests(SteerCase, HeldStoreTestCase):
    """Over the store that refuses a second row of one message id."""

    def test_the_same_message_does_not_end_its_turn(self) -> None:
        """Whatever was sent twice, what the agent says is kept."""
        delivery = self.held()
        first, second = (self.steer(clientMessageId="m") for _ in range(2))
        delivery.callback(Steered(outcome="delivered"))
        for d in (first, second):
            self.assertEqual(self.successResultOf(d).status, 202)
        self.local.last.say("answer")
        self.assertEqual(self.texts(), ["long", "more", "answer"])
        self.assertEqual(self.phase(), "running")
