"""One chat's transcript over a store: ordinals, pages, damage (chats.md 4.9, 5.3)."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.messages import Presentation, Style, UserMessage
from garcon.controller.transcripts import rows
from garcon.controller.transcripts.rows import Draft
from garcon.controller.transcripts.transcript import Transcript
from garcon.store.interfaces import Damaged, NotStored
from garcon.store.records import PutChat, PutView, Row
from garcon.test.controller.transcripts.test_resend import AT, ended, said, wrote
from garcon.test.store.test_stores import CHAT, record
from garcon.testing.memory_store import MemoryStore


class TranscriptTests(SynchronousTestCase):
    """A transcript, its store, and what it told of committed rows."""

    def setUp(self) -> None:
        self.store = MemoryStore()
        self.successResultOf(self.store.open())
        self.successResultOf(self.store.write([PutChat(record()), PutView(CHAT, "v1")]))
        self.told: list[Row] = []
        self.transcript = self.loaded(0)

    def loaded(self, last_ordinal: int) -> Transcript:
        return Transcript(
            self.store, "v1", last_ordinal, committed=lambda _, added: self.told.extend(added)
        )

    def append(self, *drafts: Draft) -> tuple[Row, ...]:
        return self.successResultOf(self.transcript.append(drafts))

    def ordinals(self) -> list[int]:
        page = self.successResultOf(self.transcript.page(200))
        return [message.ordinal for message in page.messages]

    def test_ordinals_start_at_one_and_count_hidden_rows(self) -> None:
        """A hidden row takes an ordinal and shows nothing."""
        self.append(wrote("a"), rows.session(AT, "s"), said(), ended("finished"))
        self.assertEqual(self.transcript.last_ordinal, 4)
        self.assertEqual(self.ordinals(), [1, 3])

    def test_an_unreadable_presentation_reads_as_a_notice(self) -> None:
        """Expanded, and the rest of the row is what it was."""
        self.append(rows.user_input(AT, "a", [], "m", {"presentation": {"style": "loud"}}))
        [one] = self.successResultOf(self.transcript.page(1)).messages
        assert isinstance(one.message, UserMessage)
        self.assertEqual(one.message.content, "a")
        self.assertEqual(one.message.presentation, Presentation(presentation=Style("notice")))

    def test_a_page_covers_raw_rows(self) -> None:
        """A page of two raw rows may show one message or none; the cursor goes on."""
        self.append(wrote("a"), said(), rows.session(AT, "s"), ended("finished"))
        page = self.successResultOf(self.transcript.page(2))
        self.assertEqual(
            (page.messages, page.page_oldest, page.page_newest, page.next_before), ([], 0, 4, 3)
        )
        older = self.successResultOf(self.transcript.page(2, 3))
        self.assertEqual([one.ordinal for one in older.messages], [1, 2])
        self.assertIsNone(older.next_before)

    def test_rows_are_seen_only_when_durable(self) -> None:
        """While a commit runs the page is what it was."""
        self.append(wrote("a"))
        self.store.held = True
        d = self.transcript.append([said()])
        self.assertEqual((self.ordinals(), len(self.told)), ([1], 1))
        self.store.release()
        self.successResultOf(d)
        self.assertEqual((self.ordinals(), len(self.told)), ([1, 2], 2))

    def test_appends_behind_a_commit_share_the_next(self) -> None:
        """Each caller gets its own rows, and the ordinals go on without a gap."""
        self.store.held = True
        waiting = [self.transcript.append([wrote(text)]) for text in "abc"]
        self.store.release()
        got = [self.successResultOf(d)[0].ordinal for d in waiting]
        self.assertEqual(got, [1, 2, 3])

    def test_a_refused_commit_leaves_no_gap(self) -> None:
        """The next rows take the ordinals of those that were not kept."""
        self.append(wrote("a"))
        self.store.refusals = 1
        self.failureResultOf(self.transcript.append([said("lost")]), NotStored)
        [row] = self.append(said("kept"))
        self.assertEqual((row.ordinal, self.transcript.last_ordinal), (2, 2))

    def test_unanswered_input_is_found_again_after_a_restart(self) -> None:
        """However far back it lies, it is counted from what the store holds."""
        self.append(said(), wrote("a"), *[ended("interrupted") for _ in range(250)])
        again = self.loaded(self.transcript.last_ordinal)
        found = self.successResultOf(again.unanswered())
        self.assertEqual([(one.ordinal, one.content) for one in found], [(2, "a")])

    def test_damage_fences_for_good(self) -> None:
        """After damage was met, rows that are sound are not shown either."""
        self.append(wrote("a"), said(), said())
        self.store.damage("v1", 2)
        self.failureResultOf(self.transcript.page(3), Damaged)
        self.failureResultOf(self.transcript.page(1), Damaged)
        self.failureResultOf(self.transcript.find("a"), Damaged)

    def test_an_illegible_row_is_damage(self) -> None:
        """Sound bytes that are no message fence as well."""
        self.append(Draft("provider-row", AT, b'{"type":"no-such-message"}'))
        self.failureResultOf(self.transcript.page(1), Damaged)
