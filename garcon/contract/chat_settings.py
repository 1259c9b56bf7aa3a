"""What a chat runs with, changed between its turns: modes, agent settings, model, project (chats.md
3.29).
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from garcon.contract.catalogs import AgentSettings


class _Part(Struct, frozen=True, rename="camel", kw_only=True):
    pass


class ChangeExecutionSettings(_Part, frozen=True, kw_only=True):
    """Modes are read leniently; `agent_settings_patch` holds the values to change."""

    chat_id: str
    permission_mode: Any = UNSET
    thinking_mode: Any = UNSET
    agent_settings_patch: dict[str, Any] | UnsetType = UNSET


class ExecutionSettingsChanged(_Part, frozen=True, kw_only=True):
    success: bool = True
    chat_id: str
    permission_mode: str
    thinking_mode: str
    agent_settings: AgentSettings


class ChangeModel(_Part, frozen=True, kw_only=True):
    """What is not sent of the routing stays as it is."""

    chat_id: str
    model: str
    api_provider_id: str | UnsetType | None = UNSET
    model_endpoint_id: str | UnsetType | None = UNSET
    model_protocol: Literal["anthropic-messages", "openai-compatible"] | UnsetType | None = UNSET


class ModelChanged(_Part, frozen=True, kw_only=True):
    """The routing members that were sent are answered."""

    success: bool = True
    chat_id: str
    model: str
    api_provider_id: str | UnsetType | None = UNSET
    model_endpoint_id: str | UnsetType | None = UNSET
    model_protocol: Literal["anthropic-messages", "openai-compatible"] | UnsetType | None = UNSET


class ChangeProjectPath(_Part, frozen=True, kw_only=True):
    chat_id: str
    project_path: str


class ProjectPathChanged(_Part, frozen=True, kw_only=True):
    success: bool = True
    chat_id: str
    project_path: str
    effective_project_key: str
    previous_project_path: str
    previous_effective_project_key: str | None
