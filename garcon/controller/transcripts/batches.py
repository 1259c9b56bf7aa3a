"""The rows of one commit as they are told: in spans that join, each small enough for a socket
(server.md A.8, A.11).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attrs import define, field

from garcon.contract.events import ShownRow
from garcon.contract.limits import MIB
from garcon.controller.transcripts.rows import displayed, ended_turn
from garcon.store.records import Row

BATCH_BYTES = MIB
"""A socket that is sent more at once could be over its limit without any fault of its client's."""


@define
class Batch:
    """Rows `first` to `last` of a view: what they show, and the turn that ends with them."""

    view_id: str
    first: int
    last: int
    shown: list[ShownRow] = field(factory=list)
    turn_id: str | None = None
    _size: int = 0
    _has_input: bool = False

    def takes(self, row: Row) -> bool:
        """Whether a row may be told together with what is there.

        One message may have any size.  The end of a turn is never told together with an input: a
        client takes the turn that is named for the input's own.
        """
        if row.kind == "run-ended" and self._has_input:
            return False
        if row.kind == "user-input" and self.turn_id is not None:
            return False
        return self._size + len(row.payload) <= BATCH_BYTES

    def add(self, row: Row) -> None:
        """Take it."""
        self.last = row.ordinal
        self._size += len(row.payload)
        self._has_input = self._has_input or row.kind == "user-input"
        self.turn_id = ended_turn(row) or self.turn_id
        message = displayed(self.view_id, row)
        if message is not None:
            self.shown.append(message)


def batches(view_id: str, rows: Sequence[Row]) -> Iterator[Batch]:
    """Part the rows of a commit of a view."""
    batch: Batch | None = None
    for row in rows:
        if batch is not None and not batch.takes(row):
            yield batch
            batch = None
        if batch is None:
            batch = Batch(view_id, row.ordinal, row.ordinal)
        batch.add(row)
    if batch is not None:
        yield batch
