"""Writing and closing at once, over real sockets and a real reactor."""

from __future__ import annotations

import socket
from typing import Any, cast

from twisted.internet import reactor as default_reactor
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IListeningPort
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.internet.threads import deferToThread
from twisted.python.failure import Failure
from twisted.trial.unittest import TestCase
from zope.interface import implementer

from garcon.sockets import close_now, read_now, write_now
from garcon.web.exchange import Admission, IDoorPolicy, Incoming, Outgoing
from garcon.web.site import BoundedSite

reactor: Any = default_reactor
LONG = 32 * 1024 * 1024
"""More than a socket's buffer takes."""


class Speaker(Protocol):
    """Tells who waits for it that it is there, and that it is gone."""

    def __init__(self) -> None:
        self.made: Deferred[None] = Deferred()
        self.lost: Deferred[None] = Deferred()
        self.is_lost = False

    def connectionMade(self) -> None:
        """It is there."""
        self.made.callback(None)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """It is gone."""
        self.is_lost = True
        self.lost.callback(None)


class Sockets(TestCase):
    """One accepted connection and a blocking client in a thread."""

    async def connected(self) -> tuple[Speaker, socket.socket]:
        """Return both ends."""
        speaker = Speaker()
        port: IListeningPort = reactor.listenTCP(
            0, Factory.forProtocol(lambda: speaker), interface="127.0.0.1"
        )
        self.addCleanup(port.stopListening)
        number = cast(IPv4Address, port.getHost()).port
        client = socket.create_connection(("127.0.0.1", number), timeout=10)
        self.addCleanup(client.close)
        await speaker.made
        return speaker, client

    async def test_at_once(self) -> None:
        """Written and closed before the reactor turns again; told of it while closing."""
        speaker, client = await self.connected()
        write_now(speaker.transport, b"answer")
        self.assertEqual(client.recv(100), b"answer")
        close_now(speaker.transport)
        self.assertTrue(speaker.is_lost)
        self.assertEqual(client.recv(100), b"")

    async def test_what_the_socket_does_not_take(self) -> None:
        """It waits, in order, and the connection ends behind it."""
        speaker, client = await self.connected()
        long = bytes(range(256)) * (LONG // 256)
        write_now(speaker.transport, long)
        write_now(speaker.transport, b"behind")
        close_now(speaker.transport)
        self.assertFalse(speaker.is_lost)
        self.assertEqual(await deferToThread(_all, client), long + b"behind")
        await speaker.lost

    async def test_a_transport_that_waits_is_not_passed(self) -> None:
        """What was written in Twisted's way goes first."""
        speaker, client = await self.connected()
        assert speaker.transport is not None
        speaker.transport.write(b"first ")
        write_now(speaker.transport, b"second")
        close_now(speaker.transport)
        self.assertEqual(await deferToThread(_all, client), b"first second")
        await speaker.lost

    async def test_a_peer_that_is_gone(self) -> None:
        """Nothing is raised; the connection's end is told once, by the reactor."""
        speaker, client = await self.connected()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        client.close()
        for _ in range(3):
            write_now(speaker.transport, b"anybody?")
        close_now(speaker.transport)
        await speaker.lost
        close_now(speaker.transport)
        write_now(speaker.transport, b"nobody")


class Eager(Protocol):
    """Reads what is there when its connection is made."""

    def __init__(self) -> None:
        self.data = b""
        self.at_first = b""
        self.lost: Deferred[None] = Deferred()

    def connectionMade(self) -> None:
        """Read; twice is no harm."""
        read_now(self.transport)
        read_now(self.transport)
        self.at_first = self.data

    def dataReceived(self, data: bytes) -> None:
        """Keep it, or refuse it."""
        if data == b"bad":
            raise ValueError("not taken")
        self.data += data

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """It is gone."""
        self.lost.callback(None)


class EagerReading(TestCase):
    """A connection whose client has spoken before it is taken."""

    def listen(self) -> tuple[Eager, int]:
        """Return the one protocol of a port, and its number."""
        eager = Eager()
        port: IListeningPort = reactor.listenTCP(
            0, Factory.forProtocol(lambda: eager), interface="127.0.0.1"
        )
        self.addCleanup(port.stopListening)
        return eager, cast(IPv4Address, port.getHost()).port

    async def test_what_has_come_is_read_at_once(self) -> None:
        """And the rest when it comes; the end is told once, by the reactor."""
        eager, number = self.listen()
        with socket.create_connection(("127.0.0.1", number), timeout=10) as client:
            client.sendall(b"first")
            client.shutdown(socket.SHUT_WR)
            await eager.lost
        self.assertEqual((eager.at_first, eager.data), (b"first", b"first"))

    async def test_a_client_that_is_gone(self) -> None:
        """Nothing is raised."""
        eager, number = self.listen()
        client = socket.create_connection(("127.0.0.1", number), timeout=10)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        client.close()
        await eager.lost
        self.assertEqual(eager.data, b"")

    async def test_a_protocol_that_raises(self) -> None:
        """Its connection is dropped, and the log has why."""
        eager, number = self.listen()
        with socket.create_connection(("127.0.0.1", number), timeout=10) as client:
            client.sendall(b"bad")
            await eager.lost
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)


@implementer(IDoorPolicy)
class Open:
    """Admits everything without a body."""

    def admit(self, incoming: Incoming) -> Admission:
        """See `IDoorPolicy`."""
        return Admission(0)


class Door(TestCase):
    """A door's last answer and the end of its connection, in the turn that brought the request."""

    async def test_nothing_is_read_behind_a_last_request(self) -> None:
        """What else came in the same segment is dropped with the connection, and nothing logged."""
        asked: list[str] = []

        def answer(incoming: Incoming) -> Deferred[Outgoing]:
            asked.append(incoming.path)
            return succeed(Outgoing(200, b"answer"))

        site = BoundedSite(reactor, Open(), answer)
        port: IListeningPort = reactor.listenTCP(0, site, interface="127.0.0.1")
        self.addCleanup(port.stopListening)
        number = cast(IPv4Address, port.getHost()).port
        client = socket.create_connection(("127.0.0.1", number), timeout=10)
        self.addCleanup(client.close)
        request = b"GET /%b HTTP/1.1\r\nHost: x\r\n%b\r\n"
        client.sendall(
            request % (b"1", b"")
            + request % (b"2", b"Connection: close\r\n")
            + request % (b"3", b"")
        )
        answers = await deferToThread(_all, client)
        self.assertEqual(answers.count(b"answer"), 2)
        self.assertEqual(asked, ["/1", "/2"])
        self.assertEqual(len(site.channels), 0)


def _all(client: socket.socket) -> bytes:
    """Read to the end."""
    parts = []
    while part := client.recv(1 << 20):
        parts.append(part)
    return b"".join(parts)
