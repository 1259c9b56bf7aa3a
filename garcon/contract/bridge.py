"""The reverse bridge's envelope, policy and outcomes (control.md F.3-F.6), as values.

The worker's gateway and the controller's dispatcher each check the same narrow envelope with this,
independently; what an application body means stays with the handlers.
"""

from __future__ import annotations

import re
from typing import Any, Literal, NoReturn

from attrs import frozen
from msgspec import UNSET

from garcon.contract import routes
from garcon.contract.ids import LOCAL, is_executor_id, is_uuid4
from garcon.contract.limits import (
    BRIDGE_BULK_REPLY,
    BRIDGE_BULK_REQUEST,
    BRIDGE_ENVELOPE,
    BRIDGE_PRIMARY,
    GATEWAY_HEADERS,
    QUERY_PAIRS,
    QUERY_PART,
    REPLY_QUEUE_PRESSURE,
    SMALL_REPLY,
)
from garcon.contract.routes import BRIDGED, Route
from garcon.contract.rpc import BridgedHttp, BridgedReply, BridgedRequest, Lane
from garcon.errors import CallError, GarconError, validation

Outcome = Literal["not-dispatched", "rejected", "unknown"]

_RETRY_AFTER = re.compile(r"[0-9]{1,5}")
_INSTANCE_CHARACTERS = 128
_SEGMENT = ":executorId"
_ASSIGNMENTS = frozenset(
    {routes.LIST_ASSIGNMENTS.key, routes.ASSIGN_PROVIDER.key, routes.UNASSIGN_PROVIDER.key}
)
_EXECUTORS = frozenset(
    {
        routes.LIST_EXECUTORS.key,
        routes.CREATE_EXECUTOR.key,
        routes.UPDATE_EXECUTOR.key,
        routes.DELETE_EXECUTOR.key,
        routes.REVEAL_CONNECTION.key,
        routes.EXECUTOR_DIAGNOSTICS.key,
        routes.END_PROCESS.key,
    }
)
_EXPLICIT_BODY = frozenset(
    {
        routes.START_CHAT.key,
        routes.LOOKUP_NATIVE_SESSION.key,
        routes.TICKET_PROJECT_DEFAULT.key,
    }
)


@frozen
class Policy:
    """How one request travels: lane, pool, and deadline (None: no timer at all)."""

    lane: Lane
    pool: Literal["short", "long"]
    deadline: float | None


def policy(route: Route, body: dict[str, Any] | None) -> Policy:
    """Return the policy of a request; a run that names a hand-off is a long one (F.5)."""
    if route is routes.RUN_CHAT and body is not None and body.get("handoff") is not None:
        return Policy(
            Lane(route.lane), _pool(routes.RUN_WITH_HANDOFF_POOL), routes.RUN_WITH_HANDOFF_DEADLINE
        )
    return Policy(Lane(route.lane), _pool(route.pool), route.deadline)


def request_limit(lane: Lane) -> int:
    """How many bytes an encoded `BridgedRequest` may have on a lane, beside its RPC envelope."""
    whole = BRIDGE_PRIMARY if lane is Lane.PRIMARY else BRIDGE_BULK_REQUEST
    return whole - BRIDGE_ENVELOPE


def reply_limit(lane: Lane) -> int:
    """How many bytes an encoded `BridgedReply` may have on a lane, beside its RPC envelope."""
    whole = BRIDGE_PRIMARY if lane is Lane.PRIMARY else BRIDGE_BULK_REPLY
    return whole - BRIDGE_ENVELOPE


def reply_presses(size: int, queued: int) -> bool:
    """Whether a reply may not join `queued` bytes now; a small one always may (F.4)."""
    whole = size + BRIDGE_ENVELOPE
    return whole > SMALL_REPLY and queued + whole > REPLY_QUEUE_PRESSURE


def check_request(request: BridgedRequest) -> Route:
    """Check a whole forwarded request and return its route.

    Raises ``CLI_ACCESS_DENIED`` for what may never be forwarded, ``VALIDATION_FAILED`` for a
    malformed envelope and ``EXECUTOR_NOT_FOUND`` for management of Local.
    """
    if not 1 <= len(request.expected_server_instance_id) <= _INSTANCE_CHARACTERS:
        raise validation(f"The expected instance has 1 to {_INSTANCE_CHARACTERS} characters.")
    return check_http(request.http)


