"""Pages of a bounded replay, and the rows of a commit as they are told (server.md A.6, A.8)."""

from __future__ import annotations

from typing import Any

import msgspec
from twisted.internet.defer import Deferred, succeed
from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.events import ShownRow
from garcon.controller.transcripts import replay, rows
from garcon.controller.transcripts.batches import BATCH_BYTES, Batch, batches
from garcon.controller.transcripts.replay import PAGE_BYTES, PAGE_ORDINALS, Stretch
from garcon.controller.transcripts.rows import Draft
from garcon.errors import GarconError
from garcon.store.records import Row
from garcon.test.controller.transcripts.test_resend import AT, ended, placed, said, wrote


def hidden() -> Draft:
    """A row that shows nothing."""
    return rows.session(AT, "s")


class Page(msgspec.Struct):
    """A message that holds a page."""

    messages: list[ShownRow]
    end: int
    has_more: bool
    padding: str = ""


class Replay(SynchronousTestCase):
    """A view as a list of rows."""

    def setUp(self) -> None:
        self.rows: list[Row] = []
        self.asked: list[tuple[int, int, int]] = []

    def fill(self, *drafts: Draft) -> None:
        """Give the view its rows."""
        self.rows = placed(*drafts)

    def read(self, first: int, last: int, most_bytes: int) -> Deferred[list[Row]]:
        """Read as a store does."""
        self.asked.append((first, last, most_bytes))
        found, size = [], 0
        for row in self.rows[first - 1 : last]:
            found.append(row)
            size += len(row.payload)
            if size > most_bytes:
                break
        return succeed(found)

    def page(
        self, after: int, through: int | None = None, padding: str = "", beside: int = 0
    ) -> Page:
        """Read one page."""
        through = len(self.rows) if through is None else through
        work = replay.stretch("v", self.read, after, through)
        stretch: Stretch = self.successResultOf(Deferred.fromCoroutine(work))

        def render(messages: list[ShownRow], end: int) -> Page:
            return Page(messages, end, end < through, padding)

        page = replay.page(stretch, through, render, beside)
        self.assertLessEqual(len(msgspec.json.encode(page)), PAGE_BYTES)
        return page

    def ordinals(self, page: Page) -> list[int]:
        """What a page shows."""
        return [one.ordinal for one in page.messages]

    def test_rows_go_out_as_they_are_stored(self) -> None:
        """Their JSON is neither read nor made anew."""
        self.fill(wrote("a"), said())
        page = self.page(0)
        self.assertEqual(
            [bytes(one.message) for one in page.messages], [r.payload for r in self.rows]
        )

    def test_a_page_covers_two_hundred_raw_rows(self) -> None:
        """Hidden ones count: the page at the bound ends the replay, one row more does not."""
        self.assertEqual(PAGE_ORDINALS, 200)
        self.fill(*([said(), hidden()] * 100))
        page = self.page(0)
        self.assertEqual((len(page.messages), page.end, page.has_more), (100, 200, False))
        self.fill(*([said(), hidden()] * 100), said())
        page = self.page(0)
        self.assertEqual((len(page.messages), page.end, page.has_more), (100, 200, True))
        page = self.page(200)
        self.assertEqual((self.ordinals(page), page.end, page.has_more), ([201], 201, False))

    def test_a_page_without_messages_advances(self) -> None:
        """Where only hidden rows lie."""
        self.fill(*[hidden()] * 201)
        page = self.page(0)
        self.assertEqual((page.messages, page.end, page.has_more), ([], 200, True))

    def test_the_watermark_is_kept(self) -> None:
        """What lies beyond it is not read, though it is there."""
        self.fill(*[said()] * 10)
        page = self.page(2, 5)
        self.assertEqual((self.ordinals(page), page.end, page.has_more), ([3, 4, 5], 5, False))

    def test_at_the_watermark_there_is_nothing_to_read(self) -> None:
        """And the page ends where it began."""
        self.fill(said())
        page = self.page(1)
        self.assertEqual((page.messages, page.end, page.has_more, self.asked), ([], 1, False, []))

    def sized(self, total: int, *before: Draft) -> None:
        """End the view with a row that makes its page exactly so large."""
        self.fill(*before, said(""))
        base = Page(
            [ShownRow(r.ordinal, msgspec.Raw(r.payload)) for r in self.rows], len(before) + 1, False
        )
        self.fill(*before, said("x" * (total - len(msgspec.json.encode(base)))))

    def test_a_page_has_at_most_1048576_bytes(self) -> None:
        """A page of exactly that size is whole; with one byte more the last row is left for the
        next.
        """
        self.assertEqual(PAGE_BYTES, 1_048_576)
        self.sized(PAGE_BYTES, said(), said())
        page = self.page(0)
        self.assertEqual((self.ordinals(page), page.has_more), ([1, 2, 3], False))
        self.assertEqual(len(msgspec.json.encode(page)), PAGE_BYTES)
        self.sized(PAGE_BYTES + 1, said(), said())
        page = self.page(0)
        self.assertEqual((self.ordinals(page), page.end, page.has_more), ([1, 2], 2, True))
        self.assertEqual(self.ordinals(self.page(2)), [3])

    def test_bytes_are_counted_as_utf_8(self) -> None:
        """A text of other letters is larger than it is long."""
        self.fill(said("é" * 400_000), said("é" * 400_000))
        page = self.page(0)
        self.assertEqual((self.ordinals(page), page.end, page.has_more), ([1], 1, True))

    def test_as_many_messages_as_fit(self) -> None:
        """One more would not have, whatever else the message has to carry."""
        self.fill(*[said("x" * 10_000)] * 150)
        for padding in ("", "y" * 100_000, "y" * 1_000_000):
            page = self.page(0, padding=padding)
            more = Page(
                [ShownRow(r.ordinal, msgspec.Raw(r.payload)) for r in self.rows[: page.end + 1]],
                page.end + 1,
                True,
                padding,
            )
            self.assertGreater(len(msgspec.json.encode(more)), PAGE_BYTES)

    def test_a_cut_page_ends_just_before_what_was_left_out(self) -> None:
        """Hidden rows before that count as read."""
        self.fill(said(), hidden(), hidden(), said("x" * PAGE_BYTES))
        page = self.page(0)
        self.assertEqual((self.ordinals(page), page.end, page.has_more), ([1], 3, True))

    def test_a_row_that_fits_no_page_is_a_failure(self) -> None:
        """Not to be tried again; but only once it is next."""
        self.fill(hidden(), said("x" * PAGE_BYTES), said())
        self.assertEqual(self.page(0).end, 1)
        error = self.assertRaises(GarconError, self.page, 1)
        self.assertEqual((error.code, error.retryable), ("HISTORY_LOAD_FAILED", False))
        self.assertEqual(self.ordinals(self.page(2)), [3])

    def test_an_envelope_that_fits_no_page_is_a_failure(self) -> None:
        """Nothing of it can be left out."""
        self.fill(said())
        error = self.assertRaises(GarconError, self.page, 0, None, "y" * PAGE_BYTES)
        self.assertEqual((error.code, error.retryable), ("HISTORY_LOAD_FAILED", False))

    def test_what_cannot_be_parted_counts_as_long_as_the_page_advances(self) -> None:
        """At the bound one row fits beside it.  With a byte more none would: then it does not count
        at all, and the page is as large without it as any.
        """
        self.fill(said("x" * 600_000), said("x" * 600_000), said())
        one = len(msgspec.json.encode(self.page(0)))
        self.fill(said("x" * 600_000), said(), said())
        room = PAGE_BYTES - one
        self.assertEqual(self.ordinals(self.page(0, beside=room)), [1])
        self.assertEqual(self.ordinals(self.page(0, beside=room + 1)), [1, 2, 3])
        self.assertEqual(self.page(3, beside=PAGE_BYTES).end, 3)

    def test_no_more_is_read_than_fits(self) -> None:
        """Two hundred rows of a mebibyte are not taken into memory for one of them."""
        self.fill(*[said("x" * 600_000)] * 200)
        page = self.page(0)
        self.assertEqual((self.ordinals(page), self.asked), ([1], [(1, 200, PAGE_BYTES)]))

    def test_large_hidden_rows_do_not_cut_a_page(self) -> None:
        """Bytes that are not shown are not counted: the reading goes on behind them."""
        self.fill(said(), rows.session(AT, "s" * PAGE_BYTES), said())
        page = self.page(0)
        self.assertEqual((self.ordinals(page), page.has_more), ([1, 3], False))

    def test_a_replay_gives_every_row_once(self) -> None:
        """Page after page, with the watermark of the first."""
        drafts: list[Any] = [
            hidden() if n % 7 == 0 else said("x" * (1_000_000 if n % 50 == 0 else n))
            for n in range(900)
        ]
        self.fill(*drafts)
        seen: list[int] = []
        at = 0
        while at < len(self.rows):
            page = self.page(at)
            self.assertGreater(page.end, at)
            seen += self.ordinals(page)
            at = page.end
        self.assertEqual(seen, [n + 1 for n in range(900) if n % 7])


