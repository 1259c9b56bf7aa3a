"""Who may have a bridged request handled now: fixed pools, fail-fast, no queue (control.md F.4).

Pure.  Of the short slots bulk may take only a part, so that primary's small controls always find
one; long requests have their own, so that they never occupy the slots that polling needs.
"""

from __future__ import annotations

from collections import Counter
from typing import Literal

from attrs import define, field

from garcon.contract.limits import (
    POOL_LONG,
    POOL_LONG_TOTAL,
    POOL_SHORT,
    POOL_SHORT_BULK,
    POOL_SHORT_BULK_TOTAL,
    POOL_SHORT_TOTAL,
)
from garcon.contract.rpc import Lane

Pool = Literal["short", "short-bulk", "long"]

_PER_EXECUTOR: dict[Pool, int] = {
    "short": POOL_SHORT,
    "short-bulk": POOL_SHORT_BULK,
    "long": POOL_LONG,
}
_TOTAL: dict[Pool, int] = {
    "short": POOL_SHORT_TOTAL,
    "short-bulk": POOL_SHORT_BULK_TOTAL,
    "long": POOL_LONG_TOTAL,
}


@define(eq=False)
class Slot:
    """One request's place, kept until its handler has settled."""

    _pools: Pools
    _keys: tuple[tuple[str, Pool], ...]
    _is_free: bool = False

    def release(self) -> None:
        """Give it back; doing so again changes nothing."""
        if not self._is_free:
            self._is_free = True
            for key in self._keys:
                self._pools.used[key] -= 1


@define(eq=False)
class Pools:
    """The slots of all executors together.  The key ``""`` counts the total."""

    used: Counter[tuple[str, Pool]] = field(factory=Counter)

    def take(self, executor_id: str, pool: Literal["short", "long"], lane: Lane) -> Slot | None:
        """Take a slot, or None when there is none."""
        names: tuple[Pool, ...] = (pool,)
        if pool == "short" and lane is Lane.BULK:
            names = ("short", "short-bulk")
        own = [(executor_id, name) for name in names]
        shared = [("", name) for name in names]
        if any(self.used[key] >= _PER_EXECUTOR[key[1]] for key in own):
            return None
        if any(self.used[key] >= _TOTAL[key[1]] for key in shared):
            return None
        keys = (*own, *shared)
        for key in keys:
            self.used[key] += 1
        return Slot(self, keys)
