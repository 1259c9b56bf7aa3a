"""Both ends of a real link for the bench, with methods of their own: a controller's that waits to
be dialled, and a worker's that dials and measures.
"""

from __future__ import annotations

import time
from typing import Any
from uuid import uuid4

import msgspec
from attrs import define, field
from msgspec import Struct
from twisted.internet.defer import Deferred, succeed
from twisted.web.resource import Resource
from twisted.web.server import Site
from zope.interface import implementer

from garcon.contract.limits import KIB, MIB
from garcon.contract.messages import AssistantMessage
from garcon.contract.rpc import (
    PRODUCERS_RESUME,
    RECONCILE,
    Continuity,
    Lane,
    Method,
    Nothing,
    ResumeBinding,
    ResumedBinding,
    ResumedProducers,
    ResumeProducers,
)
from garcon.contract.runs import RelayedEvent, RowProduced
from garcon.controller.executors.remote import ACK_BYTES
from garcon.deferreds import Waiters, returns_deferred
from garcon.link.admission import Admission
from garcon.link.causes import Cause
from garcon.link.endpoints import DialTarget
from garcon.link.interfaces import CallContext, Handler, ICapturedLink, ILinkEvents
from garcon.link.link import ControllerLink, WorkerLink
from garcon.link.settings import LinkSettings
from garcon.link.websocket import LaneResource
from garcon.testing.bench.driving import SMALL, Socket
from garcon.worker.serving.relay import Relay

EXECUTOR = "00000000-0000-4000-8000-000000000001"
SECRET = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
BINDING = "bench"
ROW = 32 * KIB
ROWS = 16 * MIB // ROW
SETTINGS = LinkSettings(redial_delays=(0.0,))


class Text(Struct, frozen=True):
    text: str


class Size(Struct, frozen=True):
    size: int


class Moment(Struct, frozen=True):
    """A time of the one clock that all processes of a machine share."""

    at: float


def _method(name: str, request: Any, result: Any, lane: Lane, served_by: Any) -> Method:
    return Method(
        name, request, result, lane=lane, continuity=Continuity.SESSION, served_by=served_by
    )


ECHO = _method("bench.echo", Text, Text, Lane.PRIMARY, "controller")
GIVE = _method("bench.give", Text, Nothing, Lane.BULK, "controller")
TAKE = _method("bench.take", Size, Text, Lane.BULK, "controller")
SEND_BOTH = _method("bench.sendBoth", Size, Nothing, Lane.PRIMARY, "controller")
REPLAYED = _method("bench.replayed", Nothing, Moment, Lane.PRIMARY, "controller")
ALL_OF_IT = _method("bench.allOfIt", Text, Nothing, Lane.PRIMARY, "worker")
BEHIND = _method("bench.behind", Text, Nothing, Lane.PRIMARY, "worker")
METHODS = {
    m.name: m
    for m in (
        *(ECHO, GIVE, TAKE, SEND_BOTH, REPLAYED, ALL_OF_IT, BEHIND),
        *(RECONCILE, PRODUCERS_RESUME),
    )
}


@implementer(ILinkEvents)
@define(eq=False)
class _Owner:
    """Hears its link and does what it has to."""

    installed: Waiters[ICapturedLink] = field(factory=Waiters)
    active: Waiters[None] = field(factory=Waiters)

    def primary_installed(self, captured: ICapturedLink) -> None:
        self.installed.fire(captured)

    def primary_lost(self, captured: ICapturedLink, cause: str) -> None:
        """It comes back by itself."""

    def bulk_changed(self, phase: str) -> None:
        if phase == "ready":
            self.active.fire(None)

    def link_failed(self, kind: str, text: str) -> None:
        """Likewise."""

    def producer_received(self, binding_id: str, seq: int, frame: Any) -> None:
        """Only a controller receives these."""

    def producer_acknowledged(self, acknowledgements: dict[str, int]) -> None:
        """Only a worker is told."""


class _Controller(_Owner):
    """Serves the bench, and takes a stream of rows as a controller does."""

    link: ControllerLink

    def __init__(self, reactor: Any) -> None:
        super().__init__()
        self._reactor = reactor
        self._worker = ""
        self._taken = 0
        self._due_bytes = 0
        self._complete: Waiters[Moment] = Waiters()
        self._moment: Moment | None = None
        self._acknowledging: Any = None

    def handlers(self) -> dict[str, Handler]:
        return {
            ECHO.name: lambda request, context: succeed(request),
            GIVE.name: lambda request, context: succeed(Nothing()),
            TAKE.name: lambda request, context: succeed(Text("x" * request.size)),
            SEND_BOTH.name: self._send_both,
            REPLAYED.name: self._replayed,
        }

    def primary_installed(self, captured: ICapturedLink) -> None:
        if captured.peer.runtime_id != self._worker:
            self._worker, self._taken, self._moment = captured.peer.runtime_id, 0, None
        asked = ResumeProducers([ResumeBinding(BINDING, self._taken)])
        captured.call(PRODUCERS_RESUME, asked).addErrback(lambda f: None)

    def _send_both(self, request: Size, context: CallContext) -> Deferred[Any]:
        large = context.session.call(ALL_OF_IT, Text("x" * request.size))
        small = context.session.call(BEHIND, Text(repr(time.perf_counter()).ljust(SMALL)))
        return large.addCallback(lambda _: small)

    def producer_received(self, binding_id: str, seq: int, frame: Any) -> None:
        msgspec.json.decode(frame.event, type=RelayedEvent)
        assert seq == self._taken + 1
        self._taken = seq
        self._due_bytes += len(memoryview(frame.event))
        if self._due_bytes >= ACK_BYTES:
            self._acknowledge()
        elif self._acknowledging is None:
            self._acknowledging = self._reactor.callLater(SETTINGS.ack_batch, self._acknowledge)
        if seq % ROWS == 0:
            moment = Moment(time.perf_counter())
            if len(self._complete):
                self._complete.fire(moment)
            else:
                self._moment = moment

    def _acknowledge(self) -> None:
        if self._acknowledging is not None and self._acknowledging.active():
            self._acknowledging.cancel()
        self._acknowledging = None
        self._due_bytes = 0
        self.link.acknowledge({BINDING: self._taken})

    def _replayed(self, request: Nothing, context: CallContext) -> Deferred[Any]:
        moment, self._moment = self._moment, None
        return self._complete.wait() if moment is None else succeed(moment)


