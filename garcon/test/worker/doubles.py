"""What the worker's tests put in place of a link and of a runtime: recorders whose answers the test
gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import define, field
from msgspec import Struct
from twisted.internet.defer import Deferred, succeed
from zope.interface import implementer

from garcon.contract.agents import AgentAuth
from garcon.contract.catalogs import AgentEntry
from garcon.contract.providers import Discovered, DiscoverModels, EndpointModel
from garcon.contract.rpc import Lane, Method
from garcon.contract.runs import (
    Delivery,
    ExecutorDescription,
    Launch,
    Launched,
    PermissionResponse,
    ProjectInspection,
)
from garcon.contract.steering import Steer, SteerCapture, Steered, SteerTarget
from garcon.link.interfaces import ICapturedLink, ILaneSession, Peer
from garcon.runtime.interfaces import IExecutorRuntime, IRunSink

EXECUTOR = "0b9de7d5-8c55-4d1c-9d2f-6b9a8f1f3a01"
OTHER = "7f0c2b8a-31f4-4f5b-8d5e-2f4b3c1d9e02"


@define(eq=False)
class Sent:
    """One call that was made on a captured link."""

    method: Method
    request: Any
    lane: Lane | None
    deadline: float | None
    reply: Deferred[Any]
    was_cancelled: bool = False


@implementer(ICapturedLink)
class HeldLink:
    """A generation of a link whose calls wait until the test answers them."""

    def __init__(self, executor_id: str = EXECUTOR, generation: str = "generation-1") -> None:
        self.generation = generation
        self.peer = Peer(executor_id, "controller-runtime", "controller")
        self.is_current = True
        self.calls: list[Sent] = []

    def call(
        self,
        method: Method,
        request: Struct | None,
        *,
        lane: Lane | None = None,
        deadline: float | None = -1.0,
    ) -> Deferred[Any]:
        """Record the call."""

        def cancelled(_: Deferred[Any]) -> None:
            sent.was_cancelled = True

        sent = Sent(method, request, lane, deadline, Deferred(cancelled))
        self.calls.append(sent)
        return sent.reply


@implementer(ILaneSession)
@define(eq=False)
class IdleLane:
    """A lane that a handler's context can name."""

    peer: Peer = field(default=Peer(EXECUTOR, "controller-runtime", "controller"))
    is_open: bool = True
    lane = Lane.PRIMARY
    session_id = "generation-1"
    queued_bytes = 0

    def call(
        self,
        method: Method,
        request: Struct | None,
        deadline: float | None = None,
        integration_id: str = "",
    ) -> Deferred[Any]:
        """Never answer."""
        return Deferred()


@implementer(IExecutorRuntime)
class HeldRuntime:
    """An executor whose launches wait until the test fires them."""

    def __init__(self) -> None:
        self.launches: list[tuple[Launch, IRunSink, Deferred[Launched]]] = []
        self.aborted: list[str] = []
        self.responses: list[PermissionResponse] = []
        self.delivery: Delivery = "confirmed"
        self.steers: list[Steer] = []
        self.cancelled_launches = 0
        self.discoveries: list[DiscoverModels] = []

    def describe(self) -> Deferred[ExecutorDescription]:
        """Describe nothing in particular."""
        return succeed(ExecutorDescription("instance-1", "/srv", ["scripted"], {"files": False}))

    def catalog(self, agent_id: str | None) -> Deferred[tuple[AgentEntry, ...]]:
        """Offer no agent."""
        return succeed(())

    def auth(self, agent_id: str | None) -> Deferred[Mapping[str, AgentAuth]]:
        """Have no accounts."""
        return succeed({})

    def discover_models(self, wanted: DiscoverModels) -> Deferred[Discovered]:
        """Find one model everywhere."""
        self.discoveries.append(wanted)
        return succeed(Discovered(success=True, models=[EndpointModel("m", "M")]))

    def inspect_project(self, path: str) -> Deferred[ProjectInspection]:
        """Take every path for a project."""
        return succeed(ProjectInspection(path, path))

    def launch(self, launch: Launch, sink: IRunSink) -> Deferred[Launched]:
        """Wait for the test."""

        def cancelled(_: Deferred[Launched]) -> None:
            self.cancelled_launches += 1

        d: Deferred[Launched] = Deferred(cancelled)
        self.launches.append((launch, sink, d))
        return d

    def abort(self, run_id: str) -> Deferred[bool]:
        """Record it."""
        self.aborted.append(run_id)
        return succeed(True)

    def respond(self, response: PermissionResponse) -> Deferred[Delivery]:
        """Record it."""
        self.responses.append(response)
        return succeed(self.delivery)

    def resolve_mentions(self, project_path: str, text: str) -> Deferred[str]:
        """Name the project."""
        return succeed(f"{text} in {project_path}")

    def capture_steering(self, run_id: str) -> Deferred[SteerCapture]:
        """Everything can be steered."""
        return succeed(SteerCapture(outcome="captured", target=SteerTarget(run_id=run_id)))

    def steer(self, steer: Steer) -> Deferred[Steered]:
        """Record it."""
        self.steers.append(steer)
        return succeed(Steered(outcome="delivered"))

    def running(self) -> Deferred[tuple[str, ...]]:
        """Name what was launched."""
        return succeed(tuple(launch.run_id for launch, _, _ in self.launches))


@define(eq=False)
class Wire:
    """The link's producer side: takes frames while it is `open`."""

    is_open: bool = True
    taken: list[tuple[int, Struct]] = field(factory=list)

    def offer(self, seq: int, frame: Struct) -> bool:
        """Take a frame, or not."""
        if self.is_open:
            self.taken.append((seq, frame))
        return self.is_open
