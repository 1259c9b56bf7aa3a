"""JSON of others, bounded in what it becomes."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from garcon.contract.limits import KIB

T = TypeVar("T")

PARTS = 1_000_000
"""Lists and objects that one text may hold, counted by their opening brackets.  They take a quarter
of a second, while sixteen mebibytes can be so many that they take seconds of the reactor's thread
and half a gigabyte.

Brackets in strings count too, which is why it is so many: a file of 4 MiB with a bracket in every
fifth place is still no more than text.
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
