"""The live, unanswered permissions of one chat: what the transient feed shows (chats.md 4.19).
Empty after a restart.
"""

from __future__ import annotations

from garcon.contract.chats import TransientAnchor, TransientFeed, TransientRow
from garcon.contract.events import ClearRun, Remove, Upsert
from garcon.contract.messages import PermissionRequest


class LivePermissions:
    """Live questions of a chat's running turn, in the order of their rows.

    Each change is a mutation that others may be told of (server.md A.10), and raises the revision
    by one.  A chat whose view is replaced gets new ones.
    """

    def __init__(self) -> None:
        self.revision = 0
        self._rows: dict[str, TransientRow] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, run_id: str, view_id: str, ordinal: int, message: PermissionRequest) -> Upsert:
        """Show a question whose row has become durable."""
        occurrence = message.permission_occurrence_id
        row = self._rows[occurrence] = TransientRow(
            permission_occurrence_id=occurrence,
            run_id=run_id,
            transcript=TransientAnchor(transcript_view_id=view_id, after_ordinal=ordinal),
            display_order=ordinal,
            message=message,
        )
        self.revision += 1
        return Upsert(row=row)

    def remove(self, occurrence_id: str) -> Remove | None:
        """Take a question away; None for one that is not live."""
        if self._rows.pop(occurrence_id, None) is None:
            return None
        self.revision += 1
        return Remove(permission_occurrence_id=occurrence_id)

    def clear_run(self, run_id: str) -> ClearRun | None:
        """Take away all that a run has asked, at once; None where there is nothing."""
        own = [key for key, row in self._rows.items() if row.run_id == run_id]
        if not own:
            return None
        for key in own:
            del self._rows[key]
        self.revision += 1
        return ClearRun(run_id=run_id)

    def run_of(self, occurrence_id: str) -> str | None:
        """Return the run that asks, or None for a question that is not live."""
        row = self._rows.get(occurrence_id)
        return None if row is None else row.run_id

    def shown(self, server_instance_id: str, chat_id: str, view_id: str) -> TransientFeed:
        return TransientFeed(
            server_instance_id=server_instance_id,
            chat_id=chat_id,
            transcript_view_id=view_id,
            transient_revision=self.revision,
            rows=list(self._rows.values()),
        )
