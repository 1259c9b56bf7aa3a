"""Record plaintexts: messages cut into fragments below the record limit, and joined again (pure;
control.md J.1).

The first byte says what follows: 0 a fragment with more to come, 1 the last fragment of a message,
2 a whole small JSON text, which may stand between the fragments of a large message (`decisions.md`
16).
"""

from __future__ import annotations

from garcon.contract.limits import FRAGMENT, MESSAGE
from garcon.errors import BadMessage

MORE, LAST, WHOLE = b"\x00", b"\x01", b"\x02"


def cut(text: bytes, offset: int, tail: bytes = b"") -> bytes:
    """Return the record plaintext of the fragment of `text` and `tail` that begins at `offset`.

    They are two so that nobody has to join them, which takes milliseconds of a large text.
    """
    size, end = len(text), offset + FRAGMENT
    kind = LAST if end >= size + len(tail) else MORE
    part = memoryview(text)[offset:end]
    if end <= size:
        return b"".join((kind, part))
    return b"".join((kind, part, tail[max(offset - size, 0) : end - size]))


class Joiner:
    """Join one connection's record plaintexts; anything out of form is a `BadMessage`."""

    def __init__(self, largest: int = MESSAGE) -> None:
        self._parts: list[memoryview] = []
        self._size = 0
        self._largest = largest

    @property
    def is_open(self) -> bool:
        """Whether a message has begun and not ended."""
        return bool(self._parts)

    def take(self, plaintext: bytes) -> tuple[bytes | memoryview, bool] | None:
        """Return a finished text and whether it came whole in one record; None when more is
        needed.
        """
        size = len(plaintext) - 1
        kind = plaintext[:1]
        if kind == WHOLE:
            if not 0 < size <= FRAGMENT:
                raise BadMessage("a whole text has a wrong size")
            return memoryview(plaintext)[1:], True
        if kind == MORE:
            if size != FRAGMENT:
                raise BadMessage("a fragment has a wrong size")
        elif kind != LAST:
            raise BadMessage("a record of an unknown kind")
        elif not 0 < size <= FRAGMENT:
            raise BadMessage("a last fragment has a wrong size")
        self._size += size
        if self._size > self._largest:
            raise BadMessage("a message is too large")
        self._parts.append(memoryview(plaintext)[1:])
        if kind == MORE:
            return None
        parts, self._parts, self._size = self._parts, [], 0
        return (parts[0] if len(parts) == 1 else b"".join(parts)), False
