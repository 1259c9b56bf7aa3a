"""A long line decoded in steps, for a thread beside the reactor's.

A decoder that is called once for all of it holds the interpreter until it is done, in whatever
thread it runs.  Here no call sees more than a window of the line, so that other threads get their
turn in between; what is left is to copy the pieces of a long text together.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator, Sequence
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any

from garcon.contract.limits import KIB, MIB
from garcon.runtime.agents.lines import decode, flatten, storable

LARGE_LINE = 4 * MIB
"""Longer ones are decoded in steps."""
WINDOW = 256 * KIB
_DECODER: Any = json.JSONDecoder()
_scan_once: Callable[[str, int], tuple[Any, int]] = _DECODER.scan_once
_SPACE = re.compile(r"[ \t\n\r]*")
# Of a text, as far as it is whole characters and escapes.
_ESCAPE = r"\\(?:[^u]|u[0-9a-fA-F]{4})"
_PIECE = re.compile(rf'(?:[^"\\]++|{_ESCAPE})*+', re.DOTALL)
_ONE = re.compile(rf'{_ESCAPE}|[^"\\]', re.DOTALL)
_HIGH = re.compile(r"\\u[dD][89abAB]..", re.DOTALL)
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def objects_in(path: str, most: int) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file that has one in each line; a line of more than `most` bytes, or
    one that is no object, is left out.  For a thread: it blocks.
    """
    with open(path, "rb") as file:
        while line := file.readline(most + 1):
            if len(line) > most:
                while line and not line.endswith(b"\n"):
                    line = file.readline(most)
                continue
            found = decode(line) if len(line) <= LARGE_LINE else decode_in_steps([line])
            if found is not None:
                yield found


def decode_in_steps(line: Sequence[bytes], window: int = WINDOW) -> dict[str, Any] | None:
    """Return the object a line holds that comes in pieces, or None when it holds something else; as
    `lines.decode`.
    """
    steps = _Steps(_text(line, window), window)
    try:
        value = steps.whole()
    except (ValueError, RecursionError):
        return None
    flatten(value)
    return value if isinstance(value, dict) else None


def _text(line: Sequence[bytes], window: int) -> str:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    pieces = [
        decoder.decode(piece[at : at + window])
        for piece in line
        for at in range(0, len(piece), window)
    ]
    return "".join([*pieces, decoder.decode(b"", True)])


class _Steps:
    """Walks through a text; what fits into the window is left to the fast decoder."""

    def __init__(self, text: str, window: int) -> None:
        self._text = text
        self._size = window
        self._at = 0
        self._seen = ""
        self._base = 0
        self._is_odd = False
        """What is seen may hold what no store could keep."""

    def whole(self) -> Any:
        """Return the value that the text is; raises `ValueError` where it is none."""
        value = self._value()
        if self._next():
            raise ValueError
        return value

    def _value(self) -> Any:
        first = self._next()
        if first == '"':
            return self._string()
        if first not in ("{", "["):
            return self._scan()
        found, value = self._small()
        if found:
            return value
        self._at += 1
        return self._object() if first == "{" else self._list()

    def _small(self) -> tuple[bool, Any]:
        """Decode what begins here if all of it is in the window, moved here where needed."""
        if not self._base <= self._at < self._base + len(self._seen):
            self._move()
        while True:
            try:
                value, end = _scan_once(self._seen, self._at - self._base)
            except (ValueError, StopIteration):
                if self._base == self._at:
                    return False, None
                self._move()
            else:
                self._at = self._base + end
                return True, storable(value) if self._is_odd else value

    def _move(self) -> None:
        self._base = self._at
        self._seen = self._text[self._at : self._at + self._size]
        self._is_odd = _SURROGATE.search(self._seen) is not None

    def _object(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self._took("}"):
            return found
        while True:
            if self._next() != '"':
                raise ValueError
            name = self._string()
            if not self._took(":"):
                raise ValueError
            found[name] = self._value()
            if self._took("}"):
                return found
            if not self._took(","):
                raise ValueError

    def _list(self) -> list[Any]:
        found: list[Any] = []
        if self._took("]"):
            return found
        while True:
            found.append(self._value())
            if self._took("]"):
                return found
            if not self._took(","):
                raise ValueError

    def _string(self) -> str:
        pieces: list[str] = []
        at = self._at + 1
        while True:
            end = self._end_of_piece(at)
            piece, _ = scanstring(f'{self._text[at:end]}"', 0, True)
            pieces.append(storable(piece) if _SURROGATE.search(self._text, at, end) else piece)
            if self._text[end : end + 1] == '"':
                self._at = end + 1
                return "".join(pieces)
            at = end

    def _end_of_piece(self, at: int) -> int:
        """Return where a piece of a text ends that is whole, at the latest before its closing mark,
        and is not the first half of a pair of surrogates.
        """
        text = self._text
        found = _PIECE.match(text, at, at + self._size)
        assert found is not None
        end = found.end()
        while text[end : end + 1] != '"' and (end == at or _HIGH.fullmatch(text, end - 6, end)):
            one = _ONE.match(text, end)
            if one is None:
                raise ValueError
            end = one.end()
        return end

    def _scan(self) -> Any:
        try:
            value, self._at = _scan_once(self._text, self._at)
        except StopIteration:
            raise ValueError from None
        return value

    def _next(self) -> str:
        """Return what comes after white space, empty at the end."""
        text, at = self._text, self._at
        if text[at : at + 1] in (" ", "\t", "\n", "\r"):
            space = _SPACE.match(text, at)
            assert space is not None
            self._at = at = space.end()
        return text[at : at + 1]

    def _took(self, wanted: str) -> bool:
        if self._next() != wanted:
            return False
        self._at += 1
        return True
