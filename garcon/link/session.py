"""One authenticated lane: calls out, calls in, and everything else that crosses it.

The shell around fragments.py, frames.py, queue.py, calls.py and liveness.py.  A session is dead for
good once it has ended; its owner, the link, is told twice: first so that it can put up its fences,
then, when every call has failed, so that it can tell others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol
from uuid import uuid4

import msgspec
from attrs import define
from msgspec import UNSET, Struct, UnsetType
from twisted.internet.defer import CancelledError, Deferred, fail
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from garcon.contract.ids import is_uuid4
from garcon.contract.rpc import Continuity, Lane, Method
from garcon.errors import BadMessage, GarconError, LaneLost
from garcon.link import calls, frames
from garcon.link.calls import Numbers, Slots
from garcon.link.causes import Cause, safe_notice
from garcon.link.fragments import WHOLE, Joiner
from garcon.link.handshake import Agreed
from garcon.link.interfaces import CallContext, Guarded, Handler, ILaneSession
from garcon.link.liveness import Beat, Heart, Liveness
from garcon.link.noise import Cipher, HandshakeFailed, RecordLimit
from garcon.link.queue import Item, Kind, LaneQueue, Progress, SendBudget, fits
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
    role: Literal["controller", "worker"]
    handlers: Mapping[str, Handler]
    methods: Mapping[str, Method]
    budget: SendBudget
    outgoing: Slots
    incoming: Slots
    heart: Heart


@define(eq=False)
class _Asked:
    """A call of ours that has not ended."""

    id: str
    method: Method
    item: Item
    waiter: Deferred[Any]
    timer: IDelayedCall | None = None


@define(eq=False)
class _Served:
    """A call of the peer's whose handler has not settled."""

    id: str
    method: Method
    running: Deferred[Any] | None = None
    wanted: bool = True


