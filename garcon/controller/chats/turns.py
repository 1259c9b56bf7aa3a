"""One turn of a chat: from its launch on the executor to the receipt, and every row between.

Events come in order and are turned into rows at once; rows are committed in groups, one commit at a
time, and a turn is settled only when its last row is durable.  Two things hold events back: a
decision on its way to the agent (so that its row stands before what follows from it) and a stop
(whose success drops them, and whose failure lets them go).
"""

from __future__ import annotations

from typing import Literal

import msgspec
from twisted.internet.defer import CancelledError, Deferred, TimeoutError, fail
from twisted.logger import Logger
from zope.interface import implementer

from garcon.contract.events import RunFailed, RunFinished
from garcon.contract.limits import DEAD_AFTER, LAUNCH_WAIT
from garcon.contract.messages import AssistantMessage, ProviderRow
from garcon.contract.runs import (
    Launch,
    PermissionAutoResolved,
    PermissionRequested,
    PermissionWithdrawn,
    RowProduced,
    RunEnded,
    RunEvent,
    RunFailure,
    SessionStarted,
)
from garcon.controller.chats.chat import Chat
from garcon.controller.chats.commits import (
    PENDING_BYTES,
    PENDING_ROWS,
    Commits,
    Durable,
    Touch,
)
from garcon.controller.chats.fields import first_line
from garcon.controller.chats.interruption import Fate, Interruption
from garcon.controller.chats.ledger import Record
from garcon.controller.chats.questions import Questions
from garcon.controller.chats.receipts import Reason
from garcon.controller.chats.state import State
from garcon.controller.transcripts import rows
from garcon.controller.transcripts.rows import Draft, Outcome
from garcon.controller.transcripts.times import is_canonical
from garcon.deferreds import Waiters
from garcon.errors import CallError, GarconError
from garcon.runtime.interfaces import IExecutorRuntime, IPacedRunSink

ABORT_WAIT, END_WAIT = DEAD_AFTER + 1.0, 10.0
"""Seconds for the executor to take a stop, and then for the run's end to arrive.  A dead link is
noticed in the first of them, and both fit into the time of the operation.
"""

OUTCOME_UNKNOWN = "OUTCOME_UNKNOWN"
RELOAD_NOTICE = (
    "The connection to this chat's executor was lost, so what became of this turn is not known. "
    "Reload the chat from its native history to see what the agent did."
)

START_UNKNOWN = (
    "The executor was lost, or given up, while the agent was being started there. Whether it began"
    " is not known; it may have worked on this input."
)

Stopped = Literal["interrupt-requested", "failed"]


class TurnStopped(GarconError):
    """The turn was stopped before its agent was known to have begun; it `may_have_begun` where
    nobody could say so any more.
    """

    def __init__(self, may_have_begun: bool = False) -> None:
        super().__init__("SESSION_BUSY", "The turn was stopped before it began.", status=409)
        self.may_have_begun = may_have_begun


