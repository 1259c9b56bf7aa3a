"""Forks, continuations and compaction over HTTP: their bodies and answers (chats.md 3.6 to 3.9)."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Struct, UnsetType

from garcon.contract.catalogs import AgentSettings, Protocol
from garcon.contract.chats import ChatListEntry, CommandAccepted, CommandBody, ParentChat


class _Body(Struct, frozen=True, rename="camel", kw_only=True):
    pass


class ForkChat(_Body, frozen=True, kw_only=True):
    """chats.md 3.6; `up_to_ordinal` and `transcript_view_id` only together."""

    source_chat_id: str
    chat_id: str
    up_to_ordinal: int | None = None
    transcript_view_id: str | None = None
    allow_handoff_fork: bool | None = None
    parent_chat: Any = UNSET
    """May not appear: it belongs to answers (decisions.md 27)."""


class ForkMade(_Body, frozen=True, kw_only=True):
    success: bool = True
    chat: ChatListEntry


class ContinueChat(CommandBody, frozen=True, kw_only=True):
    """chats.md 3.8: `chat_id` is the chat to be made; other members are ignored."""

    client_message_id: str
    source_chat_id: str
    command: str = ""
    images: list[dict[str, Any]] | None = None


class ForkRun(ContinueChat, frozen=True, kw_only=True):
    """chats.md 3.7; modes are read leniently, as those of a start."""

    allow_handoff_fork: bool | None = None
    user_message_presentation: dict[str, Any] | None = None
    model: str | UnsetType = UNSET
    api_provider_id: str | UnsetType | None = UNSET
    model_endpoint_id: str | UnsetType | None = UNSET
    model_protocol: Protocol | UnsetType | None = UNSET
    permission_mode: Any = UNSET
    thinking_mode: Any = UNSET
    agent_settings: AgentSettings | UnsetType = UNSET


class ForkRunAccepted(CommandAccepted, frozen=True, kw_only=True):
    chat: ChatListEntry | None
    parent_chat: ParentChat | None


class CompactChat(CommandBody, frozen=True, kw_only=True):
    instructions: str | None = None
