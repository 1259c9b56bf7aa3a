"""An in-process network for tests: the whole link, encryption included, over wires that are two
lists.

Records are delivered at once, in order, without re-entering whoever sends.  `hold` and `cut` make
faults.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from attrs import define, field
from zope.interface import implementer

from garcon.contract.connection_url import new_secret
from garcon.link.causes import Cause, Stage
from garcon.link.interfaces import Handler, ILinkEvents
from garcon.link.lanes import Lanes
from garcon.link.link import ControllerLink, WorkerLink
from garcon.link.settings import LinkSettings
from garcon.link.wire import IAttempt, IDialler, IWire, IWireUser


@implementer(IWire, IAttempt)
@define(eq=False)
class MemoryWire:
    """One end of a connection."""

    network: MemoryNetwork
    user: Any
    peer: MemoryWire | None = None
    is_writable: bool = True
    buffered: int = 0
    is_over: bool = False
    is_black_hole: bool = False
    sent: int = 0
    is_reading: bool = True
    unread: deque[tuple[str, bytes]] = field(factory=deque)
    stage: str = Stage.TCP

    def send(self, record: bytes, *, soon: bool = False) -> None:
        """See `IWire`."""
        if self.is_over:
            return
        self.sent += 1
        if self.is_black_hole:
            return
        self.network.post(self.peer, "record", record)

    def hold_reading(self, is_held: bool) -> None:
        """See `IWire`."""
        self.is_reading = not is_held
        while self.is_reading and self.unread:
            self.network.post(self, *self.unread.popleft())

    def close(self) -> None:
        """See `IWire`."""
        if not self.is_over:
            self.is_over = True
            self.network.post(self.peer, "close", b"")
            self.network.post(self, "gone", b"")

    def abort(self) -> None:
        """See `IWire`."""
        self.close()

    def abandon(self) -> None:
        """See `IAttempt`."""
        self.close()

    def set_writable(self, is_writable: bool) -> None:
        """Behave as a socket that is full, or asks for more again."""
        self.is_writable = is_writable
        if is_writable and not self.is_over:
            self.user.wire_writable()


@define(eq=False)
class MemoryNetwork:
    """Every wire of a test."""

    wires: list[MemoryWire] = field(factory=list)
    held: bool = False
    _posts: deque[tuple[MemoryWire, str, bytes]] = field(factory=deque)
    _delivering: bool = False

    def post(self, wire: MemoryWire | None, what: str, record: bytes) -> None:
        """Let something happen at a wire's end, after everything posted before."""
        if wire is None:
            return
        self._posts.append((wire, what, record))
        self._deliver()

    def hold(self) -> None:
        """Black-hole: whatever is sent from now on waits."""
        self.held = True

    def release(self) -> None:
        """Deliver what waited and go on."""
        self.held = False
        self._deliver()

    def cut(self) -> None:
        """Cut every connection, losing what is held."""
        self._posts.clear()
        self.held = False
        for wire in [w for w in self.wires if not w.is_over]:
            wire.is_over = True
            self.post(wire, "gone", b"")

    def connect(self, dialler: MemoryWire, target: Lanes) -> None:
        """Join a dialling wire to a link that listens."""
        if dialler.is_over:
            return
        if not target.accepts_sockets:
            dialler.is_over = True
            dialler.user.wire_closed(Cause.CONNECT_FAILED, "nobody listens")
            return
        accepted = MemoryWire(self, target.answer(), dialler)
        dialler.peer = accepted
        self.wires += [dialler, accepted]
        accepted.user.wire_opened(accepted)
        dialler.user.wire_opened(dialler)

    def _deliver(self) -> None:
        if self._delivering:
            return
        self._delivering = True
        try:
            while self._posts and not self.held:
                wire, what, record = self._posts.popleft()
                if not wire.is_reading and what != "gone":
                    wire.unread.append((what, record))
                elif what == "record":
                    if not wire.is_over:
                        wire.user.record_received(record)
                elif what == "gone" or not wire.is_over:
                    wire.is_over = True
                    if wire in self.wires:
                        self.wires.remove(wire)
                    wire.user.wire_closed(Cause.SOCKET_CLOSED, "the connection was closed")
        finally:
            self._delivering = False


@implementer(IDialler)
@define(eq=False)
class MemoryDialler:
    """Dials one link of the same process; `target` is set once that link exists."""

    network: MemoryNetwork
    target: Lanes | None = None
    is_proxied: bool = False

    def dial(self, reactor: Any, user: IWireUser, close_time: float) -> IAttempt:
        """See `IDialler`."""
        wire = MemoryWire(self.network, user)
        assert self.target is not None
        reactor.callLater(0, self.network.connect, wire, self.target)
        return wire


def memory_pair(
    reactor: Any,
    controller_events: ILinkEvents,
    worker_events: ILinkEvents,
    controller_handlers: dict[str, Handler],
    worker_handlers: dict[str, Handler],
    *,
    executor_id: str = "00000000-0000-4000-8000-000000000001",
    worker_dials: bool = True,
    settings: LinkSettings | None = None,
    methods: Any = None,
    network: MemoryNetwork | None = None,
) -> tuple[ControllerLink, WorkerLink, MemoryNetwork]:
    """Return both ends, started; with a `Clock`, ``advance(0)`` links them, bulk included."""
    network = network or MemoryNetwork()
    dialler = MemoryDialler(network)
    secret = new_secret(bytes(range(32)))
    controller = ControllerLink(
        reactor,
        executor_id,
        secret,
        "controller-runtime",
        controller_events,
        controller_handlers,
        None if worker_dials else dialler,
        settings=settings,
        methods=methods,
    )
    worker = WorkerLink(
        reactor,
        secret,
        "worker-runtime",
        worker_events,
        worker_handlers,
        dialler if worker_dials else None,
        settings=settings,
        methods=methods,
    )
    dialler.target = controller if worker_dials else worker
    controller.start()
    worker.start()
    return controller, worker, network
