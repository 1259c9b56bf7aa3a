"""The worker's side of calls that outlive sessions: handlers that go on, the shell around
journal.py and receipts.py, and the answer to ``calls.reconcile`` (control.md J.8).

Nothing here crosses lanes: a call is known to the lane that carried it.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Protocol, cast

from attrs import define
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from garcon.contract.rpc import CallState, Continuity, Lane, Method, ReconcileCalls, ReconciledCalls
from garcon.link import calls, frames
from garcon.link.calls import Numbers
from garcon.link.interfaces import CallContext
from garcon.link.journal import Journal
from garcon.link.outbox import Outbox
from garcon.link.queue import Kind
from garcon.link.receipts import Receipts


@define(eq=False)
class Running:
    """A call whose handler has not settled.

    `wanted`: its caller still waits.  `outbox` is where its reply goes, `home` where it is known.
    """

    id: str
    method: Method
    session: str
    outbox: Outbox
    home: dict[str, Running]
    exempt: bool = False
    integration_id: str = ""
    work: Deferred[Any] | None = None
    wanted: bool = True

    def cancel(self) -> None:
        """Its caller has given up.

        The slot stays taken until the handler has really settled; cancelling it once more would
        only disturb what it still has to do.
        """
        if self.wanted:
            self.wanted = False
            if self.work is not None:
                self.work.cancel()

    def settled(self) -> None:
        """Its handler has ended."""
        if self.home.get(self.id) is self:
            del self.home[self.id]


class Adopting(Protocol):
    """A lane session, as it takes over calls of earlier ones."""

    session_id: str
    is_open: bool

    def adopt(self, running: Running) -> None:
        """Send that call's reply, and take its cancellation."""

    def send_frame(self, text: bytes, kind: Kind) -> bool:
        """Send an encoded frame; False when it is not admitted now."""


class _Lane:
    def __init__(self) -> None:
        self.lost: dict[str, Running] = {}
        """What goes on after its session."""
        self.receipts = Receipts()
        self.owed: deque[str] = deque()
        """Replies that the present session has yet to deliver."""
        self.timer: IDelayedCall | None = None


class Outliving:
    """What a worker knows of journaled calls beyond their sessions."""

    def __init__(self, clock: IReactorTime, retry: float, journal: Journal | None = None) -> None:
        self._clock = clock
        self._retry = retry
        self.journal = Journal() if journal is None else journal
        self._lanes = {lane: _Lane() for lane in Lane}

    def knows(self, lane: Lane, call_id: str) -> bool:
        """Whether a call of this id has been here before."""
        return call_id in self.journal or call_id in self._lanes[lane].lost

    def reply(self, lane: Lane, running: Running, text: bytes, kind: Kind) -> bool:
        """Send a journaled call's reply and keep it; False when its session has no room for it."""
        delivered = running.outbox.send(text, kind)
        if not delivered and running.outbox.is_open:
            return False
        journal = self.journal
        if not journal.keep(lane, running.session, running.id, text, delivered) and not delivered:
            lost = calls.refusal(
                calls.REPLY_LOST, "there was no room to keep the answer", outcome="unknown"
            )
            small = frames.encode(frames.Error(id=running.id, error=calls.error_object(lost)))
            # Where not even this is kept, a reconciliation knows no more than this says.
            journal.keep(lane, running.session, running.id, small, delivered=False)
        return True

    def acknowledged(self, lane: Lane, ids: list[str]) -> None:
        """The caller has these replies."""
        for call_id in ids:
            self.journal.forget(lane, call_id)

    def cancelled(self, lane: Lane, call_id: str) -> None:
        """The caller gave up a call that the present session does not run."""
        self.journal.forget(lane, call_id)
        running = self._lanes[lane].lost.get(call_id)
        if running is not None:
            running.cancel()

    def session_ended(
        self, lane: Lane, session_id: str, numbers: Numbers, running: dict[str, Running]
    ) -> None:
        """Take over what a session has received and what it still runs."""
        here = self._lanes[lane]
        here.receipts.ended(session_id, numbers)
        here.owed.clear()
        self._stop(here)
        for call in list(running.values()):
            if call.method.continuity is Continuity.JOURNALED:
                del running[call.id]
                here.lost[call.id] = call
                call.home = here.lost

    def reconcile(self, request: ReconcileCalls, context: CallContext) -> Deferred[Any]:
        """Say what is known of lost calls; what is not named is not wanted any more."""
        lane, here = context.lane, self._lanes[context.lane]
        session = cast(Adopting, context.session)
        named = {call.id for call in request.calls}
        for call_id, running in list(here.lost.items()):
            if call_id not in named:
                running.cancel()
        self.journal.retain(lane, named, session.session_id)
        states = [
            CallState(call.id, self._state(lane, session, call.id, call.session, call.seq))
            for call in request.calls
        ]
        if here.owed and here.timer is None:
            # After the answer, which is sent when this has returned.
            here.timer = self._clock.callLater(0, self._deliver, lane, session)
        return succeed(ReconciledCalls(states))

    def _state(self, lane: Lane, session: Adopting, call_id: str, sent_on: str, seq: int) -> Any:
        here = self._lanes[lane]
        running = here.lost.get(call_id)
        if running is not None and running.wanted:
            del here.lost[call_id]
            session.adopt(running)
            return "pending"
        if self.journal.find(lane, call_id) is not None:
            here.owed.append(call_id)
            return "pending"
        if running is None and here.receipts.received(sent_on, seq) is False:
            return "not-received"
        return "unknown"

    def _deliver(self, lane: Lane, session: Adopting) -> None:
        """Send owed replies, as far as the queue takes them."""
        here = self._lanes[lane]
        here.timer = None
        while here.owed and session.is_open:
            reply = self.journal.find(lane, here.owed[0])
            if reply is not None:
                if not session.send_frame(reply.text, Kind.ORDINARY):
                    here.timer = self._clock.callLater(self._retry, self._deliver, lane, session)
                    return
                self.journal.delivered(reply, session.session_id)
            # The session may have ended over this reply, and then nothing is owed any more.
            if here.owed:
                here.owed.popleft()

    def give_up(self, lane: Lane) -> None:
        """Nobody will ask for what that lane has lost."""
        here = self._lanes[lane]
        here.owed.clear()
        self._stop(here)
        for running in list(here.lost.values()):
            running.cancel()
        self.journal.retain(lane, (), "")

    def _stop(self, here: _Lane) -> None:
        if here.timer is not None:
            here.timer.cancel()
            here.timer = None
