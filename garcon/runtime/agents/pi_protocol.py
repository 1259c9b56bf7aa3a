"""Pi's RPC mode as values: one process, one session, one prompt at a time.

A turn is over when Pi has settled: until then it goes on by itself after retries, compactions and
further input.  A stopped turn is over when Pi has answered the abort as well, and a command that
nobody has answered yet is never followed by the next one.
"""

from __future__ import annotations

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
from garcon.runtime.agents import pi_rows
from garcon.runtime.agents.conversation import (
    Emit,
    Output,
    Ready,
    Refused,
    Send,
    SteerSettled,
    Unknown,
    Version,
    notice,
    row,
)
from garcon.runtime.agents.pi_dialogs import Dialogs
from garcon.runtime.agents.pi_known import EVENTS
from garcon.runtime.agents.pi_permissions import Permissions
from garcon.runtime.agents.pi_prompts import prompt
from garcon.runtime.agents.pi_settings import Settings
from garcon.runtime.agents.pi_turn import Turn
from garcon.runtime.agents.pi_usage import Spent
from garcon.runtime.agents.pi_wire import (
    GATE,
    Message,
    an_object,
    command,
    confirmed,
    text_of,
)
from garcon.runtime.agents.pi_work import Work, entry_of
from garcon.runtime.agents.stamps import Stamp
from garcon.runtime.agents.unknown import new_fields

_STATE, _FORK = "garcon-state", "garcon-fork"
"""The commands by which a session is opened."""
_BEHIND = frozenset({"tool_execution_start", "turn_end", "agent_end", "agent_settled"})
"""What comes behind the name of an answer's entry."""
Outcome = Literal["finished", "failed", "interrupted"]


