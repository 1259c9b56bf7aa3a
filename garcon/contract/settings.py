"""The settings of a workspace: the snapshot that everyone reads, and the patch (control.md A.8, C;
server.md E.4).
"""

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


class AgentModes(_Part, frozen=True, kw_only=True, omit_defaults=True):
    """What one agent has instead of the global defaults; a member that is absent is not its own."""

    permission_mode: PermissionMode | None = None
    thinking_mode: ThinkingMode | None = None
    agent_settings_by_id: dict[str, AgentSettings] | None = None


class ExecutionDefaults(_Part, frozen=True, kw_only=True):
    global_: DefaultModes = field(name="global", default=DefaultModes())
    by_agent: dict[str, AgentModes] = field(name="byAgent", default_factory=dict)


class ProjectPaths(_Part, frozen=True, kw_only=True):
    """The remembered directories of one executor."""

    pinned_project_paths: list[str] = field(default_factory=list)
    browse_start_path: str = ""
    recent_project_paths: list[str] = field(default_factory=list)


class Paths(ProjectPaths, frozen=True, kw_only=True):
    """Those of Local, where readers of old look for them; `by_executor` has those of the others."""

    by_executor: dict[str, ProjectPaths] = field(default_factory=dict)


class RecentAgent(_Part, frozen=True, kw_only=True):
    """What a chat was started with; unique by all members together."""

    executor_id: str = "local"
    agent_id: str
    model: str
    api_provider_id: str | None = None
    model_endpoint_id: str | None = None
    model_protocol: str | None = None


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
    """control.md C.2.  `ui` holds only what was saved, `ui_effective` what comes of it."""

    version: int
    features: Features
    ui: dict[str, Any]
    ui_effective: dict[str, Any]
    paths: Paths
    pinned_chat_ids: list[str]
    recent_agent_settings: list[RecentAgent]
    execution_defaults: ExecutionDefaults
    project_base_path: str
    telegram: Telegram


class ChangeSettings(_Part, frozen=True, kw_only=True):
    """A patch; what it does not name stays.  `paths` may name an `executorId`, absent is Local."""

    features: dict[str, Any] | None = None
    ui: dict[str, Any] | None = None
    paths: dict[str, Any] | None = None
    execution_defaults: dict[str, Any] | None = None


class SettingsChanged(_Part, frozen=True, kw_only=True):
    success: bool
    settings: SettingsSnapshot
