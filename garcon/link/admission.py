"""Who may keep a socket while handshakes are pending (pure; control.md J.3).

A link has few places, and a peer without the secret could fill them; so a newcomer takes the place
of the oldest socket whose peer has not proven the secret, else of the oldest still in its
handshake.  The same holds for all pending sockets together.  An established lane is never pushed
out.

A peer needs two round trips to prove itself, and whoever comes and goes faster than that would push
it out each time.  So those who have said nothing yet that was made with the secret go first (a
first message may have been recorded and said again, so it is no proof), and among equals it is the
address with the most sockets that loses one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from enum import IntEnum
from ipaddress import IPv6Address, ip_address

from attrs import define
from zope.interface import implementer

from garcon.contract import limits
from garcon.link.wire import ITicket


class _Stage(IntEnum):
    UNPROVEN = 0
    KEYED = 1
    PROVEN = 2
    ESTABLISHED = 3
    GONE = 4


@implementer(ITicket)
@define(eq=False)
class Ticket:
    """One accepted socket's place.  `evict` closes the socket, `origin` is whose it is."""

    _admission: Admission
    link: object
    evict: Callable[[], None]
    origin: str = ""
    stage: _Stage = _Stage.UNPROVEN
    lane: str | None = None

    def keyed(self) -> None:
        """See `ITicket`."""
        if self.stage is _Stage.UNPROVEN:
            self.stage = _Stage.KEYED

    def proven(self) -> None:
        """See `ITicket`."""
        if self.stage in (_Stage.UNPROVEN, _Stage.KEYED):
            self.stage = _Stage.PROVEN

    def established(self, lane: str) -> bool:
        """See `ITicket`."""
        return self._admission.establish(self, lane)

    def release(self) -> None:
        """See `ITicket`."""
        self._admission.release(self)


class Admission:
    """All accepted sockets of a process, oldest first."""

    def __init__(
        self,
        per_link: int = limits.SOCKETS_PER_LINK,
        pending: int = limits.PENDING_SOCKETS,
        established: int = limits.ESTABLISHED_PER_LANE,
        total: int = limits.SOCKETS_TOTAL,
    ) -> None:
        self._per_link = per_link
        self._pending = pending
        self._established = established
        self._total = total
        self._tickets: dict[Ticket, None] = {}

    def __len__(self) -> int:
        return len(self._tickets)

    def admit(self, link: object, evict: Callable[[], None], host: str = "") -> Ticket | None:
        """Give a valid upgrade from `host` its place, pushing out whoever has to go; None when
        nobody can.
        """
        origin = _origin(host)
        of_link = [t for t in self._tickets if t.link is link]
        victim = None
        if len(of_link) >= self._per_link:
            victim = _victim(of_link, origin)
            if victim is None:
                return None
        else:
            waiting = [t for t in self._tickets if t.stage is not _Stage.ESTABLISHED]
            if len(waiting) >= self._pending or len(self._tickets) >= self._total:
                victim = _victim(waiting, origin)
                if victim is None:
                    return None
        ticket = Ticket(self, link, evict, origin)
        self._tickets[ticket] = None
        if victim is not None:
            self.release(victim)
            victim.evict()
        return ticket

    def establish(self, ticket: Ticket, lane: str) -> bool:
        """Count a socket as a lane, if there is room for one more of its kind."""
        if ticket.stage is _Stage.GONE:
            return False
        if sum(t.lane == lane for t in self._tickets) >= self._established:
            return False
        ticket.stage = _Stage.ESTABLISHED
        ticket.lane = lane
        return True

    def release(self, ticket: Ticket) -> None:
        """Free a place; harmless when it is free already."""
        ticket.stage = _Stage.GONE
        self._tickets.pop(ticket, None)


def _victim(tickets: list[Ticket], newcomer: str) -> Ticket | None:
    """Return the oldest unproven socket, else the oldest in its handshake: of the address that has
    the most, when the newcomer is counted in.
    """
    for stage in (_Stage.UNPROVEN, _Stage.KEYED, _Stage.PROVEN):
        found = [ticket for ticket in tickets if ticket.stage is stage]
        if found:
            counts = Counter(ticket.origin for ticket in found)
            counts[newcomer] += 1
            most = max(counts[ticket.origin] for ticket in found)
            return next(ticket for ticket in found if counts[ticket.origin] == most)
    return None


def _origin(host: str) -> str:
    """Return what stands for an address: of IPv6 the network that one host may have for itself."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, IPv6Address):
        return str(address.ipv4_mapped or IPv6Address(int(address) >> 64 << 64))
    return host
