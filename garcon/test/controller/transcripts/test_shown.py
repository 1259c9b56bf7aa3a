"""What raw rows show (chats.md 4.20, 4.21)."""

from __future__ import annotations

from typing import Any

import msgspec
from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.messages import (
    AgentSwitch,
    AssistantMessage,
    BashToolUse,
    ErrorMessage,
    Image,
    PermissionRequest,
    Style,
    TranscriptNotice,
)
from garcon.contract.runs import RunFailure
from garcon.controller.transcripts import rows
from garcon.controller.transcripts.chat_rows import ChatRow, chat_row
from garcon.controller.transcripts.rows import Draft, displayed
from garcon.test.controller.transcripts.test_resend import AT
from garcon.testing.foreign_rules import MESSAGES, message

TOOL = BashToolUse(timestamp=AT, tool_id="t", command="make")


def shown(draft: Draft) -> Any:
    """Return what a row shows, or None."""
    found = displayed("v", draft.placed(1))
    return None if found is None else msgspec.json.decode(bytes(found.message))


class ShownTests(SynchronousTestCase):
    """Each kind of row (4.21)."""

    def assert_shows(self, draft: Draft, kind: str, **members: Any) -> None:
        """Assert every member; a client of others reads it without complaint."""
        found = shown(draft)
        self.assertEqual(found, {"type": kind, "timestamp": AT} | members)
        self.assertTrue(message(found))
        self.assertIn(kind, MESSAGES)

    def test_user_input(self) -> None:
        """With its attachments, and of its identities the message's alone."""
        self.assert_shows(
            rows.user_input(AT, "hello", [], "m"),
            "user-message",
            content="hello",
            metadata={"clientMessageId": "m"},
        )
        picture = Image("data:image/png;base64,AAAA", "a.png", "image/png")
        self.assertEqual(
            shown(rows.user_input(AT, "", [picture], "m"))["images"],
            [{"data": picture.data, "name": "a.png", "mimeType": "image/png"}],
        )

    def test_provider_rows(self) -> None:
        """Their own messages."""
        self.assert_shows(
            rows.provider_row(AssistantMessage(timestamp=AT, content="hi")),
            "assistant-message",
            content="hi",
        )
        self.assert_shows(
            rows.provider_row(ErrorMessage(timestamp=AT, content="oh")), "error", content="oh"
        )
        self.assert_shows(rows.provider_row(TOOL), "bash-tool-use", toolId="t", command="make")

    def test_notices(self) -> None:
        """Of ours, of a run, and of whoever adds a row: that one says so, and an error is one."""
        self.assert_shows(rows.notice(AT, "lost"), "transcript-notice", content="lost")
        self.assert_shows(
            rows.provider_row(TranscriptNotice(timestamp=AT, content="lost")),
            "transcript-notice",
            content="lost",
        )
        detail = {"type": "cli-row"}
        self.assert_shows(
            chat_row(AT, "m", ChatRow(Style("notice"), "see", "here")),
            "transcript-notice",
            content="see",
            title="here",
            detail=detail,
        )
        self.assert_shows(
            chat_row(AT, "m", ChatRow(Style("error"), "see")), "error", content="see", detail=detail
        )

    def test_changes_of_hands(self) -> None:
        """From whom to whom; a model that is not known is left out."""
        switch = AgentSwitch(timestamp=AT, from_agent_id="a", to_agent_id="b", to_model="m")
        self.assert_shows(
            rows.agent_switch(switch),
            "agent-switch",
            fromAgentId="a",
            toAgentId="b",
            toModel="m",
        )

    def test_permissions(self) -> None:
        """The request with its tool, and what became of it; void is always cancelled."""
        request = PermissionRequest(timestamp=AT, permission_occurrence_id="o", requested_tool=TOOL)
        tool = {"type": "bash-tool-use", "timestamp": AT, "toolId": "t", "command": "make"}
        self.assert_shows(
            rows.permission_requested(request),
            "permission-request",
            permissionOccurrenceId="o",
            requestedTool=tool,
        )
        self.assert_shows(
            rows.permission_resolved(AT, "o", False),
            "permission-resolved",
            permissionOccurrenceId="o",
            allowed=False,
        )
        self.assert_shows(
            rows.permission_cancelled(AT, "o"),
            "permission-cancelled",
            permissionOccurrenceId="o",
            reason="cancelled",
        )

    def test_what_is_hidden(self) -> None:
        """A session and an end show nothing, but they have their ordinals."""
        self.assertIsNone(shown(rows.session(AT, "s")))
        for error in (None, RunFailure("X", "x")):
            self.assertIsNone(shown(rows.run_ended(AT, "t", "failed", error)))
