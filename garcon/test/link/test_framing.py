"""The one kind of WebSocket frame that a lane writes and reads itself (RFC 6455, 5.2 and 5.3)."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from garcon.link.websocket import _framed, _unframed

SIZES = (1, 125, 126, 127, 65_535)


class Framing(SynchronousTestCase):
    """Whole binary messages, in both directions."""

    def test_round_trip_at_every_form_of_length(self) -> None:
        """What one side frames the other one reads, masked by clients and only by them."""
        for size in SIZES:
            record = bytes(n % 251 for n in range(size))
            for masks in (False, True):
                frame = _framed(record, masks)
                self.assertEqual(frame[0], 0x82)
                self.assertEqual(frame[1] >= 0x80, masks)
                self.assertEqual(_unframed(frame, 0, masks), (record, len(frame)))
                self.assertEqual(
                    _unframed(b"xx" + frame + b"y", 2, masks), (record, len(frame) + 2)
                )

    def test_lengths_have_their_shortest_form(self) -> None:
        """Up to 125 bytes the length is one byte, above it three."""
        self.assertEqual(_framed(b"a" * 125, False)[:2], b"\x82\x7d")
        self.assertEqual(_framed(b"a" * 126, False)[:4], b"\x82\x7e\x00\x7e")
        self.assertEqual(_framed(b"a" * 65_535, False)[:4], b"\x82\x7e\xff\xff")

    def test_masks_differ(self) -> None:
        """Each frame has a mask of its own, and it hides the record."""
        frames = {_framed(b"a" * 64, True) for _ in range(8)}
        self.assertEqual(len(frames), 8)
        self.assertFalse(any(b"aaaa" in frame for frame in frames))

    def test_everything_else_is_left_to_autobahn(self) -> None:
        """Incomplete, wrongly masked, fragmented, text, control, empty and oddly long frames."""
        whole = _framed(b"record", False)
        for end in range(len(whole)):
            self.assertIsNone(_unframed(whole[:end], 0, False))
        for data, masked in (
            (whole, True),
            (_framed(b"record", True), False),
            (b"\x02" + whole[1:], False),
            (b"\x80" + whole[1:], False),
            (b"\x81" + whole[1:], False),
            (b"\xc2" + whole[1:], False),
            (b"\x88\x02\x03\xe8", False),
            (b"\x89\x04abcd", False),
            (b"\x82\x00\x82\x00", False),
            (b"\x82\x7e\x00\x06record", False),
            (b"\x82\x7f" + (6).to_bytes(8, "big") + b"record", False),
        ):
            self.assertIsNone(_unframed(data, 0, masked))
