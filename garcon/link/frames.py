"""The frames of a lane and their encoding (control.md J.6, J.7); what they mean is decided
elsewhere.

Payloads (`request`, `value`, `notification`) stay raw here: their types belong to the method or the
receiver.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Raw, Struct

from garcon.contract.limits import ACK_IDS
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
    code: str
    message: str
    retryable: bool = msgspec.field()
    domain: Literal["executor", "terminal", "git"] | None = None
    status: int | None = None
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


FROM_CONTROLLER = (BulkPrepare, BulkConnect, BulkActivate, ProducerAck)
FROM_WORKER = (BulkPrepared, BulkActive, BulkLost, Producer)
PRIMARY_ONLY = FROM_CONTROLLER + FROM_WORKER
"""Everything that is not a call keeps to primary and to one direction."""

PING, PONG = msgspec.json.encode(Ping()), msgspec.json.encode(Pong())
SEQUENCE_ROOM = 24
"""What `numbered` adds at most."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(
    Request
    | Result
    | Error
    | Cancel
    | Producer
    | ProducerAck
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
    try:
        return _decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        # The library's words may quote what was received.
        raise BadMessage("malformed data") from None


def request_head(call_id: str, method: str, integration_id: str, request: bytes) -> bytes:
    """Return a request without its number, which is only known when sending begins."""
    integration = encode(integration_id) if integration_id else b'""'
    return b'{"type":"request","id":"%b","integrationId":%b,"method":"%b","request":%b' % (
        call_id.encode(),
        integration,
        method.encode(),
        request,
    )


def numbered(head: bytes, seq: int) -> bytes:
    """Finish a request with its number."""
    return b'%b,"seq":%d}' % (head, seq)


def result(call_id: str, value: bytes) -> bytes:
    """Return a result frame around an encoded value."""
    return b'{"type":"result","id":"%b","value":%b}' % (call_id.encode(), value)


def producer(seq: int, notification: bytes) -> bytes:
    """Return a producer frame around an encoded notification."""
    return b'{"type":"producer","seq":%d,"notification":%b}' % (seq, notification)
