"""A chat's queue and its execution control, as every client sees them (chats.md 4.2 to 4.6)."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, Struct, UnsetType, field


class _Part(Struct, frozen=True, rename="camel", kw_only=True):
    pass


class QueueEntry(_Part, frozen=True, kw_only=True):
    """One queued message; `revision` counts its edits from 1."""

    id: str
    content: str
    revision: int
    created_at: str
    updated_at: str


class RecentlyDispatched(_Part, frozen=True, kw_only=True):
    entry_id: str
    revision: int
    dispatched_at: str


class QueuePause(_Part, frozen=True, kw_only=True):
    """Why nothing is dispatched.  `entry_id` names the entry of a failed or uncertain turn."""

    id: str
    kind: Literal["manual", "queued-turn-failed", "completion-uncertain", "unknown"]
    entry_id: str | UnsetType = UNSET
    paused_at: str | None


class QueueState(_Part, frozen=True, kw_only=True):
    """chats.md 4.5: `entries` in dispatch order, the one being steered included."""

    entries: list[QueueEntry] = field(default_factory=list)
    steering_entry_id: str | None = None
    recently_dispatched: list[RecentlyDispatched] = field(default_factory=list)
    pause: QueuePause | None = None
    reorder_revision: int = 0


class ExecutionControl(_Part, frozen=True, kw_only=True):
    """chats.md 4.6: `version` grows by one with every committed change."""

    server_instance_id: str
    queue: QueueState
    version: int = 0
    updated_at: str | None = None
