"""What the controller tells every open browser socket, and what it answers on one (server.md A.8).

An existing client treats an unknown type or a malformed message as a fatal error: nothing but these
types goes out, in exactly these shapes.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, Raw, Struct, UnsetType, field

from garcon.contract.chats import (
    Phase,
    ResendCandidate,
    TransientFeed,
    TransientRow,
)
from garcon.contract.executors import ExecutorSnapshot
from garcon.contract.queues import ExecutionControl
from garcon.contract.settings import SettingsSnapshot


class _Event(Struct, frozen=True, rename="camel", tag_field="type", kw_only=True):
    pass


class ShownRow(Struct, frozen=True, rename="camel"):
    """A row that has something to show; `message` is the JSON of its ChatMessage, made once."""

    ordinal: int
    message: Raw


# Broadcasts, ordered within one chat (A.11)


class ChatMessages(_Event, frozen=True, tag="chat-messages", kw_only=True):
    """A committed batch: `first_ordinal` to `last_ordinal` are its raw rows, hidden ones included.

    `turn_id` only on the batch that ends a run; `resend_candidates` empty while processing.
    """

    chat_id: str
    transcript_view_id: str
    messages: list[ShownRow]
    first_ordinal: int
    last_ordinal: int
    resend_candidates: list[ResendCandidate] = field(default_factory=list)
    turn_id: str | UnsetType = UNSET


class ProcessingUpdated(_Event, frozen=True, tag="chat-processing-updated", kw_only=True):
    """`phase` is the one captured when the change happened; None is idle."""

    chat_id: str
    phase: Phase | None


class RunFinished(_Event, frozen=True, tag="agent-run-finished", kw_only=True):
    chat_id: str
    turn_id: str
    client_request_id: str


class RunFailed(_Event, frozen=True, tag="agent-run-failed", kw_only=True):
    chat_id: str
    error: str
    turn_id: str
    client_request_id: str


class SessionCreated(_Event, frozen=True, tag="chat-session-created", kw_only=True):
    """The agent has a session of its own for this chat."""

    chat_id: str


class SessionStopped(_Event, frozen=True, tag="chat-session-stopped", kw_only=True):
    chat_id: str
    outcome: Literal["interrupt-requested", "already-idle", "failed"]
    intent: Literal["stop", "interrupt-and-send", "chat-deletion"]


class TranscriptReplaced(_Event, frozen=True, tag="chat-transcript-replaced", kw_only=True):
    chat_id: str
    previous_transcript_view_id: str
    transcript_view_id: str
    last_ordinal: Literal[0] = 0


class Upsert(Struct, frozen=True, rename="camel", tag_field="kind", tag="upsert", kw_only=True):
    row: TransientRow


class Remove(Struct, frozen=True, rename="camel", tag_field="kind", tag="remove", kw_only=True):
    permission_occurrence_id: str


class ClearRun(
    Struct, frozen=True, rename="camel", tag_field="kind", tag="clear-run", kw_only=True
):
    run_id: str


Mutation = Upsert | Remove | ClearRun


class TransientFeedMutation(_Event, frozen=True, tag="chat-transient-feed-mutation", kw_only=True):
    """One change of a chat's pending permissions (A.10); the revision grows by one with each."""

    server_instance_id: str
    chat_id: str
    transcript_view_id: str
    transient_revision: int
    mutation: Mutation


# Broadcasts without an order of their own (A.11.7)


class ControlUpdated(_Event, frozen=True, tag="chat-execution-control-updated", kw_only=True):
    chat_id: str
    control: ExecutionControl


class SessionDeleted(_Event, frozen=True, tag="chat-session-deleted", kw_only=True):
    chat_id: str


class TitleUpdated(_Event, frozen=True, tag="chat-title-updated", kw_only=True):
    chat_id: str
    title: str


class ReadUpdated(_Event, frozen=True, tag="chat-read-updated-v1", kw_only=True):
    chat_id: str
    last_read_at: str


class ProjectPathUpdated(_Event, frozen=True, tag="chat-project-path-updated", kw_only=True):
    chat_id: str
    project_path: str
    effective_project_key: str
    previous_project_path: str
    previous_effective_project_key: str | None


