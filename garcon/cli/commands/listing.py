"""`list`: what can be chosen on an executor (control.md I.5)."""

from __future__ import annotations

from garcon.cli import inputs
from garcon.cli.failures import (
    CATALOG,
    DONE,
    ApiError,
    BadAnswer,
    RuntimeReplaced,
    TransportFailure,
    bad_arguments,
    failure_of,
)
from garcon.cli.render import table
from garcon.cli.selection import Catalog, Defaults, effective
from garcon.contract.routes import LIST_PREAMBLES, MODELS, READ_SETTINGS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from garcon.cli.client import GarconClient
    from garcon.cli.invocation import Invocation
    from garcon.cli.options import Parsed

ALLOWED = {
    "agents": ("executor",),
    "preambles": (),
    "providers": ("agent", "executor"),
    "endpoints": ("agent", "provider", "endpoint", "executor"),
    "models": ("agent", "provider", "endpoint", "executor"),
    "permissions": ("agent", "executor"),
    "reasoning-efforts": ("agent", "executor"),
}
NEEDED = {
    "endpoints": ("provider",),
    "models": ("agent",),
    "permissions": ("agent",),
    "reasoning-efforts": ("agent",),
}


def run(invocation: Invocation) -> int:
    """List one resource as a table or as JSON."""
    parsed = invocation.parsed
    resource = parsed.operands[0]
    _check(parsed, resource)
    client = invocation.connect()
    try:
        found, rows = _found(client, parsed, resource)
    except (ApiError, TransportFailure, RuntimeReplaced) as e:
        raise failure_of(e, CATALOG) from None
    if invocation.json:
        invocation.print_json(found)
    else:
        invocation.system.out(table(rows[0], rows[1:]))
    return DONE


def _check(parsed: Parsed, resource: str) -> None:
    if resource not in ALLOWED:
        raise bad_arguments(f"`garcon list` knows: {', '.join(ALLOWED)}")
    for name in ("agent", "provider", "endpoint", "executor"):
        if inputs.optional(parsed, name) is not None and name not in ALLOWED[resource]:
            raise bad_arguments(f"`garcon list {resource}` takes no --{name}")
    for name in NEEDED.get(resource, ()):
        inputs.required(parsed, name)
    if parsed.text("endpoint") is not None and parsed.text("provider") is None:
        raise bad_arguments("--endpoint needs --provider")
    executor = parsed.text("executor")
    if executor is not None:
        inputs.executor_id(executor)


def _found(
    client: GarconClient, parsed: Parsed, resource: str
) -> tuple[dict[str, Any], list[list[str]]]:
    if resource == "preambles":
        return _preambles(client)
    executor = parsed.text("executor") or client.context.default_executor_id
    query = [("executorId", executor)]
    if resource == "models":
        # Names one agent, which makes that agent's discovery live.
        query.append(("agent", parsed.text("agent") or ""))
    catalog = Catalog(client.call(MODELS, query))
    if resource == "agents":
        return _agents(catalog)
    agent_id = parsed.text("agent")
    agent = catalog.agent(agent_id) if agent_id is not None else None
    if resource == "providers":
        return _providers(catalog, agent)
    if resource == "endpoints":
        return _endpoints(catalog, agent, parsed)
    assert agent is not None
    if resource == "models":
        return _models(catalog, agent, parsed)
    defaults = Defaults(client.call(READ_SETTINGS))
    if resource == "permissions":
        return _modes(
            agent,
            "supportedPermissionModes",
            effective(
                defaults.mode(agent["id"], "permissionMode"),
                agent["supportedPermissionModes"],
                "default",
            ),
            ("defaultPermission", "permissions", "PERMISSION"),
        )
    return _modes(
        agent,
        "supportedThinkingModes",
        effective(
            defaults.mode(agent["id"], "thinkingMode"), agent["supportedThinkingModes"], "none"
        ),
        ("defaultReasoningEffort", "reasoningEfforts", "REASONING EFFORT"),
    )


def _agents(catalog: Catalog) -> tuple[dict[str, Any], list[list[str]]]:
    agents = [
        {
            "id": agent["id"],
            "label": agent["label"],
            "description": agent.get("description"),
            "defaultModel": agent["defaultModel"],
            "acceptsApiProviders": agent["acceptsApiProviderEndpoints"],
            "supportedProtocols": agent["supportedProtocols"],
            "permissions": agent["supportedPermissionModes"],
            "reasoningEfforts": agent["supportedThinkingModes"],
        }
        for agent in catalog.agents
    ]
    rows = [[a["id"], a["label"], a["defaultModel"]] for a in agents]
    return {"agents": agents}, [["AGENT", "LABEL", "DEFAULT MODEL"], *rows]


