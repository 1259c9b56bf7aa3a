"""Receipts of turns, rule by rule (chats.md 4.11, 5.7, 8.3, 8.14); `test_receipts.py` has the
receipts by themselves.
"""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from garcon.contract import operations
from garcon.contract.chats import TurnReceipt
from garcon.contract.events import Event, RunFailed, RunFinished
from garcon.contract.limits import (
    MIB,
    RECEIPT_MESSAGES,
    RECEIPT_TEXT,
    RECEIPTS_MESSAGES,
    RECEIPTS_TEXT,
)
from garcon.contract.messages import AssistantMessage, ErrorMessage, Thinking
from garcon.contract.runs import RowProduced
from garcon.controller.chats.receipts import Receipts
from garcon.errors import GarconError
from garcon.test.controller.chats.cast import CHAT
from garcon.test.controller.chats.queue_cast import QueueTestCase
from garcon.testing.fake_runtime import AT


class TurnReceiptTests(QueueTestCase):
    """An idle chat, and the receipts of its next turns (5.7.1 to 5.7.5)."""

    def run_turn(self) -> str:
        """Begin a turn; returns its id."""
        turn: str = self.run_chat(self.view, command="long").body["turnId"]
        return turn

    def test_1_it_is_pending_until_the_end_was_told(self) -> None:
        """Whoever hears of the end and asks at once may still find it pending (8.14); then it is
        terminal, and stays as it is.
        """
        seen: list[str] = []

        def told(event: Event) -> None:
            if isinstance(event, RunFinished | RunFailed):
                seen.append(self.receipt(event.turn_id).body["state"])

        self.publisher.subscribe(told)
        for end, state in (("finish", "completed"), ("fail", "failed"), ("stop", "interrupted")):
            turn = self.run_turn()
            self.assertEqual(self.receipt(turn).body["state"], "pending")
            if end == "stop":
                self.stop()
            elif end == "fail":
                self.local.last.fail("broken")
            else:
                self.local.last.finish()
            settled = self.receipt(turn).body
            self.assertEqual(settled["state"], state)
            self.clock.advance(5)
            self.local.last.say("late")
            self.assertEqual(self.receipt(turn).body, settled)
        self.assertEqual(seen, ["pending"] * 3)

    def test_2_it_has_what_the_agent_said_in_its_turn(self) -> None:
        """Assistant rows that are not empty, those after a steer too; nothing else, and nothing of
        another turn.
        """
        turn = self.run_turn()
        for message in (
            AssistantMessage(timestamp=AT, content="one"),
            Thinking(timestamp=AT, content="hm"),
            AssistantMessage(timestamp=AT, content=""),
            ErrorMessage(timestamp=AT, content="oh"),
        ):
            self.local.last.emit(RowProduced(message=message))
        steer = {
            "clientRequestId": "s",
            "clientMessageId": "s",
            "chatId": CHAT,
            "transcriptViewId": self.view,
            "content": "more",
        }
        self.assertEqual(self.asked(operations.STEER, steer).body["turnId"], turn)
        self.local.last.say("two")
        self.local.last.finish()
        self.local.last.say("late")
        output = {
            "availability": "available",
            "completeness": "complete",
            "text": "one\n\ntwo",
            "assistantMessages": ["one", "two"],
        }
        self.assertEqual(self.receipt(turn).body["output"], output)

    def test_3_a_failed_one_says_why(self) -> None:
        """In the agent's words; what it said before is best effort."""
        turn = self.run_turn()
        self.local.last.say("half")
        self.local.last.fail("HTTP 429: slow down")
        body = self.receipt(turn).body
        self.assertEqual((body["state"], body["error"]), ("failed", "HTTP 429: slow down"))
        self.assertEqual(body["output"]["completeness"], "best-effort")
        self.assertEqual(body["output"]["assistantMessages"], ["half"])

    def test_4_a_restart_forgets_it(self) -> None:
        """404, like one that never was."""
        turn = self.run_turn()
        self.local.last.finish()
        self.restart()
        self.assertEqual(self.receipt(turn).failure, (404, "TURN_RECEIPT_NOT_FOUND", False))

    def test_5_one_of_a_turn_that_did_nothing_is_complete(self) -> None:
        """Its message was there already: nobody waits for ever (8.3)."""
        body = self.run_body(self.view, clientMessageId="m-start", command="hello")
        turn = self.asked(operations.RUN_CHAT, body).body["turnId"]
        receipt = self.receipt(turn).body
        output = receipt["output"]
        self.assertEqual((receipt["state"], output["completeness"]), ("completed", "complete"))
        self.assertEqual(output["assistantMessages"], [])

    def test_which_turns_have_one(self) -> None:
        """A compaction has, a queued message has none (3.21)."""
        body = {"clientRequestId": "c", "chatId": CHAT}
        turn = self.asked(operations.COMPACT, body).body["turnId"]
        self.assertEqual(self.receipt(turn).body["state"], "failed")
        self.queued()
        self.assertEqual(self.receipt(self.local.last.launch.run_id).status, 404)


