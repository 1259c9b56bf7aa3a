"""Steering over the Agent Client Protocol, which has no word for it: an extension of ours, that an
agent offers among its capabilities as ``{"_meta": {"garcon": {"steer": true}}}``.

We ask ``_garcon/steer`` with ``sessionId``, ``messageId`` and ``prompt``; it answers with an
``outcome``, ``delivered`` or ``turn-unavailable``, or with an error.
"""

from __future__ import annotations

from typing import Any

from garcon.contract.steering import Steer, Steered

METHOD = "_garcon/steer"
INVALID_PARAMETERS = -32602


def is_offered(capabilities: dict[str, Any]) -> bool:
    """Whether an agent takes input while it works."""
    return _object(_object(capabilities.get("_meta")).get("garcon")).get("steer") is True


def parameters(session_id: str, steer: Steer) -> dict[str, Any]:
    """Return what we ask."""
    return {
        "sessionId": session_id,
        "messageId": steer.client_message_id,
        "prompt": [{"type": "text", "text": steer.content}],
    }


def outcome(message: dict[str, Any]) -> Steered:
    """Read the answer; one that says nothing we know leaves it open."""
    if "error" in message:
        error = _object(message["error"])
        text = str(error.get("message") or "")
        is_invalid = error.get("code") == INVALID_PARAMETERS
        return Steered(outcome="invalid" if is_invalid else "rejected", text=text)
    match _object(message.get("result")).get("outcome"):
        case "delivered":
            return Steered(outcome="delivered")
        case "turn-unavailable":
            return Steered(outcome="turn-unavailable")
    return Steered(outcome="unknown", text="The agent did not say what became of the input.")


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
