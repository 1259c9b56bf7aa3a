"""One turn of a chat: from its launch on the executor to the receipt, and every row between.

Events come in order and are turned into rows at once; rows are committed in groups, one commit at a
time, and a turn is settled only when its last row is durable.  Three things hold events back: a
decision or a steer on its way to the agent (so that its row stands before what follows from it) and
a stop (whose success drops them, and whose failure lets them go).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Literal
from uuid import uuid4

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from zope.interface import implementer

from garcon.contract.events import RunFailed, RunFinished, SessionCreated
from garcon.contract.messages import AssistantMessage
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
    UnknownEvent,
)
from garcon.controller.chats.agent_end import AgentEnd
from garcon.controller.chats.chat import Chat
from garcon.controller.chats.commits import Commits, Durable, Touch
from garcon.controller.chats.fields import first_line
from garcon.controller.chats.held import Held
from garcon.controller.chats.interruption import Fate, Interruption
from garcon.controller.chats.launching import START_UNKNOWN, Launching, TurnStopped, is_unknown
from garcon.controller.chats.ledger import Record
from garcon.controller.chats.questions import Questions
from garcon.controller.chats.receipts import Reason
from garcon.controller.chats.state import State
from garcon.controller.chats.steered import SteeredInput
from garcon.controller.transcripts import rows
from garcon.controller.transcripts.rows import Draft, Outcome
from garcon.controller.transcripts.times import is_canonical
from garcon.deferreds import Waiters
from garcon.errors import GarconError
from garcon.runtime.interfaces import IExecutorRuntime, IRunSink
from garcon.store.records import Row

OUTCOME_UNKNOWN = "OUTCOME_UNKNOWN"
ANCHORS = 1_000
"""Assistant messages of a turn, the last ones, after which its chat can be forked natively."""
RELOAD_NOTICE = (
    "The connection to this chat's executor was lost, so what became of this turn is not known. "
    "Reload the chat from its native history to see what the agent did."
)

Stopped = Literal["interrupt-requested", "failed"]


@implementer(IRunSink)
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
        entry_id: str | None = None,
        holds_lane: bool = False,
    ) -> None:
        self.run_id = run_id
        self.holds_lane = holds_lane
        """The chat's commands wait until it is launched, as they do for a chat's first turn."""
        self.entry_id = entry_id
        """The queue entry that this turn was sent from."""
        self.is_stopping = False
        self.is_settled = False
        self.stop_reason: Reason = "user-stop"
        """What the receipt says of an interruption: whoever deletes the chat says so here."""
        self._state = state
        self._chat = chat
        self._record = record
        self._selection = selection
        self._launching = Launching(state.clock, lambda: self.is_stopping)
        self._held = Held()
        self._commits = Commits(chat, state.clock, self._rows_lost)
        self._questions = Questions(chat, run_id, state.now, self._add, state.permissions_changed)
        self._end: tuple[Outcome, RunFailure | None] | None = None
        self._anchors: deque[str | None] = deque(maxlen=ANCHORS)
        self._agent_end = AgentEnd(state, chat, run_id)
        self._underway: list[SteeredInput] = []
        self._settlement: Waiters[None] = Waiters()
        self._let_in: Waiters[None] = Waiters()
        self._has_overrun = False
        """What came during a stop was more than could be held."""
        self._kept: Interruption | None = None
        """A stop that waits for the executor's link."""

    @property
    def has_ended(self) -> bool:
        """Whether the run is over; only its last rows may still be on their way to the store."""
        return self._end is not None or self.is_settled

    @property
    def takes_no_more(self) -> bool:
        """Whether no input can join it any more."""
        return self.has_ended or self.is_stopping

    # Life cycle

    def reserve(self) -> None:
        """Take the chat: it is processing from here on."""
        self._chat.turn = self
        self._state.phase_changed(self._chat)

    def release(self) -> None:
        """Give the chat back without a trace: the turn was not to be, or its chat is gone."""
        self.is_settled = True
        self._held.drop()
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
        await self._launching.run(runtime, launch, self)
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

    async def interrupt(self, tell: Callable[[Stopped], None] = lambda outcome: None) -> Stopped:
        """Stop the turn; fires when it is settled, or when it could not be stopped.

        Output that comes after the stop is dropped, and kept should the stop fail.  While the
        executor's link is down the stop is kept: this fires at once, and the turn shows as stopping
        until the stop is delivered or the run ends otherwise.

        `tell` is called with the outcome as soon as that is known, before the turn shows what came
        of it (server.md A.11.4); never for a turn that somebody else stops already.
        """
        if self._kept is not None:
            return "interrupt-requested"
        if self.is_stopping or self._end is not None:
            await self.settled()
            return "interrupt-requested"
        self.is_stopping = True
        self._held.hold()
        self._state.phase_changed(self._chat)
        if self._launching.is_under_way:
            self._launching.cancel()
        else:
            interruption = self._agent_end.ask()
            fate = await self._agent_end.fate(interruption)
            if fate is Fate.FAILED:
                tell("failed")
                self._go_on()
                self._let_go()
                return "failed"
            if fate is Fate.UNDECIDED:
                tell("interrupt-requested")
                self._kept = interruption
                self._state.tasks.spawn("a stop that is kept", self._keep(interruption))
                self._let_go()
                return "interrupt-requested"
            if fate is Fate.TAKEN:
                self._held.close()
                self._let_in.fire(None)
                await self._agent_end.soon()
        tell("interrupt-requested")
        self.end_now()
        await self.settled()
        return "interrupt-requested"

    def end_now(self) -> None:
        """End the turn as interrupted, whatever its agent does."""
        self.is_stopping = True
        self._held.drop()
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

    async def _keep(self, interruption: Interruption) -> None:
        """See a stop through that could not be delivered at once."""
        try:
            fate = await interruption.decided()
        except CancelledError:
            interruption.cancel()
            raise
        if fate is not Fate.FAILED:
            await self._agent_end.late()
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
        if self._has_overrun:
            self._overflow()

    def executor_changed(self) -> None:
        """The executor's link was lost, or is back."""
        self._agent_end.executor_changed()

    # IRunSink

    def room(self) -> Deferred[None]:
        """More is welcome while nothing is held back and the store keeps up; and again once a stop
        was taken, as the run's end comes behind whatever it said before.
        """
        if self._held.is_on and not self._held.is_closed and not self.has_ended:
            return self._let_in.wait()
        return self._commits.room()

    def event(self, event: RunEvent) -> None:
        """Take the next fact of the run."""
        if isinstance(event, UnknownEvent):
            # Of no turn's making: neither a stop nor the end keeps it from being counted.
            self._unknown(event)
            return
        # A stop waits for the end also where the turn is over before.
        self._agent_end.noticed(event)
        if not self.has_ended:
            self._heard(event)
        self._agent_end.told()

    def _heard(self, event: RunEvent) -> None:
        if self._held.is_on:
            self._held.keep(event)
            if self._held.is_full:
                self._overflow()
        else:
            self._take(event)

    def _take(self, event: RunEvent) -> None:
        match event:
            case RowProduced():
                self._row(event)
            case SessionStarted():
                self._session(event)
            case PermissionRequested():
                self._questions.asked(event)
            case PermissionWithdrawn():
                self._questions.withdrawn(event.permission_occurrence_id)
            case PermissionAutoResolved():
                self._questions.answered_itself(event)
            case RunEnded():
                self._run_ended(event)
        self._commits.go()

    def _row(self, event: RowProduced) -> None:
        message = event.message
        draft = rows.provider_row(message)
        if isinstance(message, AssistantMessage):
            self._anchors.append(event.anchor)
            self._state.receipts.said(self._chat.id, self.run_id, message.content)
        touch = None
        if rows.is_conversation(message):
            at = message.timestamp if is_canonical(message.timestamp) else self._state.now()
            text = rows.text_of(message)
            touch = (at, first_line(text or "") or None)
        self._add(draft, touch=touch)

    def _session(self, event: SessionStarted) -> None:
        agent_session_id, before = event.agent_session_id, self._chat.record
        if agent_session_id == before.agent_session_id:
            return
        is_first = before.agent_session_id is None
        # A fresh agent session also makes this turn's model the chat's own (chats.md 3.5).
        becomes: dict[str, Any] = dict(self._selection or {})
        if event.is_fork and before.fork_from is not None:
            becomes["inherited"] = before.fork_from.inherited
        self._chat.set(agent_session_id=agent_session_id, fork_from=None, **becomes)
        self._commits.save_chat()

        def durable(row: Row) -> None:
            if is_first:
                self._state.publish(SessionCreated(chat_id=self._chat.id))
            elif not event.is_fork and self._chat.is_writable:
                # Another session than the one before: nothing up to here is in it.
                saving = self._chat.change(self._state.store, inherited=row.ordinal - 1)
                self._state.tasks.spawn("noting where a session began", saving)

        self._add(rows.session(self._state.now(), agent_session_id), durable)

    def _unknown(self, event: UnknownEvent) -> None:
        self._state.unknown.seen(event)
        if event.raw and not self.has_ended:
            self._add(rows.unknown_event(self._state.now(), event))
            self._commits.go()

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
        for steered in self._underway:
            # It may have arrived; if it has not, the next run carries it.
            self._keep_input(steered)
        self._underway.clear()
        if error is not None and error.code == OUTCOME_UNKNOWN:
            self._add(rows.notice(at, RELOAD_NOTICE))
        # A list of nothing but None says nothing.
        anchors = tuple(self._anchors) if any(self._anchors) else ()
        event = self._agent_end.event
        ended = rows.run_ended(at, self.run_id, outcome, error, event, anchors)
        self._add(ended, lambda _: self._settle())
        self._commits.go()

    # Permissions

    def deciding(self, occurrence: str) -> None:
        """A decision is on its way to the agent: what follows waits for its row."""
        self._questions.deciding(occurrence)
        self._held.hold()

    def decided(self, occurrence: str, verdict: bool | None, *, stays: bool = False) -> None:
        """The decision's fate is known: delivered (`verdict`), still to be made (`stays`), or
        unknown.
        """
        is_over = self._end is not None or self.is_settled
        self._questions.decided(occurrence, verdict, stays=stays, is_over=is_over)
        self._let_go()

    def _let_go(self) -> None:
        self._held.let_go()
        while events := self._held.taken():
            for event in events:
                if self._end is None:
                    self._take(event)
        self._commits.go()
        if not self._held.is_on:
            self._let_in.fire(None)

    # Steering

    async def launched(self) -> None:
        """Fire once the launch is over, whatever came of it."""
        await self._launching.over()

    @property
    def is_launching(self) -> bool:
        return self._launching.is_under_way

    def steering(self, steered: SteeredInput) -> None:
        """An input is on its way to the agent: what follows waits for its row."""
        self._underway.append(steered)
        self._held.hold()

    def steered(self, steered: SteeredInput, *, is_kept: bool) -> None:
        """The input's fate is known: it belongs into the transcript, or not.  A turn that ended
        meanwhile has kept it.
        """
        if steered in self._underway:
            self._underway.remove(steered)
            if is_kept:
                self._keep_input(steered)
        self._let_go()

    def keep(self, steered: SteeredInput) -> None:
        """Put an input that was not sent into the transcript, also behind the end."""
        self._keep_input(steered)
        self._commits.go()

    def _keep_input(self, steered: SteeredInput) -> None:
        steered.is_kept = True
        first = self._chat.with_text(steered.preview)

        def durable(row: Row) -> None:
            steered.durable(row)
            if first and self._chat.record.name is None:
                self._state.title_changed(self._chat)

        if first:
            self._chat.set(**first)
            self._commits.save_chat()
        self._add(steered.draft, durable, (steered.draft.at, steered.preview))

    # The end

    # The end

    def _add(
        self, draft: Draft, durable: Durable | None = None, touch: Touch | None = None
    ) -> None:
        self._commits.add(draft, durable, touch)
        if self._commits.is_full:
            self._overflow()

    def _overflow(self) -> None:
        if self._end is None:
            self._held.drop()
            if self.is_stopping:
                # Nobody wants it unless the stop fails.
                self._has_overrun = True
                return
            self.fail("OUTPUT_OVERFLOW", "The agent wrote faster than its output could be kept.")
            self._state.tasks.spawn("ending a turn that overran", self._agent_end.abort())

    def _rows_lost(self) -> None:
        if not self._agent_end.has_come:
            self._state.tasks.spawn("ending a turn that cannot be kept", self._agent_end.abort())
        self._end = ("failed", RunFailure("INTERNAL_ERROR", "The turn's output could not be kept."))
        self._questions.clear()
        self._let_in.fire(None)
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
        if outcome == "failed" and self.entry_id is not None:
            # Its user has to see that before the next message is sent (chats.md 5.5.4).
            paused = self._chat.queue.failed(self.entry_id, str(uuid4()), self._state.now())
            self._state.set_queue(self._chat, paused)
        self._settlement.fire(None)
        self._state.drain(self._chat)

    def _publish_end(self, outcome: Outcome, error: RunFailure | None) -> None:
        """A user's stop is not a failure: its event is the finished one (chats.md 5.6.5)."""
        about = {
            "chat_id": self._chat.id,
            "turn_id": self.run_id,
            "client_request_id": self._record.request_id,
        }
        if outcome == "failed":
            # Clients drop an event whose text is blank.
            texts = (error.message, error.code) if error is not None else ()
            why = next((text for text in texts if text.strip()), "The agent failed.")
            self._state.publish(RunFailed(**about, error=why))
        else:
            self._state.publish(RunFinished(**about))
