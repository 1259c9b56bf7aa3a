"""Codex's app server as values: one process, one thread, one turn at a time.

A turn is over when the app server says that it is completed.  After an interrupt it is asked to
clean up as well, and a stopped turn is not over before: a command of it would run on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from attrs import define, field

from garcon.contract.runs import (
    Launch,
    PermissionResponse,
    RunEnded,
    RunFailure,
    SessionStarted,
)
from garcon.contract.steering import Steer, SteerCapture, Steered, SteerTarget
from garcon.runtime.agents import codex_requests
from garcon.runtime.agents.codex_errors import failure_text
from garcon.runtime.agents.codex_known import (
    MEANINGLESS,
    unknown_in_notification,
    unknown_in_request,
)
from garcon.runtime.agents.codex_opening import PURPOSES, Opening
from garcon.runtime.agents.codex_settings import text_input, turn_parameters
from garcon.runtime.agents.codex_steering import STEER, outcome
from garcon.runtime.agents.codex_turn import HANDLED, CodexTurn, Memory
from garcon.runtime.agents.codex_wire import (
    METHOD_NOT_FOUND,
    Calls,
    an_object,
    answer,
    error_of,
    name_of,
    refusal,
)
from garcon.runtime.agents.conversation import Emit, Output, SteerSettled, Unknown, notice
from garcon.runtime.agents.endpoints import model_of
from garcon.runtime.agents.history import preface
from garcon.runtime.agents.stamps import Stamp

NO_INSTRUCTIONS = "Codex compacts without instructions; these were left out."
_OF_TURNS = frozenset({"turn/started", "turn/completed"})
FOR_ALL = frozenset({"serverRequest/resolved"})
"""What is heard of subagents too: their requests are asked like any other."""


@define(eq=False)
class CodexConversation:
    """One process.  Owned by the shell that writes and reads its lines.

    It is opened for a launch, to go on with the thread `resume` if there is one.  `efforts` says
    which efforts a model takes.
    """

    _opened_for: Launch
    _resume: str | None
    _efforts: Callable[[str], tuple[str, ...]]
    _calls: Calls = field(factory=Calls)
    _opening: Opening = field(init=False)
    _memory: Memory = field(factory=Memory)
    _turn: CodexTurn | None = None
    _turns: int = 0

    def __attrs_post_init__(self) -> None:
        self._opening = Opening(self._opened_for, self._resume, self._calls)

    def open(self) -> list[Output]:
        return self._opening.begin()

    def prompt(self, launch: Launch, stamp: Stamp) -> list[Output]:
        self._turns += 1
        turn = self._turn = CodexTurn(launch, self._memory)
        outputs = turn.begun(stamp)
        opening = self._opening
        if launch.is_compaction:
            if launch.prompt.strip():
                outputs.append(notice(NO_INSTRUCTIONS, stamp))
            parameters = {"threadId": opening.thread_id}
            return [*outputs, self._calls.ask(self._of("turn"), "thread/compact/start", parameters)]
        told = None if opening.is_fork else preface(launch)
        efforts = self._efforts(model_of(launch) or opening.model)
        parameters = turn_parameters(launch, opening.thread_id, opening.model, efforts, told)
        return [*outputs, self._calls.ask(self._of("turn"), "turn/start", parameters)]

    def _of(self, purpose: str) -> str:
        """Return a purpose of this turn's, which no answer to an earlier turn's request has."""
        return f"{purpose} {self._turns}"

    def interrupt(self, stamp: Stamp) -> list[Output]:
        turn = self._turn
        if turn is None or not turn.is_on:
            return []
        turn.is_stopping = True
        # One that has no name yet is stopped when it gets it.
        return [self._stop(turn)] if turn.id else []

    def _stop(self, turn: CodexTurn) -> Output:
        parameters = {"threadId": self._opening.thread_id, "turnId": turn.id}
        return self._calls.ask("interrupt", "turn/interrupt", parameters)

    def capture_steering(self) -> SteerCapture:
        turn = self._turn
        if turn is None or not turn.is_on or not turn.id:
            return SteerCapture(outcome="turn-unavailable")
        if turn.launch.is_compaction:
            return SteerCapture(outcome="not-steerable")
        target = SteerTarget(run_id=turn.launch.run_id, turn=turn.id)
        return SteerCapture(outcome="captured", target=target)

    def steer(self, steer: Steer) -> list[Output]:
        turn, message_id = self._turn, steer.client_message_id
        if turn is None or not turn.is_on or not turn.id:
            return [SteerSettled(message_id, Steered(outcome="turn-unavailable"))]
        parameters = {
            "threadId": self._opening.thread_id,
            "expectedTurnId": steer.target.turn or turn.id,
            "input": [text_input(steer.content)],
            "clientUserMessageId": message_id,
        }
        return [self._calls.ask(STEER + message_id, "turn/steer", parameters)]

    def decide(self, response: PermissionResponse, stamp: Stamp) -> list[Output] | None:
        return None if self._turn is None else self._turn.decide(response, stamp)

    def ended(self, text: str, stamp: Stamp) -> list[Output]:
        turn = self._turn
        if turn is None:
            return []
        if turn.end is not None:
            return self._over(turn.end)
        if turn.is_stopping:
            end = RunEnded(outcome="interrupted")
        else:
            end = RunEnded(outcome="failed", error=RunFailure(code="AGENT_EXITED", message=text))
        return [*turn.close(stamp), *self._over(end)]

    # -- messages

    def received(self, message: dict[str, Any], stamp: Stamp) -> list[Output]:
        method = message.get("method")
        if not isinstance(method, str):
            purpose = self._calls.answered(message)
            if purpose is None:
                return [Unknown("message", message)]
            return self._answered(purpose, message, stamp)
        parameters = an_object(message.get("params"))
        if "id" in message:
            return self._requested(message["id"], method, parameters, message, stamp)
        if method in MEANINGLESS:
            return []
        if method not in HANDLED and method not in _OF_TURNS:
            return [Unknown(method, message)]
        unknown = unknown_in_notification(method, parameters)
        return [*unknown, *self._told(method, parameters, stamp)]

    def _told(self, method: str, parameters: dict[str, Any], stamp: Stamp) -> list[Output]:
        """Take a notification that is known, whatever it is of."""
        turn = self._turn
        thread_id = parameters.get("threadId")
        if turn is None:
            self._memory.heard_between_turns(method, parameters)
            return []
        if turn.end is not None:
            return []
        is_anothers = thread_id is not None and thread_id != self._opening.thread_id
        if is_anothers and method not in FOR_ALL:
            return []  # a subagent's: its own call shows what it found
        match method:
            case "turn/started":
                return self._named(turn, parameters.get("turn"))
            case "turn/completed":
                return self._completed(turn, an_object(parameters.get("turn")), stamp)
        return turn.told(method, parameters, stamp)

    def _answered(self, purpose: str, message: dict[str, Any], stamp: Stamp) -> list[Output]:
        if purpose in PURPOSES:
            return self._opening.answered(purpose, message)
        if purpose.startswith(STEER):
            return [SteerSettled(purpose.removeprefix(STEER), outcome(message))]
        turn = self._turn
        if turn is None:
            return []
        if purpose == self._of("clean"):
            return self._over(turn.end) if turn.end is not None else []
        if purpose != self._of("turn"):
            return []  # an interrupt that came too late, mostly: the end is on its way
        error = error_of(message)
        if error is None:
            return self._named(turn, an_object(message.get("result")).get("turn"))
        return self._end(turn, "failed", error, stamp)

    def _requested(
        self,
        request_id: Any,
        method: str,
        parameters: dict[str, Any],
        message: dict[str, Any],
        stamp: Stamp,
    ) -> list[Output]:
        kind = codex_requests.KINDS.get(method)
        if kind is None:
            known = method in codex_requests.OTHERS
            no = refusal(request_id, METHOD_NOT_FOUND, f"Garcon does not serve {method}.")
            return [no, *([] if known else [Unknown(method, message)])]
        turn, unknown = self._turn, unknown_in_request(method, parameters)
        shown = None if turn is None else turn.shown(parameters)
        asked = codex_requests.read(kind, request_id, parameters, shown, stamp.now)
        if turn is None:
            return [*unknown, answer(request_id, asked.denied())]
        return [*unknown, *turn.asked(asked, stamp)]

    # -- the turn's begin and end

    def _named(self, turn: CodexTurn, said: object) -> list[Output]:
        """Take the name of the turn; from then on there is a thread that can be resumed."""
        name = name_of(an_object(said).get("id"))
        if not name or turn.id:
            return []
        turn.id = name
        outputs: list[Output] = []
        if self._opening.thread_id != turn.launch.agent_session_id:
            started = SessionStarted(
                agent_session_id=self._opening.thread_id, is_fork=self._opening.is_fork
            )
            outputs.append(Emit(started))
        return [*outputs, self._stop(turn)] if turn.is_stopping else outputs

    def _completed(self, turn: CodexTurn, said: dict[str, Any], stamp: Stamp) -> list[Output]:
        if turn.id and said.get("id") != turn.id:
            return []
        outputs = self._named(turn, said)
        match said.get("status"):
            case _ if turn.is_stopping:
                end = self._end(turn, "interrupted", None, stamp)
            case "completed":
                end = self._end(turn, "finished", None, stamp)
            case "interrupted":
                end = self._end(turn, "interrupted", None, stamp)
            case _:
                text = failure_text(an_object(said.get("error")))
                end = self._end(turn, "failed", text, stamp)
        return [*outputs, *end]

    def _end(
        self,
        turn: CodexTurn,
        outcome: Literal["finished", "failed", "interrupted"],
        text: str | None,
        stamp: Stamp,
    ) -> list[Output]:
        error = None if text is None else RunFailure(code="AGENT_FAILED", message=text)
        end = RunEnded(
            outcome=outcome,
            error=error,
            anchor=turn.id or None,
            usage=self._memory.spent.taken(),
        )
        outputs = turn.close(stamp, goes_on=outcome == "finished")
        if outcome != "interrupted":
            return [*outputs, *self._over(end)]
        parameters = {"threadId": self._opening.thread_id}
        clean = "thread/backgroundTerminals/clean"
        outputs.append(self._calls.ask(self._of("clean"), clean, parameters))
        if not turn.is_stopping:
            return [*outputs, *self._over(end)]  # nobody watches how long that takes
        turn.end = end
        return outputs

    def _over(self, end: RunEnded) -> list[Output]:
        self._turn = None
        return [Emit(end)]
