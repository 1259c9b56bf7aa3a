"""One turn of Codex as values: what it says, what it asks, and what is left open at its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from attrs import define, field
from msgspec import UNSET

from garcon.contract.limits import KIB
from garcon.contract.messages import (
    Compaction,
    Todo,
    TodoWriteToolUse,
    ToolResult,
    ToolUse,
)
from garcon.contract.runs import (
    Launch,
    PermissionAutoResolved,
    PermissionRequested,
    PermissionResponse,
    PermissionWithdrawn,
    RunEnded,
)
from garcon.runtime.agents import codex_items
from garcon.runtime.agents.codex_errors import retry_text
from garcon.runtime.agents.codex_requests import Asked
from garcon.runtime.agents.codex_usage import Spent
from garcon.runtime.agents.codex_wire import an_object, answer, objects_of, text_of
from garcon.runtime.agents.conversation import Emit, Output, notice, row
from garcon.runtime.agents.inside import is_inside
from garcon.runtime.agents.stamps import Stamp

NOTICED = 100
"""Warnings that are remembered as told."""
ENDED = 20
"""Commands whose end between turns is kept for the next one, the newest."""
ENDED_TEXT = 8 * KIB
"""Characters of what each of them printed."""
COMPACTED = "Codex made the conversation shorter for its model. It does not show its summary."
_STATUS: dict[str, Literal["pending", "in_progress", "completed"]] = {
    "inProgress": "in_progress",
    "completed": "completed",
}


@define
class Memory:
    """What goes on from turn to turn."""

    in_background: set[str] = field(factory=set)
    """Commands that went on when their turn was over."""
    ended: list[dict[str, Any]] = field(factory=list)
    """Those that ended since the last turn, as items."""
    noticed: set[str] = field(factory=set)
    spent: Spent = field(factory=Spent)
    context_before: int | None = None
    """As it was when a compaction began."""

    def heard_between_turns(self, method: str, said: dict[str, Any]) -> None:
        """Keep how a command of an earlier turn has ended, to be told with the next one."""
        item = an_object(said.get("item"))
        item_id = text_of(item.get("id"))
        if method != "item/completed" or item_id not in self.in_background:
            return
        self.in_background.discard(item_id)
        printed = text_of(item.get("aggregatedOutput"))
        if len(printed) > ENDED_TEXT:
            item = {**item, "aggregatedOutput": f"[…]\n{printed[-ENDED_TEXT:]}"}
        self.ended = [*self.ended, item][-ENDED:]


@define(eq=False)
class CodexTurn:
    """The turn that runs.  Owned by the conversation."""

    launch: Launch
    _memory: Memory
    id: str = ""
    is_stopping: bool = False
    end: RunEnded | None = None
    """It is over, but for the cleaning up."""
    _open: dict[str, dict[str, Any]] = field(factory=dict)
    """Tool calls that have not ended."""
    _shown: dict[str, ToolUse | None] = field(factory=dict)
    """The rows of calls, None for one that has ended."""
    _questions: dict[str, Asked] = field(factory=dict)

    @property
    def is_on(self) -> bool:
        """Whether it goes on, and is to go on."""
        return not self.is_stopping and self.end is None

    def begun(self, stamp: Stamp) -> list[Output]:
        """Tell what ended since the last turn."""
        ended, self._memory.ended = self._memory.ended, []
        return [row(codex_items.result(item, stamp.now)) for item in ended]

    def told(self, method: str, said: dict[str, Any], stamp: Stamp) -> list[Output]:
        """Take a notification that is one of `HANDLED`."""
        return _HANDLERS[method](self, said, stamp)

    def shown(self, parameters: dict[str, Any]) -> ToolUse | None:
        """Return the row of the call that a request is about."""
        return self._shown.get(text_of(parameters.get("itemId")))

    # -- items

    def _item_started(self, said: dict[str, Any], stamp: Stamp) -> list[Output]:
        item = an_object(said.get("item"))
        if item.get("type") == "contextCompaction":
            self._memory.context_before = self._memory.spent.context
        return self._show(item, stamp)

    def _item_completed(self, said: dict[str, Any], stamp: Stamp) -> list[Output]:
        item, background = an_object(said.get("item")), self._memory.in_background
        item_id = text_of(item.get("id"))
        outputs: list[Output] = [row(one) for one in codex_items.said(item, stamp.now)]
        if item.get("type") == "contextCompaction":
            outputs.append(self._compacted(stamp))
        if item_id not in self._open and item_id not in background:
            outputs.extend(self._show(item, stamp))
        if item_id in self._open or item_id in background:
            self._open.pop(item_id, None)
            background.discard(item_id)
            self._shown[item_id] = None
            outputs.append(row(codex_items.result(item, stamp.now)))
        return outputs

    def _show(self, item: dict[str, Any], stamp: Stamp) -> list[Output]:
        """Show a tool call, as soon as it is known what it is."""
        use = codex_items.use(item, stamp.now)
        if use is None:
            return []
        self._open[use.tool_id] = item
        if use.tool_id in self._shown:
            return []
        self._shown[use.tool_id] = use
        return [row(use)]

    def _compacted(self, stamp: Stamp) -> Output:
        before, after = self._memory.context_before, self._memory.spent.context
        compaction = Compaction(
            timestamp=stamp.now,
            trigger="manual" if self.launch.is_compaction else "auto",
            summary=COMPACTED,
            pre_tokens=UNSET if before is None else before,
            post_tokens=UNSET if after is None or after == before else after,
        )
        return row(compaction)

    def close(self, stamp: Stamp, *, goes_on: bool = False) -> list[Output]:
        """No tool call stays open, and no question.  `goes_on`: commands may."""
        rows = [
            codex_items.unended(item, stamp.now, may_go_on=goes_on) for item in self._open.values()
        ]
        self._memory.in_background.update(one.tool_id for one in rows if not one.is_error)
        self._open.clear()
        self._questions.clear()
        return [row(one) for one in rows]

    # -- what it tells besides

    def _plan_updated(self, said: dict[str, Any], stamp: Stamp) -> list[Output]:
        todos = [
            Todo(
                content=text_of(step.get("step")),
                status=_STATUS.get(text_of(step.get("status")), "pending"),
            )
            for step in objects_of(said.get("plan"))
        ]
        use = TodoWriteToolUse(timestamp=stamp.now, tool_id=stamp.fresh_id, todos=todos)
        result = ToolResult(
            timestamp=stamp.now,
            tool_id=stamp.fresh_id,
            content={"text": text_of(said.get("explanation"))},
            is_error=False,
        )
        return [row(use), row(result)]

    def _tokens_used(self, said: dict[str, Any], stamp: Stamp) -> list[Output]:
        self._memory.spent.take(an_object(said.get("tokenUsage")))
        return []

    def _error(self, said: dict[str, Any], stamp: Stamp) -> list[Output]:
        if said.get("willRetry") is not True:
            return []  # the end of the turn says it again
        return [notice(retry_text(an_object(said.get("error"))), stamp)]

    def _warning(self, said: dict[str, Any], stamp: Stamp) -> list[Output]:
        text = text_of(said.get("message"))
        if not text or text in self._memory.noticed:
            return []  # most are said anew with each turn
        if len(self._memory.noticed) >= NOTICED:
            self._memory.noticed.clear()
        self._memory.noticed.add(text)
        return [notice(text, stamp)]

    def _rerouted(self, said: dict[str, Any], stamp: Stamp) -> list[Output]:
        wanted, given = text_of(said.get("fromModel")), text_of(said.get("toModel"))
        return [notice(f"The model {given} answers instead of {wanted}.", stamp)]

    # -- what it asks

    def asked(self, asked: Asked, stamp: Stamp) -> list[Output]:
        """Take a request: answer it, or ask the user."""
        if not self.is_on:
            return [answer(asked.request_id, asked.denied())]
        if asked.wants_words:
            text = f"{asked.server} asks what only Codex itself can be told, and was told nothing: "
            no = answer(asked.request_id, asked.denied())
            return [no, notice(text + text_of(asked.parameters.get("message")), stamp)]
        verdict = self._verdict(asked)
        if verdict is None:
            return self._ask_user(asked, stamp)
        answered = answer(asked.request_id, asked.allowed() if verdict else asked.denied())
        if self.launch.permission_mode != "manualBypass":
            return [answered]
        resolved = PermissionAutoResolved(
            permission_occurrence_id=stamp.fresh_id,
            requested_tool=asked.tool,
            allowed=verdict,
            timestamp=stamp.now,
        )
        return [Emit(resolved), answered]

    def _verdict(self, asked: Asked) -> bool | None:
        """Decide a request by ourselves, or return None: the user decides."""
        if asked.is_for_user:
            return None
        match self.launch.permission_mode:
            case "bypassPermissions" | "manualBypass":
                return True
            case "plan":
                return False
            case "acceptEdits" if asked.kind == "edit" and not asked.root:
                # Codex asks about what its sandbox does not let it change, which is outside mostly.
                return True if self._stays_inside(asked) else None
        return None

    def _stays_inside(self, asked: Asked) -> bool:
        """Whether a change is one that was told in this turn, of nothing but the project's files.

        A subagent's calls may have the names of ours: its requests have another turn's.
        """
        if asked.parameters.get("turnId") != self.id:
            return False
        item = self._open.get(text_of(asked.parameters.get("itemId")), {})
        paths = codex_items.changed_paths(item)
        return bool(paths) and all(is_inside(path, self.launch.project_path) for path in paths)

    def _ask_user(self, asked: Asked, stamp: Stamp) -> list[Output]:
        self._questions[stamp.fresh_id] = asked
        outputs: list[Output] = []
        if asked.is_for_user:
            self._open[asked.tool.tool_id] = {"id": asked.tool.tool_id}
            outputs.append(row(asked.tool))
        requested = PermissionRequested(
            permission_occurrence_id=stamp.fresh_id,
            requested_tool=asked.tool,
            options=asked.options,
            timestamp=stamp.now,
        )
        return [*outputs, Emit(requested)]

    def decide(self, response: PermissionResponse, stamp: Stamp) -> list[Output] | None:
        """Answer a live request; None when there is no such."""
        asked = self._questions.pop(response.permission_occurrence_id, None)
        if asked is None:
            return None
        outputs: list[Output] = [answer(asked.request_id, asked.answered(response))]
        if asked.is_for_user:
            outputs.append(self._settle(asked, asked.told(response), stamp))
        return outputs

    def _resolved(self, said: dict[str, Any], stamp: Stamp) -> list[Output]:
        """A request has its answer: one that still waits for it is void."""
        for occurrence, asked in list(self._questions.items()):
            if asked.request_id == said.get("requestId"):
                del self._questions[occurrence]
                outputs: list[Output] = [
                    Emit(PermissionWithdrawn(permission_occurrence_id=occurrence))
                ]
                if asked.is_for_user:
                    outputs.append(self._settle(asked, "Nobody answered.", stamp))
                return outputs
        return []

    def _settle(self, asked: Asked, text: str, stamp: Stamp) -> Output:
        """End the call that a question to the user is."""
        tool_id = asked.tool.tool_id
        self._open.pop(tool_id, None)
        told = ToolResult(
            timestamp=stamp.now, tool_id=tool_id, content={"text": text}, is_error=False
        )
        return row(told)


_HANDLERS: dict[str, Callable[[CodexTurn, dict[str, Any], Stamp], list[Output]]] = {
    "error": CodexTurn._error,
    "guardianWarning": CodexTurn._warning,
    "item/completed": CodexTurn._item_completed,
    "item/started": CodexTurn._item_started,
    "model/rerouted": CodexTurn._rerouted,
    "serverRequest/resolved": CodexTurn._resolved,
    "thread/tokenUsage/updated": CodexTurn._tokens_used,
    "turn/plan/updated": CodexTurn._plan_updated,
    "warning": CodexTurn._warning,
}
HANDLED = frozenset(_HANDLERS)
