"""Both lanes of one link: sessions, the connections that may become sessions, and the fences
between generations.

`ControllerLink` and `WorkerLink` (link.py) add what only one side does.  Everything here happens in
one reactor turn and in this order when primary ends: bulk and every bulk attempt are fenced, its
calls fail, then primary's calls fail, and only then others are told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal

from twisted.internet.defer import Deferred, DeferredList, succeed
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from garcon.contract.connection_url import secret_bytes
from garcon.contract.diagnostics import LaneDiagnostics, LinkDiagnostics
from garcon.contract.rpc import METHODS, Lane, Method
from garcon.deferreds import Waiters
from garcon.errors import BadMessage
from garcon.link.bulk import BulkState
from garcon.link.calls import Slots
from garcon.link.captured import Captured
from garcon.link.causes import Cause, Stage
from garcon.link.diagnostics import LinkHistory, lane_diagnostics
from garcon.link.frames import PRIMARY_ONLY, encode
from garcon.link.grace import Grace
from garcon.link.handshake import Agreed, Hello, Mine, Refusal, Refused, Terms
from garcon.link.interfaces import Handler, ICapturedLink, ILinkEvents
from garcon.link.liveness import heart_of
from garcon.link.noise import Cipher
from garcon.link.opening import Opening
from garcon.link.outliving import Outliving
from garcon.link.queue import Kind, SendBudget
from garcon.link.redial import Failures, Redial
from garcon.link.serving import Served
from garcon.link.session import LaneSession, Shared
from garcon.link.settings import LinkSettings
from garcon.link.wire import IDialler, ITicket, IWire, IWireUser


class Lanes:
    """What both sides of a link do alike."""

    _log = Logger()

    def __init__(
        self,
        reactor: Any,
        role: Literal["controller", "worker"],
        executor_id: str | None,
        secret: str,
        runtime_id: str,
        events: ILinkEvents,
        handlers: Mapping[str, Handler],
        builtin: Mapping[str, Handler],
        dial: IDialler | None,
        settings: LinkSettings | None,
        methods: Mapping[str, Method] | None,
        outliving: Outliving | None = None,
    ) -> None:
        secret_bytes(
            secret
        )  # A malformed secret is a bug of the caller's, found here and not at each connection.
        self.executor_id = executor_id
        self.last_error: tuple[str, str] | None = None
        self.bulk_error: tuple[str, str] | None = None
        self._reactor = reactor
        self._role: Literal["controller", "worker"] = role
        self._secret = secret
        self._runtime_id = runtime_id
        self._events = events
        self._dial = dial
        self._settings = settings or LinkSettings()
        self._shared = Shared(
            reactor,
            self._settings,
            SendBudget(),
            Slots(),
            Served(
                role,
                METHODS if methods is None else methods,
                handlers,
                builtin,
                Slots(),
                outliving,
            ),
            heart_of(reactor, self._settings.slept),
        )
        self._captured: Captured | None = None
        self._bulk: LaneSession | None = None
        self._bulk_state = BulkState()
        self._told_phase = self._bulk_state.phase
        self._openings: set[Opening] = set()
        self._sockets: set[Opening | LaneSession] = set()
        self._redial = Redial(self._settings.redial_delays, self._settings.redial_reset_after)
        self._redial_timer: IDelayedCall | None = None
        self._failures = Failures(self._settings.notice_every)
        self._history = LinkHistory()
        self._started = False
        self._closed = False
        self._all_gone: Waiters[None] = Waiters()
        self._graces = {
            lane: Grace(reactor, self._settings.grace, partial(self._grace_over, lane))
            for lane in Lane
        }

    # -- ILink --

    @property
    def bulk_phase(self) -> str:
        """See `ILink`."""
        return self._bulk_state.phase.value

    @property
    def accepts_sockets(self) -> bool:
        """Whether the peer dials us, and may."""
        return self._dial is None and not self._closed

    def current(self) -> ICapturedLink | None:
        """See `ILink`."""
        captured = self._captured
        return captured if captured is not None and captured.is_current else None

    def probe(self) -> Deferred[None]:
        """See `ILink`."""
        sessions = [s for s in (self._primary_session, self._bulk) if s is not None]
        probes = [s.probe() for s in sessions]
        return DeferredList(probes, consumeErrors=True).addCallback(lambda _: None)

    @property
    def _primary_session(self) -> LaneSession | None:
        return None if self._captured is None else self._captured.primary

    def diagnostics(self) -> LinkDiagnostics:
        """See `ILink`."""
        history = self._history
        controller_dials = (self._role == "controller") == (self._dial is not None)
        return LinkDiagnostics(
            dialled_by="controller" if controller_dials else "worker",
            through_proxy=self._dial is not None and self._dial.is_proxied,
            version=self._settings.version,
            peer_version=history.peer_version,
            outgoing_calls=self._shared.outgoing.used,
            incoming_calls=self._shared.served.slots.used,
            wrong_secrets=history.wrong_secrets(self._reactor.seconds()),
            primary=self._diagnosed(
                Lane.PRIMARY, self._primary_session, self._primary_phase(), self._redial_timer
            ),
            bulk=self._diagnosed(Lane.BULK, self._bulk, self.bulk_phase, self._bulk_redial_timer()),
        )

    def _diagnosed(
        self, lane: Lane, session: LaneSession | None, phase: str, redial: IDelayedCall | None
    ) -> LaneDiagnostics:
        stages = [o.stage for o in self._openings if (o.lane or Lane.PRIMARY) is lane]
        return lane_diagnostics(
            self._history.of(lane),
            None if session is None else session.state(),
            phase,
            stages[0] if stages and session is None else None,
            None if redial is None else redial.getTime(),
            self._reactor.seconds(),
        )

    def _primary_phase(self) -> str:
        if self.current() is not None:
            return "connected"
        if self._closed or not self._started:
            return "offline"
        if any(opening.lane is not Lane.BULK for opening in self._openings):
            return "connecting"
        return "listening" if self._dial is None else "waiting"

    def _bulk_redial_timer(self) -> IDelayedCall | None:
        """Return what will begin the next bulk attempt, on the side that begins them."""
        return None

    def start(self) -> None:
        """Begin to dial, if this side dials."""
        self._started = True
        self._schedule_dial()

    def close(self, cause: str) -> Deferred[None]:
        """See `ILink`.  Fires when every socket is gone."""
        self._closed = True
        self._stop_redial()
        for grace in self._graces.values():
            grace.end()
        for opening in list(self._openings):
            self._openings.discard(opening)
            opening.abandon()
        if self._captured is not None:
            self._captured.primary.end(Cause.LOCAL_CLOSE, cause)
        self._forget_lost(*Lane)
        if not self._sockets:
            return succeed(None)
        return self._all_gone.wait()

    def _is_in_grace(self) -> bool:
        """Whether calls of this link may still find the session they belong to."""
        return not self._closed and (
            self.current() is not None or self._graces[Lane.PRIMARY].is_running
        )

    def _grace_over(self, lane: Lane) -> None:
        self._forget_lost(*(Lane if lane is Lane.PRIMARY else (lane,)))

    def _forget_lost(self, *lanes: Lane) -> None:
        """Nothing of the ended sessions of these lanes can be regained any more."""
        raise NotImplementedError

    # -- connections --

    def answer(self, ticket: ITicket | None = None) -> IWireUser:
        """Return who speaks for this link on a socket that was just accepted for it."""
        assert self.accepts_sockets
        return self._open(None, ticket)

    def _open(self, terms: Terms | None, ticket: ITicket | None = None) -> Opening:
        mine = Mine(
            self._role,
            self.executor_id,
            self._runtime_id,
            self._secret,
            self._settings.version,
        )
        opening = Opening(
            self, self._reactor, self._settings, mine, self._judge, terms=terms, ticket=ticket
        )
        self._openings.add(opening)
        self._sockets.add(opening)
        if terms is not None:
            assert self._dial is not None
            opening.attempt = self._dial.dial(self._reactor, opening, self._settings.close_time)
        return opening

    def _judge(self, hello: Hello) -> Terms:
        """Say what this side answers to a hello, or why it refuses it (control.md J.2)."""
        if None not in (hello.executor_id, self.executor_id) and (
            hello.executor_id != self.executor_id
        ):
            raise Refused(Refusal.WRONG_EXECUTOR, "this link belongs to another executor")
        if hello.lane is Lane.BULK:
            return self._judge_bulk(hello)
        if self.current() is not None:
            raise Refused(Refusal.SECOND_PRIMARY, "this executor is connected already")
        return Terms(Lane.PRIMARY, self._primary_session_id(hello))

    def _primary_session_id(self, hello: Hello) -> str | None:
        raise NotImplementedError

    def _judge_bulk(self, hello: Hello) -> Terms:
        captured = self._captured
        if captured is None or not captured.is_current:
            raise Refused(Refusal.STALE_PRIMARY, "the primary of this bulk lane has ended")
        if hello.primary_session_id != captured.generation:
            raise Refused(Refusal.STALE_PRIMARY, "this bulk lane belongs to another primary")
        if self._bulk is not None:
            raise Refused(Refusal.SECOND_BULK, "there is a bulk lane already")
        if not self._bulk_state.grants(hello.session_id):
            raise Refused(Refusal.NOT_GRANTED, "this bulk lane was not asked for")
        if hello.runtime_id != captured.peer.runtime_id:
            raise Refused(Refusal.RUNTIME_MISMATCH, "another process than primary's dialled")
        return Terms(Lane.BULK, hello.session_id, hello.primary_session_id)

    def lane_agreed(self, opening: Opening, agreed: Agreed, wire: IWire, cipher: Cipher) -> None:
        """See `OpeningOwner`."""
        if self._closed:
            raise Refused(Refusal.STALE_PRIMARY, "this side is closing")
        # Another connection may have been first since the hellos were judged.
        if agreed.lane is Lane.PRIMARY and self.current() is not None:
            raise Refused(Refusal.SECOND_PRIMARY, "this executor is connected already")
        if agreed.lane is Lane.BULK and (
            self._bulk is not None
            or not self._bulk_state.grants(agreed.session_id)
            or self._captured is None
            or agreed.generation != self._captured.generation
        ):
            raise Refused(Refusal.NOT_GRANTED, "this bulk lane is no longer wanted")
        self._openings.discard(opening)
        self._sockets.discard(opening)
        self._history.agreed(agreed.lane)
        session = LaneSession(self, self._shared, agreed, wire, cipher, opening.ticket)
        self._sockets.add(session)
        if agreed.lane is Lane.PRIMARY:
            self._install_primary(session)
        else:
            self._install_bulk(session)

    def _install_primary(self, session: LaneSession) -> None:
        self.executor_id = session.peer.executor_id
        self._stop_redial()
        self.last_error = self.bulk_error = None
        self._captured = Captured(session, self._reactor, self._settings.bulk_wait)
        self._log.info("executor {executor}: linked", executor=self.executor_id)
        self._tell(self._events.primary_installed, self._captured)
        if session.is_open:
            self._primary_ready()

    def _install_bulk(self, session: LaneSession) -> None:
        self._bulk = session
        self._bulk_state.attached(session.session_id)
        self._tell_phase()
        if session.is_open:
            self._bulk_attached(session)

    def _primary_ready(self) -> None:
        """The owner knows of the new primary."""

    def _bulk_attached(self, session: LaneSession) -> None:
        """A bulk session is there, not active yet."""

    def _activate(self, session: LaneSession) -> None:
        """Let ordinary calls go out on bulk."""
        session.activate()
        self.bulk_error = None
        self._tell_phase()
        if session.is_open and self._captured is not None:
            self._captured.bulk_ready(session)

    def opening_failed(self, opening: Opening, kind: str, text: str) -> None:
        """See `OpeningOwner`."""
        self._openings.discard(opening)
        lane = opening.lane or Lane.PRIMARY
        if opening.peer_version is not None:
            self._history.peer_version = opening.peer_version
        if opening.is_stranger:
            self._history.stranger_came(self._reactor.seconds())
        self._history.of(lane).attempts += 1
        self._note(lane, kind, text, opening.stage, is_proven=opening.is_proven)
        if opening.terms is None:
            return
        if lane is Lane.PRIMARY:
            self._schedule_dial()
        else:
            self._bulk_failed(opening.terms.session_id)

    def opening_gone(self, opening: Opening) -> None:
        """See `OpeningOwner`."""
        self._openings.discard(opening)
        self._gone(opening)

    def _bulk_failed(self, session_id: str | None) -> None:
        """The attempt or session of this id is over; say so or begin again."""
        raise NotImplementedError

    def _abandon_bulk(self) -> None:
        """Drop bulk and whatever might become it."""
        for opening in list(self._openings):
            if opening.lane is Lane.BULK:
                self._openings.discard(opening)
                opening.abandon()
        bulk, self._bulk = self._bulk, None
        if bulk is not None:
            bulk.end(Cause.SESSION_RETIRED, "a newer state of the link has replaced it")

    # -- sessions --

    def lane_fenced(self, session: LaneSession) -> None:
        """See `SessionOwner`."""
        if not self._closed:
            self._graces[session.lane].begin()
        if session is self._bulk:
            self._bulk = None
        elif session.lane is Lane.PRIMARY:
            self._bulk_state.primary_lost()
            self._abandon_bulk()

    def lane_lost(self, session: LaneSession, kind: str, text: str) -> None:
        """See `SessionOwner`."""
        lived = self._reactor.seconds() - session.began
        if session.lane is Lane.BULK:
            if self._bulk_state.session_id == session.session_id:
                self._note(Lane.BULK, kind, text)
                self._bulk_lived(lived)
                self._bulk_failed(session.session_id)
            return
        captured, self._captured = self._captured, None
        assert captured is not None and captured.primary is session
        self._redial.lived(lived)
        if not self._closed:
            self._note(Lane.PRIMARY, kind, text)
        self._log.info(
            "executor {executor}: link ended: {cause}", executor=self.executor_id, cause=kind
        )
        captured.lost(text)
        self._tell_phase()
        self._tell(self._events.primary_lost, captured, str(kind))
        self._schedule_dial()

    def _bulk_lived(self, seconds: float) -> None:
        """A bulk session has ended after so long."""

    def lane_gone(self, session: LaneSession) -> None:
        """See `SessionOwner`."""
        self._gone(session)

    def _gone(self, socket: Opening | LaneSession) -> None:
        self._sockets.discard(socket)
        if self._closed and not self._sockets:
            self._all_gone.fire(None)

    def frame_received(self, session: LaneSession, frame: Any) -> None:
        """See `SessionOwner`."""
        if session.lane is not Lane.PRIMARY or not isinstance(frame, PRIMARY_ONLY):
            raise BadMessage("a frame on the wrong lane")
        self._primary_frame(session, frame)

    def _primary_frame(self, session: LaneSession, frame: Any) -> None:
        raise NotImplementedError

    def _say(self, frame: Any) -> None:
        """Send a bulk life cycle frame."""
        captured = self._captured
        if captured is None or not captured.is_current:
            return
        if not captured.primary.send_frame(encode(frame), Kind.CONTROL):
            captured.primary.end(Cause.SESSION_RETIRED, "a control frame found no room")

    # -- dialling and failures --

    def _schedule_dial(self) -> None:
        if (
            self._dial is not None
            and self._started
            and not self._closed
            and self._redial_timer is None
            and self.current() is None
        ):
            self._redial_timer = self._reactor.callLater(
                self._redial.next_delay(), self._dial_primary
            )

    def _dial_primary(self) -> None:
        self._redial_timer = None
        self._open(self._primary_terms())

    def _primary_terms(self) -> Terms:
        raise NotImplementedError

    def _stop_redial(self) -> None:
        if self._redial_timer is not None:
            self._redial_timer.cancel()
            self._redial_timer = None

    def _note(
        self,
        lane: Lane,
        kind: str,
        text: str,
        stage: str = Stage.SESSION,
        *,
        is_proven: bool = True,
    ) -> None:
        now = self._reactor.seconds()
        history = self._history.of(lane)
        is_last = history.failed(str(kind), stage, text, now, is_proven=is_proven)
        if is_last and lane is Lane.BULK:
            self.bulk_error = (str(kind), text)
        elif is_last:
            self.last_error = (str(kind), text)
        log, tell = self._failures.note(kind, now, tells=is_last)
        if log:
            self._log.warn(
                "{subject}: {lane} lane: {kind}: {text} (so far {count})",
                subject=f"executor {self.executor_id}" if self.executor_id else "not linked yet",
                lane=lane.value,
                kind=str(kind),
                text=text,
                count=self._failures.counts[kind],
            )
        if tell:
            self._tell(self._events.link_failed, str(kind), text)

    def _tell_phase(self) -> None:
        phase = self._bulk_state.phase
        if phase is not self._told_phase:
            self._told_phase = phase
            self._tell(self._events.bulk_changed, phase.value)

    def _tell(self, event: Callable[..., None], *arguments: Any) -> None:
        """Tell the owner; its failure must not stop the link from looking after itself."""
        try:
            event(*arguments)
        except Exception:
            self._log.failure("the link's owner failed in {event}", event=event.__name__)
