"""An input on its way into a turn that runs."""

from __future__ import annotations

from attrs import define

from garcon.controller.chats.fields import first_line
from garcon.controller.transcripts.rows import Draft
from garcon.store.records import Row


@define(eq=False)
class SteeredInput:
    """The row that it will be.  `is_kept`: it belongs into the transcript; `is_durable`: it is
    there.
    """

    draft: Draft
    content: str
    is_kept: bool = False
    is_durable: bool = False

    @property
    def message_id(self) -> str:
        """Its identity in the transcript."""
        assert self.draft.client_message_id is not None
        return self.draft.client_message_id

    @property
    def preview(self) -> str | None:
        return first_line(self.content) or None

    def durable(self, row: Row) -> None:
        """Its row is committed."""
        self.is_durable = True
