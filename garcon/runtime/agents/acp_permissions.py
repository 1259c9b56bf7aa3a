"""The permission requests of one turn: which we answer by ourselves, and with which of the options
that the agent gives.

Options are chosen by their kind, as their ids and their order are each agent's own.
"""

from __future__ import annotations

import os.path
from typing import Any

from attrs import define, field, frozen

from garcon.contract.catalogs import PermissionMode
from garcon.contract.runs import (
    Launch,
    PermissionAutoResolved,
    PermissionRequested,
    PermissionResponse,
    PermissionWithdrawn,
)
from garcon.runtime.agents.acp_tools import EDITING_KINDS, READING_KINDS, ToolCall
from garcon.runtime.agents.acp_wire import answer, objects_of, text_of
from garcon.runtime.agents.conversation import Emit, Output
from garcon.runtime.agents.inside import is_inside
from garcon.runtime.agents.stamps import Stamp

_ALLOW = ("allow_once", "allow_always")
_ALLOW_ALWAYS = ("allow_always", "allow_once")
_REJECT = ("reject_once", "reject_always")


@frozen
class _Question:
    """One permission request that the agent waits with."""

    request_id: Any
    options: list[dict[str, Any]]
    kind: str = ""

    def answered(self, kinds: tuple[str, ...] = ()) -> Output:
        """Choose an option by its kind; none that fits is the answer ``cancelled``."""
        for kind in kinds:
            for option in self.options:
                if option.get("kind") == kind:
                    chosen = {"outcome": "selected", "optionId": option.get("optionId")}
                    return answer(self.request_id, {"outcome": chosen})
        return answer(self.request_id, {"outcome": {"outcome": "cancelled"}})


@define(eq=False)
class Permissions:
    """Those that are open, and what the turn's earlier ones have changed."""

    _open: dict[str, _Question] = field(factory=dict)
    _has_left_plan: bool = False
    """The user let the agent go on from its plan: what it asks from then on is the user's too."""

    def ask(
        self,
        request_id: Any,
        parameters: dict[str, Any],
        call: ToolCall,
        launch: Launch,
        stamp: Stamp,
    ) -> list[Output]:
        """Take a request: decide it as the launch's mode says, or let the user do so."""
        mode, tool = launch.permission_mode, call.use(stamp.now)
        if mode == "plan" and self._has_left_plan:
            mode = "default"
        options = objects_of(parameters.get("options"))
        question = _Question(request_id, options, call.kind)
        verdict = _verdict(mode, call, launch.project_path)
        if verdict is None:
            self._open[stamp.fresh_id] = question
            requested = PermissionRequested(
                permission_occurrence_id=stamp.fresh_id,
                requested_tool=tool,
                options=[text_of(option.get("name")) for option in options],
                timestamp=stamp.now,
            )
            return [Emit(requested)]
        outputs: list[Output] = []
        if mode == "manualBypass":
            resolved = PermissionAutoResolved(
                permission_occurrence_id=stamp.fresh_id,
                requested_tool=tool,
                allowed=verdict,
                timestamp=stamp.now,
            )
            outputs.append(Emit(resolved))
        return [*outputs, question.answered(_ALLOW if verdict else _REJECT)]

    def refuse(self, request_id: Any) -> Output:
        """Answer a request that comes when no turn goes on: ``cancelled``."""
        return _Question(request_id, []).answered()

    def decide(self, response: PermissionResponse) -> list[Output] | None:
        """Answer an open request; None when there is no such."""
        question = self._open.pop(response.permission_occurrence_id, None)
        if question is None:
            return None
        if not response.allow:
            return [question.answered(_REJECT)]
        if question.kind == "switch_mode":
            self._has_left_plan = True
        return [question.answered(_ALLOW_ALWAYS if response.always_allow else _ALLOW)]

    def cancel_all(self) -> list[Output]:
        """Answer all that are open with ``cancelled``: some agents wait for it for ever."""
        outputs = [question.answered() for question in self._open.values()]
        self._open.clear()
        return outputs

    def withdrawn(self, request_id: Any) -> list[Output]:
        """The agent takes a request back; it gets its answer all the same."""
        for occurrence, question in list(self._open.items()):
            if question.request_id == request_id:
                del self._open[occurrence]
                gone = PermissionWithdrawn(permission_occurrence_id=occurrence)
                return [Emit(gone), question.answered()]
        return []

    def clear(self) -> None:
        """The turn is over; whoever watches it closes what is open."""
        self._open.clear()
        self._has_left_plan = False


def _verdict(mode: PermissionMode, call: ToolCall, project: str) -> bool | None:
    """Decide a request by ourselves, or return None: the user decides."""
    match mode:
        case "bypassPermissions" | "manualBypass":
            return True
        case "plan" if call.kind in READING_KINDS:
            return True
        case "plan":
            # Leaving plan mode is the user's choice.
            return None if call.kind == "switch_mode" else False
        case "acceptEdits" if call.kind in EDITING_KINDS and _stays_inside(call, project):
            return True
    return None


def _stays_inside(call: ToolCall, project: str) -> bool:
    """Whether a change is known to be one of nothing but the project's files.

    Paths of the protocol are absolute: nobody knows what else an agent takes for one.
    """
    places = call.places
    # A move changes two places, and tells of both or is not known.
    is_known = len(set(places)) > (1 if call.kind == "move" else 0)
    return is_known and all(os.path.isabs(one) and is_inside(one, project) for one in places)