@implementer(IPacedRunSink)
class Turn:
    """One admitted turn.  Owns its chat from reservation to settlement."""

    _log = Logger()

    def __init__(
        self,
        state: State,
        chat: Chat,
        run_id: str,
        record: Record,
        *,
        selection: dict[str, str | None] | None = None,
    ) -> None:
        self.run_id = run_id
        self.is_stopping = False
        self.is_settled = False
        self.stop_reason: Reason = "user-stop"
        """What the receipt says of an interruption: whoever deletes the chat says so here."""
        self._state = state
        self._chat = chat
        self._record = record
        self._selection = selection
        self._launching: Deferred[object] | None = None
        self._holds = 0
        self._held: list[RunEvent] = []
        self._held_bytes = 0
        self._commits = Commits(chat, state.clock, self._rows_lost)
        self._questions = Questions(chat, run_id, state.now, self._add)
        self._end: tuple[Outcome, RunFailure | None] | None = None
        self._agent_ended = False
        self._agent_end: Waiters[None] = Waiters()
        self._settlement: Waiters[None] = Waiters()
        self._unwound: Waiters[None] = Waiters()
        self._let_in: Waiters[None] = Waiters()
        self._asking_to_end: Interruption | None = None
        self._kept: Interruption | None = None
        """A stop that waits for the executor's link."""
        self._heard = 0.0

    @property
    def has_ended(self) -> bool:
        """Whether the run is over; only its last rows may still be on their way to the store."""
        return self._end is not None or self.is_settled

    # Life cycle

    def reserve(self) -> None:
        """Take the chat: it is processing from here on."""
        self._chat.turn = self
        self._state.phase_changed(self._chat)

    def release(self) -> None:
        """Give the chat back without a trace: the turn was not to be, or its chat is gone."""
        self.is_settled = True
        self._held.clear()
        self._commits.close()
        self._let_in.fire(None)
        if self._chat.turn is self:
            self._chat.turn = None
            self._state.phase_changed(self._chat)
        self._settlement.fire(None)

    async def launch(self, runtime: IExecutorRuntime, launch: Launch) -> None:
        """Begin on the executor, in at most 20 s; `TurnStopped` if a stop came first."""
        if self.is_stopping or self._state.is_shutting_down:
            raise TurnStopped()
        self._record.state = "scheduled"
        self._launching = runtime.launch(launch, self).addTimeout(LAUNCH_WAIT, self._state.clock)
        try:
            await self._launching
        except (CancelledError, GarconError) as error:
            if self.is_stopping:
                raise TurnStopped(is_unknown(error)) from None
            raise
        except TimeoutError:
            raise GarconError(
                "INTERNAL_ERROR", f"The agent did not begin within {LAUNCH_WAIT:.0f} s.", status=500
            ) from None
        finally:
            self._launching = None
            self._unwound.fire(None)
        if self._record.state == "scheduled":
            self._record.state = "running"

    async def dispatch(self, runtime: IExecutorRuntime, launch: Launch) -> None:
        """Begin on the executor; a launch that fails is a failed turn."""
        try:
            await self.launch(runtime, launch)
        except TurnStopped:
            return
        except CancelledError:
            raise
        except GarconError as error:
            if is_unknown(error):
                self.fail(OUTCOME_UNKNOWN, START_UNKNOWN)
            else:
                self.fail(error.code, error.text)
        except Exception:
            self._log.failure("launching {run} failed", run=self.run_id)
            self.fail("INTERNAL_ERROR", "The agent could not be started.")

    def fail(self, code: str, text: str) -> None:
        """End the turn as failed, unless it has ended."""
        self._finish("failed", RunFailure(code, text))

    async def interrupt(self) -> Stopped:
        """Stop the turn; fires when it is settled, or when it could not be stopped.

        Output that comes after the stop is dropped, and kept should the stop fail.  While the
        executor's link is down the stop is kept: this fires at once, and the turn shows as stopping
        until the stop is delivered or the run ends otherwise.
        """
        if self._kept is not None:
            return "interrupt-requested"
        if self.is_stopping or self._end is not None:
            await self.settled()
            return "interrupt-requested"
        self.is_stopping = True
        self._holds += 1
        self._state.phase_changed(self._chat)
        if self._launching is not None:
            await self._cancel_launch(self._launching)
        else:
            interruption = self._ask_to_end()
            fate = await self._fate(interruption)
            if fate is Fate.FAILED:
                self._go_on()
                self._let_go()
                return "failed"
            if fate is Fate.UNDECIDED:
                self._kept = interruption
                self._state.tasks.spawn("a stop that is kept", self._keep(interruption))
                self._let_go()
                return "interrupt-requested"
            if fate is Fate.TAKEN:
                await self._ended_soon()
        self.end_now()
        await self.settled()
        return "interrupt-requested"

    def end_now(self) -> None:
        """End the turn as interrupted, whatever its agent does."""
        self.is_stopping = True
        self._held.clear()
        self._finish("interrupted", None)

    def forget(self) -> None:
        """Drop what has not been kept: the chat of this settled turn is gone."""
        self._commits.close()

    async def flushed(self) -> None:
        """Fire once every row so far is durable, or given up."""
        await self._commits.flushed()

    async def settled(self) -> None:
        """Fire once the turn's last row is durable and its receipt settled."""
        if not self.is_settled:
            await self._settlement.wait()

    async def _cancel_launch(self, launching: Deferred[object]) -> None:
        launching.cancel()
        if self._launching is not None:
            try:
                await self._unwound.wait().addTimeout(END_WAIT, self._state.clock)
            except TimeoutError:
                self._log.warn("the launch of {run} does not end", run=self.run_id)

    def _ask_to_end(self) -> Interruption:
        try:
            runtime = self._state.executors.existing(self._chat.record.executor_id)
            asked = runtime.abort(self.run_id)
        except GarconError as error:
            asked = fail(error)
        return Interruption(self.run_id, asked)

    async def _fate(self, interruption: Interruption) -> Fate:
        """Wait for the executor to take a stop, unless its link is down."""
        self._asking_to_end = interruption
        try:
            if self._is_reconnecting:
                return interruption.fate
            return await interruption.decided().addTimeout(ABORT_WAIT, self._state.clock)
        except TimeoutError:
            if self._is_reconnecting:
                return interruption.fate
            interruption.cancel()
            return Fate.FAILED
        finally:
            self._asking_to_end = None

    async def _keep(self, interruption: Interruption) -> None:
        """See a stop through that could not be delivered at once."""
        try:
            fate = await interruption.decided()
        except CancelledError:
            interruption.cancel()
            raise
        if fate is not Fate.FAILED:
            # The run's end comes behind whatever it said before, which can take its time.
            while not await self._ended_soon():
                if not self._is_reconnecting and self._is_quiet:
                    break
        self._kept = None
        if self._end is None:
            if fate is Fate.FAILED:
                self._go_on()
            else:
                self.end_now()

    def _go_on(self) -> None:
        """The stop came to nothing."""
        self.is_stopping = False
        self._state.phase_changed(self._chat)

    async def _ended_soon(self) -> bool:
        """Wait for the run's end to arrive; return whether it has."""
        if not self._agent_ended:
            try:
                await self._agent_end.wait().addTimeout(END_WAIT, self._state.clock)
            except TimeoutError:
                self._log.warn("{run} was stopped but does not end", run=self.run_id)
        return self._agent_ended

    async def _abort(self) -> None:
        """Stop the run of a turn that is over, best effort."""
        interruption = self._ask_to_end()
        try:
            if await self._fate(interruption) is Fate.UNDECIDED:
                await interruption.decided()
        except CancelledError:
            interruption.cancel()
            raise

    @property
    def _is_reconnecting(self) -> bool:
        executor = self._chat.record.executor_id
        return self._state.executors.availability(executor) == "reconnecting"

    @property
    def _is_quiet(self) -> bool:
        return self._state.clock.seconds() - self._heard >= END_WAIT

    def executor_changed(self) -> None:
        """The executor's link was lost, or is back."""
        if self._asking_to_end is not None and self._is_reconnecting:
            self._asking_to_end.link_lost()

    # IPacedRunSink

    def room(self) -> Deferred[None]:
        """More is welcome while nothing is held back and the store keeps up."""
        if self._holds and not self.has_ended:
            return self._let_in.wait()
        return self._commits.room()

    def event(self, event: RunEvent) -> None:
        """Take the next fact of the run."""
        if self._end is not None or self.is_settled:
            return
        self._heard = self._state.clock.seconds()
        if isinstance(event, RunEnded):
            self._agent_ended = True
        if self._holds:
            self._held.append(event)
            self._held_bytes += len(msgspec.json.encode(event))
            if len(self._held) > PENDING_ROWS or self._held_bytes > PENDING_BYTES:
                self._overflow()
        else:
            self._take(event)
        if self._agent_ended:
            self._agent_end.fire(None)

    def _take(self, event: RunEvent) -> None:
        match event:
            case RowProduced():
                self._row(event.message)
            case SessionStarted():
                self._session(event.agent_session_id)
            case PermissionRequested():
                self._questions.asked(event)
            case PermissionWithdrawn():
                self._questions.withdrawn(event.permission_occurrence_id)
            case PermissionAutoResolved():
                self._questions.answered_itself(event)
            case RunEnded():
                self._run_ended(event)
        self._commits.go()

    def _row(self, message: ProviderRow) -> None:
        draft = rows.provider_row(message)
        if isinstance(message, AssistantMessage):
            self._state.receipts.said(self._chat.id, self.run_id, message.content)
        touch = None
        if rows.is_conversation(message):
            at = message.timestamp if is_canonical(message.timestamp) else self._state.now()
            text = rows.text_of(message)
            touch = (at, first_line(text or "") or None)
        self._add(draft, touch=touch)

    def _session(self, agent_session_id: str) -> None:
        if agent_session_id == self._chat.record.agent_session_id:
            return
        # A fresh agent session also makes this turn's model the chat's own (chats.md 3.5).
        selection = self._selection or {}
        self._chat.set(agent_session_id=agent_session_id, **selection)
        self._commits.save_chat()
        self._add(rows.session(self._state.now(), agent_session_id))

    def _run_ended(self, event: RunEnded) -> None:
        unknown = event.error is not None and event.error.code == OUTCOME_UNKNOWN
        if self._kept is not None and event.outcome == "failed" and not unknown:
            # A stop is not a failure, whatever the agent makes of it.
            self._finish("interrupted", None)
        else:
            self._finish(event.outcome, event.error)

    def _finish(self, outcome: Outcome, error: RunFailure | None) -> None:
        if self._end is not None or self.is_settled:
            return
        if outcome == "failed" and error is None:
            error = RunFailure("AGENT_FAILED", "The agent failed without saying why.")
        self._end = (outcome, error)
        self._let_in.fire(None)
        at = self._state.now()
        self._questions.run_ended()
        if error is not None and error.code == OUTCOME_UNKNOWN:
            self._add(rows.notice(at, RELOAD_NOTICE))
        self._add(rows.run_ended(at, self.run_id, outcome, error), lambda _: self._settle())
        self._commits.go()

    # Permissions

    def deciding(self, occurrence: str) -> None:
        """A decision is on its way to the agent: what follows waits for its row."""
        self._questions.deciding(occurrence)
        self._holds += 1

    def decided(self, occurrence: str, verdict: bool | None, *, stays: bool = False) -> None:
        """The decision's fate is known: delivered (`verdict`), still to be made (`stays`), or
        unknown.
        """
        is_over = self._end is not None or self.is_settled
        self._questions.decided(occurrence, verdict, stays=stays, is_over=is_over)
        self._let_go()

    def _let_go(self) -> None:
        self._holds -= 1
        while self._held and not self._holds:
            held, self._held, self._held_bytes = self._held, [], 0
            for event in held:
                if self._end is None:
                    self._take(event)
        self._commits.go()
        if not self._holds:
            self._let_in.fire(None)

    # The end

    def _add(
        self, draft: Draft, durable: Durable | None = None, touch: Touch | None = None
    ) -> None:
        self._commits.add(draft, durable, touch)
        if self._commits.is_full:
            self._overflow()

    def _overflow(self) -> None:
        if self._end is None:
            self._held.clear()
            self.fail("OUTPUT_OVERFLOW", "The agent wrote faster than its output could be kept.")
            self._state.tasks.spawn("ending a turn that overran", self._abort())

    def _rows_lost(self) -> None:
        if not self._agent_ended:
            self._state.tasks.spawn("ending a turn that cannot be kept", self._abort())
        self._end = ("failed", RunFailure("INTERNAL_ERROR", "The turn's output could not be kept."))
        self._settle()

    def _settle(self) -> None:
        if self.is_settled:
            return
        assert self._end is not None
        outcome, error = self._end
        self.is_settled = True
        if self._chat.turn is self:
            self._chat.turn = None
        self._state.phase_changed(self._chat)
        self._publish_end(outcome, error)
        self._state.receipts.settle(
            self._chat.id,
            self.run_id,
            "completed" if outcome == "finished" else outcome,
            self._state.now(),
            error=(error.message or error.code) if error is not None else None,
            reason=self.stop_reason if outcome == "interrupted" else None,
        )
        self._state.ledger.settle(self._record, "failed" if outcome == "failed" else "finished")
        self._settlement.fire(None)

    def _publish_end(self, outcome: Outcome, error: RunFailure | None) -> None:
        """A user's stop is not a failure: its event is the finished one (chats.md 5.6.5)."""
        about = {
            "chat_id": self._chat.id,
            "turn_id": self.run_id,
            "client_request_id": self._record.request_id,
        }
        if outcome == "failed":
            why = (error.message or error.code) if error is not None else "The agent failed."
            self._state.publish(RunFailed(**about, error=why))
        else:
            self._state.publish(RunFinished(**about))


def is_unknown(error: BaseException) -> bool:
    """Whether a launch that failed may have begun all the same."""
    return isinstance(error, CallError) and error.outcome == "unknown"
