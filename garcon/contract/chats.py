"""Chats over HTTP: command bodies, replies, and what lists, snapshots, pages and receipts show
(chats.md 3, 4).
"""

from __future__ import annotations

from typing import Any, Generic, Literal, TypeVar

from msgspec import UNSET, Struct, UnsetType, field

from garcon.contract.catalogs import AgentSettings
from garcon.contract.messages import ChatMessage, PermissionRequest
from garcon.contract.queues import ExecutionControl

Phase = Literal["running", "stopping", "reconnecting"]

M = TypeVar("M")
"""How a page has its messages: as its readers take them apart, or as JSON that was made before."""


class _Body(Struct, frozen=True, rename="camel", kw_only=True):
    pass


class CommandBody(_Body, frozen=True, kw_only=True):
    client_request_id: str
    chat_id: str
    parent_chat: Any = UNSET
    """May not appear: it belongs to answers (decisions.md 27)."""


class StartChat(CommandBody, frozen=True, kw_only=True):
    """chats.md 3.4.  Lenient fields are `Any` and normalised by the handler; `options` may not
    appear.
    """

    client_message_id: str
    agent_id: str
    project_path: str
    model: str
    agent_settings: AgentSettings
    command: str = ""
    executor_id: str | None = None
    api_provider_id: str | None = None
    model_endpoint_id: str | None = None
    model_protocol: Literal["anthropic-messages", "openai-compatible"] | None = None
    permission_mode: Any = None
    thinking_mode: Any = None
    images: list[dict[str, Any]] | None = None
    tags: Any = None
    parent_chat_id: str | None = None
    ordered_preamble_ids: list[str] | None = None
    origin: Literal["interactive", "cli"] | None = None
    user_message_presentation: dict[str, Any] | None = None
    options: Any = UNSET


class RunChat(CommandBody, frozen=True, kw_only=True):
    """chats.md 3.5, with `expected_agent_ownership_epoch` for settings chosen from a catalog
    (contract/README.md).
    """

    client_message_id: str
    transcript_view_id: str
    command: str = ""
    images: list[dict[str, Any]] | None = None
    excluded_resend_ordinals: list[int] | None = None
    model: str | UnsetType = UNSET
    api_provider_id: str | UnsetType | None = UNSET
    model_endpoint_id: str | UnsetType | None = UNSET
    model_protocol: Literal["anthropic-messages", "openai-compatible"] | UnsetType | None = UNSET
    permission_mode: str | UnsetType = UNSET
    thinking_mode: str | UnsetType = UNSET
    agent_settings: AgentSettings | UnsetType = UNSET
    expected_agent_id: str | UnsetType = UNSET
    expected_agent_ownership_epoch: str | UnsetType = UNSET
    tags_to_add: list[Any] | None = None
    permission_fallback_policy: str | None = None
    handoff: dict[str, Any] | None = None
    user_message_presentation: dict[str, Any] | None = None


class StopChat(CommandBody, frozen=True, kw_only=True):
    agent_id: str | None = None


class DecisionControl(_Body, frozen=True, kw_only=True):
    server_instance_id: str
    chat_id: str
    run_id: str
    permission_occurrence_id: str


class DecidePermission(CommandBody, frozen=True, kw_only=True):
    permission_occurrence_id: str
    allow: bool
    always_allow: bool
    control: DecisionControl
    response: dict[str, Any] | None = None


class NameSession(_Body, frozen=True, kw_only=True):
    chat_id: str
    title: str


class NamedSession(_Body, frozen=True, kw_only=True):
    success: bool = True
    title: str
    changed: bool


class Activity(_Body, frozen=True, kw_only=True):
    created_at: str | None
    last_activity_at: str | None
    last_read_at: str | None


class Preview(_Body, frozen=True, kw_only=True):
    last_message: str
    first_message: str | UnsetType = UNSET


class ParentChat(_Body, frozen=True, kw_only=True):
    """decisions.md 27: the view and the ordinal say what a fork or a continuation was made of."""

    chat_id: str
    relation: Literal["delegation", "fork", "handoff"]
    transcript_view_id: str | UnsetType = UNSET
    ordinal: int | UnsetType = UNSET


class ChatListEntry(_Body, frozen=True, kw_only=True):
    """chats.md 4.1, with the executor (contract/README.md)."""

    id: str
    executor_id: str
    agent_id: str
    agent_ownership_epoch: str
    model: str | None
    api_provider_id: str | None
    model_endpoint_id: str | None
    model_protocol: str | None
    permission_mode: str
    thinking_mode: str
    agent_settings: AgentSettings
    title: str
    project_path: str
    effective_project_key: str
    order_group: Literal["pinned", "orphan", "normal", "archived"]
    tags: list[str]
    activity: Activity
    preview: Preview
    is_pinned: bool
    is_archived: bool
    is_active: bool
    is_processing: bool
    processing_phase: Phase | None
    can_reload_from_native_history: bool
    is_unread: bool
    parent_chat: ParentChat | None


class ChatList(_Body, frozen=True, kw_only=True):
    sessions: list[ChatListEntry]
    total: int
    last_selected_chat_id: str | None


class CommandAccepted(_Body, frozen=True, kw_only=True):
    """chats.md 2.5."""

    success: bool = True
    command_type: str
    client_request_id: str
    chat_id: str
    turn_id: str | UnsetType = UNSET
    status: Literal["accepted", "duplicate"]
    accepted_at: str


