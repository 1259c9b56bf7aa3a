"""From an admitted request to its answer: one reverse call on the session that was captured, and
nothing else.

No retry, no queue, no cache: what is lost is said to be lost, and how much of it may have happened.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec
from attrs import define
from msgspec import UNSET
from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from garcon.contract import bridge, routes
from garcon.contract.executors import CliContext
from garcon.contract.limits import DESCRIBE_DEADLINE
from garcon.contract.routes import Route
from garcon.contract.rpc import (
    CLI_DESCRIBE,
    CLI_REQUEST,
    BridgedHttp,
    BridgedReply,
    BridgedRequest,
    Lane,
)
from garcon.errors import CallError, GarconError, validation
from garcon.web.exchange import Incoming, Outgoing
from garcon.worker.gateway.policy import Admitted, error_answer
from garcon.worker.gateway.relation import Relation

_JSON = {"Content-Type": "application/json"}
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode

_NULL = msgspec.Raw(b"null")

_NESTING = 512
"""Deeper bodies are refused here: beyond twice that they can be read but no more encoded."""
_GROWTH = 6
"""No character of a request takes more bytes than this when it is encoded once more."""
_PAIR, _SHELL = 8, 512
"""More than what stands around each pair of the query, and around all of the request."""


@define(eq=False)
class Forwarder:
    """Answers admitted requests.  Cancelling an answer cancels its call, best effort."""

    _relation: Relation
    _log = Logger()

    def answer(self, incoming: Incoming) -> Deferred[Outgoing]:
        """Forward a complete request; the Deferred fails by cancellation only."""
        admitted = cast(Admitted, incoming.context)
        if admitted.route is routes.CLI_CONTEXT:
            return self._describe(admitted)
        try:
            request = bridged_request(admitted, incoming)
        except GarconError as error:
            return succeed(error_answer(error))
        route = admitted.route
        deadline = bridge.policy(route, request.http.body).deadline
        call: Deferred[Any] = admitted.captured.call(
            CLI_REQUEST, request, lane=admitted.lane, deadline=deadline
        )
        return call.addCallbacks(
            _answered, self._failed, callbackArgs=(route,), errbackArgs=(route,)
        )

    def _describe(self, admitted: Admitted) -> Deferred[Outgoing]:
        call: Deferred[Any] = admitted.captured.call(
            CLI_DESCRIBE, None, lane=Lane.PRIMARY, deadline=DESCRIBE_DEADLINE
        )
        route = admitted.route
        return call.addCallbacks(self._described, self._failed, errbackArgs=(route,))

    def _described(self, context: CliContext) -> Outgoing:
        if context.default_executor_id != self._relation.executor_id:
            return error_answer(
                bridge.access_denied("The controller takes this worker for another executor.")
            )
        return Outgoing(200, _encode(context), _JSON)

    def _failed(self, failure: Failure, route: Route) -> Outgoing | Failure:
        error = failure.value
        if isinstance(error, CancelledError):
            return failure
        if isinstance(error, CallError):
            return error_answer(bridge.of_call(route, error))
        self._log.failure("forwarding {key} failed", failure=failure, key=route.key)
        return error_answer(bridge.lost_reply(route))


def bridged_request(admitted: Admitted, incoming: Incoming) -> BridgedRequest:
    """Return the envelope of a request, or raise what is wrong with it."""
    http = BridgedHttp(
        admitted.route.key,
        list(incoming.query),
        _body(incoming.body),
        UNSET if admitted.executor_id is None else admitted.executor_id,
    )
    request = BridgedRequest(admitted.expected, http)
    bridge.check_request(request)
    _check_size(request, incoming, admitted.lane)
    return request


def _body(content: bytes) -> dict[str, Any] | None:
    if not content:
        return None
    try:
        body = _decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise validation("Malformed JSON") from None
    if not isinstance(body, dict):
        raise validation("The body must be a JSON object.")
    if content.count(b"[") + content.count(b"{") > _NESTING and _nesting(body) > _NESTING:
        raise validation(f"A body is nested at most {_NESTING} deep.")
    return body


def _nesting(body: Any) -> int:
    """Return how deep a decoded value is, level by level."""
    depth, level = 0, [body]
    while level:
        depth += 1
        inside = (one.values() if isinstance(one, dict) else one for one in level)
        level = [each for some in inside for each in some if isinstance(each, dict | list)]
    return depth


def _check_size(request: BridgedRequest, incoming: Incoming, lane: Lane) -> None:
    """Check the encoded size, and encode for that only where it can come near the limit."""
    raw = len(incoming.body) + sum(len(name) + len(value) for name, value in incoming.query)
    around = _SHELL + _PAIR * len(incoming.query)
    if _GROWTH * raw + around > bridge.request_limit(lane):
        bridge.check_request_size(lane, len(_encode(request)))


def _answered(reply: BridgedReply, route: Route) -> Outgoing:
    if not bridge.is_reply(reply):
        return error_answer(bridge.lost_reply(route))
    # A null body is how an answer without content crosses.
    body = b"" if reply.body == _NULL else bytes(reply.body)
    if reply.retry_after is UNSET:
        return Outgoing(reply.status, body, _JSON)
    return Outgoing(reply.status, body, {**_JSON, "Retry-After": reply.retry_after})
