"""The shell of an agent's session: one process at a time, one turn at a time, and an end for
everything.

The process is started by the first turn, kept between turns, and replaced when a launch needs
another one.  What the agent says is the conversation's affair (`conversation.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from msgspec.structs import replace
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from zope.interface import implementer

from garcon.contract.runs import (
    Delivery,
    Launch,
    PermissionResponse,
    RunEnded,
    RunEvent,
    RunFailure,
    SessionStarted,
)
from garcon.contract.steering import Steer, SteerCapture, Steered
from garcon.deferreds import Ending, Waiters, returns_deferred
from garcon.errors import GarconError
from garcon.runtime.agents.conversation import (
    Conversation,
    Emit,
    Invocation,
    Output,
    Ready,
    Refused,
    Send,
    SteerSettled,
    Unknown,
    Version,
)
from garcon.runtime.agents.patience import Patience
from garcon.runtime.agents.process import AgentProcess, Exit, launch_failed
from garcon.runtime.agents.stamps import stamp
from garcon.runtime.agents.unknown import UnknownKinds
from garcon.runtime.interfaces import IAgentSession, ILimitedSession, IRunSink
from garcon.runtime.session_limits import SessionLimits

INTERRUPT_WAIT = 2.0
NO_MESSAGE = "line"
"""The kind of a line of an agent's output that is no JSON object."""
VERSION = 100
"""Characters of what an agent calls its own release."""


class Member:
    """One process with its conversation; replaced as a whole."""

    def __init__(self, conversation: Conversation, invocation: Invocation) -> None:
        self.conversation = conversation
        self.key = invocation.key
        self.settings = invocation.settings
        self.adapts = False
        self.secrets = invocation.secrets
        self.version: str | None = None
        self.unknown = UnknownKinds()
        self.ready = False
        self.refusal: str | None = None
        self.failure: RunFailure | None = None
        """The limit that it passed."""
        self.waiting: Waiters[None] = Waiters()
        self.process: AgentProcess
        self.ending: Ending[None] | None = None

    def suits(self, invocation: Invocation) -> bool:
        """Whether it can go on with another turn, which it is told of."""
        suits = self.adapts or self.settings == invocation.settings
        if not (self.process.is_running and self.key == invocation.key and suits):
            return False
        self.settings = invocation.settings
        return True


