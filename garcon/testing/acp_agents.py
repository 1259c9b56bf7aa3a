"""The pinned agents of the Agent Client Protocol for tests (`pinned_agents.py` installs them)."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from garcon.testing.npm_agents import NpmAgent


def _native_opencode(modules: Path) -> list[Path]:
    return [*sorted(modules.glob("opencode-linux-*/bin/opencode")), modules / ".bin" / "opencode"]


OPENCODE = NpmAgent(
    title="OpenCode",
    package="opencode-ai",
    version="1.18.33",
    folder="opencode",
    variable="GARCON_OPENCODE_CACHE",
    programs=_native_opencode,
    hashes={
        "opencode-ai": (
            "sha512-58P1ffLRXiAY4QeoABqUjqf6DEzm1ihpovvn9Ad+oOLbL"
            "iwK/rf88wruT9IATJ7AtNjmi8iA7pC8tN4o5y799Q=="
        ),
        "opencode-linux-x64": (
            "sha512-q/t/3p2CTxOT9y2kvjesb/LZab2+1eqlhhWA02Be6mjTt"
            "mYtNBcBsrI5yDo4Fw7ZSPBW2oyMIGMNRqiKQjiAWw=="
        ),
        "opencode-linux-x64-baseline": (
            "sha512-1KQGBiiDDeL/VHHbHkOvvFo8Jr97WT5+C1tear+p7IcDT"
            "nXgVHXqIjU4O4jM4mHQzykTP2i884FCnW5LDa+zCA=="
        ),
    },
)
GEMINI = NpmAgent(
    title="Gemini CLI",
    package="@google/gemini-cli",
    version="0.61.0",
    folder="gemini",
    variable="GARCON_GEMINI_CACHE",
    programs=lambda modules: [modules / ".bin" / "gemini"],
    hashes={
        "@google/gemini-cli": (
            "sha512-dbQ9A0qBtFJNi6XBkHvfZ6Azpn6PNgH/P8h2MZ67RLlX8"
            "hSAVjup39CRWqdRxZv7YXIuhrFaytr8y0jKnkoxnQ=="
        ),
    },
)
CLAUDE_CODE_ACP = NpmAgent(
    title="Claude Code by ACP",
    package="@zed-industries/claude-code-acp",
    version="0.16.2",
    folder="claude-code-acp",
    variable="GARCON_CLAUDE_CODE_ACP_CACHE",
    programs=lambda modules: [modules / ".bin" / "claude-code-acp"],
    tells_version=False,
    hashes={
        "@zed-industries/claude-code-acp": (
            "sha512-D8BJe6CCD49RtNFbZYPsfZOpQI8Z/EzhyYC9zAGMwN/HV"
            "unEtVY2sXqYl1iDSkkayzhqABfaDkDZfeqDM1T/aA=="
        ),
        "@agentclientprotocol/sdk": (
            "sha512-b6r3PS3Nly+Wyw9U+0nOr47bV8tfS476EgyEMhoKvJCZL"
            "bgqoDFN7DJwkxL88RR0aiOqOYV1ZnESHqb+RmdH8w=="
        ),
        "@anthropic-ai/claude-agent-sdk": (
            "sha512-bryUo6qq5dalO4MmhYLTPonTOAmdSVpMaVLJl8Y0qm6M7"
            "G+NZ3WS4cTMGrTbz97Uz5nah+FIOMA4hh8sKLm3YQ=="
        ),
    },
)

OPENCODE_MODEL = "scripted/m1"
GEMINI_MODEL = "gemini-2.5-pro"
"""One that it lists, and for which it asks no other model first which one to take."""


def opencode_environment(directory: str | os.PathLike[str], port: int) -> dict[str, str]:
    """Return the variables with which OpenCode talks to a pretend model server and to nobody else.
    Its home is made in `directory`.
    """
    options = {"baseURL": f"http://127.0.0.1:{port}/v1", "apiKey": "scripted"}
    limit = {"context": 100_000, "output": 10_000}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Scripted",
        "options": options,
        "models": {name: {"name": name.upper(), "limit": limit} for name in ("m1", "m2")},
    }
    config = {
        "provider": {"scripted": provider},
        "model": OPENCODE_MODEL,
        "small_model": OPENCODE_MODEL,
        "autoupdate": False,
        "share": "disabled",
    }
    return {
        "HOME": _made(directory),
        "OPENCODE_CONFIG_CONTENT": json.dumps(config),
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        # It would install a package of its own.
        "npm_config_offline": "true",
        "npm_config_registry": "http://127.0.0.1:9",
    }


def gemini_environment(directory: str | os.PathLike[str], port: int) -> dict[str, str]:
    """Return the variables with which Gemini CLI talks to a pretend model server and to nobody
    else.  Its home is made in `directory`.
    """
    settings: dict[str, Any] = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "general": {"enableAutoUpdate": False},
    }
    home = Path(_made(directory))
    (home / ".gemini").mkdir(exist_ok=True)
    (home / ".gemini" / "settings.json").write_text(json.dumps(settings))
    return {
        "HOME": str(home),
        "GOOGLE_GEMINI_BASE_URL": f"http://127.0.0.1:{port}",
        "GEMINI_API_KEY": "scripted",
    }


def _made(directory: str | os.PathLike[str]) -> str:
    Path(directory).mkdir(parents=True, exist_ok=True)
    return str(directory)
