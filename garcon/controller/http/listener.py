"""The controller's ports: the public one and, where a command cannot use that, one on loopback."""

from __future__ import annotations

from typing import Any, cast

from attrs import field, frozen
from twisted.internet.defer import Deferred, DeferredList, maybeDeferred
from twisted.internet.interfaces import IListeningPort
from twisted.internet.ssl import CertificateOptions

from garcon.web.hosts import is_loopback_name
from garcon.web.site import BoundedSite

LOOPBACK = "127.0.0.1"
_WILDCARDS = frozenset({"0.0.0.0", "::"})
_BACKLOG = 512


@frozen
class Address:
    """Where to listen: `host` as it was given, without brackets."""

    host: str
    port: int
    tls: CertificateOptions | None = field(default=None, repr=False)

    @property
    def is_wildcard(self) -> bool:
        return self.host in _WILDCARDS

    @property
    def serves_loopback(self) -> bool:
        """Whether the command's plain HTTP on loopback reaches this port (decisions.md 7)."""
        return self.tls is None and (self.is_wildcard or is_loopback_name(self.host))


def url(scheme: str, host: str, port: int) -> str:
    """Return a base URL; an IPv6 address gets its brackets."""
    shown = f"[{host}]" if ":" in host else host
    return f"{scheme}://{shown}:{port}"


class Listeners:
    """Open the ports for a public site and a command's site, and close both."""

    def __init__(self, reactor: Any, address: Address) -> None:
        self._reactor = reactor
        self._address = address
        self._ports: list[IListeningPort] = []
        self._sites: list[BoundedSite] = []
        self.public_url = ""
        """What the ready line shows."""
        self.command_url = ""
        """What the descriptor says."""

    @property
    def connections(self) -> int:
        """Open connections of both ports."""
        return sum(len(site.channels) for site in self._sites)

    @property
    def uploading(self) -> int:
        """Bytes of bodies that are in memory."""
        return sum(site.uploading for site in self._sites)

    def open(self, public: BoundedSite, command: BoundedSite) -> None:
        """Listen; raises `CannotListenError`, and then `close` takes back what was opened."""
        address = self._address
        number = self._listen(public, address.host, address.port, address.tls)
        scheme = "http" if address.tls is None else "https"
        self.public_url = url(scheme, address.host, number)
        if address.serves_loopback:
            self.command_url = url(
                "http", LOOPBACK if address.is_wildcard else address.host, number
            )
        else:
            self.command_url = url("http", LOOPBACK, self._listen(command, LOOPBACK, 0, None))

    def _listen(
        self, site: BoundedSite, host: str, port: int, tls: CertificateOptions | None
    ) -> int:
        # mypy takes twisted.web's Site, which wraps its protocols, for no ordinary factory.
        factory: Any = site
        if tls is None:
            listening = self._reactor.listenTCP(port, factory, backlog=_BACKLOG, interface=host)
        else:
            listening = self._reactor.listenSSL(
                port, factory, tls, backlog=_BACKLOG, interface=host
            )
        self._ports.append(listening)
        self._sites.append(site)
        return cast(int, listening.getHost().port)

    def stop_listening(self) -> Deferred[None]:
        """Take no new connection; fires when the ports are closed."""
        ports, self._ports = self._ports, []
        closed = [maybeDeferred(port.stopListening) for port in ports]
        return DeferredList(closed, consumeErrors=True).addCallback(lambda _: None)

    def drop(self, grace: float) -> Deferred[None]:
        """End every connection, those with an answer under way within `grace` seconds."""
        sites, self._sites = self._sites, []
        return DeferredList([site.close(grace) for site in sites]).addCallback(lambda _: None)
