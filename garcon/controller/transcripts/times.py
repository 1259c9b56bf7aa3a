"""Instants as the contract spells them: UTC, milliseconds, ``Z`` (chats.md, conventions)."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache

_CANONICAL = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def iso(seconds: float) -> str:
    """Spell an instant given in seconds since the epoch."""
    whole, thousandths = divmod(round(seconds * 1e6) // 1_000, 1_000)
    return f"{_spelt(whole)}.{thousandths:03}Z"


@lru_cache(16)
def _spelt(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).isoformat(timespec="seconds")[:-6]


def is_canonical(text: str) -> bool:
    """Whether formatting the parsed instant again gives the same text."""
    if _CANONICAL.fullmatch(text) is None:
        return False
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True
