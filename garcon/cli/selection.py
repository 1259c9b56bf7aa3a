"""Choosing an agent, a model, its route and the modes from a catalog, as values in and out.

Everything here raises exit 2 for a choice that the catalog does not offer, and exit 3 for a
catalog that is not one.
"""

from __future__ import annotations

from garcon.cli.failures import BAD_REQUEST, CATALOG, OPERATIONAL, CommandFailure
from garcon.cli.table import BYPASS_MODES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LISTS = ("models", "supportedPermissionModes", "supportedThinkingModes", "supportedProtocols")
_SETTINGS = (
    "version",
    "features",
    "ui",
    "uiEffective",
    "paths",
    "pinnedChatIds",
    "recentAgentSettings",
    "executionDefaults",
    "projectBasePath",
    "telegram",
)


class Catalog:
    """The agents and API providers of one executor, checked for what the command reads."""

    def __init__(self, reply: dict[str, Any]) -> None:
        catalog = reply.get("catalog")
        if not isinstance(catalog, dict):
            raise _broken("the catalog is missing")
        self.agents = _entries(catalog, "agents")
        self.providers = _entries(catalog, "apiProviders")
        for agent in self.agents:
            _check_agent(agent)
        for provider in self.providers:
            _check_provider(provider)

    def agent(self, agent_id: str) -> dict[str, Any]:
        """Return an agent's entry."""
        for agent in self.agents:
            if agent["id"] == agent_id:
                return agent
        known = ", ".join(sorted(a["id"] for a in self.agents)) or "none"
        raise _no(f"there is no agent {agent_id!r} here (there is: {known})")

    def provider(self, name: str) -> dict[str, Any]:
        """Return a provider by id, or else by its exact label when only one has it."""
        for provider in self.providers:
            if provider["id"] == name:
                return provider
        labelled = [p for p in self.providers if p["label"] == name]
        if len(labelled) > 1:
            ids = ", ".join(p["id"] for p in labelled)
            raise _no(f"several providers are labelled {name!r}: name one by id ({ids})")
        if not labelled:
            raise _no(f"there is no API provider {name!r} here")
        return labelled[0]


class Selection:
    """A model and its route.  `routed` says whether the route is known, be it the native one."""

    __slots__ = ("endpoint_id", "model", "protocol", "provider_id", "routed")

    def __init__(
        self,
        model: str,
        provider_id: str | None = None,
        endpoint_id: str | None = None,
        protocol: str | None = None,
        routed: bool = True,
    ) -> None:
        self.model = model
        self.provider_id = provider_id
        self.endpoint_id = endpoint_id
        self.protocol = protocol
        self.routed = routed

    def fields(self) -> dict[str, Any]:
        """Return the request members of this choice."""
        if not self.routed:
            return {"model": self.model}
        return {
            "model": self.model,
            "apiProviderId": self.provider_id,
            "modelEndpointId": self.endpoint_id,
            "modelProtocol": self.protocol,
        }


def choose_model(
    catalog: Catalog,
    agent: dict[str, Any],
    model: str,
    provider: str | None = None,
    endpoint: str | None = None,
) -> Selection:
    """Return the model named by its value, or else by its raw name, within the filter."""
    provider_id = None
    if provider is not None:
        profile = catalog.provider(provider)
        provider_id = profile["id"]
        if endpoint is not None and not any(e["id"] == endpoint for e in profile["endpoints"]):
            raise _no(f"API provider {provider_id!r} has no endpoint {endpoint!r}")
    offered = [
        entry
        for entry in agent["models"]
        if (provider_id is None or entry.get("apiProviderId") == provider_id)
        and (endpoint is None or entry.get("endpointId") == endpoint)
    ]
    found = [e for e in offered if e["value"] == model]
    found = found or [e for e in offered if e.get("rawModel") == model]
    if len(found) > 1:
        values = ", ".join(e["value"] for e in found)
        raise _no(f"several models are called {model!r}: name one by its value ({values})")
    if found:
        entry = found[0]
        return Selection(
            entry.get("rawModel") or entry["value"],
            entry.get("apiProviderId"),
            entry.get("endpointId"),
            entry.get("protocol"),
        )
    if provider_id is not None:
        raise _no(f"model {model!r} is not offered there for agent {agent['id']!r}")
    if agent["requiresStrictModelDiscovery"]:
        raise _no(f"agent {agent['id']!r} has no model {model!r}")
    return Selection(model, routed=False)


