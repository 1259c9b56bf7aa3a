"""This process's own executor: its agents, one session per chat, and the runs that go on in them.

A chat's session is kept between turns and closed when it has been idle for long, when its place is
needed, or when a launch wants another agent, agent session or directory.  Sessions and runs live
here only; nothing is written down.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

from attrs import define
from msgspec import structs
from twisted.internet.defer import (
    CancelledError,
    Deferred,
    DeferredList,
    TimeoutError,
    fail,
    succeed,
)
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from garcon.contract.agents import AgentAuth
from garcon.contract.catalogs import AgentEntry
from garcon.contract.limits import LAUNCH_WAIT, RUN_EVENT, SESSIONS
from garcon.contract.providers import Discovered, DiscoverModels
from garcon.contract.runs import (
    Delivery,
    ExecutorDescription,
    Launch,
    Launched,
    NativeSession,
    PermissionResponse,
    ProjectInspection,
    RunEnded,
    RunEvent,
    SessionPoint,
    SessionStarted,
)
from garcon.contract.steering import Steer, SteerCapture, Steered
from garcon.deferreds import Tasks, Waiters, returns_deferred
from garcon.errors import GarconError
from garcon.runtime import mentions, projects
from garcon.runtime.agents.process import launch_failed
from garcon.runtime.cutting import fitting
from garcon.runtime.environment import child_environment
from garcon.runtime.files.service import LocalFiles
from garcon.runtime.installed import InstalledAgents
from garcon.runtime.interfaces import (
    IAgent,
    IAgentDrift,
    IAgentHistory,
    IAgentSession,
    IExecutorRuntime,
    IFileHost,
    IFiles,
    ILeftoverHost,
    ILeftovers,
    ILimitedSession,
    INativeDrift,
    INativeHistory,
    IRunSink,
    ITerminalHost,
    ITerminals,
    TakeRows,
)
from garcon.runtime.leftovers import Leftovers
from garcon.runtime.marks import Marks
from garcon.runtime.noted import NotedProcesses
from garcon.runtime.runs import Run
from garcon.runtime.session_limits import SessionLimits
from garcon.runtime.sessions import Sessions, Slot
from garcon.runtime.terminals.pty import pty_opener
from garcon.runtime.terminals.service import Terminals

if TYPE_CHECKING:
    from garcon.runtime.discovery import ModelDiscovery

P = ParamSpec("P")
T = TypeVar("T")

IDLE_TIME = 600.0
STEERS_WAITING = 64
"""Inputs that may wait until an agent has taken the one before."""
STOP_WAIT = 3.0
SERVICES = ("files", "git", "gh", "terminals")
OFFERED = frozenset({"files", "terminals"})


@implementer(IRunSink)
@define(eq=False)
class _Watch:
    """Sees a run's events pass on their way out, so that the runtime knows what became of it."""

    _runtime: LocalRuntime
    _launch: Launch
    _sink: IRunSink

    def event(self, event: RunEvent) -> None:
        """Note what the runtime must know, then pass the event on, cut to what may be said at
        once.
        """
        self._runtime.event_passed(self._launch, event)
        self._sink.event(fitting(event, RUN_EVENT))

    def room(self) -> Deferred[None]:
        """Ask the sink."""
        room: Deferred[None] = self._sink.room()
        return room