def check_http(http: BridgedHttp) -> Route:
    """Check the `http` member alone, as the gateway does before it asks the controller."""
    route = BRIDGED.get(http.operation)
    if route is None:
        raise access_denied("This operation is not open to a worker's commands.")
    _check_segment(route, http)
    _check_query(route, http.query)
    _check_body(route, http.body)
    return route


def check_request_size(lane: Lane, size: int) -> None:
    """Refuse an encoded `BridgedRequest` that is too large for its lane."""
    if size > request_limit(lane):
        raise request_too_large(lane)


def is_reply(reply: BridgedReply) -> bool:
    """Whether a reply keeps to F.3: its status, and a retry time of one to five digits."""
    known = 200 <= reply.status <= 299 or 400 <= reply.status <= 599
    return known and (reply.retry_after is UNSET or is_retry_after(reply.retry_after))


def is_retry_after(text: str) -> bool:
    """Whether `text` may cross as retry metadata."""
    return _RETRY_AFTER.fullmatch(text) is not None


# -- outcomes (control.md F.6) --


def unavailable(text: str = "The controller cannot be reached from here now.") -> CallError:
    """``CLI_CONTROLLER_UNAVAILABLE``: not dispatched; safe to repeat."""
    return _error("CLI_CONTROLLER_UNAVAILABLE", text, "not-dispatched")


def interrupted_read(text: str = "The connection was lost during this read.") -> CallError:
    """``CLI_CONTROLLER_UNAVAILABLE`` for a read that may have run, which changes nothing."""
    return _error("CLI_CONTROLLER_UNAVAILABLE", text, "unknown")


def busy(text: str = "Too many requests are running; try again shortly.") -> CallError:
    """``CLI_SERVICE_BUSY``: a full budget, nothing dispatched; or no room for a read's reply."""
    return _error("CLI_SERVICE_BUSY", text, "not-dispatched")


def controller_changed() -> CallError:
    """``CLI_CONTROLLER_CHANGED``: the request was meant for an earlier controller process."""
    return _error(
        "CLI_CONTROLLER_CHANGED",
        "The controller was restarted since this command began; run the command again.",
        "rejected",
    )


def access_denied(text: str) -> CallError:
    """``CLI_ACCESS_DENIED``: the worker's authority does not cover this."""
    return _error("CLI_ACCESS_DENIED", text, "rejected")


def management_denied() -> CallError:
    """``CLI_ACCESS_DENIED``: commands are granted, but not this one."""
    return access_denied(
        "This executor's commands may not manage executors; an operator of the controller can"
        " grant it with --allow-executor-management."
    )


def request_too_large(lane: Lane) -> CallError:
    """``CLI_REQUEST_TOO_LARGE``: nothing was dispatched."""
    return _error(
        "CLI_REQUEST_TOO_LARGE",
        f"The request is larger than the {request_limit(lane)} bytes this operation may send.",
        "not-dispatched",
    )


def headers_too_large() -> CallError:
    """``CLI_REQUEST_TOO_LARGE``: the query is longer than any head of a request may be."""
    return _error(
        "CLI_REQUEST_TOO_LARGE",
        f"The request line and headers are larger than {GATEWAY_HEADERS} bytes.",
        "not-dispatched",
    )


def result_too_large(lane: Lane) -> CallError:
    """``CLI_RESULT_TOO_LARGE``: a read's answer does not fit; it is never truncated."""
    return _error(
        "CLI_RESULT_TOO_LARGE",
        f"The answer is larger than the {reply_limit(lane)} bytes this operation may return; "
        "narrow the request.",
        "rejected",
    )


def outcome_unknown(
    text: str = "The request may have been carried out, but its answer did not arrive.",
) -> CallError:
    """``CLI_OUTCOME_UNKNOWN``: a mutation may have run."""
    return _error("CLI_OUTCOME_UNKNOWN", text, "unknown")


def lost_reply(route: Route) -> CallError:
    """What a caller learns when a dispatched request's answer is lost, late or invalid."""
    return outcome_unknown() if route.mutation else interrupted_read()


def oversize_reply(route: Route) -> CallError:
    """What a caller learns when an answer is larger than its lane carries."""
    return outcome_unknown() if route.mutation else result_too_large(Lane(route.lane))


def crowded_reply(route: Route) -> CallError:
    """What a caller learns when an answer found no room in the lane's queue."""
    return outcome_unknown() if route.mutation else busy("The answer found no room to be sent.")


