"""Calls that outlive their sessions, as their caller knows them (pure; control.md J.8).

A call waits until a session takes it, is then sent, and is lost when that session ends.  The next
session's reconciliation says of each lost call whether its reply follows, whether it has to be sent
again, or that nothing is known of it.  A call of which no complete sending is known has not
happened; of any other that is uncertain.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from attrs import define, field, frozen

from garcon.contract import limits
from garcon.contract.rpc import CallState, Lane, LostCall


class Place(Enum):
    WAITING = "waiting"
    """Never sent, or known never to have been received."""
    SENT = "sent"
    """On the present session, as far as that has come; or its reply will come there."""
    LOST = "lost"
    """Sent whole on a session that has ended."""


@frozen
class Sending:
    """One complete sending of a call."""

    session: str
    seq: int


@frozen
class Deadlines:
    """Until when a call may be sent, and until when its caller waits at all; None is no limit."""

    dispatch_by: float | None
    ends_by: float | None


def deadlines(
    now: float,
    seconds: float | None,
    *,
    longest_wait: float | None,
    reserve: float = limits.DISPATCH_RESERVE,
) -> Deadlines:
    """Return the deadlines of a call that is made now and may take `seconds`.

    `longest_wait` bounds the waiting for a session.  Up to `reserve` of `seconds`, at most half, is
    kept back for the call itself.
    """
    if seconds is None:
        return Deadlines(None if longest_wait is None else now + longest_wait, None)
    seconds = max(seconds, 0.0)
    wait = seconds - min(reserve, seconds / 2)
    if longest_wait is not None:
        wait = min(wait, longest_wait)
    return Deadlines(now + wait, now + seconds)


@define(eq=False)
class ParkedCall:
    """One call's state.  `sending` is the last that may have arrived."""

    id: str
    times: Deadlines
    place: Place = Place.WAITING
    sending: Sending | None = None

    @property
    def due(self) -> float | None:
        """When something must be done about it if nothing happens."""
        dispatch_by, ends_by = self.times.dispatch_by, self.times.ends_by
        if self.place is not Place.WAITING or dispatch_by is None:
            return ends_by
        return dispatch_by if ends_by is None else min(dispatch_by, ends_by)

    def may_be_sent(self, now: float) -> bool:
        """Whether its dispatch deadline is still to come."""
        return self.times.dispatch_by is None or now < self.times.dispatch_by

    @property
    def outcome(self) -> str:
        """What is known of it, were it to end now and its session has ended."""
        return "not-dispatched" if self.place is Place.WAITING else "unknown"

    def sent(self) -> None:
        """A session has taken it."""
        self.place = Place.SENT

    def session_lost(self, sending: Sending | None) -> None:
        """The session that had it ended; `sending` says if it left whole there for the first
        time, None that it did not or that only its reply was awaited.
        """
        if sending is not None:
            self.sending = sending
        self.place = Place.WAITING if self.sending is None else Place.LOST

    def not_received(self) -> None:
        """Its last sending never arrived."""
        self.sending = None
        self.place = Place.WAITING


@frozen
class Verdict:
    """What a reconciliation makes of the calls it named."""

    again: list[ParkedCall] = field(factory=list)
    too_late: list[ParkedCall] = field(factory=list)
    unknown: list[ParkedCall] = field(factory=list)


def name(calls: Iterable[ParkedCall]) -> list[LostCall]:
    """Name lost calls for ``calls.reconcile``."""
    return [
        LostCall(call.id, call.sending.session, call.sending.seq)
        for call in calls
        if call.place is Place.LOST and call.sending is not None
    ]


def judge(named: Iterable[ParkedCall], states: Iterable[CallState], now: float) -> Verdict:
    """Apply the answer to a reconciliation; one that is left out is unknown.

    What is to be sent again waits from here on; what is pending stays as it is.
    """
    told = {state.id: state.state for state in states}
    verdict = Verdict()
    for call in named:
        state = told.get(call.id, "unknown")
        if state == "not-received":
            call.not_received()
            (verdict.again if call.may_be_sent(now) else verdict.too_late).append(call)
        elif state != "pending":
            verdict.unknown.append(call)
    return verdict


@define(eq=False)
class KeptBytes:
    """How much of requests a link keeps so that it can send them again: as much as its queue."""

    total: int = limits.QUEUE_BYTES
    bulk_total: int = limits.QUEUE_BULK_BYTES
    used: int = 0
    bulk_used: int = 0

    def take(self, lane: Lane, size: int) -> bool:
        """Take room; False when there is not enough."""
        bulk = size if lane is Lane.BULK else 0
        if self.used + size > self.total or self.bulk_used + bulk > self.bulk_total:
            return False
        self.used += size
        self.bulk_used += bulk
        return True

    def free(self, lane: Lane, size: int) -> None:
        """Give it back."""
        self.used -= size
        if lane is Lane.BULK:
            self.bulk_used -= size
