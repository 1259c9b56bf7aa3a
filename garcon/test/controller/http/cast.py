"""The controller's HTTP door in memory, with small handlers behind it, and its answers parsed."""

from __future__ import annotations

import json
import os
from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from twisted.web.resource import Resource

from garcon.contract import operations
from garcon.contract.executors import ExecutorList
from garcon.controller.auth import lifetime
from garcon.controller.auth.accounts import Accounts
from garcon.controller.auth.hashing import Hashing
from garcon.controller.auth.passwords import Cost
from garcon.controller.handlers import Call, Handlers
from garcon.controller.http.discovery import Discovery
from garcon.controller.http.door import Door
from garcon.controller.http.health import Health
from garcon.controller.http.identity import Identities
from garcon.controller.http.pages import Pages
from garcon.controller.http.policy import ControllerPolicy
from garcon.controller.http.router import Router
from garcon.controller.metrics import Metrics
from garcon.local.descriptors import new_capability
from garcon.testing.inline_threads import InlinePool, InlineReactor
from garcon.web.exchange import DoorLimits
from garcon.web.forwarded import TrustedProxies, parse_network
from garcon.web.hosts import AllowedHosts
from garcon.web.origins import AllowedOrigins
from garcon.web.site import BoundedSite

INSTANCE = "5f9a2f4e-0000-4000-8000-000000000001"
PATH = "/api/v1"


class Response:
    """A parsed answer."""

    def __init__(self, raw: bytes) -> None:
        head, _, self.body = raw.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        self.status = int(first.split(" ")[1])
        self.headers = {
            name.lower(): value for name, _, value in (line.partition(": ") for line in lines)
        }

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


class SmallThreads(Clock):
    """A clock whose threads run at once."""

    def getThreadPool(self) -> SmallThreads:
        """Be the pool."""
        return self

    def callInThreadWithCallback(self, done: Any, f: Any, *args: Any) -> None:
        """Run in place."""
        try:
            result = f(*args)
        except Exception:
            done(False, Failure())
        else:
            done(True, result)

    def callFromThread(self, f: Any, *args: Any) -> None:
        """Run in place."""
        f(*args)


class DoorCase(SynchronousTestCase):
    """A door with accounts on and a few operations."""

    disable_auth = False

    def setUp(self) -> None:
        self.reactor = SmallThreads()
        self.capability = new_capability()
        self.handlers = Handlers()
        self.calls: list[Call[Any, Any]] = []
        self.stopping = False
        self.peer = "127.0.0.1"
        self.reply: Any = ExecutorList([])
        Discovery(
            instance_id=INSTANCE,
            capability=self.capability,
            server_instance_id=INSTANCE,
            workspace="default",
        ).register(self.handlers)
        for operation in (
            operations.LIST_EXECUTORS,
            operations.STOP_CHAT,
            operations.UPDATE_EXECUTOR,
            operations.TURN_RECEIPT,
            operations.CHANGE_SETTINGS,
        ):
            self.handlers.register(operation, self.handle)
        self.accounts = self.make_accounts()
        self.accounts.register(self.handlers)
        self.accounts.start()
        self.addCleanup(self.accounts.stop)
        self.identities = Identities(
            self.capability, disable_auth=self.disable_auth, holder=self.accounts.holder
        )
        health = Health(self.identities, lambda: ["stopping"] if self.stopping else [])
        self.metrics = Metrics()
        self.pages = Pages([health.page, self.metrics.page])
        self.door = Door(self.reactor, self.handlers, observe=self.metrics.answered)
        self.lanes = Resource()
        self.site = self.make_site(self.lanes)

    def make_accounts(self) -> Accounts:
        """Make accounts that cost little and have a folder of their own."""
        folder = self.mktemp()
        os.mkdir(folder)
        return Accounts(
            self.reactor,
            folder,
            lifetime.DEFAULT,
            disabled=self.disable_auth,
            hashing=Hashing(InlineReactor(), InlinePool()),
            cost=Cost(1, 1, 1),
            wall_clock=self.wall_clock,
        )

    def wall_clock(self) -> float:
        """Tell the time of day: it goes with the test's clock."""
        return 1_700_000_000 + self.reactor.seconds()

    def make_site(self, lanes: Resource | None) -> BoundedSite:
        """Make a site, with workers' sockets or without."""
        policy = ControllerPolicy(
            hosts=AllowedHosts(["garcon.example", "named.example"]),
            origins=AllowedOrigins(["named.example"], "https://garcon.example"),
            pages=self.pages,
            router=Router(),
            handlers=self.handlers,
            identities=self.identities,
            server_instance_id=INSTANCE,
            body_limit=100,
            stopping=lambda: self.stopping,
            sign_ins=self.accounts,
            proxies=TrustedProxies([parse_network("10.0.0.0/8")]),
            lane_resource=lanes,
            refused=self.metrics.refused,
        )
        return BoundedSite(self.reactor, policy, self.door.answer, DoorLimits())

    def handle(self, call: Call[Any, Any]) -> Any:
        """Serve every operation of this test."""
        self.calls.append(call)
        if isinstance(self.reply, Exception):
            raise self.reply
        return self.reply

    def begin(
        self, method: str, path: str, headers: dict[str, str] | None = None, body: bytes = b""
    ) -> tuple[Any, StringTransport]:
        """Send a request over a new connection."""
        peer = IPv4Address("TCP", self.peer, 5)
        channel = self.site.buildProtocol(peer)
        assert channel is not None
        transport = StringTransport(IPv4Address("TCP", "127.0.0.1", 80), peer)
        channel.makeConnection(transport)
        sent = {"Host": "localhost:1", "Authorization": f"Bearer {self.capability}"}
        sent.update(headers or {})
        if body:
            sent.setdefault("Content-Length", str(len(body)))
            sent.setdefault("Content-Type", "application/json")
        lines = [f"{method} {path} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in sent.items() if value]
        channel.dataReceived("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
        return channel, transport

    def ask(
        self, method: str, path: str, headers: dict[str, str] | None = None, body: bytes = b""
    ) -> Response:
        """Send a request, take its answer, and hang up."""
        channel, transport = self.begin(method, path, headers, body)
        response = Response(transport.value())
        channel.connectionLost(Failure(ConnectionDone()))
        return response

    def assert_error(self, response: Response, status: int, code: str, retryable: bool) -> None:
        """Assert that an answer is the standard envelope."""
        self.assertEqual(response.status, status)
        self.assertEqual(response.headers["content-type"], "application/json")
        self.assertEqual(response.json["success"], False)
        self.assertEqual(response.json["errorCode"], code)
        self.assertEqual(response.json["retryable"], retryable)
        self.assertTrue(response.json["error"])
