"""What `status` shows, as text."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from garcon.cli.commands.status import (
    message_lines,
    permissions,
    summary,
    without_data_urls,
)
from garcon.cli.invocation import Invocation
from garcon.cli.options import parse
from garcon.cli.render import json_text, table
from garcon.cli.table import COMMANDS, GROUPS
from garcon.testing.fake_controller import FakeMachine

CHAT = "1753000000000000"
INSTANCE = "5b7d1f0e-0000-4000-8000-000000000001"


def a_snapshot(limit: int = 1, **chat: Any) -> dict[str, Any]:
    return {
        "observedAt": "2026-01-01T00:00:00.000Z",
        "messageLimit": limit,
        "chat": {
            "id": CHAT,
            "title": "A title",
            "executorId": "local",
            "agentId": "claude",
            "agentOwnershipEpoch": "epoch-1",
            "carryOverRevision": "carry-v1:0",
            "model": "opus",
            "apiProviderId": None,
            "modelEndpointId": None,
            "modelProtocol": None,
            "permissionMode": "default",
            "thinkingMode": "none",
            "projectPath": "/p",
            "tags": ["a", "cli"],
        }
        | chat,
        "processingPhase": None,
        "control": {"serverInstanceId": INSTANCE, "queue": {"entries": [], "pause": None}},
        "transientFeed": {
            "serverInstanceId": INSTANCE,
            "chatId": CHAT,
            "transcriptViewId": "view-1",
            "transientRevision": 0,
            "rows": [],
        },
        "transcript": {"availability": "not-requested"}
        if limit == 0
        else {
            "availability": "available",
            "transcriptViewId": "view-1",
            "messages": [],
            "lastOrdinal": 7,
            "pageOldestOrdinal": 0,
            "pageNewestOrdinal": 7,
            "nextBeforeOrdinal": 7,
            "hasMore": True,
        },
    }


def a_request(**tool: Any) -> dict[str, Any]:
    return {
        "permissionOccurrenceId": "occurrence-1",
        "runId": "run-1",
        "message": {
            "type": "permission-request",
            "permissionOccurrenceId": "occurrence-1",
            "requestedTool": {"type": "bash-tool-use", "toolId": "t", "command": "ls"} | tool,
        },
    }


class SummaryTests(SynchronousTestCase):
    def test_every_line(self) -> None:
        """One item a line, in order; what is null has none."""
        self.assertEqual(
            [
                f"chat id: {CHAT}",
                "status: idle",
                "observed at: 2026-01-01T00:00:00.000Z",
                "title: A title",
                "agent: claude",
                "executor: local",
                "ownership epoch: epoch-1",
                "carryover revision: carry-v1:0",
                "model: opus",
                "project path: /p",
                "tags: a, cli",
                "queue: 0",
                "transcript: view view-1, last ordinal 7, showing 0, older messages available",
            ],
            summary(a_snapshot()),
        )

    def test_variants(self) -> None:
        """A running chat with a route, a pause and no transcript says all of that."""
        snapshot = a_snapshot(apiProviderId="p", modelEndpointId="e", tags=[], title="a\nb")
        snapshot["processingPhase"] = "running"
        snapshot["control"]["queue"] = {"entries": [{}, {}], "pause": {"kind": "manual"}}
        snapshot["transcript"] = {
            "availability": "unavailable",
            "errorCode": "LEDGER_FENCED",
            "retryable": False,
            "message": "it is damaged",
        }
        lines = summary(snapshot)
        for line in (
            "status: running",
            "title: a b",
            "provider: p",
            "endpoint: e",
            "tags: none",
            "queue: 2",
            "queue paused: manual",
            "transcript: unavailable (LEDGER_FENCED, retryable: no)",
            "transcript message: it is damaged",
        ):
            self.assertIn(line, lines)
        self.assertFalse(any(line.startswith("protocol") for line in lines))

    def test_no_messages_no_transcript_line(self) -> None:
        """Nothing is said of a transcript that was not asked for."""
        self.assertFalse(any("transcript" in line for line in summary(a_snapshot(0))))


class PermissionTests(SynchronousTestCase):
    def shown(self, *rows: Any) -> list[str]:
        snapshot = a_snapshot()
        snapshot["transientFeed"]["rows"] = list(rows)
        parsed = parse(["status", CHAT, "--config-dir", "/a root"], COMMANDS, GROUPS)
        invocation = Invocation(parsed, FakeMachine().system())
        invocation._role = "executor"
        return permissions(snapshot, invocation)

    def test_ready_to_paste(self) -> None:
        """Each request gives two commands that name the resolved root and the explicit role."""
        end = f" --run run-1 --server-instance {INSTANCE} --config-dir '/a root' --runtime executor"
        self.assertEqual(
            [
                "",
                "permission request: bash: ls",
                f"allow: garcon permission-decision {CHAT} occurrence-1 allow{end}",
                f"deny: garcon permission-decision {CHAT} occurrence-1 deny{end}",
            ],
            self.shown(a_request()),
        )

    def test_what_is_asked_is_one_line(self) -> None:
        """Line breaks and controls in a command cannot forge another line; length is bounded."""
        lines = self.shown(a_request(command="ls\nallow: rm\x1b[A" + "x" * 500))
        self.assertEqual(4, len(lines))
        self.assertIn("ls allow: rm\\x1b[A", lines[1])
        self.assertTrue(len(lines[1]) < 520)

    def test_other_tools_and_broken_rows(self) -> None:
        """A tool without a known text shows its fields; a broken row shows nothing."""
        lines = self.shown(a_request(type="plan-tool-use", command=None, depth=3))
        self.assertIn('"depth": 3', lines[1])
        self.assertEqual([], self.shown("x", {"message": {}}, {**a_request(), "runId": None}))


class MessageTests(SynchronousTestCase):
    def lines(self, **message: Any) -> list[str]:
        message = {"type": "assistant-message", "timestamp": "T", "content": "hello"} | message
        return message_lines({"ordinal": 3, "message": message})

    def test_heading_and_text(self) -> None:
        """An empty line, the heading, the text; rows of the command and titles are marked."""
        self.assertEqual(["", "[3] T assistant-message", "hello"], self.lines())
        row = self.lines(type="error", detail={"type": "cli-row"}, title="Oh", content="a\nb")
        self.assertEqual(["", "[3] T error (CLI) — Oh", "a", "b"], row)

    def test_without_content(self) -> None:
        """The other fields are shown as JSON, images as their number."""
        lines = self.lines(content=None, type="bash-tool-use", command="ls", images=[{}, {}])
        self.assertIn('  "command": "ls"', "\n".join(lines))
        self.assertEqual("[images: 2]", lines[-1])
        self.assertNotIn("timestamp", "\n".join(lines[2:]))

    def test_long_texts_are_cut(self) -> None:
        """4000 characters are shown whole, 4001 are cut with a mark that names --json."""
        self.assertEqual("x" * 4_000, self.lines(content="x" * 4_000)[2])
        cut = self.lines(content="x" * 4_001)[2]
        self.assertTrue(cut.startswith("x" * 4_000 + " [cut") and "--json" in cut)

    def test_data_urls_are_left_out(self) -> None:
        """Payloads never fill a screen; prose about data stays."""
        for text, shown in (
            ("see data:image/png;base64,AAAA now", "see [data URL omitted] now"),
            ('"data:text/plain,x" and data:,y', '"[data URL omitted]" and [data URL omitted]'),
            ("my data: it is here", "my data: it is here"),
            ("data:", "data:"),
        ):
            self.assertEqual(shown, without_data_urls(text))


class RenderTests(SynchronousTestCase):
    def test_table(self) -> None:
        """Dashes below the headers, two spaces between, the last column unpadded, blanks shown."""
        self.assertEqual(
            "A   LABEL\n--  -----\nab  x\n-   long\n",
            table(("A", "LABEL"), [("ab", "x"), ("", "long")]),
        )

    def test_cells_are_one_line(self) -> None:
        """A line break in a cell cannot break the table."""
        self.assertEqual("A\n---\nx y\n", table(("A",), [("x\ny",)]))

    def test_json(self) -> None:
        """Two spaces, one newline, and the text itself unescaped."""
        self.assertEqual('{\n  "a": "é\\u001b"\n}\n', json_text({"a": "é\x1b"}))
