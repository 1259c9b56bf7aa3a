"""Tool calls of the Agent Client Protocol as rows: what is known of each call, and which row shows
it.
"""

from __future__ import annotations

from typing import Any

from attrs import define, field
from msgspec import UNSET, UnsetType

from garcon.contract.messages import (
    BashToolUse,
    EditToolUse,
    GrepToolUse,
    ReadToolUse,
    ToolResult,
    ToolUse,
    UnknownToolUse,
    WebFetchToolUse,
)
from garcon.runtime.agents.acp_content import words_of
from garcon.runtime.agents.acp_wire import an_object, objects_of

EDITING_KINDS = frozenset({"edit", "delete", "move"})
READING_KINDS = frozenset({"read", "search", "think"})


@define(eq=False)
class ToolCall:
    """One call, put together from every message that mentions it; a member that is missing keeps
    its old value.
    """

    id: str
    title: str = ""
    kind: str = "other"
    status: str = "pending"
    input: dict[str, Any] = field(factory=dict)
    content: list[Any] = field(factory=list)
    output: Any = None
    locations: list[Any] = field(factory=list)
    shown: bool = False
    settled: bool = False

    def update(self, said: dict[str, Any]) -> None:
        """Take what one message says of the call."""
        self.title = _text(said.get("title")) or self.title
        self.kind = _text(said.get("kind")) or self.kind
        self.status = _text(said.get("status")) or self.status
        if self.settled:
            return  # its rows are written, so nobody would look at more
        if isinstance(said.get("rawInput"), dict) and said["rawInput"]:
            self.input = said["rawInput"]
        if isinstance(said.get("content"), list):
            self.content = said["content"]
        if isinstance(said.get("locations"), list):
            self.locations = said["locations"]
        if said.get("rawOutput") is not None:
            self.output = said["rawOutput"]

    @property
    def is_described(self) -> bool:
        """Whether its row can be shown: agents name a call first and say what it does later."""
        if self.status != "pending":
            return True
        return bool(self._first("command", "cmd") if self.kind == "execute" else self.input)

    @property
    def is_over(self) -> bool:
        return self.status in ("completed", "failed")

    @property
    def places(self) -> list[str]:
        """The paths that it names as changed, an empty text for what is no path."""
        diffs = [one for one in objects_of(self.content) if one.get("type") == "diff"]
        return [_text(an_object(one).get("path")) for one in (*self.locations, *diffs)]

    def use(self, now: str) -> ToolUse:
        """Return the row that shows the call."""
        path = self._path()
        match self.kind:
            case "execute":
                command = self._first("command", "cmd") or self.title.strip("`")
                return BashToolUse(
                    timestamp=now,
                    tool_id=self.id,
                    command=command,
                    description=self._optional("description"),
                )
            case "read" if path:
                return ReadToolUse(timestamp=now, tool_id=self.id, file_path=path)
            case "edit":
                old, new = self._change()
                return EditToolUse(
                    timestamp=now,
                    tool_id=self.id,
                    file_path=path or UNSET,
                    old_string=old,
                    new_string=new,
                )
            case "search":
                return GrepToolUse(
                    timestamp=now,
                    tool_id=self.id,
                    pattern=self._first("pattern", "query") or self.title or UNSET,
                    path=path or UNSET,
                )
            case "fetch" if url := self._first("url"):
                return WebFetchToolUse(
                    timestamp=now, tool_id=self.id, url=url, prompt=self._optional("prompt")
                )
        return UnknownToolUse(
            timestamp=now, tool_id=self.id, raw_name=self.title or self.kind, input=self.input
        )

    def settle(self, now: str, *, note: str = "") -> ToolResult:
        """Return the row that shows how it ended, or `note` for a call that never did.

        What the call said is let go: an output can be large, and a session lives long.
        """
        row = self._result(now, note)
        self.settled = True
        self.input, self.content, self.output, self.locations = {}, [], None, []
        return row

    def _result(self, now: str, note: str) -> ToolResult:
        text = "\n".join(filter(None, (_content_text(part) for part in self.content)))
        if not text and isinstance(self.output, str):
            text = self.output
        content: dict[str, Any] = {"text": note or text}
        if isinstance(self.output, dict):
            content["output"] = self.output
        return ToolResult(
            timestamp=now, tool_id=self.id, content=content, is_error=self.status != "completed"
        )

    def _first(self, *names: str) -> str:
        return next((text for name in names if (text := _text(self.input.get(name)))), "")

    def _optional(self, name: str) -> str | UnsetType:
        return self._first(name) or UNSET

    def _path(self) -> str:
        if self.locations and isinstance(self.locations[0], dict):
            place = _text(self.locations[0].get("path"))
            if place:
                return place
        return self._first("file_path", "filePath", "abs_path", "path")

    def _change(self) -> tuple[str | UnsetType, str | UnsetType]:
        for part in self.content:
            if isinstance(part, dict) and part.get("type") == "diff":
                return _text(part.get("oldText")) or UNSET, _text(part.get("newText")) or UNSET
        return (
            self._first("old_string", "oldString") or UNSET,
            self._first("new_string", "newString") or UNSET,
        )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _content_text(part: object) -> str:
    """Return what a piece of a call's content says in words."""
    if not isinstance(part, dict):
        return ""
    if part.get("type") == "diff":
        return f"{_text(part.get('path'))}\n{_text(part.get('newText'))}".strip()
    return words_of(an_object(part.get("content")))
