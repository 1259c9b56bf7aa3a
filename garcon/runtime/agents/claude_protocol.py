"""Claude Code's streaming JSON as values: one process, one session, one user line at a time.

A turn is over with the first result after its line was taken up (the line comes back then), or,
where it never was, with the state ``idle`` after a result: the agent may also run turns of its own,
for what went on in the background. A program that tells neither ends its turn with the result.
Whether a turn failed is told by ``is_error``; ``subtype`` says ``success`` either way.
"""

from __future__ import annotations

from typing import Any, Literal

from attrs import define, field, frozen
from msgspec import UNSET

from garcon.contract.catalogs import PermissionMode
from garcon.contract.messages import AssistantMessage, Compaction, Image, Thinking, ToolResult
from garcon.contract.runs import (
    Launch,
    PermissionAutoResolved,
    PermissionRequested,
    PermissionResponse,
    PermissionWithdrawn,
    RowProduced,
    RunEnded,
    RunFailure,
    SessionStarted,
)
from garcon.contract.steering import Steer, SteerCapture, Steered
from garcon.runtime.agents.claude_tools import answered, result_text, tool_use
from garcon.runtime.agents.conversation import Emit, Output, Ready, Refused, Send, SteerSettled
from garcon.runtime.agents.history import preface
from garcon.runtime.agents.stamps import Stamp

MODES: dict[PermissionMode, str] = {
    "default": "default",
    "acceptEdits": "acceptEdits",
    "plan": "plan",
    "bypassPermissions": "bypassPermissions",
    "manualBypass": "default",
}
QUESTION = "AskUserQuestion"
FOR_THE_USER = frozenset({QUESTION, "ExitPlanMode"})
"""Requests that no mode may answer: a question wants an answer, and leaving plan mode is a choice.
"""
SYNTHETIC = "<synthetic>"
NO_CONTENT = "(no content)"
_INITIALIZE = "initialize"


@frozen
class _Question:
    """One ``can_use_tool`` that the agent waits with."""

    request_id: str
    tool: str
    input: dict[str, Any]
    suggestions: list[dict[str, Any]]


