"""Sockets that mean harm: a peer without the secret keeps nobody out and floods no log."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from twisted.internet import reactor as _reactor
from twisted.internet.defer import Deferred, succeed
from twisted.internet.protocol import Protocol
from twisted.internet.task import deferLater
from twisted.logger import ILogObserver, LogEvent, LogLevel, globalLogPublisher
from twisted.trial.unittest import TestCase
from zope.interface import provider

from garcon.contract.limits import HTTP_BODY, MIB
from garcon.controller.handlers import Handlers
from garcon.controller.http.discovery import Discovery
from garcon.controller.http.door import Door
from garcon.controller.http.health import Health
from garcon.controller.http.identity import Identities
from garcon.controller.http.pages import Pages
from garcon.controller.http.policy import ControllerPolicy
from garcon.controller.http.router import Router
from garcon.controller.service import SECURITY_HEADERS
from garcon.deferreds import returns_deferred
from garcon.link.admission import Admission
from garcon.link.endpoints import DialTarget
from garcon.link.link import ControllerLink, WorkerLink
from garcon.link.websocket import LaneResource
from garcon.test.link.cast import (
    EXECUTOR,
    METHODS,
    OTHER_EXECUTOR,
    SECRET,
    ControllerSide,
    Owner,
    WorkerSide,
)
from garcon.test.live.attackers import (
    Attacker,
    flooding,
    leaving,
    pouring,
    saying,
    silent,
    trickling,
    write,
)
from garcon.web.exchange import DoorLimits, Outgoing
from garcon.web.hosts import AllowedHosts
from garcon.web.site import BoundedSite
from garcon.worker.listener import LIMITS, LinkListener, ListenPlan

reactor: Any = _reactor

UPGRADE = (
    b"GET /executor HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
LANE = b"/executor/" + EXECUTOR.encode()
UPGRADE_LANE = UPGRADE.replace(b"/executor", LANE, 1)
ELSEWHERE = "127.0.0.2"
INSTANCE = "00000000-0000-4000-8000-00000000000f"
LARGE = bytes(16 * MIB)
RECORD = b"\x82\xb0" + bytes(4) + bytes(48)
"""A masked message of the size of a Noise handshake message."""


class Attacked(TestCase):
    """A port under attack while somebody with the secret dials it.

    The port and the link's admission are those that a service has; only the places are as many as
    fit into a test.
    """

    timeout = 40
    within = 10.0

    worker: WorkerLink
    controller: ControllerLink
    admission: Admission
    port: int

    def setUp(self) -> None:
        self.failures: list[LogEvent] = []
        self.warnings: list[LogEvent] = []

        @provider(ILogObserver)
        def observe(event: LogEvent) -> None:
            if "log_failure" in event:
                self.failures.append(event)
            elif event["log_level"] is LogLevel.warn:
                self.warnings.append(event)

        globalLogPublisher.addObserver(observe)
        self.addCleanup(globalLogPublisher.removeObserver, observe)
        self.attackers: list[Attacker] = []
        self.listen()

    def listen(self) -> None:
        """Open the port; sets `port`, `admission` and the end that listens."""
        raise NotImplementedError

    def dial(self) -> None:
        """Make and start the end that dials."""
        raise NotImplementedError

    def stop_listening(self) -> Deferred[None]:
        """Close the port and what is left of its connections."""
        raise NotImplementedError

    def attack(
        self, sockets: int, habit: Callable[[Protocol], None], host: str = "127.0.0.1"
    ) -> None:
        """Begin one kind of attack, from the address that the others dial from or from another."""
        self.attackers.append(Attacker(self.port, sockets, habit, host))

    @returns_deferred
    async def withstand(self) -> None:
        """Let the attack get going; then somebody dials, and is linked in time."""
        # The kernel takes no more than its backlog at once, and then makes the others wait.
        patience = reactor.seconds() + 3.0
        while reactor.seconds() < patience and any(a.is_short for a in self.attackers):
            await deferLater(reactor, 0.02)
        await deferLater(reactor, 0.3)
        self.dial()
        began = reactor.seconds()
        try:
            while self.controller.bulk_phase != "ready" or self.worker.bulk_phase != "ready":
                if reactor.seconds() - began > self.within:
                    errors = self.controller.last_error, self.worker.last_error
                    self.fail(f"not linked in time: {errors}")
                await deferLater(reactor, 0.02)
            # And it stays, whatever comes.
            await deferLater(reactor, 0.5)
            self.assertIsNotNone(self.controller.current())
            self.assertEqual(self.controller.bulk_phase, "ready")
        finally:
            for attacker in self.attackers:
                attacker.stop()
            await self.controller.close("the test is over")
            await self.worker.close("the same")
            await self.stop_listening()
            while not all(attacker.is_gone for attacker in self.attackers):
                await deferLater(reactor, 0.02)
            # Who trickles notices one turn later that there is nobody.
            await deferLater(reactor, 0.1)
        self.assertEqual(len(self.admission), 0)
        self.assertEqual(self.failures, [])
        self.assertLess(len(self.warnings), 40, "the log is flooded")


class AnyPort:
    """What every port has to withstand.  `places` are those of its door, `upgrade` and `refused`
    what may be asked of it.
    """

    attack: Any
    withstand: Any
    places: int
    upgrade: bytes
    refused: bytes

    def test_silent_sockets(self) -> Any:
        """More of them than the port has places, and each comes again when it is thrown out."""
        self.attack(self.places + 20, silent)
        return self.withstand()

    def test_half_requests(self) -> Any:
        """Heads that never end, for the link and for anything else."""
        for head in (self.upgrade, self.refused):
            line = head.partition(b"\r\n")[0]
            self.attack(self.places // 2 + 10, trickling(line + b"\r\nX: "))
        return self.withstand()

    def test_silent_upgrades(self) -> Any:
        """WebSockets of the right link that say nothing."""
        self.attack(12, saying(self.upgrade))
        return self.withstand()

    def test_trickling_upgrades(self) -> Any:
        """WebSockets that never come to the end of their first message."""

        def upgrade_and_trickle(socket: Protocol) -> None:
            write(socket, self.upgrade)
            trickling(RECORD)(socket)

        self.attack(12, upgrade_and_trickle)
        return self.withstand()

    def test_flooding_upgrades(self) -> Any:
        """WebSockets that say wrong handshakes without end."""
        self.attack(12, flooding(self.upgrade + RECORD * 20))
        return self.withstand()

    def test_rubbish(self) -> Any:
        """What is no HTTP at all."""
        self.attack(30, flooding(bytes(range(256)) * 40))
        return self.withstand()

    def test_sound_requests(self) -> Any:
        """Refused, cheap, and as many at once as each of a few connections takes."""
        self.attack(16, pouring(self.refused * 1000))
        return self.withstand()

    def test_sound_requests_in_every_place(self) -> Any:
        """One after the other, so that no connection is ever quiet."""
        self.attack(self.places + 20, flooding(self.refused, 0.05))
        return self.withstand()

    def test_upgrades_that_come_and_go(self) -> Any:
        """Faster than anybody can prove himself; each takes the place of one from its own
        address.
        """
        self.attack(24, leaving(self.upgrade), ELSEWHERE)
        return self.withstand()

    def test_all_of_it(self) -> Any:
        """Everything at once."""
        for sockets, habit in (
            (self.places, silent),
            (10, trickling(self.upgrade)),
            (6, saying(self.upgrade)),
            (6, flooding(self.upgrade + RECORD * 20)),
            (6, flooding(self.refused * 20)),
            (6, flooding(bytes(range(256)) * 40)),
            (6, leaving(self.upgrade)),
        ):
            self.attack(sockets, habit, ELSEWHERE)
        return self.withstand()


class WorkerAttacks(AnyPort, Attacked):
    """A worker's port under attack while its controller dials."""

    places = LIMITS.connections
    upgrade = UPGRADE
    refused = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"

    def listen(self) -> None:
        """See `Attacked`."""
        self.worker = WorkerLink(
            reactor, SECRET, "worker", Owner(), WorkerSide().handlers(), None, methods=METHODS
        )
        self.admission = Admission()
        plan = ListenPlan(0, "127.0.0.1", None, None, str(Path(self.mktemp())))
        resource = LaneResource(lambda segment: self.worker, reactor, self.admission)
        self.listener = LinkListener(reactor, plan, resource)
        self.url = self.listener.start()
        self.port = int(self.url.rsplit(":", 1)[1].split("/")[0])
        self.worker.start()

    def dial(self) -> None:
        """See `Attacked`."""
        self.controller = ControllerLink(
            reactor,
            EXECUTOR,
            SECRET,
            "controller",
            Owner(),
            dict(ControllerSide().handlers()),
            DialTarget(self.url),
            methods=METHODS,
        )
        self.controller.start()

    def stop_listening(self) -> Deferred[None]:
        """See `Attacked`."""
        return self.listener.stop()


