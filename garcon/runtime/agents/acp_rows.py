"""The rows of one turn, made from what the agent says piece by piece: its texts, its tool calls and
its plans.
"""

from __future__ import annotations

from typing import Any, Literal

from attrs import define, field

from garcon.contract.messages import (
    AssistantMessage,
    Thinking,
    Todo,
    TodoWriteToolUse,
    ToolResult,
)
from garcon.runtime.agents.acp_content import words_of
from garcon.runtime.agents.acp_tools import ToolCall
from garcon.runtime.agents.acp_wire import an_object, objects_of, text_of
from garcon.runtime.agents.conversation import Output, row
from garcon.runtime.agents.stamps import Stamp

NO_END = "The call did not end."
_STATUS: dict[str, Literal["pending", "in_progress", "completed"]] = {
    "in_progress": "in_progress",
    "completed": "completed",
}


@define(eq=False)
class TurnRows:
    """What one turn has said so far.  Pieces of a message are joined until something else comes."""

    _tools: dict[str, ToolCall] = field(factory=dict)
    _text: list[str] = field(factory=list)
    _text_kind: str = ""
    _text_id: Any = None

    def chunk(self, kind: str, update: dict[str, Any], stamp: Stamp) -> list[Output]:
        """Take a piece of a message; another kind or message id begins the next one."""
        message_id = update.get("messageId")
        outputs: list[Output] = []
        if (kind, message_id) != (self._text_kind, self._text_id):
            outputs = self.flush(stamp)
        self._text_kind, self._text_id = kind, message_id
        if text := words_of(an_object(update.get("content"))):
            self._text.append(text)
        return outputs

    def flush(self, stamp: Stamp) -> list[Output]:
        """End the message that is being said."""
        text, kind = "".join(self._text), self._text_kind
        self.drop_text()
        outputs = self._show_all(stamp)
        if not text.strip():
            return outputs
        make = AssistantMessage if kind == "agent_message_chunk" else Thinking
        return [*outputs, row(make(timestamp=stamp.now, content=text))]

    def take_text(self) -> str:
        """Return the message that is being said, which becomes no row."""
        text = "".join(self._text)
        self.drop_text()
        return text

    def drop_text(self) -> None:
        """Forget the message that is being said."""
        self._text.clear()
        self._text_kind, self._text_id = "", None

    def called(self, update: dict[str, Any], stamp: Stamp) -> list[Output]:
        """Take what is said of a tool call: agents name it twice, or late, or only when they ask
        for permission.
        """
        outputs = self.flush(stamp)
        call = self._call(update)
        if call.is_described:
            outputs += self._show(call, stamp)
        if call.is_over and not call.settled:
            outputs += [*self._show(call, stamp), row(call.settle(stamp.now))]
        return outputs

    def asked(self, update: dict[str, Any], stamp: Stamp) -> tuple[ToolCall, list[Output]]:
        """Take the call that a permission request is about, and show it."""
        outputs = self.flush(stamp)
        call = self._call(update)
        return call, [*outputs, *self._show(call, stamp)]

    def planned(self, update: dict[str, Any], stamp: Stamp) -> list[Output]:
        """Take the agent's plan, which comes whole each time."""
        todos = [
            Todo(
                content=text_of(entry.get("content")),
                status=_STATUS.get(text_of(entry.get("status")), "pending"),
            )
            for entry in objects_of(update.get("entries"))
        ]
        use = TodoWriteToolUse(timestamp=stamp.now, tool_id=stamp.fresh_id, todos=todos)
        result = ToolResult(
            timestamp=stamp.now, tool_id=stamp.fresh_id, content={"text": ""}, is_error=False
        )
        return [*self.flush(stamp), row(use), row(result)]

    def close(self, stamp: Stamp) -> list[Output]:
        """Nothing more is said: no call stays open."""
        outputs: list[Output] = []
        for call in self._tools.values():
            if not call.settled:
                outputs += [*self._show(call, stamp), row(call.settle(stamp.now, note=NO_END))]
        self._tools.clear()
        return outputs

    def _call(self, said: dict[str, Any]) -> ToolCall:
        call_id = str(said.get("toolCallId", ""))
        call = self._tools.setdefault(call_id, ToolCall(call_id))
        call.update(said)
        return call

    def _show(self, call: ToolCall, stamp: Stamp) -> list[Output]:
        if call.shown:
            return []
        call.shown = True
        return [row(call.use(stamp.now))]

    def _show_all(self, stamp: Stamp) -> list[Output]:
        """Show the described calls that have no row yet, so that rows keep the order of events."""
        described = [call for call in self._tools.values() if call.is_described]
        return [output for call in described for output in self._show(call, stamp)]
