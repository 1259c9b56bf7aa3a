"""Sockets that mean harm: a peer without the secret keeps nobody out and floods no log."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from twisted.internet import reactor as _reactor
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import ITCPTransport
from twisted.internet.protocol import ClientFactory, Protocol, connectionDone
from twisted.internet.task import LoopingCall, deferLater
from twisted.logger import ILogObserver, LogEvent, LogLevel, globalLogPublisher
from twisted.python.failure import Failure
from twisted.trial.unittest import TestCase
from zope.interface import provider

from garcon.contract.limits import HTTP_BODY, MIB
from garcon.controller.handlers import Handlers
from garcon.controller.http.discovery import Discovery
from garcon.controller.http.door import Door
from garcon.controller.http.health import Health
from garcon.controller.http.identity import Identities
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
INSTANCE = "00000000-0000-4000-8000-00000000000f"
LARGE = bytes(16 * MIB)
RECORD = b"\x82\xb0" + bytes(4) + bytes(48)
"""A masked message of the size of a Noise handshake message."""


class Attacker(ClientFactory):
    """Keeps so many sockets open at a port: whoever is thrown out comes again at once."""

    noisy = False

    def __init__(self, port: int, sockets: int, habit: Callable[[Protocol], None]) -> None:
        self.port = port
        self.habit = habit
        self.sockets = sockets
        self.opened = 0
        self.open: set[Protocol] = set()
        self._is_over = False
        self._left = 0
        for _ in range(sockets):
            self._connect()

    def _connect(self) -> None:
        if not self._is_over:
            self._left += 1
            reactor.connectTCP("127.0.0.1", self.port, self, timeout=5)

    def buildProtocol(self, address: object) -> Protocol:
        """Make a socket with the habit."""
        attacker = self

        class Socket(Protocol):
            def connectionMade(self) -> None:
                attacker.opened += 1
                attacker.open.add(self)
                attacker.habit(self)

            def connectionLost(self, reason: Failure = connectionDone) -> None:
                attacker.open.discard(self)
                attacker.gone()

        return Socket()

    def clientConnectionFailed(self, connector: object, reason: Failure) -> None:
        """Come again."""
        self.gone()

    def gone(self) -> None:
        """A socket has ended."""
        self._left -= 1
        if not self._is_over:
            # Not in the same turn, which would leave no turn to anybody on one reactor.
            reactor.callLater(0.005, self._connect)

    def stop(self) -> None:
        """Come no more."""
        self._is_over = True
        for socket in list(self.open):
            transport: Any = socket.transport
            transport.abortConnection()

    @property
    def is_short(self) -> bool:
        """Whether not as many have been open as should be."""
        return self.opened < self.sockets

    @property
    def is_gone(self) -> bool:
        return self._is_over and self._left == 0


def silent(socket: Protocol) -> None:
    """Say nothing."""


def trickling(text: bytes) -> Callable[[Protocol], None]:
    """Return the habit of saying a text one byte after the other, slowly."""

    def trickle(socket: Protocol) -> None:
        rest = iter(text * 100)

        def more() -> None:
            if not write(socket, bytes([next(rest)])):
                call.stop()

        call = LoopingCall(more)
        call.start(0.05)

    return trickle


def flooding(text: bytes) -> Callable[[Protocol], None]:
    """Return the habit of saying a text over and over, as fast as it is taken."""

    def flood(socket: Protocol) -> None:
        def more() -> None:
            if not write(socket, text):
                call.stop()

        call = LoopingCall(more)
        call.start(0.01)

    return flood


def saying(text: bytes) -> Callable[[Protocol], None]:
    """Return the habit of saying a text and no more."""

    def say(socket: Protocol) -> None:
        write(socket, text)

    return say


def leaving(text: bytes) -> Callable[[Protocol], None]:
    """Return the habit of saying a text and going away a moment later."""

    def leave(socket: Protocol) -> None:
        write(socket, text)
        transport: Any = socket.transport
        reactor.callLater(0.02, transport.abortConnection)

    return leave


def write(socket: Protocol, data: bytes) -> bool:
    """Write if the socket is open still; return whether it is."""
    transport: Any = socket.transport
    if transport is None or not transport.connected or transport.disconnecting:
        return False
    ITCPTransport(transport).write(data)
    return True


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

    def attack(self, sockets: int, habit: Callable[[Protocol], None]) -> None:
        """Begin one kind of attack."""
        self.attackers.append(Attacker(self.port, sockets, habit))

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


class Attacks(Attacked):
    """A worker's port under attack while its controller dials."""

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

    def test_silent_sockets(self) -> Any:
        """More of them than the port has places, and each comes again when it is thrown out."""
        self.attack(LIMITS.connections + 20, silent)
        return self.withstand()

    def test_half_requests(self) -> Any:
        """Heads that never end."""
        self.attack(LIMITS.connections + 20, trickling(b"GET /executor HTTP/1.1\r\nX: "))
        return self.withstand()

    def test_silent_upgrades(self) -> Any:
        """WebSockets that say nothing."""
        self.attack(12, saying(UPGRADE))
        return self.withstand()

    def test_trickling_upgrades(self) -> Any:
        """WebSockets that never come to the end of their first message."""

        def upgrade_and_trickle(socket: Protocol) -> None:
            write(socket, UPGRADE)
            trickling(RECORD)(socket)

        self.attack(12, upgrade_and_trickle)
        return self.withstand()

    def test_flooding_upgrades(self) -> Any:
        """WebSockets that say wrong handshakes without end."""
        self.attack(12, flooding(UPGRADE + RECORD * 20))
        return self.withstand()

    def test_rubbish(self) -> Any:
        """What is no HTTP at all."""
        self.attack(30, flooding(bytes(range(256)) * 40))
        return self.withstand()

    def test_all_of_it(self) -> Any:
        """Everything at once."""
        self.attack(LIMITS.connections, silent)
        self.attack(10, trickling(UPGRADE))
        self.attack(6, saying(UPGRADE))
        self.attack(6, flooding(UPGRADE + RECORD * 20))
        self.attack(6, flooding(bytes(range(256)) * 40))
        return self.withstand()


