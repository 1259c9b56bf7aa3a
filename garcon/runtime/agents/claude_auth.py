"""What Claude Code says of its own account (``claude auth status``), as the contract shows it."""

from __future__ import annotations

from typing import Any

import msgspec

from garcon.contract.agents import AgentAuth

COMMAND = ("auth", "status", "--json")
TIME = 10.0
UNKNOWN = AgentAuth(authenticated=False, label="Claude Code does not say", source="agent")


def read_status(output: bytes | None) -> AgentAuth:
    """Read what was printed; None and anything unknown is an account that cannot be told."""
    try:
        said: Any = msgspec.json.decode(output or b"")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return UNKNOWN
    if not isinstance(said, dict) or not isinstance(said.get("loggedIn"), bool):
        return UNKNOWN
    if not said["loggedIn"]:
        return AgentAuth(authenticated=False, label="Not signed in", source="agent")
    named = [said.get(name) for name in ("email", "apiKeySource", "authMethod")]
    label = next((name for name in named if isinstance(name, str) and name), "Signed in")
    return AgentAuth(authenticated=True, label=label, source="agent")