class Defaults:
    """The stored execution defaults (control.md A.8)."""

    def __init__(self, settings: dict[str, Any]) -> None:
        stored = settings.get("executionDefaults")
        if any(name not in settings for name in _SETTINGS) or not isinstance(stored, dict):
            raise _broken("the settings are malformed")
        self._global = _object(stored.get("global"))
        self._by_agent = _object(stored.get("byAgent"))
        for part in (self._global, *self._by_agent.values()):
            _object(_object(part).get("agentSettingsById", {}))

    def mode(self, agent_id: str, name: str) -> str:
        """Return a mode's stored default: the agent's own, else the global one."""
        own = self._by_agent.get(agent_id, {}).get(name)
        value = own if own is not None else self._global.get(name)
        return value if isinstance(value, str) else ""

    def agent_settings(self, agent: dict[str, Any]) -> dict[str, Any]:
        """Return the stored settings envelope of an agent, else the agent's default."""
        agent_id: str = agent["id"]
        for part in (self._by_agent.get(agent_id, {}), self._global):
            envelope = part.get("agentSettingsById", {}).get(agent_id)
            if isinstance(envelope, dict) and envelope.get("ownerId") == agent_id:
                return envelope
        default: dict[str, Any] = agent["defaultSettings"]
        return default


def effective(stored: str, supported: list[str], last_resort: str) -> str:
    """Return a stored mode if it is supported, else the first supported one."""
    if stored in supported:
        return stored
    return supported[0] if supported else last_resort


def permission_mode(agent: dict[str, Any], asked: str | None, defaults: Defaults | None) -> str:
    """Return the permission mode; one that bypasses every question is never merely inherited."""
    supported = agent["supportedPermissionModes"]
    if asked is not None:
        return _supported(agent, asked, supported, "permission mode")
    stored = defaults.mode(agent["id"], "permissionMode") if defaults is not None else ""
    mode = effective(stored, supported, "default")
    if mode in BYPASS_MODES:
        raise _no(f"the default here is {mode}, which asks nothing: say --permissions {mode}")
    return mode


def reasoning_effort(agent: dict[str, Any], asked: str | None, defaults: Defaults | None) -> str:
    """Return the reasoning effort."""
    supported = agent["supportedThinkingModes"]
    if asked is not None:
        return _supported(agent, asked, supported, "reasoning effort")
    stored = defaults.mode(agent["id"], "thinkingMode") if defaults is not None else ""
    return effective(stored, supported, "none")


def _supported(agent: dict[str, Any], asked: str, supported: list[str], what: str) -> str:
    if asked not in supported:
        offered = ", ".join(supported) or "none"
        raise _no(f"agent {agent['id']!r} does not support {what} {asked} (it does: {offered})")
    return asked


def _check_agent(agent: dict[str, Any]) -> None:
    settings = agent.get("defaultSettings")
    fine = (
        all(isinstance(agent.get(name), str) for name in ("id", "label", "defaultModel"))
        and all(isinstance(agent.get(name), list) for name in _LISTS)
        and all(_is_model(model) for model in agent["models"])
        and isinstance(agent.get("acceptsApiProviderEndpoints"), bool)
        and isinstance(agent.get("requiresStrictModelDiscovery"), bool)
        and isinstance(settings, dict)
        and settings.get("ownerId") == agent["id"]
    )
    if not fine:
        raise _broken(f"the catalog's agent {agent.get('id')!r} is malformed")


def _is_model(model: object) -> bool:
    return (
        isinstance(model, dict)
        and isinstance(model.get("value"), str)
        and isinstance(model.get("label"), str)
    )


def _check_provider(provider: dict[str, Any]) -> None:
    endpoints = provider.get("endpoints")
    fine = (
        isinstance(provider.get("id"), str)
        and isinstance(provider.get("label"), str)
        and isinstance(endpoints, list)
        and all(isinstance(e, dict) and isinstance(e.get("id"), str) for e in endpoints)
    )
    if not fine:
        raise _broken(f"the catalog's API provider {provider.get('id')!r} is malformed")


def _entries(catalog: dict[str, Any], name: str) -> list[dict[str, Any]]:
    entries = catalog.get(name)
    if not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
        raise _broken(f"the catalog has no {name}")
    return entries


def _object(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _broken("the settings are malformed")
    return value


def _no(text: str) -> CommandFailure:
    return CommandFailure(CATALOG, text, BAD_REQUEST)


def _broken(text: str) -> CommandFailure:
    return CommandFailure(CATALOG, text, OPERATIONAL)
