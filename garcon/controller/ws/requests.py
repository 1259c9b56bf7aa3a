"""What a client says on the browser socket, and what is wrong with it (server.md A.4 to A.7)."""

from __future__ import annotations

import math
from typing import Any, TypeGuard

import msgspec
from attrs import frozen

from garcon.contract.events import ClientRequestError, Fault

CONTROLS = 256
"""How many chats one reconnect query asks about; the rest are not looked at."""
LARGEST = 2**53 - 1
TERMINAL_TYPES = frozenset(
    {"terminal-attach", "terminal-input", "terminal-resize", "terminal-detach"}
)
"""These go to whoever handles terminals, even where the rest of the message is malformed."""


@frozen
class Ping:
    """Answered by a pong; without an id by nothing."""

    request_id: str
    sent_at: float | int


@frozen
class ReconnectQuery:
    """What the chats do now.  `chat_ids`: each once, as the answer will have them."""

    request_id: str | None
    chat_ids: tuple[str, ...]


@frozen
class Subscribe:
    """One page of a replay; `through` None fixes the watermark at the end as it is now."""

    request_id: str
    chat_id: str
    view_id: str
    after: int
    through: int | None


@frozen
class Reload:
    """Read the chat anew from its agent's own history."""

    request_id: str
    chat_id: str


@frozen
class CancelReload:
    """Stop the reload that came with `request_id`."""

    request_id: str
    chat_id: str


@frozen
class Terminal:
    """Something for the terminals, unread."""

    type: str
    fields: dict[str, Any]


@frozen
class Refused:
    """Something that is answered at once, and with nothing else."""

    answer: Fault | ClientRequestError


Request = Ping | ReconnectQuery | Subscribe | Reload | CancelReload | Terminal | Refused


def read(payload: bytes) -> Request | None:
    """Read a message; None for what is to be ignored: an unknown type, or a ping and a reload that
    cannot be answered.
    """
    try:
        fields = msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        return Refused(Fault(error="Malformed JSON"))
    kind = fields.get("type")
    if not isinstance(kind, str):
        return None
    if kind in TERMINAL_TYPES:
        return Terminal(kind, fields)
    match kind:
        case "ws-ping":
            return _ping(fields)
        case "reconnect-state-query":
            return _reconnect(fields)
        case "chat-subscribe":
            return _subscribe(fields)
        case "chat-reload":
            return _reload(fields)
        case "chat-reload-cancel":
            return _cancel(fields)
    return None


def error(
    request_id: str, kind: str, code: str, text: str, chat_id: str | None, *, retryable: bool
) -> ClientRequestError:
    """Return the answer to a request that failed."""
    return ClientRequestError(
        client_request_id=request_id,
        request_type=kind,
        code=code,
        message=text,
        retryable=retryable,
        chat_id=msgspec.UNSET if chat_id is None else chat_id,
    )


def _ping(fields: dict[str, Any]) -> Ping | None:
    request_id = _text(fields, "clientRequestId")
    return Ping(request_id, _instant(fields.get("sentAt"))) if request_id else None


def _instant(value: Any) -> int | float:
    """Return a finite number as a client's own arithmetic knows it, 0 for anything else."""
    if not _is_number(value):
        return 0
    try:
        return value if abs(value) <= LARGEST else float(value)
    except OverflowError:
        return 0


def _reconnect(fields: dict[str, Any]) -> ReconnectQuery:
    asked = fields.get("controlChatIds")
    ids = [one.strip() for one in asked if isinstance(one, str)] if isinstance(asked, list) else []
    wanted = tuple(dict.fromkeys(one for one in ids if one))
    return ReconnectQuery(_text(fields, "clientRequestId") or None, wanted[:CONTROLS])


def _subscribe(fields: dict[str, Any]) -> Subscribe | Refused:
    request_id = _text(fields, "clientRequestId")
    if not request_id:
        return Refused(Fault(error="chat-subscribe requires a clientRequestId"))
    chat_id = _text(fields, "chatId")
    if not chat_id:
        return _missing_chat("chat-subscribe")
    view_id = _text(fields, "transcriptViewId")
    after = _natural(fields.get("afterOrdinal"))
    is_fixed = "throughOrdinal" in fields
    through = _natural(fields["throughOrdinal"]) if is_fixed else None
    if not view_id or after is None or (is_fixed and through is None):
        text = "The request needs transcriptViewId, afterOrdinal and a legible throughOrdinal."
        return Refused(
            error(
                *(request_id, "chat-subscribe", "REQUEST_VALIDATION_FAILED", text, chat_id),
                retryable=False,
            )
        )
    return Subscribe(request_id, chat_id, view_id, after, through)


def _reload(fields: dict[str, Any]) -> Reload | Refused | None:
    request_id, chat_id = _text(fields, "clientRequestId"), _text(fields, "chatId")
    if not request_id:
        return None
    return Reload(request_id, chat_id) if chat_id else _missing_chat("chat-reload")


def _cancel(fields: dict[str, Any]) -> CancelReload | None:
    request_id, chat_id = _text(fields, "reloadRequestId"), _text(fields, "chatId")
    return CancelReload(request_id, chat_id) if request_id and chat_id else None


def _missing_chat(kind: str) -> Refused:
    return Refused(Fault(error=f'Missing chatId for "{kind}"'))


def _text(fields: dict[str, Any], name: str) -> str:
    """Return a text that is not blank, else an empty one."""
    value = fields.get(name)
    return value if isinstance(value, str) and value.strip() else ""


def _natural(value: Any) -> int | None:
    if not _is_number(value) or value != int(value) or not 0 <= value <= LARGEST:
        return None
    return int(value)


def _is_number(value: Any) -> TypeGuard[int | float]:
    """Whether a value is a finite number; JSON has no others, but the reader makes some."""
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)
