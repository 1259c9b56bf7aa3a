"""One authenticated lane: what comes in, by whom it is taken, and how it all ends.

Calls out are in asking.py, calls in in serving.py, sending in outbox.py.  A session is dead for
good once it has ended; its owner, the link, is told twice: first so that it can put up its fences,
then, when every call has failed, so that it can tell others.
"""

from __future__ import annotations

from typing import Any, Protocol

from attrs import define
from msgspec import UNSET, Struct, UnsetType
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from zope.interface import implementer

from garcon.contract.rpc import Lane, Method
from garcon.deferreds import Waiters
from garcon.errors import BadMessage, GarconError, LaneLost
from garcon.link import calls, frames
from garcon.link.acks import Acks
from garcon.link.asking import Asking
from garcon.link.calls import Slots
from garcon.link.causes import Cause, safe_notice
from garcon.link.diagnostics import RoundTrip, SessionState
from garcon.link.fragments import Joiner
from garcon.link.handshake import Agreed
from garcon.link.interfaces import ILaneSession
from garcon.link.liveness import Beat, Heart, Liveness
from garcon.link.noise import Cipher, HandshakeFailed, RecordLimit
from garcon.link.outbox import Outbox
from garcon.link.outliving import Running
from garcon.link.queue import Kind, SendBudget
from garcon.link.serving import Served, Serving
from garcon.link.settings import LinkSettings
from garcon.link.wire import ITicket, IWire, IWireUser


class SessionOwner(Protocol):
    """The link, as its sessions see it."""

    def lane_fenced(self, session: LaneSession) -> None:
        """The session has ended; its calls have not failed yet."""

    def lane_lost(self, session: LaneSession, kind: str, text: str) -> None:
        """The session has ended and its calls have failed."""

    def lane_gone(self, session: LaneSession) -> None:
        """The socket is gone too."""

    def frame_received(self, session: LaneSession, frame: Any) -> None:
        """Something that is not part of a call came; raise `BadMessage` to end the session."""


@define(eq=False)
class Shared:
    """What all sessions of one link have in common."""

    clock: IReactorTime
    settings: LinkSettings
    budget: SendBudget
    outgoing: Slots
    served: Served
    heart: Heart


