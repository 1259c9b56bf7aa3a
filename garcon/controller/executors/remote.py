"""An executor behind its link, as the runtime interface shows it.

Calls go over the link by their class and outlive its sessions as that has it.  Facts of a run come
back as numbered producer frames and reach the run's sink in order, each once.  When a session is
lost its runs are kept; the next one with the same worker process resumes their streams from where
they were (control.md J.10).  Where that cannot be, because the grace is over, the worker was
restarted or it does not have the stream any more, a run ends here as failed with an unknown
outcome, and what its agent still does is never shown as this run again.

A launch is waited for 20 seconds.  One whose session was lost after it was sent may have begun: it
then counts as launched, and what became of it is told by the worker when it is back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.python.failure import Failure
from zope.interface import implementer

from garcon.contract import rpc
from garcon.contract.agents import AgentAuth
from garcon.contract.catalogs import AgentEntry
from garcon.contract.limits import PRODUCER_WINDOW_BYTES, PRODUCER_WINDOW_FRAMES
from garcon.contract.providers import Discovered, DiscoverModels
from garcon.contract.runs import (
    Delivery,
    ExecutorDescription,
    Launch,
    Launched,
    LaunchSettled,
    MovedOn,
    NativeSession,
    PermissionResponse,
    ProjectInspection,
    RunEnded,
    RunFailure,
    SessionPoint,
)
from garcon.contract.steering import (
    MentioningText,
    ResolvedText,
    Steer,
    SteerCapture,
    Steered,
    SteerOutcome,
)
from garcon.controller.executors.remote_files import RemoteFiles
from garcon.controller.executors.remote_history import RemoteHistory
from garcon.controller.executors.remote_leftovers import RemoteLeftovers
from garcon.controller.executors.remote_run import (
    LOST,
    UNREADABLE,
    RemoteRun,
    Stage,
    Verdict,
)
from garcon.controller.executors.remote_terminals import RemoteTerminals
from garcon.deferreds import Tasks, Waiters, returns_deferred
from garcon.errors import CallError, GarconError, LaneLost
from garcon.link.interfaces import ICapturedLink, ILink
from garcon.link.settings import LinkSettings
from garcon.runtime.interfaces import (
    IExecutorRuntime,
    IFileHost,
    IFiles,
    ILeftoverHost,
    ILeftovers,
    INativeDrift,
    INativeHistory,
    IRunSink,
    ITerminalHost,
    ITerminals,
    TakeRows,
)

ACK_FRAMES, ACK_BYTES = PRODUCER_WINDOW_FRAMES // 4, PRODUCER_WINDOW_BYTES // 4
"""So much is acknowledged without waiting for more: the worker sends only its window."""


@implementer(
    IExecutorRuntime, IFileHost, ILeftoverHost, ITerminalHost, INativeDrift, INativeHistory
)
class RemoteRuntime:
    """One remote executor, over whichever link and session there is.  `link` returns the link."""

    def __init__(
        self,
        reactor: IReactorTime,
        tasks: Tasks,
        link: Callable[[], ILink | None],
        timestamp: Callable[[], str],
        settings: LinkSettings,
    ) -> None:
        self._reactor = reactor
        self._tasks = tasks
        self._link = link
        self._timestamp = timestamp
        self._settings = settings
        self.files: IFiles = RemoteFiles(reactor, self._ask_for_files)
        self.remote_terminals = RemoteTerminals(reactor, link, settings.ack_batch)
        self.terminals: ITerminals = self.remote_terminals
        self.leftovers: ILeftovers = RemoteLeftovers(self._ask)
        self._history = RemoteHistory(tasks, self._ask)
        self._captured: ICapturedLink | None = None
        self._description: ExecutorDescription | None = None
        self._runs: dict[str, RemoteRun] = {}  # by binding
        self._unreceived: list[RemoteRun] = []
        self._installed: Waiters[None] = Waiters()
        self._acknowledgements: dict[str, int] = {}
        self._acknowledging: IDelayedCall | None = None
        self._due_frames = self._due_bytes = 0

    # -- the link's side --

    def to_resume(self) -> list[rpc.ResumeBinding]:
        """Name the streams that the next session has to go on with."""
        return [
            rpc.ResumeBinding(run.binding_id, run.stream.taken)
            for run in self._runs.values()
            if run.is_bound
        ]

    def resumed(
        self, asked: Iterable[rpc.ResumeBinding], answer: Iterable[rpc.ResumedBinding]
    ) -> None:
        """The worker has said which of those streams it still has."""
        found = {one.binding_id: one for one in answer}
        self._unreceived.clear()
        for wanted in asked:
            run = self._runs.get(wanted.binding)
            if run is None:
                continue
            there = found.get(wanted.binding)
            if there is None:
                self._lost(run)
                continue
            run.resumed()
            if run.stage is not Stage.LOST:
                continue
            if run.run_id not in there.received_run_ids:
                self._unreceived.append(run)
            elif there.launch is not None and there.launch.handle is not None:
                run.verdict.fire(Launched(run.run_id))

    def installed(self, captured: ICapturedLink, description: ExecutorDescription) -> None:
        """A generation is ready for calls."""
        self._captured = captured
        self._description = description
        again, self._unreceived = self._unreceived, []
        for run in again:
            run.verdict.fire(Verdict.AGAIN)
        self._installed.fire(None)

    def session_lost(self) -> None:
        """The generation is gone; its runs wait for the next, its attachments end."""
        self._captured = None
        self.remote_terminals.session_lost()
        self._acknowledgements.clear()
        if self._acknowledging is not None:
            self._acknowledging.cancel()
            self._acknowledging = None

    def give_up(self) -> None:
        """No session will ever resume what runs: each run ends, exactly once."""
        for run in list(self._runs.values()):
            self._lost(run)

    def producer_received(self, binding_id: str, seq: int, frame: rpc.ProducerFrame) -> None:
        """Take one numbered frame."""
        run = self._runs.get(binding_id)
        if run is None:
            # Of a run that ended here already: let the worker forget it.
            self._taken(binding_id, seq)
            return
        event = run.take(seq, frame.event)
        self._due_frames += 1
        self._due_bytes += len(memoryview(frame.event))
        if isinstance(event, LaunchSettled):
            run.settled(event)
        elif isinstance(event, RunEnded):
            self._ended(run, event)
            self._taken(binding_id, run.stream.taken)
            if event.error is UNREADABLE:
                self._tasks.spawn("closing of a run's stream", self._close(run))
            return
        if not run.is_paced:
            run.is_paced = True
            run.room().addCallback(lambda _: self._put_away(run))

    def _put_away(self, run: RemoteRun) -> None:
        """What has come of a run so far is where it belongs: the worker may go on."""
        run.is_paced = False
        self._taken(run.binding_id, run.stream.taken)

    def _taken(self, binding_id: str, seq: int) -> None:
        known = self._acknowledgements.get(binding_id, 0)
        self._acknowledgements[binding_id] = max(known, seq)
        if self._due_frames >= ACK_FRAMES or self._due_bytes >= ACK_BYTES:
            if self._acknowledging is not None:
                self._acknowledging.cancel()
            self._send_acknowledgements()
        elif self._acknowledging is None:
            self._acknowledging = self._reactor.callLater(
                self._settings.ack_batch, self._send_acknowledgements
            )

    def _send_acknowledgements(self) -> None:
        self._acknowledging = None
        self._due_frames = self._due_bytes = 0
        batch, self._acknowledgements = self._acknowledgements, {}
        link = self._link()
        if link is not None and self._captured is not None and self._captured.is_current:
            link.acknowledge(batch)

    def _ended(self, run: RemoteRun, event: RunEnded) -> None:
        self._runs.pop(run.binding_id, None)
        run.stage = Stage.OVER
        run.fact(event)

    def _lost(self, run: RemoteRun) -> None:
        """Nothing more will be heard of a run."""
        if run.stage is Stage.RUNNING:
            self._ended(run, RunEnded(outcome="failed", error=LOST))
        elif run.stage is Stage.SETUP:
            run.give_up(_never_started())
        else:
            run.give_up(LaneLost("its worker cannot tell what became of the launch"))

    # -- IExecutorRuntime --

    @returns_deferred
    async def describe(self) -> ExecutorDescription:
        """Return what the executor said of itself when its session was installed."""
        self._require()
        assert self._description is not None
        return self._description

    @returns_deferred
    async def catalog(self, agent_id: str | None) -> tuple[AgentEntry, ...]:
        snapshot: rpc.CatalogSnapshot = await self._read(rpc.CATALOG, rpc.AgentQuery(agent_id))
        return tuple(snapshot.agents)

    @returns_deferred
    async def auth(self, agent_id: str | None) -> Mapping[str, AgentAuth]:
        statuses: rpc.AuthStatuses = await self._read(rpc.AUTH_STATUS, rpc.AgentQuery(agent_id))
        return statuses.agents

    @returns_deferred
    async def inspect_project(self, path: str) -> ProjectInspection:
        inspection: ProjectInspection = await self._read(rpc.INSPECT_PROJECT, rpc.PathQuery(path))
        return inspection

    @returns_deferred
    async def discover_models(self, wanted: DiscoverModels) -> Discovered:
        discovered: Discovered = await self._read(rpc.DISCOVER_MODELS, wanted)
        return discovered

    @returns_deferred
    async def abort(self, run_id: str) -> bool:
        """Interrupt a run.  Without a session this waits for the next, as long as there may be
        one; a launch whose fate is not known yet is given up at once.
        """
        run = next((run for run in self._runs.values() if run.run_id == run_id), None)
        if run is not None and run.stage in (Stage.SETUP, Stage.LOST):
            if run.is_answered:
                run.fact(RunEnded(outcome="interrupted"))
            run.give_up(_interrupted())
            return True
        deadline = rpc.ABORT.deadline if run is None else None
        aborted: rpc.Aborted = await self._call(rpc.ABORT, rpc.RunQuery(run_id), deadline=deadline)
        return aborted.running

    @returns_deferred
    async def respond(self, response: PermissionResponse) -> Delivery:
        """Deliver a decision within 20 seconds.  A call that never reached the worker, or was
        refused by it, delivered nothing.
        """
        try:
            delivered: rpc.Delivered = await self._call(rpc.RESPOND, response, interactive=True)
        except CallError as error:
            return "unknown" if error.outcome == "unknown" else "not-delivered"
        return delivered.delivery

    @returns_deferred
    async def resolve_mentions(self, project_path: str, text: str) -> str:
        resolved: ResolvedText = await self._read(
            rpc.RESOLVE_MENTIONS, MentioningText(project_path, text)
        )
        return resolved.text

    @returns_deferred
    async def capture_steering(self, run_id: str) -> SteerCapture:
        capture: SteerCapture = await self._read(rpc.CAPTURE_STEERING, rpc.RunQuery(run_id))
        return capture

    @returns_deferred
    async def steer(self, steer: Steer) -> Steered:
        """Deliver an input within 20 seconds.  A call that never reached the worker, or was
        refused by it, delivered nothing.
        """
        try:
            steered: Steered = await self._call(rpc.STEER, steer, interactive=True)
        except CallError as error:
            outcome: SteerOutcome = "unknown" if error.outcome == "unknown" else "not-delivered"
            return Steered(outcome=outcome, text=error.text)
        return steered

    def keeps_history(self, agent_id: str) -> bool:
        """As the worker said when its session was installed."""
        found = self._description
        return found is not None and agent_id in found.history_agent_ids

    def read_history(self, session: NativeSession, take: TakeRows) -> Deferred[None]:
        return self._history.read(session, take)

    @returns_deferred
    async def has_moved_on(self, point: SessionPoint) -> bool:
        found: MovedOn = await self._read(rpc.MOVED_ON, point)
        return found.moved_on

    @returns_deferred
    async def running(self) -> tuple[str, ...]:
        sessions: rpc.RunningSessions = await self._read(rpc.RUNNING, rpc.Nothing())
        return tuple(sessions.run_ids)

    def launch(self, launch: Launch, sink: IRunSink) -> Deferred[Launched]:
        """Bind the run's stream, then start it.

        Whatever else than success happens after the start was sent, the run is ended best effort
        and its facts are dropped.
        """
        try:
            self._require()
        except CallError:
            failed: Deferred[Launched] = Deferred()
            failed.errback(Failure())
            return failed
        run = RemoteRun(launch, sink, self._timestamp)
        run.answer = Deferred(lambda answer: self._abandoned(run, answer))
        self._runs[launch.binding_id] = run
        run.overdue = self._reactor.callLater(self._settings.launch_wait, self._overdue, run)
        run.launching = Deferred.fromCoroutine(self._launch(run))
        run.launching.addCallbacks(
            lambda launched: self._launched(run, launched), lambda f: self._not_launched(run, f)
        )
        return run.answer

    async def _launch(self, run: RemoteRun) -> Launched:
        """Bring a run up, over as many sessions as that takes."""
        await self._bind(run)
        method = rpc.START if run.launch.agent_session_id is None else rpc.RESUME
        for _ in range(2):
            run.stage = Stage.SENT
            try:
                launched: Launched = await self._call(method, run.launch)
                return launched
            except LaneLost:
                run.stage, run.was_lost = Stage.LOST, True
            verdict = await run.verdict.wait()
            if isinstance(verdict, Launched):
                return verdict
        raise _never_started()

    async def _bind(self, run: RemoteRun) -> None:
        while True:
            if not self._is_connected:
                await self._installed.wait()
            run.may_be_bound = True
            try:
                await self._call(rpc.BIND, rpc.BindingQuery(run.binding_id))
            except LaneLost:
                if self._is_connected:
                    raise
                # Its session is lost; asking again in the next one does no harm.
            else:
                run.is_bound = True
                return

    def _launched(self, run: RemoteRun, launched: Launched) -> None:
        run.stage = Stage.RUNNING
        run.launch_settled()
        if not run.is_answered:
            self._answer(run, launched)

    def _not_launched(self, run: RemoteRun, failure: Failure) -> None:
        """Nothing will come of this run: undo what there is of it."""
        error = run.reason or failure.value
        run.launch_settled()
        self._runs.pop(run.binding_id, None)
        self._tasks.spawn("undo of a launch", self._undo(run, run.stage, error))
        run.stage = Stage.OVER
        if not run.is_answered:
            run.is_answered = True
            run.answer.errback(Failure(error))
        else:
            run.fact(RunEnded(outcome="failed", error=_run_failure(error)))

    def _answer(self, run: RemoteRun, launched: Launched) -> None:
        """The caller learns of the launch first, the sink of what came of it afterwards."""
        run.is_answered = True
        run.answer.callback(launched)
        self._reactor.callLater(0, run.open)

    def _abandoned(self, run: RemoteRun, answer: Deferred[Launched]) -> None:
        """Its caller gave up; that the launch may have begun is not hidden from them."""
        was_sent = run.stage is not Stage.SETUP
        run.give_up(CancelledError(), is_heard=True)
        if was_sent:
            answer.errback(Failure(_given_up()))

    def _overdue(self, run: RemoteRun) -> None:
        if run.was_lost:
            self._answer(run, Launched(run.run_id))
        else:
            run.give_up(_too_slow(run.stage, self._settings.launch_wait))

    async def _undo(self, run: RemoteRun, stage: Stage, error: BaseException | None) -> None:
        """End a run that may have begun, or close the stream that nothing will come back on."""
        is_known = isinstance(error, CallError) and error.outcome != "unknown"
        try:
            if stage is not Stage.SETUP and not is_known:
                cancel = rpc.CancelLaunch(run.binding_id, run.run_id)
                await self._call(rpc.CANCEL_LAUNCH, cancel, deadline=None)
            elif run.may_be_bound:
                await self._close(run)
        except CancelledError:
            raise
        except CallError:
            # Gone with its worker, or with the link; a worker ends what nobody resumes.
            pass

    async def _close(self, run: RemoteRun) -> None:
        try:
            query = rpc.BindingQuery(run.binding_id)
            await self._call(rpc.CLOSE_BINDING, query, deadline=None)
        except CallError:
            pass  # likewise

    @property
    def _is_connected(self) -> bool:
        return self._captured is not None and self._captured.is_current

    def _require(self) -> None:
        if not self._is_connected:
            raise _not_connected()

    async def _read(self, method: rpc.Method, request: Struct) -> Any:
        """Ask what changes nothing: it waits for a session as long as whoever looks on would, and
        once it is sent it has all of its method's time, or what its caller gives it.
        """
        return await self._call(method, request, interactive=True, deadline=method.deadline)

    @returns_deferred
    async def _ask(self, method: rpc.Method, request: Struct) -> Any:
        return await self._call(method, request, interactive=True, deadline=method.deadline)

    @returns_deferred
    async def _ask_for_files(self, method: rpc.Method, request: Struct, seconds: float) -> Any:
        return await self._call(method, request, interactive=True, deadline=seconds)

    async def _call(self, method: rpc.Method, request: Struct, **more: Any) -> Any:
        link = self._link()
        if link is None:
            raise _not_connected()
        return await link.call(method, request, **more)


def _not_connected() -> CallError:
    return CallError(
        "EXECUTOR_UNAVAILABLE",
        "The executor is not connected.",
        outcome="not-dispatched",
        status=503,
        retryable=True,
    )


def _never_started() -> CallError:
    return CallError(
        "EXECUTOR_UNAVAILABLE",
        "The connection to the executor was lost before the turn was started; it never began.",
        outcome="not-dispatched",
        status=503,
        retryable=True,
    )


def _interrupted() -> CallError:
    # A launch that is given up may have begun: the worker is told to end it.
    return CallError("RUN_INTERRUPTED", "The turn was stopped.", outcome="unknown", status=409)


def _given_up() -> CallError:
    return CallError(
        "EXECUTOR_UNAVAILABLE",
        "The launch was given up when the executor had been asked for it already.",
        outcome="unknown",
        status=503,
    )


def _too_slow(stage: Stage, seconds: float) -> CallError:
    is_sent = stage is not Stage.SETUP
    return CallError(
        "EXECUTOR_UNAVAILABLE",
        f"The executor did not begin the turn within {seconds:.0f} seconds.",
        outcome="unknown" if is_sent else "not-dispatched",
        status=503,
        retryable=not is_sent,
    )


def _run_failure(error: BaseException | None) -> RunFailure:
    """Say of a turn that was accepted why it never began, or that this is not known."""
    if isinstance(error, CallError) and error.outcome == "unknown":
        return LOST
    if isinstance(error, GarconError):
        return RunFailure(error.code, error.text)
    return LOST
