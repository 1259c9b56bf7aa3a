"""Who may ask the gateway for what: decided from the headers alone, before a byte of a body is
read.

The order matters.  Nothing is said to a foreign page, nothing but the proof to whoever lacks the
capability, and the session a request belongs to is chosen here: it is never replaced afterwards,
however long the upload takes.
"""

from __future__ import annotations

from hmac import compare_digest

import msgspec
from attrs import define, field, frozen
from zope.interface import implementer

from garcon.contract import bridge, routes
from garcon.contract.executors import RuntimeProof
from garcon.contract.routes import BRIDGED, PREFIX, Route
from garcon.contract.rpc import Lane
from garcon.errors import GarconError, validation
from garcon.link.interfaces import ICapturedLink
from garcon.local.descriptors import SCHEMA_VERSION, is_challenge, proof
from garcon.web.exchange import Admission, IDoorPolicy, Incoming, Outgoing, Refusals, json_answer
from garcon.worker.gateway.relation import Relation
from garcon.worker.gateway.slots import Slots

_SEGMENT = "/:executorId"


def _halves(route: Route) -> tuple[str, str]:
    before, _, after = route.path.partition(_SEGMENT)
    return before, after


_PATTERNS: list[tuple[Route, str, str]] = [
    (route, *_halves(route)) for route in BRIDGED.values() if _SEGMENT in route.path
]
_JSON = {"Content-Type": "application/json"}


@frozen
class Admitted:
    """A request whose headers were accepted, and the session it goes to.

    `expected` is the controller instance the command knows; the context has none.
    """

    route: Route
    lane: Lane
    captured: ICapturedLink
    executor_id: str | None = None
    expected: str = ""


@frozen
class Identity:
    """The gateway as an endpoint: what its descriptor says of it."""

    instance_id: str
    capability: str = field(repr=False)


def error_answer(error: GarconError) -> Outgoing:
    """Return an error as the gateway answers it, in the standard envelope."""
    headers = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
    return json_answer(error.status, error.body(), headers)


REFUSALS = Refusals(
    malformed=error_answer(validation("This is not an HTTP request.")),
    slow=error_answer(validation("The request took too long to come.", status=408)),
    long=error_answer(bridge.headers_too_large()),
    full=error_answer(bridge.busy()),
)
"""What the door itself refuses, in the words of this endpoint."""

_TOO_LARGE = {lane: error_answer(bridge.request_too_large(lane)) for lane in Lane}


def find_route(method: str, path: str) -> tuple[Route, str | None] | None:
    """Return the operation that may be forwarded for a request, and the executor its path names."""
    if not path.startswith(PREFIX + "/"):
        return None
    route = BRIDGED.get(f"{method} {path[len(PREFIX) :]}")
    if route is not None and _SEGMENT not in route.path:
        return route, None
    for candidate, before, after in _PATTERNS:
        if method == candidate.method and path.startswith(before + "/") and path.endswith(after):
            segment = path[len(before) + 1 : len(path) - len(after)]
            if segment and "/" not in segment:
                return candidate, segment
    return None


@implementer(IDoorPolicy)
@define(eq=False)
class GatewayPolicy:
    """The gateway's side of the door."""

    _identity: Identity
    _relation: Relation
    _slots: Slots
    hosts: frozenset[str] = frozenset()
    """The values of ``Host`` that name this gateway; known once it listens."""

    def admit(self, incoming: Incoming) -> Admission | Outgoing:
        """Answer the proof and refusals at once; admit the rest with a slot and its session."""
        try:
            self._check_browser(incoming)
            if incoming.path == routes.RUNTIME.path and incoming.method == routes.RUNTIME.method:
                return self._prove(incoming)
            self._check_capability(incoming)
            return self._reserve(*self._find(incoming), incoming)
        except GarconError as error:
            return error_answer(error)

    def _check_browser(self, incoming: Incoming) -> None:
        """Refuse what a web page could send: loopback is no authentication (pitfalls.md,
        "twisted.web").
        """
        host = incoming.header(b"host")
        if host is None or host.lower() not in self.hosts:
            raise bridge.access_denied("The Host header does not name this gateway.")
        if incoming.header(b"origin") is not None:
            raise bridge.access_denied("Web pages have no access to this gateway.")

    def _prove(self, incoming: Incoming) -> Outgoing:
        challenges = [value for name, value in incoming.query if name == "challenge"]
        if len(challenges) > 1:
            raise validation("the query names challenge twice")
        if not challenges or not is_challenge(challenges[0]):
            # As the controller says it (server.md B.8).
            text = "The challenge must be 43 base64url characters."
            return json_answer(400, {"error": text})
        identity = self._identity
        answer = RuntimeProof(
            SCHEMA_VERSION,
            identity.instance_id,
            proof(identity.capability, identity.instance_id, challenges[0]),
        )
        return Outgoing(200, msgspec.json.encode(answer), _JSON)

    def _check_capability(self, incoming: Incoming) -> None:
        scheme, _, token = (incoming.header(b"authorization") or "").partition(" ")
        known = self._identity.capability.encode()
        if scheme.lower() != "bearer" or not compare_digest(token.encode("latin-1"), known):
            raise bridge.access_denied("This gateway wants the capability of its descriptor.")

    def _find(self, incoming: Incoming) -> tuple[Route, str | None]:
        if incoming.header(b"upgrade") is not None:
            raise bridge.access_denied("The gateway does not forward upgrades.")
        context = routes.CLI_CONTEXT
        if incoming.path == context.path and incoming.method == context.method:
            return context, None
        found = find_route(incoming.method, incoming.path)
        if found is None:
            raise bridge.access_denied("This operation is not open to a worker's commands.")
        return found

    def _reserve(
        self, route: Route, executor_id: str | None, incoming: Incoming
    ) -> Admission | Outgoing:
        lane = Lane(route.lane)
        expected = ""
        limit = 0
        if route is not routes.CLI_CONTEXT:
            expected = incoming.header(b"x-garcon-server-instance") or ""
            if not expected:
                raise validation("X-Garcon-Server-Instance must name the expected controller.")
            limit = bridge.request_limit(lane)
            _check_length(incoming, lane, limit)
        slot = self._slots.take(lane)
        if slot is None:
            return error_answer(bridge.busy())
        try:
            captured = self._relation.capture()
        except GarconError:
            slot.release()
            raise
        return Admission(
            limit,
            Admitted(route, lane, captured, executor_id, expected),
            slot.release,
            _TOO_LARGE[lane],
        )


def _check_length(incoming: Incoming, lane: Lane, limit: int) -> None:
    if incoming.length == 0:
        return
    media, _, _ = (incoming.header(b"content-type") or "").partition(";")
    if media.strip().lower() != "application/json":
        raise validation("A body must be application/json.", status=415)
    if incoming.length is not None and incoming.length > limit:
        raise bridge.request_too_large(lane)
