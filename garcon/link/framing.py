"""The one kind of WebSocket frame that lanes consist of, a whole binary message, as a value (pure;
RFC 6455, 5.2 and 5.3).

Autobahn's general way through a frame takes as long as everything else that happens to a small
call; only its native masking is used here.
"""

from __future__ import annotations

from random import getrandbits

from autobahn.websocket.xormasker import create_xor_masker  # type: ignore[attr-defined]  # native or not

from garcon.contract.limits import KIB

RECORD = 65_535
"""No record is larger, so that the longest form of length never comes."""
SMALL = KIB
"""Up to this size Python masks faster than a native masker is made."""
_BINARY = 0x82
"""The first byte of a whole binary message."""


def framed(record: bytes, masks: bool) -> bytes:
    """Return a record as one binary message; clients mask."""
    size = len(record)
    bit = 0x80 if masks else 0
    if size < 126:
        head = bytes((_BINARY, bit | size))
    else:
        head = bytes((_BINARY, bit | 126, size >> 8, size & 0xFF))
    if not masks:
        return head + record
    mask = getrandbits(32).to_bytes(4, "big")
    return b"".join((head, mask, xored(record, mask)))


def begins(data: bytes, at: int, masked: bool) -> bool:
    """Whether what begins at `at` can become the whole binary message of a record."""
    there = len(data) - at
    if there == 0 or data[at] != _BINARY:
        return False
    if there == 1:
        return True
    size = data[at + 1] & 0x7F
    if (data[at + 1] >= 0x80) != masked or size == 0 or size == 127:
        return False
    return size < 126 or there < 4 or data[at + 2] << 8 | data[at + 3] >= 126


def unframed(data: bytes, at: int, masked: bool) -> tuple[bytes, int] | None:
    """Return the record of the whole binary message that begins at `at`, and where it ends; None
    for anything else.
    """
    there = len(data) - at
    if there < 2 or data[at] != _BINARY or (data[at + 1] >= 0x80) != masked:
        return None
    size, begin = data[at + 1] & 0x7F, at + 2
    if size == 126:
        if there < 4:
            return None
        size, begin = data[begin] << 8 | data[begin + 1], begin + 2
        if size < 126:
            return None
    elif size == 127 or size == 0:
        return None
    end = begin + (4 if masked else 0) + size
    if end > len(data):
        return None
    if not masked:
        return data[begin:end], end
    mask = data[begin : begin + 4]
    return xored(data[begin + 4 : end], mask), end


def xored(data: bytes, mask: bytes) -> bytes:
    """Mask or unmask a payload."""
    size = len(data)
    if size > SMALL:
        return create_xor_masker(mask, size).process(data)  # type: ignore[no-any-return]
    key = int.from_bytes((mask * (size // 4 + 1))[:size], "little")
    return (int.from_bytes(data, "little") ^ key).to_bytes(size, "little")
