"""What a door exchanges with those who use it: a request, an answer, and the policy that admits the
one before its body.

Shared by the controller's ports and a worker's gateway; `site.py` is the door itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from attrs import define, field, frozen
from twisted.internet.defer import Deferred
from twisted.web.http_headers import Headers
from twisted.web.resource import IResource
from zope.interface import Interface

from garcon.contract.limits import HTTP_IDLE, KIB, MIB


@define(eq=False)
class Incoming:
    """One request.  The policy sees it before its body has been read (`body` is empty then), the
    answerer complete.

    `path` is as sent, without the query; `query` keeps repeats and order.  `length` is the declared
    size of the body and None for a chunked one.  `context` is what the policy's admission put
    there.
    """

    method: str
    path: str
    query: tuple[tuple[str, str], ...]
    headers: Headers = field(repr=False)
    length: int | None
    peer: str
    secure: bool
    local: str = ""
    body: bytes = field(default=b"", repr=False)
    context: Any = None

    def header(self, name: bytes) -> str | None:
        """Return a header's value, None when absent.  Repeats are joined by a comma, so no check
        takes just one of them.
        """
        values = self.headers.getRawHeaders(name)
        if values is None:
            return None
        value = values[0] if len(values) == 1 else b", ".join(values)
        return value.decode("latin-1")


@frozen
class Outgoing:
    """One answer.  The door adds length, date, connection handling and its own fixed headers."""

    status: int
    body: bytes = field(default=b"", repr=False)
    headers: Mapping[str, str] = field(factory=dict)


def json_answer(status: int, value: Any, headers: Mapping[str, str] | None = None) -> Outgoing:
    """Return an answer whose body is `value` as JSON; for small bodies without a reply type."""
    return Outgoing(
        status,
        json.dumps(value, separators=(",", ":")).encode(),
        {"Content-Type": "application/json", **(headers or {})},
    )


def text_answer(status: int, text: str, headers: Mapping[str, str] | None = None) -> Outgoing:
    """Return a plain-text answer."""
    return Outgoing(
        status, text.encode(), {"Content-Type": "text/plain; charset=utf-8", **(headers or {})}
    )


@define(eq=False)
class Admission:
    """The policy lets a request's body in: at most `limit` bytes, else it is answered with
    `too_large`.

    `release` is called exactly once, when the answer has left (or the connection is gone): it frees
    what was reserved. Where the door closes after each answer, that is when the client's kernel has
    taken all of it.  `is_known` is False for a request that anybody may make: it earns its
    connection no place in a full door.
    """

    limit: int
    context: Any = None
    release: Callable[[], None] | None = None
    too_large: Outgoing = Outgoing(413)
    is_known: bool = True


@frozen
class Upgrade:
    """The request is not ours: `resource` takes the connection over (a WebSocket), mounted below
    `prefix` segments.
    """

    resource: IResource
    prefix: int = 1


class IDoorPolicy(Interface):
    """Decides on a request from its headers alone.  Must not block; a refusal is answered without
    reading the body.
    """

    def admit(incoming: Incoming) -> Admission | Outgoing | Upgrade:
        """Reserve what the request needs, or refuse it with the answer returned."""


@frozen
class Refusals:
    """What a door says by itself of a request that comes to nobody: `malformed` HTTP, one that is
    too `slow`, headers that are too `long`, and a door that is `full` of unanswered bodies.
    """

    malformed: Outgoing
    slow: Outgoing
    long: Outgoing
    full: Outgoing


PLAIN_REFUSALS = Refusals(
    text_answer(400, "Bad Request"),
    text_answer(408, "Request Timeout"),
    text_answer(431, "Request Header Fields Too Large"),
    text_answer(503, "Service Unavailable", {"Retry-After": "1", "Cache-Control": "no-store"}),
)

Answerer = Callable[[Incoming], "Deferred[Outgoing]"]
"""Answers a complete request.  The Deferred is cancelled when the client goes away or the door
closes.
"""


@frozen
class DoorLimits:
    """The bounds of one door (control.md F.4, chats.md 1.1).  Times are totals except `idle` and
    `drain`.

    `headers`: bytes of request line and headers, 431 beyond.  `header_time`: from a request's first
    byte (or the connection's start) to its last header.  `upload_time`: from there to the last byte
    of the body.  `idle`: between requests.  `drain`: without progress of a slow reader.  `step`:
    bytes handed to the transport at once. `linger`: how long an unread body is swallowed after an
    early answer, so that the answer is not lost in a reset. `uploads`: bytes of unanswered bodies
    in memory, all connections together, 503 beyond. `eviction`: how long a connection that has lost
    its place is kept beside the others, so that they are more than `connections`; with 0 it goes at
    once.
    """

    connections: int = 1024
    headers: int = 32 * KIB
    header_time: float = 10.0
    upload_time: float = 300.0
    idle: float = HTTP_IDLE
    drain: float = 30.0
    step: int = 64 * KIB
    linger: float = 2.0
    uploads: int = 512 * MIB
    eviction: float = 0.5
    keep_alive: bool = True
    eager: bool = False
