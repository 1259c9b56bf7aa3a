"""One chat's transcript over a store: ordinals, pages, damage (chats.md 4.9, 5.3)."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import structs
from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.messages import ChatMessage, Image, Style
from garcon.controller.transcripts import rows
from garcon.controller.transcripts.chat_rows import ChatRow, chat_row
from garcon.controller.transcripts.rows import Draft
from garcon.controller.transcripts.transcript import Transcript
from garcon.store.interfaces import Damaged, NotStored
from garcon.store.records import PutChat, PutView, Row
from garcon.test.controller.chats.test_reading import SlowStore
from garcon.test.controller.transcripts.test_resend import AT, ended, said, wrote
from garcon.test.store.test_stores import CHAT, record
from garcon.testing.memory_store import MemoryStore


class TranscriptCase(SynchronousTestCase):
    """A transcript, its store, and what it told of committed rows."""

    def setUp(self) -> None:
        self.store: MemoryStore = MemoryStore()
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


class TranscriptTests(TranscriptCase):
    """Rows and pages."""

    def test_ordinals_start_at_one_and_count_hidden_rows(self) -> None:
        """A hidden row takes an ordinal and shows nothing (5.3.2)."""
        self.append(wrote("a"), rows.session(AT, "s"), said(), ended("finished"))
        self.assertEqual(self.transcript.last_ordinal, 4)
        self.assertEqual(self.ordinals(), [1, 3])

    def messages(self) -> list[bytes]:
        page = self.successResultOf(self.transcript.page(200))
        return [bytes(one.message) for one in page.messages]

    def test_a_page_is_made_of_what_is_stored(self) -> None:
        """Byte by byte, whatever kind of row it is and however it asks to be shown."""
        images = [Image(data="data:,1", name="x")]
        loud = {"presentation": {"style": "info"}, "title": "t", "bodyDisclosure": "collapsed"}
        styled = ChatRow(Style("info"), "row", "t", "collapsed", "markdown", is_styled=True)
        drafts = [
            rows.user_input(AT, '"presentation":', images, "m", is_steer=True),
            rows.user_input(AT, "b", [], "n", loud),
            chat_row(AT, "o", styled),
            chat_row(AT, "p", ChatRow(Style("error"), "no")),
            rows.notice(AT, "lost"),
            said(),
        ]
        self.append(*drafts)
        self.assertEqual(self.messages(), [draft.payload for draft in drafts])
        for message in self.messages():
            msgspec.json.decode(message, type=ChatMessage)

    def test_an_unreadable_presentation_reads_as_a_notice(self) -> None:
        """Expanded, and the rest of the row is what it was (decisions.md 29)."""
        images = [Image(data="data:,1", name="x")]
        for n, wish in enumerate(
            (
                {"presentation": {"style": "loud"}},
                {"presentation": {"style": "notice"}, "shade": 1},
                "loud",
                None,
            )
        ):
            draft = rows.user_input(AT, "a", images, f"m{n}", is_steer=True)
            stored = msgspec.json.decode(draft.payload) | {"presentation": wish}
            self.append(structs.replace(draft, payload=msgspec.json.encode(stored)))
            whole = {"presentation": {"style": "notice"}, "bodyDisclosure": "expanded"}
            self.assertEqual(
                msgspec.json.decode(self.messages()[-1]), stored | {"presentation": whole}
            )

    def test_an_unreadable_chat_row_reads_as_a_notice(self) -> None:
        """Expanded and plain, with the title that it has (decisions.md 29)."""
        styled = ChatRow(Style("error"), "row", "t", "collapsed", "markdown", is_styled=True)
        for n, wish in enumerate(
            ({"presentation": {"style": "loud"}}, {"format": "html"}, {"bodyDisclosure": 1})
        ):
            draft = chat_row(AT, f"m{n}", styled)
            stored = msgspec.json.decode(draft.payload) | wish
            self.append(structs.replace(draft, payload=msgspec.json.encode(stored)))
            plain = {"type": "transcript-notice", "format": "plain", "bodyDisclosure": "expanded"}
            self.assertEqual(
                msgspec.json.decode(self.messages()[-1]),
                stored | plain | {"presentation": {"style": "notice"}},
            )

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

    def test_unanswered_input_is_read_in_pieces(self) -> None:
        """One for what lies within a hundred rows, however many inputs that are."""
        drafts = [draft for n in range(51) for draft in (wrote(str(n)), ended("interrupted"))]
        self.append(*drafts)
        asked: list[tuple[int, int]] = []
        read_rows = self.store.read_rows

        def counted(view: str, first: int, last: int, most: int | None = None) -> Any:
            asked.append((first, last))
            return read_rows(view, first, last, most)

        self.store.read_rows = counted  # type: ignore[assignment, method-assign]
        d = self.transcript.unanswered()
        self.assertEqual(asked, [(1, 99), (101, 101)])
        found = self.successResultOf(d)
        self.assertEqual([one.content for one in found], [str(n) for n in range(51)])
        self.assertEqual([one.ordinal for one in found], list(range(1, 102, 2)))

    def test_damage_fences_for_good(self) -> None:
        """After damage was met, rows that are sound are not shown either."""
        self.append(wrote("a"), said(), said())
        self.store.damage("v1", 2)
        self.failureResultOf(self.transcript.page(3), Damaged)
        self.failureResultOf(self.transcript.page(1), Damaged)
        self.failureResultOf(self.transcript.find("a"), Damaged)


class CandidatesNow(TranscriptCase):
    """What is unanswered, known the moment rows are told of."""

    def now(self) -> list[tuple[int, str, list[str]]]:
        """Whatever is known, without reading."""
        found = self.transcript.resend_candidates_now
        return [(one.ordinal, one.content, one.attachment_names) for one in found]

    def test_it_follows_the_rows(self) -> None:
        """Input adds to it, an answer empties it."""
        self.append(wrote("a"))
        self.append(ended("interrupted"), wrote("b"))
        self.assertEqual(self.now(), [(1, "a", []), (3, "b", [])])
        self.append(said())
        self.assertEqual(self.now(), [])

    def test_an_attachment_shows_by_its_name(self) -> None:
        """One without is called so; what is in them is not kept (4.8)."""
        images = [Image(data="x", name="a.png"), Image(data="y")]
        self.append(rows.user_input(AT, "look", images, "m"))
        self.assertEqual(self.now(), [(1, "look", ["a.png", "attachment"])])
        shown = self.successResultOf(self.transcript.resend_candidates())
        self.assertEqual(shown, self.transcript.resend_candidates_now)

    def test_an_old_transcript_learns_it_before_its_first_commit(self) -> None:
        """Whoever is told of the new row is told of old input with it."""
        self.append(wrote("a"), ended("interrupted"))
        told: list[list[tuple[int, str, list[str]]]] = []
        self.transcript = Transcript(
            self.store, "v1", 2, committed=lambda *_: told.append(self.now())
        )
        self.append(rows.notice(AT, "n"))
        self.append(wrote("b"))
        self.assertEqual(told, [[(1, "a", [])], [(1, "a", []), (4, "b", [])]])

    def test_damage_does_not_keep_rows_out(self) -> None:
        """The row is kept; what cannot be read is unknown."""
        self.append(wrote("a"))
        self.store.damage("v1", 1)
        self.transcript = self.loaded(1)
        self.append(rows.notice(AT, "n"))
        self.assertEqual((self.transcript.last_ordinal, self.now()), (2, []))

    def test_rows_wait_for_what_is_being_learnt(self) -> None:
        """Those that come meanwhile follow in order, with the same commit."""
        slow = self.store = SlowStore()
        self.successResultOf(slow.open())
        self.successResultOf(slow.write([PutChat(record()), PutView(CHAT, "v1")]))
        self.transcript = self.loaded(0)
        self.append(wrote("a"))
        self.transcript = self.loaded(1)
        slow.is_slow = True
        waiting = [self.transcript.append([said()]) for _ in range(2)]
        writes = slow.writes
        for d in waiting:
            self.assertNoResult(d)
        slow.read()
        ordinals = [row.ordinal for d in waiting for row in self.successResultOf(d)]
        self.assertEqual((ordinals, slow.writes - writes), ([2, 3], 1))
