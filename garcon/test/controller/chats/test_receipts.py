"""Turn receipts and their bounds (chats.md 4.11, 5.7)."""

from __future__ import annotations

from msgspec import UNSET
from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.chats import TurnOutput
from garcon.contract.limits import RECEIPT_MESSAGES, RECEIPT_TEXT
from garcon.controller.chats.receipts import Receipts
from garcon.errors import GarconError

AT, LATER = "2026-01-02T03:04:05.678Z", "2026-01-02T03:04:06.678Z"


class ReceiptTests(SynchronousTestCase):
    """The receipts of one process."""

    def setUp(self) -> None:
        self.receipts = Receipts()
        self.receipts.begin("chat", "turn", "request", AT)

    def say(self, *texts: str, turn: str = "turn") -> None:
        for text in texts:
            self.receipts.said("chat", turn, text)

    def output(self, turn: str = "turn") -> TurnOutput:
        output = self.receipts.receipt("chat", turn).output
        assert isinstance(output, TurnOutput)
        return output

    def complete(self, turn: str = "turn") -> None:
        self.receipts.settle("chat", turn, "completed", LATER)

    def refusal(self, turn: str) -> tuple[str, int]:
        error = self.assertRaises(GarconError, self.receipts.receipt, "chat", turn)
        return error.code, error.status

    def test_is_pending_from_acceptance(self) -> None:
        """A pending receipt has no output and no settling time."""
        receipt = self.receipts.receipt("chat", "turn")
        self.assertEqual((receipt.state, receipt.accepted_at), ("pending", AT))
        self.assertEqual((receipt.output, receipt.settled_at), (UNSET, UNSET))

    def test_a_completed_turn_is_complete(self) -> None:
        """Every assistant message, and all of them as one text; empty ones are left out."""
        self.say("one", "", "two")
        self.complete()
        self.assertEqual(
            self.output(),
            TurnOutput(
                availability="available",
                completeness="complete",
                text="one\n\ntwo",
                assistant_messages=["one", "two"],
            ),
        )

    def test_a_failed_turn_says_why(self) -> None:
        """Its output is best effort."""
        self.say("half")
        self.receipts.settle("chat", "turn", "failed", LATER, error="broken")
        receipt = self.receipts.receipt("chat", "turn")
        self.assertEqual((receipt.state, receipt.error), ("failed", "broken"))
        self.assertEqual(self.output().completeness, "best-effort")

    def test_a_stopped_turn_is_interrupted_by_its_user(self) -> None:
        """Also without any output it has one, best effort."""
        self.receipts.settle("chat", "turn", "interrupted", LATER, reason="user-stop")
        receipt = self.receipts.receipt("chat", "turn")
        self.assertEqual((receipt.state, receipt.reason), ("interrupted", "user-stop"))
        self.assertEqual(self.output().assistant_messages, [])

    def test_a_turn_without_an_answer_says_so(self) -> None:
        """No assistant row at all is not the same as an empty one."""
        self.complete()
        self.assertEqual(self.output().reason, "no-final-response")
        self.receipts.begin("chat", "empty", "request", AT)
        self.say("", turn="empty")
        self.complete("empty")
        output = self.output("empty")
        self.assertEqual((output.availability, output.text), ("available", ""))

    def test_a_repeated_message_has_an_empty_answer(self) -> None:
        """Nothing ran, and that is complete."""
        self.receipts.settle("chat", "turn", "completed", LATER, is_empty=True)
        output = self.output()
        self.assertEqual((output.completeness, output.assistant_messages), ("complete", []))

    def test_four_mebibytes_are_kept(self) -> None:
        """With one byte more the turn's answer is too large."""
        self.say("x" * RECEIPT_TEXT)
        self.receipts.begin("chat", "more", "request", AT)
        self.say("x" * RECEIPT_TEXT, "y", turn="more")
        self.complete()
        self.complete("more")
        self.assertEqual(self.output().availability, "available")
        self.assertEqual(self.output("more").reason, "too-large")

    def test_bytes_count_not_characters(self) -> None:
        """The limit is one of UTF-8."""
        self.say("é" * (RECEIPT_TEXT // 2) + "x")
        self.complete()
        self.assertEqual(self.output().reason, "too-large")

    def test_four_thousand_and_ninety_six_messages_are_kept(self) -> None:
        """With one more the answer is too large."""
        self.say(*["x"] * RECEIPT_MESSAGES)
        self.receipts.begin("chat", "more", "request", AT)
        self.say(*["x"] * (RECEIPT_MESSAGES + 1), turn="more")
        self.complete()
        self.complete("more")
        self.assertEqual(self.output().availability, "available")
        self.assertEqual(self.output("more").reason, "too-large")

    def test_an_unknown_turn_is_not_found(self) -> None:
        """Nor a known one under another chat."""
        self.assertEqual(self.refusal("other"), ("TURN_RECEIPT_NOT_FOUND", 404))
        error = self.assertRaises(GarconError, self.receipts.receipt, "other", "turn")
        self.assertEqual(error.status, 404)


class PressureTests(SynchronousTestCase):
    """All turns together have a bound too."""

    def setUp(self) -> None:
        self.receipts = Receipts(text_limit=10, message_limit=3)
        for turn in ("a", "b", "c"):
            self.receipts.begin("chat", turn, "request", AT)

    def settle(self, turn: str) -> None:
        self.receipts.settle("chat", turn, "completed", LATER)

    def state(self, turn: str) -> object:
        try:
            receipt = self.receipts.receipt("chat", turn)
        except GarconError as error:
            return error.code, error.status
        assert isinstance(receipt.output, TurnOutput)
        return receipt.output.text or receipt.output.reason

    def test_the_oldest_settled_answer_makes_room(self) -> None:
        """Its receipt is expired, the others stay."""
        for turn in "ab":
            self.receipts.said("chat", turn, "12345")
            self.settle(turn)
        self.receipts.said("chat", "c", "x")
        self.settle("c")
        self.assertEqual(self.state("a"), ("TURN_RESULT_EXPIRED", 410))
        self.assertEqual((self.state("b"), self.state("c")), ("12345", "x"))

    def test_exactly_the_limit_fits(self) -> None:
        """Nothing is dropped at the limit itself."""
        for turn in "ab":
            self.receipts.said("chat", turn, "12345")
            self.settle(turn)
        self.assertEqual((self.state("a"), self.state("b")), ("12345", "12345"))

    def test_messages_count_as_well(self) -> None:
        """Many short answers press like a few long ones."""
        for turn in "ab":
            self.receipts.said("chat", turn, "1")
            self.settle(turn)
        self.receipts.said("chat", "c", "1")
        self.receipts.said("chat", "c", "2")
        self.settle("c")
        self.assertEqual(self.state("a"), ("TURN_RESULT_EXPIRED", 410))
        self.assertEqual(self.state("c"), "1\n\n2")

    def test_without_room_the_new_answer_is_lost(self) -> None:
        """Answers of running turns are never dropped for another."""
        self.receipts.said("chat", "a", "1234567890")
        self.receipts.said("chat", "b", "x")
        self.settle("a")
        self.settle("b")
        self.assertEqual((self.state("a"), self.state("b")), ("1234567890", "retention-pressure"))
