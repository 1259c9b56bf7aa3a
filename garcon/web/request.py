"""One request of a door, from its headers to the last byte of its answer."""

from __future__ import annotations

import gc
from io import BytesIO
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote_to_bytes
from uuid import uuid4

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IPushProducer
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.http import RESPONSES
from twisted.web.resource import getChildForRequest
from twisted.web.server import Request
from zope.interface import implementer

from garcon.contract.limits import KIB
from garcon.web.exchange import Admission, Incoming, Outgoing, Upgrade, json_answer

if TYPE_CHECKING:
    from garcon.web.channel import BoundedChannel
    from garcon.web.site import BoundedSite

_QUERY_FIELDS = 1_000
_LARGE_BODY = 256 * KIB
"""A failed Deferred keeps its frames in a cycle, and with them the parsed body of a request that
was refused.  Bodies are large and few, so the collector would not look before there are a dozen.
"""
_YOUNG = 1
_NO_STORE = {"Cache-Control": "no-store"}
_BAD_QUERY = json_answer(
    400,
    {
        "success": False,
        "error": "The query is not well-formed.",
        "errorCode": "VALIDATION_FAILED",
        "retryable": False,
    },
    _NO_STORE,
)
_REASONS = {**RESPONSES, 422: b"Unprocessable Content", 431: b"Request Header Fields Too Large"}
_BODILESS = frozenset({204, 304})


class BoundedRequest(Request):
    """One request; its body is kept in memory, never above what its admission allows."""

    _log = Logger()

    channel: BoundedChannel

    def __init__(self, channel: BoundedChannel, queued: object = False) -> None:
        super().__init__(channel, queued, parsePOSTFormSubmission=False)
        self.site: BoundedSite = channel.site
        self._incoming: Incoming | None = None
        self._admission: Admission | None = None
        self._upgrade: Upgrade | None = None
        self._refusal: Outgoing | None = None
        self._body: bytes | bytearray = b""
        self._answering: Deferred[Any] | None = None
        self._is_refused = False
        self.gone = False

    @property
    def incoming_method(self) -> str:
        """The request's method, GET until it is known."""
        return "GET" if self._incoming is None else self._incoming.method

    def begin(
        self, command: bytes, uri: bytes, version: bytes, length: int | None
    ) -> Outgoing | None:
        """Take the parsed head and ask the policy.  Returns an answer for a request whose body must
        not be read.
        """
        self.method, self.uri, self.clientproto = command, uri, version
        self.path, _, query = uri.partition(b"?")
        try:
            pairs = query_pairs(query)
        except ValueError:
            return self._refused(_BAD_QUERY, length)
        self._incoming = incoming = Incoming(
            command.decode("latin-1"),
            self.path.decode("latin-1"),
            pairs,
            self.requestHeaders,
            length,
            getattr(self.client, "host", ""),
            self.channel.isSecure(),
            getattr(self.host, "host", ""),
        )
        try:
            verdict = self.site.policy.admit(incoming)
        except Exception:
            verdict = self._incident("the policy of a door failed, incident {incident}")
        if isinstance(verdict, Outgoing):
            return self._refused(verdict, length)
        if isinstance(verdict, Upgrade):
            self._upgrade = verdict
            return None if length == 0 else self.site.refusals.malformed
        self._admission = verdict
        self.channel.is_known = self.channel.is_known or verdict.is_known
        incoming.context = verdict.context
        if length is None:
            # Nobody waits for a body of which not one byte would be taken.
            return verdict.too_large if verdict.limit == 0 else None
        if length > verdict.limit:
            return verdict.too_large
        return None

    def _refused(self, answer: Outgoing, length: int | None) -> Outgoing | None:
        if length != 0:
            return answer
        # Nothing is left unread, so the connection may live on.
        self._refusal = answer
        return None

    def expects_continue(self) -> bool:
        """Whether the sender waits for leave to send the body."""
        values = self.requestHeaders.getRawHeaders(b"Expect")
        return values is not None and values[0].lower() == b"100-continue"

    # Called by the channel

    def handleContentChunk(self, data: bytes) -> None:
        """Keep a piece of the body, or refuse the request as too large."""
        admission = self._admission
        if admission is None or self._is_refused:
            return
        site = self.site
        if len(self._body) + len(data) > admission.limit:
            self.channel.refuse(admission.too_large)
        elif site.uploading + len(data) > site.limits.uploads:
            self.channel.refuse(site.refusals.full)
        else:
            site.uploading += len(data)
            if not self._body:
                self._body = data
            else:
                if isinstance(self._body, bytes):
                    self._body = bytearray(self._body)
                self._body += data

    def requestReceived(self, command: bytes, path: bytes, version: bytes) -> None:
        """The body is complete."""
        if self._refusal is not None:
            self.send(self._refusal)
        elif self._upgrade is not None:
            self._render(self._upgrade)
        elif self._incoming is not None:
            self._process(self._incoming)

    def connectionLost(self, reason: Failure) -> None:
        """The client is gone: nobody needs the answer any more."""
        self.gone = True
        self.settle()
        if self._answering is not None:
            self._answering.cancel()
        super().connectionLost(reason)

    def settle(self) -> None:
        """Free what the admission reserved, once."""
        admission, self._admission = self._admission, None
        self._forget_body()
        self._incoming = None
        if admission is not None and admission.release is not None:
            admission.release()

    def refused(self) -> None:
        """It has been answered early: its body is not wanted, also not what is under way."""
        self._is_refused = True
        self._forget_body()

    def _forget_body(self) -> None:
        size = len(self._body)
        self.site.uploading -= size
        self._body = b""
        if size >= _LARGE_BODY:
            self.site.reactor.callLater(0, gc.collect, _YOUNG)

    # Answering

    def _process(self, incoming: Incoming) -> None:
        incoming.body = bytes(self._body)
        try:
            d = self.site.answer(incoming)
        except Exception:
            self.send(self._incident("answering failed, incident {incident}"))
            return
        self._answering = d
        d.addCallbacks(self._answered, self._failed)
        d.addErrback(self._unsendable)

    def _answered(self, answer: Outgoing) -> None:
        self._answering = None
        if not self.gone:
            self.send(answer)

    def _failed(self, failure: Failure) -> None:
        self._answering = None
        if self.gone and failure.check(CancelledError):
            return
        answer = self._incident("answering failed, incident {incident}", failure)
        if not self.gone:
            self.send(answer)

    def _unsendable(self, failure: Failure) -> None:
        self._log.failure("an answer could not be written", failure=failure)
        if not self.gone:
            self.channel.abort()

    def _incident(self, text: str, failure: Failure | None = None) -> Outgoing:
        incident = uuid4().hex[:12]
        self._log.failure(text, failure=failure, incident=incident)
        return json_answer(
            500,
            {
                "success": False,
                "error": "Something went wrong inside Garcon; its log has the cause as incident "
                f"{incident}.",
                "errorCode": "INTERNAL_ERROR",
                "retryable": True,
            },
            _NO_STORE,
        )

    def send(self, answer: Outgoing) -> None:
        """Write the answer in bounded steps and end the request."""
        channel = self.channel
        if channel.retiring:
            channel.persistent = False
        head = render_head(self.site, answer, close=not channel.persistent)
        body = b"" if self.method == b"HEAD" or answer.status in _BODILESS else answer.body
        self.startedWriting = 1
        step = self.site.limits.step
        if len(body) <= step:
            channel.put_now(head + body)
            self.end()
        else:
            channel.put(head)
            channel.drain_begun()
            _Steps(self, body, step).begin()

    def end(self) -> None:
        """Everything is handed to the transport."""
        self.finished = 1
        channel = self.channel
        if channel.persistent:
            self.settle()
            self._cleanup()
        else:
            channel.closing(self)
            self._cleanup()

    def _render(self, upgrade: Upgrade) -> None:
        channel = self.channel
        parts = [unquote_to_bytes(part) for part in self.path[1:].split(b"/")]
        self.prepath, self.postpath = parts[: upgrade.prefix], parts[upgrade.prefix :]
        self.content = BytesIO()
        self.args = {}
        try:
            self.render(getChildForRequest(upgrade.resource, self))
        except Exception:
            self._log.failure("an upgrade failed")
            channel.abort()
            return
        if channel.transport is None:
            channel.hand_over()


