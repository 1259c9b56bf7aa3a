"""Sockets that mean harm, as many as wanted, each with a habit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define
from twisted.internet import reactor as _reactor
from twisted.internet.interfaces import IPullProducer, ITCPTransport
from twisted.internet.protocol import ClientFactory, Protocol, connectionDone
from twisted.internet.task import LoopingCall
from twisted.python.failure import Failure
from zope.interface import implementer

reactor: Any = _reactor

TURNS_LEFT = 5
"""About what the moment before an attacker comes again is on a machine of one's own."""


class Attacker(ClientFactory):
    """Keeps so many sockets open at a port: whoever is thrown out comes again at once.  `host` is
    the address they come from.
    """

    noisy = False

    def __init__(
        self, port: int, sockets: int, habit: Callable[[Protocol], None], host: str
    ) -> None:
        self.port = port
        self.habit = habit
        self.host = host
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
            reactor.connectTCP("127.0.0.1", self.port, self, 5, (self.host, 0))

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
            reactor.callLater(0.005, self._come_again, TURNS_LEFT)

    def _come_again(self, turns: int) -> None:
        """Connect after as many turns of the reactor, which the attacked share: where others have
        the processor, a moment leaves them none.
        """
        if turns:
            reactor.callLater(0, self._come_again, turns - 1)
        else:
            self._connect()

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


def flooding(text: bytes, pace: float = 0.01) -> Callable[[Protocol], None]:
    """Return the habit of saying a text over and over."""

    def flood(socket: Protocol) -> None:
        def more() -> None:
            if not write(socket, text):
                call.stop()

        call = LoopingCall(more)
        call.start(pace)

    return flood


@implementer(IPullProducer)
@define(eq=False)
class _Source:
    """Never ends."""

    transport: Any
    text: bytes

    def resumeProducing(self) -> None:
        """See `IPullProducer`."""
        self.transport.write(self.text)

    def stopProducing(self) -> None:
        """See `IPullProducer`."""


def pouring(text: bytes) -> Callable[[Protocol], None]:
    """Return the habit of having a text in the socket's buffer, over and over, whenever there is
    room.
    """

    def pour(socket: Protocol) -> None:
        transport: Any = socket.transport
        transport.registerProducer(_Source(transport, text), False)

    return pour


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
