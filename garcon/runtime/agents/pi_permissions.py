"""What Pi's model may do: Pi asks nothing, so our extension asks for each tool call, and this
decides, or lets the user do so (decisions.md 33).
"""

from __future__ import annotations

import json
from typing import Any

from attrs import define, field, frozen

from garcon.contract.catalogs import PermissionMode
from garcon.contract.runs import (
    Launch,
    PermissionAutoResolved,
    PermissionRequested,
    PermissionResponse,
)
from garcon.runtime.agents.conversation import Emit, Output
from garcon.runtime.agents.inside import is_inside
from garcon.runtime.agents.pi_rows import tool_use
from garcon.runtime.agents.pi_wire import Message, an_object, confirmed, text_of
from garcon.runtime.agents.stamps import Stamp

READING = frozenset({"read", "grep", "find", "ls"})
EDITING = frozenset({"edit", "write"})
OPTIONS = ["Allow", "Always allow", "Deny"]
_MOST_GRANTED = 1000


@frozen
class Call:
    """A tool call that waits for its answer."""

    request_id: Any
    tool_id: str
    name: str
    given: Message

    @classmethod
    def of(cls, request: Message) -> Call:
        """Read what the extension asks; a call that cannot be read is of no known tool."""
        try:
            told = an_object(json.loads(text_of(request.get("message"))))
        except (ValueError, RecursionError):
            told = {}
        given = an_object(told.get("input"))
        return cls(request.get("id"), text_of(told.get("id")), text_of(told.get("name")), given)

    @property
    def key(self) -> str:
        """What an answer that lasts is for: just this call."""
        return f"{self.name}\0{json.dumps(self.given, sort_keys=True)}"


def verdict(mode: PermissionMode, project: str, call: Call) -> bool | None:
    """Decide a call, or return None: the user decides."""
    if mode in ("bypassPermissions", "manualBypass") or call.name in READING:
        return True
    if mode == "plan":
        return False
    if mode == "acceptEdits" and call.name in EDITING:
        path = text_of(call.given.get("path"))
        # Pi itself reads `~` and a leading `@` as more than a name.
        return True if not path.startswith(("~", "@")) and is_inside(path, project) else None
    return None


@define(eq=False)
class Permissions:
    """The questions of one process."""

    _open: dict[str, Call] = field(factory=dict)
    _granted: set[str] = field(factory=set)

    def ask(self, request: Message, launch: Launch, stamp: Stamp) -> list[Output]:
        """Take a question of the extension's."""
        call = Call.of(request)
        mode = launch.permission_mode
        decided = verdict(mode, launch.project_path, call)
        if decided is None and call.key in self._granted:
            decided = True
        tool = tool_use(call.name, call.tool_id, call.given, stamp.now)
        if decided is None:
            self._open[stamp.fresh_id] = call
            requested = PermissionRequested(
                permission_occurrence_id=stamp.fresh_id,
                requested_tool=tool,
                options=list(OPTIONS),
                timestamp=stamp.now,
            )
            return [Emit(requested)]
        outputs: list[Output] = []
        if mode == "manualBypass" and call.name not in READING:
            resolved = PermissionAutoResolved(
                permission_occurrence_id=stamp.fresh_id,
                requested_tool=tool,
                allowed=decided,
                timestamp=stamp.now,
            )
            outputs.append(Emit(resolved))
        return [*outputs, confirmed(call.request_id, decided)]

    def decide(self, response: PermissionResponse) -> list[Output] | None:
        """Answer an open question; None when there is no such."""
        call = self._open.pop(response.permission_occurrence_id, None)
        if call is None:
            return None
        if response.allow and response.always_allow and len(self._granted) < _MOST_GRANTED:
            self._granted.add(call.key)
        return [confirmed(call.request_id, response.allow)]

    def deny_all(self) -> list[Output]:
        """Answer all that are open: the turn is over, or to be."""
        outputs = [confirmed(call.request_id, False) for call in self._open.values()]
        self._open.clear()
        return outputs