def of_call(route: Route, error: CallError) -> GarconError:
    """Translate a failed ``controllerCli.request`` into what the gateway answers.

    Codes of the bridge and refusals of the envelope pass unchanged; of a link failure only its
    outcome counts.  Whatever the code, a mutation that may have run is never anything but unknown.
    """
    if route.mutation and error.outcome == "unknown":
        known = error.code == "CLI_OUTCOME_UNKNOWN"
        return outcome_unknown(error.text) if known else outcome_unknown()
    if error.code in STATUSES:
        return _error(error.code, error.text, error.outcome)
    if error.code == "REPLY_LOST":
        return crowded_reply(route)
    if error.outcome == "unknown":
        return lost_reply(route)
    if error.code == "EXECUTOR_BUSY":
        return busy("The executor link carries as much as it can.")
    if error.outcome == "rejected" and error.domain == "executor":
        return error
    return unavailable()


STATUSES = {
    "CLI_CONTROLLER_UNAVAILABLE": 503,
    "CLI_SERVICE_BUSY": 503,
    "CLI_CONTROLLER_CHANGED": 409,
    "CLI_ACCESS_DENIED": 403,
    "CLI_REQUEST_TOO_LARGE": 413,
    "CLI_RESULT_TOO_LARGE": 413,
    "CLI_OUTCOME_UNKNOWN": 503,
}
"""Every code of the bridge's own, with its status."""

_RETRYABLE = frozenset({"CLI_CONTROLLER_UNAVAILABLE", "CLI_SERVICE_BUSY"})


def _error(code: str, text: str, outcome: str) -> CallError:
    return CallError(
        code,
        text,
        outcome=outcome,
        domain="executor",
        status=STATUSES[code],
        retryable=code in _RETRYABLE,
        retry_after=1 if code == "CLI_SERVICE_BUSY" else None,
    )


# -- the envelope (control.md F.3) --


def _check_segment(route: Route, http: BridgedHttp) -> None:
    if _SEGMENT not in route.path:
        if http.executor_id is not UNSET:
            raise validation("This operation names no executor in its path.")
    elif http.executor_id == LOCAL:
        raise GarconError(
            "EXECUTOR_NOT_FOUND", "The Local executor is not managed this way.", status=404
        )
    elif not is_uuid4(http.executor_id):
        raise validation("The executor id in the path is malformed.")


def _check_query(route: Route, query: list[tuple[str, str]]) -> None:
    if len(query) > QUERY_PAIRS:
        raise validation(f"The query has more than {QUERY_PAIRS} parameters.")
    if any(len(part) > QUERY_PART for pair in query for part in pair):
        raise validation(f"A part of the query is longer than {QUERY_PART} characters.")
    if route.key in _EXECUTORS and query:
        raise validation("Executor operations take no query.")
    if route is routes.MODELS:
        _one_executor(query)
    elif route.key in _ASSIGNMENTS:
        _check_assignment_query(route, query)


def _check_assignment_query(route: Route, query: list[tuple[str, str]]) -> None:
    if route is routes.LIST_ASSIGNMENTS:
        if query:
            raise validation("This operation takes no query.")
        return
    _one_executor(query)
    if sorted(name for name, _ in query) != ["apiProviderId", "executorId"]:
        raise validation(
            "The query names executorId and apiProviderId, each once, and nothing else."
        )


def _one_executor(query: list[tuple[str, str]]) -> None:
    named = [value for name, value in query if name == "executorId"]
    if len(named) != 1 or not is_executor_id(named[0]):
        raise validation("The query must name exactly one valid executorId.")


def _check_body(route: Route, body: dict[str, Any] | None) -> None:
    if body is not None and route.method == "GET":
        raise validation("A GET takes no body.")
    if body is not None and (route.key in _ASSIGNMENTS or route is routes.DELETE_EXECUTOR):
        raise validation("This operation takes no body.")
    if route.key in _EXPLICIT_BODY and not is_executor_id((body or {}).get("executorId")):
        raise validation("The body must name a valid executorId.")
    if route is routes.CHANGE_SETTINGS and not _is_search_switch(body):
        _deny_patch()


def _is_search_switch(body: dict[str, Any] | None) -> bool:
    """Whether a settings patch is the one a worker may send (control.md C.1)."""
    match body or {}:
        case {
            "features": {"transcriptSearch": {"enabled": bool(), **a}, **b},
            **c,
        }:
            return not (a or b or c)
        case _:
            return False


def _deny_patch() -> NoReturn:
    raise access_denied("From a worker only the transcript search switch can be changed.")


def _pool(name: str) -> Literal["short", "long"]:
    return "long" if name == "long" else "short"