class ControllerAttacks(AnyPort, Attacked):
    """A controller's public port under attack while a worker dials it."""

    places = 64
    upgrade = UPGRADE_LANE
    refused = b"GET /api/v1/cli/context HTTP/1.1\r\nHost: localhost\r\n\r\n"
    """Without a token: 401."""

    def listen(self) -> None:
        """See `Attacked`."""
        self.controller = ControllerLink(
            reactor,
            EXECUTOR,
            SECRET,
            "controller",
            Owner(),
            dict(ControllerSide().handlers()),
            None,
            methods=METHODS,
        )
        self.admission = Admission()

        def find(segment: bytes | None) -> ControllerLink | None:
            return self.controller if segment == EXECUTOR.encode() else None

        handlers = Handlers()
        identities = Identities("c" * 43, disable_auth=False)
        Discovery(
            instance_id=INSTANCE,
            capability="c" * 43,
            server_instance_id=INSTANCE,
            workspace=None,
        ).register(handlers)
        policy = ControllerPolicy(
            hosts=AllowedHosts(()),
            router=Router(),
            handlers=handlers,
            identities=identities,
            server_instance_id=INSTANCE,
            body_limit=HTTP_BODY,
            stopping=lambda: False,
            lane_resource=LaneResource(find, reactor, self.admission),
            pages=Pages([Health(identities, lambda: ()).page]),
        )
        door = Door(reactor, handlers)
        self.site = BoundedSite(
            reactor, policy, door.answer, DoorLimits(connections=self.places), SECURITY_HEADERS
        )
        self.listening = reactor.listenTCP(0, self.site, interface="127.0.0.1")
        self.port = self.listening.getHost().port
        self.controller.start()

    def dial(self) -> None:
        """See `Attacked`."""
        self.worker = WorkerLink(
            reactor,
            SECRET,
            "worker",
            Owner(),
            WorkerSide().handlers(),
            DialTarget(f"ws://127.0.0.1:{self.port}/executor/{EXECUTOR}"),
            methods=METHODS,
        )
        self.worker.start()

    @returns_deferred
    async def stop_listening(self) -> None:
        """See `Attacked`."""
        await self.listening.stopListening()
        await self.site.close(0.1)

    def test_half_bodies(self) -> Any:
        """Requests that nobody has to be known for, whose bodies never come."""
        head = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n"
        self.attack(self.places // 2 + 10, saying(head + b"Content-Length: 1000000\r\n\r\n"))
        self.attack(self.places // 2 + 10, saying(head + b"Transfer-Encoding: chunked\r\n\r\n"))
        return self.withstand()

    def test_refused_bodies(self) -> Any:
        """Requests that are refused at their heads and whose bodies never come."""
        head = b"POST /api/v1/chats HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999\r\n\r\n"
        self.attack(self.places + 20, saying(head))
        return self.withstand()

    def test_kept_connections(self) -> Any:
        """One answer each, and then nothing more."""
        self.attack(self.places + 20, saying(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"))
        return self.withstand()

    def test_unread_answers(self) -> Any:
        """Large answers that need nobody to be known, and that nobody takes."""
        self.site.answer = lambda incoming: succeed(Outgoing(200, LARGE))

        def ask_and_not_read(socket: Protocol) -> None:
            transport: Any = socket.transport
            transport.pauseProducing()
            write(socket, b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")

        self.attack(self.places + 20, ask_and_not_read)
        return self.withstand()

    def test_sockets_that_come_and_go(self) -> Any:
        """Upgraded or not, they leave at once and return: some 500 times a second, on the one
        reactor that also serves them and the worker.
        """
        self.attack(4, leaving(b""))
        self.attack(4, leaving(UPGRADE_LANE))
        self.attack(4, leaving(UPGRADE_LANE.replace(EXECUTOR.encode(), OTHER_EXECUTOR.encode())))
        return self.withstand()
