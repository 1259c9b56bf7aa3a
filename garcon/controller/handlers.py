"""The one place where an operation meets its handler; both doors (HTTP and the bridge) come through
`Handlers.run`.

A handler takes a typed `Call` and returns the operation's reply struct (or a `Reply` around it), or
raises a `GarconError`.  Errors become the standard envelope here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar
from uuid import uuid4

import msgspec
from attrs import field, frozen
from msgspec import Struct
from twisted.internet.defer import CancelledError
from twisted.logger import Logger

from garcon.contract.operations import NoQuery, Operation
from garcon.controller.principals import Principal
from garcon.deferreds import returns_deferred
from garcon.errors import GarconError

Q = TypeVar("Q")
B = TypeVar("B")


@frozen
class Form:
    """A form as it was sent, for operations that take one; nobody has looked into it."""

    content_type: str
    body: bytes = field(repr=False)


@frozen
class Call(Generic[Q, B]):
    """One request, typed.  `executor_id` is the path's segment, where the operation has one.

    `base_url` is the public base that this request's own scheme and Host suggest; None behind a
    bridge.
    """

    operation: Operation
    principal: Principal
    query: Q
    body: B = field(repr=False)
    executor_id: str | None = None
    base_url: str | None = None
    form: Form | None = None


@frozen
class Encoded:
    """A reply's value that is sent as it is."""

    body: bytes = field(repr=False)
    content_type: str = "application/json"


@frozen
class Reply:
    """A reply with more than a body: further headers, or another status than the operation's."""

    value: Any = field(repr=False)
    status: int | None = None
    headers: dict[str, str] = field(factory=dict)


@frozen
class Answer:
    """What either door sends back: a status, JSON bytes (unless the headers have another type) and
    the few headers that may cross.
    """

    status: int
    body: bytes = field(repr=False)
    headers: dict[str, str] = field(factory=dict)

    @property
    def retry_after(self) -> str | None:
        return self.headers.get("Retry-After")


Observer = Callable[[str, int, float], None]
"""Is told an operation's registry key, the status it was answered with, and in how many seconds."""

Handler = Callable[[Call[Any, Any]], Any]
"""Returns a struct, a `Reply`, a coroutine or a Deferred of either."""


def error_answer(error: GarconError, *, no_store: bool = False) -> Answer:
    """Return the answer that an error is, in the standard envelope."""
    headers = {"Cache-Control": "no-store"} if no_store else {}
    if error.retry_after is not None:
        headers["Retry-After"] = str(error.retry_after)
    return Answer(error.status, msgspec.json.encode(error.body()), headers)


class Handlers:
    """Every operation's handler, registered once at composition."""

    _log = Logger()

    def __init__(self) -> None:
        self._handlers: dict[str, Handler] = {}
        self._observe: Observer | None = None
        self._seconds: Callable[[], float] = float

    def observed(self, observe: Observer, seconds: Callable[[], float]) -> Handlers:
        """Return the same handlers for one door, which tells `observe` of every answer.  `seconds`
        is a monotonic clock.
        """
        door = Handlers()
        door._handlers = self._handlers
        door._observe, door._seconds = observe, seconds
        return door

    def register(self, operation: Operation, handler: Handler) -> None:
        """Serve `operation` with `handler`; `ValueError` when it has one already."""
        key = operation.route.key
        if key in self._handlers:
            raise ValueError(f"{key} has two handlers")
        self._handlers[key] = handler

    def serves(self, key: str) -> bool:
        """Whether an operation has its handler."""
        return key in self._handlers

    @returns_deferred
    async def run(
        self,
        operation: Operation,
        principal: Principal,
        *,
        query: Sequence[tuple[str, str]] = (),
        body: dict[str, Any] | None = None,
        executor_id: str | None = None,
        base_url: str | None = None,
        form: Form | None = None,
    ) -> Answer:
        """Parse, call, encode.  Never fails but by cancellation: every error is an answer."""
        began = self._seconds()
        answer = await self._answer(operation, principal, query, body, executor_id, base_url, form)
        if self._observe is not None:
            self._observe(operation.route.key, answer.status, self._seconds() - began)
        return answer

    async def _answer(
        self,
        operation: Operation,
        principal: Principal,
        query: Sequence[tuple[str, str]],
        body: dict[str, Any] | None,
        executor_id: str | None,
        base_url: str | None,
        form: Form | None,
    ) -> Answer:
        try:
            call: Call[Any, Any] = Call(
                operation,
                principal,
                _parse_query(operation, query),
                _parse_body(operation, body),
                executor_id,
                base_url,
                form,
            )
            result = self._handlers[operation.route.key](call)
            if isinstance(result, Awaitable):
                result = await result
            reply = result if isinstance(result, Reply) else Reply(result)
            headers = dict(reply.headers)
            if operation.no_store:
                headers.setdefault("Cache-Control", "no-store")
            status = reply.status or operation.status
            if isinstance(reply.value, Encoded):
                headers["Content-Type"] = reply.value.content_type
                return Answer(status, reply.value.body, headers)
            content = b"" if reply.value is None else msgspec.json.encode(reply.value)
            return Answer(status, content, headers)
        except CancelledError:
            raise
        except GarconError as error:
            return error_answer(error, no_store=operation.no_store)
        except Exception:
            incident = uuid4().hex[:12]
            self._log.failure(
                "{key} failed, incident {incident}", key=operation.route.key, incident=incident
            )
            return error_answer(internal_error(incident), no_store=operation.no_store)


def internal_error(incident: str) -> GarconError:
    """The generic 500 that hides a cause of ours; the log has it under the incident id."""
    return GarconError(
        "INTERNAL_ERROR",
        f"Something went wrong inside Garcon; its log has the cause as incident {incident}.",
        status=500,
        retryable=True,
    )


def _parse_query(operation: Operation, pairs: Sequence[tuple[str, str]]) -> Struct:
    if operation.query is NoQuery:
        return NoQuery()
    found: dict[str, str] = {}
    known = set(operation.query.__struct_encode_fields__)
    for name, value in pairs:
        if name not in known:
            continue
        if name in found:
            raise GarconError(operation.validation, f"the query names {name} twice")
        found[name] = value
    return _convert(found, operation.query, operation.validation)


def _parse_body(operation: Operation, body: dict[str, Any] | None) -> Any:
    if operation.body is None:
        return None
    return _convert({} if body is None else body, operation.body, operation.invalid)


def _convert(value: dict[str, Any], shape: type[Struct], code: str = "VALIDATION_FAILED") -> Struct:
    try:
        return msgspec.convert(value, shape)
    except msgspec.ValidationError as error:
        raise GarconError(code, f"The request does not fit: {error}") from None
