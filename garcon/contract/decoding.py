"""JSON of others, bounded in what it becomes."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from garcon.contract.limits import KIB

T = TypeVar("T")

PARTS = 500_000
"""Lists and objects that one text may hold, counted generously: by their opening brackets, also
those in strings.  A mebibyte can be three hundred thousand lists, and sixteen of them seconds of
the reactor's thread and half a gigabyte; nothing that is exchanged here has a tenth as many.
"""
_UNCOUNTED = 256 * KIB
"""What is no longer than this cannot hold so many."""


def decode(text: bytes, kind: type[T]) -> T:
    """Return JSON as a shape; raises `msgspec.DecodeError`, also for too many parts, and what else
    msgspec's own decoder does.
    """
    must_be_few(text)
    return msgspec.json.decode(text, type=kind)


def must_be_few(text: bytes) -> None:
    """Raise `msgspec.DecodeError` for a text with more than `PARTS` lists and objects."""
    if len(text) > _UNCOUNTED and text.count(b"[") + text.count(b"{") > PARTS:
        raise msgspec.DecodeError(f"JSON holds more than {PARTS} lists and objects")
