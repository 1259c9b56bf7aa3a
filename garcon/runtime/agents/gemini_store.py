"""What Gemini CLI keeps of a session: its files of JSON lines, read as rows.

Its answer to `session/load` tells a history in which calls, their results and pictures are mere
remarks, and in the minute of the session's beginning to load it destroys it.  So its files are read
(seen with 0.61): ``~/.gemini/tmp/PROJECT/chats/session-MINUTE-ID.jsonl``, ``ID`` being the first
eight characters.  A line is a message, or it changes those before it: ``$set`` with ``messages`` is
all of them anew, ``$rewindTo`` takes one back and what follows it.

Everything here blocks and runs in a thread, but for `wait_before_load`, which looks at names only.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from msgspec import UNSET

from garcon.contract.messages import AssistantMessage, ErrorMessage, Image, Thinking, UserMessage
from garcon.contract.runs import NativeRow, NativeSession
from garcon.runtime.agents.acp_rows import NO_END
from garcon.runtime.agents.acp_tools import ToolCall
from garcon.runtime.agents.acp_wire import an_object, objects_of, text_of
from garcon.runtime.agents.history import is_preface
from garcon.runtime.agents.long_lines import objects_in
from garcon.runtime.agents.native_history import Piece, in_pieces, no_history

LINE = 64 * 1024 * 1024
"""Bytes of a line that is read; a longer one is left out."""
_ID = re.compile(r"[A-Za-z0-9-]{8,100}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
_NO_TIME = "1970-01-01T00:00:00.000Z"
_CONTEXT = "<session_context>"
"""How the message begins that Gemini puts before all others."""
_KINDS = {
    "run_shell_command": "execute",
    "replace": "edit",
    "write_file": "edit",
    "read_file": "read",
    "glob": "search",
    "grep_search": "search",
    "search_file_content": "search",
}
Message = dict[str, Any]


def pieces(session: NativeSession, environment: Mapping[str, str]) -> Iterator[Piece]:
    """Yield the rows of a session, oldest first, in pieces; fails with ``HISTORY_LOAD_FAILED``."""
    for path in _files(session, environment):
        # Whenever it takes a session up it begins a file that has nothing of it.
        if found := list(_rows(_messages(path, session.agent_session_id))):
            return in_pieces(found)
    raise no_history("Gemini has no such session of that directory here.")


def wait_before_load(
    session_id: str, environment: Mapping[str, str], now: datetime | None = None
) -> int:
    """Return the seconds until a session may be loaded.  It names a session's file by the minute,
    and who loads a session in the minute in which its file was begun begins that file anew.
    """
    now = now or datetime.now(UTC)
    minute = now.strftime("%Y-%m-%dT%H-%M")
    return 61 - now.second if _paths(session_id, environment, minute) else 0


def _files(session: NativeSession, environment: Mapping[str, str]) -> list[str]:
    """Return the files that may hold a session of a directory, the newest first."""
    found = []
    for path in _paths(session.agent_session_id, environment, "*"):
        root = os.path.join(os.path.dirname(os.path.dirname(path)), ".project_root")
        try:
            with open(root, encoding="utf-8", errors="surrogateescape") as file:
                is_here = file.read(64 * 1024).strip() == session.project_path
        except OSError:
            is_here = True  # older ones have no such file
        if is_here:
            found.append((os.stat(path).st_mtime_ns, path))
    return [path for _, path in sorted(found, reverse=True)]


def _paths(session_id: str, environment: Mapping[str, str], minute: str) -> list[str]:
    if not _ID.fullmatch(session_id):
        return []
    home = environment.get("GEMINI_CLI_HOME") or environment.get("HOME")
    root = glob.escape(os.path.join(home or os.path.expanduser("~"), ".gemini", "tmp"))
    return glob.glob(os.path.join(root, "*", "chats", f"session-{minute}-{session_id[:8]}.jsonl"))


def _messages(path: str, session_id: str) -> list[Message]:
    """Return a session's messages, none where the file is another one's."""
    messages: dict[str, Message] = {}
    for record in objects_in(path, LINE):
        if text_of(record.get("sessionId")) not in ("", session_id):
            return []
        if isinstance(back := record.get("$rewindTo"), str):
            names = list(messages)
            kept = names[: names.index(back)] if back in messages else []
            messages = {name: messages[name] for name in kept}
        elif isinstance(anew := an_object(record.get("$set")).get("messages"), list):
            messages = {_name(one): one for one in objects_of(anew) if _name(one)}
        elif name := _name(record):
            messages[name] = record
    return list(messages.values())


def _name(message: Message) -> str:
    return text_of(message.get("id")) if text_of(message.get("type")) else ""


def _rows(messages: list[Message]) -> Iterator[NativeRow]:
    calls: dict[str, ToolCall] = {}
    now = _NO_TIME
    for message in messages:
        at = text_of(message.get("timestamp"))
        now = at if _TIME.fullmatch(at) else _NO_TIME
        content = message.get("content")
        parts = [{"text": content}] if isinstance(content, str) else objects_of(content)
        match message.get("type"):
            case "user":
                yield from _results(parts, calls, now)
                if (said := _said_by_user(parts, now)) is not None:
                    yield said
            case "gemini":
                yield from _said(message, parts, calls, now)
            case "error":
                if text := _text(parts):
                    yield ErrorMessage(timestamp=now, content=text)
    for call in calls.values():
        if not call.settled:
            yield call.settle(now, note=NO_END)


def _said_by_user(parts: list[Message], now: str) -> UserMessage | None:
    """Return an input, without what was put ahead of it for an agent that had not heard it."""
    told = [part for part in parts if not is_preface(text_of(part.get("text")))]
    text = _text(told)
    images = [image for part in told if (image := _image(part)) is not None]
    if text.startswith(_CONTEXT) or not (text or images):
        return None
    return UserMessage(timestamp=now, content=text, images=images or UNSET)


def _said(
    message: Message, parts: list[Message], calls: dict[str, ToolCall], now: str
) -> Iterator[NativeRow]:
    for thought in objects_of(message.get("thoughts")):
        told = (text_of(thought.get("subject")), text_of(thought.get("description")))
        if text := "\n".join(filter(None, told)):
            yield Thinking(timestamp=now, content=text)
    if text := _text(parts):
        yield AssistantMessage(timestamp=now, content=text)
    begun = [an_object(part.get("functionCall")) for part in parts]
    for told_call in (*begun, *objects_of(message.get("toolCalls"))):
        name = text_of(told_call.get("id"))
        if not name:
            continue
        if name not in calls:
            calls[name] = _call(name, told_call)
            yield calls[name].use(now)
        if text_of(told_call.get("status")) in _ENDS:
            yield from _results(objects_of(told_call.get("result")), calls, now, told_call)


_ENDS = {"success": "completed", "error": "failed", "cancelled": "failed"}


def _call(call_id: str, told: Message) -> ToolCall:
    name = text_of(told.get("name"))
    call = ToolCall(call_id)
    call.update(
        {
            "title": name,
            "kind": _KINDS.get(name, "other"),
            "rawInput": told.get("args"),
            "status": "completed",
        }
    )
    return call


def _results(
    parts: list[Message], calls: dict[str, ToolCall], now: str, told: Message | None = None
) -> Iterator[NativeRow]:
    """Yield the ends of calls that are told of by their results; each ends once."""
    for part in parts:
        answer = an_object(part.get("functionResponse"))
        call = calls.get(text_of(answer.get("id")))
        if call is None or call.settled:
            continue
        response = an_object(answer.get("response"))
        failed = text_of(response.get("error"))
        status = "failed" if failed else "completed"
        if told is not None:
            status = _ENDS[text_of(told.get("status"))]
        output = text_of(response.get("output")) or failed
        call.update({"status": status, "rawOutput": output})
        yield call.settle(now)


def _text(parts: list[Message]) -> str:
    return "".join(text_of(part.get("text")) for part in parts if part.get("thought") is not True)


def _image(part: Message) -> Image | None:
    inline = an_object(part.get("inlineData"))
    kind, data = text_of(inline.get("mimeType")), text_of(inline.get("data"))
    if not kind.startswith("image/") or not data:
        return None
    return Image(data=f"data:{kind};base64,{data}", mime_type=kind)
