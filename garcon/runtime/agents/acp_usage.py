"""What a turn of this protocol used of its model, as each agent tells it: with the answer to its
prompt, as the protocol says or in Gemini's own way, and by updates on the whole session.
"""

from __future__ import annotations

from typing import Any

from attrs import define

from garcon.contract.runs import Usage
from garcon.runtime.agents.acp_wire import an_object


@define
class SessionUsage:
    """What is known of a session; its money is counted from its beginning."""

    _cost: float | None = None
    _cost_before: float | None = 0.0
    _window: int | None = None

    def taken_up(self) -> None:
        """The session is an older one: what it cost before is no turn's of ours.  Where nobody has
        said how much that was, neither is known what the next turn costs.
        """
        self._cost_before = self._cost

    def updated(self, update: dict[str, Any]) -> None:
        """Take a ``usage_update``."""
        self._window = _count(update.get("size")) or self._window
        cost = an_object(update.get("cost"))
        amount = cost.get("amount")
        if cost.get("currency") == "USD" and isinstance(amount, int | float) and amount >= 0:
            self._cost = float(amount)

    def of_turn(self, result: dict[str, Any]) -> Usage | None:
        """Return what the turn used that an answer ends, None where nothing was told."""
        quota = an_object(an_object(result.get("_meta")).get("quota"))
        own = an_object(quota.get("token_count"))
        told = an_object(result.get("usage"))
        given = _count(told.get("inputTokens", own.get("input_tokens")))
        made = _count(told.get("outputTokens", own.get("output_tokens")))
        cost = None
        if self._cost is not None:
            if self._cost_before is not None:
                cost = max(0.0, self._cost - self._cost_before)
            self._cost_before = self._cost
        usage = Usage(
            input_tokens=given, output_tokens=made, cost_usd=cost, context_window=self._window
        )
        return None if usage == Usage() else usage


def _count(value: object) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return value if is_count and isinstance(value, int) else None
