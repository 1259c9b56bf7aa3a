"""An executor without processes: tests play the agent's part, event by event."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, fail, succeed
from zope.interface import implementer

from garcon.contract.agents import AgentAuth
from garcon.contract.catalogs import AgentEntry, AgentSettings, Model
from garcon.contract.executors import ExecutorSnapshot
from garcon.contract.messages import AssistantMessage, BashToolUse
from garcon.contract.providers import Discovered, DiscoverModels
from garcon.contract.runs import (
    Delivery,
    ExecutorDescription,
    Launch,
    Launched,
    PermissionRequested,
    PermissionResponse,
    ProjectInspection,
    RowProduced,
    RunEnded,
    RunEvent,
    RunFailure,
    SessionStarted,
)
from garcon.contract.steering import Steer, SteerCapture, Steered, SteerTarget
from garcon.controller.executors.interfaces import Availability, IExecutors
from garcon.errors import GarconError
from garcon.runtime.interfaces import IExecutorRuntime, IRunSink

AT = "2026-01-02T03:04:05.678Z"


def agent_entry(agent_id: str = "scripted", *, supports_images: bool = True) -> AgentEntry:
    """Return the catalog entry of an agent that can do everything but take files."""
    return AgentEntry(
        id=agent_id,
        label=agent_id.title(),
        supports_images=supports_images,
        supports_steering=True,
        supported_permission_modes=["default", "acceptEdits", "bypassPermissions"],
        supported_thinking_modes=["none", "low", "high"],
        default_settings=AgentSettings(agent_id, 1, {}),
        default_model=agent_id,
        models=[Model(agent_id, agent_id.title())],
    )


@define(eq=False)
class FakeRun:
    """One launch as the test sees it: what was asked, and the sink to answer with."""

    launch: Launch
    sink: IRunSink
    launched: Deferred[Launched]
    is_over: bool = False

    def begin(self) -> None:
        """Let the launch succeed."""
        self.launched.callback(Launched(self.launch.run_id))

    def refuse(self, error: Exception) -> None:
        """Let the launch fail."""
        self.is_over = True
        self.launched.errback(error)

    def emit(self, event: RunEvent) -> None:
        """Say the next fact."""
        self.is_over = self.is_over or isinstance(event, RunEnded)
        self.sink.event(event)

    def session(self, name: str, *, is_fork: bool = False) -> None:
        """Name the agent's session."""
        self.emit(SessionStarted(agent_session_id=name, is_fork=is_fork))

    def say(self, text: str, at: str = AT, anchor: str | None = None) -> None:
        """Add an assistant's row."""
        row = AssistantMessage(timestamp=at, content=text)
        self.emit(RowProduced(message=row, anchor=anchor))

    def ask(self, occurrence_id: str, command: str = "make") -> None:
        """Ask whether a command may be run."""
        tool = BashToolUse(timestamp=AT, tool_id=f"tool-{occurrence_id}", command=command)
        self.emit(
            PermissionRequested(
                permission_occurrence_id=occurrence_id, requested_tool=tool, timestamp=AT
            )
        )

    def finish(self, anchor: str | None = None) -> None:
        """End well."""
        self.emit(RunEnded(outcome="finished", anchor=anchor))

    def fail(self, text: str, code: str = "AGENT_FAILED") -> None:
        """End badly."""
        self.emit(RunEnded(outcome="failed", error=RunFailure(code, text)))

    def interrupted(self) -> None:
        """End as asked."""
        self.emit(RunEnded(outcome="interrupted"))


