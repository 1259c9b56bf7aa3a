"""A link whose every call waits until the test answers it, for interleavings no clock decides."""

from __future__ import annotations

from typing import Any

from attrs import define, field
from msgspec import UNSET, Struct, UnsetType
from twisted.internet.defer import Deferred, succeed
from zope.interface import implementer

from garcon.contract import rpc
from garcon.contract.diagnostics import LaneDiagnostics, LinkDiagnostics
from garcon.contract.rpc import Continuity, Lane, Method
from garcon.contract.runs import ExecutorDescription, RelayedEvent
from garcon.contract.terminals import TerminalEvent, TerminalNotification
from garcon.errors import LaneLost, LaunchLost
from garcon.link.interfaces import (
    CallContext,
    ICapturedLink,
    ILaneSession,
    ILink,
    ILinkEvents,
    ITerminalEvents,
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
    outlives: bool = False
    """It was made through the link, which keeps it by its class."""


def _held(method: Method, request: Struct | None, *, outlives: bool = False) -> HeldCall:
    def cancelled(_: Deferred[Any]) -> None:
        held.is_cancelled = True

    held = HeldCall(method, request, Deferred(cancelled), outlives=outlives)
    return held


@implementer(ICapturedLink)
@define(eq=False)
class HeldGeneration:
    """One generation: remembers its calls."""

    generation: str
    peer: Peer
    is_current: bool = True
    is_active: bool = False
    is_reconciled: bool = False
    calls: list[HeldCall] = field(factory=list)

    def call(
        self,
        method: Method,
        request: Struct | None,
        *,
        lane: Lane | None = None,
        deadline: float | None = None,
    ) -> Deferred[Any]:
        held = _held(method, request)
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
        self.detached: list[str] = []
        self.taken: list[dict[str, int]] = []
        self.closed: list[str] = []
        self.closing: Deferred[None] | None = None
        self.probed: Deferred[None] | None = None
        self.parked: list[HeldCall] = []
        """Journaled calls that wait for a session, or for word of them in the next."""
        self.was_up = False
        self.reconciling: Deferred[None] | None = None
        self._now: HeldGeneration | None = None

    def call(
        self,
        method: Method,
        request: Struct | None,
        *,
        deadline: float | UnsetType | None = UNSET,
        interactive: bool = False,
    ) -> Deferred[Any]:
        """Hold the call; without a session keep a journaled one for the next."""
        held = _held(method, request, outlives=True)
        if self._now is not None and self._now.is_active:
            self._now.calls.append(held)
        elif method.continuity is Continuity.JOURNALED and self.was_up:
            self.parked.append(held)
        else:
            held.d.errback(LaneLost("it is not connected", outcome="not-dispatched"))
        return held.d

    def reconcile_primary(self) -> Deferred[None]:
        assert self._now is not None and not self._now.is_reconciled
        self._now.is_reconciled = True
        return succeed(None) if self.reconciling is None else self.reconciling

    def activate(self) -> None:
        assert self._now is not None and self._now.is_reconciled
        self._now.is_active = self.was_up = True
        parked, self.parked = self.parked, []
        self._now.calls += parked

    def current(self) -> ICapturedLink | None:
        return self._now

    def probe(self) -> Deferred[None]:
        """Be answered at once, unless the test has put a Deferred in `probed`."""
        return succeed(None) if self.probed is None else self.probed

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

    def send_terminal(self, notification: TerminalNotification) -> bool:
        raise AssertionError("only a worker sends these")

    def detach_terminal(self, attachment_id: str) -> None:
        self.detached.append(attachment_id)

    def take_terminals(self, taken: dict[str, int]) -> None:
        self.taken.append(taken)

    def close(self, cause: str) -> Deferred[None]:
        """Lose what is there; hold the end back if the test has put a Deferred in `closing`."""
        self.closed.append(cause)
        self.lose(cause)
        return succeed(None) if self.closing is None else self.closing

    def install(self, generation: str, worker: str = "runtime-1") -> HeldGeneration:
        """Connect, as one new generation, to a worker process."""
        peer = Peer(self.executor_id, worker, "worker")
        self._now = HeldGeneration(generation, peer)
        self.events.primary_installed(self._now)
        return self._now

    def ready(
        self,
        generation: str,
        description: ExecutorDescription = DESCRIPTION,
        *,
        worker: str = "runtime-1",
        resumed: list[rpc.ResumedBinding] | None = None,
    ) -> HeldGeneration:
        """Connect, answer the description, and have every stream that is asked for, or these."""
        installed = self.install(generation, worker)
        installed.waiting(rpc.DESCRIBE).d.callback(description)
        for call in installed.calls:
            if call.method is rpc.PRODUCERS_RESUME:
                assert isinstance(call.request, rpc.ResumeProducers)
                asked = call.request.bindings
                if resumed is None:
                    resumed = [rpc.ResumedBinding(b.binding, b.acknowledged_seq) for b in asked]
                call.d.callback(rpc.ResumedProducers(resumed))
        return installed

    def lose(self, cause: str = "socket-closed") -> None:
        """Disconnect: fail the open calls first, then tell, as a link does."""
        lost, self._now = self._now, None
        if lost is None:
            return
        lost.is_current = False
        for call in lost.calls:
            if call.d.called:
                continue
            if call.outlives and call.method.continuity is Continuity.JOURNALED:
                self.parked.append(call)
            elif call.outlives and call.method.continuity is Continuity.LAUNCH:
                call.d.errback(LaunchLost(cause))
            else:
                call.d.errback(LaneLost(cause))
        self.events.primary_lost(lost, cause)

    def produce(self, binding_id: str, seq: int, event: RelayedEvent) -> None:
        """Deliver one producer frame."""
        self.events.producer_received(binding_id, seq, rpc.produced(binding_id, event))

    def tell(self, attachment_id: str, event: TerminalEvent) -> None:
        """Deliver one terminal event."""
        assert ITerminalEvents.providedBy(self.events)
        notification = TerminalNotification(attachment_id=attachment_id, event=event)
        self.events.terminal_received(notification)


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