def _usable(
    provider: dict[str, Any], agent: dict[str, Any] | None, endpoint_id: str | None = None
) -> list[dict[str, Any]]:
    """Return the endpoints of a provider that an agent can speak to; all of them without one."""
    if agent is not None and not agent["acceptsApiProviderEndpoints"]:
        return []
    return [
        endpoint
        for endpoint in provider["endpoints"]
        if (agent is None or endpoint.get("protocol") in agent["supportedProtocols"])
        and (endpoint_id is None or endpoint["id"] == endpoint_id)
    ]


def _providers(
    catalog: Catalog, agent: dict[str, Any] | None
) -> tuple[dict[str, Any], list[list[str]]]:
    providers = [
        {
            "id": provider["id"],
            "label": provider["label"],
            "endpoints": [endpoint["id"] for endpoint in _usable(provider, agent)],
        }
        for provider in catalog.providers
    ]
    if agent is not None:
        providers = [provider for provider in providers if provider["endpoints"]]
    rows = [[p["id"], p["label"], ", ".join(p["endpoints"])] for p in providers]
    found = {"agentId": agent["id"] if agent is not None else None, "providers": providers}
    return found, [["PROVIDER", "LABEL", "ENDPOINTS"], *rows]


def _endpoints(
    catalog: Catalog, agent: dict[str, Any] | None, parsed: Parsed
) -> tuple[dict[str, Any], list[list[str]]]:
    provider = catalog.provider(parsed.text("provider") or "")
    endpoints = [
        {
            "providerId": provider["id"],
            "id": endpoint["id"],
            "protocol": endpoint.get("protocol"),
            "defaultModel": endpoint.get("defaultModel"),
            "supportsImages": endpoint.get("supportsImages") is True,
            "hasApiKey": endpoint.get("hasApiKey") is True,
        }
        for endpoint in _usable(provider, agent, parsed.text("endpoint"))
    ]
    rows = [
        [e["providerId"], e["id"], e["protocol"] or "", e["defaultModel"] or ""] for e in endpoints
    ]
    found = {"agentId": agent["id"] if agent is not None else None, "endpoints": endpoints}
    return found, [["PROVIDER", "ENDPOINT", "PROTOCOL", "DEFAULT MODEL"], *rows]


def _models(
    catalog: Catalog, agent: dict[str, Any], parsed: Parsed
) -> tuple[dict[str, Any], list[list[str]]]:
    named, endpoint_id = parsed.text("provider"), parsed.text("endpoint")
    provider_id = catalog.provider(named)["id"] if named is not None else None
    default = agent["defaultModel"]
    models = [
        {
            "value": model["value"],
            "label": model["label"],
            "rawModel": model.get("rawModel") or model["value"],
            "providerId": model.get("apiProviderId"),
            "endpointId": model.get("endpointId"),
            "protocol": model.get("protocol"),
            "isDefault": model["value"] == default,
            "supportsImages": model.get("supportsImages", agent.get("supportsImages")) is True,
            "isLocal": model.get("isLocal") is True,
        }
        for model in agent["models"]
        if (provider_id is None or model.get("apiProviderId") == provider_id)
        and (endpoint_id is None or model.get("endpointId") == endpoint_id)
    ]
    rows = [
        [
            m["value"],
            m["label"],
            m["providerId"] or "native",
            m["endpointId"] or "",
            "yes" if m["isDefault"] else "",
        ]
        for m in models
    ]
    found = {"agentId": agent["id"], "defaultModel": default, "models": models}
    return found, [["MODEL", "LABEL", "PROVIDER", "ENDPOINT", "DEFAULT"], *rows]


def _modes(
    agent: dict[str, Any], supported: str, default: str, names: tuple[str, str, str]
) -> tuple[dict[str, Any], list[list[str]]]:
    modes: list[str] = agent[supported]
    rows = [[mode, "yes" if mode == default else ""] for mode in modes]
    found = {"agentId": agent["id"], names[0]: default, names[1]: modes}
    return found, [[names[2], "DEFAULT"], *rows]


def _preambles(client: GarconClient) -> tuple[dict[str, Any], list[list[str]]]:
    stored = client.call(LIST_PREAMBLES).get("preambles")
    if not isinstance(stored, list) or not all(isinstance(p, dict) for p in stored):
        raise BadAnswer("the preambles are malformed")
    preambles = [
        {name: preamble.get(name) for name in ("id", "title", "enabled", "scope")}
        for preamble in stored
    ]
    rows = [
        [
            str(p["id"]),
            str(p["title"]),
            "yes" if p["enabled"] is True else "no",
            _scope(p["scope"]),
        ]
        for p in preambles
    ]
    return {"preambles": preambles}, [["PREAMBLE", "TITLE", "ENABLED", "SCOPE"], *rows]


def _scope(scope: object) -> str:
    if not isinstance(scope, dict):
        return ""
    if scope.get("type") == "global":
        return "global"
    rules = scope.get("rules")
    paths = [str(r.get("projectPath")) for r in rules or [] if isinstance(r, dict)]
    return ", ".join(paths)
