"""The RPC methods a worker serves: each takes the contract's request and asks the runtime.  No
policy lives here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import define
from twisted.internet.defer import CancelledError, Deferred

from garcon.contract import rpc
from garcon.contract.runs import (
    ExecutorDescription,
    Launch,
    Launched,
    PermissionResponse,
    ProjectInspection,
)
from garcon.deferreds import returns_deferred
from garcon.errors import CallError, validation
from garcon.link.interfaces import CallContext, Handler
from garcon.runtime.interfaces import IExecutorRuntime
from garcon.worker.serving.bindings import Bindings
from garcon.worker.serving.continuity import IContinuity


@define(eq=False)
class Methods:
    """One worker's runtime, as the controller may call it."""

    _runtime: IExecutorRuntime
    _bindings: Bindings
    _continuity: IContinuity

    def handlers(self) -> Mapping[str, Handler]:
        """Return every method a worker serves, by name."""
        table: list[tuple[rpc.Method, Callable[[Any, CallContext], Deferred[Any]]]] = [
            (rpc.DESCRIBE, self.describe),
            (rpc.RECONCILE, self.reconcile),
            (rpc.CATALOG, self.catalog),
            (rpc.INSPECT_PROJECT, self.inspect_project),
            (rpc.BIND, self.bind),
            (rpc.CLOSE_BINDING, self.close_binding),
            (rpc.START, self.launch),
            (rpc.RESUME, self.launch),
            (rpc.ABORT, self.abort),
            (rpc.RUNNING, self.running),
            (rpc.RESPOND, self.respond),
        ]
        return {method.name: handler for method, handler in table}

    def describe(self, _: rpc.Nothing, context: CallContext) -> Deferred[ExecutorDescription]:
        """Say what this executor is."""
        return self._runtime.describe()

    @returns_deferred
    async def reconcile(
        self, request: rpc.ReconcileCalls, context: CallContext
    ) -> rpc.ReconciledCalls:
        """Say of each lost call that its fate is not known: replies are not kept beyond their
        session.
        """
        return rpc.ReconciledCalls([rpc.CallState(call.id, "unknown") for call in request.calls])

    @returns_deferred
    async def catalog(self, request: rpc.AgentQuery, context: CallContext) -> rpc.CatalogSnapshot:
        """List the agents of this machine."""
        return rpc.CatalogSnapshot(list(await self._runtime.catalog(request.agent_id)))

    def inspect_project(
        self, request: rpc.PathQuery, context: CallContext
    ) -> Deferred[ProjectInspection]:
        """Resolve a project directory of this machine."""
        return self._runtime.inspect_project(request.path)

    @returns_deferred
    async def bind(self, request: rpc.BindingQuery, context: CallContext) -> rpc.Nothing:
        """Open the stream that a run's facts will come back on."""
        if not request.binding_id:
            raise validation("a binding needs an id")
        self._bindings.bind(request.binding_id, context.generation)
        return rpc.Nothing()

    @returns_deferred
    async def close_binding(self, request: rpc.BindingQuery, context: CallContext) -> rpc.Nothing:
        """Close a stream, and with it a run that still goes on; again changes nothing."""
        binding = self._bindings.find(request.binding_id)
        if binding is not None:
            self._continuity.unwanted(binding)
        return rpc.Nothing()

    @returns_deferred
    async def launch(self, request: Launch, context: CallContext) -> Launched:
        """Run a turn whose facts go to its binding.  If the session is lost meanwhile, the launch
        is abandoned.
        """
        binding = self._bindings.of(request.binding_id, context.generation)
        if binding.run_id is not None:
            raise validation("the binding has its run already")
        binding.run_id = request.run_id
        binding.launching = self._runtime.launch(request, binding)
        try:
            return await binding.launching
        except Exception as error:
            was_open = binding.is_open
            # No event will come of a failed launch, so nobody would close the stream later.
            self._bindings.close(request.binding_id)
            if was_open or not isinstance(error, CancelledError):
                raise
            raise CallError(
                "EXECUTOR_UNAVAILABLE", "the session ended during the launch", outcome="unknown"
            ) from None
        finally:
            binding.launching = None

    @returns_deferred
    async def abort(self, request: rpc.RunQuery, context: CallContext) -> rpc.Aborted:
        """Interrupt a run."""
        return rpc.Aborted(await self._runtime.abort(request.run_id))

    @returns_deferred
    async def running(self, _: rpc.Nothing, context: CallContext) -> rpc.RunningSessions:
        """Name the runs that have not ended."""
        return rpc.RunningSessions(list(await self._runtime.running()))

    @returns_deferred
    async def respond(self, request: PermissionResponse, context: CallContext) -> rpc.Delivered:
        """Hand a decision to the agent that asked."""
        delivery = await self._runtime.respond(request)
        binding = self._bindings.running(request.run_id)
        if binding is not None and delivery != "not-delivered":
            binding.asked.discard(request.permission_occurrence_id)
        return rpc.Delivered(delivery)
