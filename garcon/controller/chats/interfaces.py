"""What the chats tell whoever follows them, synchronously, after the fact."""

from __future__ import annotations

from zope.interface import Interface

from garcon.contract.chats import Phase
from garcon.store.records import ChatRecord, Row


class IChatObserver(Interface):
    """Follows all chats.  Must not raise and must not block."""

    def rows_committed(chat_id: str, view_id: str, rows: tuple[Row, ...]) -> None:
        """These rows have become durable and visible."""

    def phase_changed(chat_id: str, phase: Phase | None) -> None:
        """The chat's processing phase may have changed to this."""

    def chat_started(record: ChatRecord) -> None:
        """A new chat's first turn was launched."""
