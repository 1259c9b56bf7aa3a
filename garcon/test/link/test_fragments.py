"""Cutting and joining of messages."""

from __future__ import annotations

from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.limits import FRAGMENT, MESSAGE
from garcon.errors import BadMessage
from garcon.link.fragments import LAST, MORE, WHOLE, Joiner, cut
from garcon.test.properties import given


def records(text: bytes) -> list[bytes]:
    """Return a message's records."""
    return [cut(text, offset) for offset in range(0, len(text), FRAGMENT)]


class Fragments(SynchronousTestCase):
    """Forms that are right and forms that are not."""

    @given(st.integers(1, 4 * FRAGMENT + 1))
    def test_what_is_cut_is_joined(self, size: int) -> None:
        """Any message comes out as it went in, and only its last record is short."""
        text = bytes(n % 256 for n in range(size))
        joiner = Joiner()
        *firsts, last = records(text)
        for record in firsts:
            self.assertEqual((record[:1], len(record)), (MORE, FRAGMENT + 1))
            self.assertIsNone(joiner.take(record))
            self.assertTrue(joiner.is_open)
        taken = joiner.take(last)
        assert taken is not None
        self.assertEqual((bytes(taken[0]), taken[1]), (text, False))
        self.assertFalse(joiner.is_open)

    @given(st.integers(-40, 40), st.integers(0, 30), st.integers(0, 2))
    def test_a_tail_is_cut_as_if_it_were_joined(self, more: int, tail: int, fragments: int) -> None:
        """Wherever the end of a fragment falls."""
        whole = bytes(n % 251 for n in range(max(fragments * FRAGMENT + more, 1) + tail))
        text, end = whole[: len(whole) - tail], whole[len(whole) - tail :]
        for offset in range(0, len(whole), FRAGMENT):
            self.assertEqual(cut(text, offset, end), cut(whole, offset))

    def test_a_whole_text_passes_between_fragments(self) -> None:
        """A small text comes out at once and disturbs nothing."""
        joiner = Joiner()
        first, last = records(bytes(FRAGMENT + 5))
        joiner.take(first)
        self.assertEqual(joiner.take(WHOLE + b"small"), (b"small", True))
        taken = joiner.take(last)
        assert taken is not None
        self.assertEqual(len(taken[0]), FRAGMENT + 5)

    def test_the_largest_whole_text(self) -> None:
        """32 KiB may be whole, one byte more may not; likewise a last fragment."""
        for kind in (WHOLE, LAST):
            self.assertIsNotNone(Joiner().take(kind + bytes(FRAGMENT)))
            self.assertRaises(BadMessage, Joiner().take, kind + bytes(FRAGMENT + 1))

    def test_anything_else_is_an_error(self) -> None:
        """Empty records and pieces, unknown kinds, and fragments of another size."""
        wrong = [
            b"",
            WHOLE,
            LAST,
            MORE,
            b"\x03text",
            b"{",
            MORE + bytes(FRAGMENT - 1),
            MORE + bytes(FRAGMENT + 1),
        ]
        for record in wrong:
            self.assertRaises(BadMessage, Joiner().take, record)

    def test_sixteen_mib_and_not_one_more(self) -> None:
        """Reassembly is capped at the message limit."""
        full = MORE + bytes(FRAGMENT)
        for last, is_right in ((FRAGMENT, True), (1, False)):
            joiner = Joiner()
            for _ in range(MESSAGE // FRAGMENT - is_right):
                joiner.take(full)
            if is_right:
                taken = joiner.take(LAST + bytes(last))
                assert taken is not None
                self.assertEqual(len(taken[0]), MESSAGE)
            else:
                self.assertRaises(BadMessage, joiner.take, LAST + bytes(last))
