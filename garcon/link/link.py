"""The two ends of a link.  See `ILink` for what they offer and lanes.py for what they share."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, TypeVar
from uuid import uuid4

import msgspec
from msgspec import UNSET, Struct, UnsetType
from twisted.internet.defer import Deferred, fail
from twisted.internet.interfaces import IDelayedCall
from zope.interface import implementer

from garcon.contract.limits import FRAGMENT
from garcon.contract.rpc import (
    RECONCILE,
    Continuity,
    Lane,
    Method,
    ProducerFrame,
    ReconcileCalls,
)
from garcon.contract.terminals import TerminalDetach, TerminalNotification, TerminalOutput
from garcon.deferreds import returns_deferred
from garcon.errors import BadMessage, CallError, LaneLost, LimitExceeded
from garcon.link import calls, frames
from garcon.link.bulk import Phase
from garcon.link.causes import Cause, Stage
from garcon.link.continuing import Continuing
from garcon.link.handshake import Hello, Terms
from garcon.link.interfaces import CallContext, Handler, ILink, ILinkEvents, ITerminalEvents
from garcon.link.lanes import Lanes
from garcon.link.outliving import Outliving
from garcon.link.parked import KeptBytes
from garcon.link.queue import Kind, fits
from garcon.link.redial import Redial
from garcon.link.session import LaneSession
from garcon.link.settings import LinkSettings
from garcon.link.wire import IDialler

T = TypeVar("T", bound=Struct)


class _Stage(Enum):
    """How far the owner has come with the present generation."""

    INSTALLING = "installing"
    RECONCILING = "reconciling"
    RECONCILED = "reconciled"
    ACTIVE = "active"


@implementer(ILink)
class ControllerLink(Lanes):
    """The controller's end: mints sessions and drives bulk.  Without `dial` the worker dials us."""

    def __init__(
        self,
        reactor: Any,
        executor_id: str,
        secret: str,
        runtime_id: str,
        events: ILinkEvents,
        handlers: Mapping[str, Handler],
        dial: IDialler | None,
        *,
        settings: LinkSettings | None = None,
        methods: Mapping[str, Method] | None = None,
    ) -> None:
        super().__init__(
            reactor,
            "controller",
            executor_id,
            secret,
            runtime_id,
            events,
            handlers,
            {},
            dial,
            settings,
            methods,
        )
        self._bulk_redial = Redial(self._settings.redial_delays, self._settings.redial_reset_after)
        self._bulk_timer: IDelayedCall | None = None
        self._runtime_id_before: str | None = None
        self._stage = _Stage.INSTALLING
        kept = KeptBytes()
        self._continuing = {
            lane: Continuing(
                lane,
                reactor,
                self._shared.outgoing,
                kept,
                self._is_in_grace,
                longest_wait=self._settings.bulk_wait if lane is Lane.BULK else None,
                reserve=self._settings.dispatch_reserve,
                retry=self._settings.retry,
            )
            for lane in Lane
        }

    def call(
        self,
        method: Method,
        request: Struct | None,
        *,
        deadline: float | UnsetType | None = UNSET,
        interactive: bool = False,
    ) -> Deferred[Any]:
        """See `ILink`."""
        if method.continuity is Continuity.JOURNALED and method.lane is not None:
            most = self._settings.interactive_wait if interactive else None
            seconds = method.deadline if deadline is UNSET else deadline
            if deadline is UNSET and most is not None:
                seconds = most if seconds is None else min(seconds, most)
            return self._continuing[method.lane].call(method, request, seconds, most)
        captured = self._captured
        if (
            captured is None
            or not captured.is_current
            or not (self._stage is _Stage.ACTIVE or method.installation)
        ):
            return fail(LaneLost("it is not connected", outcome="not-dispatched"))
        return captured.call(method, request, deadline=deadline)

    @returns_deferred
    async def reconcile_primary(self) -> None:
        """See `ILink`."""
        captured = self._captured
        if captured is None or not captured.is_current:
            raise LaneLost("it is not connected", outcome="not-dispatched")
        assert self._stage is _Stage.INSTALLING, "once for each generation"
        self._stage = _Stage.RECONCILING
        session = captured.primary
        try:
            await self._continuing[Lane.PRIMARY].reconcile(session, RECONCILE.deadline)
        except CallError as error:
            self._not_reconciled(session, error)
            raise
        if session.is_open:
            self._stage = _Stage.RECONCILED

    def activate(self) -> None:
        """See `ILink`."""
        captured = self._captured
        if captured is None or not captured.is_current:
            return
        assert self._stage is _Stage.RECONCILED, "reconcile_primary comes first"
        self._stage = _Stage.ACTIVE
        self._graces[Lane.PRIMARY].end()
        self._continuing[Lane.PRIMARY].activated(captured.primary)
        if captured.bulk is not None:
            self._continuing[Lane.BULK].activated(captured.bulk)

    def _install_primary(self, session: LaneSession) -> None:
        before, self._runtime_id_before = self._runtime_id_before, session.peer.runtime_id
        self._stage = _Stage.INSTALLING
        if before not in (None, session.peer.runtime_id):
            self._forget_lost(*Lane)
        super()._install_primary(session)

    def lane_lost(self, session: LaneSession, kind: str, text: str) -> None:
        """See `SessionOwner`."""
        self._continuing[session.lane].deactivated()
        super().lane_lost(session, kind, text)

    def _activate(self, session: LaneSession) -> None:
        self._graces[Lane.BULK].end()
        super()._activate(session)
        if session.is_open and self._stage is _Stage.ACTIVE:
            self._continuing[Lane.BULK].activated(session)

    def _forget_lost(self, *lanes: Lane) -> None:
        for lane in lanes:
            self._continuing[lane].give_up("the worker that knew of the call is gone")

    def send_producer(self, seq: int, frame: Struct) -> bool:
        """Only a worker produces."""
        raise AssertionError("a controller sends no producer frames")

    def acknowledge(self, acknowledgements: dict[str, int]) -> None:
        """See `ILink`."""
        captured = self._captured
        if captured is not None and acknowledgements:
            acks = [frames.Acknowledgement(b, n) for b, n in acknowledgements.items()]
            text = frames.encode(frames.ProducerAck(acknowledgements=acks))
            captured.primary.send_frame(text, Kind.SMALL)

    def send_terminal(self, notification: TerminalNotification) -> bool:
        """Only a worker tells of its terminals."""
        raise AssertionError("a controller sends no terminal events")

    def detach_terminal(self, attachment_id: str) -> None:
        """See `ILink`."""
        self._say_of_terminals(
            frames.TerminalDetach(request=TerminalDetach(attachment_id=attachment_id))
        )

    def take_terminals(self, taken: dict[str, int]) -> None:
        """See `ILink`."""
        if taken:
            numbers = [frames.Taken(name, number) for name, number in taken.items()]
            self._say_of_terminals(frames.TerminalTaken(taken=numbers))

    def _say_of_terminals(self, frame: frames.Frame) -> None:
        captured = self._captured
        if captured is not None:
            captured.primary.send_frame(frames.encode(frame), Kind.SMALL)

    def _primary_session_id(self, hello: Hello) -> str:
        return str(uuid4())

    def _primary_terms(self) -> Terms:
        return Terms(Lane.PRIMARY, str(uuid4()))

    # -- bulk --

    def _primary_ready(self) -> None:
        self._bulk_redial = Redial(self._settings.redial_delays, self._settings.redial_reset_after)
        self._bulk_redial.next_delay()
        self._begin_bulk()

    def _begin_bulk(self) -> None:
        self._bulk_timer = None
        session_id = str(uuid4())
        self._bulk_state.prepare(session_id)
        self._limit_step(self._settings.bulk_step)
        self._tell_phase()
        self._say(frames.BulkPrepare(session_id))

    def _bulk_redial_timer(self) -> IDelayedCall | None:
        return self._bulk_timer if self._bulk_state.phase is Phase.RECONNECTING else None

    def _limit_step(self, seconds: float | None) -> None:
        """Give the present step its time; None ends the last step's."""
        if self._bulk_timer is not None:
            self._bulk_timer.cancel()
            self._bulk_timer = None
        if seconds is not None:
            self._bulk_timer = self._reactor.callLater(seconds, self._step_too_long)

    def _step_too_long(self) -> None:
        self._bulk_timer = None
        phase = self._bulk_state.phase
        stages = [o.stage for o in self._openings if o.lane is Lane.BULK]
        self._note(
            Lane.BULK,
            Cause.HANDSHAKE_TIMEOUT,
            f"bulk was too long {phase}",
            stages[0] if stages else Stage.SESSION,
        )
        self._bulk_failed(self._bulk_state.session_id)

    def _bulk_failed(self, session_id: str | None) -> None:
        if not self._bulk_state.lost(session_id):
            return
        self._limit_step(None)
        self._abandon_bulk()
        if self.current() is not None:
            self._bulk_timer = self._reactor.callLater(
                self._bulk_redial.next_delay(), self._begin_bulk
            )
        self._tell_phase()

    def _bulk_lived(self, seconds: float) -> None:
        self._bulk_redial.lived(seconds)

    def lane_fenced(self, session: LaneSession) -> None:
        """See `SessionOwner`."""
        if session.lane is Lane.PRIMARY:
            self._limit_step(None)
        super().lane_fenced(session)

    def _bulk_attached(self, session: LaneSession) -> None:
        self._limit_step(self._settings.bulk_reconciling)
        d = self._continuing[Lane.BULK].reconcile(session, None)
        d.addCallbacks(
            lambda _: self._reconciled(session), lambda f: self._not_reconciled(session, f.value)
        )

    def _reconciled(self, session: LaneSession) -> None:
        if self._bulk_state.reconciled(session.session_id):
            self._limit_step(self._settings.bulk_step)
            # The worker's first calls may come before its word on primary that it is active.
            session.serve()
            self._tell_phase()
            self._say(frames.BulkActivate(session.session_id))

    def _not_reconciled(self, session: LaneSession, error: BaseException | None) -> None:
        if session.is_open:
            session.end(Cause.SESSION_RETIRED, "its calls could not be reconciled")

    def _primary_frame(self, session: LaneSession, frame: Any) -> None:
        match frame:
            case frames.Producer():
                self._produced(frame)
            case frames.Terminal() if ITerminalEvents.providedBy(self._events):
                self._events.terminal_received(_decoded(frame.notification, TerminalNotification))
            case frames.BulkPrepared():
                self._prepared(session, frame.session_id)
            case frames.BulkActive():
                bulk = self._bulk
                if bulk is not None and self._bulk_state.active(frame.session_id):
                    self._limit_step(None)
                    self._activate(bulk)
            case frames.BulkLost():
                bulk = self._bulk
                if bulk is not None and bulk.session_id == frame.session_id:
                    # The word on primary was faster than the end of bulk's own socket.
                    bulk.end(Cause.SOCKET_CLOSED, "the worker has lost the bulk lane")
                else:
                    self._bulk_failed(frame.session_id)
            case _:
                raise BadMessage("a frame of the wrong direction")

    def _prepared(self, session: LaneSession, session_id: str) -> None:
        if not self._bulk_state.prepared(session_id):
            return
        self._limit_step(self._settings.bulk_step)
        self._tell_phase()
        if self._dial is None:
            self._say(frames.BulkConnect(session_id))
        else:
            self._open(Terms(Lane.BULK, session_id, session.session_id))

    def _produced(self, frame: frames.Producer) -> None:
        notification = _decoded(frame.notification, ProducerFrame)
        self._events.producer_received(notification.binding_id, frame.seq, notification)


