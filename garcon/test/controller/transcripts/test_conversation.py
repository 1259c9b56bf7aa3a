"""What an agent without a session of its own is told of a conversation (chats.md 5.1.4)."""

from __future__ import annotations

from collections.abc import Collection

from twisted.internet.defer import Deferred, fail, succeed
from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.limits import MIB
from garcon.contract.messages import (
    AgentSwitch,
    AssistantMessage,
    BashToolUse,
    Compaction,
    ErrorMessage,
    Image,
    Style,
    Thinking,
    ToolResult,
    TranscriptNotice,
)
from garcon.contract.runs import HistoryMessage
from garcon.controller.transcripts import rows
from garcon.controller.transcripts.chat_rows import ChatRow, chat_row
from garcon.controller.transcripts.conversation import (
    IMAGE_BYTES,
    MESSAGES,
    TEXT_BYTES,
    conversation,
)
from garcon.controller.transcripts.rows import Draft
from garcon.store.interfaces import Damaged
from garcon.store.records import Row
from garcon.test.controller.transcripts.test_resend import (
    AT,
    TOOL,
    asked,
    ended,
    placed,
    said,
    wrote,
)


def seen(text: str, *images: Image) -> Draft:
    """Return an input's row with attachments."""
    return rows.user_input(AT, text, list(images), text)


def picture(size: int, name: str = "x.png") -> Image:
    """Return an attachment of so many bytes."""
    return Image(data="x" * size, name=name, mime_type="image/png")


class ConversationCase(SynchronousTestCase):
    """A view as a list of rows, of which some may be damaged."""

    def setUp(self) -> None:
        self.rows: list[Row] = []
        self.damaged: set[int] = set()
        self.most_read = 0

    def read(self, first: int, last: int) -> Deferred[list[Row]]:
        """Read as a store does."""
        self.most_read = max(self.most_read, last - first + 1)
        if self.damaged & set(range(first, last + 1)):
            return fail(Damaged("v", "a row"))
        return succeed(self.rows[first - 1 : last])

    def reading(self, *drafts: Draft, without: Collection[int] = ()) -> Deferred[object]:
        """Read the conversation of a view with these rows."""
        self.rows = placed(*drafts)
        work = conversation(self.read, "v", len(self.rows), without)
        return Deferred.fromCoroutine(work)

    def told(self, *drafts: Draft, without: Collection[int] = ()) -> list[HistoryMessage]:
        """Return what an agent is told."""
        found: list[HistoryMessage] = self.successResultOf(
            self.reading(*drafts, without=without)  # type: ignore[arg-type]
        )
        return found

    def texts(self, *drafts: Draft, without: Collection[int] = ()) -> list[str]:
        return [one.content for one in self.told(*drafts, without=without)]


class KindsTests(ConversationCase):
    """Which rows are part of it."""

    def test_users_and_agents_speak_in_turn(self) -> None:
        """Every text is a message of its own, oldest first, with its role and attachments."""
        image = picture(1)
        self.assertEqual(
            self.told(seen("a", image), said("b"), said("c"), wrote("d")),
            [
                HistoryMessage("user", "a", [image]),
                HistoryMessage("assistant", "b"),
                HistoryMessage("assistant", "c"),
                HistoryMessage("user", "d"),
            ],
        )

    def test_nothing_else_is_told(self) -> None:
        """Notices, chat rows, errors, permissions, thinking, tools, sessions, ends, switches."""
        switch = AgentSwitch(timestamp=AT, from_agent_id="a", to_agent_id="b")
        others = [
            rows.notice(AT, "no"),
            rows.provider_row(TranscriptNotice(timestamp=AT, content="no")),
            chat_row(AT, "m1", ChatRow(Style("info"), "no", is_styled=True)),
            chat_row(AT, "m2", ChatRow(Style("error"), "no")),
            rows.provider_row(ErrorMessage(timestamp=AT, content="no")),
            asked(),
            rows.permission_resolved(AT, "o", True),
            rows.permission_cancelled(AT, "o"),
            rows.provider_row(Thinking(timestamp=AT, content="no")),
            rows.provider_row(TOOL),
            rows.provider_row(
                ToolResult(timestamp=AT, tool_id="t", content={"text": "no"}, is_error=False)
            ),
            rows.provider_row(BashToolUse(timestamp=AT, tool_id="t", command="no")),
            rows.provider_row(Compaction(timestamp=AT, trigger="auto", summary="no")),
            rows.agent_switch(switch),
            rows.session(AT, "no"),
            ended("interrupted"),
            ended("failed"),
            ended("finished"),
        ]
        self.assertEqual(self.texts(wrote("a"), *others, said("b")), ["a", "b"])

    def test_an_empty_reply_is_none(self) -> None:
        """Servers refuse messages with nothing in them."""
        self.assertEqual(self.texts(wrote("a"), said(""), said("b")), ["a", "b"])

    def test_output_that_came_late_is_part_of_it(self) -> None:
        """Wherever it stands (5.1.4, the last sentence)."""
        self.assertEqual(
            self.texts(wrote("a"), ended("interrupted"), said("late"), wrote("b")),
            ["a", "late", "b"],
        )

    def test_what_is_composed_into_the_prompt_is_not_told_twice(self) -> None:
        """Inputs are left out by their ordinals, and nothing but inputs is."""
        self.assertEqual(
            self.texts(wrote("a"), said("b"), wrote("c"), wrote("d"), without=[2, 3]),
            ["a", "b", "d"],
        )

    def test_there_may_be_none(self) -> None:
        """Before anything was said."""
        self.assertEqual(self.texts(), [])
        self.assertEqual(self.texts(rows.session(AT, "s")), [])


