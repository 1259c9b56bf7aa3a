"""Bytes into JSON lines, of any length: splitting as values, decoding that survives what agents
really write.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from attrs import define, field
from msgspec import DecodeError
from msgspec import json as fast_json

DEPTH = 200
"""Levels of a value.  What writes one down again has a bound as well, which moves with what called
it: far below it nothing is lost on the way.
"""
TOO_DEEP = "[nested too deeply]"


class LineTooLong(Exception):
    """A line is longer than any may be."""


@define
class Lines:
    """Join what a pipe delivers into whole lines.  Long lines cost one copy, however many pieces
    they come in, and large ones none: they are left in their pieces, for a thread to take.
    """

    most: int
    """Bytes of one line."""
    large: int = sys.maxsize
    """Lines of more bytes are lists of their pieces."""
    _pieces: list[bytes] = field(factory=list)
    _size: int = 0

    def feed(self, data: bytes) -> list[bytes | list[bytes]]:
        """Take the next piece and return the lines that are complete now, without line ends.

        After a `LineTooLong` nothing more can be taken.
        """
        head, *rest = data.split(b"\n")
        self._size += len(head)
        if self._size > self.most or any(len(line) > self.most for line in rest):
            raise LineTooLong
        self._pieces.append(head)
        if not rest:
            return []
        first = self._taken()
        self._pieces = [rest.pop()]
        self._size = len(self._pieces[0])
        return [first, *(line if len(line) <= self.large else [line] for line in rest)]

    def rest(self) -> bytes | list[bytes]:
        """Return what came after the last line end; the writer is gone."""
        left = self._taken()
        self._pieces, self._size = [], 0
        return left

    def _taken(self) -> bytes | list[bytes]:
        return b"".join(self._pieces) if self._size <= self.large else self._pieces


def decode(line: bytes) -> dict[str, Any] | None:
    """Return the object a line holds, or None when it holds something else.

    Unpaired surrogates, which JavaScript may write, become replacement characters: no store could
    keep them.
    """
    if line[:64].lstrip()[:1] not in (b"{", b""):
        return None  # soon told, as programs that log to their output do so much
    try:
        value = fast_json.decode(line)
    except (DecodeError, UnicodeDecodeError, RecursionError):
        try:
            value = storable(json.loads(line.decode("utf-8", "replace")))
        except (ValueError, RecursionError):
            return None
    if line.count(b"{") + line.count(b"[") > DEPTH:
        flatten(value)
    return value if isinstance(value, dict) else None


def flatten(value: Any) -> None:
    """Put a word in the place of all that stands deeper in a value than `DEPTH`."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(DEPTH - 1):
        level = [member for holder in level for member in _members(holder)]
        if not level:
            return
    for holder in level:
        for key, member in list(holder.items() if isinstance(holder, dict) else enumerate(holder)):
            if isinstance(member, dict | list):
                holder[key] = TOO_DEEP


def _members(holder: Any) -> list[Any]:
    found = holder.values() if isinstance(holder, dict) else holder
    return [one for one in found if isinstance(one, dict | list)]


def encode(message: dict[str, Any]) -> bytes:
    """Return a message as one line."""
    return fast_json.encode(message) + b"\n"


def storable(value: Any) -> Any:
    """Return a value with replacement characters for unpaired surrogates."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [storable(item) for item in value]
    if isinstance(value, dict):
        return {storable(key): storable(item) for key, item in value.items()}
    return value
