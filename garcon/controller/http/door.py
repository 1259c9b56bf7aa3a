"""From an admitted HTTP request to its handler and back: JSON in, JSON out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorThreads
from twisted.internet.threads import deferToThreadPool
from twisted.python.failure import Failure

from garcon.contract.decoding import decode
from garcon.contract.limits import KIB
from garcon.controller.handlers import Answer, Form, Handlers, Observer, error_answer
from garcon.controller.http import compression, ranges
from garcon.controller.http.pages import KeptAnswer, Page
from garcon.controller.http.policy import NOT_FOUND, Admitted, outgoing
from garcon.controller.principals import LOCAL_PRINCIPAL
from garcon.deferreds import returns_deferred
from garcon.errors import GarconError, validation
from garcon.web.exchange import Incoming, Outgoing

_ON_THIS_THREAD = 64 * KIB
"""Larger bodies are compressed on another thread: 1 MiB takes 10 ms and more."""

_CUT_SHORT = GarconError(
    "INTERNAL_ERROR",
    "The controller stopped before it was known what became of this; it may have been done.",
    status=500,
    retryable=True,
)
"""The answer to a command that the end of the process cancelled: nothing else cancels one."""


class Door:
    """Answer the requests that a `ControllerPolicy` has admitted."""

    def __init__(
        self,
        reactor: Any,
        handlers: Handlers,
        *,
        compress: bool = True,
        observe: Observer | None = None,
    ) -> None:
        self._reactor: IReactorThreads = reactor
        self._seconds: Callable[[], float] = reactor.seconds
        self._observe = observe
        self._handlers = handlers
        self._compress = compress
        self._mutations: set[Deferred[Answer]] = set()

    def answer(self, incoming: Incoming) -> Deferred[Outgoing]:
        """Answer a request.

        When its client goes away a read is cancelled; a mutation that has begun runs to its end,
        as its fate must not depend on a socket.
        """
        return self._observed(incoming)

    def under_way(self) -> list[Deferred[Answer]]:
        """Return the mutations that have not ended, for the process's own end."""
        return list(self._mutations)

    @returns_deferred
    async def _observed(self, incoming: Incoming) -> Outgoing:
        began = self._seconds()
        answer = await self._answer(incoming)
        if self._observe is not None:
            self._observe(incoming.context.name, answer.status, self._seconds() - began)
        return answer

    async def _answer(self, incoming: Incoming) -> Outgoing:
        admitted: Admitted = incoming.context
        if admitted.page is not None:
            return await self._finished(incoming, await _served(admitted.page, incoming))
        if admitted.match is None:
            return NOT_FOUND
        operation = admitted.match.operation
        try:
            body = None if operation.body is None else parse_body(incoming)
        except GarconError as error:
            return outgoing(error, operation)
        work = self._handlers.run(
            operation,
            admitted.principal or LOCAL_PRINCIPAL,
            query=incoming.query,
            body=body,
            executor_id=admitted.match.executor_id,
            base_url=admitted.base_url,
            form=_form(incoming) if operation.form else None,
        )
        if operation.route.mutation:
            work = self._shielded(work, no_store=operation.no_store)
        answer = await work
        headers = dict(answer.headers)
        if answer.body:
            headers = {"Content-Type": "application/json", **headers}
        if answer.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        return await self._finished(incoming, Outgoing(answer.status, answer.body, headers))

    def _shielded(self, work: Deferred[Answer], *, no_store: bool) -> Deferred[Answer]:
        waiter: Deferred[Answer] = Deferred()
        self._mutations.add(work)

        def ended(result: Any) -> None:
            self._mutations.discard(work)
            # A waiter that was cancelled takes one late result without a word.
            if isinstance(result, Failure) and result.check(CancelledError):
                waiter.callback(error_answer(_CUT_SHORT, no_store=no_store))
            elif isinstance(result, Failure):
                waiter.errback(result)
            else:
                waiter.callback(result)

        work.addBoth(ended)
        return waiter

    async def _finished(self, incoming: Incoming, answer: Outgoing) -> Outgoing:
        """Send only what the client needs of it: nothing new, a part, or all of it, coded."""
        ranged = incoming.headers.hasHeader(b"range")
        eligible = self._compress and compression.is_eligible(incoming.method, answer, ranged)
        if is_unchanged(incoming, answer):
            whole = compression.varied(answer) if eligible else answer
            return Outgoing(304, b"", whole.headers)
        if ranges.is_wanted(incoming, answer):
            return ranges.part_of(answer, incoming.header(b"range") or "")
        if not eligible:
            return answer
        coding = compression.choose(incoming.header(b"accept-encoding"))
        if coding is None:
            return compression.varied(answer)
        kept = answer.coded if isinstance(answer, KeptAnswer) else {}
        body = kept.get(coding)
        if body is None:
            body = kept[coding] = await self._encode(compression.ENCODERS[coding], answer.body)
        return compression.encoded(answer, coding, body)

    async def _encode(self, encode: Callable[[bytes], bytes], body: bytes) -> bytes:
        if len(body) <= _ON_THIS_THREAD:
            return encode(body)
        pool = self._reactor.getThreadPool()
        return await deferToThreadPool(self._reactor, pool, encode, body)


def _form(incoming: Incoming) -> Form:
    return Form(incoming.header(b"content-type") or "", incoming.body)


async def _served(page: Page, incoming: Incoming) -> Outgoing:
    try:
        answer = page.answer(incoming)
        return await answer if isinstance(answer, Deferred) else answer
    except GarconError as error:
        return outgoing(error)


def parse_body(incoming: Incoming) -> dict[str, Any]:
    """Return a request's JSON object: ``{}`` for an empty body or another content type (F.8).

    Parameters of the type do not count: a foreign web page may send ``text/plain;application/json``
    without asking, and where accounts are off nothing else would keep its commands out.
    """
    media, _, _ = (incoming.header(b"content-type") or "").partition(";")
    if not incoming.body or "application/json" not in media.lower():
        return {}
    try:
        value = decode(incoming.body, object)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise validation("Malformed JSON") from None
    if not isinstance(value, dict):
        raise validation("The body must be a JSON object.")
    return value


def is_unchanged(incoming: Incoming, answer: Outgoing) -> bool:
    """Whether the client has this very answer already (``If-None-Match``, compared weakly)."""
    tag = answer.headers.get("ETag")
    known = incoming.header(b"if-none-match")
    if tag is None or known is None or answer.status != 200:
        return False
    if incoming.method not in ("GET", "HEAD"):
        return False
    wanted = tag.removeprefix("W/")
    return any(part.strip().removeprefix("W/") in (wanted, "*") for part in known.split(","))
