"""How OpenCode is pointed at an endpoint: by a configuration in its environment, with one provider
of our own and its one model.
"""

from __future__ import annotations

import json
from typing import Any

from attrs import frozen

from garcon.contract.catalogs import Protocol
from garcon.contract.providers import ResolvedEndpoint

VARIABLE = "OPENCODE_CONFIG_CONTENT"
PROVIDER = "garcon"
_PACKAGES = {
    "openai-compatible": "@ai-sdk/openai-compatible",
    "anthropic-messages": "@ai-sdk/anthropic",
}


@frozen
class OpencodeVariables:
    """The variable by which the models of an endpoint are reached."""

    protocols: tuple[Protocol, ...] = ("openai-compatible", "anthropic-messages")

    def filled(self, endpoint: ResolvedEndpoint, model: str) -> dict[str, str]:
        """Return it for one endpoint and a model; its side requests go to the same model."""
        base = endpoint.base_url.rstrip("/")
        if endpoint.protocol == "anthropic-messages":
            base = f"{base.removesuffix('/v1')}/v1"
        options: dict[str, Any] = {"baseURL": base, "headers": dict(endpoint.headers)}
        if endpoint.api_key is not None:
            options["apiKey"] = endpoint.api_key
        listed = {
            "name": model,
            "attachment": True,
            "tool_call": True,
            "modalities": {"input": ["text", "image"], "output": ["text"]},
        }
        provider = {
            "npm": _PACKAGES[endpoint.protocol],
            "name": "Garcon",
            "options": options,
            "models": {model: listed},
        }
        chosen = f"{PROVIDER}/{model}"
        config = {"provider": {PROVIDER: provider}, "model": chosen, "small_model": chosen}
        return {VARIABLE: json.dumps(config, ensure_ascii=False)}


OPENCODE_ENDPOINT = OpencodeVariables()
