"""The RPC methods a worker serves: each takes the contract's request and asks the runtime.  No
policy lives here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import define
from twisted.internet.defer import CancelledError, Deferred

from garcon.contract import rpc
from garcon.contract.providers import Discovered, DiscoverModels
from garcon.contract.runs import (
    ExecutorDescription,
    Launch,
    Launched,
    LaunchFailure,
    PermissionResponse,
    ProjectInspection,
)
from garcon.contract.steering import (
    MentioningText,
    ResolvedText,
    Steer,
    SteerCapture,
    Steered,
)
from garcon.deferreds import returns_deferred
from garcon.errors import CallError, GarconError, validation
from garcon.link.calls import PROVIDER_FAILURE
from garcon.link.interfaces import CallContext, Handler
from garcon.runtime.interfaces import IExecutorRuntime
from garcon.worker.serving.bindings import Binding, Bindings
from garcon.worker.serving.continuity import Continuity


@define(eq=False)
class Methods:
    """One worker's runtime, as the controller may call it."""

    _runtime: IExecutorRuntime
    _bindings: Bindings
    _continuity: Continuity

    def handlers(self) -> Mapping[str, Handler]:
        """Return every method a worker serves, by name."""
        table: list[tuple[rpc.Method, Callable[[Any, CallContext], Deferred[Any]]]] = [
            (rpc.DESCRIBE, self.describe),
            (rpc.CATALOG, self.catalog),
            (rpc.INSPECT_PROJECT, self.inspect_project),
            (rpc.AUTH_STATUS, self.auth_status),
            (rpc.DISCOVER_MODELS, self.discover_models),
            (rpc.BIND, self.bind),
            (rpc.PRODUCERS_RESUME, self.resume),
            (rpc.CLOSE_BINDING, self.close_binding),
            (rpc.CANCEL_LAUNCH, self.cancel_launch),
            (rpc.START, self.launch),
            (rpc.RESUME, self.launch),
            (rpc.ABORT, self.abort),
            (rpc.RUNNING, self.running),
            (rpc.RESOLVE_MENTIONS, self.resolve_mentions),
            (rpc.CAPTURE_STEERING, self.capture_steering),
            (rpc.STEER, self.steer),
            (rpc.RESPOND, self.respond),
        ]
        return {method.name: handler for method, handler in table}

    def describe(self, _: rpc.Nothing, context: CallContext) -> Deferred[ExecutorDescription]:
        """Say what this executor is."""
        return self._runtime.describe()

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
    async def auth_status(self, request: rpc.AgentQuery, context: CallContext) -> rpc.AuthStatuses:
        """Say which agents of this machine are signed in."""
        return rpc.AuthStatuses(dict(await self._runtime.auth(request.agent_id)))

    def discover_models(
        self, request: DiscoverModels, context: CallContext
    ) -> Deferred[Discovered]:
        """Ask an endpoint for its models, from this machine."""
        return self._runtime.discover_models(request)

    @returns_deferred
    async def bind(self, request: rpc.BindingQuery, context: CallContext) -> rpc.Nothing:
        """Open the stream that a run's facts will come back on."""
        if not request.binding_id:
            raise validation("a binding needs an id")
        self._bindings.bind(
            request.binding_id, context.generation, context.peer.runtime_id, self._continuity
        )
        return rpc.Nothing()

    @returns_deferred
    async def resume(
        self, request: rpc.ResumeProducers, context: CallContext
    ) -> rpc.ResumedProducers:
        """Go on with the streams that the controller still wants, each from where it had it."""
        resumed = []
        for wanted in request.bindings:
            binding = self._bindings.find(wanted.binding)
            if binding is not None:
                last = self._bindings.resume(
                    binding,
                    context.generation,
                    context.peer.runtime_id,
                    wanted.acknowledged_seq,
                )
                resumed.append(_resumed(binding, last))
        return rpc.ResumedProducers(resumed)

    @returns_deferred
    async def close_binding(self, request: rpc.BindingQuery, context: CallContext) -> rpc.Nothing:
        """Close a stream, and with it a run that still goes on; again changes nothing."""
        binding = self._bindings.find(request.binding_id)
        if binding is not None:
            self._continuity.unwanted(binding)
        return rpc.Nothing()

    @returns_deferred
    async def cancel_launch(self, request: rpc.CancelLaunch, context: CallContext) -> rpc.Nothing:
        """End a launch wherever it has come to, its run included; again changes nothing."""
        binding = self._bindings.find(request.binding_id)
        if binding is not None and binding.run_id in (None, request.run_id):
            self._continuity.unwanted(binding)
        return rpc.Nothing()

    @returns_deferred
    async def launch(self, request: Launch, context: CallContext) -> Launched:
        """Run a turn whose facts go to its binding.

        If the session is lost meanwhile, what became of the launch is told on the binding.  One
        that failed keeps its binding until the controller closes it, for the same reason.
        """
        binding = self._bindings.of(request.binding_id, context.generation)
        if binding.run_id is not None:
            raise validation("the binding has its run already")
        binding.run_id, binding.chat_id = request.run_id, request.chat_id
        try:
            self._bindings.must_be_free(request.chat_id)
            binding.launching = self._runtime.launch(request, binding)
            launched = await binding.launching
        except CancelledError:
            binding.launching = None
            if binding.is_open:
                # By the caller; else by us, who have closed the stream, and the caller hears of it.
                self._bindings.close(request.binding_id)
                raise
            raise CallError(
                "EXECUTOR_UNAVAILABLE", "the launch was given up", outcome="unknown"
            ) from None
        except GarconError as error:
            binding.settled(_failure(error), is_heard=_is_heard(binding, context))
            raise
        except Exception:
            text = "The worker failed to launch the run; its log has the cause."
            failure = LaunchFailure(code=PROVIDER_FAILURE, message=text, outcome="unknown")
            binding.settled(failure, is_heard=_is_heard(binding, context))
            raise
        binding.settled(None, is_heard=_is_heard(binding, context))
        return launched

    @returns_deferred
    async def abort(self, request: rpc.RunQuery, context: CallContext) -> rpc.Aborted:
        """Interrupt a run."""
        return rpc.Aborted(await self._runtime.abort(request.run_id))

    @returns_deferred
    async def running(self, _: rpc.Nothing, context: CallContext) -> rpc.RunningSessions:
        """Name the runs that have not ended."""
        return rpc.RunningSessions(list(await self._runtime.running()))

    @returns_deferred
    async def resolve_mentions(self, request: MentioningText, context: CallContext) -> ResolvedText:
        """Put the files behind a text that it mentions."""
        text = await self._runtime.resolve_mentions(request.project_path, request.text)
        return ResolvedText(text)

    def capture_steering(
        self, request: rpc.RunQuery, context: CallContext
    ) -> Deferred[SteerCapture]:
        """Say whether a run can be steered now."""
        return self._runtime.capture_steering(request.run_id)

    def steer(self, request: Steer, context: CallContext) -> Deferred[Steered]:
        """Hand further input to a run."""
        return self._runtime.steer(request)

    @returns_deferred
    async def respond(self, request: PermissionResponse, context: CallContext) -> rpc.Delivered:
        """Hand a decision to the agent that asked."""
        delivery = await self._runtime.respond(request)
        binding = self._bindings.running(request.run_id)
        if binding is not None and delivery != "not-delivered":
            binding.asked.discard(request.permission_occurrence_id)
        return rpc.Delivered(delivery)


def _is_heard(binding: Binding, context: CallContext) -> bool:
    """Whether the session that asked can still be answered, as far as we know."""
    return context.session.is_open and binding.generation == context.generation


def _failure(error: GarconError) -> LaunchFailure:
    outcome = error.outcome if isinstance(error, CallError) else "rejected"
    return LaunchFailure(
        code=error.code,
        message=error.text,
        outcome=outcome,  # type: ignore[arg-type]  # one of the three
        status=error.status,
        retryable=error.retryable,
    )


def _resumed(binding: Binding, last: int) -> rpc.ResumedBinding:
    run_id = binding.run_id
    if run_id is None:
        return rpc.ResumedBinding(binding.binding_id, last)
    handle = Launched(run_id) if binding.is_launched else None
    launch = None if binding.failure is not None else rpc.ResumedLaunch(run_id, handle)
    return rpc.ResumedBinding(binding.binding_id, last, launch, [run_id])
