"""What Codex asks of us in a turn: to run something, to change files, to be allowed more, and what
the user wants.  Each request as the row it shows, and the answers to it.
"""

from __future__ import annotations

import json
from typing import Any, Literal

from attrs import frozen
from msgspec import UNSET
from msgspec.structs import replace

from garcon.contract.messages import (
    AskUserQuestionToolUse,
    BashToolUse,
    McpToolUse,
    Question,
    QuestionOption,
    RequestPermissionsToolUse,
    ToolUse,
    UnknownToolUse,
)
from garcon.contract.runs import PermissionResponse
from garcon.runtime.agents.codex_items import script_of
from garcon.runtime.agents.codex_wire import an_object, objects_of, text_of

Kind = Literal["command", "edit", "permissions", "elicitation", "question"]
KINDS: dict[str, Kind] = {
    "item/commandExecution/requestApproval": "command",
    "item/fileChange/requestApproval": "edit",
    "item/permissions/requestApproval": "permissions",
    "mcpServer/elicitation/request": "elicitation",
    "item/tool/requestUserInput": "question",
}
OTHERS = frozenset(
    {
        *("item/tool/call", "account/chatgptAuthTokens/refresh", "attestation/generate"),
        *("applyPatchApproval", "execCommandApproval"),
    }
)
"""Requests that are known, but only come to clients that offer what we do not."""
_SECRET = "(a secret)"


@frozen
class Asked:
    """One request that waits for its answer; `tool` is the row that shows it."""

    request_id: Any
    kind: Kind
    tool: ToolUse
    parameters: dict[str, Any]

    @property
    def is_for_user(self) -> bool:
        """Whether nobody else can answer it."""
        return self.kind == "question"

    @property
    def wants_words(self) -> bool:
        """Whether a server wants to be told more than whether something may be done."""
        schema = an_object(self.parameters.get("requestedSchema"))
        has_members = bool(an_object(schema.get("properties")))
        return self.kind == "elicitation" and (has_members or self.parameters.get("mode") == "url")

    @property
    def root(self) -> str:
        """The directory whose files could be changed from then on, where a change brings that."""
        return text_of(self.parameters.get("grantRoot")) if self.kind == "edit" else ""

    @property
    def server(self) -> str:
        """The server that asks, where it is one."""
        return text_of(self.parameters.get("serverName"))

    @property
    def options(self) -> list[str]:
        """Which answers there are, for display."""
        if self.kind == "question":
            return []
        return (
            ["Allow", "Deny"] if self.kind == "elicitation" else ["Allow", "Always allow", "Deny"]
        )

    def allowed(self, *, always: bool = False) -> dict[str, Any]:
        """Return the answer that lets it go on, from now on without a question if `always`."""
        match self.kind:
            case "permissions":
                wanted = an_object(self.parameters.get("permissions"))
                granted = {name: value for name, value in wanted.items() if value is not None}
                return {"permissions": granted, "scope": "session" if always else "turn"}
            case "elicitation":
                return {"action": "accept", "content": {}, "_meta": None}
            case "question":
                return {"answers": {}}
        return {"decision": "acceptForSession" if always else "accept"}

    def denied(self) -> dict[str, Any]:
        """Return the answer after which the model goes on without it."""
        match self.kind:
            case "permissions":
                return {"permissions": {}, "scope": "turn"}
            case "elicitation":
                return {"action": "decline", "content": None, "_meta": None}
            case "question":
                return {"answers": {}}
        return {"decision": "decline"}

    def answered(self, response: PermissionResponse) -> dict[str, Any]:
        """Return the answer that the user has chosen."""
        if not response.allow:
            return self.denied()
        if self.kind != "question":
            return self.allowed(always=response.always_allow)
        chosen = self._chosen(response)
        return {"answers": {name: {"answers": said} for name, said in chosen.items()}}

    def told(self, response: PermissionResponse) -> str:
        """Return the user's answers to questions, for the transcript."""
        assert isinstance(self.tool, AskUserQuestionToolUse)
        chosen = self._chosen(response) if response.allow else {}
        given = objects_of(self.parameters.get("questions"))
        lines = [
            f"{question.prompt}: {_SECRET if _is_secret(one) else ', '.join(chosen[question.id])}"
            for question, one in zip(self.tool.questions, given, strict=True)
            if question.id in chosen
        ]
        return "\n".join(lines) or "The user skipped the questions."

    def _chosen(self, response: PermissionResponse) -> dict[str, list[str]]:
        assert isinstance(self.tool, AskUserQuestionToolUse)
        given = response.response or {}
        if given.get("outcome") == "skipped":
            return {}
        said = {}
        for answer in objects_of(given.get("answers")):
            options = answer.get("selectedOptionIds")
            chosen = [str(one) for one in options] if isinstance(options, list) else []
            said[text_of(answer.get("questionId"))] = chosen
        found = {}
        for question in self.tool.questions:
            labels = {option.id: option.label for option in question.options}
            if question.id in said:
                # An id that is no option's is the user's own text.
                found[question.id] = [labels.get(one, one) for one in said[question.id]]
        return found


