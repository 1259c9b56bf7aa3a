"""Sockets that mean harm: a peer without the secret keeps nobody out and floods no log."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from twisted.internet import reactor as _reactor
from twisted.internet.interfaces import ITCPTransport
from twisted.internet.protocol import ClientFactory, Protocol, connectionDone
from twisted.internet.task import LoopingCall, deferLater
from twisted.logger import ILogObserver, LogEvent, LogLevel, globalLogPublisher
from twisted.python.failure import Failure
from twisted.trial.unittest import TestCase
from zope.interface import provider

from garcon.deferreds import returns_deferred
from garcon.link.admission import Admission
from garcon.link.endpoints import DialTarget
from garcon.link.link import ControllerLink, WorkerLink
from garcon.link.websocket import LaneResource
from garcon.test.link.cast import EXECUTOR, METHODS, SECRET, ControllerSide, Owner, WorkerSide
from garcon.worker.listener import LIMITS, LinkListener, ListenPlan

reactor: Any = _reactor

UPGRADE = (
    b"GET /executor HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
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


def write(socket: Protocol, data: bytes) -> bool:
    """Write if the socket is open still; return whether it is."""
    transport: Any = socket.transport
    if transport is None or not transport.connected or transport.disconnecting:
        return False
    ITCPTransport(transport).write(data)
    return True


class Attacks(TestCase):
    """A worker's port under attack while its controller dials.

    The port and the link's admission are those that a worker has; only the places are as many as
    fit into a test.
    """

    timeout = 40
    within = 10.0

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
        self.worker = WorkerLink(
            reactor, SECRET, "worker", Owner(), WorkerSide().handlers(), None, methods=METHODS
        )
        self.admission = Admission()
        plan = ListenPlan(0, "127.0.0.1", None, None, str(Path(self.mktemp())))
        resource = LaneResource(lambda segment: self.worker, reactor, self.admission)
        self.listener = LinkListener(reactor, plan, resource)
        self.url = self.listener.start()
        self.attackers: list[Attacker] = []
        self.worker.start()

    def attack(self, sockets: int, habit: Callable[[Protocol], None]) -> None:
        """Begin one kind of attack."""
        port = int(self.url.rsplit(":", 1)[1].split("/")[0])
        self.attackers.append(Attacker(port, sockets, habit))

    @returns_deferred
    async def withstand(self) -> None:
        """Let the attack get going; then the controller dials, and is linked in time."""
        # The kernel takes no more than its backlog at once, and then makes the others wait.
        patience = reactor.seconds() + 3.0
        while reactor.seconds() < patience and any(a.is_short for a in self.attackers):
            await deferLater(reactor, 0.02)
        await deferLater(reactor, 0.3)
        controller = ControllerLink(
            reactor,
            EXECUTOR,
            SECRET,
            "controller",
            Owner(),
            dict(ControllerSide().handlers()),
            DialTarget(self.url),
            methods=METHODS,
        )
        began = reactor.seconds()
        controller.start()
        try:
            while controller.bulk_phase != "ready":
                if reactor.seconds() - began > self.within:
                    self.fail(f"not linked in time: {controller.last_error}")
                await deferLater(reactor, 0.02)
            # And it stays, whatever comes.
            await deferLater(reactor, 0.5)
            self.assertIsNotNone(controller.current())
            self.assertEqual(controller.bulk_phase, "ready")
        finally:
            for attacker in self.attackers:
                attacker.stop()
            await controller.close("the test is over")
            await self.worker.close("the same")
            await self.listener.stop()
            while not all(attacker.is_gone for attacker in self.attackers):
                await deferLater(reactor, 0.02)
            # Who trickles notices one turn later that there is nobody.
            await deferLater(reactor, 0.1)
        self.assertEqual(len(self.admission), 0)
        self.assertEqual(self.failures, [])
        self.assertLess(len(self.warnings), 40, "the log is flooded")

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