@implementer(ILaneSession, IWireUser)
class LaneSession:
    """See `ILaneSession`.  `admits` says whether ordinary calls are sent now, `serves` whether
    they are taken.
    """

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
        self.lane = agreed.lane
        self.session_id = agreed.session_id
        self.generation = agreed.generation
        self.peer = agreed.peer
        self.is_open = True
        self.admits = self.serves = agreed.lane is Lane.PRIMARY
        self.began = shared.clock.seconds()
        self.liveness = Liveness(shared.settings.ping_every, shared.settings.dead_after, self.began)
        self._owner = owner
        self._shared = shared
        self._clock = shared.clock
        self._wire = wire
        self._cipher = cipher
        self._ticket = ticket
        self._queue = LaneQueue(agreed.lane, shared.budget)
        self._joiner = Joiner()
        self._numbers = Numbers()
        self._asked: dict[str, _Asked] = {}
        self._served: dict[str, _Served] = {}
        self._flushing = False
        self._later: IDelayedCall | None = None
        self._handlers: dict[type[Struct], Callable[[Any, bool], None]] = {
            frames.Request: self._request_received,
            frames.Result: self._result_received,
            frames.Error: self._error_received,
            frames.Cancel: self._cancel_received,
            frames.Ping: self._ping_received,
            frames.Pong: self._pong_received,
            frames.Close: self._close_received,
        }
        wire.user = self
        shared.heart.add(self)

    @property
    def queued_bytes(self) -> int:
        """See `ILaneSession`."""
        return self._queue.queued_bytes

    # -- calls out --

    def call(
        self,
        method: Method,
        request: Struct | None,
        deadline: float | UnsetType | None = UNSET,
        integration_id: str = "",
    ) -> Deferred[Any]:
        """See `ILaneSession`."""
        try:
            asked = self._ask(method, request, integration_id)
        except GarconError as error:
            return fail(error)
        seconds = method.deadline if deadline is UNSET else deadline
        waiter = asked.waiter
        self._flush()
        if seconds is not None and asked.id in self._asked:
            asked.timer = self._clock.callLater(max(seconds, 0.0), self._expired, asked)
        return waiter

    def _ask(self, method: Method, request: Struct | None, integration_id: str) -> _Asked:
        if not self.is_open:
            raise LaneLost("this session has ended", outcome="not-dispatched")
        if method.lane not in (None, self.lane):
            raise calls.refusal(calls.WRONG_LANE, f"{method.name} belongs to another lane")
        if method.served_by == self._shared.role:
            raise calls.refusal(calls.METHOD_UNKNOWN, f"{method.name} is served by this side")
        if not self.admits and not method.installation:
            raise LaneLost("this lane is not active yet", outcome="not-dispatched")
        call_id = str(uuid4())
        try:
            body = frames.encode(request)
        except (TypeError, ValueError) as error:
            raise calls.refusal(
                "VALIDATION_FAILED", f"a request of {method.name} cannot be encoded", status=400
            ) from error
        head = frames.request_head(call_id, method.name, integration_id, body)
        if not fits(head, needs_number=True):
            raise calls.refusal(calls.MESSAGE_TOO_LARGE, "the request is too large", status=413)
        if not self._shared.outgoing.take(self.lane, method.installation):
            raise calls.busy()
        item = self._queue.offer(head, Kind.ORDINARY, needs_number=True)
        if item is None:
            self._shared.outgoing.free(self.lane, method.installation)
            raise calls.busy()

        def abandon(_: Deferred[Any]) -> None:
            self._abandon(call_id)

        waiter: Deferred[Any] = Deferred(abandon)
        asked = self._asked[call_id] = _Asked(call_id, method, item, waiter)
        return asked

    def _take_asked(self, call_id: str) -> _Asked | None:
        asked = self._asked.pop(call_id, None)
        if asked is not None:
            if asked.timer is not None and asked.timer.active():
                asked.timer.cancel()
            self._shared.outgoing.free(self.lane, asked.method.installation)
        return asked

    def _abandon(self, call_id: str) -> bool:
        """Forget a call of ours; return whether the peer may have begun it."""
        asked = self._take_asked(call_id)
        if asked is None or not self.is_open or self._queue.remove(asked.item):
            return False
        self._queue.offer_behind(frames.encode(frames.Cancel(id=call_id)), asked.item)
        self._flush()
        return True

    def _expired(self, asked: _Asked) -> None:
        asked.timer = None
        begun = self._abandon(asked.id)
        asked.waiter.errback(
            calls.refusal(
                calls.DEADLINE_PASSED,
                f"{asked.method.name} was not answered in time",
                outcome="unknown" if begun else "not-dispatched",
                retryable=not begun,
                status=504,
            )
        )

    def _result_received(self, frame: frames.Result, whole: bool) -> None:
        asked = self._take_asked(frame.id)
        if asked is None:
            return  # Late: it was cancelled or its deadline has passed.
        value: Any = None
        if asked.method.result is not None:
            try:
                value = msgspec.json.decode(frame.value, type=asked.method.result)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                asked.waiter.errback(
                    calls.refusal(
                        calls.PROVIDER_FAILURE,
                        f"the answer to {asked.method.name} is malformed",
                        outcome="unknown",
                    )
                )
                return
        asked.waiter.callback(value)

    def _error_received(self, frame: frames.Error, whole: bool) -> None:
        asked = self._take_asked(frame.id)
        if asked is not None:
            asked.waiter.errback(calls.call_error(frame.error))

    # -- calls in --

    def _request_received(self, frame: frames.Request, whole: bool) -> None:
        self._numbers.request(frame.seq, whole=whole, assembling=self._joiner.is_open)
        if not is_uuid4(frame.id) or frame.id in self._served:
            raise BadMessage("a request has a wrong id")
        method = self._shared.methods.get(frame.method)
        try:
            handler = self._admit(method)
            assert method is not None
            request = self._decode(method, frame.request)
        except GarconError as error:
            self._send_error(frame.id, calls.error_object(error))
            return
        if not self._shared.incoming.take(self.lane, method.installation):
            self._send_error(frame.id, calls.error_object(calls.busy()))
            return
        context = CallContext(method, self.lane, self.peer, self, self.generation)
        served = self._served[frame.id] = _Served(frame.id, method)
        try:
            running = handler(request, context)
        except Exception:
            running = fail(Failure())
        served.running = running
        running.addBoth(self._settled, served)

    def _admit(self, method: Method | None) -> Handler:
        handler = None if method is None else self._shared.handlers.get(method.name)
        if method is None or handler is None or method.served_by != self._shared.role:
            raise calls.refusal(
                calls.METHOD_UNKNOWN,
                "this side serves no such method",
                outcome="rejected",
                status=404,
            )
        if method.lane not in (None, self.lane):
            raise calls.refusal(calls.WRONG_LANE, f"{method.name} belongs to another lane")
        if not self.serves and not method.installation:
            raise calls.refusal(calls.EXECUTOR_BUSY, "this lane is not active yet", retryable=True)
        return handler

    def _decode(self, method: Method, request: msgspec.Raw) -> Any:
        if method.request is None:
            return None
        try:
            return msgspec.json.decode(request, type=method.request)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise calls.refusal(
                "VALIDATION_FAILED",
                f"the request of {method.name} is malformed",
                outcome="rejected",
                status=400,
            ) from None

    def _settled(self, result: Any, served: _Served) -> None:
        """A handler has ended: its slot is free, and its caller hears of it if it still waits."""
        self._shared.incoming.free(self.lane, served.method.installation)
        if self._served.get(served.id) is served:
            del self._served[served.id]
        if not served.wanted or not self.is_open:
            if isinstance(result, Failure) and not result.check(CancelledError, GarconError):
                self._log.failure(
                    "{method} failed after its caller had gone",
                    failure=result,
                    method=served.method.name,
                )
            return
        try:
            if isinstance(result, Failure):
                self._send_error(served.id, self._failed(result, served.method))
            else:
                self._send_result(served, result)
        except Exception:
            self._send_error(served.id, self._failed(Failure(), served.method))

    def _send_result(self, served: _Served, value: Any) -> None:
        if isinstance(value, Guarded):
            encoded = frames.encode(value.value)
            judged = value.guard(len(encoded))
            if judged is not value.value:
                encoded = frames.encode(judged)
        else:
            encoded = frames.encode(value)
        text = frames.result(served.id, encoded)
        if fits(text) and self._queue.offer(text, Kind.ORDINARY) is not None:
            self._flush()
            return
        raise calls.refusal(
            calls.REPLY_LOST,
            "the answer is too large" if not fits(text) else "there was no room for the answer",
            outcome="unknown",
        )

    def _failed(self, failure: Failure, method: Method) -> frames.ErrorObject:
        error = failure.value
        if isinstance(error, GarconError):
            return calls.error_object(error)
        incident = uuid4().hex[:12]
        if not isinstance(error, CancelledError):
            self._log.failure(
                "{method} failed, incident {incident}",
                failure=failure,
                method=method.name,
                incident=incident,
            )
        return calls.internal(incident)

    def _send_error(self, call_id: str, error: frames.ErrorObject) -> None:
        text = frames.encode(frames.Error(id=call_id, error=error))
        if len(text) > calls.LARGEST_ERROR:
            text = frames.encode(frames.Error(id=call_id, error=calls.shortened(error)))
        self._queue.offer(text, Kind.SMALL)
        self._flush()

    def _cancel_received(self, frame: frames.Cancel, whole: bool) -> None:
        served = self._served.get(frame.id)
        if served is not None:
            self._cancel(served)

    def _cancel(self, served: _Served) -> None:
        # The slot stays taken until the handler has really settled; cancelling it once more would
        # only disturb what it still has to do.
        if served.wanted:
            served.wanted = False
            if served.running is not None:
                served.running.cancel()

    # -- other frames --

    def send_frame(self, text: bytes, kind: Kind) -> bool:
        """Send an encoded frame that is not part of a call; False when it is not admitted now."""
        if not self.is_open or self._queue.offer(text, kind) is None:
            return False
        self._flush()
        return True

    def _ping_received(self, frame: frames.Ping, whole: bool) -> None:
        self._queue.offer(frames.PONG, Kind.SMALL)
        self._flush()

    def _pong_received(self, frame: frames.Pong, whole: bool) -> None:
        """Having come is all it is for."""

    def _close_received(self, frame: frames.Close, whole: bool) -> None:
        self._end(*safe_notice(frame.kind, frame.text))

    def beat(self, now: float) -> None:
        """See `liveness.Watched`."""
        match self.liveness.check(now, self._wire.buffered):
            case Beat.PING:
                self.send_frame(frames.PING, Kind.SMALL)
            case Beat.PONG:
                self.send_frame(frames.PONG, Kind.SMALL)
            case Beat.DEAD:
                self.end(Cause.LIVENESS_TIMEOUT, "the other side has not been heard of")

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
            if taken is None:
                return
            text, whole = taken
            frame = frames.decode(text)
            kind = type(frame)
            if not whole and kind is not frames.Request:
                self._numbers.assembled_other()
            handle = self._handlers.get(kind)
            if handle is not None:
                handle(frame, whole)
            else:
                self._owner.frame_received(self, frame)
        except RecordLimit as error:
            self.end(Cause.RECORD_LIMIT, error.text)
        except HandshakeFailed:
            self.end(Cause.PROTOCOL_ERROR, "a record did not open")
        except BadMessage as error:
            self.end(Cause.PROTOCOL_ERROR, error.text)
        except Exception:
            self._log.failure("a frame of the {lane} lane broke something", lane=self.lane.value)
            self.end(Cause.SESSION_RETIRED, "this side failed")

    def wire_writable(self) -> None:
        """The socket asks for more."""
        self._flush()

    def _flush(self) -> None:
        """Seal and send while the socket asks for more, a burst in each turn of the reactor."""
        if self._flushing or not self.is_open or self._later is not None:
            return
        self._flushing = True
        room = self._shared.settings.burst
        wire, seal, next_record = self._wire, self._cipher.seal, self._queue.next_record
        try:
            while wire.is_writable and self.is_open:
                record = next_record()
                if record is None:
                    wire.push()
                    return
                wire.send(seal(record))
                self.liveness.spoke = self._clock.seconds()
                room -= len(record)
                if room <= 0:
                    self._later = self._clock.callLater(0, self._flush_on)
                    return
        except RecordLimit as error:
            self.end(Cause.RECORD_LIMIT, error.text)
        finally:
            self._flushing = False

    def _flush_on(self) -> None:
        self._later = None
        self._flush()

    def wire_closed(self, kind: str, text: str) -> None:
        """The socket is gone."""
        self._end(kind, text)
        if self._ticket is not None:
            self._ticket.release()
        self._owner.lane_gone(self)

    # -- the end --

    def end(self, kind: str, text: str) -> None:
        """End the session and tell the peer why, as far as the socket still carries."""
        self._end(kind, text, tell=True)

    def _tell(self, kind: str, text: str) -> None:
        try:
            notice = frames.encode(frames.Close(kind=kind, text=text))
            self._wire.send(self._cipher.seal(WHOLE + notice, last=True))
        except RecordLimit:
            pass  # Then the peer has counted as far as we have.

    def abort(self) -> None:
        """Drop the socket of an ended session."""
        self._wire.abort()

    def _end(self, kind: str, text: str, *, tell: bool = False) -> None:
        if not self.is_open:
            return
        self.is_open = False
        if tell:
            self._tell(kind, text)
        self._shared.heart.remove(self)
        if self._later is not None:
            self._later.cancel()
            self._later = None
        if kind == Cause.LIVENESS_TIMEOUT:
            self._wire.abort()
        else:
            self._wire.close()
        self._queue.drop()
        self._owner.lane_fenced(self)
        self._fail_calls(text)
        self._owner.lane_lost(self, kind, text)

    def _fail_calls(self, reason: str) -> None:
        for served in list(self._served.values()):
            if served.method.continuity is Continuity.SESSION:
                self._cancel(served)
        for call_id in list(self._asked):
            asked = self._take_asked(call_id)
            if asked is not None:
                sent = asked.item.progress is Progress.SENT
                asked.waiter.errback(
                    LaneLost(reason, outcome="unknown" if sent else "not-dispatched")
                )
