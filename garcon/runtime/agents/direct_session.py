"""One chat that talks to a model itself: no process, no tools, only requests and replies.

A turn is one request, and one more for whatever was steered into it meanwhile.  The session keeps
nothing between turns but a connection: each launch brings the conversation (chats.md 5.1.4).
"""

from __future__ import annotations

from collections import deque
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger
from zope.interface import implementer

from garcon.contract.limits import MIB
from garcon.contract.messages import AssistantMessage, ProviderRow, Thinking, TranscriptNotice
from garcon.contract.providers import ResolvedEndpoint
from garcon.contract.runs import (
    Delivery,
    Launch,
    PermissionResponse,
    RowProduced,
    RunEnded,
    RunFailure,
    SessionStarted,
)
from garcon.contract.steering import Steer, SteerCapture, Steered, SteerTarget
from garcon.deferreds import Waiters, returns_deferred
from garcon.errors import GarconError, validation
from garcon.runtime.agents.direct_http import ModelClient
from garcon.runtime.agents.direct_messages import Message, conversation, newest
from garcon.runtime.agents.direct_retry import Patience
from garcon.runtime.agents.direct_wire import ProviderFailed, Reply, Wire, shown
from garcon.runtime.agents.process import launch_failed
from garcon.runtime.agents.scrubbing import Secrets
from garcon.runtime.agents.stamps import stamp
from garcon.runtime.interfaces import IAgentSession, ICredentials, IRunSink

REPLY_TIME = 3600.0
"""The longest that one reply may take, all attempts together."""
STEERS, STEER_BYTES = 64, 6 * MIB
"""What may be steered into a turn before the reply that is being made is there."""


@define(eq=False)
class _Turn:
    """The turn that runs."""

    launch: Launch
    endpoint: ResolvedEndpoint
    sink: IRunSink
    steered: deque[str] = field(factory=deque)
    steered_bytes: int = 0
    begin: IDelayedCall | None = None
    asking: Deferred[Reply] | None = None
    """The reply that is waited for."""
    given_up: Exception | None = None
    """Why it is not waited for any more."""

    def give_up(self, why: Exception) -> None:
        """Wait no longer.  However what is waited for fails by that, this is why."""
        self.given_up = why
        if self.asking is not None:
            self.asking.cancel()


