"""What Codex is told on its command line: a profile's endpoint, of which what is secret goes by
variables, and the path of its commands.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from attrs import Factory, frozen

from garcon.contract.providers import ResolvedEndpoint
from garcon.runtime.agents.codex_opening import PROVIDER
from garcon.runtime.agents.direct_wire import openai_url

KEY, HEADER = "GARCON_CODEX_KEY", "GARCON_CODEX_HEADER_"
_NOWHERE = "http://127.0.0.1:9/v1"


@frozen
class Told:
    """Options for the command, and variables for the environment; these may be secret."""

    options: list[str]
    environment: dict[str, str] = Factory(dict)


def told(endpoint: ResolvedEndpoint | None) -> Told:
    """Return what tells Codex of an endpoint.

    The provider is named in any case: a thread that was begun with it can be opened only where
    there is one of that name, also to go on with another.
    """
    if endpoint is None:
        return Told(_options({"name": "Garcon", "base_url": _NOWHERE, "wire_api": "responses"}))
    base = openai_url(endpoint.base_url, "/responses").removesuffix("/responses")
    members: dict[str, str | dict[str, str]] = {
        "name": "Garcon",
        "base_url": base,
        "wire_api": "responses",
    }
    environment: dict[str, str] = {}
    if endpoint.api_key is not None:
        members["env_key"] = KEY
        environment[KEY] = endpoint.api_key
    variables = {}
    for number, (name, value) in enumerate(endpoint.headers.items(), 1):
        variables[name] = f"{HEADER}{number}"
        environment[f"{HEADER}{number}"] = value
    if variables:
        members["env_http_headers"] = variables
    options = [*_options(members), "-c", f"model_provider={_toml(PROVIDER)}"]
    return Told(options, environment)


def path_options(environment: Mapping[str, str]) -> list[str]:
    """Return what keeps the path of an environment.

    Codex runs commands by a login shell, and the system's profile forgets there what was added to
    the path, ``garcon`` among it.
    """
    path = environment.get("PATH")
    return [] if path is None else ["-c", f"shell_environment_policy.set.PATH={_toml(path)}"]


def _options(members: dict[str, str | dict[str, str]] | dict[str, str]) -> list[str]:
    table = ",".join(f"{name}={_toml(value)}" for name, value in members.items())
    return ["-c", f"model_providers.{PROVIDER}={{{table}}}"]


def _toml(value: str | dict[str, str]) -> str:
    """Return a value as TOML writes it, which for texts is how JSON does."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    inner = ",".join(f"{_toml(name)}={_toml(one)}" for name, one in value.items())
    return f"{{{inner}}}"
