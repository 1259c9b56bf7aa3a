"""The gateway as a part of the worker: its loopback listener, its descriptor, and the order of
both.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, cast
from uuid import uuid4

from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import IListeningPort, IReactorTCP, IReactorTime
from twisted.logger import Logger

from garcon.contract import limits
from garcon.deferreds import returns_deferred
from garcon.errors import StartupError
from garcon.link.interfaces import ICapturedLink
from garcon.local.descriptors import Descriptor, new_capability, publish, remove_if_ours
from garcon.web.exchange import DoorLimits
from garcon.web.site import BoundedSite
from garcon.worker.gateway.forward import Forwarder
from garcon.worker.gateway.policy import REFUSALS, GatewayPolicy, Identity
from garcon.worker.gateway.relation import Relation
from garcon.worker.gateway.slots import Slots

LOOPBACK = "127.0.0.1"
_BACKLOG = 128
_STOP_GRACE = 1.0

LIMITS = DoorLimits(
    connections=limits.GATEWAY_CONNECTIONS,
    headers=limits.GATEWAY_HEADERS,
    header_time=limits.GATEWAY_HEADER_TIME,
    upload_time=limits.GATEWAY_REQUEST_TIME,
    drain=limits.GATEWAY_DRAIN_TIME,
    step=limits.GATEWAY_WRITE,
    uploads=limits.GATEWAY_RESPONSES * limits.BRIDGE_BULK_REQUEST,
    # The ceiling is of all sockets there are (cli-gateway: a 32-connection ceiling).
    eviction=0.0,
    keep_alive=False,
    eager=True,
)


def gateway_site(reactor: IReactorTime, policy: GatewayPolicy, relation: Relation) -> BoundedSite:
    """Return the gateway's door, with its bounds and its own words."""
    return BoundedSite(
        reactor,
        policy,
        Forwarder(relation).answer,
        LIMITS,
        {"Cache-Control": "no-store"},
        refusals=REFUSALS,
    )


class Gateway:
    """The loopback endpoint at which this machine's commands find their controller.

    It lives as long as the process; links come and go behind it.
    """

    _log = Logger()

    def __init__(
        self,
        reactor: IReactorTime,
        network: IReactorTCP,
        current: Callable[[], ICapturedLink | None],
        descriptor_path: str,
        wall_clock: Callable[[], float],
        instance_id: str | None = None,
    ) -> None:
        self.identity = Identity(instance_id or str(uuid4()), new_capability())
        self.relation = Relation(current)
        self.base_url: str | None = None
        """Where it listens, once it does."""
        self._network = network
        self._descriptor_path = descriptor_path
        self._wall_clock = wall_clock
        self._port: IListeningPort | None = None
        self._policy = GatewayPolicy(self.identity, self.relation, Slots())
        self._site = gateway_site(reactor, self._policy, self.relation)

    def start(self) -> None:
        """Listen on a free port and publish the descriptor; `StartupError` when either fails, with
        nothing left open.
        """
        try:
            # Twisted's own Site is untyped, so it is no ServerFactory to mypy.
            factory = cast(Any, self._site)
            port = self._network.listenTCP(0, factory, backlog=_BACKLOG, interface=LOOPBACK)
        except (CannotListenError, OSError) as error:
            raise StartupError(f"the command gateway cannot listen: {error}") from error
        number = cast(IPv4Address, port.getHost()).port
        base_url = f"http://{LOOPBACK}:{number}"
        try:
            publish(
                self._descriptor_path,
                Descriptor(
                    role="executor",
                    instance_id=self.identity.instance_id,
                    started_at=int(self._wall_clock() * 1000),
                    pid=os.getpid(),
                    base_url=base_url,
                    local_capability=self.identity.capability,
                ),
            )
        except (OSError, StartupError) as error:
            # Stopping a listener that has accepted nothing cannot fail in a way that matters here.
            maybeDeferred(port.stopListening).addErrback(lambda _: None)
            remove_if_ours(self._descriptor_path, self.identity.instance_id)
            raise StartupError(f"the command gateway cannot be published: {error}") from error
        self._policy.hosts = frozenset({f"{LOOPBACK}:{number}", f"localhost:{number}"})
        self._port = port
        self.base_url = base_url

    def retract(self) -> None:
        """Remove the descriptor if it is still ours; never raises."""
        try:
            remove_if_ours(self._descriptor_path, self.identity.instance_id)
        except OSError:
            self._log.failure("the gateway's descriptor could not be removed")

    @returns_deferred
    async def stop(self) -> None:
        """Close the listener and every connection.  The descriptor is `retract`'s, which comes
        first.
        """
        port, self._port = self._port, None
        if port is None:
            return
        self.base_url = None
        await _closed(port)
        await self._site.close(_STOP_GRACE)


def _closed(port: IListeningPort) -> Deferred[object]:
    return maybeDeferred(port.stopListening)
