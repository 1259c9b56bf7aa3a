"""The cast of the dispatcher tests: granted executors, held handlers, and lanes moved by hand."""

from __future__ import annotations

from typing import Any

import msgspec
from attrs import define, field
from msgspec import UNSET, UnsetType
from twisted.internet.defer import Deferred

from garcon.contract import rpc
from garcon.contract.operations import Operation
from garcon.contract.routes import Route
from garcon.contract.rpc import BridgedHttp, BridgedReply, BridgedRequest, Lane
from garcon.controller.bridge.dispatcher import Dispatcher
from garcon.controller.handlers import Call
from garcon.errors import CallError, GarconError
from garcon.link.interfaces import CallContext, Guarded, Peer
from garcon.test.controller.executors.cast import INSTANCE, ExecutorsCase
from garcon.testing.held_link import HeldSession


@define(eq=False)
class Held:
    """A handler whose every call waits until the test settles it."""

    calls: list[Call[Any, Any]] = field(factory=list)
    waiting: list[Deferred[Any]] = field(factory=list)
    cancelled: int = 0

    def handle(self, call: Call[Any, Any]) -> Deferred[Any]:
        def cancel(_: Deferred[Any]) -> None:
            self.cancelled += 1

        d: Deferred[Any] = Deferred(cancel)
        self.calls.append(call)
        self.waiting.append(d)
        return d


class DispatcherCase(ExecutorsCase):
    """An open dispatcher and one executor with command access."""

    def setUp(self) -> None:
        super().setUp()
        self.executor_id = self.create(allowControllerCli=True)
        self.links[self.executor_id].ready("g1")
        self.dispatcher = Dispatcher(
            self.clock, self.handlers, self.executors, INSTANCE, "workspace"
        )
        self.dispatcher.open()
        self.held: dict[str, Held] = {}

    def hold(self, operation: Operation) -> Held:
        """Serve an operation with a held handler."""
        held = self.held[operation.route.key] = Held()
        self.handlers.register(operation, held.handle)
        return held

    def context(
        self, lane: Lane = Lane.BULK, generation: str = "g1", executor_id: str | None = None
    ) -> CallContext:
        peer = Peer(executor_id or self.executor_id, "runtime-1", "worker")
        session = HeldSession(lane, generation, peer)
        return session.context(rpc.CLI_REQUEST, generation)

    def request(
        self,
        route: Route,
        *,
        query: list[tuple[str, str]] | None = None,
        body: dict[str, Any] | None = None,
        executor_id: str | UnsetType = UNSET,
        context: CallContext | None = None,
        instance: str = INSTANCE,
    ) -> Deferred[Guarded]:
        """Send a request as a worker's gateway would, on its own lane unless `context` says."""
        http = BridgedHttp(route.key, query or [], body, executor_id)
        if context is None:
            context = self.context(Lane(route.lane))
        return self.dispatcher.request(BridgedRequest(instance, http), context)

    def published(self, d: Deferred[Guarded]) -> BridgedReply:
        """Publish a settled reply as the link does, and return what is sent."""
        guarded = self.successResultOf(d)
        sent: BridgedReply = guarded.guard(len(msgspec.json.encode(guarded.value)))
        return sent

    def body(self, d: Deferred[Guarded]) -> Any:
        return msgspec.json.decode(self.published(d).body)

    def unpublished(self, d: Deferred[Guarded], code: str) -> CallError:
        """Check that a settled reply is refused at publication."""
        guarded = self.successResultOf(d)
        size = len(msgspec.json.encode(guarded.value))
        error = self.assertRaises(CallError, guarded.guard, size)
        self.assertEqual(error.code, code)
        assert isinstance(error, CallError)
        return error

    def denied(self, d: Deferred[Any], code: str) -> GarconError:
        """Check that the wait failed with a code."""
        error = self.failureResultOf(d, GarconError).value
        assert isinstance(error, GarconError)
        self.assertEqual(error.code, code)
        return error