@implementer(ILink)
class WorkerLink(Lanes):
    """The worker's end.  It learns its executor id from the first controller that proves itself,
    and keeps it.
    """

    def __init__(
        self,
        reactor: Any,
        secret: str,
        runtime_id: str,
        events: ILinkEvents,
        handlers: Mapping[str, Handler],
        dial: IDialler | None,
        executor_id: str | None = None,
        *,
        settings: LinkSettings | None = None,
        methods: Mapping[str, Method] | None = None,
    ) -> None:
        outliving = Outliving(reactor, (settings or LinkSettings()).retry)
        super().__init__(
            reactor,
            "worker",
            executor_id,
            secret,
            runtime_id,
            events,
            handlers,
            {RECONCILE.name: self._answer_reconciliation},
            dial,
            settings,
            methods,
            outliving,
        )
        self._outliving = outliving

    def call(
        self,
        method: Method,
        request: Struct | None,
        *,
        deadline: float | UnsetType | None = UNSET,
        interactive: bool = False,
    ) -> Deferred[Any]:
        """See `ILink`.  What a worker asks lives no longer than its session."""
        captured = self._captured
        if captured is None or not captured.is_current:
            return fail(LaneLost("it is not connected", outcome="not-dispatched"))
        return captured.call(method, request, deadline=deadline)

    def reconcile_primary(self) -> Deferred[None]:
        """Only a controller reconciles."""
        raise AssertionError("a worker is asked to reconcile")

    def activate(self) -> None:
        """Only a controller installs sessions."""
        raise AssertionError("a worker serves primary at once")

    def _answer_reconciliation(
        self, request: ReconcileCalls, context: CallContext
    ) -> Deferred[Any]:
        self._graces[context.lane].end()
        return self._outliving.reconcile(request, context)

    def _forget_lost(self, *lanes: Lane) -> None:
        for lane in lanes:
            self._outliving.give_up(lane)

    def send_producer(self, seq: int, frame: Struct) -> bool:
        """See `ILink`.  Raises `LimitExceeded` for a frame that no message can hold."""
        captured = self._captured
        if captured is None or not self._shared.budget.admits(Lane.PRIMARY, Kind.PRODUCER, 0):
            return False
        text = frames.producer(seq, frames.encode(frame))
        if not fits(text):
            raise LimitExceeded(calls.MESSAGE_TOO_LARGE, "a producer frame is too large")
        return captured.primary.send_frame(text, Kind.PRODUCER)

    def acknowledge(self, acknowledgements: dict[str, int]) -> None:
        """Only a controller acknowledges."""
        raise AssertionError("a worker acknowledges nothing")

    def send_terminal(self, notification: TerminalNotification) -> bool:
        """See `ILink`."""
        captured = self._captured
        is_output = isinstance(notification.event, TerminalOutput)
        kind = Kind.TERMINAL if is_output else Kind.ORDINARY
        if captured is None or not self._shared.budget.admits(Lane.PRIMARY, kind, 0):
            return False
        text = frames.terminal(frames.encode(notification))
        if len(text) > FRAGMENT:
            # A longer one would leave in pieces, and shorter ones would overtake it.
            raise LimitExceeded(calls.MESSAGE_TOO_LARGE, "a terminal event is too large")
        return captured.primary.send_frame(text, kind)

    def detach_terminal(self, attachment_id: str) -> None:
        """Only a controller detaches."""
        raise AssertionError("a worker detaches through its terminals")

    def take_terminals(self, taken: dict[str, int]) -> None:
        """Only a controller takes output."""
        raise AssertionError("a worker takes no output")

    def _primary_session_id(self, hello: Hello) -> str | None:
        return hello.session_id

    def _primary_terms(self) -> Terms:
        return Terms(Lane.PRIMARY)

    # -- bulk --

    def _primary_frame(self, session: LaneSession, frame: Any) -> None:
        match frame:
            case frames.ProducerAck():
                self._events.producer_acknowledged(
                    {a.binding_id: a.seq for a in frame.acknowledgements}
                )
            case frames.TerminalTaken() if ITerminalEvents.providedBy(self._events):
                self._events.terminals_taken({t.attachment_id: t.sequence for t in frame.taken})
            case frames.TerminalDetach() if ITerminalEvents.providedBy(self._events):
                self._events.terminal_detached(frame.request.attachment_id)
            case frames.BulkPrepare():
                self._prepare(frame.session_id)
            case frames.BulkConnect():
                self._connect(session, frame.session_id)
            case frames.BulkActivate():
                bulk = self._bulk
                if bulk is not None and self._bulk_state.active(frame.session_id):
                    self._say(frames.BulkActive(frame.session_id))
                    self._activate(bulk)
                else:
                    self._say(frames.BulkLost(frame.session_id))
            case _:
                raise BadMessage("a frame of the wrong direction")

    def _prepare(self, session_id: str) -> None:
        self._bulk_state.prepare(session_id)
        self._abandon_bulk()
        self._bulk_state.prepared(session_id)
        self._tell_phase()
        self._say(frames.BulkPrepared(session_id))

    def _connect(self, session: LaneSession, session_id: str) -> None:
        if self._dial is not None and self._bulk_state.grants(session_id):
            self._open(Terms(Lane.BULK, session_id, session.session_id))
        else:
            self._say(frames.BulkLost(session_id))

    def _bulk_failed(self, session_id: str | None) -> None:
        if session_id is not None and self._bulk_state.lost(session_id):
            self._tell_phase()
            self._say(frames.BulkLost(session_id))


def _decoded(content: msgspec.Raw, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise BadMessage("malformed data") from None
