"""The in-process network with everything that can happen to connections: cuts at a record, one dead
side, black holes, delays, full sockets, refused and unanswered attempts, and replayed connections.

Nothing is ever reordered or lost within a connection that lives on, as TCP has it, and nobody hears
of anything while he speaks: what is sent arrives in the next turn of the reactor.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from attrs import define, field
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from zope.interface import implementer

from garcon.link.causes import Cause
from garcon.link.lanes import Lanes
from garcon.link.memory import MemoryNetwork, MemoryWire
from garcon.link.wire import IWire, IWireUser

_READS_AGAIN = "reads-again"


@implementer(IWireUser)
class _Nobody:
    """Who replays a connection does not listen to what is answered."""

    def wire_opened(self, wire: IWire) -> None:
        pass

    def record_received(self, record: bytes) -> None:
        pass

    def wire_writable(self) -> None:
        pass

    def wire_closed(self, kind: str, text: str) -> None:
        pass


@define(eq=False)
class _Way:
    """What is on its way to one end of a connection."""

    is_held: bool = False
    waiting: deque[tuple[str, bytes]] = field(factory=deque)
    cut_after: int | None = None


@define(eq=False)
class Connection:
    """Both ends of one connection, and all that the dialling one has sent."""

    dialler: MemoryWire
    accepted: MemoryWire
    target: Lanes
    said: list[bytes] = field(factory=list)

    def end(self, side: int) -> MemoryWire:
        """Return one of the two ends."""
        return (self.dialler, self.accepted)[side % 2]

    @property
    def is_over(self) -> bool:
        return self.dialler.is_over and self.accepted.is_over


@define(eq=False)
class FaultyNetwork(MemoryNetwork):
    """See `MemoryNetwork`; `is_refusing` and `is_deaf` are about new connections."""

    clock: IReactorTime = field(kw_only=True)
    is_refusing: bool = False
    is_deaf: bool = False
    _connections: list[Connection] = field(factory=list)
    _ways: dict[MemoryWire, _Way] = field(factory=dict)
    _turn: IDelayedCall | None = None

    def connect(self, dialler: MemoryWire, target: Lanes) -> None:
        """See `MemoryNetwork`."""
        if dialler.is_over or self.is_deaf:
            return
        if self.is_refusing or not target.accepts_sockets:
            dialler.is_over = True
            dialler.user.wire_closed(Cause.CONNECT_FAILED, "nobody listens")
            return
        self._join(dialler, target)
        dialler.user.wire_opened(dialler)

    def _join(self, dialler: MemoryWire, target: Lanes) -> None:
        accepted = dialler.peer = MemoryWire(self, target.answer(), dialler)
        self.wires += [dialler, accepted]
        self._connections = [*self.open(), Connection(dialler, accepted, target)]
        accepted.user.wire_opened(accepted)

    def open(self) -> list[Connection]:
        """Return the connections there are, oldest first."""
        return [c for c in self._connections if not c.is_over]

    def post(self, wire: MemoryWire | None, what: str, record: bytes) -> None:
        """See `MemoryNetwork`."""
        if wire is not None and what == _READS_AGAIN:
            self._release(wire)
        else:
            super().post(wire, what, record)

    def _deliver(self) -> None:
        if self._posts and self._turn is None:
            self._turn = self.clock.callLater(0, self._deliver_now)

    def _deliver_now(self) -> None:
        # What is posted meanwhile belongs to the next turn.
        self._turn = None
        for _ in range(len(self._posts)):
            wire, what, record = self._posts.popleft()
            way = self._ways.get(wire)
            if way is not None and what != "gone":
                if way.is_held:
                    way.waiting.append((what, record))
                    continue
                if way.cut_after is not None:
                    if way.cut_after == 0:
                        self.break_off(wire)
                        continue
                    way.cut_after -= 1
            if not wire.is_reading and what != "gone":
                self._way(wire).waiting.append((what, record))
                if not wire.unread:
                    # A wire posts what it has not read when it reads again: so it tells us.
                    wire.unread.append((_READS_AGAIN, b""))
                continue
            self._arrive(wire, what, record)
        self._deliver()

    def _arrive(self, wire: MemoryWire, what: str, record: bytes) -> None:
        if what == "record":
            if not wire.is_over:
                self._remember(wire, record)
                wire.user.record_received(record)
        elif what == "gone" or not wire.is_over:
            wire.is_over = True
            self._ways.pop(wire, None)
            if wire in self.wires:
                self.wires.remove(wire)
            wire.user.wire_closed(Cause.SOCKET_CLOSED, "the connection was closed")

    def _remember(self, wire: MemoryWire, record: bytes) -> None:
        for connection in self._connections:
            if connection.accepted is wire:
                connection.said.append(record)

    def break_off(self, wire: MemoryWire) -> None:
        """Both ends learn that the connection is gone; what was on its way is lost."""
        self.die(wire)
        if wire.peer is not None:
            self.die(wire.peer)

    def die(self, wire: MemoryWire) -> None:
        """One end learns that the connection is gone; the other goes on speaking to nobody."""
        if not wire.is_over:
            wire.is_over = True
            self.post(wire, "gone", b"")

    def cut_after(self, wire: MemoryWire, records: int) -> None:
        """Break the connection instead of delivering the record after so many to this end."""
        self._way(wire).cut_after = records

    def hold_back(self, wire: MemoryWire) -> None:
        """What is sent to this end waits from now on."""
        self._way(wire).is_held = True

    def _way(self, wire: MemoryWire) -> _Way:
        return self._ways.setdefault(wire, _Way())

    def let_go(self, wires: Iterable[MemoryWire]) -> None:
        """Deliver what waited for these ends, and go on."""
        for wire in wires:
            way = self._ways.get(wire)
            if way is not None and way.is_held:
                way.is_held = False
                self._release(wire)

    def _release(self, wire: MemoryWire) -> None:
        way = self._ways.get(wire)
        if way is not None and not way.is_held:
            waiting, way.waiting = way.waiting, deque()
            # Ahead of what was sent to them since and has not been looked at.
            self._posts.extendleft((wire, *one) for one in reversed(waiting))
            self._deliver()

    def replay(self, connection: Connection) -> None:
        """Say all that the dialling side of a connection has said once more, on another."""
        if connection.target.accepts_sockets and not (self.is_deaf or self.is_refusing):
            copy = MemoryWire(self, _Nobody())
            self._join(copy, connection.target)
            for record in list(connection.said):
                copy.send(record)

    def heal(self) -> None:
        """What lives works again."""
        self.is_refusing = self.is_deaf = False
        for way in self._ways.values():
            way.cut_after = None
        self.let_go(list(self._ways))
        for connection in self.open():
            if isinstance(connection.dialler.user, _Nobody):
                self.break_off(connection.dialler)
            for side in (0, 1):
                wire = connection.end(side)
                if not wire.is_over and not wire.is_writable:
                    wire.set_writable(True)
