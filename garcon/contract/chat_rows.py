"""Rows that are put into a transcript for people to see, and for nothing else (chats.md 3.20, 5.13;
decisions.md 29).
"""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from garcon.contract.messages import Style

RowType = Literal["info", "notice", "error", "custom"]
"""How a row looks: older callers know ``notice`` and ``error`` only."""
Format = Literal["plain", "markdown"]
Disclosure = Literal["expanded", "collapsed"]


class _Part(Struct, frozen=True, rename="camel", kw_only=True):
    pass


class RowsQuery(_Part, frozen=True, kw_only=True):
    chat_id: str = ""


class RowsView(_Part, frozen=True, kw_only=True):
    success: bool = True
    chat_id: str
    transcript_view_id: str


class AddRow(_Part, frozen=True, kw_only=True):
    """One row.  It says how it looks by `type`, or by `presentation` as messages do."""

    client_request_id: str
    client_message_id: str
    chat_id: str
    transcript_view_id: str
    content: str
    type: Literal["info", "notice", "error"] | UnsetType = UNSET
    presentation: Style | UnsetType = UNSET
    title: str | None = None
    body_disclosure: Disclosure = "expanded"
    format: Format = "plain"


class RowAdded(_Part, frozen=True, kw_only=True):
    """`type` is the style; the row of an ``error`` is an error, any other a notice."""

    success: bool = True
    command_type: Literal["chat-row-add"] = "chat-row-add"
    client_request_id: str
    client_message_id: str
    chat_id: str
    transcript_view_id: str
    ordinal: int
    type: RowType
    status: Literal["appended", "duplicate"]
    timestamp: str
