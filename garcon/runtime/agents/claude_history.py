"""What Claude Code remembers of a session: its file of JSON lines, read as rows.

Entries form a tree.  The branch that the session goes on with ends at the last entry, and what
hangs on it belongs to it too: results of calls that ran side by side, and compactions.  An input
that does so is one that its user took back, and is left out with all that followed from it.

Everything here blocks and runs in a thread.  A file is read twice, line by line: for its tree, and
for its rows.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Literal

from attrs import frozen
from msgspec import UNSET

from garcon.contract.messages import ErrorMessage, Image, UserMessage
from garcon.contract.runs import ForkPoint, NativeRow, NativeSession, SessionPoint
from garcon.runtime.agents import claude_rows
from garcon.runtime.agents.claude_lines import Message, as_object, objects, words
from garcon.runtime.agents.history import is_preface
from garcon.runtime.agents.long_lines import objects_in
from garcon.runtime.agents.native_history import Piece, in_pieces, no_history

LINE = 64 * 1024 * 1024
"""Bytes of a line that is read; a longer one is left out."""
_ID = re.compile(r"[A-Za-z0-9-]{1,100}")
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9]")
_LOCAL = ("<command-name>", "<command-message>", "<local-command-", "<bash-", "<task-notification>")
"""How texts begin that the agent put there for commands of its own."""
_INTERRUPTED = "[Request interrupted by user"
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
_NO_TIME = "1970-01-01T00:00:00.000Z"


def session_file(session_id: str, project_path: str, environment: Mapping[str, str]) -> str | None:
    """Return where a session is, None where it is not there."""
    if not _ID.fullmatch(session_id):
        return None
    home = environment.get("HOME") or os.path.expanduser("~")
    root = environment.get("CLAUDE_CONFIG_DIR") or os.path.join(home, ".claude")
    folder = _NOT_IN_A_NAME.sub("-", project_path)
    path = os.path.join(root, "projects", folder, f"{session_id}.jsonl")
    return path if os.path.isfile(path) else None


def pieces(session: NativeSession, environment: Mapping[str, str]) -> Iterator[Piece]:
    """Yield the rows of a session, oldest first, in pieces; fails with ``HISTORY_LOAD_FAILED``."""
    path = session_file(session.agent_session_id, session.project_path, environment)
    if path is None:
        raise no_history("Claude Code has no such session of that directory here.")
    return in_pieces(rows_of(path))


def can_fork(
    point: ForkPoint, project_path: str, environment: Mapping[str, str]
) -> Literal["yes", "no", "not yet"]:
    """Say whether a session is there and has the point; what was said a moment ago may not have
    been written.  A session that was compacted since goes on from its summary, and has only what
    came later.
    """
    path = session_file(point.agent_session_id, project_path, environment)
    if path is None:
        return "not yet"
    if point.anchor is None:
        return "yes"
    found: Literal["yes", "no", "not yet"] = "not yet"
    for entry in _entries(path):
        if entry.get("uuid") == point.anchor:
            found = "yes"
        elif entry.get("subtype") == "compact_boundary" and found == "yes":
            found = "no"
    return found


def has_moved_on(point: SessionPoint, environment: Mapping[str, str]) -> bool:
    """Whether a session has more to show than it had after an entry, but for failures: the last
    turn's own is no entry that it could be forked at, and one of another's follows its input.  One
    that has not that entry, or is not there, does not tell.
    """
    session = point.session
    path = session_file(session.agent_session_id, session.project_path, environment)
    if path is None:
        return False
    is_behind = False
    seen: set[str] = set()
    for entry in _entries(path):
        name = str(entry.get("uuid"))
        if name == point.anchor:
            is_behind = True
        elif is_behind and name not in seen and _shows_more(entry):
            return True
        seen.add(name)
    return False


def _shows_more(entry: Message) -> bool:
    return any(not isinstance(row, ErrorMessage) for row in _rows(entry, {}))


def changed(session: NativeSession, environment: Mapping[str, str]) -> float:
    """Return when a session's file was last written to, in the seconds of `time.time`; 0 where
    there is none.
    """
    path = session_file(session.agent_session_id, session.project_path, environment)
    return 0.0 if path is None else os.stat(path).st_mtime


def rows_of(path: str) -> Iterator[NativeRow]:
    """Yield the rows of a session's file."""
    wanted = _branch(path)
    seen: set[str] = set()
    compacted: Message = {}
    for entry in _entries(path):
        name = str(entry.get("uuid"))
        # A compaction writes entries once more that it keeps.
        if name not in wanted or name in seen:
            continue
        seen.add(name)
        if entry.get("subtype") == "compact_boundary":
            compacted = as_object(entry.get("compactMetadata"))
        yield from _rows(entry, compacted)


