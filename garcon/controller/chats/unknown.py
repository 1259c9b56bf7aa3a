"""How often each agent said what this version does not know.  The text of it is kept as a hidden
row of the chat that it was said in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import ClassVar

from attrs import define, field
from twisted.logger import Logger

from garcon.contract.runs import UnknownEvent

KINDS = 1_000
"""Of which the log tells, each once."""


@define(eq=False)
class UnknownEvents:
    """Counts for one controller, since its start, whichever executor the agent runs on."""

    _log: ClassVar[Logger] = Logger()

    _counts: Counter[str] = field(factory=Counter)
    _told: set[tuple[str, str | None, str]] = field(factory=set)

    def seen(self, event: UnknownEvent) -> None:
        """Count it, and tell of it where it is the first of its kind."""
        self._counts[event.agent_id] += event.count
        kind = (event.agent_id, event.agent_version, event.kind)
        if kind not in self._told and len(self._told) < KINDS:
            self._told.add(kind)
            self._log.info(
                "the agent {agent} {version} says what is not known here: {kind}",
                agent=event.agent_id,
                version=event.agent_version or "",
                kind=event.kind,
            )

    def counts(self) -> Mapping[str, float]:
        """Return the counts by agent."""
        return dict(self._counts)
