"""What a schedule asked for, what came of it at the other end, and whether the two fit together.

The asking side writes down how each call and run ended for its caller; the serving side, whatever
process it is, writes down what it really did.  Neither knows the other: only `violations` compares.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.python.failure import Failure
from zope.interface import implementer

from garcon.contract.messages import AssistantMessage, TranscriptNotice
from garcon.contract.runs import RowProduced, RunEnded, RunEvent
from garcon.errors import CallError, GarconError
from garcon.runtime.interfaces import IRunSink

SUCCEEDED, CANCELLED = "succeeded", "cancelled"
_ROW_MARK = "#"


def ending(result: Any) -> str:
    """Return what a caller knows of the end of its call: an outcome, or a word of ours."""
    if not isinstance(result, Failure):
        return SUCCEEDED
    error = result.value
    if isinstance(error, CancelledError):
        return CANCELLED
    if isinstance(error, CallError):
        return error.outcome
    if isinstance(error, GarconError):
        return "rejected"
    return f"broke with {type(error).__name__}"


@define(eq=False)
class Asked:
    """One call: how often it ended, and how."""

    token: str
    method: str
    d: Deferred[Any]
    is_counted: bool = True
    """Whether the other side writes down what it does of it."""
    is_durable: bool = False
    """Only the loss of the worker, or of its grace, may leave its fate unknown."""
    is_of_session: bool = False
    """It ends with its session, on both sides."""
    ends: list[str] = field(factory=list)

    @property
    def is_open(self) -> bool:
        return not self.ends


@define(eq=False)
class Response:
    """One permission decision, by the word that came back for it."""

    run_id: str
    occurrence_id: str
    delivery: str | None = None


@implementer(IRunSink)
@define(eq=False)
class Turn:
    """One launch, as its caller and its sink saw it."""

    run_id: str
    d: Deferred[Any] | None = None
    ends: list[str] = field(factory=list)
    events: list[RunEvent] = field(factory=list)
    events_before_answer: int = 0
    stops: int = 0
    """How often somebody wanted it to end."""

    def event(self, event: RunEvent) -> None:
        """Take a fact (see `IRunSink`)."""
        if not self.ends:
            self.events_before_answer += 1
        self.events.append(event)

    def room(self) -> Deferred[None]:
        """Take whatever comes."""
        return succeed(None)

    @property
    def is_open(self) -> bool:
        """Whether something of it is still to come."""
        if not self.ends:
            return True
        launched = self.ends[0] == SUCCEEDED
        return launched and not any(isinstance(e, RunEnded) for e in self.events)

    @property
    def end(self) -> RunEnded | None:
        return next((e for e in self.events if isinstance(e, RunEnded)), None)


@define(eq=False)
class Done:
    """What a worker did of one run."""

    received: int = 0
    started: int = 0
    rows: int = 0
    end: str | None = None


@define(eq=False)
class Ledger:
    """Both sides of everything; a token names a call, a run id a run."""

    calls: dict[str, Asked] = field(factory=dict)
    begun: Counter[str] = field(factory=Counter)
    happened: Counter[str] = field(factory=Counter)
    turns: dict[str, Turn] = field(factory=dict)
    done: dict[str, Done] = field(factory=dict)
    responses: list[Response] = field(factory=list)
    delivered: Counter[str] = field(factory=Counter)
    """Decisions that an agent got, by occurrence."""
    is_continuous: bool = True
    """Whether one worker process was there all the time, and never away for as long as a grace."""
    clock: Callable[[], float] = lambda: 0.0
    late: float | None = None
    """How long after the end of a call of the `session` class its handler may go on at most; None
    leaves that open.
    """
    ended_at: dict[str, float] = field(factory=dict)
    happened_at: dict[str, float] = field(factory=dict)

    def asked(
        self,
        token: str,
        method: str,
        d: Deferred[Any],
        *,
        is_counted: bool = True,
        is_durable: bool = False,
        is_of_session: bool = False,
    ) -> Asked:
        """A call was made; what it gives is written down, however often that is."""
        call = self.calls[token] = Asked(token, method, d, is_counted, is_durable, is_of_session)

        def ended(result: Any) -> None:
            call.ends.append(ending(result))
            self.ended_at[token] = self.clock()

        d.addBoth(ended)
        return call

    def happens(self, token: str) -> None:
        """A handler has done its work."""
        self.happened[token] += 1
        self.happened_at[token] = self.clock()

    def turn(self, run_id: str) -> Turn:
        """A run is about to be launched."""
        turn = self.turns[run_id] = Turn(run_id)
        return turn

    def launched(self, turn: Turn, d: Deferred[Any]) -> None:
        """Its launch was asked for."""
        turn.d = d
        d.addBoth(lambda result: turn.ends.append(ending(result)))

    def of(self, run_id: str) -> Done:
        """Return what was done of a run."""
        return self.done.setdefault(run_id, Done())

    def open_calls(self) -> list[Asked]:
        return [call for call in self.calls.values() if call.is_open]

    def open_turns(self) -> list[Turn]:
        return [turn for turn in self.turns.values() if turn.is_open]

    @property
    def is_settled(self) -> bool:
        """Whether every promise has been kept or broken."""
        return (
            not self.open_calls()
            and not self.open_turns()
            and all(response.delivery is not None for response in self.responses)
        )

    def violations(self) -> list[str]:
        """Say everything that does not fit, once all has come to rest."""
        return [
            *(text for call in self.calls.values() for text in self._of_call(call)),
            *(text for turn in self.turns.values() for text in self._of_turn(turn)),
            *(text for response in self.responses for text in self._of_response(response)),
        ]

    def _of_call(self, call: Asked) -> Iterator[str]:
        begun, happened = self.begun[call.token], self.happened[call.token]
        name = f"{call.method} {call.token}"
        if len(call.ends) != 1:
            yield f"{name} ended {len(call.ends)} times: {call.ends}"
            return
        if begun > 1:
            yield f"{name} was begun {begun} times"
        if self.late is not None and call.is_of_session and happened:
            after = self.happened_at[call.token] - self.ended_at[call.token]
            if after > self.late:
                yield f"{name} happened {after:.0f} s after it had ended {call.ends[0]}"
        match call.ends[0]:
            case "succeeded":
                if call.is_counted and happened != 1:
                    yield f"{name} succeeded and happened {happened} times"
            case "not-dispatched":
                if begun:
                    yield f"{name} is said not to have been dispatched, but was"
            case "rejected":
                if happened:
                    yield f"{name} is said to have been refused, but happened"
            case "unknown":
                if call.is_durable and self.is_continuous:
                    yield f"{name} is unknown, though nothing was lost for good"
            case "cancelled":
                pass
            case other:
                yield f"{name} {other}"

    def _of_turn(self, turn: Turn) -> Iterator[str]:
        done, name = self.of(turn.run_id), f"run {turn.run_id}"
        if done.received > 1:
            yield f"{name} was launched {done.received} times"
        if len(turn.ends) != 1:
            yield f"the launch of {name} ended {len(turn.ends)} times: {turn.ends}"
            return
        if turn.events_before_answer:
            yield f"{name} told something before its launch was answered"
        how = turn.ends[0]
        if how == SUCCEEDED:
            yield from self._of_facts(turn, done)
            return
        if turn.events:
            yield f"{name} was not launched ({how}) and told {len(turn.events)} facts"
        if how == "not-dispatched" and done.received:
            yield f"{name} is said not to have been dispatched, but was"
        elif how == "rejected" and done.started:
            yield f"{name} is said to have been refused, but began"
        elif how not in ("not-dispatched", "rejected", "unknown", CANCELLED):
            yield f"the launch of {name} {how}"

    def _of_facts(self, turn: Turn, done: Done) -> Iterator[str]:
        name = f"run {turn.run_id}"
        ends = [e for e in turn.events if isinstance(e, RunEnded)]
        if len(ends) != 1 or turn.events[-1] is not ends[0]:
            yield f"{name} has {len(ends)} ends among {len(turn.events)} facts"
            return
        end = ends[0]
        code = None if end.error is None else end.error.code
        if (end.outcome == "failed") != (code is not None):
            yield f"{name} ended {end.outcome} with code {code}"
        if end.outcome == "interrupted" and not turn.stops:
            yield f"{name} was interrupted by nobody"
        if code == "EXECUTOR_UNAVAILABLE" and done.started:
            yield f"{name} is said never to have begun, but did"
        if code == "OUTCOME_UNKNOWN" and self.is_continuous:
            yield f"{name} has an unknown outcome, though nothing was lost for good"
        if end.outcome == "finished" and done.end != "finished":
            yield f"{name} is said to have finished, but {done.end or 'goes on'}"
        # A run that was stopped before anything was heard of it is not listened to any more.
        was_heard = len(turn.events) > 1
        whole = end.outcome == "finished" or (
            end.outcome == "interrupted" and done.end is not None and was_heard
        )
        yield from rows_wrong(name, turn.events, done.rows if whole else None)

    def _of_response(self, response: Response) -> Iterator[str]:
        delivered = self.delivered[response.occurrence_id]
        name = f"the decision {response.occurrence_id}"
        if delivered > 1:
            yield f"{name} was delivered {delivered} times"
        if response.delivery is None:
            yield f"{name} was never answered"
        elif response.delivery == "confirmed" and delivered != 1:
            yield f"{name} is said to be delivered, but was not"
        elif response.delivery == "not-delivered" and delivered:
            yield f"{name} is said not to be delivered, but was"
        elif response.delivery not in ("confirmed", "not-delivered", "unknown"):
            yield f"{name} {response.delivery}"


def row(run_id: str, number: int, size: int, timestamp: str) -> RowProduced:
    """Return a run's row of this number, padded to a size."""
    head = f"{run_id}{_ROW_MARK}{number}{_ROW_MARK}"
    return RowProduced(message=AssistantMessage(timestamp=timestamp, content=head.ljust(size, ".")))


def rows_wrong(name: str, events: list[RunEvent], published: int | None) -> Iterator[str]:
    """Say what is wrong with a run's rows: each comes once and in order, and where some are missing
    stands exactly one notice.

    `published` is how many there were; None where the end itself says that more may be missing.
    """
    last, notices = 0, 0
    after_notice = False
    for event in events:
        message = event.message if isinstance(event, RowProduced) else None
        if isinstance(message, TranscriptNotice):
            if after_notice:
                yield f"{name} has two notices where rows are missing after row {last}"
            after_notice = True
            notices += 1
            continue
        after_notice = False
        if message is None:
            continue
        assert isinstance(message, AssistantMessage)
        run_id, number_text, _ = message.content.split(_ROW_MARK, 2)
        number = int(number_text)
        if f"run {run_id}" != name:
            yield f"{name} shows a row of run {run_id}"
        if number <= last:
            yield f"{name} shows row {number} after row {last}"
        elif (notices > 0) != (number > last + 1):
            yield f"{name} has {notices} notices between rows {last} and {number}"
        last, notices = number, 0
    if published is not None and (notices > 0) != (last < published):
        yield f"{name} has {notices} notices after row {last} of {published}"
