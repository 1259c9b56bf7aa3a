"""What Claude Code asks before it does something: who answers, and how (decisions.md 33)."""

from __future__ import annotations

from typing import Any

from attrs import define, field, frozen

from garcon.contract.catalogs import PermissionMode
from garcon.contract.runs import (
    PermissionAutoResolved,
    PermissionRequested,
    PermissionResponse,
    PermissionWithdrawn,
)
from garcon.runtime.agents.claude_lines import Message, allow, as_object, deny, objects
from garcon.runtime.agents.claude_tools import answered, tool_use
from garcon.runtime.agents.conversation import Emit, Output
from garcon.runtime.agents.stamps import Stamp

QUESTION = "AskUserQuestion"
FOR_THE_USER = frozenset({QUESTION, "ExitPlanMode"})
"""Requests that no mode may answer: a question wants an answer, and leaving plan mode is a choice.
"""


@frozen
class Question:
    """One ``can_use_tool`` that the agent waits with."""

    request_id: str
    tool: str
    tool_id: str
    input: dict[str, Any]
    suggestions: list[Message]

    @classmethod
    def read(cls, message: Message) -> Question:
        """Read what is asked."""
        asked = as_object(message.get("request"))
        return cls(
            request_id=str(message.get("request_id")),
            tool=str(asked.get("tool_name", "")),
            tool_id=str(asked.get("tool_use_id", "")),
            input=as_object(asked.get("input")),
            suggestions=objects(asked.get("permission_suggestions")),
        )


@define(eq=False)
class Questions:
    """Those of one process that are open, by the occurrence that the user knows them by."""

    _open: dict[str, Question] = field(factory=dict)
    granted: set[str] = field(factory=set)
    """Modes that the user chose by an answer that is to last."""

    def ask(
        self, question: Question, mode: PermissionMode, is_planning: bool, stamp: Stamp
    ) -> list[Output]:
        """Answer it if the mode does, else have the user asked."""
        if any(question.request_id == one.request_id for one in self._open.values()):
            return []  # the user looks at it already
        tool = tool_use(question.tool, question.tool_id, question.input, stamp.now)
        if question.tool not in FOR_THE_USER:
            if mode == "manualBypass":
                resolved = PermissionAutoResolved(
                    permission_occurrence_id=stamp.fresh_id,
                    requested_tool=tool,
                    allowed=True,
                    timestamp=stamp.now,
                )
                return [Emit(resolved), allow(question.request_id, question.input, [])]
            if mode == "bypassPermissions":
                return [allow(question.request_id, question.input, [])]
            if mode == "plan" and is_planning:
                text = "Plan mode is on: read, and propose a plan first."
                return [deny(question.request_id, text)]
        self._open[stamp.fresh_id] = question
        requested = PermissionRequested(
            permission_occurrence_id=stamp.fresh_id,
            requested_tool=tool,
            options=["Allow", "Always allow", "Deny"]
            if question.suggestions
            else ["Allow", "Deny"],
            timestamp=stamp.now,
        )
        return [Emit(requested)]

    def decide(self, response: PermissionResponse) -> list[Output] | None:
        """Answer an open one as the user decided; None for one that is not open."""
        question = self._open.pop(response.permission_occurrence_id, None)
        if question is None:
            return None
        said = response.response or {}
        if not response.allow:
            return [deny(question.request_id, "The user denied this request.")]
        if question.tool == QUESTION and said.get("outcome") == "skipped":
            reason = said.get("reason")
            text = f"The user skipped the questions{f': {reason}' if reason else '.'}"
            return [deny(question.request_id, text)]
        given = answered(question.input, said) if question.tool == QUESTION else question.input
        rules = question.suggestions if response.always_allow else []
        self.granted.update(str(r.get("mode")) for r in rules if r.get("type") == "setMode")
        return [allow(question.request_id, given, rules)]

    def withdrawn(self, request_id: str) -> list[Output]:
        """The agent took one back."""
        for occurrence, question in list(self._open.items()):
            if question.request_id == request_id:
                del self._open[occurrence]
                return [Emit(PermissionWithdrawn(permission_occurrence_id=occurrence))]
        return []

    def clear(self) -> None:
        """None is open any more."""
        self._open.clear()
