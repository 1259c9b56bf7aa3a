"""The calls a session takes: checks, handlers, replies, and slots held until handlers settle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal
from uuid import uuid4

import msgspec
from attrs import define
from twisted.internet.defer import CancelledError, Deferred, fail
from twisted.logger import Logger
from twisted.python.failure import Failure

from garcon.contract.ids import is_uuid4
from garcon.contract.rpc import Continuity, Method
from garcon.errors import BadMessage, GarconError
from garcon.link import calls, frames
from garcon.link.calls import Numbers, Slots
from garcon.link.interfaces import CallContext, Guarded, Handler, ILaneSession
from garcon.link.outbox import Outbox
from garcon.link.queue import Kind, fits


@define(eq=False)
class Served:
    """What this side of a link serves: the same for all its sessions."""

    role: Literal["controller", "worker"]
    methods: Mapping[str, Method]
    handlers: Mapping[str, Handler]
    builtin: Mapping[str, Handler]
    """Handlers of the link's own, for methods that nobody else serves."""
    slots: Slots

    def find(self, name: str) -> tuple[Method, Handler]:
        """Return a method of this side's and its handler, or raise what its caller gets."""
        method = self.methods.get(name)
        handler = self.handlers.get(name) or self.builtin.get(name)
        if method is None or handler is None or method.served_by != self.role:
            raise calls.refusal(
                calls.METHOD_UNKNOWN,
                "this side serves no such method",
                outcome="rejected",
                status=404,
            )
        return method, handler


@define(eq=False)
class _Running:
    """A call whose handler has not settled.  `wanted`: its caller still waits."""

    id: str
    method: Method
    work: Deferred[Any] | None = None
    wanted: bool = True


class Serving:
    """Knows which handlers run for one session.  `is_active`: ordinary calls are taken."""

    _log = Logger()

    def __init__(self, session: ILaneSession, generation: str, served: Served, outbox: Outbox):
        self.is_active = False
        self._session = session
        self._generation = generation
        self._served = served
        self._outbox = outbox
        self._numbers = Numbers()
        self._running: dict[str, _Running] = {}

    def request_received(self, frame: frames.Request, whole: bool, assembling: bool) -> None:
        """Begin a call, or refuse it."""
        self._numbers.request(frame.seq, whole=whole, assembling=assembling)
        if not is_uuid4(frame.id) or frame.id in self._running:
            raise BadMessage("a request has a wrong id")
        try:
            method, handler = self._admit(frame.method)
            request = _decoded(method, frame.request)
            if not self._served.slots.take(self._session.lane, method.installation):
                raise calls.busy()
        except GarconError as error:
            self._send_error(frame.id, calls.error_object(error))
            return
        session = self._session
        context = CallContext(method, session.lane, session.peer, session, self._generation)
        running = self._running[frame.id] = _Running(frame.id, method)
        try:
            work = handler(request, context)
        except Exception:
            work = fail(Failure())
        running.work = work
        work.addBoth(self._settled, running)

    def assembled_other(self) -> None:
        """Something else than a request was assembled from fragments."""
        self._numbers.assembled_other()

    def _admit(self, name: str) -> tuple[Method, Handler]:
        method, handler = self._served.find(name)
        if method.lane not in (None, self._session.lane):
            raise calls.refusal(calls.WRONG_LANE, f"{name} belongs to another lane")
        if not self.is_active and not method.installation:
            raise calls.refusal(calls.EXECUTOR_BUSY, "this lane is not active yet", retryable=True)
        return method, handler

    def _settled(self, result: Any, running: _Running) -> None:
        """A handler has ended: its slot is free, and its caller hears of it if it still waits."""
        self._served.slots.free(self._session.lane, running.method.installation)
        if self._running.get(running.id) is running:
            del self._running[running.id]
        if not running.wanted or not self._outbox.is_open:
            if isinstance(result, Failure) and not result.check(CancelledError, GarconError):
                self._log.failure(
                    "{method} failed after its caller had gone",
                    failure=result,
                    method=running.method.name,
                )
            return
        try:
            if isinstance(result, Failure):
                self._send_error(running.id, self._failed(result, running.method))
            else:
                self._send_result(running.id, result)
        except Exception:
            self._send_error(running.id, self._failed(Failure(), running.method))

    def _send_result(self, call_id: str, value: Any) -> None:
        if isinstance(value, Guarded):
            encoded = frames.encode(value.value)
            judged = value.guard(len(encoded))
            if judged is not value.value:
                encoded = frames.encode(judged)
        else:
            encoded = frames.encode(value)
        text = frames.result(call_id, encoded)
        if not fits(text):
            raise calls.refusal(calls.REPLY_LOST, "the answer is too large", outcome="unknown")
        if not self._outbox.send(text, Kind.ORDINARY):
            raise calls.refusal(
                calls.REPLY_LOST, "there was no room for the answer", outcome="unknown"
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
        self._outbox.send(text, Kind.SMALL)

    def cancel_received(self, call_id: str) -> None:
        """The caller gave up."""
        running = self._running.get(call_id)
        if running is not None:
            _cancel(running)

    def end(self) -> None:
        """The session has ended: what was only for its caller is cancelled, the rest goes on."""
        for running in list(self._running.values()):
            if running.method.continuity is Continuity.SESSION:
                _cancel(running)


def _cancel(running: _Running) -> None:
    # The slot stays taken until the handler has really settled; cancelling it once more would only
    # disturb what it still has to do.
    if running.wanted:
        running.wanted = False
        if running.work is not None:
            running.work.cancel()


def _decoded(method: Method, request: msgspec.Raw) -> Any:
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
