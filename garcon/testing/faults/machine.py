"""The serving side of a schedule: handlers and a runtime that do what each request says they should
and write down in the ledger what really happened.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from attrs import define, field
from msgspec import Struct
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from zope.interface import implementer

from garcon.contract.agents import AgentAuth
from garcon.contract.catalogs import AgentEntry
from garcon.contract.messages import BashToolUse
from garcon.contract.providers import Discovered, DiscoverModels
from garcon.contract.rpc import METHODS, Continuity, Lane, Method
from garcon.contract.runs import (
    Delivery,
    ExecutorDescription,
    Launch,
    Launched,
    PermissionRequested,
    PermissionResponse,
    ProjectInspection,
    RunEnded,
    RunEvent,
    RunFailure,
    SessionStarted,
)
from garcon.contract.steering import Steer, SteerCapture, Steered
from garcon.errors import CallError, GarconError
from garcon.link.interfaces import CallContext, Handler
from garcon.runtime.interfaces import IExecutorRuntime, IRunSink
from garcon.testing.faults.ledger import Ledger, row

AT = "2026-01-02T03:04:05.678Z"


class Work(Struct, frozen=True):
    """What a handler is to do: take so long, then happen or refuse, and answer with so much."""

    token: str
    seconds: float = 0.0
    refuses: bool = False
    answer: int = 0
    padding: str = ""


class Worked(Struct, frozen=True):
    token: str
    padding: str = ""


class Script(Struct, frozen=True):
    """What an agent is to do in a run; it is the run's prompt."""

    setup: float = 0.0
    refuses: bool = False
    rows: int = 0
    size: int = 0
    pace: float = 0.0
    asks: bool = False
    """It asks for a permission after its first row, and waits for the answer."""
    fails: bool = False
    abort: float = 0.0
    """How long it takes to stop."""


def _method(name: str, lane: Lane, continuity: Continuity, served_by: Any = "worker") -> Method:
    return Method(
        name, Work, Worked, lane=lane, continuity=continuity, served_by=served_by, deadline=60.0
    )


SESSION = _method("faults.session", Lane.PRIMARY, Continuity.SESSION)
KEPT = _method("faults.kept", Lane.PRIMARY, Continuity.JOURNALED)
SESSION_BULK = _method("faults.sessionBulk", Lane.BULK, Continuity.SESSION)
KEPT_BULK = _method("faults.keptBulk", Lane.BULK, Continuity.JOURNALED)
BACK = _method("faults.back", Lane.PRIMARY, Continuity.SESSION, "controller")
BACK_BULK = _method("faults.backBulk", Lane.BULK, Continuity.SESSION, "controller")

DOWN = (SESSION, KEPT, SESSION_BULK, KEPT_BULK)
UP = (BACK, BACK_BULK)
ALL = METHODS | {method.name: method for method in DOWN + UP}


@define(eq=False)
class Worker:
    """Handlers of one process, on either side; `kill` ends the process."""

    clock: IReactorTime
    ledger: Ledger
    _under_way: set[IDelayedCall] = field(factory=set)

    def handlers(self, methods: tuple[Method, ...]) -> dict[str, Handler]:
        return {method.name: self.work for method in methods}

    def work(self, request: Work, context: CallContext) -> Deferred[Any]:
        """Do it."""
        self.ledger.begun[request.token] += 1
        if not request.seconds:
            return self._done(request)

        def give_up(_: Deferred[Any]) -> None:
            if timer.active():
                self._under_way.discard(timer)
                timer.cancel()

        d: Deferred[Any] = Deferred(give_up)

        def due() -> None:
            self._under_way.discard(timer)
            self._done(request).chainDeferred(d)

        timer = self.clock.callLater(request.seconds, due)
        self._under_way.add(timer)
        return d

    def _done(self, request: Work) -> Deferred[Any]:
        if request.refuses:
            return fail(GarconError("NOT_NOW", "not now", status=409))
        self.ledger.happens(request.token)
        return succeed(Worked(request.token, "." * request.answer))

    @property
    def is_idle(self) -> bool:
        return not self._under_way

    def kill(self) -> None:
        """Nothing of it happens any more."""
        for timer in self._under_way:
            timer.cancel()
        self._under_way.clear()


@define(eq=False)
class _Run:
    launch: Launch
    sink: IRunSink
    script: Script
    timer: IDelayedCall | None = None
    asked: str | None = None
    is_stopping: bool = False


