"""The port of a listening worker: one path and a file that says where it is."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

from twisted.internet.testing import MemoryReactorClock
from twisted.trial.unittest import SynchronousTestCase
from twisted.web.resource import IResource
from twisted.web.server import Request
from zope.interface import implementer
from zope.interface.verify import verifyObject

from garcon.test.worker.test_gateway import Client
from garcon.web.exchange import IDoorPolicy
from garcon.web.site import BoundedSite
from garcon.worker.listener import LIMITS, LinkDoor, LinkListener, ListenPlan


@implementer(IResource)
class Upgraded:
    """Takes the connection, as a WebSocket would."""

    isLeaf = True

    def __init__(self) -> None:
        self.paths: list[bytes] = []

    def getChildWithDefault(self, name: bytes, request: Request) -> Any:
        """Have no children."""
        raise AssertionError("a leaf")

    def putChild(self, path: bytes, child: IResource) -> None:
        """Have no children."""
        raise AssertionError("a leaf")

    def render(self, request: Request) -> bytes:
        """Note the path and answer."""
        self.paths.append(request.path)
        request.setResponseCode(426)
        return b"upgrade"


class Machine(MemoryReactorClock):
    """A machine whose free port is always the same."""

    def listenTCP(self, port: int, *args: Any, **kwargs: Any) -> Any:
        """Listen on a port that a URL can name."""
        return super().listenTCP(port or 4242, *args, **kwargs)


class Listening(SynchronousTestCase):
    """What a listener opens and leaves."""

    def setUp(self) -> None:
        self.reactor = Machine()
        self.resource = Upgraded()
        folder = self.mktemp()
        os.makedirs(folder)
        self.file = Path(folder, "listener.json")

    def listen(self, address: str = "127.0.0.1", advertised: str | None = None) -> LinkListener:
        """Make a plain listener."""
        plan = ListenPlan(0, address, None, advertised, str(self.file))
        return LinkListener(self.reactor, plan, self.resource)

    def test_the_file(self) -> None:
        """The bound address is kept in a private file, without a secret."""
        self.assertEqual(self.listen().start(), "ws://127.0.0.1:4242/executor")
        self.assertEqual(
            json.loads(self.file.read_text()),
            {"version": 1, "url": "ws://127.0.0.1:4242/executor", "tls": False},
        )
        self.assertEqual(stat.S_IMODE(self.file.stat().st_mode), 0o600)

    def test_an_advertised_address_is_what_others_use(self) -> None:
        """It is what the file names; what is bound stays what it is."""
        listener = self.listen("0.0.0.0", "wss://worker.example/executor")
        self.assertEqual(listener.start(), "ws://0.0.0.0:4242/executor")
        self.assertEqual(json.loads(self.file.read_text())["url"], "wss://worker.example/executor")

    def test_ipv6(self) -> None:
        """A literal address is bracketed."""
        self.assertEqual(self.listen("::1").start(), "ws://[::1]:4242/executor")

    def test_paths(self) -> None:
        """The one path is handed over; every other path and method is not found."""
        verifyObject(IDoorPolicy, LinkDoor(self.resource))
        self.listen().start()
        site = self.reactor.tcpServers[0][1]
        assert isinstance(site, BoundedSite)
        for request in (
            b"GET / HTTP/1.1",
            b"GET /executor/ HTTP/1.1",
            b"GET /executor/x HTTP/1.1",
            b"GET /Executor HTTP/1.1",
            b"POST /executor HTTP/1.1",
            b"GET /api/v1/runtime HTTP/1.1",
        ):
            client = Client(site)
            client.send(request + b"\r\nHost: anything\r\n\r\n")
            self.assertEqual(client.answer.status, 404)
        self.assertEqual(self.resource.paths, [])
        client = Client(site)
        client.send(b"GET /executor?x=y HTTP/1.1\r\nHost: anything\r\n\r\n")
        self.assertEqual(client.answer.status, 426)
        self.assertEqual(self.resource.paths, [b"/executor"])

    def test_idle_connections_at_n_and_n_plus_one(self) -> None:
        """Sockets that ask for nothing are bounded in number and time."""
        self.listen().start()
        site = self.reactor.tcpServers[0][1]
        assert isinstance(site, BoundedSite)
        clients = [Client(site) for _ in range(LIMITS.connections)]
        self.assertIsNone(site.buildProtocol(None))
        self.reactor.advance(LIMITS.header_time)
        self.assertTrue(all(client.transport.disconnecting for client in clients))

    def test_stop(self) -> None:
        """The port and its idle connections are closed; the file stays for the command."""
        listener = self.listen()
        listener.start()
        stopping = listener.stop()
        self.reactor.advance(1)
        self.successResultOf(stopping)
        self.assertTrue(self.file.exists())
