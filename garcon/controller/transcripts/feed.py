"""The live, unanswered permissions of one chat: what the transient feed shows (chats.md 4.19).
Empty after a restart.
"""

from __future__ import annotations

from garcon.contract.chats import TransientAnchor, TransientFeed, TransientRow
from garcon.contract.messages import PermissionRequest


class LivePermissions:
    """Live questions of a chat's running turn, in the order they were asked."""

    def __init__(self) -> None:
        self.revision = 0
        self._asked = 0
        self._rows: dict[str, TransientRow] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, run_id: str, view_id: str, ordinal: int, message: PermissionRequest) -> None:
        """Show a question whose row has become durable."""
        occurrence = message.permission_occurrence_id
        self._rows[occurrence] = TransientRow(
            permission_occurrence_id=occurrence,
            run_id=run_id,
            transcript=TransientAnchor(transcript_view_id=view_id, after_ordinal=ordinal),
            display_order=self._asked,
            message=message,
        )
        self._asked += 1
        self.revision += 1

    def remove(self, occurrence_id: str) -> bool:
        """Take a question away; returns whether it was live."""
        if self._rows.pop(occurrence_id, None) is None:
            return False
        self.revision += 1
        return True

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
