"""How Pi is pointed at an endpoint of a profile: by a variable, which our extension reads and takes
away again, so that no command of the model inherits it.
"""

from __future__ import annotations

import json
from typing import Any

from garcon.contract.providers import ResolvedEndpoint

VARIABLE = "GARCON_PI_ENDPOINT"
CONTEXT, MOST_SAID = 128_000, 16_384
"""Tokens that Pi reckons with where nothing is known of a model."""


def variables(endpoint: ResolvedEndpoint, model: str, *, thinks: bool) -> dict[str, str]:
    """Return the variable for one model of an endpoint.  An effort is sent if it `thinks`."""
    base = endpoint.base_url.rstrip("/")
    offered = endpoint.capabilities
    if endpoint.protocol == "anthropic-messages":
        api, base = "anthropic-messages", base.removesuffix("/v1")
    elif offered is not None and offered.responses and not offered.chat_completions:
        api = "openai-responses"
    else:
        api = "openai-completions"
    provider: dict[str, Any] = {
        "name": "Garcon",
        "baseUrl": base,
        "api": api,
        # Without any key Pi does not offer the model.
        "apiKey": literal(endpoint.api_key or "none"),
        "headers": {name: literal(value) for name, value in endpoint.headers.items()},
        "models": [
            {
                "id": model,
                "name": model,
                "reasoning": thinks,
                "input": ["text", "image"],
                "cost": dict.fromkeys(("input", "output", "cacheRead", "cacheWrite"), 0),
                "contextWindow": CONTEXT,
                "maxTokens": MOST_SAID,
            }
        ],
    }
    return {VARIABLE: json.dumps(provider)}


def literal(value: str) -> str:
    """Return a text that Pi takes as it is: to it ``$NAME`` is a variable, and ``!`` at the
    beginning a command to run.
    """
    quoted = value.replace("$", "$$")
    return f"${quoted}" if quoted.startswith("!") else quoted
