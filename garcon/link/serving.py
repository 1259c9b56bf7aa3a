"""The calls a session takes: checks, handlers, replies, and slots held until handlers settle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal
from uuid import uuid4

import msgspec
from attrs import define
from twisted.internet.defer import CancelledError, fail
from twisted.logger import Logger
from twisted.python.failure import Failure

from garcon.contract.ids import is_uuid4
from garcon.contract.rpc import RECONCILE, Continuity, Method
from garcon.errors import BadMessage, GarconError
from garcon.link import calls, frames
from garcon.link.calls import Exemptions, Numbers, Slots
from garcon.link.interfaces import CallContext, Guarded, Handler, ILaneSession
from garcon.link.outbox import Outbox
from garcon.link.outliving import Outliving, Running
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
    outliving: Outliving | None = None
    """Keeps journaled calls, where such are served."""

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
        self._exemptions = Exemptions(session.lane)
        self._outliving = served.outliving
        self._running: dict[str, Running] = {}
        self._is_reconciled = False

    def request_received(self, frame: frames.Request, whole: bool, assembling: bool) -> None:
        """Begin a call, or refuse it."""
        self._numbers.request(frame.seq, whole=whole, assembling=assembling)
        session = self._session
        if (
            not is_uuid4(frame.id)
            or frame.id in self._running
            or (self._outliving is not None and self._outliving.knows(session.lane, frame.id))
        ):
            raise BadMessage("a request has a wrong id")
        if frame.method == RECONCILE.name:
            if self._is_reconciled:
                raise BadMessage("a session reconciles its calls once")
            self._is_reconciled = True
        try:
            method, handler = self._admit(frame.method)
            request = _decoded(method, frame.request)
            exempt = method.installation and self._exempt(frame)
            if not exempt and not self._served.slots.take(session.lane, exempt=False):
                raise calls.busy()
        except GarconError as error:
            self._refuse(frame, error)
            return
        context = CallContext(
            method,
            session.lane,
            session.peer,
            session,
            self._generation,
            frame.integration_id,
        )
        running = self._running[frame.id] = Running(
            frame.id,
            method,
            session.session_id,
            self._outbox,
            self._running,
            exempt,
            frame.integration_id,
        )
        try:
            work = handler(request, context)
        except Exception:
            work = fail(Failure())
        running.work = work
        work.addBoth(self._settled, running)

    def _exempt(self, frame: frames.Request) -> bool:
        """Take a place outside the budget, if there is one for this installation call."""
        if not self._exemptions.take(frame.method, frame.integration_id):
            return False
        if self._served.slots.take(self._session.lane, exempt=True):
            return True
        self._exemptions.free(frame.method, frame.integration_id)
        return False

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

    def _settled(self, result: Any, running: Running) -> None:
        """A handler has ended: its slot is free, and its caller hears of it if it still waits."""
        self._served.slots.free(self._session.lane, running.exempt)
        if running.exempt:
            self._exemptions.free(running.method.name, running.integration_id)
        running.settled()
        if not running.wanted or not (running.outbox.is_open or self._is_kept(running.method)):
            if isinstance(result, Failure) and not result.check(CancelledError, GarconError):
                self._log.failure(
                    "{method} failed after its caller had gone",
                    failure=result,
                    method=running.method.name,
                )
            return
        try:
            if isinstance(result, Failure):
                self._send_error(running, self._failed(result, running.method))
            else:
                self._send_result(running, result)
        except Exception:
            self._send_error(running, self._failed(Failure(), running.method))

    def _is_kept(self, method: Method) -> bool:
        return self._outliving is not None and method.continuity is Continuity.JOURNALED

    def _send(self, running: Running, text: bytes, kind: Kind) -> bool:
        if self._outliving is not None and running.method.continuity is Continuity.JOURNALED:
            return self._outliving.reply(self._session.lane, running, text, kind)
        return self._outbox.send(text, kind)

    def _send_result(self, running: Running, value: Any) -> None:
        if isinstance(value, Guarded):
            encoded = frames.encode(value.value)
            judged = value.guard(len(encoded))
            if judged is not value.value:
                encoded = frames.encode(judged)
        else:
            encoded = frames.encode(value)
        text = frames.result(running.id, encoded)
        if not fits(text):
            raise calls.refusal(calls.REPLY_LOST, "the answer is too large", outcome="unknown")
        if not self._send(running, text, Kind.ORDINARY):
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

    def _send_error(self, running: Running, error: frames.ErrorObject) -> None:
        self._send(running, _error_text(running.id, error), Kind.SMALL)

    def _refuse(self, frame: frames.Request, error: GarconError) -> None:
        """Answer a call that reached no handler."""
        text = _error_text(frame.id, calls.error_object(error))
        method = self._served.methods.get(frame.method)
        if method is not None and self._is_kept(method) and method.served_by == self._served.role:
            session = self._session
            refused = Running(frame.id, method, session.session_id, self._outbox, {})
            self._send(refused, text, Kind.SMALL)
        else:
            self._outbox.send(text, Kind.SMALL)

    def cancel_received(self, call_id: str) -> None:
        """The caller gave up."""
        running = self._running.get(call_id)
        if running is not None:
            running.cancel()
        elif self._outliving is not None:
            self._outliving.cancelled(self._session.lane, call_id)

    def replies_acknowledged(self, ids: list[str]) -> None:
        """The caller has these replies."""
        if self._outliving is None:
            raise BadMessage("a frame of the wrong direction")
        self._outliving.acknowledged(self._session.lane, ids)

    def adopt(self, running: Running) -> None:
        """Answer a call of an earlier session."""
        running.session = self._session.session_id
        running.outbox = self._outbox
        running.home = self._running
        self._running[running.id] = running

    def end(self) -> None:
        """The session has ended: what was only for its caller is cancelled, the rest goes on."""
        if self._outliving is not None:
            session = self._session
            self._outliving.session_ended(
                session.lane, session.session_id, self._numbers, self._running
            )
        for running in list(self._running.values()):
            if running.method.continuity is Continuity.SESSION:
                running.cancel()


def _error_text(call_id: str, error: frames.ErrorObject) -> bytes:
    text = frames.encode(frames.Error(id=call_id, error=error))
    if len(text) > calls.LARGEST_ERROR:
        text = frames.encode(frames.Error(id=call_id, error=calls.shortened(error)))
    return text


def _decoded(method: Method, request: msgspec.Raw) -> Any:
    try:
        return msgspec.json.decode(request, type=method.request)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise calls.refusal(
            "VALIDATION_FAILED",
            f"the request of {method.name} is malformed",
            outcome="rejected",
            status=400,
        ) from None
