"""What a protocol core is handed with each message: it needs neither clock nor randomness."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import uuid4

from attrs import frozen


@frozen
class Stamp:
    """One moment: its time as rows show it, and an id no other moment has."""

    now: str
    fresh_id: str


def stamp() -> Stamp:
    """Return the present moment, by the wall clock."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return Stamp(now=now, fresh_id=str(uuid4()))