@define(eq=False)
class ClaudeConversation:
    """One process.  Owned by the shell that writes and reads its lines."""

    _launch: Launch | None = None
    _ready: bool = False
    _tells: bool = False
    """Whether it says which line it takes up, or what it does: programs that stand in for Claude
    Code need not, and then a result is the end of the turn that runs.
    """
    _line_id: str = ""
    _taken_up: bool = False
    _result: dict[str, Any] | None = None
    _interrupting: bool = False
    _taking_back: str = ""
    """The request by which a line that waits is taken back."""
    _session_id: str = ""
    _mode: str = ""
    _granted: set[str] = field(factory=set)
    """Modes that the user chose by an answer that is to last."""
    _questions: dict[str, _Question] = field(factory=dict)
    _open_tools: dict[str, None] = field(factory=dict)
    _compacted: dict[str, Any] | None = None
    _requests: int = 0

    def open(self) -> list[Output]:
        request = {"subtype": "initialize", "hooks": None}
        return [_control_request(_INITIALIZE, request)]

    def prompt(self, launch: Launch, stamp: Stamp) -> list[Output]:
        self._launch = launch
        self._line_id = stamp.fresh_id
        self._taken_up = self._interrupting = False
        self._taking_back = ""
        self._result = self._compacted = None
        self._open_tools.clear()
        outputs: list[Output] = []
        wanted = MODES[launch.permission_mode]
        if self._mode and self._mode != wanted and self._mode not in self._granted:
            # The last turn left it, by an accepted plan.  What was always allowed stays so.
            outputs.append(self._request({"subtype": "set_permission_mode", "mode": wanted}))
        content = [part for image in launch.images if (part := _image(image)) is not None]
        earlier = preface(launch)
        if earlier is not None:
            content.insert(0, {"type": "text", "text": earlier})
        content.append({"type": "text", "text": launch.prompt})
        outputs.append(
            Send(
                {
                    "type": "user",
                    "message": {"role": "user", "content": content},
                    "uuid": self._line_id,
                }
            )
        )
        if self._session_id and self._session_id != launch.agent_session_id:
            outputs.append(Emit(SessionStarted(agent_session_id=self._session_id)))
        return outputs

    def interrupt(self, stamp: Stamp) -> list[Output]:
        if self._launch is None:
            return []
        self._interrupting = True
        outputs: list[Output] = []
        if not self._taken_up:
            # It may wait behind a turn of the agent's own, and would run after the interrupt.
            take_back = {"subtype": "cancel_async_message", "message_uuid": self._line_id}
            outputs.append(self._request(take_back))
            self._taking_back = f"garcon-{self._requests}"
        return [*outputs, self._request({"subtype": "interrupt"})]

    def capture_steering(self) -> SteerCapture:
        """A line that is sent while it works would be a turn of its own."""
        return SteerCapture(outcome="unsupported")

    def steer(self, steer: Steer) -> list[Output]:
        steered = Steered(outcome="not-steerable")
        return [SteerSettled(steer.client_message_id, steered)]

    def ended(self, text: str, stamp: Stamp) -> list[Output]:
        if self._launch is None:
            return []
        if self._interrupting:
            return self._end("interrupted", None, stamp)
        return self._end("failed", RunFailure(code="AGENT_EXITED", message=text), stamp)

    def decide(self, response: PermissionResponse, stamp: Stamp) -> list[Output] | None:
        question = self._questions.pop(response.permission_occurrence_id, None)
        if question is None:
            return None
        said = response.response or {}
        if not response.allow:
            return [_deny(question, "The user denied this request.")]
        if question.tool == QUESTION and said.get("outcome") == "skipped":
            reason = said.get("reason")
            return [
                _deny(question, f"The user skipped the questions{f': {reason}' if reason else '.'}")
            ]
        given = answered(question.input, said) if question.tool == QUESTION else question.input
        rules = _objects(question.suggestions) if response.always_allow else []
        self._granted.update(str(r.get("mode")) for r in rules if r.get("type") == "setMode")
        return [_allow(question, given, rules)]

    # -- messages

    def received(self, message: dict[str, Any], stamp: Stamp) -> list[Output]:
        match message.get("type"):
            case "control_response":
                return self._control_answered(_object(message.get("response")), stamp)
            case "control_request":
                return self._control_requested(message, stamp)
            case "control_cancel_request":
                return self._cancelled(str(message.get("request_id")))
        if message.get("isReplay") or message.get("subtype") == "session_state_changed":
            self._tells = True
        if self._launch is None or message.get("parent_tool_use_id"):
            return []  # between turns, or a subagent's: its own call shows what it found
        match message.get("type"):
            case "system":
                return self._system(message, stamp)
            case "assistant":
                return self._assistant(message, stamp)
            case "user":
                return self._user(message, stamp)
            case "result":
                return self._resulted(message, stamp)
        return []

    def _control_answered(self, response: dict[str, Any], stamp: Stamp) -> list[Output]:
        request_id = response.get("request_id")
        if request_id == self._taking_back and self._launch is not None:
            taken_back = _object(response.get("response")).get("cancelled") is True
            return self._end("interrupted", None, stamp) if taken_back else []
        if self._ready or request_id != _INITIALIZE:
            return []
        if response.get("subtype") == "error":
            return [Refused(f"the agent refused to start: {response.get('error')}")]
        self._ready = True
        return [Ready()]

    def _control_requested(self, message: dict[str, Any], stamp: Stamp) -> list[Output]:
        request_id = str(message.get("request_id"))
        request = _object(message.get("request"))
        if request.get("subtype") != "can_use_tool":
            text = f"Unsupported control request subtype: {request.get('subtype')}"
            return [_control_error(request_id, text)]
        suggestions = request.get("permission_suggestions")
        question = _Question(
            request_id=request_id,
            tool=str(request.get("tool_name", "")),
            input=_object(request.get("input")),
            suggestions=suggestions if isinstance(suggestions, list) else [],
        )
        if self._launch is None or self._interrupting:
            return [_deny(question, "The turn was stopped.")]
        return self._asked(question, str(request.get("tool_use_id", "")), stamp)

    def _asked(self, question: _Question, tool_id: str, stamp: Stamp) -> list[Output]:
        assert self._launch is not None
        tool = tool_use(question.tool, tool_id, question.input, stamp.now)
        mode = self._launch.permission_mode
        if question.tool not in FOR_THE_USER:
            if mode == "manualBypass":
                resolved = PermissionAutoResolved(
                    permission_occurrence_id=stamp.fresh_id,
                    requested_tool=tool,
                    allowed=True,
                    timestamp=stamp.now,
                )
                return [Emit(resolved), _allow(question, question.input, [])]
            if mode == "bypassPermissions":
                return [_allow(question, question.input, [])]
            if mode == "plan" and self._mode in ("", "plan"):
                return [_deny(question, "Plan mode is on: read, and propose a plan first.")]
        self._questions[stamp.fresh_id] = question
        requested = PermissionRequested(
            permission_occurrence_id=stamp.fresh_id,
            requested_tool=tool,
            options=["Allow", "Always allow", "Deny"]
            if question.suggestions
            else ["Allow", "Deny"],
            timestamp=stamp.now,
        )
        return [Emit(requested)]

    def _cancelled(self, request_id: str) -> list[Output]:
        for occurrence, question in list(self._questions.items()):
            if question.request_id == request_id:
                del self._questions[occurrence]
                return [Emit(PermissionWithdrawn(permission_occurrence_id=occurrence))]
        return []

    def _system(self, message: dict[str, Any], stamp: Stamp) -> list[Output]:
        match message.get("subtype"):
            case "init":
                self._mode = str(message.get("permissionMode", self._mode))
                return self._named(message)
            case "status":
                self._mode = str(message.get("permissionMode") or self._mode)
            case "compact_boundary":
                self._compacted = _object(message.get("compact_metadata"))
            case "session_state_changed" if message.get("state") == "idle":
                return self._close(stamp) if self._result is not None else []
        return []

    def _named(self, message: dict[str, Any]) -> list[Output]:
        session_id = message.get("session_id")
        if not isinstance(session_id, str) or not session_id or session_id == self._session_id:
            return []
        known = self._session_id or (self._launch.agent_session_id if self._launch else None)
        self._session_id = session_id
        return [Emit(SessionStarted(agent_session_id=session_id))] if session_id != known else []

    def _assistant(self, message: dict[str, Any], stamp: Stamp) -> list[Output]:
        said = _object(message.get("message"))
        if message.get("error") is not None:
            return []  # the turn's result says the same, as its error
        outputs: list[Output] = []
        for block in _objects(said.get("content")):
            match block.get("type"):
                case "text" if text := _words(block.get("text")):
                    if said.get("model") != SYNTHETIC or text != NO_CONTENT:
                        outputs.append(_row(AssistantMessage(timestamp=stamp.now, content=text)))
                case "thinking" if text := _words(block.get("thinking")):
                    outputs.append(_row(Thinking(timestamp=stamp.now, content=text)))
                case "tool_use":
                    name, tool_id = str(block.get("name", "")), str(block.get("id", ""))
                    self._open_tools[tool_id] = None
                    use = tool_use(name, tool_id, _object(block.get("input")), stamp.now)
                    outputs.append(_row(use))
        return outputs

    def _user(self, message: dict[str, Any], stamp: Stamp) -> list[Output]:
        if message.get("isReplay"):
            self._taken_up = self._taken_up or message.get("uuid") == self._line_id
            return []
        content = _object(message.get("message")).get("content")
        if isinstance(content, str):
            return self._summarised(content, stamp)
        outputs: list[Output] = []
        for block in _objects(content):
            if block.get("type") == "tool_result":
                tool_id = str(block.get("tool_use_id", ""))
                self._open_tools.pop(tool_id, None)
                outputs.append(
                    _row(
                        ToolResult(
                            timestamp=stamp.now,
                            tool_id=tool_id,
                            content={"text": result_text(block.get("content"))},
                            is_error=block.get("is_error") is True,
                        )
                    )
                )
        return outputs

    def _summarised(self, text: str, stamp: Stamp) -> list[Output]:
        """Take the line that follows a compaction: the summary that the agent goes on with."""
        about, self._compacted = self._compacted, None
        if about is None:
            return []
        trigger: Literal["auto", "manual"] = "auto" if about.get("trigger") == "auto" else "manual"
        row = Compaction(
            timestamp=stamp.now,
            trigger=trigger,
            summary=text,
            pre_tokens=about.get("pre_tokens", UNSET),
            post_tokens=about.get("post_tokens", UNSET),
        )
        return [_row(row)]

    # -- the end of a turn

    def _resulted(self, message: dict[str, Any], stamp: Stamp) -> list[Output]:
        outputs = self._named(message)
        self._result = message
        if self._taken_up or self._interrupting or not self._tells:
            outputs.extend(self._close(stamp))
        return outputs

    def _close(self, stamp: Stamp) -> list[Output]:
        assert self._result is not None
        if self._interrupting:
            return self._end("interrupted", None, stamp)
        if self._result.get("is_error") is True:
            failure = RunFailure(code="AGENT_FAILED", message=failure_text(self._result))
            return self._end("failed", failure, stamp)
        return self._end("finished", None, stamp)

    def _end(
        self,
        outcome: Literal["finished", "failed", "interrupted"],
        error: RunFailure | None,
        stamp: Stamp,
    ) -> list[Output]:
        outputs: list[Output] = [
            _row(
                ToolResult(
                    timestamp=stamp.now,
                    tool_id=tool_id,
                    content={"text": "The call did not end."},
                    is_error=True,
                )
            )
            for tool_id in self._open_tools
        ]
        self._open_tools.clear()
        self._questions.clear()
        self._launch = self._result = None
        return [*outputs, Emit(RunEnded(outcome=outcome, error=error))]

    def _request(self, request: dict[str, Any]) -> Output:
        self._requests += 1
        return _control_request(f"garcon-{self._requests}", request)


