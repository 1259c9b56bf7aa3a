"""What is saved of a user interface: checked, patched, and resolved against the agents there are
(control.md C.2 to C.4, server.md E.4).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from garcon.contract.catalogs import THINKING_MODES, AgentEntry
from garcon.contract.ids import is_executor_id
from garcon.errors import GarconError

TITLE_CHARACTERS = 120
PROMPT_CHARACTERS = 32_000
USER_PROMPT = "{{USER_PROMPT}}"
CONTEXT_WINDOWS = (200_000, 500_000, 1_000_000)
CONTEXT_WINDOW = 500_000
PROTOCOLS = ("openai-compatible", "anthropic-messages")
ENABLED = ("chatTitle", "agentSwitchCompaction")
GENERATIONS = ("chatTitle", "agentSwitchCompaction", "commitMessage", "promptRefinement")
"""What text is generated for; the first two can be switched off."""

_ID = re.compile(r"[a-z][a-z0-9_-]{1,63}")
_ROUTING = ("apiProviderId", "modelEndpointId", "modelProtocol")
_CHOICES = ("agentId", "model", *_ROUTING)


def invalid(text: str) -> GarconError:
    """A patch that does not fit; nothing of it was applied."""
    return GarconError("INVALID_REMOTE_SETTINGS", f"The settings do not fit: {text}.")


def patched(ui: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return `ui` with the keys of `patch` replaced as a whole; a null takes a key away."""
    changed = dict(ui)
    for key, value in patch.items():
        if value is None:
            changed.pop(key, None)
        else:
            changed[key] = _checked(key, value)
    return changed


def _checked(key: str, value: Any) -> Any:
    if key in GENERATIONS:
        return _generation(key, value)
    match key:
        case "pinnedInsertPosition":
            if value not in ("top", "bottom"):
                raise invalid("ui.pinnedInsertPosition is top or bottom")
        case "appIdentity":
            return {"title": _title(value.get("title") if isinstance(value, dict) else None)}
        case "notifications":
            telegram = value.get("telegram") if isinstance(value, dict) else None
            if not isinstance(telegram, dict) or not isinstance(telegram.get("enabled"), bool):
                raise invalid("ui.notifications.telegram.enabled is true or false")
    return value


def _title(title: Any) -> str:
    if not isinstance(title, str):
        raise GarconError("title_invalid", "The title must be a text.")
    trimmed = title.strip()
    if not trimmed:
        raise GarconError("title_required", "The title is empty.")
    if len(trimmed) > TITLE_CHARACTERS:
        raise GarconError(
            "title_too_long", f"The title is longer than {TITLE_CHARACTERS} characters."
        )
    return trimmed


def _generation(key: str, value: Any) -> dict[str, Any]:
    """Keep what is known of a selection; what is not is dropped silently, and so is a choice that
    is empty: that is how some clients say that there is none.
    """
    if not isinstance(value, dict):
        raise invalid(f"ui.{key} is an object")
    kept: dict[str, Any] = {}
    for name, said in value.items():
        if said is None or (said == "" and name in _CHOICES):
            continue
        if _keeps(key, name, said):
            kept[name] = said
    return kept


def _keeps(key: str, name: str, said: Any) -> bool:
    where = f"ui.{key}.{name}"
    match name:
        case "agentId" | "apiProviderId" | "modelEndpointId":
            fits = isinstance(said, str) and _ID.fullmatch(said) is not None
        case "executorId":
            fits = is_executor_id(said)
        case "model":
            fits = isinstance(said, str) and 0 < len(said) <= 512
        case "modelProtocol":
            fits = said in PROTOCOLS
        case "thinkingMode":
            fits = said in THINKING_MODES
        case "enabled" if key in ENABLED:
            fits = isinstance(said, bool)
        case "customPrompt" if key in ("commitMessage", "promptRefinement"):
            _check_prompt(key, said)
            fits = True
        case "useCommonDirPrefix" if key == "commitMessage":
            fits = isinstance(said, bool)
        case "contextWindowTokens" if key == "agentSwitchCompaction":
            fits = said in CONTEXT_WINDOWS
        case _:
            return False
    if not fits:
        raise invalid(f"{where} has a value that is not taken")
    return True


def _check_prompt(key: str, prompt: Any) -> None:
    if not isinstance(prompt, str) or len(prompt) > PROMPT_CHARACTERS:
        raise invalid(f"ui.{key}.customPrompt is a text of at most {PROMPT_CHARACTERS} characters")
    if key == "promptRefinement" and prompt.strip() and USER_PROMPT not in prompt:
        raise invalid(f"ui.{key}.customPrompt must contain {USER_PROMPT}")


def effective(ui: Mapping[str, Any], entries: Sequence[AgentEntry]) -> dict[str, Any]:
    """Return what every kind of generation would use (control.md C.3)."""
    return {key: _effective(key, ui.get(key) or {}, entries) for key in GENERATIONS}


def _effective(key: str, saved: Mapping[str, Any], entries: Sequence[AgentEntry]) -> dict[str, Any]:
    automatic = _automatic(entries)
    if "agentId" in saved:
        # One that is not there now stays the choice, and nobody knows what it offers.
        entry = next((one for one in entries if one.id == saved["agentId"]), None)
    else:
        entry = automatic or min(entries, key=lambda one: one.label, default=None)
    resolved: dict[str, Any] = {
        name: said for name, said in saved.items() if name not in ("enabled", *_ROUTING)
    }
    resolved["agentId"] = saved.get("agentId") or ("" if entry is None else entry.id)
    routing = {name: saved.get(name) for name in _ROUTING}
    model = saved.get("model") or ""
    if entry is not None and not _belongs(entry, model, routing):
        model, routing = _own_model(entry), dict.fromkeys(_ROUTING)
    resolved |= {"model": model, "thinkingMode": saved.get("thinkingMode", "none"), **routing}
    if key in ENABLED:
        resolved["enabled"] = saved.get("enabled", automatic is not None)
    if key == "agentSwitchCompaction":
        resolved.setdefault("contextWindowTokens", CONTEXT_WINDOW)
    is_manual = any(name in saved for name in ("enabled", "agentId", "model"))
    resolved["source"] = "manual" if is_manual else "auto"
    return resolved


def _automatic(entries: Sequence[AgentEntry]) -> AgentEntry | None:
    """The agent meant for generation that comes first; one that has no model at all is not
    ready.
    """
    fit = [one for one in entries if one.generation is not None and one.models]
    return min(fit, key=lambda one: one.generation.priority if one.generation else 0, default=None)


def _own_model(entry: AgentEntry) -> str:
    if entry.generation is not None and entry.generation.model:
        return entry.generation.model
    return entry.models[0].value if entry.models else entry.default_model


def _belongs(entry: AgentEntry, model: str, routing: Mapping[str, Any]) -> bool:
    """Whether a saved model is still one of the agent's, by the same route."""
    for one in entry.models:
        provider, endpoint = one.api_provider_id or None, one.endpoint_id or None
        if model in (one.value, one.raw_model) and (provider, endpoint) == (
            routing["apiProviderId"],
            routing["modelEndpointId"],
        ):
            return True
    return False
