"""``permessage-deflate`` as the browser socket speaks it (RFC 7692): its negotiation and its one
compressor.

Every message is compressed by itself (``server_no_context_takeover``), so one that goes to many
sockets is compressed once and each of them gets the same bytes, and no socket has a window of its
own.  The compressor is never thrown away: a full flush makes it forget what it has seen, which for
a small message takes a tenth of the time that a new one would.
"""

from __future__ import annotations

import re
import zlib

from attrs import define, field, frozen

from garcon.contract.limits import KIB, MIB

NAME = "permessage-deflate"
WIDEST, NARROWEST = 15, 9
"""Windows that zlib has; RFC 7692 also knows one of 8 bits."""
_TAIL = b"\x00\x00\xff\xff"
_TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_ITEM = re.compile(rf'({_TOKEN})(?:\s*=\s*(?:({_TOKEN})|"({_TOKEN})"))?')


@frozen
class Deflate:
    """What was agreed on: how wide the server's window may be at most."""

    window: int = WIDEST

    @property
    def offer(self) -> str:
        """The offer that has exactly this agreement for its answer."""
        limit = "" if self.window == WIDEST else f"; server_max_window_bits={self.window}"
        return f"{NAME}; server_no_context_takeover; client_no_context_takeover{limit}"


def agree(header: str | None) -> Deflate | None:
    """Return what comes of a ``Sec-WebSocket-Extensions`` header: the first offer that can be kept,
    or None.  What cannot be kept or read is declined, not refused.
    """
    if header is None:
        return None
    for offer in header.split(","):
        name, *parameters = offer.split(";")
        if name.strip() == NAME and (agreed := _kept(parameters)) is not None:
            return agreed
    return None


def _kept(parameters: list[str]) -> Deflate | None:
    seen: set[str] = set()
    window = WIDEST
    for text in parameters:
        found = _ITEM.fullmatch(text.strip())
        if found is None or found[1] in seen:
            return None
        name, value = found[1], found[2] or found[3]
        seen.add(name)
        match name:
            case "server_no_context_takeover" | "client_no_context_takeover":
                if value is not None:
                    return None
            case "client_max_window_bits":
                if value is not None and _bits(value) is None:
                    return None
            case "server_max_window_bits":
                bits = _bits(value or "")
                if bits is None or bits < NARROWEST:
                    return None
                window = bits
            case _:
                return None
    return Deflate(window)


def _bits(text: str) -> int | None:
    if not (text.isascii() and text.isdigit()) or text.startswith("0") or len(text) > 2:
        return None
    bits = int(text)
    return bits if 8 <= bits <= WIDEST else None


_LEVELS = ((16 * KIB, 6), (2 * MIB, 1))
"""How hard to try with a message of at most so many bytes.  It happens on the reactor's thread, and
1 MiB at level 6 would hold that up for a tenth of a second.  What is larger still is only wrapped.
"""


@define(eq=False)
class Compressor:
    """Compresses for every socket of the process.  Not for use by two threads."""

    _kept: dict[tuple[int, int], zlib._Compress] = field(factory=dict)

    def compress(self, data: bytes, deflate: Deflate) -> bytes:
        """Return a message's payload, which any inflater of that window reads by itself."""
        key = deflate.window, level_of(len(data))
        # Taken out meanwhile: one that failed in between has an unknown state.
        compressor = self._kept.pop(key, None) or zlib.compressobj(
            key[1], zlib.DEFLATED, -deflate.window
        )
        payload = compressor.compress(data) + compressor.flush(zlib.Z_FULL_FLUSH)
        self._kept[key] = compressor
        return payload.removesuffix(_TAIL)


def level_of(size: int) -> int:
    """Return the level at which a message of that size is compressed."""
    return next((level for most, level in _LEVELS if size <= most), 0)
