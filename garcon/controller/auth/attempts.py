"""How often an address may try to sign in (server.md B.1): a sliding window, times handed in."""

from __future__ import annotations

from collections import OrderedDict, deque
from ipaddress import IPv6Address, IPv6Network, ip_address

from attrs import define, field

CALLS = 10
WINDOW = 60.0
ADDRESSES = 4_096


@define(eq=False)
class Attempts:
    """The recent calls of each address.  A refused one does not count again, so whoever waits
    long enough is let in.  An IPv6 network of 64 bits is one address: it is what one client gets.

    Of more addresses than `addresses` those that were quiet for longest are forgotten; what many
    addresses together can cost is bounded by the pool that hashes, not here.
    """

    calls: int = CALLS
    window: float = WINDOW
    addresses: int = ADDRESSES
    _recent: OrderedDict[str, deque[float]] = field(factory=OrderedDict)

    def __len__(self) -> int:
        return len(self._recent)

    def take(self, address: str, now: float) -> float | None:
        """Count a call; or return, uncounted, for how many seconds none is taken any more."""
        address = _client(address)
        recent = self._recent.setdefault(address, deque())
        while recent and recent[0] <= now - self.window:
            recent.popleft()
        if len(recent) >= self.calls:
            return recent[0] + self.window - now
        recent.append(now)
        self._recent.move_to_end(address)
        self._forget(now)
        return None

    def _forget(self, now: float) -> None:
        """Drop who was quiet for a whole window, and who is one too many."""
        while self._recent:
            address, recent = next(iter(self._recent.items()))
            if len(self._recent) <= self.addresses and recent[-1] > now - self.window:
                return
            del self._recent[address]


def _client(address: str) -> str:
    try:
        known = ip_address(address)
    except ValueError:
        return address
    if isinstance(known, IPv6Address) and known.ipv4_mapped is None:
        return str(IPv6Network((known.packed, 64), strict=False))
    return address