@implementer(IExecutorRuntime)
@define(eq=False)
class FakeRuntime:
    """One executor.  Launches succeed at once unless `holds_launches`, aborts end their run
    unless `holds_aborts`.
    """

    base: str = "/projects"
    agents: list[AgentEntry] = field(factory=lambda: [agent_entry()])
    runs: list[FakeRun] = field(factory=list)
    responses: list[PermissionResponse] = field(factory=list)
    aborted: list[str] = field(factory=list)
    deliveries: list[Deferred[Delivery]] = field(factory=list)
    """What the next decisions meet; confirmed where nothing is prepared."""
    steers: list[Steer] = field(factory=list)
    mentions: list[tuple[str, str]] = field(factory=list)
    """Texts that were to be resolved, with their projects."""
    resolutions: list[Deferred[str]] = field(factory=list)
    """What those become; themselves where nothing is prepared."""
    captures: list[Deferred[SteerCapture]] = field(factory=list)
    """What the next captures meet; a run that goes on can be steered where nothing is prepared."""
    steerings: list[Deferred[Steered]] = field(factory=list)
    """What the next steers meet; delivered where nothing is prepared."""
    reads: list[Deferred[Any]] = field(factory=list)
    """What the next catalog and inspection meet; answered at once where nothing is prepared."""
    accounts: dict[str, AgentAuth] = field(factory=dict)
    """Of agents that have one; the others need none."""
    discoveries: list[DiscoverModels] = field(factory=list)
    discovered: Discovered = field(factory=lambda: Discovered(success=True))
    """What every endpoint answers."""
    launch_error: Exception | None = None
    cancelled_launch: Exception | None = None
    """How a cancelled launch fails, where it is not as cancelled."""
    abort_error: Exception | None = None
    holds_launches: bool = False
    holds_aborts: bool = False
    say_nothing: bool = False
    """Aborts are not even answered, until the test does so."""
    unanswered: list[Deferred[bool]] = field(factory=list)
    catalogs: int = 0

    @property
    def last(self) -> FakeRun:
        return self.runs[-1]

    def describe(self) -> Deferred[ExecutorDescription]:
        ids = [entry.id for entry in self.agents]
        return succeed(ExecutorDescription("fake", self.base, ids))

    def catalog(self, agent_id: str | None) -> Deferred[tuple[AgentEntry, ...]]:
        self.catalogs += 1
        if self.reads:
            return self.reads.pop(0)
        found = tuple(entry for entry in self.agents if agent_id in (None, entry.id))
        if agent_id is not None and not found:
            return fail(GarconError("UNSUPPORTED_AGENT", f"no agent {agent_id}"))
        return succeed(found)

    def auth(self, agent_id: str | None) -> Deferred[Mapping[str, AgentAuth]]:
        plain = AgentAuth(authenticated=True)

        def told(entries: tuple[AgentEntry, ...]) -> Mapping[str, AgentAuth]:
            return {one.id: self.accounts.get(one.id, plain) for one in entries}

        return self.catalog(agent_id).addCallback(told)

    def inspect_project(self, path: str) -> Deferred[ProjectInspection]:
        if self.reads:
            return self.reads.pop(0)
        path = os.path.normpath(path)
        if not (path == self.base or path.startswith(self.base + "/")):
            return fail(GarconError("PROJECT_PATH_OUTSIDE_BASE", "outside the base", status=403))
        if path.endswith("/missing"):
            return fail(GarconError("PROJECT_PATH_NOT_FOUND", "no such directory", status=404))
        return succeed(ProjectInspection(path, path))

    def discover_models(self, wanted: DiscoverModels) -> Deferred[Discovered]:
        self.discoveries.append(wanted)
        return succeed(self.discovered)

    def launch(self, launch: Launch, sink: IRunSink) -> Deferred[Launched]:
        if self.launch_error is not None:
            return fail(self.launch_error)
        run = FakeRun(launch, sink, Deferred(self._cancel_launch))
        self.runs.append(run)
        if not self.holds_launches:
            run.begin()
        return run.launched

    def _cancel_launch(self, d: Deferred[Launched]) -> None:
        if self.cancelled_launch is not None:
            d.errback(self.cancelled_launch)

    def abort(self, run_id: str) -> Deferred[bool]:
        self.aborted.append(run_id)
        if self.abort_error is not None:
            return fail(self.abort_error)
        if self.say_nothing:
            self.unanswered.append(Deferred())
            return self.unanswered[-1]
        alive = [run for run in self.runs if run.launch.run_id == run_id and not run.is_over]
        if not self.holds_aborts:
            for run in alive:
                run.interrupted()
        return succeed(bool(alive))

    def respond(self, response: PermissionResponse) -> Deferred[Delivery]:
        self.responses.append(response)
        if self.deliveries:
            return self.deliveries.pop(0)
        return succeed("confirmed")

    def resolve_mentions(self, project_path: str, text: str) -> Deferred[str]:
        self.mentions.append((project_path, text))
        if self.resolutions:
            return self.resolutions.pop(0)
        return succeed(text)

    def capture_steering(self, run_id: str) -> Deferred[SteerCapture]:
        if self.captures:
            return self.captures.pop(0)
        if all(run.is_over or run.launch.run_id != run_id for run in self.runs):
            return succeed(SteerCapture(outcome="turn-unavailable"))
        return succeed(SteerCapture(outcome="captured", target=SteerTarget(run_id=run_id)))

    def steer(self, steer: Steer) -> Deferred[Steered]:
        self.steers.append(steer)
        if self.steerings:
            return self.steerings.pop(0)
        return succeed(Steered(outcome="delivered"))

    def running(self) -> Deferred[tuple[str, ...]]:
        return succeed(tuple(run.launch.run_id for run in self.runs if not run.is_over))


@implementer(IExecutors)
@define(eq=False)
class FakeExecutors:
    """Executors by id, each in the state the test wants."""

    runtimes: dict[str, FakeRuntime]
    states: dict[str, Availability] = field(factory=dict)

    def runtime(self, executor_id: str) -> IExecutorRuntime:
        runtime = self.existing(executor_id)
        if self.availability(executor_id) != "ready":
            raise GarconError(
                "EXECUTOR_UNAVAILABLE", "the executor is not ready", status=503, retryable=True
            )
        return runtime

    def existing(self, executor_id: str) -> IExecutorRuntime:
        if executor_id not in self.runtimes:
            raise GarconError("EXECUTOR_NOT_FOUND", "no such executor", status=404)
        return self.runtimes[executor_id]

    def availability(self, executor_id: str) -> Availability:
        default: Availability = "ready" if executor_id in self.runtimes else "offline"
        return self.states.get(executor_id, default)

    def snapshots(self) -> list[ExecutorSnapshot]:
        return []
