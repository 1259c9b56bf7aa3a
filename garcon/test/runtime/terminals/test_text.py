"""Bytes to numbered text: whole characters, in pieces that a link record holds."""

from __future__ import annotations

from itertools import pairwise

import msgspec
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.limits import FRAGMENT
from garcon.contract.terminals import TerminalChunk, TerminalNotification, TerminalOutput
from garcon.link import frames
from garcon.runtime.terminals.attachment import AROUND_CHUNK, BATCH
from garcon.runtime.terminals.text import PIECE, Decoder, cost_of, pieces, size_of
from garcon.test.properties import given

MIXED = "漢字かな🙂👩‍👩‍👧é\x1b[31mred\r\n"


class Decoding(SynchronousTestCase):
    """UTF-8 in portions."""

    def test_split_at_every_byte(self) -> None:
        """Wherever it is cut in two, no character is broken and none is lost."""
        data = MIXED.encode()
        for place in range(len(data) + 1):
            decoder = Decoder()
            parts = [decoder.feed(data[:place]), decoder.feed(data[place:]), decoder.end()]
            self.assertEqual("".join(parts), MIXED, place)
            self.assertNotIn("\ufffd", "".join(parts))

    def test_byte_by_byte(self) -> None:
        """Each character comes with its last byte."""
        decoder = Decoder()
        parts = [decoder.feed(bytes([byte])) for byte in MIXED.encode()]
        self.assertEqual([part for part in parts if part], list(MIXED))
        self.assertEqual(decoder.end(), "")

    def test_what_is_no_text(self) -> None:
        """It is replaced, and what follows is read as ever; a half character at the end too."""
        decoder = Decoder()
        self.assertEqual(decoder.feed(b"a\xffb\xc3"), "a\ufffdb")
        self.assertEqual(decoder.feed(b"(c\xf0\x9f"), "\ufffd(c")
        self.assertEqual(decoder.end(), "\ufffd")

    @given(st.text(), st.lists(st.integers(0, 200), max_size=8))
    def test_any_cuts(self, text: str, cuts: list[int]) -> None:
        """Any text in any portions comes out as it went in."""
        data, decoder, out = text.encode("utf-8", "replace"), Decoder(), ""
        places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
        for start, end in pairwise(places):
            out += decoder.feed(data[start:end])
        self.assertEqual(out + decoder.end(), data.decode())


class Pieces(SynchronousTestCase):
    """What is cut so that it can be sent."""

    def test_short_text_stays_whole(self) -> None:
        """With its cost."""
        self.assertEqual(list(pieces("a\n")), [("a\n", 3)])
        self.assertEqual(list(pieces("")), [])

    def test_at_the_limit(self) -> None:
        """A piece may cost so much, and not one more."""
        self.assertEqual([cost for _, cost in pieces("x" * PIECE)], [PIECE])
        self.assertEqual([cost for _, cost in pieces("x" * (PIECE + 1))], [PIECE, 1])

    def test_what_costs_more_than_it_is(self) -> None:
        """Control characters are six times as long on their way, and so are fewer of them."""
        text = "\x1b" * PIECE
        found = list(pieces(text))
        self.assertEqual("".join(piece for piece, _ in found), text)
        self.assertTrue(all(cost <= PIECE for _, cost in found))
        self.assertEqual(len(found), 6 + 1)

    @given(st.text(max_size=300), st.integers(12, 40))
    def test_any_text(self, text: str, limit: int) -> None:
        """Nothing is lost, and no piece costs more than it may."""
        found = list(pieces(text, limit))
        self.assertEqual("".join(piece for piece, _ in found), text)
        for piece, cost in found:
            self.assertEqual(cost, cost_of(piece))
            self.assertTrue(0 < cost <= limit)

    def test_sizes_are_bytes(self) -> None:
        """Of UTF-8."""
        self.assertEqual((size_of("abc"), size_of("é🙂")), (3, 6))

    def test_a_record_holds_the_largest_event(self) -> None:
        """One chunk at its limit, or as many small ones as an event may have."""
        large = [TerminalChunk(sequence=2**53 - 1, data="x" * PIECE)]
        count = BATCH // (AROUND_CHUNK + 1)
        small = [TerminalChunk(sequence=2**53 - 1, data="x")] * count
        for chunks in (large, small):
            event = TerminalOutput(chunks=chunks)
            notification = TerminalNotification(attachment_id="i" * 36, event=event)
            text = frames.terminal(msgspec.json.encode(notification))
            self.assertLessEqual(len(text), FRAGMENT)
