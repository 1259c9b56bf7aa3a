"""The caller's side of calls that outlive sessions: the shell around parked.py.

One `Continuing` keeps the journaled calls of one lane.  It lends them to the session that is
active, takes back what that loses, has the next one reconcile it, and gives all up when there will
be no next one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol
from uuid import uuid4

from attrs import define, field
from msgspec import Struct
from twisted.internet.defer import Deferred, fail
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from garcon.contract.rpc import RECONCILE, Lane, Method, ReconcileCalls, ReconciledCalls
from garcon.errors import GarconError, LaneLost
from garcon.link import calls, parked
from garcon.link.asking import Asked, Asking, request_head
from garcon.link.calls import Slots
from garcon.link.frames import SEQUENCE_ROOM
from garcon.link.parked import Deadlines, KeptBytes, ParkedCall, Place, Sending
from garcon.link.queue import Progress


class Lender(Protocol):
    """A lane session, as the keeper of its calls sees it."""

    lane: Lane
    session_id: str
    is_open: bool
    asking: Asking

    def call(
        self, method: Method, request: Struct | None, deadline: float | None = ...
    ) -> Deferred[Any]:
        """See `ILaneSession`."""


@define(eq=False, kw_only=True)
class _Kept(Asked):
    """A call, with all that sending it again takes."""

    head: bytes
    core: ParkedCall
    session: Lender | None = field(default=None)

    @property
    def size(self) -> int:
        return len(self.head) + SEQUENCE_ROOM


class Continuing:
    """One lane's calls over all its sessions.

    `may_wait` tells whether a session can be hoped for; `longest_wait` bounds the waiting for one,
    None leaves that to each call's deadline.
    """

    def __init__(
        self,
        lane: Lane,
        clock: IReactorTime,
        slots: Slots,
        room: KeptBytes,
        may_wait: Callable[[], bool],
        *,
        longest_wait: float | None,
        reserve: float,
        retry: float,
    ) -> None:
        self._lane = lane
        self._clock = clock
        self._slots = slots
        self._room = room
        self._may_wait = may_wait
        self._longest_wait = longest_wait
        self._reserve = reserve
        self._retry = retry
        self._calls: dict[str, _Kept] = {}
        self._active: Lender | None = None
        self._later: IDelayedCall | None = None

    def __len__(self) -> int:
        return len(self._calls)

    def count(self, place: Place) -> int:
        """How many calls are there."""
        return sum(1 for kept in self._calls.values() if kept.core.place is place)

    def call(
        self, method: Method, request: Struct | None, seconds: float | None, most: float | None
    ) -> Deferred[Any]:
        """Make a call that may take `seconds` and waits for a session at most `most`."""
        waits = [w for w in (most, self._longest_wait) if w is not None]
        times = parked.deadlines(
            self._clock.seconds(),
            seconds,
            longest_wait=min(waits, default=None),
            reserve=self._reserve,
        )
        try:
            kept = self._admit(method, request, times)
        except GarconError as error:
            return fail(error)
        active = self._open_session()
        if active is not None and self._later is None and not self._lend(kept, active):
            self._forget(kept)
            return fail(calls.busy())
        if kept.id in self._calls:
            self._arm(kept)
        return kept.waiter

    def _admit(self, method: Method, request: Struct | None, times: Deadlines) -> _Kept:
        if self._open_session() is None and not self._may_wait():
            raise LaneLost("it is not connected", outcome="not-dispatched")
        call_id = str(uuid4())
        head = request_head(call_id, method, request)
        if not self._slots.take(self._lane, exempt=False):
            raise calls.busy()
        if not self._room.take(self._lane, len(head) + SEQUENCE_ROOM):
            self._slots.free(self._lane, exempt=False)
            raise calls.busy()

        def abandon(_: Deferred[Any]) -> None:
            self._withdraw(kept)

        kept = self._calls[call_id] = _Kept(
            id=call_id,
            method=method,
            item=None,
            waiter=Deferred(abandon),
            keeper=self,
            head=head,
            core=ParkedCall(call_id, times),
        )
        return kept

    def _open_session(self) -> Lender | None:
        active = self._active
        return active if active is not None and active.is_open else None

    def _lend(self, kept: _Kept, session: Lender) -> bool:
        kept.core.sent()
        kept.session = session
        if session.asking.lend(kept, kept.head):
            return True
        kept.core.not_received()
        kept.session = None
        return False

    # -- one call's end --

    def ended(self, asked: Asked) -> None:
        """See `Keeper`."""
        assert isinstance(asked, _Kept)
        self._forget(asked)

    def session_lost(self, asked: Asked) -> None:
        """See `Keeper`."""
        assert isinstance(asked, _Kept) and asked.session is not None
        sending, item = None, asked.item
        if item is not None and item.progress is Progress.SENT:
            sending = Sending(asked.session.session_id, item.number)
        asked.core.session_lost(sending)
        asked.item = asked.session = None
        if self._may_wait():
            self._arm(asked)
        else:
            self._give_up(asked, "the executor link is down")

    def _forget(self, kept: _Kept) -> None:
        if self._calls.pop(kept.id, None) is None:
            return
        self._stop(kept)
        self._slots.free(self._lane, exempt=False)
        self._room.free(self._lane, kept.size)

    def _withdraw(self, kept: _Kept) -> bool:
        """Forget a call; return whether it may have happened."""
        if kept.session is None:
            self._forget(kept)
            return kept.core.place is not Place.WAITING
        return kept.session.asking.withdraw(kept.id)

    def _give_up(self, kept: _Kept, reason: str) -> None:
        self._forget(kept)
        kept.waiter.errback(LaneLost(reason, outcome=kept.core.outcome))

    # -- one call's time --

    def _arm(self, kept: _Kept) -> None:
        self._stop(kept)
        due = kept.core.due
        if due is not None:
            kept.timer = self._clock.callLater(
                max(0.0, due - self._clock.seconds()), self._expired, kept
            )

    def _stop(self, kept: _Kept) -> None:
        if kept.timer is not None and kept.timer.active():
            kept.timer.cancel()
        kept.timer = None

    def _expired(self, kept: _Kept) -> None:
        kept.timer = None
        if kept.core.place is Place.WAITING:
            self._give_up(kept, "it was not connected again in time")
            return
        begun = self._withdraw(kept)
        kept.waiter.errback(
            calls.refusal(
                calls.DEADLINE_PASSED,
                f"{kept.method.name} was not answered in time",
                outcome="unknown" if begun else "not-dispatched",
                retryable=not begun,
                status=504,
            )
        )

    # -- sessions --

    def reconcile(self, session: Lender, seconds: float | None) -> Deferred[None]:
        """Account for what earlier sessions have lost; fails with `CallError` when that could not
        be done.
        """
        if not session.is_open:
            return fail(LaneLost("this session has ended", outcome="not-dispatched"))
        named = [kept for kept in self._calls.values() if kept.core.place is Place.LOST]
        request = ReconcileCalls(parked.name(kept.core for kept in named))
        for kept in named:
            # A reply may pass the answer, and this session may be lost before it.
            kept.core.sent()
            kept.session = session
            session.asking.await_reply(kept)
        d = session.call(RECONCILE, request, seconds)
        return d.addCallback(self._reconciled, named, session)

    def _reconciled(self, answer: ReconciledCalls, named: list[_Kept], session: Lender) -> None:
        there = {k.id: k for k in named if k.id in self._calls and k.session is session}
        verdict = parked.judge(
            (kept.core for kept in there.values()), answer.states, self._clock.seconds()
        )
        for core in (*verdict.again, *verdict.too_late, *verdict.unknown):
            kept = there[core.id]
            session.asking.give_back(core.id)
            kept.session = None
        for core in verdict.again:
            self._arm(there[core.id])
        for core in verdict.too_late:
            self._give_up(there[core.id], "it was not received, and there is no time to repeat it")
        for core in verdict.unknown:
            kept = there[core.id]
            self._forget(kept)
            kept.waiter.errback(LaneLost("the executor has no record of the call"))

    def activated(self, session: Lender) -> None:
        """Send what waits, and what comes from now on, on this session."""
        self._active = session
        self._send_waiting()

    def deactivated(self) -> None:
        """That session has ended."""
        self._active = None
        if self._later is not None:
            self._later.cancel()
            self._later = None

    def _send_waiting(self) -> None:
        self._later = None
        for kept in [k for k in self._calls.values() if k.core.place is Place.WAITING]:
            active = self._open_session()
            if active is None:
                return
            if kept.id not in self._calls or kept.core.place is not Place.WAITING:
                continue
            if not self._lend(kept, active):
                self._later = self._clock.callLater(self._retry, self._send_waiting)
                return
            if kept.id in self._calls:
                self._arm(kept)

    def give_up(self, reason: str) -> None:
        """There will be no session that knows of these calls: end all that have none."""
        for kept in list(self._calls.values()):
            if kept.id in self._calls and kept.session is None:
                self._give_up(kept, reason)
