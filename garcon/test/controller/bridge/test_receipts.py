"""Cutting receipts for the primary lane (control.md F.4, decisions.md 23)."""

from __future__ import annotations

from typing import Any

import msgspec
from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.chats import TurnOutput, TurnReceipt
from garcon.contract.notices import RECEIPT_CUT
from garcon.controller.bridge.receipts import cut_receipt

LIMIT = 63 * 1024


def receipt(text: str, **more: Any) -> bytes:
    output = TurnOutput(
        availability="available", completeness="complete", text=text, assistant_messages=[text]
    )
    fields: dict[str, Any] = {"state": "completed", "settled_at": "t", "output": output} | more
    return msgspec.json.encode(
        TurnReceipt(
            chat_id="c",
            turn_id="t",
            client_request_id="r",
            accepted_at="t",
            updated_at="t",
            **fields,
        )
    )


class CutTests(SynchronousTestCase):
    """The outcome stays, the output loses its beginning."""

    def cut(self, body: bytes) -> dict[str, Any]:
        content = cut_receipt(body, LIMIT)
        assert content is not None
        self.assertLessEqual(len(content), LIMIT)
        decoded: dict[str, Any] = msgspec.json.decode(content)
        return decoded

    def test_the_copy_goes_first(self) -> None:
        """If that is enough, the text is whole and stays marked as complete."""
        text = "a" * 40_000
        self.assertGreater(len(receipt(text)), LIMIT)
        output = self.cut(receipt(text))["output"]
        self.assertEqual(
            output, {"availability": "available", "completeness": "complete", "text": text}
        )

    def test_the_tail_stays_under_a_notice(self) -> None:
        """Marked as best effort; as much as fits is kept."""
        whole = self.cut(receipt("a" * 100_000 + "z"))
        output = whole["output"]
        self.assertEqual((whole["state"], output["completeness"]), ("completed", "best-effort"))
        self.assertTrue(output["text"].startswith(RECEIPT_CUT))
        self.assertTrue(output["text"].endswith("az"))
        self.assertEqual(len(msgspec.json.encode(whole)), LIMIT)

    def test_escapes_count_as_they_are_sent(self) -> None:
        """Control characters take six bytes, others up to four."""
        for character in ("\x01", "€", "𝄞", '"'):
            output = self.cut(receipt(character * 100_000))["output"]
            self.assertTrue(output["text"].endswith(character))

    def test_messages_alone_become_the_text(self) -> None:
        """An older shape loses nothing but its length."""
        output = TurnOutput(
            availability="available",
            completeness="best-effort",
            assistant_messages=["a" * 60_000, "b" * 60_000],
        )
        text = self.cut(receipt("", output=output))["output"]["text"]
        self.assertTrue(text.endswith("a\n\n" + "b" * 60_000))

    def test_a_long_failure_is_shortened_too(self) -> None:
        """The state says that it failed; its text keeps its beginning."""
        whole = self.cut(receipt("short", state="failed", error="boom " * 100_000))
        self.assertEqual(whole["state"], "failed")
        self.assertTrue(whole["error"].startswith("boom boom"))
        self.assertEqual(whole["output"]["text"], "short")

    def test_what_is_no_receipt_is_not_cut(self) -> None:
        """JSON is never truncated."""
        self.assertIsNone(cut_receipt(b'{"sessions":[]}', LIMIT))
        self.assertIsNone(cut_receipt(b"nonsense", LIMIT))
