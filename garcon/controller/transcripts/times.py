"""Instants as the contract spells them: UTC, milliseconds, ``Z`` (chats.md, conventions)."""

from __future__ import annotations

import re
from datetime import UTC, datetime

_CANONICAL = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def iso(seconds: float) -> str:
    """Spell an instant given in seconds since the epoch."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def is_canonical(text: str) -> bool:
    """Whether formatting the parsed instant again gives the same text."""
    if _CANONICAL.fullmatch(text) is None:
        return False
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True
