"""The catalog entry of a coding agent that is a program of its own: what they have in common, and
what each of them adds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from garcon.contract.catalogs import (
    PERMISSION_MODES,
    THINKING_MODES,
    AgentEntry,
    AgentSettings,
    Model,
)


def program_entry(
    agent_id: str, label: str, description: str, models: Sequence[Model], **more: Any
) -> AgentEntry:
    """Return an entry: the first of `models` is the usual one, and `more` are members of the entry
    that are particular.
    """
    usual: dict[str, Any] = {
        "id": agent_id,
        "label": label,
        "description": description,
        "supports_compact": True,
        "supports_steering": True,
        "supports_update_project_path": True,
        "native_fork": "message",
        "supported_permission_modes": list(PERMISSION_MODES),
        "supported_thinking_modes": list(THINKING_MODES),
        "default_settings": AgentSettings(owner_id=agent_id, schema_version=1, values={}),
        "default_model": models[0].value if models else "",
        "models": list(models),
    }
    return AgentEntry(**(usual | more))
