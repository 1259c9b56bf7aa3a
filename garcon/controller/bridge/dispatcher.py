"""The controller's end of the reverse bridge: what a worker's gateway asks, under whose authority.

The principal comes from the authenticated link and from nothing in the request.  Each request is
checked against the executor's lease, the controller's generation, the registry and the pools before
it is dispatched, and once more, synchronously, right before its reply is queued.  Answers of the
application cross unchanged; everything else is one of the bridge's own outcomes (control.md F.6).

Waiting and handling are two things: a caller who gives up, a lease that ends and a deadline that
passes end the wait.  A mutation that was dispatched runs to its end all the same, a read is
cancelled best effort, and both keep their slot until the handler has settled.
"""

from __future__ import annotations

from typing import Protocol

import msgspec
from attrs import define
from msgspec import UNSET, Raw
from twisted.internet.defer import Deferred, DeferredList, succeed
from twisted.internet.defer import TimeoutError as DeferredTimeout
from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure

from garcon.contract import bridge, routes
from garcon.contract.executors import CliContext
from garcon.contract.operations import BY_KEY, Operation
from garcon.contract.routes import Route
from garcon.contract.rpc import (
    CLI_DESCRIBE,
    CLI_REQUEST,
    BridgedHttp,
    BridgedReply,
    BridgedRequest,
    Lane,
)
from garcon.controller.bridge.pools import Pools, Slot
from garcon.controller.bridge.receipts import cut_receipt
from garcon.controller.executors.authority import Ending, Lease
from garcon.controller.handlers import Answer, Handlers, error_answer
from garcon.controller.principals import delegated
from garcon.deferreds import returns_deferred
from garcon.errors import CallError, GarconError, validation
from garcon.link.interfaces import CallContext, Guarded, Handler

STOP_TIME = 2.0
"""Seconds that handlers may take to settle when the controller stops."""
_REPLY_SHELL = 64
"""More than the members of an encoded `BridgedReply` beside its body ever take."""


class Leases(Protocol):
    """Who may use the bridge now (`Executors`)."""

    def lease(self, executor_id: str, generation: str) -> Lease:
        """Return a worker's authority over one link generation, or raise the bridge's error."""


@define(eq=False)
class _Exchange:
    """One admitted request, and what its reply must still satisfy when it is queued."""

    route: Route
    policy: bridge.Policy
    lease: Lease
    context: CallContext
    expected_instance: str
    expires: float | None


