"""The judge of crashes sees what it is there to see."""

from __future__ import annotations

from typing import Any

from msgspec import structs
from twisted.trial.unittest import SynchronousTestCase

from garcon.contract import operations
from garcon.contract.messages import AssistantMessage, ErrorMessage, Style
from garcon.controller.transcripts import rows
from garcon.controller.transcripts.chat_rows import ChatRow, chat_row
from garcon.controller.transcripts.rows import Draft
from garcon.store.records import StoredChat
from garcon.test.controller.transcripts.test_resend import AT, ended, placed, said, wrote
from garcon.test.store.test_stores import CHAT, OTHER, record
from garcon.testing.crashes.judge import Kept, judge_ends, judge_store
from garcon.testing.crashes.users import Chat

VIEW = "11111111-2222-4333-8444-555555555555"


def kept(*drafts: Draft, chat_id: str = CHAT, **more: Any) -> Kept:
    """Return a chat with these rows as a store has it."""
    stored = StoredChat(
        record=structs.replace(record(chat_id), **more),
        last_activity_at=AT,
        last_message="",
        view_id=VIEW,
        last_ordinal=len(drafts),
    )
    return Kept(stored, placed(*drafts))


class JudgeTests(SynchronousTestCase):
    """One chat, whose inputs a and b were accepted."""

    def setUp(self) -> None:
        self.chat = Chat(CHAT, VIEW, is_started=True, accepted=["a", "b"])

    def wrong(self, *drafts: Draft, **others: Kept) -> str:
        """Return what is wrong when these rows are left."""
        found = {CHAT: kept(*drafts)} if drafts else {}
        return "\n".join(judge_store([self.chat], found | {one: others[one] for one in others}))

    def test_all_is_well(self) -> None:
        """Both are there, in order, with whatever was answered."""
        self.assertEqual(self.wrong(wrote("a"), said(), ended("finished"), wrote("b")), "")

    def test_an_input_that_is_lost(self) -> None:
        """Or the whole chat."""
        self.assertIn("b was accepted and is gone", self.wrong(wrote("a")))
        self.assertIn(f"{CHAT} is gone", self.wrong())

    def test_an_input_that_is_there_twice(self) -> None:
        """Under one identity."""
        self.assertIn("a is there 2 times", self.wrong(wrote("a"), wrote("b"), wrote("a")))

    def test_inputs_out_of_order(self) -> None:
        """They were accepted one after the other."""
        self.assertIn("out of order", self.wrong(wrote("b"), wrote("a")))

    def test_an_input_that_was_refused(self) -> None:
        """Or that nobody has sent; what was queued, or asked for last, may be there."""
        self.chat.refused = ["c"]
        both = (wrote("a"), wrote("b"))
        self.assertIn("c was refused and is there", self.wrong(*both, wrote("c")))
        self.assertIn("nobody has sent d", self.wrong(*both, wrote("d")))
        self.chat.queued = ["d"]
        self.chat.unknown = (operations.RUN_CHAT, {"clientMessageId": "e"})
        self.assertEqual(self.wrong(*both, wrote("d"), wrote("e")), "")

    def test_a_chat_row_that_is_lost(self) -> None:
        """It was added."""
        self.chat.rows = ["r"]
        both = (wrote("a"), wrote("b"))
        self.assertIn("the row r is gone", self.wrong(*both))
        row = chat_row(AT, "r", ChatRow(Style("notice"), "x"))
        self.assertEqual(self.wrong(*both, row), "")

    def test_another_view(self) -> None:
        """Nothing but a reload makes one."""
        self.chat.view_id = "another"
        self.assertIn("and was another", self.wrong(wrote("a"), wrote("b")))

    def test_an_input_that_counts_as_answered(self) -> None:
        """Though nobody can have answered it."""
        self.chat.held = "b"
        both = (wrote("a"), wrote("b"))
        self.assertIn("b was never answered", self.wrong(*both, said()))
        self.assertIn("b was never answered", self.wrong(*both, ended("failed")))
        error = rows.provider_row(ErrorMessage(timestamp=AT, content="oh"))
        self.assertEqual(self.wrong(*both, error, ended("interrupted")), "")

    def test_a_fork_that_is_lost_or_another(self) -> None:
        """It has its source's inputs up to some point."""
        self.chat.forks = [OTHER]
        both = (wrote("a"), wrote("b"))
        self.assertIn("is gone", self.wrong(*both))
        self.assertIn("is no copy", self.wrong(*both, **{OTHER: kept(wrote("b"))}))
        self.assertEqual(self.wrong(*both, **{OTHER: kept(wrote("a"))}), "")

    def test_a_turn_without_an_end(self) -> None:
        """Of what is new; where something was copied, and rows that are for show, are no turns."""
        late = rows.notice(AT, "n")
        open_turn, over = kept(wrote("a"), said()), kept(wrote("a"), ended("interrupted"), late)
        self.assertEqual(len(judge_ends({}, {CHAT: open_turn})), 1)
        self.assertEqual(judge_ends({CHAT: open_turn}, {CHAT: open_turn}), [])
        self.assertEqual(judge_ends({}, {CHAT: over}), [])
        fork = kept(wrote("a"), parent_chat_id=OTHER)
        self.assertEqual(judge_ends({}, {CHAT: fork}), [])

    def test_unanswered_inputs(self) -> None:
        """As chats.md 5.2.1 has them."""
        text = rows.provider_row(AssistantMessage(timestamp=AT, content="x"))
        one = kept(wrote("a"), text, wrote("b"), ended("interrupted"), wrote("c"))
        self.assertEqual([row.client_message_id for row in one.unanswered()], ["b", "c"])