def failure_text(result: dict[str, Any]) -> str:
    """Return why a turn failed, with the status of a failed model request in it."""
    errors = [str(error) for error in result.get("errors") or []]
    text = _words(result.get("result")) or "; ".join(errors)
    text = text or f"the agent failed: {result.get('subtype')}"
    status = result.get("api_error_status")
    if isinstance(status, int) and str(status) not in text:
        text = f"{text} (HTTP {status})"
    return text


def _allow(question: _Question, given: dict[str, Any], rules: list[dict[str, Any]]) -> Output:
    # `updatedInput` is not optional: without it the agent calls the answer malformed and the tool
    # fails.
    answer: dict[str, Any] = {"behavior": "allow", "updatedInput": given}
    if rules:
        answer["updatedPermissions"] = rules
    return _control_response(question.request_id, answer)


def _deny(question: _Question, text: str) -> Output:
    return _control_response(question.request_id, {"behavior": "deny", "message": text})


def _control_request(request_id: str, request: dict[str, Any]) -> Output:
    return Send({"type": "control_request", "request_id": request_id, "request": request})


def _control_response(request_id: str, response: dict[str, Any]) -> Output:
    answer = {"subtype": "success", "request_id": request_id, "response": response}
    return Send({"type": "control_response", "response": answer})


def _control_error(request_id: str, text: str) -> Output:
    answer = {"subtype": "error", "request_id": request_id, "error": text}
    return Send({"type": "control_response", "response": answer})


def _image(image: Image) -> dict[str, Any] | None:
    head, _, data = image.data.partition(",")
    media_type = head.removeprefix("data:").partition(";")[0]
    if not media_type.startswith("image/"):
        return None
    source = {"type": "base64", "media_type": media_type, "data": data}
    return {"type": "image", "source": source}


def _row(message: Any) -> Emit:
    return Emit(RowProduced(message=message))


def _words(value: object) -> str:
    return value if isinstance(value, str) and value.strip() else ""


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _objects(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