class ShapeTests(QueueTestCase):
    """What each state has, and no other member (4.11)."""

    def shape(self, turn: str) -> set[str]:
        """Return the members of a receipt beside those that all have."""
        body = self.receipt(turn).body
        common = {"chatId", "turnId", "clientRequestId", "acceptedAt", "updatedAt", "state"}
        self.assertLessEqual(common, body.keys())
        return set(body) - common

    def test_members(self) -> None:
        """None, a time and an output, an error more, a reason more."""
        turn = self.run_chat(self.view).body["turnId"]
        self.assertEqual(self.shape(turn), set())
        self.local.last.finish()
        self.assertEqual(self.shape(turn), {"settledAt", "output"})
        turn = self.run_chat(self.view).body["turnId"]
        self.local.last.fail("")
        self.assertEqual(self.shape(turn), {"settledAt", "output", "error"})
        self.assertTrue(self.receipt(turn).body["error"])
        turn = self.run_chat(self.view).body["turnId"]
        self.stop()
        self.assertEqual(self.shape(turn), {"settledAt", "output", "reason"})


class BoundTests(SynchronousTestCase):
    """All turns together, at the very numbers (4.11)."""

    def setUp(self) -> None:
        self.receipts = Receipts()
        self.assertEqual((RECEIPTS_TEXT, RECEIPTS_MESSAGES), (64 * MIB, 65_536))

    def turn(self, name: str, texts: list[str]) -> None:
        """Let a turn say something and end."""
        self.receipts.begin(CHAT, name, "r", AT)
        for text in texts:
            self.receipts.said(CHAT, name, text)
        self.receipts.settle(CHAT, name, "completed", AT)

    def kept(self, name: str) -> Any:
        """Return a turn's receipt, or the code of its error."""
        try:
            found: TurnReceipt = self.receipts.receipt(CHAT, name)
            return found.state
        except GarconError as error:
            return error.code

    def test_sixty_four_mebibytes(self) -> None:
        """Are kept; with one byte more the oldest result goes."""
        for n in range(16):
            self.turn(f"t{n}", ["x" * RECEIPT_TEXT])
        self.assertEqual(self.kept("t0"), "completed")
        self.turn("more", ["x"])
        self.assertEqual((self.kept("t0"), self.kept("t1")), ("TURN_RESULT_EXPIRED", "completed"))

    def test_sixty_five_thousand_five_hundred_and_thirty_six_messages(self) -> None:
        """Are kept; with one more the oldest result goes."""
        for n in range(16):
            self.turn(f"t{n}", ["x"] * RECEIPT_MESSAGES)
        self.assertEqual(self.kept("t0"), "completed")
        self.turn("more", ["x"])
        self.assertEqual((self.kept("t0"), self.kept("t1")), ("TURN_RESULT_EXPIRED", "completed"))
