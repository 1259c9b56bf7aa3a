"""What a client written by somebody else demands of every answer and every socket message.

Written from the contract's text over plain JSON; nothing here knows a type of ours, so that a field
that we renamed, left out or sent as null is missed here as it would be there.  Members that are not
named are let pass, as such clients do.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from attrs import frozen

Shape = Any
"""A predicate, a type's members by name (`name?` may be absent, never null), a set of the values
that may be, a list of one shape, or None for null.
"""

_ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
_MOST = 2**53 - 1


class Malformed(AssertionError):
    """What would leave such a client failed for good."""


@frozen
class OneOf:
    """Any of these shapes."""

    shapes: tuple[Shape, ...]


def check(value: Any, shape: Shape, where: str = "") -> None:
    """Raise `Malformed` unless a value has the shape."""
    match shape:
        case OneOf():
            _one_of(value, shape.shapes, where)
        case None:
            _need(value is None, value, where)
        case set():
            _need(isinstance(value, (str, int)) and value in shape, value, where)
        case [one]:
            _need(isinstance(value, list), value, where)
            for index, item in enumerate(value):
                check(item, one, f"{where}[{index}]")
        case dict():
            _need(isinstance(value, dict), value, where)
            for name, member in shape.items():
                bare = name.removesuffix("?")
                if bare in value:
                    check(value[bare], member, f"{where}.{bare}")
                else:
                    _need(bare != name, value, f"{where}.{bare}")
        case _:
            _need(shape(value), value, where)


def _need(good: object, value: Any, where: str) -> None:
    if not good:
        raise Malformed(f"{where}: {repr(value)[:2_000]}")


def _one_of(value: Any, shapes: tuple[Shape, ...], where: str) -> None:
    reasons = []
    for shape in shapes:
        try:
            return check(value, shape, where)
        except Malformed as error:
            reasons.append(str(error))
    raise Malformed(f"{where}: none of its forms: {reasons}")


# Scalars


def string(value: Any) -> bool:
    """Any text."""
    return isinstance(value, str)


def text(value: Any) -> bool:
    """More than blanks."""
    return isinstance(value, str) and bool(value.strip())


def boolean(value: Any) -> bool:
    """True or false."""
    return isinstance(value, bool)


def number(value: Any) -> bool:
    """A finite number."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def count(value: Any) -> bool:
    """A safe integer from nought."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST


def positive(value: Any) -> bool:
    """A safe integer from one."""
    return count(value) and value >= 1


def iso(value: Any) -> bool:
    """A canonical time."""
    return isinstance(value, str) and _ISO.fullmatch(value) is not None


def chat_id(value: Any) -> bool:
    """Sixteen digits."""
    return isinstance(value, str) and re.fullmatch(r"\d{16}", value) is not None


def anything(value: Any) -> bool:
    """An object."""
    return isinstance(value, dict)


def true(value: Any) -> bool:
    """Nothing but true."""
    return value is True


def false(value: Any) -> bool:
    """Nothing but false."""
    return value is False


def maybe(shape: Shape) -> OneOf:
    """Null, too."""
    return OneOf((None, shape))


# What is said of one chat

PHASES = {"running", "stopping"}
PERMISSIONS = {"default", "acceptEdits", "manualBypass", "bypassPermissions", "plan"}
EFFORTS = {"none", "low", "medium", "high", "xhigh", "max", "ultra"}
PROTOCOLS = {"anthropic-messages", "openai-compatible"}
ENVELOPE = {"ownerId": text, "schemaVersion": positive, "values": anything}
FAILURE = {
    "success": false,
    "error": text,
    "errorCode": text,
    "retryable": boolean,
    "details?": string,
}

_TODO = {"content": string, "status": {"pending", "in_progress", "completed"}}
_TOOLS: dict[str, dict[str, Shape]] = {
    "bash-tool-use": {"command": string, "description?": string},
    "read-tool-use": {"filePath": string, "offset?": number, "limit?": number, "endLine?": number},
    "edit-tool-use": {"filePath?": string, "oldString?": string, "newString?": string},
    "apply-patch-tool-use": {"filePath?": string, "patch?": string},
    "write-tool-use": {"filePath": string, "content?": string},
    "grep-tool-use": {"pattern?": string, "path?": string},
    "glob-tool-use": {"pattern?": string, "path?": string},
    "web-search-tool-use": {"query": string},
    "web-fetch-tool-use": {"url": string, "prompt?": string},
    "todo-write-tool-use": {"todos?": [_TODO]},
    "task-tool-use": {"subagentType?": string, "description?": string, "prompt?": string},
    "codex-subagent-tool-use": {"action": string, "details": anything},
    "mcp-tool-use": {"server": string, "tool": string, "input": anything},
    "external-tool-use": {"name": string, "input": anything},
    "request-permissions-tool-use": {"permissions": anything, "reason?": string},
    "unknown-tool-use": {"rawName": string, "input": anything},
}
_ROW_DETAIL = {"type": {"cli-row"}}
_IMAGE = {"data": string, "name": string, "mimeType?": string}
_TOOL_USE = {"type": lambda value: value in _TOOLS, "timestamp": string, "toolId": text}
MESSAGES: dict[str, dict[str, Shape]] = {
    "user-message": {
        "content": string,
        "images?": [_IMAGE],
        "metadata?": {"clientMessageId?": text},
    },
    "assistant-message": {"content": string},
    "thinking": {"content": string},
    "tool-result": {"toolId": text, "content": anything, "isError": boolean},
    "error": {"content": string, "detail?": _ROW_DETAIL, "title?": text},
    "transcript-notice": {"content": string, "detail?": _ROW_DETAIL, "title?": text},
    "permission-request": {"permissionOccurrenceId": text, "requestedTool": _TOOL_USE},
    "permission-resolved": {"permissionOccurrenceId": text, "allowed": boolean},
    "permission-cancelled": {
        "permissionOccurrenceId": text,
        "reason?": {"cancelled", "session-complete", "aborted"},
    },
    "permission-expired": {"permissionOccurrenceId": text},
    "compaction": {"trigger": {"manual", "auto"}, "summary": string},
    "agent-switch": {
        "fromAgentId": text,
        "toAgentId": text,
        "fromModel?": string,
        "toModel?": string,
    },
    **{kind: {"toolId": text, **members} for kind, members in _TOOLS.items()},
}


def message(value: Any) -> bool:
    """A message of the catalogue, with what it must have; others are seen as an error."""
    check(value, {"type": text, "timestamp": string}, "message")
    if value["type"] not in MESSAGES:
        raise Malformed(f"a message of the type {value['type']}")
    check(value, MESSAGES[value["type"]], value["type"])
    return True


ROW = {"ordinal": positive, "message": message}
CANDIDATE = {"ordinal": positive, "content": string, "attachmentNames": [string]}
ENTRY = {
    "id": text,
    "content": string,
    "revision": positive,
    "createdAt": iso,
    "updatedAt": iso,
}
PAUSE = OneOf(
    (
        {"id": text, "kind": {"manual"}, "pausedAt": iso},
        {
            "id": text,
            "kind": {"queued-turn-failed", "completion-uncertain"},
            "entryId": text,
            "pausedAt": iso,
        },
        {"id": text, "kind": {"unknown"}, "entryId?": text, "pausedAt": maybe(iso)},
    )
)
CONTROL = {
    "serverInstanceId": text,
    "version": count,
    "updatedAt": maybe(iso),
    "queue": {
        "entries": [ENTRY],
        "steeringEntryId": maybe(text),
        "recentlyDispatched": [{"entryId": text, "revision": positive, "dispatchedAt": iso}],
        "pause": maybe(PAUSE),
        "reorderRevision": count,
    },
}
LIVE_ROW = {
    "permissionOccurrenceId": text,
    "runId": text,
    "transcript": {"transcriptViewId": text, "afterOrdinal": count},
    "displayOrder": count,
    "message": message,
}
FEED = {
    "serverInstanceId": text,
    "chatId": text,
    "transcriptViewId": text,
    "transientRevision": count,
    "rows": [LIVE_ROW],
}
PAGE = {
    "messages": [ROW],
    "lastOrdinal": count,
    "pageOldestOrdinal": count,
    "pageNewestOrdinal": count,
    "nextBeforeOrdinal": maybe(lambda value: count(value) and value > 1),
    "hasMore": boolean,
}
LISTED = {
    "id": chat_id,
    "agentId": text,
    "agentOwnershipEpoch": text,
    "model": maybe(string),
    "apiProviderId": maybe(text),
    "modelEndpointId": maybe(text),
    "modelProtocol": maybe(PROTOCOLS),
    "permissionMode": PERMISSIONS,
    "thinkingMode": EFFORTS,
    "agentSettings": ENVELOPE,
    "title": text,
    "projectPath": text,
    "effectiveProjectKey": text,
    "orderGroup": {"pinned", "orphan", "normal", "archived"},
    "tags": [text],
    "activity": {
        "createdAt": maybe(iso),
        "lastActivityAt": maybe(iso),
        "lastReadAt": maybe(iso),
    },
    "preview": {"lastMessage": string, "firstMessage?": string},
    "isPinned": boolean,
    "isArchived": boolean,
    "isActive": boolean,
    "isProcessing": boolean,
    "processingPhase": maybe(PHASES),
    "canReloadFromNativeHistory": boolean,
    "isUnread": boolean,
}


# Pages


def rows_ascend(rows: list[Any], first: int, last: int) -> None:
    """Rows lie in a span and ascend."""
    ordinals = [row["ordinal"] for row in rows]
    _need(ordinals == sorted(set(ordinals)), ordinals, "ordinals ascend")
    _need(all(first <= one <= last for one in ordinals), (first, ordinals, last), "the span")


def page_relations(page: dict[str, Any], limit: int) -> None:
    """See server.md A.9 and chats.md 4.9."""
    check(page, PAGE, "page")
    oldest, newest = page["pageOldestOrdinal"], page["pageNewestOrdinal"]
    _need(oldest <= newest <= page["lastOrdinal"], page, "the page's place")
    rows_ascend(page["messages"], oldest, newest)
    shown = page["messages"][0]["ordinal"] if page["messages"] else 0
    _need(oldest == shown, page, "pageOldestOrdinal")
    before = newest - limit + 1
    _need(page["nextBeforeOrdinal"] == (before if before > 1 else None), page, "the next page")
    _need(page["hasMore"] == (page["nextBeforeOrdinal"] is not None), page, "hasMore")


def feed_relations(feed: dict[str, Any], chat: str, view: str) -> None:
    """See server.md A.10."""
    _need((feed["chatId"], feed["transcriptViewId"]) == (chat, view), feed, "the feed's place")
    order = [(row["displayOrder"], row["permissionOccurrenceId"]) for row in feed["rows"]]
    _need(order == sorted(set(order)), feed, "the feed's order")
    for row in feed["rows"]:
        live_row(row, view)


def live_row(row: dict[str, Any], view: str) -> None:
    """A question that may be answered."""
    _need(row["transcript"]["transcriptViewId"] == view, row, "the row's view")
    _need(row["message"]["type"] == "permission-request", row, "the row's message")
    same = row["message"]["permissionOccurrenceId"] == row["permissionOccurrenceId"]
    _need(same, row, "the row's occurrence")


need: Callable[[object, Any, str], None] = _need
