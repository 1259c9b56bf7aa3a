"""What is asked live, change by change (chats.md 4.19, server.md A.10)."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.chats import TransientAnchor, TransientRow
from garcon.contract.events import ClearRun, Remove, Upsert
from garcon.contract.messages import PermissionRequest
from garcon.controller.transcripts.feed import LivePermissions
from garcon.test.controller.transcripts.test_resend import AT, TOOL


def request(occurrence: str) -> PermissionRequest:
    """A question."""
    return PermissionRequest(timestamp=AT, permission_occurrence_id=occurrence, requested_tool=TOOL)


class Feed(SynchronousTestCase):
    """One chat's live questions."""

    def setUp(self) -> None:
        self.feed = LivePermissions()

    def test_a_question_stands_where_its_row_stands(self) -> None:
        """Its place and its order are the row's ordinal."""
        row = TransientRow(
            permission_occurrence_id="o",
            run_id="r",
            transcript=TransientAnchor(transcript_view_id="v", after_ordinal=7),
            display_order=7,
            message=request("o"),
        )
        self.assertEqual(self.feed.add("r", "v", 7, request("o")), Upsert(row=row))
        self.assertEqual(self.feed.shown("i", "c", "v").rows, [row])

    def test_each_change_raises_the_revision_by_one(self) -> None:
        """What changes nothing does not."""
        revisions = [self.feed.revision]
        for change in (
            lambda: self.feed.add("r", "v", 1, request("a")),
            lambda: self.feed.add("r", "v", 2, request("b")),
            lambda: self.feed.add("r", "v", 3, request("c")),
            lambda: self.feed.remove("a"),
            lambda: self.feed.remove("a"),
            lambda: self.feed.clear_run("other"),
            lambda: self.feed.clear_run("r"),
            lambda: self.feed.clear_run("r"),
        ):
            change()
            revisions.append(self.feed.revision)
        self.assertEqual(revisions, [0, 1, 2, 3, 4, 4, 4, 5, 5])

    def test_a_question_is_taken_away_once(self) -> None:
        """Again is no mutation."""
        self.feed.add("r", "v", 1, request("a"))
        self.assertEqual(self.feed.remove("a"), Remove(permission_occurrence_id="a"))
        self.assertEqual(self.feed.remove("a"), None)

    def test_the_end_of_a_run_takes_all_of_its_questions_at_once(self) -> None:
        """One mutation, and none where there was nothing."""
        self.assertEqual(self.feed.clear_run("r"), None)
        self.feed.add("r", "v", 1, request("a"))
        self.feed.add("r", "v", 2, request("b"))
        self.feed.add("s", "v", 3, request("c"))
        self.assertEqual(self.feed.clear_run("r"), ClearRun(run_id="r"))
        left = [row.permission_occurrence_id for row in self.feed.shown("i", "c", "v").rows]
        self.assertEqual(left, ["c"])