class Batches(SynchronousTestCase):
    """The rows of one commit."""

    def parts(self, *drafts: Draft, first: int = 1) -> list[Batch]:
        """Part them."""
        return list(batches("v", [draft.placed(first + n) for n, draft in enumerate(drafts)]))

    def spans(self, parts: list[Batch]) -> list[tuple[int, int]]:
        """First and last of each."""
        return [(part.first, part.last) for part in parts]

    def test_a_commit_is_one_batch(self) -> None:
        """Hidden rows lie in its span and are not shown; the end of a turn names it."""
        [part] = self.parts(said(), hidden(), ended("finished"), first=7)
        self.assertEqual(self.spans([part]), [(7, 9)])
        self.assertEqual([one.ordinal for one in part.shown], [7])
        self.assertEqual(part.turn_id, "turn")

    def test_a_large_commit_is_told_in_parts_that_join(self) -> None:
        """Each with a mebibyte of rows at most; a row may be larger alone."""
        half = said("x" * (BATCH_BYTES // 2 - len(said("").payload)))
        self.assertEqual(self.spans(self.parts(half, half)), [(1, 2)])
        self.assertEqual(self.spans(self.parts(half, half, said())), [(1, 2), (3, 3)])
        large = said("x" * BATCH_BYTES)
        self.assertEqual(
            self.spans(self.parts(said(), large, said(), said())), [(1, 1), (2, 2), (3, 4)]
        )

    def test_only_the_part_that_ends_a_turn_names_it(self) -> None:
        """The others are rows like any."""
        large = said("x" * BATCH_BYTES)
        parts = self.parts(large, large, ended("finished"))
        self.assertEqual([part.turn_id for part in parts], [None, None, "turn"])

    def test_an_input_is_never_told_with_the_end_of_a_turn(self) -> None:
        """A steered input can be committed with the end of the turn it joined."""
        parts = self.parts(said(), wrote("a"), ended("finished"), wrote("b"))
        self.assertEqual(self.spans(parts), [(1, 2), (3, 3), (4, 4)])
        self.assertEqual([part.turn_id for part in parts], [None, "turn", None])
