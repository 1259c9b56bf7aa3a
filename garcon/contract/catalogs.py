"""Agents, models and modes as catalogs show them (control.md 0, A)."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType, field

PermissionMode = Literal["default", "acceptEdits", "manualBypass", "bypassPermissions", "plan"]
PERMISSION_MODES: tuple[PermissionMode, ...] = (
    "default",
    "acceptEdits",
    "manualBypass",
    "bypassPermissions",
    "plan",
)
BYPASS_MODES = frozenset({"manualBypass", "bypassPermissions"})

ThinkingMode = Literal["none", "low", "medium", "high", "xhigh", "max", "ultra"]
THINKING_MODES: tuple[ThinkingMode, ...] = (
    "none",
    "low",
    "medium",
    "high",
    "xhigh",
    "max",
    "ultra",
)
THINKING_ALIASES = {
    "think": "low",
    "think-hard": "medium",
    "think-harder": "high",
    "ultrathink": "max",
}

Protocol = Literal["anthropic-messages", "openai-compatible"]

NativeForking = Literal["none", "session", "message"]
"""What an agent can fork of the session that it keeps: nothing, all of it, or all up to a message.
Where it cannot, a fork begins a session of its own, which is told what was said.
"""


class AgentSettings(Struct, frozen=True, rename="camel"):
    """The settings envelope of one agent; `owner_id` equals the agent's id (control.md A.5)."""

    owner_id: str
    schema_version: int
    values: dict[str, Any]


class Model(Struct, frozen=True, rename="camel"):
    value: str
    label: str
    supports_images: bool | UnsetType = UNSET
    is_local: bool | UnsetType = UNSET
    api_provider_id: str | UnsetType = UNSET
    endpoint_id: str | UnsetType = UNSET
    raw_model: str | UnsetType = UNSET
    protocol: Protocol | UnsetType = UNSET


class Generation(Struct, frozen=True, rename="camel"):
    priority: int
    model: str


class AgentEntry(Struct, frozen=True, rename="camel", kw_only=True):
    """One agent of one executor (control.md A.2)."""

    id: str
    label: str
    description: str | UnsetType = UNSET
    kind: Literal["agent"] = "agent"
    supports_compact: bool = False
    supports_fork: bool = True
    supports_fork_at_message: bool = True
    supports_fork_while_running: bool = True
    supports_update_project_path: bool = False
    requires_native_path_for_project_path_update: bool = False
    """It moves only with the session that it keeps on its executor."""
    supports_steering: bool = False
    supports_goals: bool = False
    native_fork: NativeForking = "none"
    needs_history: bool = False
    """The agent keeps no session: every launch has to carry the conversation."""
    supports_images: bool = False
    file_attachment_mime_types: list[str] = field(default_factory=list)
    accepts_api_provider_endpoints: bool = False
    supported_protocols: list[Protocol] = field(default_factory=list)
    auth_login_supported: bool = False
    supported_permission_modes: list[PermissionMode]
    supported_thinking_modes: list[ThinkingMode]
    settings: list[dict[str, Any]] = field(default_factory=list)
    default_settings: AgentSettings
    requires_strict_model_discovery: bool = False
    generation: Generation | None = None
    default_model: str
    models: list[Model]
