"""A long line decoded in steps, for a thread beside the reactor's.

A decoder that is called once for all of it holds the interpreter until it is done, in whatever
thread it runs.  Here no call sees more than a window of the line, a text that is longer excepted,
so that other threads get their turn in between.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any

from garcon.contract.limits import KIB
from garcon.runtime.agents.lines import storable

WINDOW = 256 * KIB
_DECODER: Any = json.JSONDecoder()
_scan_once: Callable[[str, int], tuple[Any, int]] = _DECODER.scan_once
_SPACE = re.compile(r"[ \t\n\r]*")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def decode_in_steps(line: bytes, window: int = WINDOW) -> dict[str, Any] | None:
    """Return the object a line holds, or None when it holds something else; as `lines.decode`."""
    text = line.decode("utf-8", "replace")
    steps = _Steps(text, window)
    try:
        value = steps.whole()
    except (ValueError, RecursionError):
        return None
    if _SURROGATE.search(text):
        value = storable(value)
    return value if isinstance(value, dict) else None


class _Steps:
    """Walks through a text; what fits into the window is left to the fast decoder."""

    def __init__(self, text: str, window: int) -> None:
        self._text = text
        self._size = window
        self._at = 0
        self._seen = ""
        self._base = 0

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
                return True, value

    def _move(self) -> None:
        self._base = self._at
        self._seen = self._text[self._at : self._at + self._size]

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
        text: str
        text, self._at = scanstring(self._text, self._at + 1, True)
        return text

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
