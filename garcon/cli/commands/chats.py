"""`chats`: find chats by what lists show of them (control.md I.3, I.4)."""

from __future__ import annotations

from garcon.cli.failures import (
    CATALOG,
    DONE,
    ApiError,
    BadAnswer,
    RuntimeReplaced,
    TransportFailure,
    bad_arguments,
    failure_of,
)
from garcon.cli.filters import activity, parse
from garcon.cli.render import table
from garcon.contract.routes import LIST_CHATS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from garcon.cli.invocation import Invocation

LIMIT, MOST = 20, 100
_TEXTS = ("id", "title", "agentId", "projectPath")


def run(invocation: Invocation) -> int:
    """List the chats that pass the filter, the most recently active first."""
    parsed = invocation.parsed
    matches = parse(parsed.text("filter") or "")
    limit = _number(parsed.text("limit"), "limit", LIMIT, 1, MOST)
    offset = _number(parsed.text("offset"), "offset", 0, 0, 10**9)
    client = invocation.connect()
    try:
        entries = client.call(LIST_CHATS).get("sessions")
        if not isinstance(entries, list) or not all(_is_entry(one) for one in entries):
            raise BadAnswer("the chat list is malformed")
    except (ApiError, TransportFailure, RuntimeReplaced) as e:
        raise failure_of(e, CATALOG) from None
    found = sorted((one for one in entries if matches(one)), key=lambda one: str(one["id"]))
    found.sort(key=activity, reverse=True)
    shown = found[offset : offset + limit]
    if invocation.json:
        page = {"total": len(found), "limit": limit, "offset": offset, "chats": shown}
        invocation.print_json(page)
        return DONE
    rows = [
        [
            chat["id"],
            activity(chat),
            chat.get("processingPhase") or ("unread" if chat.get("isUnread") else ""),
            chat["agentId"],
            chat["title"],
        ]
        for chat in shown
    ]
    invocation.system.out(table(["CHAT", "UPDATED", "STATUS", "AGENT", "TITLE"], rows))
    left = len(found) - offset - len(shown)
    if left > 0 and shown:
        invocation.system.err(f"{left} more: --offset {offset + len(shown)}")
    return DONE


def _number(text: str | None, name: str, default: int, least: int, most: int) -> int:
    if text is None:
        return default
    if not (text.isascii() and text.isdigit()) or len(text) > 10 or not least <= int(text) <= most:
        raise bad_arguments(f"--{name} must be a number from {least} to {most}")
    return int(text)


def _is_entry(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and all(isinstance(entry.get(name), str) for name in _TEXTS)
        and all(isinstance(entry.get(name), bool) for name in ("isPinned", "isArchived"))
        and all(isinstance(entry.get(name), dict) for name in ("activity", "preview"))
        and isinstance(entry.get("tags"), list)
    )