@implementer(IAgentSession, ILimitedSession)
class AgentSession:
    """One chat's agent: `invoke` says how to start a process, at once or when it has found out, and
    `converse` makes its conversation.

    A process counts as ready that has read what it was told for `patience` seconds and not said so
    (`patience.py`); None waits for ever.  After `most` seconds it counts as ready in any case.
    """

    _log = Logger()

    def __init__(
        self,
        reactor: Any,
        environment: Mapping[str, str],
        polite: Literal["INT", "TERM"],
        invoke: Callable[[Launch, str | None], Invocation | Deferred[Invocation]],
        converse: Callable[[Launch, str | None], Conversation],
        patience: float | None = None,
        most: float | None = None,
    ) -> None:
        self._reactor = reactor
        self._clock: IReactorTime = reactor
        self._environment = environment
        self._polite = polite
        self._invoke = invoke
        self._converse = converse
        self._patience, self._most = patience, most
        self._member: Member | None = None
        self._endings: set[Ending[None]] = set()
        self._sink: IRunSink | None = None
        self._speaker: Member | None = None
        self._agent_id = ""
        self._agent_session_id: str | None = None
        self._turn_over: Waiters[None] = Waiters()
        self._steers: dict[str, Deferred[Steered]] = {}
        self._limits = SessionLimits()
        self._is_starting = self._is_closed = self._is_stopping = False

    def limit(self, limits: SessionLimits) -> None:
        """Hold what is started from now on to these."""
        self._limits = limits

    @property
    def process_id(self) -> int | None:
        """The id of the process that is kept, for diagnosis."""
        return self._member.process.pid if self._member is not None else None

    @returns_deferred
    async def run(self, launch: Launch, sink: IRunSink) -> None:
        """Begin a turn.  A failure or a cancellation leaves no process behind, and a second call
        while one goes on is refused.
        """
        if self._is_starting:
            raise GarconError(
                "SESSION_BUSY", "The agent is being started already.", status=409, retryable=True
            )
        self._is_starting = True
        try:
            await self._begin(launch, sink)
        finally:
            self._is_starting = False

    async def _begin(self, launch: Launch, sink: IRunSink) -> None:
        resume = launch.agent_session_id or self._agent_session_id
        self._agent_session_id = resume
        self._agent_id = launch.agent_id
        invoked = self._invoke(launch, resume)
        invocation = await invoked if isinstance(invoked, Deferred) else invoked
        member = self._member
        if member is not None and not member.suits(invocation):
            await self._end(member, at_once=False).wait()
            member = None
        if self._is_closed:
            raise launch_failed("the session was closed before its turn began")
        if member is None:
            member = await self._start(launch, resume, invocation)
        member.process.turn_begins()
        self._sink, self._speaker = sink, member
        self._tell_unknown(member)
        self._take(member, member.conversation.prompt(launch, stamp()))

    @returns_deferred
    async def interrupt(self) -> None:
        """Stop the turn: ask first, and end the process if that does not help in time."""
        member = self._member
        if self._sink is None or member is None:
            return
        over = self._turn_over.wait()
        self._is_stopping = True
        member.process.let_go()
        member.process.note_descendants()
        self._take(member, member.conversation.interrupt(stamp()))
        if over.called:
            return
        late = self._clock.callLater(INTERRUPT_WAIT, self._end, member, at_once=True)
        try:
            await over
        finally:
            if late.active():
                late.cancel()

    def respond(self, response: PermissionResponse) -> Delivery:
        """Answer a live request; one that is not live, or whose agent is gone, is not delivered."""
        member = self._member
        if member is None or not member.process.is_running:
            return "not-delivered"
        outputs = member.conversation.decide(response, stamp())
        if outputs is None:
            return "not-delivered"
        self._take(member, outputs)
        return "confirmed"

    def capture_steering(self) -> SteerCapture:
        """Ask the conversation whose turn it is."""
        speaker = self._speaker
        if self._sink is None or speaker is None:
            return SteerCapture(outcome="turn-unavailable")
        return speaker.conversation.capture_steering()

    def steer(self, steer: Steer) -> Deferred[Steered]:
        """Fires when the agent has answered, at the latest with the end of the turn; cancelling
        forgets the waiter and nothing else.
        """
        speaker, message_id = self._speaker, steer.client_message_id
        if self._sink is None or speaker is None:
            return succeed(Steered(outcome="turn-unavailable"))

        def forget(_: Deferred[Steered]) -> None:
            self._steers.pop(message_id, None)

        d: Deferred[Steered] = Deferred(forget)
        self._steers[message_id] = d
        speaker.process.let_go()
        self._take(speaker, speaker.conversation.steer(steer))
        return d

    @returns_deferred
    async def close(self) -> None:
        """Interrupt what runs, end the process and its descendants, and fire when they are gone.
        What has not begun will not begin.
        """
        self._is_closed = True
        if self._sink is not None:
            await self.interrupt()
        if self._member is not None:
            self._end(self._member, at_once=False)
        for ending in list(self._endings):
            await ending.wait()

    # -- the process

    async def _start(self, launch: Launch, resume: str | None, invocation: Invocation) -> Member:
        member = Member(self._converse(launch, resume), invocation)

        def received(message: dict[str, Any]) -> None:
            try:
                outputs = member.conversation.received(message, stamp())
            except Exception:
                self._log.failure("an agent's message could not be taken")
                self._finish(member, "sent a message that could not be understood")
                self._end(member, at_once=True)
            else:
                self._take(member, outputs)
                self._pace(member)

        def ended(exit: Exit) -> None:
            self._process_ended(member, exit)

        def exceeded(failure: RunFailure) -> None:
            self._fail(member, failure)

        def puzzled(line: str) -> None:
            self._take(member, [Unknown(NO_MESSAGE, line)])

        limits = self._limits
        member.process = AgentProcess(self._reactor, received, ended, exceeded, limits, puzzled)
        member.process.start(
            invocation.command,
            {**self._environment, **invocation.environment},
            launch.project_path,
        )
        self._member = member
        try:
            waiting = member.waiting.wait()
            self._take(member, member.conversation.open())
            if not member.ready and member.refusal is None:
                await self._readiness(member, waiting)
            if member.refusal is not None:
                raise launch_failed(member.secrets.out_of(member.refusal))
        except BaseException:
            await self._end(member, at_once=True).wait()
            raise
        return member

    async def _readiness(self, member: Member, waiting: Deferred[None]) -> None:
        if self._patience is None:
            await waiting
            return
        process = member.process
        patience = Patience(
            self._clock,
            self._patience,
            lambda: process.has_read,
            lambda: self._take(member, [Ready()]),
            self._most,
        )
        patience.begin()
        try:
            await waiting
        finally:
            patience.end()

    def _pace(self, member: Member) -> None:
        """Leave the agent's output in its pipe while the sink is full.

        Not while its answer to a steer or a stop is to come: that comes through the same pipe, and
        the sink may be full only because it waits for just that.
        """
        if self._sink is None or self._steers or self._is_stopping:
            return
        room: Deferred[None] = self._sink.room()
        if not room.called:
            member.process.hold()
            room.addCallback(lambda _: member.process.let_go())

    def _end(self, member: Member, *, at_once: bool) -> Ending[None]:
        """Begin the end of a process, once; a second call waits for the same end, but hurries it
        where asked.
        """
        if member is self._member:
            self._member = None
        if member.ending is not None:
            if at_once:
                member.process.hurry()
            return member.ending
        ending = member.ending = Ending[None]()
        self._endings.add(ending)

        def done(_: object) -> None:
            self._endings.discard(ending)
            self._finish(member, "was ended")
            for event in member.unknown.first():
                # It came after the last turn, and there will be no other.
                self._log.info("an agent said what is not known: {kind}", kind=event.kind)
            ending.done(None)

        d = member.process.end(self._polite, at_once=at_once)
        d.addErrback(lambda f: self._log.failure("the end of an agent failed", failure=f))
        d.addCallback(done)
        return ending

    def _process_ended(self, member: Member, exit: Exit) -> None:
        tail = member.secrets.out_of_end(member.process.stderr_tail())
        if member.failure is None:
            member.failure = member.process.passed_limit()
        self._finish(member, f"{exit}: {tail}" if tail else str(exit))
        self._end(member, at_once=True)

    def _fail(self, member: Member, failure: RunFailure) -> None:
        """It has passed a limit: end its turn with that, and itself."""
        member.failure = failure
        self._finish(member, "passed a limit")
        self._end(member, at_once=True)

    def _finish(self, member: Member, text: str) -> None:
        """Nothing more comes from this process: end its turn, or its start."""
        self._take(member, member.conversation.ended(f"the agent {text}", stamp()))
        if not member.ready and member.refusal is None:
            passed = member.failure
            member.refusal = passed.message if passed else f"the agent did not start: it {text}"
            member.waiting.fire(None)

    # -- what the conversation says

    def _take(self, member: Member, outputs: list[Output]) -> None:
        for output in outputs:
            match output:
                case Send(message):
                    member.process.send(message)
                case Emit(event):
                    self._emit(member, event)
                case Ready(adapts):
                    member.ready, member.adapts = True, member.adapts or adapts
                    member.waiting.fire(None)
                case Version(text):
                    self._named(member, member.secrets.out_of(text)[:VERSION])
                case Unknown():
                    member.unknown.take(self._agent_id, member.version, output, member.secrets)
                    self._tell_unknown(member)
                case SteerSettled(message_id, steered):
                    if (d := self._steers.pop(message_id, None)) is not None:
                        d.callback(replace(steered, text=member.secrets.out_of(steered.text)))
                case Refused(text):
                    if member.ready:
                        # Its turn began before it had said so.
                        self._finish(member, f"did not start: {text}")
                        self._end(member, at_once=True)
                    member.refusal = text
                    member.waiting.fire(None)

    def _named(self, member: Member, version: str) -> None:
        if version != member.version:
            member.version = version
            self._log.info(
                "the agent {agent} is of version {version}", agent=self._agent_id, version=version
            )

    def _tell_unknown(self, member: Member) -> None:
        if self._sink is not None and member is self._speaker:
            for event in member.unknown.first():
                self._emit(member, event)

    def _emit(self, member: Member, event: RunEvent) -> None:
        sink = self._sink
        if sink is None or member is not self._speaker:
            self._log.debug("late output of an agent dropped")
            return
        event = member.secrets.out_of_event(event)
        if isinstance(event, SessionStarted):
            self._agent_session_id = event.agent_session_id
        elif isinstance(event, RunEnded):
            for more in member.unknown.rest(self._agent_id, member.version):
                sink.event(more)
            event = replace(event, agent_version=member.version)
            if member.failure is not None and event.outcome == "failed":
                event = replace(event, error=member.failure)
            self._sink = self._speaker = None
            self._is_stopping = False
        sink.event(event)
        if isinstance(event, RunEnded):
            self._turn_over.fire(None)
            steers, self._steers = self._steers, {}
            for d in steers.values():
                # It was on its way to an agent that has ended its turn, or itself.
                d.callback(Steered(outcome="unknown"))
