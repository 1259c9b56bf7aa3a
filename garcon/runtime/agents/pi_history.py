"""What Pi remembers of a session: its file, read as rows.

Entries form a tree.  The branch that the session goes on with ends at the last entry and is all
that is shown; the first files of Pi had no tree.  What a compaction has summed up stays in the
file, so it is shown as well.

Everything here blocks and runs in a thread.  A file is read twice, line by line: for its tree, and
for its rows.  Pi writes each entry before it goes on, so what was told of is there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime

from attrs import define
from msgspec import UNSET

from garcon.contract.messages import (
    BashToolUse,
    Compaction,
    ErrorMessage,
    Image,
    ToolResult,
    TranscriptNotice,
    UserMessage,
)
from garcon.contract.runs import ForkPoint, NativeRow, NativeSession, SessionPoint
from garcon.runtime.agents import pi_rows
from garcon.runtime.agents.native_history import Piece, in_pieces, no_history
from garcon.runtime.agents.pi_prompts import without_preface
from garcon.runtime.agents.pi_sessions import entries, find
from garcon.runtime.agents.pi_wire import Message, an_object, objects, text_of, texts

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
_NO_TIME = "1970-01-01T00:00:00.000Z"


def pieces(session: NativeSession, environment: Mapping[str, str]) -> Iterator[Piece]:
    """Yield the rows of a session, oldest first, in pieces; fails with ``HISTORY_LOAD_FAILED``."""
    kept = find(session.agent_session_id, session.project_path, environment)
    if kept is None:
        raise no_history("Pi has no such session here.")
    return in_pieces(rows_of(kept.path))


def can_fork(point: ForkPoint, project_path: str, environment: Mapping[str, str]) -> bool:
    """Whether a session is there and has the point, on whatever branch."""
    kept = find(point.agent_session_id, project_path, environment)
    if kept is None:
        return False
    return point.anchor is None or any(e.get("id") == point.anchor for e in _tree(kept.path))


def has_moved_on(point: SessionPoint, environment: Mapping[str, str]) -> bool:
    """Whether a session has more to show than it had after an entry.  One that has not that entry,
    or is not there, does not tell.
    """
    session = point.session
    kept = find(session.agent_session_id, session.project_path, environment)
    if kept is None:
        return False
    is_behind, reader = False, Reader()
    for entry in _tree(kept.path):
        if is_behind and next(reader.rows(entry), None) is not None:
            return True
        is_behind = is_behind or entry.get("id") == point.anchor
    return False


def rows_of(path: str) -> Iterator[NativeRow]:
    """Yield the rows of a session's file."""
    wanted, reader = _branch(path), Reader()
    for entry in _tree(path):
        name = entry.get("id")
        if wanted is None or (isinstance(name, str) and name in wanted):
            yield from reader.rows(entry)


def _tree(path: str) -> Iterator[Message]:
    return (entry for entry in entries(path) if entry.get("type") != "session")


def _branch(path: str) -> set[str] | None:
    """Return the names of the entries that the session goes on with, None where none has a name."""
    parents: dict[str, str | None] = {}
    tip: str | None = None
    for entry in _tree(path):
        name, parent = entry.get("id"), entry.get("parentId")
        if isinstance(name, str):
            parents[name] = parent if isinstance(parent, str) else None
            tip = name
    if tip is None:
        return None
    wanted: set[str] = set()
    while tip is not None and tip in parents and tip not in wanted:
        wanted.add(tip)
        tip = parents[tip]
    return wanted


@define
class Reader:
    """Reads the entries of a branch, in order."""

    _worked: float = 0.0
    """When the last work of Pi was written, in milliseconds."""

    def rows(self, entry: Message) -> Iterator[NativeRow]:
        """Yield the rows of the next entry."""
        at = entry.get("timestamp")
        now = at if isinstance(at, str) and _TIME.fullmatch(at) else _NO_TIME
        match entry.get("type"):
            case "message":
                yield from self._message(entry, an_object(entry.get("message")), now)
            case "custom_message":
                yield from pi_rows.added(entry, now)
            case "compaction":
                yield Compaction(
                    timestamp=now,
                    trigger="auto",
                    summary=text_of(entry.get("summary")),
                    pre_tokens=pi_rows.number(entry.get("tokensBefore")),
                )
            case "branch_summary" if summary := text_of(entry.get("summary")):
                text = f"Another branch of the session was left. A summary of it: {summary}"
                yield TranscriptNotice(timestamp=now, content=text)

    def _message(self, entry: Message, message: Message, now: str) -> Iterator[NativeRow]:
        if message.get("role") in ("assistant", "toolResult"):
            self._worked = _milliseconds(now)
        match message.get("role"):
            case "user":
                # What joined a turn was said before the work was done that it stands behind.
                said = message.get("timestamp")
                is_steer = isinstance(said, int | float) and 0 < said < self._worked
                yield from _user(message.get("content"), now, is_steer=is_steer)
            case "assistant":
                yield from pi_rows.said(message, now)
                if message.get("stopReason") == "error":
                    yield ErrorMessage(timestamp=now, content=pi_rows.failure(message))
                elif (notice := pi_rows.cut_off(message, now)) is not None:
                    yield notice
            case "toolResult":
                yield ToolResult(
                    timestamp=now,
                    tool_id=text_of(message.get("toolCallId")),
                    content={"text": texts(message.get("content"))},
                    is_error=message.get("isError") is True,
                )
            case "bashExecution":
                yield from _run_by_hand(entry, message, now)
            case "custom" | "hookMessage":
                yield from pi_rows.added(message, now)


def _user(content: object, now: str, *, is_steer: bool) -> Iterator[UserMessage]:
    """Yield an input, without what was put ahead of it for an agent that had not heard it."""
    text = without_preface(texts(content))
    images = [image for block in objects(content) if (image := _image(block)) is not None]
    if text.strip() or images:
        yield UserMessage(
            timestamp=now,
            content=text,
            images=images or UNSET,
            steer=True if is_steer else UNSET,
        )


def _run_by_hand(entry: Message, message: Message, now: str) -> Iterator[NativeRow]:
    """Yield a command that the user has run in the session, with its output."""
    name, code = f"by-hand-{text_of(entry.get('id'))}", message.get("exitCode")
    is_error = message.get("cancelled") is True or code not in (0, None)
    yield BashToolUse(timestamp=now, tool_id=name, command=text_of(message.get("command")))
    yield ToolResult(
        timestamp=now,
        tool_id=name,
        content={"text": text_of(message.get("output"))},
        is_error=is_error,
    )


def _image(block: Message) -> Image | None:
    kind, data = block.get("mimeType"), block.get("data")
    if block.get("type") != "image" or not isinstance(kind, str) or not isinstance(data, str):
        return None
    return Image(data=f"data:{kind};base64,{data}", mime_type=kind)


def _milliseconds(now: str) -> float:
    try:
        return datetime.fromisoformat(now).timestamp() * 1000
    except ValueError:
        return 0.0  # there is no such day
