"""How Codex is told what a turn may do and how hard it thinks (decisions.md 33)."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from garcon.contract.catalogs import PermissionMode, ThinkingMode
from garcon.contract.messages import Image
from garcon.contract.runs import Launch
from garcon.runtime.agents.endpoints import model_of

_WORKSPACE: dict[str, Any] = {
    "type": "workspaceWrite",
    "writableRoots": [],
    "networkAccess": False,
    "excludeTmpdirEnvVar": False,
    "excludeSlashTmp": False,
}
_READ_ONLY: dict[str, Any] = {"type": "readOnly", "networkAccess": False}


@frozen
class Policy:
    """When Codex asks, and what its commands may do without being asked about."""

    approval: str
    sandbox: dict[str, Any]


MODES: dict[PermissionMode, Policy] = {
    "default": Policy("on-request", _WORKSPACE),
    "acceptEdits": Policy("on-request", _WORKSPACE),
    "manualBypass": Policy("on-request", _WORKSPACE),
    "plan": Policy("on-request", _READ_ONLY),
    "bypassPermissions": Policy("never", {"type": "dangerFullAccess"}),
}

EFFORTS: tuple[ThinkingMode, ...] = ("low", "medium", "high", "xhigh", "max", "ultra")
"""From the least to the most; ``none`` leaves the choice to Codex."""
USUAL_EFFORTS: tuple[ThinkingMode, ...] = EFFORTS[:4]
"""What a model takes of which nothing is known."""


def effort(wanted: ThinkingMode, supported: tuple[str, ...] = USUAL_EFFORTS) -> str | None:
    """Return the effort to ask for: the wanted one, or the most below it that the model takes."""
    if wanted == "none" or not supported:
        return None
    upto = EFFORTS[: EFFORTS.index(wanted) + 1]
    return next((one for one in reversed(upto) if one in supported), supported[0])


def turn_parameters(
    launch: Launch, thread_id: str, model: str, supported: tuple[str, ...], told: str | None
) -> dict[str, Any]:
    """Return what begins a turn.  Everything is said each time: what is not said stays as it was.

    `model` is the one to use where the launch names none, and `told` goes ahead of the prompt.
    """
    policy = MODES[launch.permission_mode]
    model = model_of(launch) or model
    strength = effort(launch.thinking_mode, supported)
    mode = "plan" if launch.permission_mode == "plan" else "default"
    settings = {"model": model, "reasoning_effort": strength, "developer_instructions": None}
    given = [part for image in launch.images if (part := _picture(image)) is not None]
    if told is not None:
        given.append(text_input(told))
    if launch.prompt.strip() or not given:
        given.append(text_input(launch.prompt))
    return {
        "threadId": thread_id,
        "input": given,
        "cwd": launch.project_path,
        "approvalPolicy": policy.approval,
        "sandboxPolicy": policy.sandbox,
        "model": model,
        "effort": strength,
        "collaborationMode": {"mode": mode, "settings": settings},
    }


def text_input(text: str) -> dict[str, Any]:
    """Return a text as a part of an input."""
    return {"type": "text", "text": text, "text_elements": []}


def _picture(image: Image) -> dict[str, Any] | None:
    """Return an attachment as a part of an input, or None for what is no picture."""
    if not image.data.startswith("data:image/"):
        return None
    return {"type": "image", "url": image.data}
