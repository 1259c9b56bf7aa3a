"""The frames of a lane and their encoding (control.md J.6, J.7); what they mean is decided
elsewhere.

Payloads (`request`, `value`, `notification`) stay raw here: their types belong to the method or the
receiver.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, cast

import msgspec
from msgspec import Meta, Raw, Struct

from garcon.contract.limits import ACK_IDS, KIB
from garcon.contract.terminals import TerminalDetach as Detaching
from garcon.errors import BadMessage

NULL = Raw(b"null")


class Frame(Struct, frozen=True, rename="camel", tag_field="type"):
    """Anything that may cross an authenticated lane."""


class Request(Frame, frozen=True, tag="request", kw_only=True):
    id: str
    seq: int
    method: str
    integration_id: str = ""
    request: Raw = NULL


class Result(Frame, frozen=True, tag="result", kw_only=True):
    id: str
    value: Raw = NULL


class ErrorObject(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """How a call has failed.  Domains, outcomes and statuses are checked; the codes of a domain are
    not listed anywhere, because they are those of its operations, and both sides are the same
    release (control.md J.2).
    """

    code: str
    message: str
    retryable: bool = msgspec.field()
    domain: Literal["executor", "terminal", "git"] | None = None
    status: Annotated[int, Meta(ge=400, le=599)] | None = None
    details: str | None = None
    outcome: Literal["not-dispatched", "rejected", "unknown"] | None = None


class Error(Frame, frozen=True, tag="error", kw_only=True):
    id: str
    error: ErrorObject


class Cancel(Frame, frozen=True, tag="cancel", kw_only=True):
    id: str


class Producer(Frame, frozen=True, tag="producer", kw_only=True):
    seq: int
    notification: Raw


class Acknowledgement(Struct, frozen=True, rename="camel"):
    binding_id: str
    seq: int


class ProducerAck(Frame, frozen=True, tag="producer-ack", kw_only=True):
    acknowledgements: list[Acknowledgement]


class Terminal(Frame, frozen=True, tag="terminal", kw_only=True):
    """One event of an attachment, which the notification names."""

    notification: Raw


class TerminalDetach(Frame, frozen=True, tag="terminal-detach", kw_only=True):
    """An attachment is not wanted any more: a word that costs no call."""

    request: Detaching


class Taken(Struct, frozen=True, rename="camel"):
    attachment_id: str
    sequence: int


class TerminalTaken(Frame, frozen=True, tag="terminal-taken", kw_only=True):
    """How far attachments are rid of their output, so that the executor may send more of it."""

    taken: list[Taken]


class ReplyAck(Frame, frozen=True, tag="reply-ack"):
    ids: Annotated[list[str], Meta(max_length=ACK_IDS)]


class BulkPrepare(Frame, frozen=True, tag="bulk-prepare", forbid_unknown_fields=True):
    session_id: str


class BulkPrepared(Frame, frozen=True, tag="bulk-prepared", forbid_unknown_fields=True):
    session_id: str


class BulkConnect(Frame, frozen=True, tag="bulk-connect", forbid_unknown_fields=True):
    session_id: str


class BulkActivate(Frame, frozen=True, tag="bulk-activate", forbid_unknown_fields=True):
    session_id: str


class BulkActive(Frame, frozen=True, tag="bulk-active", forbid_unknown_fields=True):
    session_id: str


class BulkLost(Frame, frozen=True, tag="bulk-lost", forbid_unknown_fields=True):
    session_id: str


class Ping(Frame, frozen=True, tag="ping", forbid_unknown_fields=True):
    pass


class Pong(Frame, frozen=True, tag="pong", forbid_unknown_fields=True):
    pass


class Close(Frame, frozen=True, tag="close", kw_only=True):
    """The sender ends this connection, and why: a close cause or a refusal kind."""

    kind: str
    text: str = ""


FROM_CONTROLLER = (
    BulkPrepare,
    BulkConnect,
    BulkActivate,
    ProducerAck,
    TerminalDetach,
    TerminalTaken,
)
FROM_WORKER = (BulkPrepared, BulkActive, BulkLost, Producer, Terminal)
PRIMARY_ONLY = FROM_CONTROLLER + FROM_WORKER
"""Everything that is not a call keeps to primary and to one direction."""

PING, PONG = msgspec.json.encode(Ping()), msgspec.json.encode(Pong())
_BRACE = ord("}")
SEQUENCE_ROOM = 24
"""What `number` adds at most."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(
    Request
    | Result
    | Error
    | Cancel
    | Producer
    | ProducerAck
    | Terminal
    | TerminalDetach
    | TerminalTaken
    | ReplyAck
    | BulkPrepare
    | BulkPrepared
    | BulkConnect
    | BulkActivate
    | BulkActive
    | BulkLost
    | Ping
    | Pong
    | Close
).decode


