"""The frames that browsers send most: small, whole and masked, as values (pure; RFC 6455, 5.2)."""

from __future__ import annotations

from attrs import frozen

from garcon.link.framing import SMALL, xored

_WHOLE = {0x81: (1, 0), 0xC1: (1, 4), 0x82: (2, 0), 0xC2: (2, 4)}
"""By first byte: opcode and reserved bits of a whole message, as it is or compressed."""


@frozen
class SmallFrame:
    """One frame of at most `SMALL` bytes; behind `end` the next one begins."""

    opcode: int
    rsv: int
    payload: bytes
    end: int


def small_frame(data: bytes) -> SmallFrame | None:
    """Return the frame that data begins with, None where it is no small one that is whole."""
    there = len(data)
    if there < 6 or data[0] not in _WHOLE or data[1] < 0x80:
        return None
    size, begin = data[1] & 0x7F, 6
    if size >= 126:
        size, begin = data[2] << 8 | data[3], 8
        if data[1] == 0xFF or size < 126 or size > SMALL:
            return None
    end = begin + size
    if end > there:
        return None
    mask = data[begin - 4 : begin]
    return SmallFrame(*_WHOLE[data[0]], xored(data[begin:end], mask), end)
