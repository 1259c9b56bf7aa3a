"""Chat rows as they are stored and shown: notices with a message identity of their own, which no
agent ever reads (chats.md 4.20, 4.21, 5.13; decisions.md 29).
"""

from __future__ import annotations

from typing import Any

import msgspec
from attrs import frozen
from msgspec import UNSET

from garcon.contract.chat_rows import Disclosure, Format
from garcon.contract.messages import ErrorMessage, RowDetail, Style, TranscriptNotice
from garcon.controller.transcripts.rows import Draft, chat_row_message
from garcon.store.records import Row

_DETAIL = RowDetail("cli-row")


@frozen
class ChatRow:
    """One row as its author wants it seen.  `is_styled`: asked for by a presentation, not by the
    two types that every reader knows.
    """

    style: Style
    content: str
    title: str | None = None
    disclosure: Disclosure = "expanded"
    format: Format = "plain"
    is_styled: bool = False

    def look(self) -> tuple[Any, ...]:
        """Return what makes it the same row, however it was asked for."""
        return (self.style, self.content, self.title, self.disclosure, self.format)


def chat_row(at: str, client_message_id: str, row: ChatRow) -> Draft:
    """Return the row to append; an ``error`` shows as an error, any other style as a notice."""
    members: dict[str, Any] = {"timestamp": at, "content": row.content, "detail": _DETAIL}
    if row.title is not None:
        members["title"] = row.title
    if row.is_styled:
        members |= {
            "presentation": row.style,
            "body_disclosure": row.disclosure,
            "format": row.format,
        }
    message: ErrorMessage | TranscriptNotice = (
        ErrorMessage(**members) if row.style.style == "error" else TranscriptNotice(**members)
    )
    return Draft("notice", at, msgspec.json.encode(message), client_message_id)


def stored_chat_row(view_id: str, row: Row) -> ChatRow | None:
    """Return the chat row that a row is, or None for any other; an illegible one is `Damaged`."""
    message = chat_row_message(view_id, row)
    if message is None:
        return None
    style = message.presentation
    return ChatRow(
        style=Style("error" if isinstance(message, ErrorMessage) else "notice")
        if style is UNSET
        else style,
        content=message.content,
        title=None if message.title is UNSET else message.title,
        disclosure="expanded" if message.body_disclosure is UNSET else message.body_disclosure,
        format="plain" if message.format is UNSET else message.format,
        is_styled=style is not UNSET,
    )
