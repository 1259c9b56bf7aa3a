"""One run on a remote executor: how far its launch has come, and its facts on their way to the
sink, over however many sessions.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

import msgspec
from attrs import define, field
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from garcon.contract.messages import TranscriptNotice
from garcon.contract.runs import (
    Launch,
    Launched,
    LaunchSettled,
    RelayedEvent,
    RowProduced,
    RunEnded,
    RunEvent,
    RunFailure,
)
from garcon.controller.executors.streams import Arrival, Stream
from garcon.deferreds import Waiters
from garcon.errors import CallError
from garcon.runtime.interfaces import IRunSink

OUTCOME_UNKNOWN = "OUTCOME_UNKNOWN"
LOST = RunFailure(
    OUTCOME_UNKNOWN,
    "The connection to the executor was lost while this turn ran, and it did not come back in time "
    "or to the same worker. The turn may have gone on there; reload the chat from its native "
    "history to see what was done.",
)
UNREADABLE = RunFailure(
    OUTCOME_UNKNOWN,
    "The executor said something of this turn that could not be read; reload the chat from its "
    "native history to see what was done.",
)
_decode = msgspec.json.Decoder(RelayedEvent).decode
"""Made once: to find out what a union consists of takes longer than to decode an event."""
OUTPUT_LOST = "Some output of this turn was lost on its way from the executor."


class Stage(Enum):
    """How far a launch has come."""

    SETUP = "setup"
    """Its stream is being bound; nothing was launched."""
    SENT = "sent"
    LOST = "lost"
    """Sent, and the session is gone: what became of it is told in the next one."""
    RUNNING = "running"
    OVER = "over"


class Verdict(Enum):
    """What a resumption makes of a lost launch that has not succeeded yet."""

    AGAIN = "again"
    """The worker never received it."""


@define(eq=False)
class RemoteRun:
    """One run under way.  Facts wait until whoever launched it has the answer."""

    _log = Logger()

    launch: Launch
    _sink: IRunSink
    _timestamp: Callable[[], str]
    stream: Stream = field(factory=Stream)
    stage: Stage = Stage.SETUP
    is_bound: bool = False
    may_be_bound: bool = False
    was_lost: bool = False
    """The launch outlived a session: what it comes to may be long in coming."""
    answer: Deferred[Launched] = field(factory=Deferred)
    is_answered: bool = False
    reason: BaseException | None = None
    """Why the launch was given up, if it was."""
    launching: Deferred[Launched] | None = None
    overdue: IDelayedCall | None = None
    verdict: Waiters[Launched | Verdict] = field(factory=Waiters)
    """What the next session says of a lost launch, for the launch that waits for it."""
    has_ended: bool = False
    is_paced: bool = False
    """What came last has not been put away yet: it is not acknowledged."""
    _has_gap: bool = False
    _held: list[RunEvent] | None = field(factory=list)

    @property
    def run_id(self) -> str:
        return self.launch.run_id

    @property
    def binding_id(self) -> str:
        return self.launch.binding_id

    def give_up(self, reason: BaseException, *, is_heard: bool = False) -> None:
        """End a launch that has not succeeded.  `is_heard`: its caller knows that already."""
        self.reason = reason
        if is_heard:
            self.is_answered = self.has_ended = True
        if self.launching is not None:
            self.launching.cancel()

    def launch_settled(self) -> None:
        """The launch has succeeded or failed."""
        self.launching = None
        if self.overdue is not None and self.overdue.active():
            self.overdue.cancel()

    def resumed(self) -> None:
        """A session goes on with the stream: what is missing from now on is said anew."""
        self._has_gap = False

    def take(self, seq: int, content: msgspec.Raw) -> RelayedEvent | None:
        """Take a numbered frame, and return its event if that is not for the sink.

        A row that cannot be read is lost output; anything else unreadable is the end.
        """
        arrival = self.stream.take(seq)
        if arrival is Arrival.DUPLICATE:
            return None
        if arrival is Arrival.AFTER_GAP:
            self._output_lost()
        try:
            event: RelayedEvent = _decode(content)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return self._unreadable(content)
        if isinstance(event, LaunchSettled | RunEnded):
            return event
        self.fact(event)
        return None

    def room(self) -> Deferred[None]:
        """Fire once the sink welcomes more."""
        if self._held is None and not self.has_ended:
            room: Deferred[None] = self._sink.room()
            return room
        return succeed(None)

    def fact(self, event: RunEvent) -> None:
        """Hand on the next fact; nothing follows the end."""
        if self.has_ended:
            return
        self.has_ended = isinstance(event, RunEnded)
        if self._held is not None:
            self._held.append(event)
        else:
            self._sink.event(event)

    def open(self) -> None:
        """Hand on what was held: the launch has been answered."""
        held, self._held = self._held or [], None
        for event in held:
            self._sink.event(event)

    def settled(self, settlement: LaunchSettled) -> None:
        """The worker tells what became of the launch whose answer was lost."""
        if settlement.run_id != self.run_id or self.stage is not Stage.LOST:
            return
        error = settlement.error
        if error is None:
            self.verdict.fire(Launched(self.run_id))
        else:
            self.verdict.fail(
                CallError(
                    error.code,
                    error.message,
                    outcome=error.outcome,
                    status=error.status,
                    retryable=error.retryable,
                )
            )

    def _output_lost(self) -> None:
        """Say once in a session that rows are missing."""
        if not self._has_gap:
            self._has_gap = True
            notice = TranscriptNotice(timestamp=self._timestamp(), content=OUTPUT_LOST)
            self.fact(RowProduced(message=notice))

    def _unreadable(self, content: msgspec.Raw) -> RunEnded | None:
        self._log.error("an event of {run} could not be read", run=self.run_id)
        if _kind(content) == "row":
            self._output_lost()
            return None
        return RunEnded(outcome="failed", error=UNREADABLE)


class _Kind(msgspec.Struct):
    type: str = ""


def _kind(content: msgspec.Raw) -> str:
    try:
        return msgspec.json.decode(content, type=_Kind).type
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""