@implementer(IAgentSession)
class DirectSession:
    """Speaks `wire` to the endpoint that each launch names, through a client of its own."""

    _log = Logger()

    def __init__(
        self,
        reactor: Any,
        wire: Wire,
        credentials: ICredentials,
        client: ModelClient,
        patience: Patience | None = None,
    ) -> None:
        self._clock: IReactorTime = reactor
        self._wire = wire
        self._credentials = credentials
        self._client = client
        self._patience = patience or Patience()
        self._turn: _Turn | None = None
        self._turn_over: Waiters[None] = Waiters()

    @returns_deferred
    async def run(self, launch: Launch, sink: IRunSink) -> None:
        """Begin a turn: its endpoint is known when this fires, and asked in the reactor's next
        turn.
        """
        if launch.is_compaction:
            raise GarconError(
                "OPERATION_UNSUPPORTED", "This agent cannot compact its session.", status=422
            )
        profile, endpoint_id = launch.api_provider_id, launch.model_endpoint_id
        if profile is None or endpoint_id is None:
            raise validation("This agent needs a model of an API provider's endpoint.", status=422)
        endpoint = await self._credentials.resolve(profile, endpoint_id)
        if not self._wire.is_offered_by(endpoint):
            raise launch_failed("The endpoint does not offer what this agent speaks.")
        turn = self._turn = _Turn(launch, endpoint, sink)
        # Whoever launched hears of it before any event comes.
        turn.begin = self._clock.callLater(0, self._begin, turn)

    def interrupt(self) -> Deferred[None]:
        """Stop the turn: its connection is dropped, and its end said, before this returns."""
        turn = self._turn
        if turn is None:
            return succeed(None)
        over = self._turn_over.wait()
        if turn.begin is not None:
            turn.begin.cancel()
            self._end(turn, RunEnded(outcome="interrupted"))
        elif turn.given_up is None:
            turn.give_up(CancelledError())
        return over

    def respond(self, response: PermissionResponse) -> Delivery:
        """A model asks for no permissions."""
        return "not-delivered"

    def capture_steering(self) -> SteerCapture:
        """A turn can be steered until its last reply is there."""
        if self._turn is None or self._turn.given_up is not None:
            return SteerCapture(outcome="turn-unavailable")
        return SteerCapture(outcome="captured", target=SteerTarget(run_id=self._turn.launch.run_id))

    def steer(self, steer: Steer) -> Deferred[Steered]:
        """Take further input; the model gets it with the turn's next request."""
        turn = self._turn
        if turn is None or turn.given_up is not None:
            return succeed(Steered(outcome="turn-unavailable"))
        if not steer.content.strip():
            return succeed(Steered(outcome="invalid", text="The input is empty."))
        size = len(steer.content.encode())
        if len(turn.steered) >= STEERS or turn.steered_bytes + size > STEER_BYTES:
            return succeed(
                Steered(outcome="rejected", text="Too much input waits for this turn already.")
            )
        turn.steered.append(steer.content)
        turn.steered_bytes += size
        return succeed(Steered(outcome="delivered"))

    @returns_deferred
    async def close(self) -> None:
        """Stop what runs, and fire when no connection is left."""
        await self.interrupt()
        await self._client.close()

    # -- a turn

    def _begin(self, turn: _Turn) -> None:
        turn.begin = None
        work = Deferred.fromCoroutine(self._work(turn))
        work.addErrback(lambda f: self._log.failure("the end of a turn failed", failure=f))

    async def _work(self, turn: _Turn) -> None:
        """Run a turn to its end, whatever that is."""
        try:
            await self._converse(turn)
            end = RunEnded(outcome="finished")
        except CancelledError:
            # Only `interrupt` causes one, and this is where it ends.
            end = RunEnded(outcome="interrupted")
        except Exception as error:
            end = self._failed(turn, error)
        self._end(turn, end)

    def _failed(self, turn: _Turn, error: Exception) -> RunEnded:
        if isinstance(error, ProviderFailed):
            text = shown(error.text, turn.endpoint)
        else:
            self._log.failure("a turn of a direct agent failed")
            text = "The turn failed for a reason of Garcon's own; its log says more."
        return RunEnded(outcome="failed", error=RunFailure("PROVIDER_FAILED", text))

    def _end(self, turn: _Turn, end: RunEnded) -> None:
        self._turn = None
        turn.sink.event(end)
        self._turn_over.fire(None)

    async def _converse(self, turn: _Turn) -> None:
        """Get a reply, and another one for as long as further input came meanwhile."""
        if turn.launch.agent_session_id is None:
            turn.sink.event(SessionStarted(agent_session_id=str(uuid4())))
        messages = conversation(turn.launch)
        while True:
            reply = await self._reply(turn, messages)
            self._say(turn, reply)
            if not turn.steered:
                return
            messages.append(Message("assistant", reply.text))
            messages += [Message("user", text) for text in turn.steered]
            turn.steered.clear()
            turn.steered_bytes = 0

    async def _reply(self, turn: _Turn, messages: list[Message]) -> Reply:
        """Wait for a reply, but no longer than anybody wants it."""
        if turn.given_up is not None:
            raise turn.given_up
        late = ProviderFailed("The provider's reply took too long.")
        timer = self._clock.callLater(REPLY_TIME, turn.give_up, late)
        turn.asking = Deferred.fromCoroutine(self._ask(turn, messages))
        try:
            return await turn.asking
        except Exception:
            if turn.given_up is not None:
                raise turn.given_up from None
            raise
        finally:
            turn.asking = None
            if timer.active():
                timer.cancel()

    async def _ask(self, turn: _Turn, messages: list[Message]) -> Reply:
        """Send a request until it is answered or there is no point in sending it again."""
        launch = turn.launch
        model = launch.model.removeprefix(f"{launch.model_endpoint_id}:")
        request = self._wire.request(turn.endpoint, model, launch.thinking_mode, newest(messages))
        attempt = 1
        while True:
            try:
                return await self._client.exchange(request, self._wire.reader())
            except ProviderFailed as failure:
                pause = self._patience.wait(failure, attempt, datetime.now(UTC))
                if pause is None or turn.given_up is not None:
                    raise
            attempt += 1
            self._log.info("asking a provider again, attempt {attempt}", attempt=attempt)
            await deferLater(self._clock, pause)

    def _say(self, turn: _Turn, reply: Reply) -> None:
        """Add the rows of a whole reply: there are none before it is whole (chats.md 5.1.5)."""
        now = stamp().now
        rows: list[ProviderRow] = []
        if reply.thinking.strip():
            rows.append(Thinking(timestamp=now, content=reply.thinking))
        rows.append(AssistantMessage(timestamp=now, content=reply.text))
        if reply.cut_short is not None:
            text = f"The reply ends early: {shown(reply.cut_short, turn.endpoint)}."
            rows.append(TranscriptNotice(timestamp=now, content=text))
        secrets = Secrets.of(turn.endpoint)
        for row in rows:
            turn.sink.event(secrets.out_of_event(RowProduced(message=row)))
        if reply.usage is not None:
            self._log.debug(
                "a provider counted {given} tokens given and {made} made",
                given=reply.usage.given,
                made=reply.usage.made,
            )
