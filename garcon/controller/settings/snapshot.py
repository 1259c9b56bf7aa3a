"""The application's settings as they can be read and changed so far (control.md C), and the
preambles.

Nothing is saved yet: every value is its default, and the one thing that can be asked for, the
search of transcripts, cannot be switched on before there is a search.
"""

from __future__ import annotations

from typing import Any

from garcon.contract import operations
from garcon.contract.executors import Preambles
from garcon.contract.settings import (
    ChangeSettings,
    ExecutionDefaults,
    Features,
    Paths,
    SettingsChanged,
    SettingsSnapshot,
    Telegram,
)
from garcon.controller.handlers import Call, Handlers
from garcon.errors import GarconError

_VERSION = 0


def _automatic(**more: Any) -> dict[str, Any]:
    return {
        **more,
        "agentId": "",
        "model": "",
        "thinkingMode": "none",
        "apiProviderId": None,
        "modelEndpointId": None,
        "modelProtocol": None,
        "source": "auto",
    }


class Settings:
    """Serve the settings and the preambles of one workspace."""

    def __init__(self, project_base: str) -> None:
        self._project_base = project_base

    def register(self, handlers: Handlers) -> None:
        """Serve them through `handlers`."""
        handlers.register(operations.READ_SETTINGS, lambda call: self.snapshot())
        handlers.register(operations.CHANGE_SETTINGS, self.change)
        handlers.register(operations.LIST_PREAMBLES, lambda call: Preambles(0, []))

    def snapshot(self) -> SettingsSnapshot:
        """Return all settings (control.md C.2)."""
        return SettingsSnapshot(
            version=_VERSION,
            features=Features(),
            ui={},
            ui_effective={
                "chatTitle": _automatic(enabled=False),
                "agentSwitchCompaction": _automatic(enabled=False, contextWindowTokens=500_000),
                "commitMessage": _automatic(),
                "promptRefinement": _automatic(),
            },
            paths=Paths(),
            pinned_chat_ids=[],
            recent_agent_settings=[],
            execution_defaults=ExecutionDefaults(),
            project_base_path=self._project_base,
            telegram=Telegram(),
        )

    def change(self, call: Call[Any, ChangeSettings]) -> SettingsChanged:
        """Apply a patch, whole or not at all."""
        if _wants_search(call.body):
            raise GarconError(
                "TRANSCRIPT_SEARCH_ENABLE_FAILED",
                "Transcript search is not available in this version; it stays off.",
                status=500,
            )
        return SettingsChanged(success=True, settings=self.snapshot())


def _wants_search(patch: ChangeSettings) -> bool:
    """Return what a patch says of the search, after refusing everything else in it."""
    if patch.ui or patch.paths:
        raise _invalid("only features.transcriptSearch.enabled can be changed")
    features = dict(patch.features or {})
    if "transcriptSearch" not in features:
        search: Any = {"enabled": False}
    else:
        search = features.pop("transcriptSearch")
    if features:
        raise _invalid("only features.transcriptSearch.enabled can be changed")
    if not isinstance(search, dict) or not isinstance(search.get("enabled"), bool):
        raise _invalid("features.transcriptSearch.enabled must be true or false")
    if len(search) > 1:
        raise _invalid("features.transcriptSearch holds nothing but enabled")
    return bool(search["enabled"])


def _invalid(text: str) -> GarconError:
    return GarconError("INVALID_REMOTE_SETTINGS", f"The settings do not fit: {text}.")