@implementer(IExecutorRuntime)
@define(eq=False)
class Machine:
    """A worker's runtime: agents that are scripts."""

    clock: IReactorTime
    ledger: Ledger
    _runs: dict[str, _Run] = field(factory=dict)

    def describe(self) -> Deferred[ExecutorDescription]:
        return succeed(ExecutorDescription("machine", "/projects", ["scripted"]))

    def catalog(self, agent_id: str | None) -> Deferred[tuple[AgentEntry, ...]]:
        return succeed(())

    def auth(self, agent_id: str | None) -> Deferred[Mapping[str, AgentAuth]]:
        return succeed({})

    def discover_models(self, wanted: DiscoverModels) -> Deferred[Discovered]:
        return succeed(Discovered(success=True))

    def inspect_project(self, path: str) -> Deferred[ProjectInspection]:
        return succeed(ProjectInspection(path, path))

    def launch(self, launch: Launch, sink: IRunSink) -> Deferred[Launched]:
        """See `IExecutorRuntime`."""
        script = msgspec.json.decode(launch.prompt, type=Script)
        self.ledger.of(launch.run_id).received += 1
        run = _Run(launch, sink, script)

        def give_up(_: Deferred[Launched]) -> None:
            self._forget(run)

        d: Deferred[Launched] = Deferred(give_up)
        self._runs[launch.run_id] = run
        self._later(run, script.setup, self._begin, d)
        return d

    def _later(self, run: _Run, seconds: float, do: Any, *arguments: Any) -> None:
        def due() -> None:
            run.timer = None
            do(run, *arguments)

        run.timer = self.clock.callLater(seconds, due)

    def _begin(self, run: _Run, d: Deferred[Launched]) -> None:
        if run.script.refuses:
            self._forget(run)
            d.errback(CallError("SESSION_BUSY", "no", outcome="rejected", status=409))
            return
        self.ledger.of(run.launch.run_id).started += 1
        d.callback(Launched(run.launch.run_id))
        if run.launch.run_id in self._runs:
            self._later(run, 0, self._named)

    def _named(self, run: _Run) -> None:
        self._tell(run, SessionStarted(agent_session_id=f"agent of {run.launch.run_id}"))
        self._later(run, run.script.pace, self._row)

    def _row(self, run: _Run) -> None:
        script, done = run.script, self.ledger.of(run.launch.run_id)
        if done.rows >= script.rows:
            self._end(run, "failed" if script.fails else "finished")
            return
        done.rows += 1
        self._tell(run, row(run.launch.run_id, done.rows, script.size, AT))
        if script.asks and done.rows == 1:
            self._ask(run)
        else:
            self._later(run, script.pace, self._row)

    def _ask(self, run: _Run) -> None:
        run.asked = f"{run.launch.run_id}?"
        tool = BashToolUse(timestamp=AT, tool_id="tool", command="make")
        self._tell(
            run,
            PermissionRequested(
                permission_occurrence_id=run.asked, requested_tool=tool, timestamp=AT
            ),
        )

    def _end(self, run: _Run, outcome: Any) -> None:
        self.ledger.of(run.launch.run_id).end = outcome
        self._forget(run)
        error = RunFailure("AGENT_FAILED", "as the script says") if outcome == "failed" else None
        run.sink.event(RunEnded(outcome=outcome, error=error))

    def _tell(self, run: _Run, event: RunEvent) -> None:
        run.sink.event(event)

    def _forget(self, run: _Run) -> None:
        self._runs.pop(run.launch.run_id, None)
        if run.timer is not None:
            run.timer.cancel()
            run.timer = None

    def abort(self, run_id: str) -> Deferred[bool]:
        """See `IExecutorRuntime`."""
        run = self._runs.get(run_id)
        if run is None or not self.ledger.of(run_id).started:
            return succeed(False)
        if not run.is_stopping:
            run.is_stopping = True
            if run.timer is not None:
                run.timer.cancel()
            self._later(run, run.script.abort, self._end, "interrupted")
        return succeed(True)

    def resolve_mentions(self, project_path: str, text: str) -> Deferred[str]:
        return succeed(text)

    def capture_steering(self, run_id: str) -> Deferred[SteerCapture]:
        """Scripts go their own way."""
        return succeed(SteerCapture(outcome="unsupported"))

    def steer(self, steer: Steer) -> Deferred[Steered]:
        """See `capture_steering`."""
        return succeed(Steered(outcome="rejected"))

    def respond(self, response: PermissionResponse) -> Deferred[Delivery]:
        """See `IExecutorRuntime`."""
        run = self._runs.get(response.run_id)
        if run is None or run.asked != response.permission_occurrence_id:
            return succeed("not-delivered")
        run.asked = None
        if response.allow:
            # What a worker denies by itself is nobody's decision.
            self.ledger.delivered[response.permission_occurrence_id] += 1
        if not run.is_stopping:
            self._later(run, run.script.pace, self._row)
        return succeed("confirmed")

    def running(self) -> Deferred[tuple[str, ...]]:
        return succeed(tuple(self._runs))

    @property
    def is_idle(self) -> bool:
        return not self._runs

    def kill(self) -> None:
        """The process is gone, and its agents with it."""
        for run in list(self._runs.values()):
            self._forget(run)
