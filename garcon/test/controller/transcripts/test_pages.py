"""Page arithmetic (chats.md 4.9, 5.3)."""

from __future__ import annotations

from hypothesis import strategies as some
from twisted.trial.unittest import SynchronousTestCase

from garcon.controller.transcripts.pages import Span, span
from garcon.test.properties import given


class SpanTests(SynchronousTestCase):
    """What one page covers."""

    def test_the_newest_page_ends_at_the_end(self) -> None:
        """Without a cursor the last rows are meant."""
        self.assertEqual(span(50, 20), Span(31, 50, 31))

    def test_a_short_transcript_is_one_page(self) -> None:
        """With exactly `limit` rows there is no older page, with one more there is."""
        self.assertEqual(span(20, 20), Span(1, 20, None))
        self.assertEqual(span(21, 20), Span(2, 21, 2))

    def test_an_empty_transcript_has_an_empty_page(self) -> None:
        """Nothing, and nothing before it."""
        self.assertEqual(span(0, 20), Span(1, 0, None))

    def test_a_cursor_beyond_the_end_is_clamped(self) -> None:
        """It gives the newest page."""
        self.assertEqual(span(5, 2, 1_000), Span(4, 5, 4))

    def test_the_oldest_cursor_gives_nothing(self) -> None:
        """Before the first row there is none."""
        self.assertEqual(span(5, 2, 1), Span(1, 0, None))

    @given(some.integers(0, 500), some.integers(1, 200))
    def test_walking_back_meets_every_row_once(self, last: int, limit: int) -> None:
        """Following the cursors reads every ordinal exactly once, newest page first."""
        met: list[int] = []
        page = span(last, limit)
        while True:
            met = list(range(page.first, page.last + 1)) + met
            if page.next_before is None:
                break
            page = span(last, limit, page.next_before)
        self.assertEqual(met, list(range(1, last + 1)))
