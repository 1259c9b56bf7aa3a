"""The port on which a listening worker waits for its controller: one path, nothing else."""

from __future__ import annotations

from typing import Any, cast

from attrs import define, frozen
from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.interfaces import IListeningPort
from twisted.internet.ssl import CertificateOptions
from twisted.web.resource import IResource
from zope.interface import implementer

from garcon.deferreds import returns_deferred
from garcon.local.listener import write_listener
from garcon.web.exchange import (
    Admission,
    DoorLimits,
    IDoorPolicy,
    Incoming,
    Outgoing,
    Upgrade,
    text_answer,
)
from garcon.web.site import BoundedSite

PATH = "/executor"

LIMITS = DoorLimits(connections=64, header_time=5.0, keep_alive=False, linger=1.0)
"""For connections that have not become a WebSocket; the link itself bounds those that have."""

_NOT_FOUND = text_answer(404, "Not found")
_STOP_GRACE = 0.5


@frozen
class ListenPlan:
    """Where to listen.  Without `tls` the port is plain; `advertised` is how others reach it, if
    that differs.
    """

    port: int
    address: str
    tls: CertificateOptions | None
    advertised: str | None
    file: str
    """Where `garcon executor connection-url` finds the address later."""


@implementer(IDoorPolicy)
@define(eq=False)
class LinkDoor:
    """Lets WebSocket upgrades of the one path through; the shared secret decides about the rest."""

    _resource: IResource

    def admit(self, incoming: Incoming) -> Admission | Outgoing | Upgrade:
        """Hand an upgrade over; everything else does not exist."""
        if incoming.method != "GET" or incoming.path != PATH:
            return _NOT_FOUND
        return Upgrade(self._resource)


class LinkListener:
    """Owns the listening port.  The link owns what has become a WebSocket."""

    def __init__(self, reactor: Any, plan: ListenPlan, resource: IResource) -> None:
        self._reactor = reactor
        self._plan = plan
        self._site = BoundedSite(reactor, LinkDoor(resource), _unreachable, LIMITS)
        self._port: IListeningPort | None = None

    def start(self) -> str:
        """Listen, note the address in its file, and return the bound URL, which is no secret."""
        plan = self._plan
        if plan.tls is None:
            port = self._reactor.listenTCP(plan.port, self._site, interface=plan.address)
        else:
            port = self._reactor.listenSSL(plan.port, self._site, plan.tls, interface=plan.address)
        self._port = port
        number = cast("IPv4Address | IPv6Address", port.getHost()).port
        host = f"[{plan.address}]" if ":" in plan.address else plan.address
        bound = f"{'ws' if plan.tls is None else 'wss'}://{host}:{number}{PATH}"
        write_listener(plan.file, plan.advertised or bound, tls=plan.tls is not None)
        return bound

    @returns_deferred
    async def stop(self) -> None:
        """Close the port and every connection that is no WebSocket."""
        port, self._port = self._port, None
        if port is not None:
            await maybeDeferred(port.stopListening)
        await self._site.close(_STOP_GRACE)


def _unreachable(incoming: Incoming) -> Deferred[Outgoing]:
    raise AssertionError("nothing is admitted at this door")