class Dispatcher:
    """Serves ``controllerCli.describe`` and ``controllerCli.request``."""

    def __init__(
        self,
        reactor: IReactorTime,
        handlers: Handlers,
        leases: Leases,
        server_instance_id: str,
        workspace_name: str | None,
    ) -> None:
        self._reactor = reactor
        self._handlers = handlers
        self._leases = leases
        self.server_instance_id = server_instance_id
        self._workspace_name = workspace_name
        self.pools = Pools()
        self._handling: set[Deferred[Answer]] = set()
        self._is_open = False

    def reverse_handlers(self) -> dict[str, Handler]:
        """Return what a link serves of this, by method name."""
        return {CLI_DESCRIBE.name: self.describe, CLI_REQUEST.name: self.request}

    def open(self) -> None:
        """The application is there: take requests from now on."""
        self._is_open = True

    def close(self) -> Deferred[None]:
        """Take no more requests; fires when what is being handled has settled, or after 2 s.

        The waits themselves end with their leases (`Executors.quiesce`).
        """
        self._is_open = False
        handling = list(self._handling)
        settled = DeferredList(handling, consumeErrors=True).addTimeout(STOP_TIME, self._reactor)
        for d in handling:
            d.cancel()
        return settled.addErrback(lambda f: f.trap(DeferredTimeout)).addCallback(lambda _: None)

    # -- controllerCli.describe --

    def describe(self, request: object, context: CallContext) -> Deferred[Guarded]:
        """Say which controller this is, now, to a worker that may use it."""
        try:
            lease = self._lease(context)
            slot = self._slot(context.peer.executor_id, "short", Lane.PRIMARY)
        except GarconError as error:
            return _failed(error)
        # Nothing is awaited, so the slot is only ever taken for an instant.
        slot.release()
        described = CliContext(
            server_instance_id=self.server_instance_id,
            default_executor_id=context.peer.executor_id,
            workspace_name=self._workspace_name,
        )

        def guard(size: int) -> CliContext:
            self._require(lease, context)
            return described

        return succeed(Guarded(described, guard))

    # -- controllerCli.request --

    @returns_deferred
    async def request(self, request: BridgedRequest, context: CallContext) -> Guarded:
        """Carry out one forwarded request."""
        exchange = self._admit(request, context)
        operation = BY_KEY.get(exchange.route.key)
        if operation is None or not self._handlers.serves(exchange.route.key):
            answer = _not_available(exchange.route)
        else:
            answer = await self._answered(exchange, operation, request.http)
        reply = _reply(answer)
        if not bridge.is_reply(reply):
            raise bridge.lost_reply(exchange.route)
        return Guarded(reply, lambda size: self._publishable(exchange, reply, size))

    def _admit(self, request: BridgedRequest, context: CallContext) -> _Exchange:
        """Check all that can be before dispatch; nothing has happened if it raises."""
        lease = self._lease(context)
        route = bridge.check_request(request)
        policy = bridge.policy(route, request.http.body)
        if context.lane is not policy.lane:
            raise bridge.access_denied("This operation does not travel on this lane.")
        if request.expected_server_instance_id != self.server_instance_id:
            raise bridge.controller_changed()
        if route.management and not lease.management:
            raise bridge.management_denied()
        bridge.check_request_size(policy.lane, len(msgspec.json.encode(request)))
        expires = None if policy.deadline is None else self._reactor.seconds() + policy.deadline
        return _Exchange(
            route, policy, lease, context, request.expected_server_instance_id, expires
        )

    def _lease(self, context: CallContext) -> Lease:
        if context.integration_id:
            raise validation("The command's service belongs to no integration.")
        if not self._is_open:
            raise bridge.unavailable("The controller is starting or stopping.")
        lease = self._leases.lease(context.peer.executor_id, context.generation)
        lease.require()
        return lease

    def _require(self, lease: Lease, context: CallContext) -> None:
        """Raise unless a lease still holds, and would be given for the same session now: by the
        executor's present record, its readiness, its link and this controller's life.
        """
        lease.require()
        if self._lease(context) is not lease:
            raise Ending.REVOKED.error()

    def _slot(self, executor_id: str, pool: str, lane: Lane) -> Slot:
        slot = self.pools.take(executor_id, "long" if pool == "long" else "short", lane)
        if slot is None:
            raise bridge.busy("The controller is carrying out as many requests as it may.")
        return slot

    async def _answered(
        self, exchange: _Exchange, operation: Operation, http: BridgedHttp
    ) -> Answer:
        """Wait for the handler's answer, as long as there is someone to wait for."""
        executor_id = exchange.context.peer.executor_id
        slot = self._slot(executor_id, exchange.policy.pool, exchange.policy.lane)
        handling = self._handlers.run(
            operation,
            delegated(executor_id),
            query=http.query,
            body=http.body,
            executor_id=None if http.executor_id is UNSET else http.executor_id,
        )
        if handling.called:
            # Most reads: nobody has waited, so nothing can have come between.
            slot.release()
            return await handling
        self._handling.add(handling)
        wait: Deferred[Answer] = Deferred()
        is_waiting = True

        def settled(result: Answer | Failure) -> None:
            self._handling.discard(handling)
            slot.release()
            if not is_waiting or wait.called:
                return
            if isinstance(result, Failure):
                # `Handlers.run` fails by cancellation only: the controller is stopping.
                wait.errback(bridge.lost_reply(exchange.route))
            else:
                wait.callback(result)

        def ended(ending: Ending) -> None:
            if not wait.called:
                wait.errback(_ended(exchange.route, ending.error()))

        exchange.lease.watch(ended)
        if exchange.policy.deadline is not None:
            wait.addTimeout(exchange.policy.deadline, self._reactor)
        handling.addBoth(settled)
        try:
            return await wait
        except DeferredTimeout:
            raise bridge.lost_reply(exchange.route) from None
        finally:
            is_waiting = False
            exchange.lease.unwatch(ended)
            if not exchange.route.mutation and not handling.called:
                handling.cancel()

    # -- publication --

    def _publishable(self, exchange: _Exchange, reply: BridgedReply, size: int) -> BridgedReply:
        """Judge a reply right before it is queued: return what may be sent, or raise."""
        route, lane = exchange.route, exchange.context.lane
        try:
            self._require(exchange.lease, exchange.context)
            if exchange.expected_instance != self.server_instance_id:
                raise bridge.controller_changed()
        except CallError as error:
            raise _ended(route, error) from None
        session = exchange.context.session
        is_late = exchange.expires is not None and self._reactor.seconds() >= exchange.expires
        if is_late or not session.is_open:
            raise bridge.lost_reply(route)
        if size > bridge.reply_limit(lane):
            reply = _shortened(route, reply, bridge.reply_limit(lane))
            size = bridge.reply_limit(lane)
        if bridge.reply_presses(size, session.queued_bytes):
            raise bridge.crowded_reply(route)
        return reply


def _ended(route: Route, error: CallError) -> CallError:
    """What is told of a dispatched request whose authority or generation is gone."""
    return bridge.outcome_unknown() if route.mutation else error


def _shortened(route: Route, reply: BridgedReply, limit: int) -> BridgedReply:
    """Cut a turn receipt to what fits; no other answer is ever cut."""
    body = None
    if route is routes.TURN_RECEIPT and reply.status == 200:
        body = cut_receipt(bytes(reply.body), limit - _REPLY_SHELL)
    if body is None:
        raise bridge.oversize_reply(route)
    return BridgedReply(reply.status, Raw(body), reply.retry_after)


def _reply(answer: Answer) -> BridgedReply:
    retry_after = answer.retry_after
    return BridgedReply(
        status=answer.status,
        body=Raw(answer.body or b"null"),
        retry_after=UNSET if retry_after is None else retry_after,
    )


def _not_available(route: Route) -> Answer:
    """An operation of the registry whose handler does not exist (decisions.md 12)."""
    return error_answer(
        GarconError(
            "OPERATION_NOT_AVAILABLE",
            f"This controller does not offer {route.key}.",
            status=404,
        )
    )


def _failed(error: GarconError) -> Deferred[Guarded]:
    d: Deferred[Guarded] = Deferred()
    d.errback(error)
    return d
