"""Whose request it is behind proxies: forwarded addresses count only from proxies that are trusted
(decisions.md 2).
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ipaddress import IPv4Network

    Network = IPv4Network | IPv6Network

_LARGEST_LIST = 64
"""Addresses of one header that are looked at: nobody has so many proxies."""


def parse_network(text: str) -> Network:
    """Return a network written as ``10.0.0.0/8``, or one address; raises `ValueError`."""
    try:
        network = ip_network(text.strip())
    except ValueError:
        raise ValueError("must be an address or a network such as 10.0.0.0/8") from None
    if isinstance(network, IPv6Network):
        mapped = network.network_address.ipv4_mapped
        if mapped is not None and network.prefixlen >= 96:
            return ip_network((mapped, network.prefixlen - 96))
    return network


class TrustedProxies:
    """The networks whose word about a client's address is taken."""

    def __init__(self, networks: Iterable[Network] = ()) -> None:
        self._networks = tuple(networks)

    def client(self, peer: str, forwarded_for: str | None, real_ip: str | None = None) -> str:
        """Return the address of whoever asks.

        The list is read from its end, as each proxy has added what it saw: the first address that
        is no trusted proxy's is the client's.  A list that stops making sense is read as far as it
        does.  ``X-Real-IP`` counts where there is no list.
        """
        address = _address(peer)
        if address is None or not self._trusts(address):
            return peer if address is None else str(address)
        text = forwarded_for if forwarded_for is not None else real_ip
        hops = [] if text is None else text.rsplit(",", _LARGEST_LIST)[-_LARGEST_LIST:]
        for hop in reversed(hops):
            found = _address(_without_port(hop.strip()))
            if found is None:
                break
            address = found
            if not self._trusts(found):
                break
        return str(address)

    def _trusts(self, address: IPv4Address | IPv6Address) -> bool:
        return any(address in network for network in self._networks)


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address if mapped is None else mapped


def _without_port(text: str) -> str:
    """Some proxies write ``192.0.2.1:4711`` or ``[2001:db8::1]:4711``."""
    if text.startswith("["):
        return text[1:].partition("]")[0]
    host, colon, _ = text.partition(":")
    return host if colon and text.count(":") == 1 else text
