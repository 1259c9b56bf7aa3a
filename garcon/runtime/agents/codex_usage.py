"""What a turn of Codex used: after each request it tells the totals of its thread, and what that
request used.
"""

from __future__ import annotations

from typing import Any

from attrs import define

from garcon.contract.runs import Usage
from garcon.runtime.agents.codex_wire import an_object


@define
class Spent:
    """Counts for one process; `context` is how much of its window the conversation takes now."""

    context: int | None = None
    _total: tuple[int, int] | None = None
    _given: int = 0
    _made: int = 0
    _window: int | None = None

    def take(self, used: dict[str, Any]) -> None:
        """Take what is told after a request."""
        last, told = an_object(used.get("last")), _tokens(an_object(used.get("total")))
        self.context = _count(last.get("totalTokens")) or self.context
        self._window = _count(used.get("modelContextWindow")) or self._window
        # The totals of a thread that is resumed include what was used before.
        before = self._total or tuple(a - b for a, b in zip(told, _tokens(last), strict=True))
        self._given += max(0, told[0] - before[0])
        self._made += max(0, told[1] - before[1])
        self._total = told

    def taken(self) -> Usage | None:
        """Return what came since the last call, None where that is nothing."""
        if not (self._given or self._made):
            return None
        usage = Usage(
            input_tokens=self._given, output_tokens=self._made, context_window=self._window
        )
        self._given = self._made = 0
        return usage


def _tokens(counted: dict[str, Any]) -> tuple[int, int]:
    return _count(counted.get("inputTokens")), _count(counted.get("outputTokens"))


def _count(value: Any) -> int:
    is_count = type(value) is int and 0 < value < 2**53
    return value if is_count else 0
