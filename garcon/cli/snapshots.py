"""Reading a chat's snapshot, checked for what commands rely on (chats.md 4.10)."""

from __future__ import annotations

from garcon.cli.client import restarted
from garcon.cli.failures import (
    BAD_REQUEST,
    OPERATIONAL,
    ApiError,
    CommandFailure,
    RuntimeReplaced,
    TransportFailure,
    failure_of,
)
from garcon.contract.routes import SNAPSHOT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from garcon.cli.client import GarconClient

_TEXTS = ("id", "title", "agentId", "agentOwnershipEpoch", "projectPath")


def read_snapshot(client: GarconClient, chat_id: str, limit: int, phase: str) -> dict[str, Any]:
    """Return the snapshot of a chat, or fail in the caller's phase."""
    try:
        snapshot = client.call(SNAPSHOT, [("chatId", chat_id), ("limit", str(limit))])
    except ApiError as e:
        if e.code == "SESSION_NOT_FOUND":
            where = client.context.workspace()
            text = f"chat {chat_id} does not exist in {where}"
            raise CommandFailure(phase, text, BAD_REQUEST, e.code) from None
        raise failure_of(e, phase) from None
    except RuntimeReplaced:
        raise restarted() from None
    except TransportFailure as e:
        raise failure_of(e, phase) from None
    wrong = _wrong(snapshot, chat_id, limit)
    if wrong:
        raise CommandFailure(phase, f"the chat's snapshot has no valid {wrong}", OPERATIONAL)
    if snapshot["control"].get("serverInstanceId") != client.context.server_instance_id:
        raise CommandFailure(phase, "another controller answered for the chat", OPERATIONAL)
    return snapshot


def _wrong(snapshot: dict[str, Any], chat_id: str, limit: int) -> str | None:
    chat = snapshot.get("chat")
    if not isinstance(chat, dict) or chat.get("id") != chat_id:
        return "chat"
    for name in _TEXTS:
        if not isinstance(chat.get(name), str) or not chat[name]:
            return name
    if snapshot.get("messageLimit") != limit:
        return "messageLimit"
    for name in ("control", "transcript", "transientFeed"):
        if not isinstance(snapshot.get(name), dict):
            return name
    transcript = snapshot["transcript"]
    availability = transcript.get("availability")
    if availability not in ("not-requested", "available", "unavailable"):
        return "transcript"
    if (availability == "not-requested") != (limit == 0):
        return "transcript"
    if availability == "available" and not (
        isinstance(transcript.get("transcriptViewId"), str)
        and isinstance(transcript.get("messages"), list)
        and isinstance(transcript.get("lastOrdinal"), int)
    ):
        return "transcript"
    if not isinstance(snapshot["transientFeed"].get("rows"), list):
        return "transientFeed"
    return None


def executor_of(snapshot: dict[str, Any]) -> str:
    """Return the executor that owns the chat; an older server knows only one."""
    executor = snapshot["chat"].get("executorId")
    return executor if isinstance(executor, str) and executor else "local"
