"""Claude Code's streaming JSON as values: one process, one session, one user line at a time.

When a turn is over is the affair of `claude_ends.py`.  Whether it failed is told by ``is_error``;
``subtype`` says ``success`` either way.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from attrs import define, field

from garcon.contract.limits import KIB
from garcon.contract.messages import AssistantMessage, ProviderRow, ToolResult, ToolUse
from garcon.contract.runs import (
    Launch,
    PermissionResponse,
    RunEnded,
    RunFailure,
    SessionStarted,
)
from garcon.contract.steering import Steer, SteerCapture, Steered, SteerTarget
from garcon.runtime.agents import claude_lines as lines
from garcon.runtime.agents import claude_rows
from garcon.runtime.agents.claude_ends import Ends
from garcon.runtime.agents.claude_known import unknown_in
from garcon.runtime.agents.claude_lines import Message, as_object, words
from garcon.runtime.agents.claude_questions import Question, Questions
from garcon.runtime.agents.claude_settings import Changing, Settings
from garcon.runtime.agents.claude_steering import Steers
from garcon.runtime.agents.claude_usage import Spent
from garcon.runtime.agents.conversation import (
    Emit,
    Output,
    Ready,
    Refused,
    SteerSettled,
    Version,
    row,
)
from garcon.runtime.agents.history import preface
from garcon.runtime.agents.stamps import Stamp

_INITIALIZE = "initialize"
COMPACT = "/compact"
ALONE = 8 * KIB
"""Characters that are kept of what it says between turns."""


@define(eq=False)
class ClaudeConversation:
    """One process.  Owned by the shell that writes and reads its lines.  `forks`: it begins its
    session as a fork of another one.
    """

    forks: bool = False
    _launch: Launch | None = None
    _settings: Settings | None = None
    _changing: Changing = field(factory=Changing)
    _line: Output | None = None
    """The turn's line, while it waits for the settings."""
    _ready: bool = False
    _ends: Ends = field(factory=Ends)
    _interrupting: bool = False
    _taking_back: str = ""
    """The request by which a line that waits is taken back."""
    _session_id: str = ""
    _questions: Questions = field(factory=Questions)
    _steers: Steers = field(factory=Steers)
    _spent: Spent = field(factory=Spent)
    _open_tools: dict[str, None] = field(factory=dict)
    _compacted: Message | None = None
    _compaction_failure: str = ""
    _anchor: str | None = None
    """The last entry of the session, by which it can be forked after it."""
    _alone: str = ""
    """What it said since the last turn."""
    _requests: int = 0

    def open(self) -> list[Output]:
        return [lines.request(_INITIALIZE, {"subtype": "initialize", "hooks": None})]

    def prompt(self, launch: Launch, stamp: Stamp) -> list[Output]:
        self._launch = launch
        self._ends.begin(stamp.fresh_id)
        self._interrupting = False
        self._taking_back = self._compaction_failure = ""
        self._compacted = self._anchor = None
        self._open_tools.clear()
        self._line = lines.user_line(self._content(launch), stamp.fresh_id)
        outputs: list[Output] = []
        if self._session_id and self._session_id != launch.agent_session_id:
            outputs.append(Emit(SessionStarted(agent_session_id=self._session_id)))
        if self._alone:
            outputs.append(row(claude_rows.said_alone(self._alone, stamp.now)))
            self._alone = ""
        self._changing = Changing()
        if self._settings is None:
            self._settings = Settings.of(launch)
        for change in self._settings.changes(launch, self._questions.granted):
            outputs.append(self._request(change))
            self._changing.expect(self._last_request, change)
        return [*outputs, *self._begin(stamp)]

    def _content(self, launch: Launch) -> list[Message]:
        if launch.is_compaction:
            return [lines.text_block(f"{COMPACT} {launch.prompt}".strip())]
        content = [part for one in launch.images if (part := lines.image_block(one)) is not None]
        earlier = None if self.forks else preface(launch)
        if earlier is not None:
            content.insert(0, lines.text_block(earlier))
        if launch.prompt.strip() or not content:
            content.append(lines.text_block(launch.prompt))
        return content

    def _begin(self, stamp: Stamp) -> list[Output]:
        """Write the turn's line, once the agent has taken the turn's settings."""
        line = self._line
        if line is None or not self._changing.is_over:
            return []
        self._line = None
        if self._interrupting:
            return self._end("interrupted", None, stamp)
        if self._changing.refused:
            text = f"the agent refused a setting: {'; '.join(self._changing.refused)}"
            # What it is set to now is not known: the next turn tells it everything again.
            self._settings = Settings(model="", effort="?", mode="?", chosen="")
            return self._end("failed", RunFailure(code="AGENT_FAILED", message=text), stamp)
        return [line]

    def interrupt(self, stamp: Stamp) -> list[Output]:
        if self._launch is None:
            return []
        self._interrupting = True
        if self._line is not None:
            return []  # it is not sent any more; the answers that it waits for come soon
        outputs: list[Output] = []
        # What waits would run after the interrupt: the turn's line, behind a turn of the agent's
        # own, and further input.
        for line_id in self._steers.line_ids():
            outputs.append(self._request(_take_back(line_id)))
        if not self._ends.taken_up:
            outputs.append(self._request(_take_back(self._ends.line_id)))
            self._taking_back = self._last_request
        return [*outputs, self._request({"subtype": "interrupt"})]

    def capture_steering(self) -> SteerCapture:
        """Any turn takes further input, as long as the agent says which line it takes up."""
        if self._launch is None or self._interrupting:
            return SteerCapture(outcome="turn-unavailable")
        if not self._ends.tells:
            return SteerCapture(outcome="not-steerable", text="The agent has not begun yet.")
        return SteerCapture(
            outcome="captured",
            target=SteerTarget(run_id=self._launch.run_id, turn=self._ends.line_id),
        )

    def steer(self, steer: Steer) -> list[Output]:
        message_id = steer.client_message_id
        if self._launch is None or self._interrupting:
            return [SteerSettled(message_id, Steered(outcome="turn-unavailable"))]
        if not steer.content.strip():
            text = "The input is empty."
            return [SteerSettled(message_id, Steered(outcome="invalid", text=text))]
        at_once = self._ends.taken_up and not self._open_tools
        return self._steers.send(steer, self._next_request(), at_once=at_once)

    def ended(self, text: str, stamp: Stamp) -> list[Output]:
        if self._launch is None:
            return []
        if self._interrupting:
            return self._end("interrupted", None, stamp)
        return self._end("failed", RunFailure(code="AGENT_EXITED", message=text), stamp)

    def decide(self, response: PermissionResponse, stamp: Stamp) -> list[Output] | None:
        return self._questions.decide(response)

    # -- messages

    def received(self, message: Message, stamp: Stamp) -> list[Output]:
        return [*unknown_in(message), *self._received(message, stamp)]

    def _received(self, message: Message, stamp: Stamp) -> list[Output]:
        match message.get("type"):
            case "control_response":
                return self._control_answered(as_object(message.get("response")), stamp)
            case "control_request":
                return self._control_requested(message, stamp)
            case "control_cancel_request":
                return self._questions.withdrawn(str(message.get("request_id")))
        self._ends.heard(message)
        if self._launch is None:
            self._went_on_alone(message)
            return []
        if message.get("parent_tool_use_id"):
            return self._said_by_another(message, stamp)
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

    def _went_on_alone(self, message: Message) -> None:
        """Between turns it may run one of its own, for what went on in the background: what it
        said then is told with the next turn.
        """
        if message.get("type") == "result":
            self._spent.take(message)
        elif message.get("type") == "assistant" and not message.get("parent_tool_use_id"):
            said = as_object(message.get("message"))
            if text := claude_rows.text_of(said.get("content")):
                self._alone = f"{self._alone}\n\n{text}"[:ALONE]

    def _control_answered(self, response: Message, stamp: Stamp) -> list[Output]:
        request_id = response.get("request_id")
        if self._changing.answered(request_id, response):
            return self._begin(stamp)
        if (settled := self._steers.answered(request_id)) is not None:
            return settled
        if request_id == self._taking_back and self._launch is not None:
            taken_back = as_object(response.get("response")).get("cancelled") is True
            return self._end("interrupted", None, stamp) if taken_back else []
        if self._ready or request_id != _INITIALIZE:
            return []
        if response.get("subtype") == "error":
            return [Refused(f"the agent refused to start: {response.get('error')}")]
        self._ready = True
        return [Ready(adapts=True)]

    def _control_requested(self, message: Message, stamp: Stamp) -> list[Output]:
        asked = as_object(message.get("request")).get("subtype")
        if asked != "can_use_tool":
            text = f"Unsupported control request subtype: {asked}"
            return [lines.error(str(message.get("request_id")), text)]
        question = Question.read(message)
        if self._launch is None or self._interrupting:
            return [lines.deny(question.request_id, "The turn was stopped.")]
        is_planning = self._settings is None or self._settings.mode == "plan"
        return self._questions.ask(question, self._launch.permission_mode, is_planning, stamp)

    def _system(self, message: Message, stamp: Stamp) -> list[Output]:
        if self._settings is not None and (mode := words(message.get("permissionMode"))):
            self._settings.mode = mode
        match message.get("subtype"):
            case "init":
                version = words(message.get("claude_code_version"))
                return [*([Version(version)] if version else []), *self._named(message)]
            case "status" if message.get("compact_result") == "failed":
                self._compaction_failure = words(message.get("compact_error"))
            case "compact_boundary":
                self._compacted = as_object(message.get("compact_metadata"))
            case "api_retry":
                return [row(claude_rows.retrying(message, stamp.now))]
            case "session_state_changed" if message.get("state") == "idle":
                if self._ends.came_to_rest(may_go_on=self._steers.may_still_come):
                    return self._close(stamp)
        return []

    def _named(self, message: Message) -> list[Output]:
        session_id = lines.name(message.get("session_id"))
        if not session_id or session_id == self._session_id:
            return []
        known = self._session_id or (self._launch.agent_session_id if self._launch else None)
        is_fork, self.forks = self.forks, False
        self._session_id = session_id
        if session_id == known:
            return []
        return [Emit(SessionStarted(agent_session_id=session_id, is_fork=is_fork))]

    def _assistant(self, message: Message, stamp: Stamp) -> list[Output]:
        if message.get("error") is not None:
            return []  # the turn's result says the same, as its error
        said = as_object(message.get("message"))
        if said.get("model") == claude_rows.SYNTHETIC:
            return self._rows(claude_rows.said(said, stamp.now), None)
        self._note_entry(message)
        return self._rows(claude_rows.said(said, stamp.now), self._anchor)

    def _said_by_another(self, message: Message, stamp: Stamp) -> list[Output]:
        said = as_object(message.get("message"))
        if message.get("type") == "assistant" and message.get("error") is None:
            return self._rows(claude_rows.said_by_another(said, stamp.now), None)
        if message.get("type") == "user":
            return self._rows(claude_rows.results(said.get("content"), stamp.now), None)
        return []

    def _user(self, message: Message, stamp: Stamp) -> list[Output]:
        if message.get("isReplay"):
            return self._steers.taken_up(message.get("uuid")) or []
        self._note_entry(message)
        content = as_object(message.get("message")).get("content")
        if isinstance(content, str):
            about, self._compacted = self._compacted, None
            # After a compaction: the summary that the agent goes on with.
            return [] if about is None else [row(claude_rows.compaction(about, content, stamp.now))]
        return self._rows(claude_rows.results(content, stamp.now), None)

    def _note_entry(self, message: Message) -> None:
        self._anchor = lines.name(message.get("uuid")) or None

    def _rows(self, rows: Iterable[ProviderRow], anchor: str | None) -> list[Output]:
        outputs: list[Output] = []
        for one in rows:
            if isinstance(one, ToolUse):
                self._open_tools[one.tool_id] = None
            elif isinstance(one, ToolResult):
                self._open_tools.pop(one.tool_id, None)
            outputs.append(row(one, anchor if isinstance(one, AssistantMessage) else None))
        return outputs

    # -- the end of a turn

    def _resulted(self, message: Message, stamp: Stamp) -> list[Output]:
        outputs = self._named(message)
        self._spent.take(message)
        if self._ends.resulted(message, waits=bool(self._steers), is_stopped=self._interrupting):
            outputs.extend(self._close(stamp))
        return outputs

    def _close(self, stamp: Stamp) -> list[Output]:
        result = self._ends.result
        assert result is not None and self._launch is not None
        if self._interrupting:
            return self._end("interrupted", None, stamp)
        if result.get("is_error") is True:
            text = claude_rows.failure_text(result)
        elif self._launch.is_compaction and self._compaction_failure:
            text = self._compaction_failure
        else:
            return self._end("finished", None, stamp)
        return self._end("failed", RunFailure(code="AGENT_FAILED", message=text), stamp)

    def _end(
        self,
        outcome: Literal["finished", "failed", "interrupted"],
        error: RunFailure | None,
        stamp: Stamp,
    ) -> list[Output]:
        outputs: list[Output] = [
            row(
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
        self._steers.clear()
        self._launch = self._line = None
        end = RunEnded(outcome=outcome, error=error, anchor=self._anchor, usage=self._spent.taken())
        return [*outputs, Emit(end)]

    # -- requests

    def _next_request(self) -> str:
        self._requests += 1
        return self._last_request

    @property
    def _last_request(self) -> str:
        return f"garcon-{self._requests}"

    def _request(self, body: Message) -> Output:
        return lines.request(self._next_request(), body)


def _take_back(line_id: str) -> Message:
    return {"subtype": "cancel_async_message", "message_uuid": line_id}