class ControllerAttacks(Attacked):
    """A controller's public port under attack while a worker dials it."""

    places = 64

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
        )
        door = Door(reactor, handlers, Health(identities, lambda: ()))
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

    def test_silent_sockets(self) -> Any:
        """More of them than the door has places."""
        self.attack(self.places + 20, silent)
        return self.withstand()

    def test_half_requests(self) -> Any:
        """Heads that never end, for the link and for anything else."""
        for path in (LANE, b"/api/v1/chats"):
            self.attack(self.places // 2 + 10, trickling(b"GET " + path + b" HTTP/1.1\r\nX: "))
        return self.withstand()

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

    def test_silent_upgrades(self) -> Any:
        """WebSockets of the worker's own link that say nothing."""
        self.attack(12, saying(UPGRADE_LANE))
        return self.withstand()

    def test_trickling_upgrades(self) -> Any:
        """WebSockets that never come to the end of their first message."""

        def upgrade_and_trickle(socket: Protocol) -> None:
            write(socket, UPGRADE_LANE)
            trickling(RECORD)(socket)

        self.attack(12, upgrade_and_trickle)
        return self.withstand()

    def test_flooding_upgrades(self) -> Any:
        """WebSockets that say wrong handshakes without end."""
        self.attack(12, flooding(UPGRADE_LANE + RECORD * 20))
        return self.withstand()

    def test_sockets_that_come_and_go(self) -> Any:
        """Upgraded or not, they leave at once and return: some 500 times a second, on the one
        reactor that also serves them and the worker.
        """
        self.attack(4, leaving(b""))
        self.attack(4, leaving(UPGRADE_LANE))
        self.attack(4, leaving(UPGRADE_LANE.replace(EXECUTOR.encode(), OTHER_EXECUTOR.encode())))
        return self.withstand()

    def test_all_of_it(self) -> Any:
        """Everything at once."""
        self.attack(self.places, silent)
        self.attack(10, trickling(UPGRADE_LANE))
        self.attack(6, saying(UPGRADE_LANE))
        self.attack(6, flooding(UPGRADE_LANE + RECORD * 20))
        self.attack(6, flooding(b"GET /api/v1/chats HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20))
        self.attack(6, flooding(bytes(range(256)) * 40))
        self.attack(6, leaving(UPGRADE_LANE))
        return self.withstand()
