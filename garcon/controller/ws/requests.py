"""What a client says on the browser socket, and what is wrong with it (server.md A.4 to A.7).

Only what is asked for becomes objects: a few bytes, inflated, can be millions of lists, which would
take seconds of the reactor's thread and half a gigabyte.
"""

from __future__ import annotations

import math
import re

import msgspec
from attrs import field, frozen
from msgspec import Raw, Struct

from garcon.contract.events import ClientRequestError, Fault
from garcon.contract.limits import KIB, MIB

CONTROLS = 256
"""How many chats one reconnect query asks about; the rest are not looked at."""
CONTROLS_BYTES = MIB
"""A list of chats that is longer is not looked at at all."""
LARGEST = 2**53 - 1
TERMINAL_TYPES = frozenset(
    {"terminal-attach", "terminal-input", "terminal-resize", "terminal-detach"}
)
"""These go to whoever handles terminals, even where the rest of the message is malformed."""
MENDED_BYTES = 128 * KIB
"""Messages that may have half characters in them; a terminal's input of the largest size mostly is
shorter.
"""


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
    payload: bytes = field(repr=False)


@frozen
class Refused:
    """Something that is answered at once, and with nothing else."""

    answer: Fault | ClientRequestError


Request = Ping | ReconnectQuery | Subscribe | Reload | CancelReload | Terminal | Refused


_MISSING = Raw()


class _Fields(Struct, rename="camel"):
    """The fields that any message has, unread."""

    type: Raw = _MISSING
    client_request_id: Raw = _MISSING
    sent_at: Raw = _MISSING
    control_chat_ids: Raw = _MISSING
    chat_id: Raw = _MISSING
    transcript_view_id: Raw = _MISSING
    after_ordinal: Raw = _MISSING
    through_ordinal: Raw = _MISSING
    reload_request_id: Raw = _MISSING


_decode = msgspec.json.Decoder(_Fields).decode
_decode_list = msgspec.json.Decoder(list[Raw]).decode
_decode_text = msgspec.json.Decoder(str).decode
_decode_number = msgspec.json.Decoder(int | float).decode


def read(payload: bytes) -> Request | None:
    """Read a message; None for what is to be ignored: an unknown type, or a ping and a reload that
    cannot be answered.
    """
    try:
        try:
            return _read(payload)
        except msgspec.DecodeError:
            mended = _whole(payload)
            if mended == payload:
                raise
            return _read(mended)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Refused(Fault(error="Malformed JSON"))


_HALF = re.compile(
    rb"(?<!\\)((?:\\\\)*)(?:"
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2})"
)
"""An escape that is one half of a UTF-16 pair, without the other; what comes before it is whole."""


def _whole(payload: bytes) -> bytes:
    """Put U+FFFD in the place of half characters.

    A browser makes them of a text that it cuts anywhere, as a paste in pieces.  JSON allows them,
    our reader does not.
    """
    if len(payload) > MENDED_BYTES:
        return payload
    return _HALF.sub(rb"\1\\ufffd", payload)


def _read(payload: bytes) -> Request | None:
    fields = _decode(payload)
    kind = _text(fields.type)
    if kind in TERMINAL_TYPES:
        return Terminal(kind, payload)
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


def _ping(fields: _Fields) -> Ping | None:
    request_id = _text(fields.client_request_id)
    return Ping(request_id, _instant(_number(fields.sent_at))) if request_id else None


def _instant(value: int | float | None) -> int | float:
    """Return a finite number as a client's own arithmetic knows it, 0 for anything else."""
    if value is None:
        return 0
    try:
        return value if abs(value) <= LARGEST else float(value)
    except OverflowError:
        return 0


def _reconnect(fields: _Fields) -> ReconnectQuery | Refused:
    request_id = _text(fields.client_request_id) or None
    asked = fields.control_chat_ids
    wanted: dict[str, None] = {}
    if len(asked) > CONTROLS_BYTES:
        text = f"controlChatIds has more than {CONTROLS_BYTES} bytes."
        kind, code = "reconnect-state-query", "REQUEST_VALIDATION_FAILED"
        if request_id is None:
            return Refused(Fault(error=text))
        return Refused(error(request_id, kind, code, text, None, retryable=False))
    for one in _decode_list(asked) if _begins(asked, b"[") else ():
        chat_id = _text(one).strip()
        if chat_id:
            wanted[chat_id] = None
        if len(wanted) == CONTROLS:
            break
    return ReconnectQuery(request_id, tuple(wanted))


def _subscribe(fields: _Fields) -> Subscribe | Refused:
    request_id = _text(fields.client_request_id)
    if not request_id:
        return Refused(Fault(error="chat-subscribe requires a clientRequestId"))
    chat_id = _text(fields.chat_id)
    if not chat_id:
        return _missing_chat("chat-subscribe")
    view_id = _text(fields.transcript_view_id)
    after = _natural(fields.after_ordinal)
    is_fixed = len(fields.through_ordinal) > 0
    through = _natural(fields.through_ordinal)
    if not view_id or after is None or (is_fixed and through is None):
        text = "The request needs transcriptViewId, afterOrdinal and a legible throughOrdinal."
        return Refused(
            error(
                *(request_id, "chat-subscribe", "REQUEST_VALIDATION_FAILED", text, chat_id),
                retryable=False,
            )
        )
    return Subscribe(request_id, chat_id, view_id, after, through)


def _reload(fields: _Fields) -> Reload | Refused | None:
    request_id, chat_id = _text(fields.client_request_id), _text(fields.chat_id)
    if not request_id:
        return None
    return Reload(request_id, chat_id) if chat_id else _missing_chat("chat-reload")


def _cancel(fields: _Fields) -> CancelReload | None:
    request_id, chat_id = _text(fields.reload_request_id), _text(fields.chat_id)
    return CancelReload(request_id, chat_id) if request_id and chat_id else None


def _missing_chat(kind: str) -> Refused:
    return Refused(Fault(error=f'Missing chatId for "{kind}"'))


def _begins(value: Raw, characters: bytes) -> bool:
    """Whether a value is there, and of the kind that begins with one of these."""
    return len(value) > 0 and bytes(memoryview(value)[:1]) in characters


def _text(value: Raw) -> str:
    """Return a text that is not blank, else an empty one."""
    text = _decode_text(value) if _begins(value, b'"') else ""
    return text if text.strip() else ""


def _natural(value: Raw) -> int | None:
    number = _number(value)
    if number is None or number != int(number) or not 0 <= number <= LARGEST:
        return None
    return int(number)


def _number(value: Raw) -> int | float | None:
    """Return a finite number, None for anything else; JSON has no others, but the reader makes
    some.
    """
    if not _begins(value, b"-0123456789"):
        return None
    try:
        number: int | float = _decode_number(value)
    except msgspec.ValidationError:
        return None
    return None if isinstance(number, float) and not math.isfinite(number) else number
