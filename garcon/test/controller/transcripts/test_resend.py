"""Unanswered input and the prompt that carries it (chats.md 5.2)."""

from __future__ import annotations

import msgspec
from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.chats import ResendCandidate
from garcon.contract.messages import (
    AgentSwitch,
    AssistantMessage,
    BashToolUse,
    Compaction,
    ErrorMessage,
    Image,
    PermissionRequest,
    Style,
    Thinking,
    ToolResult,
    TranscriptNotice,
)
from garcon.contract.runs import RunFailure
from garcon.controller.transcripts import resend, rows
from garcon.controller.transcripts.chat_rows import ChatRow, chat_row
from garcon.controller.transcripts.resend import Candidate
from garcon.controller.transcripts.rows import Draft, Outcome
from garcon.store.records import Row

AT = "2026-01-02T03:04:05.678Z"
TOOL = BashToolUse(timestamp=AT, tool_id="t", command="make")


def asked() -> Draft:
    """Return a permission request's row."""
    return rows.permission_requested(
        PermissionRequest(timestamp=AT, permission_occurrence_id="o", requested_tool=TOOL)
    )


def said(text: str = "reply") -> Draft:
    return rows.provider_row(AssistantMessage(timestamp=AT, content=text))


def wrote(text: str) -> Draft:
    return rows.user_input(AT, text, [], text)


def ended(outcome: Outcome) -> Draft:
    error = RunFailure("X", "x") if outcome == "failed" else None
    return rows.run_ended(AT, "turn", outcome, error)


def placed(*drafts: Draft) -> list[Row]:
    """Give rows their ordinals."""
    return [draft.placed(n) for n, draft in enumerate(drafts, 1)]


class UnansweredTests(SynchronousTestCase):
    """Both ways of counting agree: back from the end, and forward as rows come."""

    def check(self, drafts: list[Draft], expected: list[int]) -> None:
        all_rows = placed(*drafts)
        self.assertEqual(resend.counted_back(all_rows)[0], expected)
        self.assertEqual(resend.after([], all_rows), expected)

    def test_an_answer_ends_the_count(self) -> None:
        """A provider row answers all input before it."""
        self.check([wrote("a"), said(), wrote("b")], [3])

    def test_an_error_row_is_no_answer(self) -> None:
        """An error leaves the input unanswered."""
        error = rows.provider_row(ErrorMessage(timestamp=AT, content="oh"))
        self.check([wrote("a"), error], [1])

    def test_a_lost_output_notice_is_no_answer(self) -> None:
        """A notice that comes from the run is still a notice."""
        notice = rows.provider_row(TranscriptNotice(timestamp=AT, content="lost"))
        self.assertEqual(notice.kind, "notice")
        self.check([wrote("a"), notice], [1])

    def test_a_permission_request_is_an_answer(self) -> None:
        """An agent that asks has taken the input up."""
        self.check([wrote("a"), asked()], [])

    def test_a_finished_or_failed_run_has_answered(self) -> None:
        """After either nothing is sent again."""
        self.check([wrote("a"), ended("finished")], [])
        self.check([wrote("a"), ended("failed")], [])

    def test_any_other_output_is_an_answer(self) -> None:
        """Whatever an agent wrote but an error."""
        for message in (
            TOOL,
            Thinking(timestamp=AT, content="hm"),
            ToolResult(timestamp=AT, tool_id="t", content={}, is_error=True),
            Compaction(timestamp=AT, trigger="auto", summary="so far"),
        ):
            self.check([wrote("a"), rows.provider_row(message)], [])

    def test_what_does_not_answer_is_skipped_over(self) -> None:
        """Interrupted ends, notices, chat rows, changes of hands, sessions and outcomes of
        permissions do not end the count, one by one and all together.
        """
        skipped = [
            rows.session(AT, "s"),
            ended("interrupted"),
            rows.notice(AT, "n"),
            chat_row(AT, "m1", ChatRow(Style("notice"), "row")),
            chat_row(AT, "m2", ChatRow(Style("error"), "row")),
            rows.agent_switch(AgentSwitch(timestamp=AT, from_agent_id="a", to_agent_id="b")),
            rows.permission_resolved(AT, "o", True),
            rows.permission_cancelled(AT, "o"),
        ]
        for one in skipped:
            self.check([wrote("a"), one, wrote("b")], [1, 3])
        self.check([wrote("a"), *skipped, wrote("b"), *skipped], [1, 10])

    def test_an_input_that_joined_a_turn_counts(self) -> None:
        """It is an input like any other once the turn was cut off (5.2.1)."""
        steered = rows.user_input(AT, "b", [], "b", is_steer=True)
        self.check([wrote("a"), said(), steered, ended("interrupted")], [3])

    def test_tells_when_no_answer_was_met(self) -> None:
        """Whoever counts in pieces must know whether to go on."""
        self.assertEqual(resend.counted_back(placed(wrote("a"))), ([1], False))
        self.assertEqual(resend.counted_back(placed(said(), wrote("a"))), ([2], True))


class ComposeTests(SynchronousTestCase):
    """One prompt out of several inputs."""

    def test_texts_are_joined_by_a_blank_line(self) -> None:
        """Oldest first, the new input last."""
        earlier = [Candidate(1, "stop-a"), Candidate(3, "stop-aa")]
        self.assertEqual(resend.compose(earlier, "stop-b", []).text, "stop-a\n\nstop-aa\n\nstop-b")

    def test_attachments_come_along_in_order(self) -> None:
        """Those of earlier inputs first; an input without text adds no blank line."""
        first, second = Image("data:,1"), Image("data:,2")
        prompt = resend.compose([Candidate(1, "", (first,))], "b", [second])
        self.assertEqual((prompt.text, prompt.images), ("b", (first, second)))


class NewestTests(SynchronousTestCase):
    """What of it fits."""

    def test_as_many_as_so_many_bytes_hold(self) -> None:
        """All at the bound; with a byte less the oldest is left out, and so on to none."""
        every = [
            ResendCandidate(ordinal=n, content=text, attachment_names=["é"])
            for n, text in ((1, "one"), (2, 'zwei " é'), (3, ""))
        ]
        for left in (every, every[1:], every[2:]):
            size = len(msgspec.json.encode(left))
            self.assertEqual(resend.newest(every, size), left)
            self.assertEqual(resend.newest(every, size - 1), left[1:])
        self.assertEqual(resend.newest([], 0), [])
