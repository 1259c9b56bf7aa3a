"""The settings snapshot and the one patch that exists so far (control.md A.8, C)."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from garcon.contract.catalogs import AgentSettings, PermissionMode, ThinkingMode


class _Part(Struct, frozen=True, rename="camel", kw_only=True):
    pass


class TranscriptSearch(_Part, frozen=True, kw_only=True):
    enabled: bool = False


class AgentCommands(_Part, frozen=True, kw_only=True):
    enabled: bool = True
    chat_id_discovery: bool = True
    send_message: bool = True
    sub_agents: bool = True
    tickets: bool = True


class Features(_Part, frozen=True, kw_only=True):
    transcript_search: TranscriptSearch = TranscriptSearch()
    agent_commands: AgentCommands = AgentCommands()


class DefaultModes(_Part, frozen=True, kw_only=True):
    permission_mode: PermissionMode = "default"
    thinking_mode: ThinkingMode = "none"
    agent_settings_by_id: dict[str, AgentSettings] = field(default_factory=dict)


class ExecutionDefaults(_Part, frozen=True, kw_only=True):
    global_: DefaultModes = field(name="global", default=DefaultModes())
    by_agent: dict[str, dict[str, Any]] = field(name="byAgent", default_factory=dict)


class Paths(_Part, frozen=True, kw_only=True):
    pinned_project_paths: list[Any] = field(default_factory=list)
    browse_start_path: str = ""
    recent_project_paths: list[Any] = field(default_factory=list)


class Telegram(_Part, frozen=True, kw_only=True):
    """Not offered; the shape is what readers demand."""

    bot_token_available: bool = False
    bot_username: str | None = None
    bot_first_name: str | None = None
    recipient_username: str | None = None
    recipient_display_name: str | None = None
    recipient_linked: bool = False
    pending_link: bool = False
    link_url: str | None = None


class SettingsSnapshot(_Part, frozen=True, kw_only=True):
    """control.md C.2."""

    version: int
    features: Features
    ui: dict[str, Any]
    ui_effective: dict[str, Any]
    paths: Paths
    pinned_chat_ids: list[str]
    recent_agent_settings: list[dict[str, Any]]
    execution_defaults: ExecutionDefaults
    project_base_path: str
    telegram: Telegram


class ChangeSettings(_Part, frozen=True, kw_only=True):
    features: dict[str, Any] | None = None
    ui: dict[str, Any] | None = None
    paths: dict[str, Any] | None = None


class SettingsChanged(_Part, frozen=True, kw_only=True):
    success: bool
    settings: SettingsSnapshot
