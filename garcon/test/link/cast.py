"""Who takes part in the link's tests: methods of their own, recording owners, and pairs of
links.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import define, field
from msgspec import Struct
from twisted.internet.defer import Deferred, succeed
from twisted.python.failure import Failure
from zope.interface import implementer

from garcon.contract.rpc import RECONCILE, Continuity, Lane, Method
from garcon.contract.terminals import TerminalNotification
from garcon.errors import GarconError
from garcon.link.interfaces import (
    CallContext,
    Guarded,
    Handler,
    ICapturedLink,
    ILinkEvents,
    ITerminalEvents,
)

SECRET = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
OTHER_SECRET = "BAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
EXECUTOR = "7b1b8b3e-6a53-4f0e-9d5e-000000000001"
OTHER_EXECUTOR = "7b1b8b3e-6a53-4f0e-9d5e-000000000002"


class Text(Struct, frozen=True):
    text: str


def _method(name: str, lane: Lane | None, served_by: Any, **more: Any) -> Method:
    return Method(name, Text, Text, lane=lane, served_by=served_by, **more)


ECHO = _method("test.echo", Lane.PRIMARY, "worker")
HELD = _method("test.held", Lane.PRIMARY, "worker", continuity=Continuity.SESSION)
LAUNCH = _method("test.launch", Lane.PRIMARY, "worker", continuity=Continuity.LAUNCH)
KEPT = _method("test.kept", Lane.PRIMARY, "worker")
KEPT_BULK = _method("test.keptBulk", Lane.BULK, "worker")
FETCH = _method("test.fetch", Lane.BULK, "worker")
EITHER = _method("test.either", None, "worker")
REFUSE = _method("test.refuse", Lane.PRIMARY, "worker")
BREAK = _method("test.break", Lane.PRIMARY, "worker")
GUARD = _method("test.guard", Lane.PRIMARY, "worker")
NESTED = _method("test.nested", Lane.PRIMARY, "worker")
ASK = _method("test.ask", Lane.PRIMARY, "controller", continuity=Continuity.SESSION)
ASK_BULK = _method("test.askBulk", Lane.BULK, "controller", continuity=Continuity.SESSION)
MISSING = _method("test.missing", Lane.PRIMARY, "worker")
METHODS = {
    m.name: m
    for m in (
        *(ECHO, HELD, LAUNCH, FETCH, EITHER, REFUSE, BREAK, GUARD, NESTED),
        *(ASK, ASK_BULK, MISSING, RECONCILE, KEPT, KEPT_BULK),
    )
}


@implementer(ILinkEvents, ITerminalEvents)
@define(eq=False)
class Owner:
    """Remembers what a link told it; `on_event` hears each name as it comes."""

    installed: list[ICapturedLink] = field(factory=list)
    lost: list[tuple[ICapturedLink, str]] = field(factory=list)
    phases: list[str] = field(factory=list)
    failures: list[tuple[str, str]] = field(factory=list)
    produced: list[tuple[str, int, Any]] = field(factory=list)
    acknowledged: list[dict[str, int]] = field(factory=list)
    told: list[TerminalNotification] = field(factory=list)
    detached: list[str] = field(factory=list)
    taken: list[dict[str, int]] = field(factory=list)
    on_event: Callable[[str], None] = lambda name: None

    def primary_installed(self, captured: ICapturedLink) -> None:
        self.installed.append(captured)
        self.on_event("installed")

    def primary_lost(self, captured: ICapturedLink, cause: str) -> None:
        self.lost.append((captured, cause))
        self.on_event("lost")

    def bulk_changed(self, phase: str) -> None:
        self.phases.append(phase)
        self.on_event(phase)

    def link_failed(self, kind: str, text: str) -> None:
        self.failures.append((kind, text))
        self.on_event("failed")

    def producer_received(self, binding_id: str, seq: int, frame: Any) -> None:
        self.produced.append((binding_id, seq, frame))
        self.on_event("produced")

    def producer_acknowledged(self, acknowledgements: dict[str, int]) -> None:
        self.acknowledged.append(acknowledgements)
        self.on_event("acknowledged")

    def terminal_received(self, notification: TerminalNotification) -> None:
        self.told.append(notification)
        self.on_event("told")

    def terminal_detached(self, attachment_id: str) -> None:
        self.detached.append(attachment_id)
        self.on_event("detached")

    def terminals_taken(self, taken: dict[str, int]) -> None:
        self.taken.append(taken)
        self.on_event("taken")


@define(eq=False)
class WorkerSide:
    """Serves the test methods and remembers the calls it holds."""

    held: list[tuple[Text, CallContext, Deferred[Any]]] = field(factory=list)
    cancelled: list[str] = field(factory=list)
    guard_sizes: list[int] = field(factory=list)
    guard: Callable[[int, Text], Any] = lambda size, value: value
    after_cancel: Callable[[Failure], Any] = lambda f: f
    """What a held handler still does when it is cancelled."""

    def handlers(self) -> dict[str, Handler]:
        return {
            ECHO.name: self.echo,
            EITHER.name: self.echo,
            FETCH.name: self.fetch,
            HELD.name: self.hold,
            LAUNCH.name: self.hold,
            KEPT.name: self.hold,
            KEPT_BULK.name: self.hold,
            REFUSE.name: self.refuse,
            BREAK.name: self.break_down,
            GUARD.name: self.guarded,
            NESTED.name: self.nested,
        }

    def echo(self, request: Text, context: CallContext) -> Deferred[Any]:
        return succeed(request)

    def fetch(self, request: Text, context: CallContext) -> Deferred[Any]:
        return succeed(Text("x" * int(request.text)))

    def hold(self, request: Text, context: CallContext) -> Deferred[Any]:
        d: Deferred[Any] = Deferred(lambda _: self.cancelled.append(request.text))
        d.addErrback(lambda f: self.after_cancel(f))
        self.held.append((request, context, d))
        return d

    def refuse(self, request: Text, context: CallContext) -> Deferred[Any]:
        raise GarconError("NOT_NOW", "not now", status=409, retryable=True, details="perhaps later")

    def break_down(self, request: Text, context: CallContext) -> Deferred[Any]:
        raise ZeroDivisionError("private words")

    def guarded(self, request: Text, context: CallContext) -> Deferred[Any]:
        def judge(size: int) -> Any:
            self.guard_sizes.append(size)
            return self.guard(size, request)

        return succeed(Guarded(request, judge))

    def nested(self, request: Text, context: CallContext) -> Deferred[Any]:
        return context.session.call(ASK, Text(f"asked by {request.text}"))


@define(eq=False)
class ControllerSide:
    """Answers the worker's questions."""

    questions: list[Text] = field(factory=list)

    def handlers(self) -> Mapping[str, Handler]:
        return {ASK.name: self.ask, ASK_BULK.name: self.ask}

    def ask(self, request: Text, context: CallContext) -> Deferred[Any]:
        self.questions.append(request)
        return succeed(Text(request.text.upper()))