def read(
    kind: Kind, request_id: Any, parameters: dict[str, Any], known: ToolUse | None, now: str
) -> Asked:
    """Read a request; `known` is the row of the call that it belongs to, where that was shown."""
    tool_id = text_of(parameters.get("itemId")) or f"request-{request_id}"
    reason = text_of(parameters.get("reason")) or UNSET
    match kind:
        case "command":
            tool = _command(tool_id, parameters, known, now)
        case "edit":
            missing = UnknownToolUse(
                timestamp=now, tool_id=tool_id, raw_name="fileChange", input=parameters
            )
            tool = known or missing
            root = text_of(parameters.get("grantRoot"))
            if known is not None and root:
                # More than the change itself, which has its row already.
                tool = RequestPermissionsToolUse(
                    timestamp=now, tool_id=tool_id, permissions={"write": [root]}, reason=reason
                )
        case "permissions":
            wanted = an_object(parameters.get("permissions"))
            tool = RequestPermissionsToolUse(
                timestamp=now, tool_id=tool_id, permissions=wanted, reason=reason
            )
        case "question":
            tool = AskUserQuestionToolUse(
                timestamp=now, tool_id=tool_id, questions=_questions(parameters)
            )
        case "elicitation":
            tool = McpToolUse(
                timestamp=now,
                tool_id=tool_id,
                server=text_of(parameters.get("serverName")),
                tool="elicitation",
                input={"message": text_of(parameters.get("message"))},
            )
    return Asked(request_id, kind, tool, parameters)


def _command(tool_id: str, parameters: dict[str, Any], known: ToolUse | None, now: str) -> ToolUse:
    why = _why(parameters) or UNSET
    command = script_of(text_of(parameters.get("command")))
    if isinstance(known, BashToolUse):
        # A shell may ask for one of the commands of its script.
        return replace(known, command=command or known.command, description=why)
    if not command:
        name = text_of(parameters.get("kind")) or "command"
        return UnknownToolUse(timestamp=now, tool_id=tool_id, raw_name=name, input=parameters)
    return BashToolUse(timestamp=now, tool_id=tool_id, command=command, description=why)


def _why(parameters: dict[str, Any]) -> str:
    """Return why it asks, and all that would be allowed by the way."""
    said = [text_of(parameters.get("reason"))]
    network = an_object(parameters.get("networkApprovalContext"))
    if host := text_of(network.get("host")):
        said.append(f"It wants to reach {host} ({network.get('protocol')}).")
    if more := an_object(parameters.get("additionalPermissions")):
        said.append(f"It wants more permissions: {json.dumps(more, ensure_ascii=False)}")
    return " ".join(filter(None, said))


def _is_secret(question: dict[str, Any]) -> bool:
    """Whether the answer is nobody else's business."""
    return question.get("isSecret") is True


def _questions(parameters: dict[str, Any]) -> list[Question]:
    found = []
    for place, question in enumerate(objects_of(parameters.get("questions")), 1):
        options = [
            QuestionOption(
                id=f"option-{number}",
                label=text_of(option.get("label")) or f"Option {number}",
                description=text_of(option.get("description")) or UNSET,
            )
            for number, option in enumerate(objects_of(question.get("options")), 1)
        ]
        found.append(
            Question(
                id=text_of(question.get("id")) or f"question-{place}",
                prompt=text_of(question.get("question")),
                options=options,
                header=text_of(question.get("header")) or UNSET,
                allow_multiple=False,
            )
        )
    return found
