"""The settings of a turn as Claude Code takes them: on its command line, and while it runs.

A process that runs can be told of another model, effort and permission mode.  It cannot be told to
bypass permissions unless it was started so, nor how to think, nor of another endpoint.
"""

from __future__ import annotations

from attrs import define, field

from garcon.contract.catalogs import PermissionMode, ThinkingMode
from garcon.contract.runs import Launch
from garcon.runtime.agents.claude_lines import Message
from garcon.runtime.agents.endpoints import model_of

MODES: dict[PermissionMode, str] = {
    "default": "default",
    "acceptEdits": "acceptEdits",
    "plan": "plan",
    "bypassPermissions": "bypassPermissions",
    "manualBypass": "default",
}
EFFORTS: dict[ThinkingMode, str | None] = {
    "none": None,
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "xhigh",
    "max": "max",
    "ultra": "max",
}


@define
class Settings:
    """What is in force in one process."""

    model: str
    effort: str | None
    mode: str
    """As the agent says it is: an accepted plan changes it."""
    chosen: str
    """The mode that the last turn was to run in."""

    @classmethod
    def of(cls, launch: Launch) -> Settings:
        """Return what a turn runs with."""
        mode = MODES[launch.permission_mode]
        return cls(model_of(launch), EFFORTS[launch.thinking_mode], mode, mode)

    def changes(self, launch: Launch, granted: set[str]) -> list[Message]:
        """Return what a process is to be told before a turn.  A mode that the user `granted`, by an
        answer that is to last, is left alone until he chooses another one.
        """
        wanted = Settings.of(launch)
        told: list[Message] = []
        if wanted.model != self.model:
            self.model = wanted.model
            told.append({"subtype": "set_model", "model": wanted.model or None})
        if wanted.effort != self.effort:
            self.effort = wanted.effort
            effort = {"effortLevel": wanted.effort}
            told.append({"subtype": "apply_flag_settings", "settings": effort})
        if wanted.chosen != self.chosen:
            granted.clear()
        self.chosen = wanted.chosen
        if self.mode != wanted.mode and self.mode not in granted:
            # Chosen by the user, or the last turn left it, by an accepted plan.
            self.mode = wanted.mode
            told.append({"subtype": "set_permission_mode", "mode": wanted.mode})
        return told


@define
class Changing:
    """The answers to what a process was told ahead of a turn: its line waits for them."""

    _open: dict[str, str] = field(factory=dict)
    refused: list[str] = field(factory=list)

    def expect(self, request_id: str, body: Message) -> None:
        """This was asked."""
        self._open[request_id] = str(body.get("subtype"))

    def answered(self, request_id: object, response: Message) -> bool:
        """Take an answer; whether it was one of these."""
        what = self._open.pop(str(request_id), None)
        if what is not None and response.get("subtype") == "error":
            self.refused.append(f"{what}: {response.get('error')}")
        return what is not None

    @property
    def is_over(self) -> bool:
        """Whether all of them are there."""
        return not self._open