class StartAccepted(CommandAccepted, frozen=True, kw_only=True):
    chat: ChatListEntry | None
    parent_chat: ParentChat | None


class RunAccepted(CommandAccepted, frozen=True, kw_only=True):
    parent_chat: ParentChat | None
    chat: ChatListEntry | UnsetType = UNSET


class StopAccepted(CommandAccepted, frozen=True, kw_only=True):
    outcome: Literal["interrupt-requested", "already-idle", "failed"]
    control: ExecutionControl
    parent_chat: ParentChat | None


class TranscriptMessage(_Body, frozen=True, kw_only=True):
    ordinal: int
    message: ChatMessage


class ResendCandidate(_Body, frozen=True, kw_only=True):
    ordinal: int
    content: str
    attachment_names: list[str]


class MessagesQuery(_Body, frozen=True, kw_only=True):
    chat_id: str = ""
    limit: str | None = None
    before_ordinal: str | None = None
    transcript_view_id: str | None = None
    purpose: str | None = None


class HistoryComplete(_Body, frozen=True, kw_only=True):
    kind: Literal["complete"] = "complete"


class HistoryDegraded(_Body, frozen=True, kw_only=True):
    kind: Literal["degraded"] = "degraded"
    error_code: str
    retryable: bool


class HistoryOf(_Body, Generic[M], frozen=True, kw_only=True):
    """chats.md 4.9, complete."""

    history_state: HistoryComplete
    chat_id: str
    transcript_view_id: str
    messages: list[M]
    last_ordinal: int
    page_oldest_ordinal: int
    page_newest_ordinal: int
    next_before_ordinal: int | None
    has_more: bool
    resend_candidates: list[ResendCandidate]
    limit: int


class History(HistoryOf[TranscriptMessage], frozen=True, kw_only=True):
    """chats.md 4.9, complete."""


class UnavailableHistory(_Body, frozen=True, kw_only=True):
    history_state: HistoryDegraded
    chat_id: str
    messages: list[TranscriptMessage] = field(default_factory=list)


class SnapshotQuery(_Body, frozen=True, kw_only=True):
    chat_id: str = ""
    limit: str | None = None


class SnapshotActivity(_Body, frozen=True, kw_only=True):
    created_at: str | None
    last_activity_at: str | None


class SnapshotChat(_Body, frozen=True, kw_only=True):
    id: str
    title: str
    executor_id: str
    agent_id: str
    agent_ownership_epoch: str
    carry_over_revision: str = "carry-v1:0"
    model: str | None
    api_provider_id: str | None
    model_endpoint_id: str | None
    model_protocol: str | None
    permission_mode: str
    thinking_mode: str
    project_path: str
    tags: list[str]
    can_reload_from_native_history: bool
    activity: SnapshotActivity
    parent_chat: ParentChat | None


class TransientAnchor(_Body, frozen=True, kw_only=True):
    transcript_view_id: str
    after_ordinal: int


class TransientRow(_Body, frozen=True, kw_only=True):
    permission_occurrence_id: str
    run_id: str
    transcript: TransientAnchor
    display_order: int
    message: PermissionRequest


class TransientFeed(_Body, frozen=True, kw_only=True):
    server_instance_id: str
    chat_id: str
    transcript_view_id: str
    transient_revision: int
    rows: list[TransientRow]


class TranscriptNotRequested(_Body, frozen=True, kw_only=True):
    availability: Literal["not-requested"] = "not-requested"


class AvailableOf(_Body, Generic[M], frozen=True, kw_only=True):
    availability: Literal["available"] = "available"
    transcript_view_id: str
    messages: list[M]
    last_ordinal: int
    page_oldest_ordinal: int
    page_newest_ordinal: int
    next_before_ordinal: int | None
    has_more: bool


class TranscriptAvailable(AvailableOf[TranscriptMessage], frozen=True, kw_only=True):
    pass


class TranscriptUnavailable(_Body, frozen=True, kw_only=True):
    availability: Literal["unavailable"] = "unavailable"
    error_code: str
    retryable: bool
    message: str


class ChatSnapshot(_Body, frozen=True, kw_only=True):
    """chats.md 4.10."""

    observed_at: str
    message_limit: int
    chat: SnapshotChat
    processing_phase: Phase | None
    control: ExecutionControl
    transient_feed: TransientFeed
    transcript: Any
    """TranscriptNotRequested, TranscriptAvailable or TranscriptUnavailable."""


class ReceiptQuery(_Body, frozen=True, kw_only=True):
    chat_id: str = ""
    turn_id: str = ""


class TurnOutput(_Body, frozen=True, kw_only=True):
    """What a settled turn said.  Older readers take `assistant_messages`, newer ones `text`
    (control.md K12).
    """

    availability: Literal["available", "unavailable"]
    completeness: Literal["complete", "best-effort"] | UnsetType = UNSET
    text: str | UnsetType = UNSET
    assistant_messages: list[str] | UnsetType = UNSET
    reason: Literal["too-large", "retention-pressure", "no-final-response"] | UnsetType = UNSET


class TurnReceipt(_Body, frozen=True, kw_only=True):
    """chats.md 4.11."""

    chat_id: str
    turn_id: str
    client_request_id: str
    accepted_at: str
    updated_at: str
    state: Literal["pending", "completed", "failed", "interrupted"]
    settled_at: str | UnsetType = UNSET
    error: str | UnsetType = UNSET
    reason: Literal["user-stop", "chat-deleted"] | UnsetType = UNSET
    output: TurnOutput | UnsetType = UNSET