@implementer(IPushProducer)
class _Steps:
    """Hand a large body over as the transport takes it."""

    def __init__(self, request: BoundedRequest, body: bytes, step: int) -> None:
        self._request = request
        self._body = memoryview(body)
        self._step = step
        self._at = 0
        self._paused = False

    def begin(self) -> None:
        """Register with the connection and write the first steps."""
        self._request.registerProducer(self, True)
        self.resumeProducing()

    def pauseProducing(self) -> None:
        """The transport holds enough."""
        self._paused = True

    def stopProducing(self) -> None:
        """The connection is gone: so is the body, and does not wait for a cycle to be collected."""
        self._paused = True
        self._body = memoryview(b"")

    def resumeProducing(self) -> None:
        """Write until the transport has enough, or the body is handed over."""
        request = self._request
        if request.gone or request.finished:
            return
        self._paused = False
        channel = request.channel
        channel.drain_begun()
        while not self._paused and self._at < len(self._body):
            piece = bytes(self._body[self._at : self._at + self._step])
            self._at += len(piece)
            channel.put(piece)
        if self._at >= len(self._body):
            request.unregisterProducer()
            request.end()


def render_head(site: BoundedSite, answer: Outgoing, *, close: bool) -> bytes:
    """Return status line and headers."""
    reason = _REASONS.get(answer.status, b"Unknown")
    lines = [b"HTTP/1.1 %d %s\r\n" % (answer.status, reason), site.common_headers(answer.headers)]
    for name, value in answer.headers.items():
        if "\n" in value or "\r" in value:
            raise ValueError(f"a line break in the value of {name}")
        lines.append(f"{name}: {value}\r\n".encode("latin-1"))
    if answer.status not in _BODILESS:
        lines.append(b"Content-Length: %d\r\n" % len(answer.body))
    lines.append(b"Connection: close\r\n\r\n" if close else b"\r\n")
    return b"".join(lines)


def render_answer(site: BoundedSite, answer: Outgoing, *, close: bool, method: str) -> bytes:
    """Return a whole small answer."""
    head = render_head(site, answer, close=close)
    return head if method == "HEAD" or answer.status in _BODILESS else head + answer.body


def query_pairs(raw: bytes) -> tuple[tuple[str, str], ...]:
    """Return a query's pairs, in order; `ValueError` when it is not well-formed or has too many."""
    if not raw:
        return ()
    if b"%" not in raw and b"+" not in raw and raw.count(b"&") < _QUERY_FIELDS:
        # Nothing is encoded, as in most queries: this takes a fifth of the time.
        parts = [pair.partition("=") for pair in raw.decode("ascii").split("&")]
        return tuple([(name, value) for name, mark, value in parts if name or mark])
    return tuple(
        parse_qsl(
            raw.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=_QUERY_FIELDS,
        )
    )