@implementer(ILaneSession, IWireUser)
class LaneSession:
    """See `ILaneSession`.  `admits`: ordinary calls are sent now."""

    _log = Logger()

    def __init__(
        self,
        owner: SessionOwner,
        shared: Shared,
        agreed: Agreed,
        wire: IWire,
        cipher: Cipher,
        ticket: ITicket | None,
    ) -> None:
        settings, clock = shared.settings, shared.clock
        self.lane = agreed.lane
        self.session_id = agreed.session_id
        self.generation = agreed.generation
        self.peer = agreed.peer
        self.is_open = True
        self.admits = False
        self.began = clock.seconds()
        self.liveness = Liveness(settings.ping_every, settings.dead_after, self.began)
        self._owner = owner
        self._role = shared.served.role
        self._heart = shared.heart
        self._clock = clock
        self._wire = wire
        self._cipher = cipher
        self._ticket = ticket
        self._joiner = Joiner()
        self._round_trip = RoundTrip()
        self._probed: Waiters[None] = Waiters()
        self._outbox = Outbox(
            agreed.lane,
            shared.budget,
            wire,
            cipher,
            self.liveness,
            clock,
            settings.burst,
            self._key_used_up,
        )
        # Only workers keep replies.
        self._acks: Acks | None = None
        if self._role == "controller":
            self._acks = Acks(self._outbox, clock, settings.ack_batch)
        self.asking = self._asking = Asking(
            agreed.lane,
            self._outbox,
            shared.outgoing,
            clock,
            None if self._acks is None else self._acks.add,
        )
        self._serving = Serving(self, agreed.generation, shared.served, self._outbox)
        if agreed.lane is Lane.PRIMARY:
            self.activate()
        wire.user = self
        shared.heart.add(self)

    @property
    def queued_bytes(self) -> int:
        """See `ILaneSession`."""
        return self._outbox.queued_bytes

    def serve(self) -> None:
        """Take ordinary calls from now on."""
        self._serving.is_active = True

    def activate(self) -> None:
        """Take and make ordinary calls from now on."""
        self.serve()
        self.admits = True

    def call(
        self,
        method: Method,
        request: Struct | None,
        deadline: float | UnsetType | None = UNSET,
        integration_id: str = "",
    ) -> Deferred[Any]:
        """See `ILaneSession`."""
        seconds = method.deadline if deadline is UNSET else deadline
        try:
            self._check(method)
            return self._asking.ask(method, request, seconds, integration_id)
        except GarconError as error:
            return fail(error)

    def _check(self, method: Method) -> None:
        if not self.is_open:
            raise LaneLost("this session has ended", outcome="not-dispatched")
        if method.lane not in (None, self.lane):
            raise calls.refusal(calls.WRONG_LANE, f"{method.name} belongs to another lane")
        if method.served_by == self._role:
            raise calls.refusal(calls.METHOD_UNKNOWN, f"{method.name} is served by this side")
        if not self.admits and not method.installation:
            raise LaneLost("this lane is not active yet", outcome="not-dispatched")

    def adopt(self, running: Running) -> None:
        """Answer a call of an earlier session's from now on."""
        self._serving.adopt(running)

    def send_frame(self, text: bytes, kind: Kind) -> bool:
        """Send an encoded frame that is not part of a call; False when it is not admitted now."""
        return self._outbox.send(text, kind)

    def state(self) -> SessionState:
        """Return what the link's diagnostics tell of this session."""
        outbox = self._outbox
        return SessionState(
            self.began,
            self.liveness.heard,
            self._round_trip.latest,
            outbox.queued_bytes,
            outbox.queued_messages,
            outbox.oldest,
        )

    def probe(self) -> Deferred[None]:
        """Ask the peer for a sign of life; fires when it has come or the session has ended."""
        if not self.is_open:
            return succeed(None)
        answered = self._probed.wait()
        if not self._round_trip.is_open:
            self._ping(self._clock.seconds())
        return answered

    def _ping(self, now: float) -> None:
        self._round_trip.asked(now)
        self._outbox.send(frames.PING, Kind.SMALL)

    def _ponged(self) -> None:
        self._round_trip.answered(self._clock.seconds())
        self._probed.fire(None)

    def beat(self, now: float) -> None:
        """See `liveness.Watched`."""
        match self.liveness.check(now, self._wire.buffered):
            case Beat.PING:
                self._ping(now)
            case Beat.PONG:
                self._outbox.pong()
            case Beat.DEAD:
                self.end(Cause.LIVENESS_TIMEOUT, "the other side has not been heard of")

    def woken(self, now: float) -> None:
        """See `liveness.Watched`."""
        self.liveness.test(now)
        self._ping(now)

    # -- the wire --

    def wire_opened(self, wire: IWire) -> None:
        """It was open before there was a session."""

    def record_received(self, record: bytes) -> None:
        """Open a record and act on what it completes."""
        if not self.is_open:
            return
        try:
            plaintext = self._cipher.open(record)
            self.liveness.heard = self._clock.seconds()
            taken = self._joiner.take(plaintext)
            if taken is not None:
                self._take(frames.decode(taken[0]), taken[1])
        except RecordLimit:
            self._key_used_up()
        except HandshakeFailed:
            self.end(Cause.PROTOCOL_ERROR, "a record did not open")
        except BadMessage as error:
            self.end(Cause.PROTOCOL_ERROR, error.text)
        except Exception:
            self._log.failure("a frame of the {lane} lane broke something", lane=self.lane.value)
            self.end(Cause.SESSION_RETIRED, "this side failed")

    def _take(self, frame: Any, whole: bool) -> None:
        kind = type(frame)
        if kind is frames.Request:
            self._serving.request_received(frame, whole, self._joiner.is_open)
            return
        if not whole:
            self._serving.assembled_other()
        if kind is frames.Result:
            self._asking.result_received(frame)
        elif kind is frames.Error:
            self._asking.error_received(frame)
        elif kind is frames.Cancel:
            self._serving.cancel_received(frame.id)
        elif kind is frames.ReplyAck:
            self._serving.replies_acknowledged(frame.ids)
        elif kind is frames.Ping:
            self._outbox.pong()
        elif kind is frames.Close:
            self._end(*safe_notice(frame.kind, frame.text))
        elif kind is frames.Pong:
            self._ponged()
        else:
            self._owner.frame_received(self, frame)

    def wire_writable(self) -> None:
        """The socket asks for more."""
        self._outbox.flush()

    def wire_closed(self, kind: str, text: str) -> None:
        """The socket is gone."""
        self._end(kind, text)
        if self._ticket is not None:
            self._ticket.release()
        self._owner.lane_gone(self)

    # -- the end --

    def end(self, kind: str, text: str) -> None:
        """End the session and tell the peer why, as far as the socket still carries."""
        self._end(kind, text, frames.Close(kind=kind, text=text))

    def _key_used_up(self) -> None:
        self.end(Cause.RECORD_LIMIT, "the key of this connection is used up")

    def _end(self, kind: str, text: str, notice: frames.Close | None = None) -> None:
        if not self.is_open:
            return
        self.is_open = False
        self._heart.remove(self)
        self._outbox.close(notice)
        if self._acks is not None:
            self._acks.close_timer()
        if kind == Cause.LIVENESS_TIMEOUT:
            self._wire.abort()
        else:
            self._wire.close()
        self._owner.lane_fenced(self)
        self._serving.end()
        self._asking.fail(text)
        self._probed.fire(None)
        self._owner.lane_lost(self, kind, text)
