"""What a protocol core is handed with each message: it needs neither clock nor randomness."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from time import time_ns
from uuid import uuid4

from attrs import define


@define(eq=False)
class Stamp:
    """One moment: its time as rows show it, and an id no other moment has."""

    now: str
    _fresh_id: str = ""

    @property
    def fresh_id(self) -> str:
        """The id: made when it is first asked for, since most messages need none."""
        if not self._fresh_id:
            self._fresh_id = str(uuid4())
        return self._fresh_id


def stamp() -> Stamp:
    """Return the present moment, by the wall clock."""
    return Stamp(_shown(time_ns() // 1_000_000))


@lru_cache(maxsize=1)  # a crowd of messages comes within one millisecond
def _shown(milliseconds: int) -> str:
    seconds, rest = divmod(milliseconds, 1_000)
    whole = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    return f"{whole.removesuffix('+00:00')}.{rest:03}Z"
