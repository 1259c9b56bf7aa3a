"""Recorded conversations with agents, one message a line: `dir` is ``in`` (to the agent) or
``out``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

from attrs import define, field

from garcon.contract.messages import ToolResult
from garcon.contract.runs import (
    PermissionRequested,
    PermissionWithdrawn,
    RowProduced,
    RunEnded,
    RunEvent,
    SessionStarted,
)
from garcon.runtime.agents.conversation import Emit, Output, Send
from garcon.runtime.agents.stamps import Stamp

NOW = "2026-01-02T03:04:05.678Z"


def recorded(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield direction and message of each line of a recording."""
    for line in Path(__file__).with_name(name).read_text().splitlines():
        entry = json.loads(line)
        yield entry["dir"], entry["msg"]


@define(eq=False)
class Taken:
    """What a conversation put out so far."""

    sent: list[dict[str, Any]] = field(factory=list)
    events: list[RunEvent] = field(factory=list)
    other: list[Output] = field(factory=list)
    _numbers: Iterator[int] = field(factory=lambda: count(1))

    def stamp(self) -> Stamp:
        """Return the next moment; its id is ``id-N``."""
        return Stamp(now=NOW, fresh_id=f"id-{next(self._numbers)}")

    def take(self, outputs: list[Output] | None) -> None:
        """Sort outputs by what they are."""
        for output in outputs or []:
            match output:
                case Send(message):
                    self.sent.append(message)
                case Emit(event):
                    self.events.append(event)
                case _:
                    self.other.append(output)

    @property
    def asked(self) -> PermissionRequested:
        """The last permission request."""
        return [e for e in self.events if isinstance(e, PermissionRequested)][-1]

    def story(self) -> list[str]:
        """Tell the events since the last call, one short text each."""
        events, self.events = self.events, []
        return [_short(event) for event in events]


def _short(event: RunEvent) -> str:
    match event:
        case RowProduced(message=ToolResult() as row):
            return f"result{' error' if row.is_error else ''}: {row.content['text']}"
        case RowProduced(message=message):
            said = getattr(message, "content", None) or getattr(message, "command", "")
            return f"{type(message).__name__}: {said}"
        case SessionStarted(agent_session_id=session_id):
            return f"session {session_id}"
        case PermissionRequested(requested_tool=tool):
            return f"asked: {type(tool).__name__}"
        case PermissionWithdrawn():
            return "withdrawn"
        case RunEnded(outcome=outcome, error=None):
            return outcome
        case RunEnded(outcome=outcome, error=error):
            assert error is not None
            return f"{outcome}: {error.message}"
    return type(event).__name__
