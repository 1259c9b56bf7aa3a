"""The client's side of the Agent Client Protocol (version 1) as values: JSON-RPC 2.0, one session,
one prompt at a time.

An agent is taken as it is: every capability may be missing, updates may come before the answer they
belong to, tool calls may be named twice or only by their permission request, and an unknown request
is answered with an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import define, field, frozen

from garcon.contract.catalogs import Model
from garcon.contract.messages import Compaction
from garcon.contract.runs import (
    ForkPoint,
    Launch,
    PermissionResponse,
    RunEnded,
    RunFailure,
    SessionStarted,
    Usage,
)
from garcon.contract.steering import Steer, SteerCapture, Steered, SteerTarget
from garcon.runtime.agents import acp_opening, acp_steering
from garcon.runtime.agents.acp_choices import MODE, MODEL, THOUGHT_LEVEL, Choices
from garcon.runtime.agents.acp_content import a_text, prompt_of
from garcon.runtime.agents.acp_known import (
    unknown_in_answer,
    unknown_in_question,
    unknown_in_update,
    unknown_method,
)
from garcon.runtime.agents.acp_opening import Opening
from garcon.runtime.agents.acp_permissions import Permissions
from garcon.runtime.agents.acp_rows import TurnRows
from garcon.runtime.agents.acp_usage import SessionUsage
from garcon.runtime.agents.acp_wire import (
    METHOD_NOT_FOUND,
    Calls,
    an_object,
    error_text,
    notification,
    refusal,
    text_of,
)
from garcon.runtime.agents.conversation import Emit, Output, Ready, SteerSettled, notice, row
from garcon.runtime.agents.stamps import Stamp

COMPACTED = "The agent made the conversation shorter for its model. It does not show its summary."
FORGOTTEN = (
    "The agent cannot go on with a session after its process has ended. This is a new one, which"
    " knows nothing of what was said before."
)
_STEER = "steer:"


@frozen(kw_only=True)
class AcpWays:
    """How one agent does what the protocol leaves to it.

    `modes` maps our permission modes to the agent's.  Where the agent lists none for a mode, its
    requests are decided here, on top of the mode in which it asks.  `compact` is the prompt that
    compacts a session, None where there is none.  `model` is what we call the agent's own choice.
    """

    modes: Mapping[str, str] = field(factory=dict)
    compact: str | None = None
    model: str = ""


@define(eq=False)
class AcpConversation:
    """One process and its one session.  `learned` is told which models the agent lists."""

    _directory: str
    _resume: str | None
    _ways: AcpWays
    _fork_from: ForkPoint | None = None
    _learned: Callable[[tuple[Model, ...]], None] = lambda _: None
    _calls: Calls = field(factory=Calls)
    _choices: Choices = field(factory=Choices)
    _usage: SessionUsage = field(factory=SessionUsage)
    _opening: Opening = field(init=False)
    _launch: Launch | None = None
    _wanted: list[tuple[str, str]] = field(factory=list)
    """What is still to be chosen before the prompt."""
    _choosing: str = ""
    """The purpose of the choice whose answer the prompt waits for."""
    _turns: int = 0
    _is_named: bool = False
    """The launch knows which session this is, or was told."""
    _interrupting: bool = False
    _permissions: Permissions = field(factory=Permissions)
    _rows: TurnRows = field(factory=TurnRows)

    def __attrs_post_init__(self) -> None:
        self._opening = Opening(
            self._directory, self._resume, self._fork_from, self._calls, self._choices
        )

    def open(self) -> list[Output]:
        return self._opening.begin()

    # -- turns

    def prompt(self, launch: Launch, stamp: Stamp) -> list[Output]:
        self._launch = launch
        self._turns += 1
        self._interrupting = False
        self._rows = TurnRows()
        # An agent that is slow to start may be given its turn before.
        return self._begin(launch, stamp) if self._opening.is_open else []

    def _begin(self, launch: Launch, stamp: Stamp) -> list[Output]:
        self._is_named = self._opening.session_id == launch.agent_session_id
        is_own = launch.model in ("", self._ways.model)
        if launch.model_endpoint_id is None and self._choices.lacks(MODEL, launch.model, is_own):
            text = f"The agent does not offer the model {launch.model}."
            failure = RunFailure(code="MODEL_UNAVAILABLE", message=text)
            return self._end("failed", failure, stamp)
        if launch.images and not self._opening.takes_images:
            failure = RunFailure(code="UNSUPPORTED_AGENT", message="The agent takes no pictures.")
            return self._end("failed", failure, stamp)
        self._wanted = self._wishes(launch)
        return [self._next_step(launch)]

    def _named(self, launch: Launch, stamp: Stamp) -> list[Output]:
        """Name the session, once it has heard the prompt: an agent that was stopped before keeps
        nothing that could be taken up again.  Where it stands for another one, that is told: the
        chat has no history for an agent that was to go on.
        """
        if self._is_named:
            return []
        self._is_named = True
        is_fork = self._opening.is_fork and launch.fork_from is not None
        session_id = self._opening.session_id
        started = Emit(SessionStarted(agent_session_id=session_id, is_fork=is_fork))
        is_lost = self._opening.is_new and launch.agent_session_id is not None
        return [started, notice(FORGOTTEN, stamp)] if is_lost else [started]

    def _wishes(self, launch: Launch) -> list[tuple[str, str]]:
        """Return what to choose: the agent's mode of this kind, else the one in which it asks,
        else the one in which it began: none that an earlier turn chose stays in force.  The model
        goes before the effort, of which each has its own.
        """
        modes = (
            self._ways.modes.get(launch.permission_mode),
            self._ways.modes.get("default"),
            self._choices.first(MODE),
        )
        mode = next((m for m in modes if m and self._choices.offers(MODE, m)), "")
        effort = (THOUGHT_LEVEL, launch.thinking_mode)
        if launch.model_endpoint_id is not None:
            # The model stands in what the process was started with.
            return [(MODE, mode), effort]
        return [(MODE, mode), (MODEL, launch.model), effort]

    def _next_step(self, launch: Launch) -> Output:
        session = {"sessionId": self._opening.session_id}
        while self._wanted:
            category, value = self._wanted.pop(0)
            if value and (asked := self._choices.request(category, value)) is not None:
                self._choosing = f"choice {self._turns}"
                method, parameters = asked
                return self._calls.ask(self._choosing, method, {**session, **parameters})
        self._choosing = ""
        content = {"prompt": self._content(launch)}
        return self._calls.ask("prompt", "session/prompt", {**session, **content})

    def _content(self, launch: Launch) -> list[dict[str, Any]]:
        if launch.is_compaction:
            return [a_text(f"{self._ways.compact or '/compact'} {launch.prompt}".strip())]
        return prompt_of(launch, knows_history=self._opening.is_fork)

    def interrupt(self, stamp: Stamp) -> list[Output]:
        if self._launch is None:
            return []
        self._interrupting = True
        if not self._opening.is_open:
            return self._end("interrupted", None, stamp)
        cancel = notification("session/cancel", {"sessionId": self._opening.session_id})
        outputs = [cancel, *self._permissions.cancel_all()]
        if self._choosing:
            # The prompt was not sent yet, so no answer to it will come.
            self._choices.lost()
            outputs.extend(self._end("interrupted", None, stamp))
        return outputs

    def capture_steering(self) -> SteerCapture:
        if not self._opening.can_be_steered:
            return SteerCapture(outcome="unsupported")
        if self._launch is None or self._interrupting:
            return SteerCapture(outcome="turn-unavailable")
        target = SteerTarget(run_id=self._launch.run_id)
        return SteerCapture(outcome="captured", target=target)

    def steer(self, steer: Steer) -> list[Output]:
        if self._launch is None or self._interrupting or not self._opening.can_be_steered:
            steered = Steered(outcome="turn-unavailable")
            return [SteerSettled(steer.client_message_id, steered)]
        parameters = acp_steering.parameters(self._opening.session_id, steer)
        purpose = _STEER + steer.client_message_id
        return [self._calls.ask(purpose, acp_steering.METHOD, parameters)]

    def ended(self, text: str, stamp: Stamp) -> list[Output]:
        if self._launch is None:
            return []
        if self._interrupting:
            return self._end("interrupted", None, stamp)
        return self._end("failed", RunFailure(code="AGENT_EXITED", message=text), stamp)

    def _end(
        self, outcome: Any, error: RunFailure | None, stamp: Stamp, usage: Usage | None = None
    ) -> list[Output]:
        """Close the turn: an unfinished text is dropped, unless the turn is good, and no tool call
        stays open.
        """
        outputs: list[Output] = []
        is_compaction = self._launch is not None and self._launch.is_compaction
        if outcome == "finished" and is_compaction:
            summary = self._rows.take_text().strip() or COMPACTED
            compacted = Compaction(timestamp=stamp.now, trigger="manual", summary=summary)
            outputs.append(row(compacted))
        elif outcome == "finished":
            outputs.extend(self._rows.flush(stamp))
        self._rows.drop_text()
        outputs.extend(self._rows.close(stamp))
        self._launch = None
        self._wanted, self._choosing = [], ""
        self._permissions.clear()
        return [*outputs, Emit(RunEnded(outcome=outcome, error=error, usage=usage))]

    # -- messages

    def received(self, message: dict[str, Any], stamp: Stamp) -> list[Output]:
        method, request_id = message.get("method"), message.get("id")
        if method is None:
            purpose = self._calls.answered(request_id)
            return [] if purpose is None else self._answered(purpose, message, stamp)
        parameters = an_object(message.get("params"))
        match method:
            case "session/update":
                return [*unknown_in_update(parameters), *self._updated(parameters, stamp)]
            case "session/request_permission" if request_id is not None:
                asked = self._asked(request_id, parameters, stamp)
                return [*unknown_in_question(parameters), *asked]
            case "$/cancel_request":
                return self._permissions.withdrawn(parameters.get("requestId"))
        outputs = unknown_method(str(method), message)
        if request_id is None:
            return outputs
        text = f"Method not found: {method}"
        return [*outputs, refusal(request_id, METHOD_NOT_FOUND, text)]

    def _answered(self, purpose: str, message: dict[str, Any], stamp: Stamp) -> list[Output]:
        if purpose.startswith(_STEER):
            return [SteerSettled(purpose.removeprefix(_STEER), acp_steering.outcome(message))]
        if purpose in acp_opening.PURPOSES:
            outputs = self._opening.answered(purpose, message)
            if any(isinstance(output, Ready) for output in outputs):
                self._learned(self._choices.models())
                if not self._opening.is_new:
                    self._usage.taken_up()
                if self._launch is not None:
                    outputs += self._begin(self._launch, stamp)
            return outputs
        error = message.get("error")
        if error is not None:
            return self._failed(purpose, error_text(error), stamp)
        result = an_object(message.get("result"))
        if purpose == "prompt":
            return [*unknown_in_answer(purpose, result), *self._prompt_over(result, stamp)]
        self._choices.configured(result)
        if self._launch is None or purpose != self._choosing:
            return []  # the turn that wanted it is over
        return [self._next_step(self._launch)]

    def _failed(self, purpose: str, text: str, stamp: Stamp) -> list[Output]:
        if purpose != "prompt":
            self._choices.lost()
            if purpose != self._choosing:
                return []
        if self._launch is None:
            return []
        named = self._named(self._launch, stamp) if purpose == "prompt" else []
        if self._interrupting:
            return [*named, *self._end("interrupted", None, stamp)]
        failure = RunFailure(code="AGENT_FAILED", message=text)
        return [*named, *self._end("failed", failure, stamp)]

    def _prompt_over(self, result: dict[str, Any], stamp: Stamp) -> list[Output]:
        reason, usage = text_of(result.get("stopReason")), self._usage.of_turn(result)
        if self._launch is None:
            return []
        named = self._named(self._launch, stamp)
        if self._interrupting or reason == "cancelled":
            return [*named, *self._end("interrupted", None, stamp, usage)]
        if reason in ("end_turn", ""):
            return [*named, *self._end("finished", None, stamp, usage)]
        text = f"the agent stopped early: {reason}"
        failure = RunFailure(code="AGENT_STOPPED", message=text)
        return [*named, *self._end("failed", failure, stamp, usage)]

    def _updated(self, parameters: dict[str, Any], stamp: Stamp) -> list[Output]:
        if parameters.get("sessionId") != self._opening.session_id:
            return []  # the history of a session that is being loaded
        self._opening.updated()
        update = an_object(parameters.get("update"))
        match update.get("sessionUpdate"):
            case "current_mode_update":
                self._choices.mode_changed(text_of(update.get("currentModeId")))
            case "config_option_update":
                self._choices.configured(update)
            case "usage_update":
                self._usage.updated(update)
            case kind if self._launch is not None and self._opening.is_open:
                said = self._said(text_of(kind), update, stamp)
                return [] if said is None else [*self._named(self._launch, stamp), *said]
        return []  # also the tail of a turn that is over, and of a history

    def _said(self, kind: str, update: dict[str, Any], stamp: Stamp) -> list[Output] | None:
        match kind:
            case "agent_message_chunk" | "agent_thought_chunk":
                return self._rows.chunk(kind, update, stamp)
            case "tool_call" | "tool_call_update":
                return self._rows.called(update, stamp)
            case "plan":
                return self._rows.planned(update, stamp)
        return None

    # -- permission

    def _asked(self, request_id: Any, parameters: dict[str, Any], stamp: Stamp) -> list[Output]:
        launch = self._launch
        if launch is None or self._interrupting or not self._opening.is_open:
            return [self._permissions.refuse(request_id)]
        call, outputs = self._rows.asked(an_object(parameters.get("toolCall")), stamp)
        asked = self._permissions.ask(request_id, parameters, call, launch, stamp)
        return [*self._named(launch, stamp), *outputs, *asked]

    def decide(self, response: PermissionResponse, stamp: Stamp) -> list[Output] | None:
        return self._permissions.decide(response)
