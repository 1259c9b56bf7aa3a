"""The models that Codex tells of, its account, and what it remembers."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET
from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.agents import AgentAuth
from garcon.contract.catalogs import Model
from garcon.contract.messages import AssistantMessage, Image, ToolResult, UserMessage
from garcon.contract.runs import HistoryMessage
from garcon.runtime.agents.codex import account
from garcon.runtime.agents.codex_history import PIECE_BYTES, PIECE_ROWS, pieces, rows
from garcon.runtime.agents.codex_models import WELL_KNOWN, read
from garcon.runtime.agents.codex_settings import USUAL_EFFORTS
from garcon.runtime.agents.history import preface
from garcon.test.runtime.agents.replay import NOW
from garcon.testing.agent_runs import a_launch

BEGUN = "2026-12-01T00:46:07.255Z"
MILLISECONDS = 1796085967255


def a_row(name: str, **changes: Any) -> dict[str, Any]:
    """Return a model as Codex tells it."""
    usual = {
        "model": name,
        "displayName": name.upper(),
        "hidden": False,
        "isDefault": False,
        "supportedReasoningEfforts": [{"reasoningEffort": "low"}, {"reasoningEffort": "max"}],
        "inputModalities": ["text", "image"],
    }
    return usual | changes


class Lists(SynchronousTestCase):
    def test_its_default_is_the_first(self) -> None:
        """Hidden ones are left out, and each has its efforts."""
        told = read(
            [
                a_row("a", inputModalities=["text"]),
                a_row("h", hidden=True),
                a_row("b", isDefault=True, displayName=None),
                a_row("c", inputModalities=None, supportedReasoningEfforts=None),
            ]
        )
        assert told is not None
        self.assertEqual(
            told.models,
            (
                Model(value="b", label="b", supports_images=True),
                Model(value="a", label="A", supports_images=False),
                Model(value="c", label="C", supports_images=UNSET),
            ),
        )
        self.assertEqual(told.efforts_of("a"), ("low", "max"))
        self.assertEqual(told.efforts_of("c"), ())
        self.assertEqual(told.efforts_of("elsewhere"), USUAL_EFFORTS)

    def test_a_list_of_nothing_is_none(self) -> None:
        """Then the well-known ones are shown."""
        self.assertIsNone(read([]))
        self.assertIsNone(read([{"model": 7}, a_row("h", hidden=True)]))
        self.assertEqual(
            [model.value for model in WELL_KNOWN.models],
            [
                *("gpt-5.5", "gpt-5.6-sol", "gpt-5.6-terra", "gpt-5.6-luna", "gpt-5.4"),
                *("gpt-5.3-codex", "gpt-5.3-codex-spark"),
            ],
        )
        self.assertEqual(WELL_KNOWN.models[-1].label, "GPT-5.3-Codex-Spark")


class Accounts(SynchronousTestCase):
    def test_what_codex_says(self) -> None:
        """Signed in, by whatever means; not; and where none is needed."""
        for said, authenticated, label in (
            ({"account": {"type": "chatgpt", "email": "a@b.example"}}, True, "a@b.example"),
            ({"account": {"type": "apiKey"}}, True, "apiKey"),
            ({"account": None, "requiresOpenaiAuth": True}, False, "Not signed in"),
            ({"account": None, "requiresOpenaiAuth": False}, True, "No account is needed"),
            ({}, False, "Not signed in"),
        ):
            self.assertEqual(
                account(said), AgentAuth(authenticated=authenticated, label=label, source="agent")
            )


class Histories(SynchronousTestCase):
    def entry(self, kind: str, **members: Any) -> dict[str, Any]:
        """Return an item as a thread's list has it."""
        return {
            "turnId": "t",
            "startedAtMs": MILLISECONDS,
            "completedAtMs": MILLISECONDS + 1000,
            "item": {"type": kind, "id": "i", **members},
        }

    def test_rows_as_they_were(self) -> None:
        """What was said, with its pictures, and each call with its result, at their times."""
        content = [
            {"type": "image", "url": "data:image/png;base64,AA=="},
            {"type": "text", "text": "look"},
            {"type": "localImage", "path": "/x"},
        ]
        self.assertEqual(
            list(rows(self.entry("userMessage", content=content))),
            [
                UserMessage(
                    timestamp=BEGUN, content="look", images=[Image("data:image/png;base64,AA==")]
                )
            ],
        )
        self.assertEqual(
            list(rows(self.entry("agentMessage", text="hello"))),
            [AssistantMessage(timestamp="2026-12-01T00:46:08.255Z", content="hello")],
        )
        use, result = rows(self.entry("commandExecution", command="ls", exitCode=0))
        self.assertEqual((type(use).__name__, use.timestamp), ("BashToolUse", BEGUN))
        self.assertIsInstance(result, ToolResult)
        (compacted,) = rows(self.entry("contextCompaction"))
        self.assertEqual(type(compacted).__name__, "Compaction")

    def test_what_a_fresh_thread_was_told_is_no_input(self) -> None:
        """It is in no row: the chat has the rows that it was made of."""
        earlier = preface(a_launch("hi", history=[HistoryMessage(role="user", content="earlier")]))
        content = [{"type": "text", "text": text} for text in (earlier, "hi")]
        (message,) = rows(self.entry("userMessage", content=content))
        self.assertEqual(message, UserMessage(timestamp=BEGUN, content="hi"))
        self.assertEqual(list(rows(self.entry("userMessage", content=content[:1]))), [])

    def test_nothing_of_what_shows_nothing(self) -> None:
        """Empty input, and items that are unknown or no item."""
        for nothing in (
            self.entry("userMessage", content=[]),
            self.entry("dream"),
            {},
            {"item": 7},
        ):
            self.assertEqual(list(rows(nothing)), [])

    def test_times_that_are_none(self) -> None:
        """They do no harm."""
        for told in (None, "x", 10**30):
            entry = {"item": {"type": "agentMessage", "text": "a"}, "completedAtMs": told}
            (row,) = rows(entry)
            self.assertEqual(row.timestamp, "1970-01-01T00:00:00.000Z")

    def test_pieces_are_bounded(self) -> None:
        """By rows, and by their size; one that is larger is a piece of its own."""
        small = AssistantMessage(timestamp=NOW, content="a")
        lengths = [len(piece) for piece in pieces(iter([small] * (PIECE_ROWS + 1)))]
        self.assertEqual(lengths, [PIECE_ROWS, 1])
        large = AssistantMessage(timestamp=NOW, content="x" * PIECE_BYTES)
        lengths = [len(piece) for piece in pieces(iter([small, large, small]))]
        self.assertEqual(lengths, [1, 1, 1])
        self.assertEqual(list(pieces(iter([]))), [])