@define(eq=False)
class PiConversation:
    """One process.  Owned by the shell that writes and reads its lines.  `is_fork`: it begins its
    session as a fork of another one, `fork_at` an entry of that where one is named.
    """

    is_fork: bool = False
    fork_at: str | None = None
    _ready: bool = False
    _has_gate: bool = False
    _state: Message | None = None
    _session_id: str = ""
    _told: str = ""
    """The session that was told of last."""
    _settings: Settings = field(factory=Settings)
    _permissions: Permissions = field(factory=Permissions)
    _dialogs: Dialogs = field(factory=Dialogs)
    _spent: Spent = field(factory=Spent)
    _turn: Turn | None = None
    _commands: int = 0

    def open(self) -> list[Output]:
        outputs = [command(_STATE, "get_state")]
        if self.fork_at is not None:
            outputs.append(command(_FORK, "prompt", message=f"/{_FORK}"))
        return outputs

    def prompt(self, launch: Launch, stamp: Stamp) -> list[Output]:
        steps = self._settings.changes(launch)
        if launch.is_compaction:
            about = {"customInstructions": launch.prompt} if launch.prompt.strip() else {}
            steps.append(("compact", about))
        else:
            steps.append(("prompt", prompt(launch, is_fork=self.is_fork)))
        self._turn = turn = Turn(launch, steps, Work(self._spent))
        return self._next(turn)

    def interrupt(self, stamp: Stamp) -> list[Output]:
        turn = self._turn
        if turn is None or turn.stopping:
            return []
        turn.stopping = True
        outputs = self._deny_all(stamp)
        if turn.can_be_stopped:
            outputs += self._abort(turn)
        return outputs

    def _abort(self, turn: Turn) -> list[Output]:
        # What is queued would go on after the abort.
        turn.abort = self._fresh()
        return [command(self._fresh(), "clear_queue"), command(turn.abort, "abort")]

    def decide(self, response: PermissionResponse, stamp: Stamp) -> list[Output] | None:
        decided = self._permissions.decide(response)
        return self._dialogs.decide(response, stamp) if decided is None else decided

    def _deny_all(self, stamp: Stamp) -> list[Output]:
        return [*self._permissions.deny_all(), *self._dialogs.close(stamp)]

    def capture_steering(self) -> SteerCapture:
        turn = self._turn
        if turn is not None and turn.launch.is_compaction:
            return SteerCapture(outcome="not-steerable")
        if turn is None or not turn.takes_input:
            return SteerCapture(outcome="turn-unavailable")
        return SteerCapture(outcome="captured", target=SteerTarget(run_id=turn.launch.run_id))

    def steer(self, steer: Steer) -> list[Output]:
        if self.capture_steering().outcome != "captured":
            gone = Steered(outcome="turn-unavailable")
            return [SteerSettled(steer.client_message_id, gone)]
        assert self._turn is not None
        command_id = self._fresh()
        self._turn.steers[command_id] = steer.client_message_id
        return [command(command_id, "steer", message=steer.content)]

    def ended(self, text: str, stamp: Stamp) -> list[Output]:
        turn = self._turn
        if turn is None:
            return []
        if turn.stopping:
            outputs = self._end(turn, "interrupted", stamp)
        else:
            failure = RunFailure(code="AGENT_EXITED", message=text)
            outputs = self._end(turn, "failed", stamp, failure)
        return [one for one in outputs if not isinstance(one, Send)]  # nobody is there to hear it

    # -- messages

    def received(self, message: Message, stamp: Stamp) -> list[Output]:
        kind = message.get("type")
        if not isinstance(kind, str) or kind not in EVENTS:
            return [Unknown(kind if isinstance(kind, str) else "message", message)]
        return [*new_fields(kind, message, EVENTS[kind]), *self._known(kind, message, stamp)]

    def _known(self, kind: str, message: Message, stamp: Stamp) -> list[Output]:
        if kind == "response":
            return self._answered(message, stamp)
        if kind == "extension_ui_request":
            return self._asked(message, stamp)
        turn = self._turn
        if turn is None:
            return []
        outputs = turn.work.let_go() if kind in _BEHIND else []
        return [*outputs, *self._in_turn(turn, kind, message, stamp)]

    def _in_turn(self, turn: Turn, kind: str, message: Message, stamp: Stamp) -> list[Output]:
        match kind:
            case "message_end":
                said = an_object(message.get("message"))
                named = self._named(turn) if said.get("role") == "assistant" else []
                return [*named, *turn.work.message(said, stamp)]
            case "tool_execution_end":
                return turn.work.tool_ended(message, stamp)
            case "auto_retry_start" | "summarization_retry_scheduled":
                return [row(pi_rows.retrying(message, stamp.now))]
            case "compaction_end":
                return self._compacted(turn, message, stamp)
            case "extension_error":
                text = f"An extension of Pi failed: {text_of(message.get('error'))}"
                return [notice(text, stamp)]
            case "agent_settled" if turn.runs or turn.sent:
                turn.runs = turn.settled = True
                turn.aborted = message.get("aborted") is True
                if turn.steers and not turn.clearing:
                    # It comes too late, and would stay for the next turn.
                    turn.clearing = self._fresh()
                    return [command(turn.clearing, "clear_queue")]
                return self._maybe_over(turn, stamp)
        return []

    def _named(self, turn: Turn) -> list[Output]:
        """Tell the session's name, once: it is kept from the model's first answer on."""
        name = self._session_id
        if not name or name in (turn.launch.agent_session_id, self._told):
            return []
        self._told, is_fork, self.is_fork = name, self.is_fork, False
        return [Emit(SessionStarted(agent_session_id=name, is_fork=is_fork))]

    def _compacted(self, turn: Turn, message: Message, stamp: Stamp) -> list[Output]:
        if isinstance(message.get("result"), dict):
            self._spent.take(an_object(message["result"].get("usage")))
            return [row(pi_rows.compaction(message, stamp.now))]
        if turn.launch.is_compaction or turn.stopping:
            return []  # its response says the same
        text = text_of(message.get("errorMessage")) or "The compaction was stopped."
        return [notice(text, stamp)]

    def _asked(self, message: Message, stamp: Stamp) -> list[Output]:
        request_id, method, turn = message.get("id"), message.get("method"), self._turn
        if method == "confirm" and message.get("title") == GATE:
            if turn is None or turn.stopping:
                return [confirmed(request_id, False)]
            asked = self._permissions.ask(message, turn.launch, stamp)
            return [*turn.work.let_go(), *asked]
        if method == "setStatus":
            key = text_of(message.get("statusKey"))
            if key.startswith(GATE):
                return self._told_by_gate(key, text_of(message.get("statusText")))
        is_seen = turn is not None and not turn.stopping
        outputs = self._dialogs.take(message, stamp, in_turn=is_seen)
        has_rows = turn is not None and any(isinstance(one, Emit) for one in outputs)
        return [*turn.work.let_go(), *outputs] if turn is not None and has_rows else outputs

    def _told_by_gate(self, key: str, text: str) -> list[Output]:
        turn = self._turn
        match key:
            case "garcon":
                self._has_gate = True
                return [*([Version(text)] if text else []), *self._opened()]
            case "garcon-session":
                if self._session_id and text and text != self._session_id:
                    # Something in Pi began another one, which has settings of its own.
                    self._session_id, self.is_fork = text, False
                    self._settings.forget()
            case "garcon-fork" if text == self.fork_at:
                self.fork_at = None
                return self._opened()
            case "garcon-answer" if turn is not None:
                return turn.work.let_go(entry_of(text))
            case "garcon-end" if turn is not None:
                turn.work.anchor = entry_of(text)
        return []

    # -- responses

    def _answered(self, message: Message, stamp: Stamp) -> list[Output]:
        command_id, turn = text_of(message.get("id")), self._turn
        is_good = message.get("success") is True
        why = text_of(message.get("error")) or "it refused a command"
        if command_id == _FORK and self.fork_at is not None:
            return [Refused("Pi does not go back to where the fork begins")]
        if command_id == _STATE:
            if not is_good:
                return [Refused(f"Pi does not open its session: {why}")]
            if self._state is None:
                self._state = an_object(message.get("data"))
                self._session_id = text_of(self._state.get("sessionId"))
                self._settings.read(self._state)
                self._window(self._state.get("model"))
            return self._opened()
        if turn is None or not command_id:
            return [] if command_id.startswith("garcon-") else [Unknown("response", message)]
        if command_id in turn.steers:
            message_id = turn.steers.pop(command_id)
            if not is_good:
                return [SteerSettled(message_id, Steered(outcome="rejected", text=why))]
            outcome: Any = "not-delivered" if turn.settled else "delivered"
            return [SteerSettled(message_id, Steered(outcome=outcome))]
        if command_id == turn.abort:
            turn.abort = ""
            return self._maybe_over(turn, stamp)
        if command_id == turn.clearing:
            turn.clearing = ""
            return self._maybe_over(turn, stamp)
        if command_id != turn.sent:
            return []
        turn.sent = ""
        if not is_good and not turn.stopping:
            self._settings.forget()
            failure = RunFailure(code="AGENT_FAILED", message=why)
            return self._end(turn, "failed", stamp, failure)
        data = an_object(message.get("data"))
        if message.get("command") == "set_model":
            self._window(data)
        if turn.steps:
            return self._end(turn, "interrupted", stamp) if turn.stopping else self._next(turn)
        if turn.launch.is_compaction or data.get("disposition") == "handled" or not is_good:
            turn.settled = True
            return self._maybe_over(turn, stamp)
        turn.runs = True
        if turn.settled or turn.stopping:
            return self._abort(turn) if turn.stopping else self._maybe_over(turn, stamp)
        return []

    def _window(self, model: object) -> None:
        window = an_object(model).get("contextWindow")
        is_window = isinstance(window, int) and 0 < window < 2**53
        self._spent.window = window if is_window else self._spent.window

    def _opened(self) -> list[Output]:
        is_there = self._has_gate and self._state is not None and self.fork_at is None
        if self._ready or not is_there:
            return []
        self._ready = True
        return [Ready(adapts=True)]

    # -- the turn's steps and its end

    def _next(self, turn: Turn) -> list[Output]:
        kind, members = turn.steps.pop(0)
        turn.sent = self._fresh()
        return [command(turn.sent, kind, **members)]

    def _maybe_over(self, turn: Turn, stamp: Stamp) -> list[Output]:
        if not turn.is_over:
            return []
        if turn.stopping or turn.aborted:
            return self._end(turn, "interrupted", stamp)
        if turn.work.failure:
            failure = RunFailure(code="AGENT_FAILED", message=turn.work.failure)
            return self._end(turn, "failed", stamp, failure)
        return self._end(turn, "finished", stamp)

    def _end(
        self, turn: Turn, outcome: Outcome, stamp: Stamp, error: RunFailure | None = None
    ) -> list[Output]:
        outputs = [*self._deny_all(stamp), *turn.work.ended(stamp)]
        self._turn = None
        end = RunEnded(
            outcome=outcome, error=error, anchor=turn.work.anchor, usage=self._spent.taken()
        )
        return [*outputs, Emit(end)]

    def _fresh(self) -> str:
        self._commands += 1
        return f"garcon-{self._commands}"
