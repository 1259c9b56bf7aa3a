"""A view in the making: what earlier owners of the chat left, its session, and what its agent
remembers of that (server.md A.7).  In memory until it is whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from attrs import define, field

from garcon.contract.limits import MIB
from garcon.contract.runs import NativeRow
from garcon.controller.transcripts import rows
from garcon.controller.transcripts.rows import Draft
from garcon.errors import GarconError
from garcon.store.records import Row

REMADE_ROWS, REMADE_BYTES = 200_000, 256 * MIB
"""What one view may be remade of: it is written at once, and everybody else waits for that."""


@define(eq=False)
class RemadeView:
    """Rows that will be a view."""

    _drafts: list[Draft] = field(factory=list)
    _bytes: int = 0

    def __len__(self) -> int:
        return len(self._drafts)

    def keep(self, kept: Iterable[Row]) -> None:
        """Take rows over as they are, together with whatever identifies them."""
        for row in kept:
            self._add(Draft(row.kind, row.at, row.payload, row.client_message_id))

    def begin_session(self, at: str, agent_session_id: str) -> None:
        """What follows is of this session."""
        self._add(rows.session(at, agent_session_id))

    def take(self, remembered: Iterable[NativeRow]) -> None:
        """Take rows that an agent remembers."""
        for message in remembered:
            self._add(rows.imported(message))

    def placed(self) -> tuple[Row, ...]:
        """Return the rows of the view."""
        return tuple(draft.placed(n) for n, draft in enumerate(self._drafts, 1))

    def _add(self, draft: Draft) -> None:
        self._drafts.append(draft)
        self._bytes += len(draft.payload)
        if len(self._drafts) > REMADE_ROWS or self._bytes > REMADE_BYTES:
            raise GarconError(
                "HISTORY_LOAD_FAILED", "The history is too long to be loaded.", status=422
            )


def inherited(some: Sequence[Row]) -> int | None:
    """Return the last of these rows that belongs to an earlier owner, None where none does: all up
    to the row at which a chat changed hands.
    """
    return next((row.ordinal for row in reversed(some) if row.kind == "agent-switch"), None)
