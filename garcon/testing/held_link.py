"""A link whose every call waits until the test answers it, for interleavings no clock decides."""

from __future__ import annotations

from typing import Any

from attrs import define, field
from msgspec import Struct
from twisted.internet.defer import Deferred, succeed
from zope.interface import implementer

from garcon.contract import rpc
from garcon.contract.diagnostics import LaneDiagnostics, LinkDiagnostics
from garcon.contract.rpc import Lane, Method
from garcon.contract.runs import ExecutorDescription, RunEvent
from garcon.errors import LaneLost
from garcon.link.interfaces import (
    CallContext,
    ICapturedLink,
    ILaneSession,
    ILink,
    ILinkEvents,
    Peer,
)

DESCRIPTION = ExecutorDescription(
    instance_id="worker-instance",
    project_base_path="/projects",
    agent_ids=["scripted"],
    services={"files": True, "terminals": True},
)


@define(eq=False)
class HeldCall:
    """One call that was made and has not been answered by itself."""

    method: Method
    request: Struct | None
    d: Deferred[Any]
    is_cancelled: bool = False


@implementer(ICapturedLink)
@define(eq=False)
class HeldGeneration:
    """One generation: remembers its calls."""

    generation: str
    peer: Peer
    is_current: bool = True
    calls: list[HeldCall] = field(factory=list)

    def call(
        self,
        method: Method,
        request: Struct | None,
        *,
        lane: Lane | None = None,
        deadline: float | None = None,
    ) -> Deferred[Any]:
        def cancelled(_: Deferred[Any]) -> None:
            held.is_cancelled = True

        held = HeldCall(method, request, Deferred(cancelled))
        if not self.is_current:
            held.d.errback(LaneLost("socket-closed", outcome="not-dispatched"))
        self.calls.append(held)
        return held.d

    def waiting(self, method: Method) -> HeldCall:
        """Return the latest unanswered call of a method."""
        return [c for c in self.calls if c.method is method and not c.d.called][-1]

    def made(self) -> list[str]:
        """Name the methods that were called, in order."""
        return [call.method.name for call in self.calls]


@implementer(ILink)
class HeldLink:
    """The controller's side of one executor's link, moved by hand."""

    def __init__(self, executor_id: str, events: ILinkEvents) -> None:
        self.executor_id = executor_id
        self.events = events
        self.bulk_phase = "offline"
        self.last_error: tuple[str, str] | None = None
        self.acknowledged: list[dict[str, int]] = []
        self.closed: list[str] = []
        self.closing: Deferred[None] | None = None
        self._now: HeldGeneration | None = None

    def current(self) -> ICapturedLink | None:
        return self._now

    def probe(self) -> Deferred[None]:
        return succeed(None)

    def diagnostics(self) -> LinkDiagnostics:
        """Tell of nothing but whether something is connected."""
        return LinkDiagnostics(
            dialled_by="worker",
            through_proxy=False,
            version="held",
            peer_version=None,
            outgoing_calls=0,
            incoming_calls=0,
            primary=LaneDiagnostics(phase="listening" if self._now is None else "connected"),
            bulk=LaneDiagnostics(phase=self.bulk_phase),
        )

    def send_producer(self, seq: int, frame: Struct) -> bool:
        raise AssertionError("only a worker sends these")

    def acknowledge(self, acknowledgements: dict[str, int]) -> None:
        self.acknowledged.append(acknowledgements)

    def close(self, cause: str) -> Deferred[None]:
        """Lose what is there; hold the end back if the test has put a Deferred in `closing`."""
        self.closed.append(cause)
        self.lose(cause)
        return succeed(None) if self.closing is None else self.closing

    def install(self, generation: str) -> HeldGeneration:
        """Connect, as one new generation."""
        peer = Peer(self.executor_id, "runtime-1", "worker")
        self._now = HeldGeneration(generation, peer)
        self.events.primary_installed(self._now)
        return self._now

    def ready(
        self, generation: str, description: ExecutorDescription = DESCRIPTION
    ) -> HeldGeneration:
        """Connect and answer the description."""
        installed = self.install(generation)
        installed.waiting(rpc.DESCRIBE).d.callback(description)
        return installed

    def lose(self, cause: str = "socket-closed") -> None:
        """Disconnect: fail the open calls first, then tell, as a link does."""
        lost, self._now = self._now, None
        if lost is None:
            return
        lost.is_current = False
        for call in lost.calls:
            if not call.d.called:
                call.d.errback(LaneLost(cause))
        self.events.primary_lost(lost, cause)

    def produce(self, binding_id: str, seq: int, event: RunEvent) -> None:
        """Deliver one producer frame."""
        self.events.producer_received(binding_id, seq, rpc.ProducerFrame(binding_id, event))


@implementer(ILaneSession)
@define(eq=False)
class HeldSession:
    """One lane session, for handlers that look at the lane their call came on."""

    lane: Lane
    session_id: str
    peer: Peer
    is_open: bool = True
    queued_bytes: int = 0

    def call(
        self,
        method: Method,
        request: Struct | None,
        deadline: float | None = None,
        integration_id: str = "",
    ) -> Deferred[Any]:
        raise AssertionError("nothing is called back here")

    def context(self, method: Method, generation: str) -> CallContext:
        """Return the context of a call that came on this lane."""
        return CallContext(method, self.lane, self.peer, self, generation)
