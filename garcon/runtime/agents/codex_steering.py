"""What Codex answers to further input for a turn that runs (``turn/steer``)."""

from __future__ import annotations

from typing import Any

from garcon.contract.steering import Steered
from garcon.runtime.agents.codex_wire import an_object, error_of

STEER = "steer:"
"""What our request is for, before the id of the input."""


def outcome(message: dict[str, Any]) -> Steered:
    """Read the answer: why it was not taken is told in words alone, but for one case."""
    text = error_of(message)
    if text is None:
        return Steered(outcome="delivered")
    if "activeTurnNotSteerable" in str(an_object(message.get("error")).get("data")):
        return Steered(outcome="not-steerable", text=text)
    if text.startswith("no active turn"):
        return Steered(outcome="turn-unavailable", text=text)
    if text.startswith("expected active turn"):
        return Steered(outcome="turn-changed", text=text)
    return Steered(outcome="rejected", text=text)