def encode(value: Any) -> bytes:
    """Encode a frame or a payload.  Raises `ValueError` (or a subclass) or `TypeError` for what
    JSON cannot hold.
    """
    return _encode(value)


def decode(text: bytes | memoryview) -> Any:
    """Return the frame that `text` is, or raise `BadMessage`."""
    if len(text) >= _LARGE:
        large = _large(text)
        if large is not None:
            return large
    try:
        return _decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        # The library's words may quote what was received.
        raise BadMessage("malformed data") from None


_LARGE = 8 * KIB
_REQUEST = re.compile(
    rb'\{"type":"request","id":"([0-9a-f-]{36})","integrationId":"([A-Za-z0-9._-]{0,128})",'
    rb'"method":"([A-Za-z0-9.]{1,128})","request":'
)
_RESULT = re.compile(rb'\{"type":"result","id":"([0-9a-f-]{36})","value":')
_NUMBER = re.compile(rb',"seq":([1-9][0-9]{0,15})\}')


def _large(text: bytes | memoryview) -> Request | Result | None:
    """Return a large call's frame in the one form that `request_head`, `numbered` and `result` give
    it, without a look at its payload: that is decoded by its own type, which finds whatever is
    wrong with it, and only finding its end takes as long as that.  None for everything else.
    """
    found = _RESULT.match(text)
    if found is not None:
        if text[-1] != _BRACE:
            return None
        return Result(id=found[1].decode(), value=_part(text, found.end(), -1))
    found = _REQUEST.match(text)
    if found is None:
        return None
    end = _NUMBER.search(text, len(text) - SEQUENCE_ROOM)
    if end is None or end.end() != len(text):
        return None
    return Request(
        id=found[1].decode(),
        seq=int(end[1]),
        method=found[3].decode(),
        integration_id=found[2].decode(),
        request=_part(text, found.end(), end.start()),
    )


def _part(text: bytes | memoryview, begin: int, end: int) -> Raw:
    """Return a part of `text` that is not copied: to whoever decodes it, it is as good as `Raw`."""
    return cast(Raw, memoryview(text)[begin:end])


def request_head(call_id: str, method: str, integration_id: str, request: bytes) -> bytes:
    """Return a request without its number, which is only known when sending begins."""
    integration = encode(integration_id) if integration_id else b'""'
    return b'{"type":"request","id":"%b","integrationId":%b,"method":"%b","request":%b' % (
        call_id.encode(),
        integration,
        method.encode(),
        request,
    )


def number(seq: int) -> bytes:
    """Return what finishes a request, with its number."""
    return b',"seq":%d}' % seq


def numbered(head: bytes, seq: int) -> bytes:
    """Return a finished request."""
    return head + number(seq)


def result(call_id: str, value: bytes) -> bytes:
    """Return a result frame around an encoded value."""
    return b'{"type":"result","id":"%b","value":%b}' % (call_id.encode(), value)


def producer(seq: int, notification: bytes) -> bytes:
    """Return a producer frame around an encoded notification."""
    return b'{"type":"producer","seq":%d,"notification":%b}' % (seq, notification)


def terminal(notification: bytes) -> bytes:
    """Return a terminal frame around an encoded notification."""
    return b'{"type":"terminal","notification":%b}' % notification
