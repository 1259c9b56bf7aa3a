"""The door over real sockets: slow and fast readers, TLS, and clients that leave."""

from __future__ import annotations

import socket
import ssl
import struct
from pathlib import Path
from typing import Any

from attrs import define, field
from twisted.internet import reactor as installed
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThread
from twisted.trial.unittest import TestCase
from zope.interface import implementer

from garcon.deferreds import returns_deferred
from garcon.testing.certificates import make_authority
from garcon.web.certificates import server_identity
from garcon.web.exchange import Admission, DoorLimits, IDoorPolicy, Incoming, Outgoing
from garcon.web.site import BoundedSite

LARGE = 24 * 1024 * 1024
reactor: Any = installed


@implementer(IDoorPolicy)
@define(eq=False)
class _Policy:
    """Counts what is reserved."""

    held: int = 0
    released: list[str] = field(factory=list)

    def admit(self, incoming: Incoming) -> Admission:
        """Take everything up to a MiB."""
        self.held += 1

        def release() -> None:
            self.held -= 1
            self.released.append(incoming.path)

        return Admission(1024 * 1024, release=release)


class DoorTests(TestCase):
    """A site on a free loopback port."""

    def setUp(self) -> None:
        self.policy = _Policy()
        self.cancelled = 0
        self.site = BoundedSite(
            reactor, self.policy, self.answer, DoorLimits(drain=1.0, linger=0.5, keep_alive=False)
        )
        self.factory: Any = self.site
        self.port = reactor.listenTCP(0, self.factory, interface="127.0.0.1")
        self.number = self.port.getHost().port
        self.addCleanup(self.close)

    @returns_deferred
    async def close(self) -> None:
        """Close the port and every connection."""
        await self.port.stopListening()
        await self.site.close(0.1)

    def answer(self, incoming: Incoming) -> Deferred[Outgoing]:
        """Answer with a lot, or never."""
        if incoming.path == "/never":

            def cancel(d: Deferred[Outgoing]) -> None:
                self.cancelled += 1

            return Deferred(cancel)
        return succeed(Outgoing(200, b"x" * LARGE))

    def connect(self, receive_buffer: int | None = None) -> socket.socket:
        """Open a blocking client socket; use it in a thread."""
        sock = socket.socket()
        if receive_buffer is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        sock.settimeout(10)
        sock.connect(("127.0.0.1", self.number))
        return sock

    async def until(self, question: Any) -> None:
        """Wait until something is so."""
        for _ in range(500):
            if question():
                return
            await deferLater(reactor, 0.02)
        self.fail("it never came")

    def fetch(self, sock: socket.socket) -> int:
        """Ask for the large answer and count its bytes."""
        sock.sendall(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
        total = 0
        while piece := sock.recv(1024 * 1024):
            total += len(piece)
        sock.close()
        return total

    @returns_deferred
    async def test_a_large_answer_arrives_whole(self) -> None:
        """Over plain TCP; its slot is free afterwards."""
        total = await deferToThread(lambda: self.fetch(self.connect()))
        self.assertGreater(total, LARGE)
        await self.until(lambda: self.policy.held == 0)

    @returns_deferred
    async def test_a_large_answer_arrives_whole_encrypted(self) -> None:
        """Over TLS, where the transport buffers twice."""
        authority = make_authority(Path(self.mktemp()))
        certificate, key = authority.issue("localhost")
        await self.port.stopListening()
        self.port = reactor.listenSSL(
            0, self.factory, server_identity(str(certificate), str(key)), interface="127.0.0.1"
        )
        self.number = self.port.getHost().port
        context = ssl.create_default_context(cafile=str(authority.certificate))

        def fetch() -> int:
            return self.fetch(context.wrap_socket(self.connect(), server_hostname="localhost"))

        self.assertGreater(await deferToThread(fetch), LARGE)
        await self.until(lambda: self.policy.held == 0)

    @returns_deferred
    async def test_a_reader_that_stops_is_cut_off(self) -> None:
        """It holds its slot for the drain time and no longer, and little memory."""
        sock = await deferToThread(lambda: self.connect(receive_buffer=4_096))
        self.addCleanup(sock.close)
        sock.sendall(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await self.until(lambda: self.policy.held == 1)
        await deferLater(reactor, 0.5)
        (channel,) = self.site.channels
        transport: Any = channel.transport
        waiting: list[bytes] = transport._tempDataBuffer
        buffered = len(transport.dataBuffer) + sum(len(piece) for piece in waiting)
        self.assertLess(buffered, 256 * 1024)
        self.assertEqual(self.policy.held, 1)
        await self.until(lambda: self.policy.held == 0)
        self.assertEqual(self.site.channels, {})

    @returns_deferred
    async def test_a_client_that_resets_frees_its_slot(self) -> None:
        """The handler is cancelled at once."""
        sock = await deferToThread(self.connect)
        sock.sendall(b"GET /never HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await self.until(lambda: self.policy.held == 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.close()
        await self.until(lambda: self.policy.held == 0)
        self.assertEqual(self.cancelled, 1)

    @returns_deferred
    async def test_a_refusal_reaches_a_sender_in_mid_upload(self) -> None:
        """The 413 is read although the body is still being sent."""

        def send() -> bytes:
            sock = self.connect()
            size = 4 * 1024 * 1024
            sock.sendall(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % size)
            sock.sendall(b"x" * size)
            said = sock.recv(4_096)
            sock.close()
            return said

        self.assertTrue((await deferToThread(send)).startswith(b"HTTP/1.1 413 "))
        await self.until(lambda: self.policy.held == 0)
