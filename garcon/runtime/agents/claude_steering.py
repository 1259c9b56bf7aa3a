"""Further input for a turn of Claude Code.

It is a line like the turn's own.  While a tool runs the agent takes it up at the tool's end, within
the turn.  While the model speaks it would wait for the end of the answer: it is marked to be heard
at once, which ends what the model says, and goes on with another answer.  Either way the line comes
back at the moment when it is taken up; a question sent after it, which is answered in the order of
lines, tells that the agent has it, though it may be long until it takes it up.
"""

from __future__ import annotations

from uuid import NAMESPACE_OID, uuid5

from attrs import define, field

from garcon.contract.steering import Steer, Steered
from garcon.runtime.agents.claude_lines import request, text_block, user_line
from garcon.runtime.agents.conversation import Output, SteerSettled


@define
class _Line:
    """One input on its way."""

    message_id: str
    asked: str
    """The question that was sent after it."""
    is_there: bool = False
    """The agent has it."""


@define(eq=False)
class Steers:
    """Those of one turn that were not taken up yet, by the ids of their lines."""

    _waiting: dict[str, _Line] = field(factory=dict)

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def send(self, steer: Steer, request_id: str, *, at_once: bool) -> list[Output]:
        """Write one; a line that was written before comes back at once and does nothing."""
        line_id = str(uuid5(NAMESPACE_OID, f"{steer.target.run_id}\0{steer.client_message_id}"))
        self._waiting[line_id] = _Line(steer.client_message_id, request_id)
        return [
            user_line([text_block(steer.content)], line_id, at_once=at_once),
            request(request_id, {"subtype": "get_binary_version"}),
        ]

    def taken_up(self, line_id: object) -> list[Output] | None:
        """A line came back; None if it is none of these."""
        line = self._waiting.pop(str(line_id), None)
        if line is None:
            return None
        return [] if line.is_there else [_delivered(line)]

    def answered(self, request_id: object) -> list[Output] | None:
        """The question after a line was answered; None if that is none of these."""
        for line in self._waiting.values():
            if line.asked == request_id:
                if line.is_there:
                    return []
                line.is_there = True
                return [_delivered(line)]
        return None

    @property
    def may_still_come(self) -> bool:
        """Whether the agent may yet find one that it did not have when it came to rest."""
        return any(not line.is_there for line in self._waiting.values())

    def line_ids(self) -> list[str]:
        """Return the ids of the lines that wait."""
        return list(self._waiting)

    def clear(self) -> None:
        """The turn is over."""
        self._waiting.clear()


def _delivered(line: _Line) -> Output:
    return SteerSettled(line.message_id, Steered(outcome="delivered"))
