"""The whole bridge in one process: a gateway's door, its link with all encryption, the dispatcher
and held handlers.  What happens in between is moved by hand, so that every order can be made.
"""

from __future__ import annotations

import json
from typing import Any

from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport

from garcon.contract.operations import Operation
from garcon.contract.routes import Route
from garcon.controller.bridge.dispatcher import Dispatcher
from garcon.controller.handlers import Handlers
from garcon.link.memory import MemoryWire
from garcon.local.descriptors import new_capability
from garcon.test.controller.bridge.cast import Held
from garcon.test.controller.bridge.test_over_a_link import OverALink
from garcon.test.worker.test_gateway import HOST, Client
from garcon.worker.gateway.listener import gateway_site
from garcon.worker.gateway.policy import GatewayPolicy, Identity
from garcon.worker.gateway.relation import Relation
from garcon.worker.gateway.slots import Slots

CHAT = "1700000000000001"
START: dict[str, Any] = {
    "clientRequestId": "r",
    "clientMessageId": "m",
    "chatId": CHAT,
    "executorId": "local",
    "agentId": "scripted",
    "projectPath": "/p",
    "model": "scripted",
    "agentSettings": {"ownerId": "scripted", "schemaVersion": 1, "values": {}},
}
STOP = {"clientRequestId": "s", "chatId": CHAT}
FORK = {"sourceChatId": CHAT, "chatId": "1700000000000002"}
RECEIPT = f"/chats/turn-receipt?chatId={CHAT}&turnId=t"


OTHER = "7f0c2b8a-31f4-4f5b-8d5e-2f4b3c1d9e02"


def valid(route: Route) -> tuple[str, str, dict[str, Any] | None]:
    """Return method, path and body of a request that its envelope lets through."""
    body: dict[str, Any] | None = {"executorId": OTHER}
    path = route.path.removeprefix("/api/v1").replace(":executorId", OTHER)
    if route.key == "GET /models":
        path += "?executorId=local"
    elif route.path.endswith("/api-provider-assignments"):
        body = None
        path += "" if route.method == "GET" else f"?executorId={OTHER}&apiProviderId=p1"
    elif route.key == "PUT /app/settings":
        body = {"features": {"transcriptSearch": {"enabled": True}}}
    return route.method, path, None if route.method in ("GET", "DELETE") else body


class Line(StringTransport):
    """A command's connection, which is over soon after the gateway has closed it."""

    client: Client

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def loseConnection(self) -> None:
        if not self.disconnecting:
            self._clock.callLater(0, lambda: self.client.vanish(ConnectionDone()))
        super().loseConnection()


class WholeBridge(OverALink):
    """One worker with command access, its gateway, and the controller."""

    def setUp(self) -> None:
        super().setUp()
        self.held: dict[str, tuple[Operation, Held]] = {}
        self.slots = Slots()
        self.identity = Identity("gateway-1", new_capability())
        relation = Relation(lambda: self.worker.current())
        policy = GatewayPolicy(self.identity, relation, self.slots, frozenset({HOST}))
        self.site = gateway_site(self.clock, policy, relation)

    def hold(self, operation: Operation) -> Held:
        """Serve an operation with a held handler, also after a restart."""
        held = Held()
        self.held[operation.route.key] = operation, held
        self.handlers.register(operation, held.handle)
        return held

    # -- the command --

    def head(
        self, method: str, path: str, length: int = 0, headers: dict[str, str] | None = None
    ) -> bytes:
        """Return a request's head, as a command of this worker sends it."""
        sent = {
            "Host": HOST,
            "Authorization": f"Bearer {self.identity.capability}",
            "X-Garcon-Server-Instance": self.expected,
            **({"Content-Type": "application/json"} if length else {}),
            **({"Content-Length": str(length)} if length else {}),
            **(headers or {}),
        }
        lines = [f"{method} /api/v1{path} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in sent.items()]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    expected = "controller-instance"
    """The controller that the command has found."""

    def http(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> Client:
        """Send a whole request on a connection of its own, and let it come as far as it does."""
        content = b"" if body is None else body if isinstance(body, bytes) else encode(body)
        line = Line(self.clock)
        line.client = client = Client(self.site, line)
        client.send(self.head(method, path, len(content), headers) + content)
        self.settle(0.1)
        return client

    def start(self, **more: Any) -> Client:
        return self.http("POST", "/chats/start", START | more)

    def read(self) -> Client:
        return self.http("GET", "/chats")

    def stop(self) -> Client:
        return self.http("POST", "/chats/stop", STOP)

    def receipt(self) -> Client:
        return self.http("GET", RECEIPT)

    def discover(self) -> Client:
        return self.http("GET", "/cli/context")

    def outcome(self, client: Client, status: int, code: str) -> None:
        """Check that a request ended in an error of the bridge."""
        self.settle(0.1)
        self.assertEqual(client.answer.outcome, (status, code))

    def used(self, pool: str = "short") -> int:
        """How many slots of the controller are taken."""
        return self.dispatcher.pools.used["", pool]  # type: ignore[index]

    # -- what happens meanwhile --

    def bulk_wires(self) -> list[MemoryWire]:
        """The ends of the bulk connection; primary's came first."""
        return self.network.wires[2:]

    def lose_bulk(self) -> None:
        """Cut the bulk connection, and let none come in its place."""
        self.dialler.is_blocked = True
        for wire in self.bulk_wires():
            wire.close()
        self.settle(0.1)

    def relink(self) -> None:
        """Cut both connections, and wait until there are new ones."""
        self.network.cut()
        for _ in range(8):
            # As long as it takes after many failures (control.md J.3).
            self.settle(10)
            is_ready = self.executors.availability(self.executor_id) == "ready"
            if is_ready and self.controller.bulk_phase == self.worker.bulk_phase == "ready":
                return
        raise AssertionError("the link does not come back")

    def restart(self, instance: str = "the next controller") -> None:
        """Have the controller's process replaced by another one, as after a crash: nothing of it
        says a word any more.
        """
        for wire in list(self.network.wires):
            wire.is_black_hole = True
        self.instance = instance
        self.executors = self.make()
        self.executors.load()
        self.handlers = Handlers()
        self.executors.register(self.handlers)
        for operation, held in self.held.values():
            self.handlers.register(operation, held.handle)
        self.dispatcher = Dispatcher(self.clock, self.handlers, self.executors, instance, None)
        self.executors.reverse_handlers.update(self.dispatcher.reverse_handlers())
        self.dispatcher.open()
        self.executors.start()
        self.dialler.target = self.controller
        self.relink()


def encode(body: Any) -> bytes:
    """Return a request's body as the command sends it."""
    return json.dumps(body, separators=(",", ":")).encode()
