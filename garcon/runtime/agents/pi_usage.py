"""What a turn of Pi used: each answer of the model tells its own tokens and their price."""

from __future__ import annotations

from attrs import define

from garcon.contract.runs import Usage
from garcon.runtime.agents.pi_wire import Message, an_object


@define
class Spent:
    """Counts for one process."""

    window: int | None = None
    _given: int = 0
    _made: int = 0
    _cost: float = 0.0

    def take(self, used: Message) -> None:
        """Take what an answer used; what was read from a cache was given, too."""
        self._given += sum(_count(used.get(n)) for n in ("input", "cacheRead", "cacheWrite"))
        self._made += _count(used.get("output"))
        cost = an_object(used.get("cost")).get("total")
        if isinstance(cost, int | float) and not isinstance(cost, bool) and 0 < cost < 1e9:
            self._cost += cost

    def taken(self) -> Usage | None:
        """Return what came since the last call, None where that is nothing."""
        if not (self._given or self._made):
            return None
        usage = Usage(
            input_tokens=self._given,
            output_tokens=self._made,
            cost_usd=self._cost or None,
            context_window=self.window,
        )
        self._given, self._made, self._cost = 0, 0, 0.0
        return usage


def _count(value: object) -> int:
    is_count = isinstance(value, int) and not isinstance(value, bool) and value > 0
    return value if is_count and isinstance(value, int) and value < 2**53 else 0