@implementer(
    IExecutorRuntime, IFileHost, ILeftoverHost, ITerminalHost, INativeDrift, INativeHistory
)
class LocalRuntime:
    """The executor of this machine.  Owned by the service, which begins it with `start` and ends
    it with `stop`.
    """

    _log = Logger()

    def __init__(
        self,
        reactor: Any,
        instance_id: str,
        project_base: str,
        environment: Mapping[str, str],
        role: Literal["controller", "executor"],
        config_dir: str,
        agents: Sequence[IAgent],
        *,
        idle_time: float = IDLE_TIME,
        sessions: int = SESSIONS,
        discovery: ModelDiscovery | None = None,
        limits: SessionLimits | None = None,
    ) -> None:
        self._reactor = reactor
        self._clock: IReactorTime = reactor
        self._instance_id = instance_id
        self._base = project_base
        marks = Marks.of(role, config_dir)
        self._noted = NotedProcesses(reactor, os.path.join(config_dir, f"{role}-processes.json"))
        self.leftovers: ILeftovers = Leftovers(reactor, marks, self._noted)
        self._environment = marks.put_into(child_environment(environment, role, config_dir))
        self._terminals = Terminals(
            reactor, project_base, environment, self._environment, pty_opener(reactor)
        )
        self.terminals: ITerminals = self._terminals
        self._files = LocalFiles(reactor, project_base, os.path.expanduser("~"))
        self.files: IFiles = self._files
        self._agents = InstalledAgents(agents)
        self._sessions = Sessions(self._clock, self._own, sessions, idle_time)
        self._session_limits = limits or SessionLimits()
        self._discovery = discovery
        self._runs: dict[str, Run] = {}
        self._working = 0
        self._at_rest: Waiters[None] = Waiters()
        self._stopping = self._has_looked = False
        self._questions = Tasks()
        """What agents are asked beside their turns: a program may have been started for it."""

    # -- IExecutorRuntime

    def describe(self) -> Deferred[ExecutorDescription]:
        """Say what this executor is, at once: a session waits for it, and what agents offer may be
        long in coming.  They are asked for it meanwhile, because somebody will want to know.
        """
        if not (self._has_looked or self._stopping):
            self._has_looked = True
            looking = self._agents.entries(None, self._environment)
            self._questions.spawn("look at what the agents offer", looking)
        agent_ids = self._agents.ids()
        return succeed(
            ExecutorDescription(
                instance_id=self._instance_id,
                project_base_path=os.path.realpath(self._base),
                agent_ids=agent_ids,
                history_agent_ids=[one for one in agent_ids if self.keeps_history(one)],
                services={name: name in OFFERED for name in SERVICES},
            )
        )

    def catalog(self, agent_id: str | None) -> Deferred[tuple[AgentEntry, ...]]:
        """List the installed agents, or the one named."""
        return self._ask(returns_deferred(self._agents.entries), agent_id, self._environment)

    def auth(self, agent_id: str | None) -> Deferred[Mapping[str, AgentAuth]]:
        """Ask the installed agents for their accounts."""
        return self._ask(returns_deferred(self._agents.auth), agent_id, self._environment)

    def inspect_project(self, path: str) -> Deferred[ProjectInspection]:
        """Resolve a project directory inside the base; the file system is asked in a thread."""
        pool = self._reactor.getThreadPool()
        d: Deferred[ProjectInspection] = deferToThreadPool(
            self._reactor, pool, projects.inspect, path, self._base
        )
        return d

    def discover_models(self, wanted: DiscoverModels) -> Deferred[Discovered]:
        """Ask an endpoint for its models."""
        if self._discovery is None:
            text = "This executor asks no endpoints for their models."
            return fail(GarconError("OPERATION_UNSUPPORTED", text, status=422))
        return self._discovery.discover(wanted)

    def launch(self, launch: Launch, sink: IRunSink) -> Deferred[Launched]:
        """Admit a run and begin its agent's process, waiting at most `LAUNCH_WAIT` for it, and for
        the end of an earlier run of its chat that was given up.
        """
        try:
            self._admit(launch)
        except GarconError as refusal:
            return fail(refusal)
        run = Run(launch, _Watch(self, launch, sink))
        self._runs[launch.run_id] = run
        starting = Deferred.fromCoroutine(self._begin(run))
        outcome: Deferred[Launched] = Deferred(lambda _: run.cancel_start())
        run.starting = starting
        overdue = self._clock.callLater(LAUNCH_WAIT, run.cancel_start)

        def was_in_time() -> bool:
            run.starting = None
            if not overdue.active():
                return False
            overdue.cancel()
            return True

        def began(_: None) -> None:
            was_in_time()
            # The answer first: whoever launched hears it before any event.
            outcome.callback(Launched(run_id=launch.run_id))
            run.release()
            if (seconds := self._session_limits.seconds) is not None:
                run.limit(self._clock, seconds, lambda: self.abort(launch.run_id))

        def failed(f: Failure) -> None:
            is_overdue = not was_in_time()
            self._forget(run)
            if not outcome.called:
                outcome.errback(self._launch_error(run, f, is_overdue))

        starting.addCallbacks(began, failed)
        self._own("launching an agent", starting)
        return outcome

    def abort(self, run_id: str) -> Deferred[bool]:
        """Interrupt a run, or cancel its launch."""
        run = self._runs.get(run_id)
        if run is None:
            return succeed(False)
        run.stopped = True
        if run.starting is not None:
            run.cancel_start()
        elif not run.has_ended and (slot := self._sessions.find(run.launch.chat_id)) is not None:
            self._own("interrupting an agent", slot.session.interrupt())
        return succeed(True)

    def respond(self, response: PermissionResponse) -> Deferred[Delivery]:
        """Hand a decision to the agent that asked, at most once."""
        run = self._runs.get(response.run_id)
        slot = self._sessions.of(run)
        if run is None or slot is None:
            return succeed("not-delivered")
        delivery = slot.session.respond(response)
        if delivery != "not-delivered":
            run.decided(response.permission_occurrence_id)
        return succeed(delivery)

    def resolve_mentions(self, project_path: str, text: str) -> Deferred[str]:
        """Put the files behind a text that it mentions; they are read in a thread."""
        pool = self._reactor.getThreadPool()
        d: Deferred[str] = deferToThreadPool(
            self._reactor, pool, mentions.expanded, text, project_path, self._base
        )
        return d

    def capture_steering(self, run_id: str) -> Deferred[SteerCapture]:
        """Say whether a run can be steered now."""
        run = self._runs.get(run_id)
        slot = self._sessions.of(run)
        if run is None or slot is None or run.starting is not None:
            return succeed(SteerCapture(outcome="turn-unavailable"))
        if run.launch.is_compaction:
            return succeed(SteerCapture(outcome="not-steerable"))
        capture = slot.session.capture_steering()
        if capture.target is not None:
            # The run is our business, what the agent calls its turn the session's.
            target = structs.replace(capture.target, run_id=run_id)
            capture = structs.replace(capture, target=target)
        return succeed(capture)

    def steer(self, steer: Steer) -> Deferred[Steered]:
        """Hand further input to a run, after those before it."""
        run = self._runs.get(steer.target.run_id)
        slot = self._sessions.of(run)
        if run is None or slot is None or run.starting is not None:
            return succeed(Steered(outcome="turn-unavailable"))
        if len(run.steering.waiting) >= STEERS_WAITING:
            return succeed(
                Steered(outcome="rejected", text="Too much input waits for this turn already.")
            )
        steered: Deferred[Steered] = Deferred.fromCoroutine(self._steer(run, slot, steer))
        return steered

    async def _steer(self, run: Run, slot: Slot, steer: Steer) -> Steered:
        await run.steering.acquire()
        try:
            if run.has_ended or slot.run is not run:
                return Steered(outcome="turn-unavailable")
            return await slot.session.steer(steer)
        finally:
            run.steering.release()

    def keeps_history(self, agent_id: str) -> bool:
        """Whether that agent's sessions can be read back."""
        return agent_id in self._agents and IAgentHistory.providedBy(self._agents[agent_id])

    def read_history(self, session: NativeSession, take: TakeRows) -> Deferred[None]:
        """Hand over what an agent remembers of a session."""
        if not self.keeps_history(session.agent_id):
            text = f"The agent {session.agent_id} keeps no history that can be read."
            return fail(GarconError("HISTORY_LOAD_FAILED", text, status=422))
        agent: Any = self._agents[session.agent_id]
        return self._ask(agent.read_history, session, self._environment, take)

    def has_moved_on(self, point: SessionPoint) -> Deferred[bool]:
        """Ask the agent whose session it is; False where it cannot tell."""
        agent_id = point.session.agent_id
        if agent_id not in self._agents or not IAgentDrift.providedBy(self._agents[agent_id]):
            return succeed(False)
        agent: Any = self._agents[agent_id]
        return self._ask(agent.has_moved_on, point, self._environment)

    def running(self) -> Deferred[tuple[str, ...]]:
        """The run ids that have not ended."""
        return succeed(tuple(self._runs))

    # -- the owner's side

    def start(self) -> None:
        """Begin to note what hangs on this process, for the one that comes after it."""
        self._noted.start()

    @returns_deferred
    async def stop(self) -> None:
        """Abort what runs, waiting at most three seconds, and end every agent's process, every
        question and every terminal.
        """
        self._stopping = True
        questions = self._questions.stopService()
        terminals = self._terminals.stop()
        files = self._files.stop()
        runs = list(self._runs.values())
        ends = [run.when_ended() for run in runs if run.starting is None]
        for run in runs:
            self.abort(run.launch.run_id)
        try:
            await DeferredList(ends, consumeErrors=True).addTimeout(STOP_WAIT, self._clock)
        except TimeoutError:
            self._log.warn("runs did not end in time; their agents are ended all the same")
        self._sessions.close_all()
        await files
        await questions
        if self._working:
            await self._at_rest.wait()
        await terminals
        await self._noted.stop()

    # -- runs and sessions

    def event_passed(self, launch: Launch, event: RunEvent) -> None:
        """Keep the books of a run: the agent's name of its session, and the end."""
        run, slot = self._runs.get(launch.run_id), self._sessions.find(launch.chat_id)
        mine = slot if slot is not None and slot.run is run else None
        if isinstance(event, SessionStarted) and mine is not None:
            mine.agent_session_id = event.agent_session_id
        elif isinstance(event, RunEnded) and run is not None:
            if mine is not None:
                self._sessions.rest(mine, launch.chat_id)
            self._forget(run)

    def _admit(self, launch: Launch) -> None:
        if self._stopping:
            raise _is_over()
        here = self._runs_of(launch.chat_id)
        if launch.run_id in self._runs or not all(run.is_given_up for run in here):
            raise _busy()
        if launch.agent_id not in self._agents:
            raise self._agents.unsupported(launch.agent_id)

    async def _begin(self, run: Run) -> None:
        launch = run.launch
        agent = self._agents[launch.agent_id]
        if not agent.is_installed():
            raise self._agents.unsupported(launch.agent_id)

        def open() -> IAgentSession:
            session = agent.open(launch, self._environment)
            if ILimitedSession.providedBy(session):
                ILimitedSession(session).limit(self._session_limits)
            return session

        await self._left_alone(run)
        session = await self._sessions.take(run, open)
        try:
            await session.run(launch, run)
            if run.is_given_up:
                # The agent had already begun: nobody is to hear of this run.
                raise CancelledError()
        except BaseException:
            # Whatever the cause, a session that failed to begin a turn is not one to keep.
            await self._sessions.close(launch.chat_id)
            raise

    async def _left_alone(self, run: Run) -> None:
        """Fire once nothing is left of the earlier runs of a run's chat."""
        while before := self._before(run):
            await before[0].forgotten.wait()
            # Not from inside its end: whoever tells of that is not done with it.
            await deferLater(self._clock, 0, lambda: None)

    def _before(self, run: Run) -> list[Run]:
        return [other for other in self._runs_of(run.launch.chat_id) if other is not run]

    def _runs_of(self, chat_id: str) -> list[Run]:
        """List the runs of a chat, launching included: those given up, and at most one more."""
        return [run for run in self._runs.values() if run.launch.chat_id == chat_id]

    def _ask(
        self, question: Callable[P, Deferred[T]], *args: P.args, **kwargs: P.kwargs
    ) -> Deferred[T]:
        """Keep a question until nothing is left of it, also when whoever asks gives it up."""
        if self._stopping:
            return fail(_is_over())
        return self._questions.keep(question(*args, **kwargs))

    def _forget(self, run: Run) -> None:
        self._runs.pop(run.launch.run_id, None)
        run.forgotten.fire(None)

    def _own(self, what: str, work: Deferred[Any]) -> Deferred[None]:
        """Keep work that nobody else waits for, so that `stop` does; fires when it is over,
        whatever came of it.
        """
        self._working += 1
        waiters: Waiters[None] = Waiters()
        over = waiters.wait()

        def ended(result: object) -> None:
            self._working -= 1
            if isinstance(result, Failure):
                self._log.failure("{what} failed", failure=result, what=what)
            waiters.fire(None)
            if not self._working:
                self._at_rest.fire(None)

        work.addBoth(ended)
        return over

    # -- errors

    def _launch_error(self, run: Run, f: Failure, is_overdue: bool) -> BaseException:
        if run.stopped:
            return GarconError(
                "RUN_INTERRUPTED", "The turn was stopped before it began.", status=409
            )
        if is_overdue and f.check(CancelledError):
            if self._before(run):
                return _busy()
            return launch_failed(f"The agent did not begin within {LAUNCH_WAIT:g} seconds.")
        if f.check(GarconError, CancelledError):
            assert f.value is not None
            return f.value
        self._log.failure("an agent could not be started", failure=f)
        return launch_failed("The agent could not be started.")


def _busy() -> GarconError:
    return GarconError(
        "SESSION_BUSY", "A turn of this chat is running.", status=409, retryable=True
    )


def _is_over() -> GarconError:
    return GarconError(
        "SERVER_SHUTTING_DOWN", "This executor is stopping.", status=503, retryable=True
    )
