"""What a turn of Claude Code used: the sum of its results."""

from __future__ import annotations

from typing import Any

from attrs import define

from garcon.contract.runs import Usage
from garcon.runtime.agents.claude_lines import Message, as_object, number


@define
class Spent:
    """Counts for one process: costs are told as totals of the process, tokens by result."""

    _told: float = 0.0
    _cost: float = 0.0
    _given: int = 0
    _made: int = 0
    _window: int | None = None

    def take(self, result: Message) -> None:
        """Add what one result says."""
        used = as_object(result.get("usage"))
        for name in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"):
            self._given += _count(used.get(name))
        self._made += _count(used.get("output_tokens"))
        total = number(result.get("total_cost_usd"))
        if total is not None:
            self._cost += max(0.0, total - self._told)
            self._told = max(self._told, float(total))
        for model in as_object(result.get("modelUsage")).values():
            window = _count(as_object(model).get("contextWindow"))
            self._window = max(self._window or 0, window) or None

    def taken(self) -> Usage | None:
        """Return what came since the last call, None where that is nothing."""
        if not (self._given or self._made or self._cost):
            return None
        usage = Usage(
            input_tokens=self._given,
            output_tokens=self._made,
            cost_usd=round(self._cost, 6),
            context_window=self._window,
        )
        self._given = self._made = 0
        self._cost = 0.0
        return usage


def _count(value: Any) -> int:
    counted = number(value)
    return counted if isinstance(counted, int) and counted > 0 else 0