@frozen
class _Node:
    parent: str | None
    is_input: bool


def _branch(path: str) -> set[str]:
    """Return the names of the entries that the session goes on with."""
    nodes: dict[str, _Node] = {}
    tip: str | None = None
    for entry in _entries(path):
        name = entry.get("uuid")
        if not isinstance(name, str):
            continue
        parent = entry.get("parentUuid") or entry.get("logicalParentUuid")
        parent = parent if isinstance(parent, str) else None
        nodes.setdefault(name, _Node(parent, _is_input(entry)))
        tip = name
    wanted: set[str] = set()
    while tip is not None and tip not in wanted and tip in nodes:
        wanted.add(tip)
        tip = nodes[tip].parent
    for name, node in nodes.items():
        if node.parent in wanted and not node.is_input:
            wanted.add(name)
    return wanted


def _entries(path: str) -> Iterator[Message]:
    """Yield the main conversation's entries; what cannot be read is left out."""
    return (one for one in objects_in(path, LINE) if one.get("isSidechain") is not True)


def _is_input(entry: Message) -> bool:
    """Whether an entry is what somebody said, and no result of a tool."""
    if entry.get("type") != "user" or entry.get("isCompactSummary") is True:
        return False
    content = as_object(entry.get("message")).get("content")
    return not any(block.get("type") == "tool_result" for block in objects(content))


def _rows(entry: Message, compacted: Message) -> Iterator[NativeRow]:
    at = entry.get("timestamp")
    now = at if isinstance(at, str) and _TIME.fullmatch(at) else _NO_TIME
    message = as_object(entry.get("message"))
    match entry.get("type"):
        case "assistant" if entry.get("isApiErrorMessage") is True or entry.get("error"):
            for block in objects(message.get("content")):
                if text := words(block.get("text")):
                    yield ErrorMessage(timestamp=now, content=text)
        case "assistant":
            yield from claude_rows.said(message, now)
        case "user" if entry.get("isCompactSummary") is True:
            summary = message.get("content")
            text = summary if isinstance(summary, str) else claude_rows.text_of(summary)
            yield claude_rows.compaction(compacted, text, now)
        case "user" if entry.get("isMeta") is not True:
            yield from claude_rows.results(message.get("content"), now)
            yield from _said_by_user(message.get("content"), now, is_steer=False)
        case "attachment":
            about = as_object(entry.get("attachment"))
            is_prompt = about.get("commandMode") in (None, "prompt")
            if about.get("type") == "queued_command" and is_prompt:
                yield from _said_by_user(about.get("prompt"), now, is_steer=True)


def _said_by_user(content: object, now: str, *, is_steer: bool) -> Iterator[UserMessage]:
    """Yield an input, without what was put ahead of it for an agent that had not heard it."""
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else objects(content)
    texts = [words(block.get("text")) for block in blocks if block.get("type") == "text"]
    texts = [text for text in texts if text and not is_preface(text)]
    images = [image for block in blocks if (image := _image(block)) is not None]
    text = "\n".join(texts)
    if text.startswith((*_LOCAL, _INTERRUPTED)) or not (text or images):
        return
    yield UserMessage(
        timestamp=now,
        content=text,
        images=images or UNSET,
        steer=True if is_steer else UNSET,
    )


def _image(block: Message) -> Image | None:
    source = as_object(block.get("source"))
    kind, data = source.get("media_type"), source.get("data")
    if block.get("type") != "image" or not isinstance(kind, str) or not isinstance(data, str):
        return None
    return Image(data=f"data:{kind};base64,{data}", mime_type=kind)