class BoundsTests(ConversationCase):
    """How much of it."""

    def test_two_hundred_messages_with_the_prompt(self) -> None:
        """With 198 or 199 earlier ones all are told, of 200 the newest 199."""
        self.assertEqual(MESSAGES + 1, 200)
        for earlier, lost in ((198, 0), (199, 0), (200, 1), (201, 2)):
            texts = [str(n) for n in range(earlier)]
            self.assertEqual(self.texts(*map(said, texts)), texts[lost:], earlier)

    def test_what_is_left_out_takes_no_place(self) -> None:
        """Neither hidden rows nor inputs that are composed count among the two hundred."""
        texts = [str(n) for n in range(200)]
        between = [rows.session(AT, "s"), rows.notice(AT, "n"), said(""), ended("finished")]
        drafts = [draft for text in texts for draft in (said(text), *between)]
        without = [len(drafts) + 1]
        self.assertEqual(self.texts(*drafts, wrote("again"), without=without), texts[1:])

    def test_is_read_in_pieces(self) -> None:
        """However long a view is, a few hundred rows are in memory at a time."""
        self.texts(*[rows.notice(AT, "n")] * 1_000, said("a"))
        self.assertLessEqual(self.most_read, 200)

    def test_six_mebibytes_of_text(self) -> None:
        """A text with which they are just reached is told, one byte more and it is not."""
        self.assertEqual(TEXT_BYTES, 6 * MIB)
        half = "é" * (TEXT_BYTES // 4)
        self.assertEqual(self.texts(said("old"), wrote(half), said(half)), [half, half])
        whole = half[:-1] + "a"
        self.assertEqual(self.texts(said("b"), wrote(half), said(whole)), ["b", half, whole])
        self.assertEqual(self.texts(said("bb"), wrote(half), said(whole)), [half, whole])

    def test_four_mebibytes_of_attachments(self) -> None:
        """An older message loses its attachments where they would be more, never its text."""
        self.assertEqual(IMAGE_BYTES, 4 * MIB)
        new, old, more = picture(IMAGE_BYTES - 1, "n"), picture(1, "o"), picture(1, "m")
        told = self.told(seen("a", more), said("b"), seen("c", old), seen("d", new))
        self.assertEqual([one.content for one in told], ["a", "b", "c", "d"])
        self.assertEqual([one.images for one in told], [[], [], [old], [new]])


class DamageTests(ConversationCase):
    """Rows that cannot be trusted."""

    def test_a_damaged_row_is_no_conversation(self) -> None:
        """An agent is not told a part as if it were all."""
        self.damaged = {1}
        self.failureResultOf(self.reading(wrote("a"), said("b")), Damaged)

    def test_what_is_not_needed_is_not_read(self) -> None:
        """Damage before the two hundred newest messages is no matter."""
        self.damaged = {1}
        self.assertEqual(len(self.told(*[said("a")] * 500)), MESSAGES)

    def test_an_illegible_text_is_damage(self) -> None:
        """An input's and an agent's alike."""
        for kind in ("user-input", "provider-row"):
            illegible = Draft(kind, AT, b'{"type":"assistant-message","no":1}')
            failure = self.failureResultOf(self.reading(said("a"), illegible), Damaged)
            self.assertIn("row 2", failure.value.text)

    def test_a_message_of_an_agent_is_one_by_how_it_begins(self) -> None:
        """msgspec writes the tag first; the rows that are told are told by that."""
        draft = rows.provider_row(AssistantMessage(timestamp=AT, content="a"))
        self.assertTrue(draft.payload.startswith(b'{"type":"assistant-message"'))
