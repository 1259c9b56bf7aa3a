"""Receipts: how long to wait for one, what makes it ours, and how it ends the command."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from garcon.cli.failures import ApiError, CommandFailure, TransportFailure
from garcon.cli.receipts import (
    Patience,
    Turn,
    check_receipt,
    envelope_of,
    exit_status,
    may_retry,
    outcome,
    output_text,
)
from garcon.cli.rows import _find
from garcon.contract.notices import RECEIPT_CUT

CHAT, TURN = "1753000000000000", "turn-1"


def a_receipt(state: str = "completed", **more: Any) -> dict[str, Any]:
    receipt: dict[str, Any] = {
        "chatId": CHAT,
        "turnId": TURN,
        "clientRequestId": "request-1",
        "acceptedAt": "2026-01-01T00:00:00.000Z",
        "updatedAt": "2026-01-01T00:00:01.000Z",
        "state": state,
    }
    if state != "pending":
        receipt["settledAt"] = "2026-01-01T00:00:01.000Z"
        receipt["output"] = {
            "availability": "available",
            "completeness": "complete",
            "text": "hello",
            "assistantMessages": ["hello"],
        }
    return receipt | more


class PatienceTests(SynchronousTestCase):
    def test_delays_grow_to_two_seconds(self) -> None:
        """A quarter of a second first, doubled up to two."""
        patience = Patience(0.0)
        self.assertEqual([0.25, 0.5, 1.0, 2.0, 2.0], [patience.pending(1.0) for _ in range(5)])

    def test_eight_failures_in_a_row_are_too_many(self) -> None:
        """The seventh failure is borne, the eighth is not; an answer in between starts afresh."""
        patience = Patience(0.0)
        self.assertTrue(all(patience.failed(1.0, None) is not None for _ in range(7)))
        patience.pending(2.0)
        self.assertTrue(all(patience.failed(3.0, None) is not None for _ in range(7)))
        self.assertIsNone(patience.failed(3.0, None))

    def test_failing_for_thirty_seconds_is_too_long(self) -> None:
        """Counted from the first of the failures, not from the last answer."""
        patience = Patience(0.0)
        self.assertIsNotNone(patience.failed(100.0, None))
        self.assertIsNotNone(patience.failed(129.9, None))
        self.assertIsNone(patience.failed(130.0, None))

    def test_retry_after_is_honoured(self) -> None:
        """A longer wish of the server lengthens the delay, a shorter one does not shorten it."""
        patience = Patience(0.0)
        self.assertEqual(3.0, patience.failed(0.0, 3))
        self.assertEqual(1.0, patience.failed(0.0, 1))
        self.assertEqual(1.0, patience.failed(0.0, 0))

    def test_verification(self) -> None:
        """The runtime is verified every 30 s, and after every failure."""
        patience = Patience(0.0)
        self.assertFalse(patience.wants_verification(29.9))
        self.assertTrue(patience.wants_verification(30.0))
        patience.verified(30.0)
        self.assertFalse(patience.wants_verification(31.0))
        patience.failed(31.0, None)
        self.assertTrue(patience.wants_verification(31.0))
        patience.pending(32.0)
        self.assertFalse(patience.wants_verification(32.0))

    def test_what_may_be_asked_again(self) -> None:
        """Lost transport, 5xx, the three statuses and what says so itself; nothing about access."""
        for status, retryable, again in (
            (500, False, True),
            (503, True, True),
            (408, False, True),
            (425, False, True),
            (429, False, True),
            (409, True, True),
            (404, False, False),
            (410, False, False),
            (401, True, False),
            (403, True, False),
        ):
            self.assertEqual(again, may_retry(ApiError(status, "X", "no", retryable, None)), status)
        self.assertTrue(may_retry(TransportFailure("lost", True)))


class CheckTests(SynchronousTestCase):
    def refused(self, receipt: dict[str, Any]) -> None:
        turn = Turn(CHAT, TURN, "request-1")
        error: CommandFailure = self.assertRaises(CommandFailure, check_receipt, receipt, turn)
        self.assertEqual(("receipt polling", 3), (error.phase, error.exit_status))

    def test_every_state(self) -> None:
        """All four states are taken in their full form."""
        turn = Turn(CHAT, TURN, "request-1")
        check_receipt(a_receipt("pending"), turn)
        check_receipt(a_receipt(), turn)
        check_receipt(a_receipt("failed", error="it broke"), turn)
        check_receipt(a_receipt("interrupted", reason="user-stop"), turn)
        check_receipt(a_receipt(output={"availability": "unavailable", "reason": "x"}), turn)
        check_receipt(a_receipt(clientRequestId="any"), Turn(CHAT, TURN))

    def test_not_ours_or_malformed(self) -> None:
        """Another chat, turn or request, an unknown state, a missing part: exit 3."""
        good = a_receipt()
        for change in (
            {"chatId": "x"},
            {"turnId": "x"},
            {"clientRequestId": "x"},
            {"state": "happy"},
            {"settledAt": ""},
            {"output": None},
            {"output": {"availability": "available", "completeness": "complete"}},
            {"output": {"availability": "available", "completeness": "so-so", "text": "x"}},
            {"state": "failed"},
            {"state": "interrupted", "reason": "boredom"},
        ):
            self.refused(good | change)


class OutcomeTests(SynchronousTestCase):
    def test_lines_and_statuses(self) -> None:
        """The texts that other programs match, to the letter, and the status of each end."""
        unavailable = {"availability": "unavailable", "reason": "no-final-response"}
        table = (
            (a_receipt(), 0, None),
            (
                a_receipt("failed", error="it\nbroke"),
                1,
                "receipt polling: agent turn failed: it broke",
            ),
            (
                a_receipt("interrupted", reason="user-stop"),
                4,
                "receipt polling: agent turn interrupted: the turn was stopped",
            ),
            (
                a_receipt("interrupted", reason="chat-deleted"),
                4,
                "receipt polling: agent turn interrupted: the chat was deleted",
            ),
            (a_receipt(output=unavailable), 1, "no-final-response"),
            (a_receipt(output=unavailable | {"reason": "too-large"}), 3, "too-large"),
        )
        for receipt, status, line in table:
            self.assertEqual(status, exit_status(receipt))
            ended = outcome(receipt)
            if line is None or ended is None:
                self.assertIsNone(ended)
            elif line.startswith("receipt"):
                self.assertEqual(line, ended.line())
            else:
                self.assertIn(line, ended.line())

    def test_an_empty_answer_is_success(self) -> None:
        """An explicitly empty text is an answer."""
        receipt = a_receipt()
        receipt["output"]["text"] = ""
        self.assertEqual(0, exit_status(receipt))

    def test_older_receipts_have_only_messages(self) -> None:
        """Without a text the non-blank messages are joined by an empty line."""
        output = {"availability": "available", "assistantMessages": ["a", " ", "b"]}
        self.assertEqual("a\n\nb", output_text(output))

    def test_envelope_has_one_text(self) -> None:
        """Automation reads one text, never the list of messages."""
        shown = envelope_of(a_receipt())
        self.assertEqual(
            {"availability": "available", "completeness": "complete", "text": "hello"},
            shown["output"],
        )
        self.assertNotIn("error", shown)
        failed = envelope_of(
            a_receipt(
                "failed", error="x", output={"availability": "unavailable", "reason": "too-large"}
            )
        )
        self.assertEqual({"availability": "unavailable", "reason": "too-large"}, failed["output"])
        self.assertEqual("x", failed["error"])


class FindTests(SynchronousTestCase):
    """A cut text found again in the chat's rows, which come from the newest back."""

    def rows(self, *texts: str) -> list[dict[str, Any]]:
        """``>id`` is a user's row, anything else an assistant's, oldest first."""
        rows: list[dict[str, Any]] = []
        for text in texts:
            if text.startswith(">"):
                metadata = {"clientMessageId": text[1:]}
                rows.append({"type": "user-message", "content": "?", "metadata": metadata})
            else:
                rows.append({"type": "assistant-message", "content": text})
        return rows[::-1]

    def test_by_message_id(self) -> None:
        """The turn's own row begins it; later turns and hidden rows do not disturb."""
        rows = self.rows(">1", "old", ">2", "one", "two", ">3", "new")
        rows.insert(3, {"type": "thinking", "content": "hm"})
        self.assertEqual("one\n\ntwo", _find(iter(rows), "2", "wo"))

    def test_inputs_that_joined_the_turn_belong_to_it(self) -> None:
        """The turn goes on over a steering input, until the text ends as it must."""
        rows = self.rows(">2", "one", ">steer", "two", ">3", "new")
        self.assertEqual("one\n\ntwo", _find(iter(rows), "2", "two"))

    def test_by_its_end(self) -> None:
        """Without the message id the stretch that ends as the receipt does is the turn."""
        rows = self.rows(">1", "same start, one end", ">2", "same start, other end")
        self.assertEqual("same start, one end", _find(iter(rows), None, "one end"))

    def test_never_another_text(self) -> None:
        """A turn that cannot be recognised is not replaced by a guess."""
        rows = self.rows(">1", "a", ">2", "b")
        self.assertIsNone(_find(iter(rows), "9", "b"))
        self.assertIsNone(_find(iter(rows), None, "c"))
        self.assertIsNone(_find(iter(rows), "1", "c"))

    def test_the_mark_is_the_contracts(self) -> None:
        """The cut text begins with a line of its own."""
        self.assertTrue(RECEIPT_CUT.endswith("\n"))