def listen(reactor: Any, port: int) -> None:
    """Serve one worker after the other."""
    owner = _Controller(reactor)
    owner.link = link = ControllerLink(
        reactor,
        EXECUTOR,
        SECRET,
        str(uuid4()),
        owner,
        owner.handlers(),
        None,
        settings=SETTINGS,
        methods=METHODS,
    )
    link.start()
    root = Resource()
    root.putChild(b"executor", LaneResource(lambda segment: link, reactor, Admission()))
    site = Site(root)
    site.noisy = False
    reactor.listenTCP(port, site, interface="127.0.0.1")


class LinkSocket(_Owner, Socket):
    """The worker's end."""

    def __init__(self) -> None:
        super().__init__()
        self._behind: Deferred[float] = Deferred()
        self._texts = {SMALL: Text("x" * SMALL)}

    def connect(self, reactor: Any, port: int) -> Deferred[None]:
        """Fires when both lanes are ready."""
        self.link = WorkerLink(
            reactor,
            SECRET,
            str(uuid4()),
            self,
            {
                ALL_OF_IT.name: lambda request, context: succeed(Nothing()),
                BEHIND.name: self._came_behind,
                PRODUCERS_RESUME.name: self._resume,
            },
            DialTarget(f"ws://127.0.0.1:{port}/executor"),
            settings=SETTINGS,
            methods=METHODS,
        )
        self.relay = Relay(reactor, self.link.send_producer)
        self.relay.open(BINDING)
        active = self.active.wait()
        self.link.start()
        return active

    def _call(self, method: Method, request: Struct) -> Deferred[Any]:
        captured = self.link.current()
        assert captured is not None, "the link is down"
        return captured.call(method, request)

    def _text(self, size: int) -> Text:
        text = self._texts.get(size)
        if text is None:
            text = self._texts[size] = Text("x" * size)
        return text

    def echo(self, size: int) -> Deferred[Any]:
        """See `Socket`."""
        return self._call(ECHO, self._text(size))

    def give(self, size: int) -> Deferred[Any]:
        """See `Socket`."""
        return self._call(GIVE, self._text(size))

    def take(self, size: int) -> Deferred[Any]:
        """See `Socket`."""
        return self._call(TAKE, Size(size))

    def _came_behind(self, request: Text, context: CallContext) -> Deferred[Any]:
        behind, self._behind = self._behind, Deferred()
        behind.callback(time.perf_counter() - float(request.text))
        return succeed(Nothing())

    @returns_deferred
    async def wait_behind(self, size: int) -> float:
        """See `Socket`."""
        behind = self._behind
        done = self._call(SEND_BOTH, Size(size))
        waited = await behind
        await done
        return waited

    def producer_acknowledged(self, acknowledgements: dict[str, int]) -> None:
        self.relay.acknowledged(acknowledgements)

    def primary_lost(self, captured: ICapturedLink, cause: str) -> None:
        self.relay.orphan(BINDING)

    def _resume(self, request: ResumeProducers, context: CallContext) -> Deferred[Any]:
        (wanted,) = request.bindings
        through = self.relay.resume(BINDING, wanted.acknowledged_seq)
        return succeed(ResumedProducers([ResumedBinding(BINDING, through)]))

    @returns_deferred
    async def replay(self) -> float:
        """Lose the session with 16 MiB of output retained; return how long it takes from dialling
        again until the controller has all of it.
        """
        row = RowProduced(
            message=AssistantMessage(timestamp="2026-01-01T00:00:00.000Z", content="x" * ROW)
        )
        content = msgspec.json.encode(row)
        captured: Any = self.link.current()
        active = self.active.wait()
        captured.primary.end(Cause.SESSION_RETIRED, "the bench cuts it")
        for _ in range(ROWS):
            assert self.relay.publish(BINDING, content, is_row=True)
        began = time.perf_counter()
        await self.installed.wait()
        moment: Moment = await self._call(REPLAYED, Nothing())
        await active
        return moment.at - began
