"""An executor behind its link, as the runtime interface shows it.

Calls go to exactly the link generation that is installed now.  Facts of a run come back as numbered
producer frames and reach the run's sink in order, each once.  When the session is lost, each run
that was under way ends here as failed with an unknown outcome: what its agent still does is the
worker's business and is never shown as this run again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field
from msgspec import Struct
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.defer import TimeoutError as DeferredTimeout
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from zope.interface import implementer

from garcon.contract import rpc
from garcon.contract.catalogs import AgentEntry
from garcon.contract.limits import ACK_BATCH, LAUNCH_WAIT
from garcon.contract.messages import TranscriptNotice
from garcon.contract.runs import (
    Delivery,
    ExecutorDescription,
    Launch,
    Launched,
    PermissionResponse,
    ProjectInspection,
    RowProduced,
    RunEnded,
    RunEvent,
    RunFailure,
)
from garcon.controller.executors.streams import Arrival, Stream
from garcon.deferreds import Tasks, returns_deferred
from garcon.errors import CallError
from garcon.link.interfaces import ICapturedLink
from garcon.runtime.interfaces import IExecutorRuntime, IRunSink

LOST = RunFailure(
    "OUTCOME_UNKNOWN",
    "The connection to the executor was lost while this turn ran. It may have gone on there; "
    "reload the chat from its native history to see what was done.",
)
OUTPUT_LOST = "Some output of this turn was lost on its way from the executor."
Acknowledge = Callable[[dict[str, int]], None]


@define(eq=False)
class _Run:
    """One run under way: its stream, and its facts until the launch has been answered."""

    run_id: str
    binding_id: str
    _sink: IRunSink
    stream: Stream = field(factory=Stream)
    has_ended: bool = False
    _has_gap: bool = False
    _held: list[RunEvent] | None = field(factory=list)

    def fact(self, event: RunEvent) -> None:
        """Hand on the next fact; nothing follows the end."""
        if self.has_ended:
            return
        self.has_ended = isinstance(event, RunEnded)
        if self._held is not None:
            self._held.append(event)
        else:
            self._sink.event(event)

    def output_lost(self, now: str) -> None:
        """Say once per run that rows are missing."""
        if not self._has_gap:
            self._has_gap = True
            notice = TranscriptNotice(timestamp=now, content=OUTPUT_LOST)
            self.fact(RowProduced(message=notice))

    def open(self) -> None:
        """Hand on what was held: the launch has been answered."""
        held, self._held = self._held or [], None
        for event in held:
            self._sink.event(event)


@implementer(IExecutorRuntime)
class RemoteRuntime:
    """One remote executor, over whichever link generation is installed."""

    def __init__(
        self,
        executor_id: str,
        reactor: IReactorTime,
        tasks: Tasks,
        acknowledge: Acknowledge,
        timestamp: Callable[[], str],
    ) -> None:
        self._executor_id = executor_id
        self._reactor = reactor
        self._tasks = tasks
        self._acknowledge = acknowledge
        self._timestamp = timestamp
        self._captured: ICapturedLink | None = None
        self._description: ExecutorDescription | None = None
        self._runs: dict[str, _Run] = {}  # by binding
        self._acknowledgements: dict[str, int] = {}
        self._acknowledging: IDelayedCall | None = None

    # -- the link's side --

    def installed(self, captured: ICapturedLink, description: ExecutorDescription) -> None:
        """A generation is ready for calls."""
        self._captured = captured
        self._description = description

    def session_lost(self) -> None:
        """The generation is gone: end what ran over it, each run exactly once."""
        self._captured = None
        self._acknowledgements.clear()
        if self._acknowledging is not None:
            self._acknowledging.cancel()
            self._acknowledging = None
        runs, self._runs = self._runs, {}
        for run in runs.values():
            run.fact(RunEnded(outcome="failed", error=LOST))

    @property
    def holds_runs(self) -> bool:
        """Whether runs outlive their session here and wait for the next; they end with it."""
        return self._captured is None and bool(self._runs)

    def producer_received(self, binding_id: str, seq: int, frame: rpc.ProducerFrame) -> None:
        """Take one numbered frame."""
        run = self._runs.get(binding_id)
        if run is None:
            # Of a run that ended here already: let the worker forget it.
            self._taken(binding_id, seq)
            return
        arrival = run.stream.take(seq)
        self._taken(binding_id, run.stream.taken)
        if arrival is Arrival.DUPLICATE:
            return
        if arrival is Arrival.AFTER_GAP:
            run.output_lost(self._timestamp())
        if isinstance(frame.event, RunEnded):
            del self._runs[binding_id]
        run.fact(frame.event)

    def _taken(self, binding_id: str, seq: int) -> None:
        known = self._acknowledgements.get(binding_id, 0)
        self._acknowledgements[binding_id] = max(known, seq)
        if self._acknowledging is None:
            self._acknowledging = self._reactor.callLater(ACK_BATCH, self._send_acknowledgements)

    def _send_acknowledgements(self) -> None:
        self._acknowledging = None
        batch, self._acknowledgements = self._acknowledgements, {}
        if self._captured is not None and self._captured.is_current:
            self._acknowledge(batch)

    # -- IExecutorRuntime --

    @returns_deferred
    async def describe(self) -> ExecutorDescription:
        """Return what the executor said of itself when its session was installed."""
        self._require()
        assert self._description is not None
        return self._description

    @returns_deferred
    async def catalog(self, agent_id: str | None) -> tuple[AgentEntry, ...]:
        snapshot: rpc.CatalogSnapshot = await self._call(rpc.CATALOG, rpc.AgentQuery(agent_id))
        return tuple(snapshot.agents)

    @returns_deferred
    async def inspect_project(self, path: str) -> ProjectInspection:
        inspection: ProjectInspection = await self._call(rpc.INSPECT_PROJECT, rpc.PathQuery(path))
        return inspection

    @returns_deferred
    async def abort(self, run_id: str) -> bool:
        aborted: rpc.Aborted = await self._call(rpc.ABORT, rpc.RunQuery(run_id))
        return aborted.running

    @returns_deferred
    async def respond(self, response: PermissionResponse) -> Delivery:
        """A call that never reached the worker, or was refused by it, delivered nothing."""
        try:
            delivered: rpc.Delivered = await self._call(rpc.RESPOND, response)
        except CallError as error:
            return "unknown" if error.outcome == "unknown" else "not-delivered"
        return delivered.delivery

    @returns_deferred
    async def running(self) -> tuple[str, ...]:
        sessions: rpc.RunningSessions = await self._call(rpc.RUNNING, rpc.Nothing())
        return tuple(sessions.run_ids)

    @returns_deferred
    async def launch(self, launch: Launch, sink: IRunSink) -> Launched:
        """Bind the run's stream, then start it; both within 20 s (decisions.md 22).

        Whatever else than success happens after the start was sent, the run is aborted best effort
        and its facts are dropped.
        """
        captured = self._require()
        run = _Run(launch.run_id, launch.binding_id, sink)
        self._runs[launch.binding_id] = run
        progress = _Progress()
        waiting: Deferred[Launched] = Deferred.fromCoroutine(
            _start(captured, launch, progress)
        ).addTimeout(LAUNCH_WAIT, self._reactor)
        try:
            launched = await waiting
        except BaseException as error:
            self._runs.pop(launch.binding_id, None)
            self._tasks.spawn("undo of a launch", _undo(captured, launch, progress, error))
            if isinstance(error, DeferredTimeout):
                raise _too_slow(progress) from None
            if isinstance(error, CancelledError) and progress.is_sent:
                raise _given_up() from None
            raise
        # The caller learns of the launch first, the sink of what came of it afterwards.
        self._reactor.callLater(0, run.open)
        return launched

    def _require(self) -> ICapturedLink:
        captured = self._captured
        if captured is None or not captured.is_current:
            raise CallError(
                "EXECUTOR_UNAVAILABLE",
                "The executor is not connected.",
                outcome="not-dispatched",
                status=503,
                retryable=True,
            )
        return captured

    async def _call(self, method: rpc.Method, request: Struct) -> Any:
        return await self._require().call(method, request)


@define
class _Progress:
    """How far a launch came: what has to be undone."""

    is_bound: bool = False
    is_sent: bool = False


async def _start(captured: ICapturedLink, launch: Launch, progress: _Progress) -> Launched:
    await captured.call(rpc.BIND, rpc.BindingQuery(launch.binding_id))
    progress.is_bound = True
    method = rpc.START if launch.agent_session_id is None else rpc.RESUME
    progress.is_sent = True
    launched: Launched = await captured.call(method, launch)
    return launched


async def _undo(
    captured: ICapturedLink, launch: Launch, progress: _Progress, error: BaseException
) -> None:
    """Abort a run that may have begun, and close the stream nothing will come back on."""
    may_run = progress.is_sent and not (isinstance(error, CallError) and error.outcome != "unknown")
    try:
        if may_run:
            await captured.call(rpc.ABORT, rpc.RunQuery(launch.run_id))
        if progress.is_bound:
            await captured.call(rpc.CLOSE_BINDING, rpc.BindingQuery(launch.binding_id))
    except CancelledError:
        raise
    except CallError:
        # Gone with its session; the worker ends what nobody resumes.
        pass


def _given_up() -> CallError:
    return CallError(
        "EXECUTOR_UNAVAILABLE",
        "The launch was given up when the executor had been asked for it already.",
        outcome="unknown",
        status=503,
    )


def _too_slow(progress: _Progress) -> CallError:
    return CallError(
        "EXECUTOR_UNAVAILABLE",
        f"The executor did not begin the turn within {LAUNCH_WAIT:.0f} seconds.",
        outcome="unknown" if progress.is_sent else "not-dispatched",
        status=503,
        retryable=not progress.is_sent,
    )
