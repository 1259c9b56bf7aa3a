"""Events that are too large for their bound."""

from __future__ import annotations

from typing import Any

import msgspec
from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.messages import AssistantMessage, BashToolUse, ToolResult
from garcon.contract.runs import (
    PermissionRequested,
    RowProduced,
    RunEnded,
    RunEvent,
    RunFailure,
)
from garcon.runtime import cutting
from garcon.runtime.cutting import fitting

NOW = "2026-01-01T00:00:00.000Z"
LIMIT = 1_000


def said(text: str) -> RowProduced:
    return RowProduced(message=AssistantMessage(timestamp=NOW, content=text))


class CuttingTests(SynchronousTestCase):
    def cut(self, event: RunEvent) -> Any:
        """Cut an event; it stays within the limit, and uses most of it."""
        cut = fitting(event, LIMIT)
        size = len(msgspec.json.encode(cut))
        self.assertLessEqual(size, LIMIT)
        self.assertGreater(size, LIMIT - 60)
        return cut

    def test_what_fits_is_untouched(self) -> None:
        """Up to the limit exactly."""
        event = said("x" * 100)
        size = len(msgspec.json.encode(event))
        self.assertIs(fitting(event, size), event)
        self.assertIsNot(fitting(event, size - 1), event)

    def test_a_long_text_loses_its_end_and_says_so(self) -> None:
        """The beginning is what a reader needs most, and the count adds up."""
        text = "x" * 5_000
        cut = self.cut(said(text)).message.content
        beginning, _, note = cut.partition("\n[Cut here: ")
        self.assertEqual(set(beginning), {"x"})
        self.assertIn(f"{5_000 - len(beginning)} more characters", note)

    def test_the_encoded_size_counts(self) -> None:
        """Controls and letters beyond ASCII take more bytes than they are characters."""
        for text in ("\x00" * 5_000, "ä" * 5_000, "\N{GRINNING FACE}" * 5_000, '"' * 5_000):
            self.cut(said(text))

    def test_only_the_longest_texts_are_cut(self) -> None:
        """Wherever they lie; the others stay whole."""
        content = {"text": "t" * 300, "output": {"lines": ["short", "l" * 4_000]}}
        row = ToolResult(timestamp=NOW, tool_id="call-1", content=content, is_error=False)
        cut = self.cut(RowProduced(message=row)).message
        self.assertEqual((cut.tool_id, cut.content["text"]), ("call-1", "t" * 300))
        self.assertEqual(cut.content["output"]["lines"][0], "short")

    def test_two_long_texts(self) -> None:
        """One cut may not be enough."""
        content = {"a": "a" * 4_000, "b": "b" * 4_000}
        row = ToolResult(timestamp=NOW, tool_id="call-1", content=content, is_error=False)
        event = fitting(RowProduced(message=row), LIMIT)
        self.assertLessEqual(len(msgspec.json.encode(event)), LIMIT)

    def test_texts_that_are_longer_than_the_limit(self) -> None:
        """Each keeps a share, its count adds up, and most of the limit is used."""
        one, two, three = "ä" * 90_000, "b" * 70_000, "\x00" * 1_001
        whole = {"a": one, "b": [two, three]}
        row = ToolResult(timestamp=NOW, tool_id="call-1", content=whole, is_error=False)
        cut = self.cut(RowProduced(message=row)).message.content
        for before, after in ((one, cut["a"]), (two, cut["b"][0]), (three, cut["b"][1])):
            beginning, _, note = after.partition("\n[Cut here: ")
            self.assertGreater(len(beginning), 20)
            self.assertTrue(before.startswith(beginning))
            self.assertIn(f"{len(before) - len(beginning)} more characters", note)

    def test_what_is_left_out_is_not_encoded(self) -> None:
        """However long a text is, the work is that of the limit."""
        sizes: list[int] = []

        def encode(value: Any) -> bytes:
            content = msgspec.json.encode(value)
            sizes.append(len(content))
            return content

        self.patch(cutting, "_encode", encode)
        for text in ("x" * 1_000_000, "\x00" * 1_000_000):
            self.cut(said(text))
        # A control takes six bytes.
        self.assertLessEqual(max(sizes), 6 * LIMIT)
        self.assertLessEqual(sum(sizes), 16 * LIMIT)

    def test_an_end_always_comes_through(self) -> None:
        """A run whose failure takes long words to tell is over all the same."""
        end = RunEnded(outcome="failed", error=RunFailure("AGENT_FAILED", "e" * 5_000))
        cut = self.cut(end)
        self.assertEqual((cut.outcome, cut.error.code), ("failed", "AGENT_FAILED"))

    def test_a_permission_request_is_not_cut(self) -> None:
        """Nobody should allow what they cannot see whole."""
        tool = BashToolUse(timestamp=NOW, tool_id="call-1", command="c" * 5_000)
        asked = PermissionRequested(
            permission_occurrence_id="o-1", requested_tool=tool, timestamp=NOW
        )
        self.assertIs(fitting(asked, LIMIT), asked)

    def test_what_is_no_text_cannot_be_cut(self) -> None:
        """Nor can many texts that are each short."""
        content = {"numbers": list(range(5_000)), "words": ["word"] * 1_000}
        row = ToolResult(timestamp=NOW, tool_id="call-1", content=content, is_error=False)
        event = RowProduced(message=row)
        self.assertIs(fitting(event, LIMIT), event)
