"""Commands on a chat's queue and on the turn that runs, with their answers (chats.md 3.12, 3.14 to
3.19a).
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from garcon.contract.chats import CommandAccepted, CommandBody, ParentChat
from garcon.contract.queues import ExecutionControl


class _Body(Struct, frozen=True, rename="camel", kw_only=True):
    pass


class QueueQuery(_Body, frozen=True, kw_only=True):
    chat_id: str = ""


class ChatControl(_Body, frozen=True, kw_only=True):
    """The queue as it is now; also what pausing, resuming and clearing answer."""

    success: bool = True
    chat_id: str
    control: ExecutionControl


class CreateEntry(CommandBody, frozen=True, kw_only=True):
    client_message_id: str
    transcript_view_id: str
    content: str
    excluded_resend_ordinals: list[int] | None = None


class ReplaceEntry(CommandBody, frozen=True, kw_only=True):
    entry_id: str
    content: str
    expected_revision: int


class DeleteEntry(CommandBody, frozen=True, kw_only=True):
    entry_id: str


class MoveEntry(CommandBody, frozen=True, kw_only=True):
    entry_id: str
    target_entry_id: str
    placement: Literal["before", "after"]
    expected_reorder_revision: int
    expected_source_revision: int
    expected_target_revision: int


class EntryAccepted(CommandAccepted, frozen=True, kw_only=True):
    entry_id: str
    control: ExecutionControl


class HoldQueue(_Body, frozen=True, kw_only=True):
    """Pause or clear."""

    chat_id: str


class ResumeQueue(_Body, frozen=True, kw_only=True):
    chat_id: str
    pause_id: str


class SteerChat(CommandBody, frozen=True, kw_only=True):
    client_message_id: str
    transcript_view_id: str
    content: str
    user_message_presentation: dict[str, Any] | None = None


class SteerAccepted(CommandAccepted, frozen=True, kw_only=True):
    parent_chat: ParentChat | None


class SteerEntry(CommandBody, frozen=True, kw_only=True):
    transcript_view_id: str
    entry_id: str
    expected_revision: int
    expected_reorder_revision: int


class EntrySteered(CommandAccepted, frozen=True, kw_only=True):
    """`control` is absent only when the chat is gone."""

    server_instance_id: str
    control: ExecutionControl | UnsetType = UNSET
