"""Small frames, as they come from browsers."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from garcon.controller.ws.frames import small_frame
from garcon.link.framing import SMALL, xored

MASK = b"\x11\x22\x33\x44"


def framed(first: int, payload: bytes, *, long: bool = False) -> bytes:
    """Return a masked frame, with its length in two bytes where that is wanted or needed."""
    size = len(payload)
    if size < 126 and not long:
        head = bytes((first, 0x80 | size))
    else:
        head = bytes((first, 0xFE)) + size.to_bytes(2, "big")
    return head + MASK + xored(payload, MASK)


class Small(SynchronousTestCase):
    """Those that are taken in one step; all others are not."""

    def test_every_size(self) -> None:
        """From none to `SMALL`, and not one more."""
        for size in (0, 1, 125, 126, 127, SMALL):
            payload = bytes(n % 251 for n in range(size))
            data = framed(0x81, payload)
            found = small_frame(data + b"\x81")
            assert found is not None
            self.assertEqual((found.payload, found.end), (payload, len(data)))
            self.assertEqual((found.opcode, found.rsv), (1, 0))
        self.assertIsNone(small_frame(framed(0x81, bytes(SMALL + 1))))

    def test_kinds(self) -> None:
        """Whole texts and binary messages, as they are or compressed; parts, pings and what has no
        meaning are for others.
        """
        kinds = {0x81: (1, 0), 0xC1: (1, 4), 0x82: (2, 0), 0xC2: (2, 4)}
        for first in range(256):
            found = small_frame(framed(first, b"text"))
            expected = kinds.get(first)
            self.assertEqual(found and (found.opcode, found.rsv), expected, hex(first))

    def test_parts(self) -> None:
        """One that is not all there is none yet."""
        for payload in (b"", b"text", bytes(200)):
            data = framed(0x81, payload)
            for end in range(len(data)):
                self.assertIsNone(small_frame(data[:end]), (len(payload), end))

    def test_what_is_wrong_is_left_to_others(self) -> None:
        """No mask, a length in a longer form than it needs, and the longest form."""
        self.assertIsNone(small_frame(b"\x81\x04text    "))
        self.assertIsNone(small_frame(framed(0x81, bytes(125), long=True)))
        longest = b"\x81\xff" + (200).to_bytes(8, "big") + MASK + bytes(200)
        self.assertIsNone(small_frame(longest))
