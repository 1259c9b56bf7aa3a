"""One end of a link in this process, with its listening port and a proxy before it, for a peer that
is a process of its own.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.protocol import ProcessProtocol
from twisted.internet.task import deferLater
from twisted.python.failure import Failure
from twisted.web.resource import Resource
from twisted.web.server import Site

import garcon
from garcon.deferreds import Waiters, returns_deferred
from garcon.link.admission import Admission
from garcon.link.settings import LinkSettings
from garcon.link.websocket import LaneResource
from garcon.testing.faults.ends import EXECUTOR, ControllerEnd, WorkerEnd
from garcon.testing.faults.ledger import Ledger
from garcon.testing.faults.sockets import QUICK
from garcon.testing.proxy import FaultProxy

POLL = 0.02


class Peer(ProcessProtocol):
    """A process of `garcon.testing.faults.peer`, and all that it has told."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.errors = b""
        self.has_ended = False
        self._rest = b""
        self._ended: Waiters[None] = Waiters()

    def outReceived(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        self.lines += [line.decode() for line in lines]

    def errReceived(self, data: bytes) -> None:
        self.errors += data

    def processEnded(self, reason: Failure) -> None:
        self.has_ended = True
        self._ended.fire(None)

    def signal(self, number: int) -> None:
        """Send it a signal."""
        transport: Any = self.transport
        os.kill(transport.pid, number)

    def ended(self) -> Deferred[None]:
        """Fire when it has ended."""
        return self._ended.wait()

    def count(self, line: str) -> int:
        """How often it has told something."""
        return self.lines.count(line)


class Beside:
    """This process' end is the one that is dialled: a `ControllerEnd` for workers, or the other way
    round.
    """

    def __init__(self, reactor: Any, peers: str, settings: LinkSettings = QUICK) -> None:
        self.reactor = reactor
        self.peers_role = peers
        self.ledger = Ledger()
        self.peers: list[Peer] = []
        self.admission = Admission()
        self.controller: ControllerEnd | None = None
        self.worker: WorkerEnd | None = None
        root = Resource()
        root.putChild(b"executor", LaneResource(self._find, reactor, self.admission, settings))
        site = Site(root)
        site.noisy = False
        self._port = reactor.listenTCP(0, site, interface="127.0.0.1")
        self.proxy = FaultProxy(reactor, cast(IPv4Address, self._port.getHost()).port)
        self._proxy_port = self.proxy.start()
        if peers == "worker":
            self.controller = ControllerEnd(reactor, self.ledger, settings, None)
            self.controller.executor.start()
        else:
            self.worker = WorkerEnd(reactor, self.ledger, settings, None, 1)
            self.worker.link.start()

    @property
    def link(self) -> Any:
        """This end's link."""
        end = self.controller or self.worker
        assert end is not None
        return end.link

    def _find(self, segment: bytes | None) -> Any:
        if self.controller is not None:
            return self.controller.link if segment == EXECUTOR.encode() else None
        return self.link if segment is None else None

    def start_peer(self, *options: str) -> Peer:
        """Start a process that dials this end."""
        peer = Peer()
        self.peers.append(peer)
        path = f"/executor/{EXECUTOR}" if self.controller is not None else "/executor"
        argv = [
            *(sys.executable, "-W", "ignore", "-m", "garcon.testing.faults.peer"),
            *(self.peers_role, f"ws://127.0.0.1:{self._proxy_port}{path}"),
            *("--number", str(len(self.peers)), *options),
        ]
        environment = {**os.environ, "PYTHONPATH": str(Path(garcon.__file__).parents[1])}
        self.reactor.spawnProcess(peer, sys.executable, argv, environment)
        return peer

    def is_up(self) -> bool:
        """Whether both lanes are ready here, and on a controller calls may be made."""
        return self.link.bulk_phase == "ready" and (
            self.controller is None or self.controller.executor.availability == "ready"
        )

    @returns_deferred
    async def until(
        self, what: str, condition: Callable[[], object], seconds: float = 20.0
    ) -> None:
        """Fire when something has come; fail with what was told instead."""
        end = self.reactor.seconds() + seconds
        while not condition():
            if self.reactor.seconds() > end:
                told = [peer.lines[-12:] for peer in self.peers]
                errors = [peer.errors[-2000:].decode("utf-8", "replace") for peer in self.peers]
                raise AssertionError(f"{what}: never; {self.link.last_error} {told} {errors}")
            await deferLater(self.reactor, POLL)

    @returns_deferred
    async def close(self) -> None:
        """End everything, peers included."""
        for peer in self.peers:
            if not peer.has_ended:
                ended = peer.ended()
                peer.signal(signal.SIGKILL)
                await ended
        self.proxy.cut()
        if self.controller is not None:
            await self.controller.stop()
        if self.worker is not None:
            await self.worker.stop()
        await self.proxy.stop()
        await maybeDeferred(self._port.stopListening)
        await self.until("the end of all sockets", lambda: not len(self.admission), 5.0)
        await deferLater(self.reactor, POLL)