class OperationalNotice(_Event, frozen=True, tag="chat-operational-notice", kw_only=True):
    """Never stored and never replayed."""

    chat_id: str
    content: str
    notice_type: Literal["warning", "error"]
    timestamp: str


class ListRefreshRequested(_Event, frozen=True, tag="chat-list-refresh-requested", kw_only=True):
    chat_id: str
    reason: Literal[
        "chat-added",
        "pinned-toggled",
        "archive-toggled",
        "tags-updated",
        "chats-reordered",
        "agent-handoff",
    ]


class SettingsUpdated(_Event, frozen=True, tag="settings-changed", kw_only=True):
    settings: SettingsSnapshot


# Only for clients that also offered the newer protocol (decisions.md 14)


class ExecutorsChanged(_Event, frozen=True, tag="executors-changed", kw_only=True):
    """All executors, as they are now."""

    executors: list[ExecutorSnapshot]


NEWER_ONLY = (ExecutorsChanged,)
"""Older clients take a type they do not know for a broken connection."""

Event = (
    ChatMessages
    | ProcessingUpdated
    | RunFinished
    | RunFailed
    | SessionCreated
    | SessionStopped
    | TranscriptReplaced
    | TransientFeedMutation
    | ControlUpdated
    | SessionDeleted
    | TitleUpdated
    | ReadUpdated
    | ProjectPathUpdated
    | OperationalNotice
    | ListRefreshRequested
    | SettingsUpdated
    | ExecutorsChanged
)
"""What every open socket is told."""


# Answers on one socket


class ProcessingChat(Struct, frozen=True, rename="camel"):
    chat_id: str
    phase: Phase


class ProcessingSnapshot(Struct, frozen=True, rename="camel", kw_only=True):
    """Every chat that is not idle, once, by id."""

    outcome: Literal["snapshot", "unavailable"] = "snapshot"
    chats: list[ProcessingChat] | UnsetType = UNSET


class ControlResult(Struct, frozen=True, rename="camel", kw_only=True):
    chat_id: str
    outcome: Literal["snapshot", "not-found", "unavailable"]
    control: ExecutionControl | UnsetType = UNSET


class Pong(_Event, frozen=True, tag="ws-pong", kw_only=True):
    client_request_id: str
    sent_at: Any
    server_time: str
    processing: ProcessingSnapshot
    server_instance_id: str


class ReconnectState(_Event, frozen=True, tag="reconnect-state", kw_only=True):
    processing: ProcessingSnapshot
    control_results: list[ControlResult]
    server_instance_id: str
    client_request_id: str | UnsetType = UNSET


class Fault(_Event, frozen=True, tag="ws-fault", kw_only=True):
    error: str


class ClientRequestError(_Event, frozen=True, tag="client-request-error", kw_only=True):
    client_request_id: str
    request_type: str
    code: str
    message: str
    retryable: bool
    chat_id: str | UnsetType = UNSET


class Subscribed(_Event, frozen=True, tag="chat-subscribed", kw_only=True):
    """One page of a bounded replay (A.6)."""

    client_request_id: str
    chat_id: str
    transcript_view_id: str
    messages: list[ShownRow]
    first_ordinal: int
    last_ordinal: int
    next_after_ordinal: int
    through_ordinal: int
    has_more: bool
    resend_candidates: list[ResendCandidate]
    transient_feed: TransientFeed


class Reloaded(_Event, frozen=True, tag="chat-reloaded", kw_only=True):
    """The newest page of the view that replaced another (A.7)."""

    client_request_id: str
    chat_id: str
    transcript_view_id: str
    messages: list[ShownRow]
    last_ordinal: int
    page_oldest_ordinal: int
    page_newest_ordinal: int
    next_before_ordinal: int | None
    has_more: bool


class ReloadProgress(_Event, frozen=True, tag="chat-reload-progress", kw_only=True):
    client_request_id: str
    chat_id: str
    phase: Literal["reading", "saving"]
    rows: int


Answer = Pong | ReconnectState | Fault | ClientRequestError | Subscribed | Reloaded | ReloadProgress
"""What the socket that asked is told."""
