"""A session's history as an agent tells it when it loads the session, as values: updates become
rows, an input being one too.

The agent says no times.  Where it lists its sessions, all rows have the time at which the session
changed last, so that the same history is read again as the same rows.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from attrs import define, field
from msgspec import UNSET

from garcon.contract.messages import Image, UserMessage
from garcon.contract.runs import NativeRow, NativeSession, RowProduced
from garcon.runtime.agents.acp_choices import Choices
from garcon.runtime.agents.acp_content import image_in, words_of
from garcon.runtime.agents.acp_known import unknown_in_update
from garcon.runtime.agents.acp_opening import Opening
from garcon.runtime.agents.acp_rows import TurnRows
from garcon.runtime.agents.acp_wire import (
    METHOD_NOT_FOUND,
    Calls,
    an_object,
    objects_of,
    refusal,
    text_of,
)
from garcon.runtime.agents.conversation import Emit, Output, Ready, Refused, Send, Unknown
from garcon.runtime.agents.history import is_preface
from garcon.runtime.agents.stamps import Stamp
from garcon.runtime.agents.unknown import KINDS, NAME

LIST, PAGES = "list", 20
"""Pages of its list of sessions that are looked through."""
_NO_TIME = "1970-01-01T00:00:00.000Z"


@define(eq=False)
class Replay:
    """One process that is asked for one session.  Ends with `Ready`, the rows being whole then, or
    with `Refused`.
    """

    _session: NativeSession
    rows: list[NativeRow] = field(factory=list)
    _calls: Calls = field(factory=Calls)
    _opening: Opening = field(init=False)
    _held: list[Output] = field(factory=list)
    """What is asked when it has listed its sessions."""
    _listed: int = 0
    _updates: ReplayedRows = field(init=False)
    unknown: set[str] = field(factory=set)
    """The kinds of what it says that we do not know."""

    def __attrs_post_init__(self) -> None:
        session = self._session
        self._opening = Opening(
            session.project_path, session.agent_session_id, None, self._calls, Choices()
        )
        self._updates = ReplayedRows(_NO_TIME)

    def begin(self) -> list[Output]:
        """Say what is written first."""
        return self._opening.begin()

    def received(self, message: dict[str, Any]) -> list[Output]:
        """Take the agent's next message."""
        method, request_id = message.get("method"), message.get("id")
        if method is None:
            purpose = self._calls.answered(request_id)
            return [] if purpose is None else self._answered(purpose, message)
        if method == "session/update":
            self._updated(an_object(message.get("params")))
        elif request_id is not None:
            return [refusal(request_id, METHOD_NOT_FOUND, "Nobody is asked anything here.")]
        return []

    def _answered(self, purpose: str, message: dict[str, Any]) -> list[Output]:
        if purpose == LIST:
            return self._took_list(an_object(message.get("result")))
        outputs: list[Output] = [
            output
            for output in self._opening.answered(purpose, message)
            if isinstance(output, Send | Ready | Refused)
        ]
        if purpose == "initialize":
            return self._initialized(an_object(message.get("result")), outputs)
        if any(isinstance(output, Ready) for output in outputs):
            self.rows += self._updates.ended()
        return outputs

    def _initialized(self, said: dict[str, Any], outputs: list[Output]) -> list[Output]:
        sent = [output.message.get("method") for output in outputs if isinstance(output, Send)]
        if sent and sent != ["session/load"]:
            return [Refused("the agent cannot load its sessions")]
        capabilities = an_object(said.get("agentCapabilities"))
        can_list = isinstance(an_object(capabilities.get("sessionCapabilities")).get(LIST), dict)
        if not (sent and can_list):
            return outputs
        self._held = outputs
        return [self._list(None)]

    def _list(self, cursor: str | None) -> Output:
        self._listed += 1
        more = {} if cursor is None else {"cursor": cursor}
        asked = {"cwd": self._session.project_path, **more}
        return self._calls.ask(LIST, "session/list", asked)

    def _took_list(self, result: dict[str, Any]) -> list[Output]:
        """It is for the time only: one that cannot be had, or has not the session, is no harm."""
        for one in objects_of(result.get("sessions")):
            if one.get("sessionId") == self._session.agent_session_id:
                self._updates = ReplayedRows(_time(one.get("updatedAt")))
                return self._held
        cursor = text_of(result.get("nextCursor"))
        return [self._list(cursor)] if cursor and self._listed < PAGES else self._held

    def _updated(self, parameters: dict[str, Any]) -> None:
        if parameters.get("sessionId") == self._session.agent_session_id:
            self._opening.updated()
            self._note(unknown_in_update(parameters))
            self.rows += self._updates.updated(an_object(parameters.get("update")))

    def _note(self, outputs: list[Output]) -> None:
        for output in outputs:
            if isinstance(output, Unknown) and len(self.unknown) < KINDS:
                self.unknown.add(output.kind[:NAME])


@define(eq=False)
class ReplayedRows:
    """The rows of updates that are told again; all of one time."""

    _now: str
    _turn: TurnRows = field(factory=TurnRows)
    _input: str = ""
    _images: list[Image] = field(factory=list)
    _input_id: Any = None
    _plans: int = 0

    def updated(self, update: dict[str, Any]) -> list[NativeRow]:
        """Take the next one; returns the rows that are whole with it."""
        match kind := text_of(update.get("sessionUpdate")):
            case "user_message_chunk":
                return self._said_by_user(update)
            case "agent_message_chunk" | "agent_thought_chunk":
                return [*self._input_over(), *_rows(self._turn.chunk(kind, update, self._stamp()))]
            case "tool_call" | "tool_call_update":
                return [*self._input_over(), *_rows(self._turn.called(update, self._stamp()))]
            case "plan":
                return [*self._input_over(), *_rows(self._turn.planned(update, self._stamp()))]
        return []

    def ended(self) -> list[NativeRow]:
        """Nothing more comes."""
        return [*self._input_over(), *self._turn_over()]

    def _turn_over(self) -> list[NativeRow]:
        stamp = self._stamp()
        return _rows([*self._turn.flush(stamp), *self._turn.close(stamp)])

    def _said_by_user(self, update: dict[str, Any]) -> list[NativeRow]:
        message_id = update.get("messageId")
        is_next = message_id != self._input_id
        rows = [*(self._input_over() if is_next else []), *self._turn_over()]
        self._input_id = message_id
        content = an_object(update.get("content"))
        if (image := image_in(content)) is not None:
            self._images.append(image)
        elif not is_preface(text := words_of(content)):
            self._input += text
        return rows

    def _input_over(self) -> list[NativeRow]:
        text, images = self._input, self._images
        self._input, self._images, self._input_id = "", [], None
        if not (text.strip() or images):
            return []
        return [UserMessage(timestamp=self._now, content=text, images=images or UNSET)]

    def _stamp(self) -> Stamp:
        self._plans += 1
        return Stamp(now=self._now, fresh_id=f"replayed-{self._plans}")


def _rows(outputs: list[Output]) -> list[NativeRow]:
    events = [output.event for output in outputs if isinstance(output, Emit)]
    return [event.message for event in events if isinstance(event, RowProduced)]


def _time(value: object) -> str:
    try:
        moment = datetime.fromisoformat(text_of(value)).astimezone(UTC)
    except (ValueError, OverflowError):
        return _NO_TIME
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
