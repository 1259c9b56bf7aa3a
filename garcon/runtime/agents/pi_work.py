"""What Pi says and does in one turn, as rows, in the order in which it came.

An answer's rows wait until our extension has named the entry that the answer is kept as, which is
the next thing that Pi does: by that entry the session can be forked behind it.
"""

from __future__ import annotations

import re

from attrs import define, field

from garcon.contract.messages import AssistantMessage, ProviderRow, ToolResult, ToolUse
from garcon.runtime.agents import pi_rows
from garcon.runtime.agents.conversation import Output, Unknown, row
from garcon.runtime.agents.pi_known import BLOCKS, ROLES, STOPS
from garcon.runtime.agents.pi_usage import Spent
from garcon.runtime.agents.pi_wire import Message, an_object, objects, text_of, texts
from garcon.runtime.agents.stamps import Stamp
from garcon.runtime.agents.unknown import new_fields

_ENTRY = re.compile(r"[A-Za-z0-9-]{1,100}")


def entry_of(value: object) -> str | None:
    """Return the name of an entry, None for what is none."""
    return value if isinstance(value, str) and _ENTRY.fullmatch(value) else None


@define(eq=False)
class Work:
    """The work of one turn."""

    _spent: Spent
    failure: str = ""
    """Of the last answer."""
    anchor: str | None = None
    """The last entry of the session, once Pi is at rest."""
    _held: list[ProviderRow] = field(factory=list)
    _open_tools: dict[str, None] = field(factory=dict)

    def message(self, message: Message, stamp: Stamp) -> list[Output]:
        """Take a message that is whole."""
        role = message.get("role")
        if not isinstance(role, str) or role not in ROLES:
            return [Unknown("message_end.role", message)]
        outputs = new_fields(role, message, ROLES[role])
        match role:
            case "assistant":
                outputs += self._answer(message, stamp)
            case "toolResult":
                self._spent.take(an_object(message.get("usage")))
            case "custom":
                outputs += [row(one) for one in pi_rows.added(message, stamp.now)]
        return outputs

    def _answer(self, message: Message, stamp: Stamp) -> list[Output]:
        outputs = [*self.let_go(), *_unknown_in(message)]
        self._spent.take(an_object(message.get("usage")))
        self.failure = pi_rows.failure(message) if message.get("stopReason") == "error" else ""
        self._held = list(pi_rows.said(message, stamp.now))
        self._open_tools |= {row.tool_id: None for row in self._held if isinstance(row, ToolUse)}
        if (notice := pi_rows.cut_off(message, stamp.now)) is not None:
            self._held.append(notice)
        return outputs

    def let_go(self, anchor: str | None = None) -> list[Output]:
        """Tell the rows of the answer that waits; its last words are where it can be forked."""
        held, self._held = self._held, []
        said = [at for at, row in enumerate(held) if isinstance(row, AssistantMessage)]
        last = said[-1] if said else None
        return [row(one, anchor if at == last else None) for at, one in enumerate(held)]

    def tool_ended(self, event: Message, stamp: Stamp) -> list[Output]:
        """Take what came of a call."""
        tool_id = text_of(event.get("toolCallId"))
        if tool_id not in self._open_tools:
            return []  # a call within another one's, which shows what came of it
        del self._open_tools[tool_id]
        text = texts(an_object(event.get("result")).get("content"))
        return [*self.let_go(), _result(tool_id, text, event.get("isError") is True, stamp)]

    def ended(self, stamp: Stamp) -> list[Output]:
        """Nothing more comes: close what is open."""
        outputs = self.let_go()
        outputs += [_result(t, "The call did not end.", True, stamp) for t in self._open_tools]
        self._open_tools.clear()
        return outputs


def _unknown_in(answer: Message) -> list[Output]:
    outputs: list[Output] = []
    for block in objects(answer.get("content")):
        kind = block.get("type")
        if isinstance(kind, str) and kind in BLOCKS:
            outputs += new_fields(f"content.{kind}", block, BLOCKS[kind])
        else:
            outputs.append(Unknown(f"content.{kind}", block))
    stop = answer.get("stopReason")
    if stop is not None and not (isinstance(stop, str) and stop in STOPS):
        outputs.append(Unknown(f"assistant.stopReason.{stop}", answer))
    return outputs


def _result(tool_id: str, text: str, is_error: bool, stamp: Stamp) -> Output:
    content = {"text": text}
    return row(ToolResult(timestamp=stamp.now, tool_id=tool_id, content=content, is_error=is_error))
