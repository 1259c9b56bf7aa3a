"""Rows put into a transcript for people to see: appended even while a turn runs, and of no account
to anything else (chats.md 3.20, 5.13; decisions.md 29).
"""

from __future__ import annotations

import unicodedata
from typing import Any

from attrs import define, frozen
from msgspec import UNSET

from garcon.contract.chat_rows import (
    AddRow,
    RowAdded,
    RowsQuery,
    RowsView,
)
from garcon.contract.limits import ROW_BYTES, ROW_TITLE_CHARACTERS
from garcon.contract.messages import Style
from garcon.controller.chats import fields
from garcon.controller.chats.admission import unreadable
from garcon.controller.chats.ledger import conflict
from garcon.controller.chats.run import stale_view
from garcon.controller.chats.state import State
from garcon.controller.handlers import Call
from garcon.controller.transcripts.chat_rows import ChatRow, chat_row, stored_chat_row
from garcon.errors import validation
from garcon.store.interfaces import Damaged
from garcon.store.records import Row

_NOT_IN_A_LINE = frozenset({"Cc", "Zl", "Zp"})


@frozen
class _Wish:
    """A row whose fields are in order."""

    request_id: str
    message_id: str
    chat_id: str
    view_id: str
    row: ChatRow


@define(eq=False)
class ChatRows:
    """Serves ``GET`` and ``POST /chats/rows``."""

    _state: State

    def view(self, call: Call[RowsQuery, None]) -> RowsView:
        """Say into which view a row can be put."""
        chat = self._state.registry.get(fields.chat_id(call.query.chat_id))
        if chat.transcript.fenced is not None:
            raise unreadable(chat.transcript.fenced)
        return RowsView(chat_id=chat.id, transcript_view_id=chat.transcript.view_id)

    async def add(self, call: Call[Any, AddRow]) -> RowAdded:
        """Append a row; the same message again is the row that is there."""
        wish = _read(call.body)
        self._state.must_be_open()
        self._state.registry.get(wish.chat_id)
        return await self._state.lanes.run(wish.chat_id, lambda: self._add(wish))

    async def _add(self, wish: _Wish) -> RowAdded:
        chat = self._state.registry.get(wish.chat_id)
        transcript = chat.transcript
        if wish.view_id != transcript.view_id:
            raise stale_view()
        if chat.steer_under_way(wish.message_id) is not None:
            raise conflict("The message id is that of an input on its way to the agent.")
        try:
            present = await transcript.find(wish.message_id)
            if present is not None:
                stored = stored_chat_row(transcript.view_id, present)
                if stored is None or stored.look() != wish.row.look():
                    raise conflict("The message id was used for other content.")
                return _added(wish, present, "duplicate")
        except Damaged as damage:
            raise unreadable(damage) from None
        draft = chat_row(self._state.now(), wish.message_id, wish.row)
        (row,) = await transcript.append([draft])
        return _added(wish, row, "appended")


def _added(wish: _Wish, row: Row, status: Any) -> RowAdded:
    return RowAdded(
        client_request_id=wish.request_id,
        client_message_id=wish.message_id,
        chat_id=wish.chat_id,
        transcript_view_id=wish.view_id,
        ordinal=row.ordinal,
        type=wish.row.style.style,
        status=status,
        timestamp=row.at,
    )


def _read(body: AddRow) -> _Wish:
    if not body.content.strip():
        raise validation("content is required")
    if len(body.content.encode()) > ROW_BYTES:
        raise validation(f"content is longer than {ROW_BYTES} bytes")
    return _Wish(
        request_id=fields.client_id(body.client_request_id, "clientRequestId"),
        message_id=fields.client_id(body.client_message_id, "clientMessageId"),
        chat_id=fields.chat_id(body.chat_id),
        view_id=fields.required(body.transcript_view_id, "transcriptViewId"),
        row=ChatRow(
            style=_style(body),
            content=body.content,
            title=None if body.title is None else _title(body.title),
            disclosure=body.body_disclosure,
            format=body.format,
            is_styled=body.type not in ("notice", "error")
            or (body.body_disclosure, body.format) != ("expanded", "plain"),
        ),
    )


def _style(body: AddRow) -> Style:
    if body.presentation is UNSET:
        if body.type is UNSET:
            raise validation("a row needs type or presentation")
        return Style(style=body.type)
    if body.type not in (UNSET, body.presentation.style):
        raise validation("type and presentation are of different styles")
    return fields.style(body.presentation, "presentation")


def _title(title: str) -> str:
    trimmed = fields.required(title, "title")
    if len(trimmed) > ROW_TITLE_CHARACTERS:
        raise validation(f"title is longer than {ROW_TITLE_CHARACTERS} characters")
    if any(unicodedata.category(character) in _NOT_IN_A_LINE for character in trimmed):
        raise validation("title is not one line of text")
    return trimmed
