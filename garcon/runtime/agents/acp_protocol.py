"""The client's side of the Agent Client Protocol (version 1) as values: JSON-RPC 2.0, one session,
one prompt at a time.

An agent is taken as it is: every capability may be missing, updates may come before the answer they
belong to, tool calls may be named twice or only by their permission request, and an unknown request
is answered with an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import define, field, frozen

from garcon.contract.messages import AssistantMessage, Image, Thinking
from garcon.contract.runs import (
    Launch,
    PermissionAutoResolved,
    PermissionRequested,
    PermissionResponse,
    RowProduced,
    RunEnded,
    RunFailure,
    SessionStarted,
)
from garcon.contract.steering import Steer, SteerCapture, Steered, SteerTarget
from garcon.contract.version import VERSION
from garcon.runtime.agents import acp_steering
from garcon.runtime.agents.acp_choices import THOUGHT_LEVEL, Choices
from garcon.runtime.agents.acp_tools import EDITING_KINDS, ToolCall
from garcon.runtime.agents.conversation import Emit, Output, Ready, Refused, Send, SteerSettled
from garcon.runtime.agents.history import preface
from garcon.runtime.agents.stamps import Stamp

METHOD_NOT_FOUND = -32601
_STEER = "steer:"
_ALLOW = ("allow_once", "allow_always")
_ALLOW_ALWAYS = ("allow_always", "allow_once")
_REJECT = ("reject_once", "reject_always")


@frozen
class _Question:
    """One permission request that the agent waits with."""

    request_id: Any
    options: list[dict[str, Any]]


@define(eq=False)
class AcpConversation:
    """One process and its one session.

    `modes` maps our permission modes to the agent's.  Where the agent lists none for a mode, its
    requests are decided here, on top of the mode in which it asks.
    """

    _directory: str
    _resume: str | None
    _modes: Mapping[str, str]
    _session_id: str = ""
    _can_load: bool = False
    _takes_images: bool = False
    _can_be_steered: bool = False
    _choices: Choices = field(factory=Choices)
    _next_id: int = 0
    _calls: dict[int, str] = field(factory=dict)
    """Our open requests, by what they are for."""
    _launch: Launch | None = None
    _steps: list[tuple[str, str, dict[str, Any]]] = field(factory=list)
    """What is still to be asked before the turn's prompt, and the prompt."""
    _interrupting: bool = False
    _questions: dict[str, _Question] = field(factory=dict)
    _tools: dict[str, ToolCall] = field(factory=dict)
    _text: list[str] = field(factory=list)
    _text_kind: str = ""
    _text_id: Any = None

    # -- opening

    def open(self) -> list[Output]:
        capabilities = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}
        client = {"name": "garcon", "title": "Garcon", "version": VERSION}
        return [
            self._ask(
                "initialize",
                "initialize",
                {
                    "protocolVersion": 1,
                    "clientCapabilities": capabilities,
                    "clientInfo": client,
                },
            )
        ]

    def _initialized(self, result: dict[str, Any]) -> list[Output]:
        capabilities = _object(result.get("agentCapabilities"))
        self._can_load = capabilities.get("loadSession") is True
        self._takes_images = _object(capabilities.get("promptCapabilities")).get("image") is True
        self._can_be_steered = acp_steering.is_offered(capabilities)
        place = {"cwd": self._directory, "mcpServers": []}
        if self._resume is not None and self._can_load:
            self._session_id = self._resume
            return [self._ask("load", "session/load", {"sessionId": self._resume, **place})]
        return [self._ask("new", "session/new", place)]

    def _opened(self, result: dict[str, Any]) -> list[Output]:
        if session_id := result.get("sessionId"):
            self._session_id = str(session_id)
        if not self._session_id:
            return [Refused("the agent named no session")]
        self._choices.opened(result)
        return [Ready()]

    # -- turns

    def prompt(self, launch: Launch, stamp: Stamp) -> list[Output]:
        self._launch = launch
        self._interrupting = False
        self._tools.clear()
        self._drop_text()
        session = {"sessionId": self._session_id}
        self._steps = []
        for method, parameters in self._choices.requests(self._wanted(launch)):
            self._steps.append(("choice", method, {**session, **parameters}))
        content = {"prompt": self._content(launch)}
        self._steps.append(("prompt", "session/prompt", {**session, **content}))
        outputs: list[Output] = []
        if self._session_id != launch.agent_session_id:
            outputs.append(Emit(SessionStarted(agent_session_id=self._session_id)))
        return [*outputs, self._next_step()]

    def _next_step(self) -> Output:
        return self._ask(*self._steps.pop(0))

    def _wanted(self, launch: Launch) -> dict[str, str]:
        """Return what to choose: the agent's mode of this kind, else the one in which it asks."""
        modes = (self._modes.get(launch.permission_mode), self._modes.get("default"))
        mode = next((m for m in modes if self._choices.offers("mode", m)), None)
        return {
            "mode": mode or "",
            "model": launch.model,
            THOUGHT_LEVEL: launch.thinking_mode,
        }

    def _content(self, launch: Launch) -> list[dict[str, Any]]:
        parts = [image_part(image) for image in launch.images] if self._takes_images else []
        earlier = preface(launch)
        told = [] if earlier is None else [{"type": "text", "text": earlier}]
        prompt = {"type": "text", "text": launch.prompt}
        return [*told, *(part for part in parts if part), prompt]

    def interrupt(self, stamp: Stamp) -> list[Output]:
        if self._launch is None:
            return []
        self._interrupting = True
        outputs: list[Output] = [
            Send(_notification("session/cancel", {"sessionId": self._session_id}))
        ]
        outputs.extend(self._answer(question, ()) for question in self._questions.values())
        self._questions.clear()
        if self._steps:
            # The prompt was not sent yet, so no answer to it will come.
            self._steps.clear()
            outputs.extend(self._end("interrupted", None, stamp))
        return outputs

    def capture_steering(self) -> SteerCapture:
        if not self._can_be_steered:
            return SteerCapture(outcome="unsupported")
        if self._launch is None or self._interrupting:
            return SteerCapture(outcome="turn-unavailable")
        target = SteerTarget(run_id=self._launch.run_id)
        return SteerCapture(outcome="captured", target=target)

    def steer(self, steer: Steer) -> list[Output]:
        if self._launch is None or self._interrupting or not self._can_be_steered:
            steered = Steered(outcome="turn-unavailable")
            return [SteerSettled(steer.client_message_id, steered)]
        asked = self._ask(
            _STEER + steer.client_message_id,
            acp_steering.METHOD,
            acp_steering.parameters(self._session_id, steer),
        )
        return [asked]

    def ended(self, text: str, stamp: Stamp) -> list[Output]:
        if self._launch is None:
            return []
        if self._interrupting:
            return self._end("interrupted", None, stamp)
        return self._end("failed", RunFailure(code="AGENT_EXITED", message=text), stamp)

    def _end(self, outcome: Any, error: RunFailure | None, stamp: Stamp) -> list[Output]:
        """Close the turn: an unfinished text is dropped, unless the turn is good, and no tool call
        stays open.
        """
        outputs: list[Output] = []
        if outcome == "finished":
            outputs.extend(self._flush_text(stamp))
        self._drop_text()
        for call in self._tools.values():
            if not call.settled:
                outputs.extend(self._show(call, stamp))
                outputs.append(_row(call.settle(stamp.now, note="The call did not end.")))
        self._tools.clear()
        self._launch = None
        self._steps = []
        self._questions.clear()
        return [*outputs, Emit(RunEnded(outcome=outcome, error=error))]

    # -- messages

    def received(self, message: dict[str, Any], stamp: Stamp) -> list[Output]:
        method, request_id = message.get("method"), message.get("id")
        if method is None:
            purpose = self._calls.pop(request_id, None) if isinstance(request_id, int) else None
            return self._answered(purpose, message, stamp) if purpose is not None else []
        parameters = _object(message.get("params"))
        if method == "session/update":
            if self._launch is None or parameters.get("sessionId") != self._session_id:
                return []  # history of a loaded session, or the tail of a turn that is over
            return self._updated(_object(parameters.get("update")), stamp)
        if request_id is None:
            return []
        if method == "session/request_permission":
            return self._asked(request_id, parameters, stamp)
        return [Send(_error(request_id, METHOD_NOT_FOUND, f"Method not found: {method}"))]

    def _answered(self, purpose: str, message: dict[str, Any], stamp: Stamp) -> list[Output]:
        if purpose.startswith(_STEER):
            return [SteerSettled(purpose.removeprefix(_STEER), acp_steering.outcome(message))]
        error = message.get("error")
        if error is not None:
            return self._failed(purpose, _error_text(error), stamp)
        result = _object(message.get("result"))
        match purpose:
            case "initialize":
                return self._initialized(result)
            case "new" | "load":
                return self._opened(result)
            case "prompt":
                return self._prompt_over(str(result.get("stopReason", "end_turn")), stamp)
        self._choices.configured(result)
        return [self._next_step()] if self._launch is not None and self._steps else []

    def _failed(self, purpose: str, text: str, stamp: Stamp) -> list[Output]:
        match purpose:
            case "initialize" | "new":
                return [Refused(f"the agent refused to start: {text}")]
            case "load":
                return [Refused(f"the agent could not load its session: {text}")]
            case "choice":
                self._choices.lost()
        if self._launch is None:
            return []
        if self._interrupting:
            return self._end("interrupted", None, stamp)
        return self._end("failed", RunFailure(code="AGENT_FAILED", message=text), stamp)

    def _prompt_over(self, reason: str, stamp: Stamp) -> list[Output]:
        if self._launch is None:
            return []
        if self._interrupting or reason == "cancelled":
            return self._end("interrupted", None, stamp)
        if reason == "end_turn":
            return self._end("finished", None, stamp)
        text = f"the agent stopped early: {reason}"
        return self._end("failed", RunFailure(code="AGENT_STOPPED", message=text), stamp)

    # -- updates

    def _updated(self, update: dict[str, Any], stamp: Stamp) -> list[Output]:
        match update.get("sessionUpdate"):
            case "agent_message_chunk" | "agent_thought_chunk" as kind:
                return self._chunk(kind, update, stamp)
            case "tool_call" | "tool_call_update":
                outputs = self._flush_text(stamp)
                call = self._call(update)
                return [*outputs, *self._show_if_described(call, stamp), *self._settle(call, stamp)]
            case "current_mode_update":
                self._choices.mode_changed(str(update.get("currentModeId", "")))
            case "config_option_update":
                self._choices.configured(update)
        return []

    def _chunk(self, kind: str, update: dict[str, Any], stamp: Stamp) -> list[Output]:
        """Join the pieces of one message; another kind or message id begins the next one."""
        message_id = update.get("messageId")
        outputs: list[Output] = []
        if (kind, message_id) != (self._text_kind, self._text_id):
            outputs = self._flush_text(stamp)
        self._text_kind, self._text_id = kind, message_id
        text = _object(update.get("content")).get("text")
        if isinstance(text, str) and text:
            self._text.append(text)
        return outputs

    def _flush_text(self, stamp: Stamp) -> list[Output]:
        text, kind = "".join(self._text), self._text_kind
        self._drop_text()
        outputs = self._show_all(stamp)
        if not text.strip():
            return outputs
        make = AssistantMessage if kind == "agent_message_chunk" else Thinking
        return [*outputs, _row(make(timestamp=stamp.now, content=text))]

    def _drop_text(self) -> None:
        self._text.clear()
        self._text_kind, self._text_id = "", None

    def _call(self, said: dict[str, Any]) -> ToolCall:
        call_id = str(said.get("toolCallId", ""))
        call = self._tools.setdefault(call_id, ToolCall(call_id))
        call.update(said)
        return call

    def _show_if_described(self, call: ToolCall, stamp: Stamp) -> list[Output]:
        return self._show(call, stamp) if call.is_described else []

    def _show(self, call: ToolCall, stamp: Stamp) -> list[Output]:
        if call.shown:
            return []
        call.shown = True
        return [_row(call.use(stamp.now))]

    def _show_all(self, stamp: Stamp) -> list[Output]:
        """Show the described calls that have no row yet, so that rows keep the order of events."""
        return [
            output
            for call in self._tools.values()
            if call.is_described
            for output in self._show(call, stamp)
        ]

    def _settle(self, call: ToolCall, stamp: Stamp) -> list[Output]:
        if not call.is_over or call.settled:
            return []
        return [_row(call.settle(stamp.now))]

    # -- permission

    def _asked(self, request_id: Any, parameters: dict[str, Any], stamp: Stamp) -> list[Output]:
        options = [o for o in parameters.get("options") or [] if isinstance(o, dict)]
        question = _Question(request_id, options)
        if self._launch is None or self._interrupting:
            return [self._answer(question, ())]
        outputs = self._flush_text(stamp)
        call = self._call(_object(parameters.get("toolCall")))
        outputs.extend(self._show(call, stamp))
        tool = call.use(stamp.now)
        verdict = self._verdict(call.kind)
        if verdict is None:
            self._questions[stamp.fresh_id] = question
            return [
                *outputs,
                Emit(
                    PermissionRequested(
                        permission_occurrence_id=stamp.fresh_id,
                        requested_tool=tool,
                        options=[str(o.get("name", "")) for o in options],
                        timestamp=stamp.now,
                    )
                ),
            ]
        if self._launch.permission_mode == "manualBypass":
            resolved = PermissionAutoResolved(
                permission_occurrence_id=stamp.fresh_id,
                requested_tool=tool,
                allowed=verdict,
                timestamp=stamp.now,
            )
            outputs.append(Emit(resolved))
        return [*outputs, self._answer(question, _ALLOW if verdict else _REJECT)]

    def _verdict(self, kind: str) -> bool | None:
        """Decide a request by ourselves, or return None: the user decides."""
        assert self._launch is not None
        match self._launch.permission_mode:
            case "bypassPermissions" | "manualBypass":
                return True
            case "plan":
                # Leaving plan mode is the user's choice.
                return None if kind == "switch_mode" else False
            case "acceptEdits" if kind in EDITING_KINDS:
                return True
        return None

    def decide(self, response: PermissionResponse, stamp: Stamp) -> list[Output] | None:
        question = self._questions.pop(response.permission_occurrence_id, None)
        if question is None:
            return None
        if not response.allow:
            return [self._answer(question, _REJECT)]
        return [self._answer(question, _ALLOW_ALWAYS if response.always_allow else _ALLOW)]

    def _answer(self, question: _Question, kinds: tuple[str, ...]) -> Output:
        """Choose an option by its kind; none that fits is the answer ``cancelled``."""
        outcome: dict[str, Any] = {"outcome": "cancelled"}
        for kind in kinds:
            for option in question.options:
                if option.get("kind") == kind and outcome["outcome"] == "cancelled":
                    outcome = {"outcome": "selected", "optionId": option.get("optionId")}
        return Send({"jsonrpc": "2.0", "id": question.request_id, "result": {"outcome": outcome}})

    # -- JSON-RPC

    def _ask(self, purpose: str, method: str, parameters: dict[str, Any]) -> Output:
        self._next_id += 1
        self._calls[self._next_id] = purpose
        return Send({"jsonrpc": "2.0", "id": self._next_id, "method": method, "params": parameters})


def image_part(image: Image) -> dict[str, Any] | None:
    """Return an attachment as a content block, or None for what is no picture."""
    head, _, data = image.data.partition(",")
    mime_type = head.removeprefix("data:").partition(";")[0]
    if not mime_type.startswith("image/"):
        return None
    return {"type": "image", "mimeType": mime_type, "data": data}


def _row(message: Any) -> Emit:
    return Emit(RowProduced(message=message))


def _notification(method: str, parameters: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": parameters}


def _error(request_id: Any, code: int, text: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": text}}


def _error_text(error: object) -> str:
    said = _object(error)
    text = str(said.get("message") or "an error without a message")
    details = _object(said.get("data")).get("details")
    return f"{text}: {details}" if details else text


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
