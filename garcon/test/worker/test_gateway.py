"""The gateway's door and forwarding, over real HTTP parsing on string transports."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

import msgspec
from msgspec import UNSET, Raw
from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from garcon.contract import limits, routes
from garcon.contract.executors import CliContext
from garcon.contract.ids import LOCAL
from garcon.contract.rpc import (
    CLI_DESCRIBE,
    CLI_REQUEST,
    BridgedHttp,
    BridgedReply,
    BridgedRequest,
    Lane,
)
from garcon.errors import CallError, LaneLost
from garcon.link.interfaces import ICapturedLink
from garcon.local.descriptors import new_capability, proof
from garcon.test.worker.doubles import EXECUTOR, OTHER, HeldLink
from garcon.web.channel import BoundedChannel
from garcon.web.exchange import IDoorPolicy
from garcon.web.site import BoundedSite
from garcon.worker.gateway.listener import LIMITS, gateway_site
from garcon.worker.gateway.policy import GatewayPolicy, Identity, find_route
from garcon.worker.gateway.relation import Relation
from garcon.worker.gateway.slots import Slots

HOST = "127.0.0.1:4242"
CHALLENGE = "c" * 43
START = {"executorId": EXECUTOR, "prompt": "hello"}


class Answer:
    """An HTTP answer, taken apart."""

    def __init__(self, raw: bytes) -> None:
        head, _, self.body = raw.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        self.status = int(lines[0].split(" ")[1])
        self.headers = {
            name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])
        }

    @property
    def json(self) -> Any:
        """The body, decoded."""
        return json.loads(self.body)

    @property
    def outcome(self) -> tuple[int, str]:
        """Status and error code."""
        return self.status, self.json.get("errorCode")


class Stuck(StringTransport):
    """A connection whose other end reads one write at a time, when told to."""

    disconnected = False

    def write(self, data: bytes) -> None:
        """Take it, and have enough."""
        super().write(data)
        if self.producer is not None:
            self.producer.pauseProducing()

    def abortConnection(self) -> None:
        """Note it."""
        self.disconnected = True


class Client:
    """One connection to the gateway."""

    def __init__(self, site: BoundedSite, transport: StringTransport | None = None) -> None:
        channel = site.buildProtocol(None)
        assert isinstance(channel, BoundedChannel)
        self.channel = channel
        self.transport = transport or StringTransport()
        self.is_gone = False
        self.channel.makeConnection(self.transport)

    def send(self, data: bytes) -> None:
        """Deliver bytes."""
        self.channel.dataReceived(data)

    def resume(self) -> None:
        """Read what one write held."""
        producer = self.transport.producer
        assert producer is not None
        producer.resumeProducing()

    def vanish(self, reason: Exception | None = None) -> None:
        """Lose the connection."""
        if not self.is_gone:
            self.is_gone = True
            self.channel.connectionLost(Failure(reason or ConnectionLost()))

    @property
    def answer(self) -> Answer:
        """What has come back; a connection that the gateway closes is gone once that is read."""
        if self.transport.disconnecting:
            self.vanish(ConnectionDone())
        return Answer(self.transport.value())

    @property
    def is_waiting(self) -> bool:
        """Whether nothing has come back yet."""
        return not self.transport.value()


class Cast(SynchronousTestCase):
    """A gateway whose link is held by the test."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.link: HeldLink | None = HeldLink()
        self.slots = Slots()
        self.identity = Identity("gateway-1", new_capability())
        relation = Relation(lambda: self.link)
        self.policy = GatewayPolicy(self.identity, relation, self.slots, frozenset({HOST}))
        self.site = gateway_site(self.clock, self.policy, relation)

    def head(self, method: str, path: str, headers: dict[str, str | None] | None = None) -> bytes:
        """Return a request's head; a header of None is left out."""
        sent: dict[str, str | None] = {
            "Host": HOST,
            "Authorization": f"Bearer {self.identity.capability}",
            "X-Garcon-Server-Instance": "controller-1",
            **(headers or {}),
        }
        lines = [f"{method} {path} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in sent.items() if value is not None]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    def ask(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        headers: dict[str, str | None] | None = None,
    ) -> Client:
        """Send a whole request on a connection of its own."""
        more: dict[str, str | None] = {}
        if body:
            more = {"Content-Length": str(len(body)), "Content-Type": "application/json"}
        client = Client(self.site)
        client.send(self.head(method, path, {**more, **(headers or {})}) + body)
        return client

    def start(self) -> Client:
        """Send a bulk mutation."""
        return self.ask("POST", "/api/v1/chats/start", json.dumps(START).encode())

    def read(self) -> Client:
        """Send a bulk read."""
        return self.ask("GET", "/api/v1/chats?limit=5")

    def stop(self) -> Client:
        """Send a primary mutation."""
        return self.ask("POST", "/api/v1/chats/stop", b'{"chatId":"1700000000000000"}')

    @property
    def calls(self) -> list[Any]:
        """The calls made on the current link."""
        assert self.link is not None
        return self.link.calls


class Door(Cast):
    """What is refused before anything is forwarded."""

    def test_the_interfaces_are_honoured(self) -> None:
        """The policy is one, and the held link is a captured link."""
        verifyObject(IDoorPolicy, self.policy)
        verifyObject(ICapturedLink, self.link)

    def refused(self, client: Client, status: int, code: str) -> None:
        """Check a refusal, and that nothing was sent on the link."""
        self.assertEqual(client.answer.outcome, (status, code))
        self.assertEqual(client.answer.headers["cache-control"], "no-store")
        self.assertEqual(self.calls, [])

    def test_proof(self) -> None:
        """Anyone may challenge the gateway, also while it has no link, and learns nothing else."""
        self.link = None
        client = self.ask(
            "GET",
            f"/api/v1/runtime?challenge={CHALLENGE}",
            headers={"Authorization": None, "X-Garcon-Server-Instance": None},
        )
        self.assertEqual(
            client.answer.json,
            {
                "schemaVersion": 1,
                "instanceId": "gateway-1",
                "proof": proof(self.identity.capability, "gateway-1", CHALLENGE),
            },
        )
        self.assertEqual(client.answer.headers["cache-control"], "no-store")
        self.assertEqual(client.answer.headers["connection"], "close")

    def test_bad_challenges(self) -> None:
        """A challenge has exactly 43 base64url characters and comes once."""
        for query in ("", "?challenge=", f"?challenge={'c' * 42}", f"?challenge={'c' * 44}"):
            answer = self.ask("GET", f"/api/v1/runtime{query}").answer
            self.assertEqual(answer.status, 400)
            # As a controller says it: programs know this form (server.md B.8).
            text = "The challenge must be 43 base64url characters."
            self.assertEqual(json.loads(answer.body), {"error": text})
        twice = f"/api/v1/runtime?challenge={CHALLENGE}&challenge={CHALLENGE}"
        self.refused(self.ask("GET", twice), 400, "VALIDATION_FAILED")

    def test_hosts(self) -> None:
        """Only the gateway's own names are taken, for the proof as well."""
        for host in (None, "evil.example", "127.0.0.1", "127.0.0.1:4243", "evil.example:4242"):
            for path in ("/api/v1/chats", f"/api/v1/runtime?challenge={CHALLENGE}"):
                client = self.ask("GET", path, headers={"Host": host})
                if host is None and client.answer.status == 400:
                    continue
                self.refused(client, 403, "CLI_ACCESS_DENIED")

    def test_origins(self) -> None:
        """Web pages are refused, whatever their origin, even with the capability."""
        for origin in ("http://127.0.0.1:4242", "null", "https://evil.example", ""):
            self.refused(
                self.ask("GET", "/api/v1/chats", headers={"Origin": origin}),
                403,
                "CLI_ACCESS_DENIED",
            )

    def test_capabilities(self) -> None:
        """Only this gateway's own capability opens it."""
        for value in (
            None,
            "",
            "Bearer",
            "Bearer ",
            f"Bearer {new_capability()}",
            f"Basic {self.identity.capability}",
            f"Bearer {self.identity.capability}x",
            f"Bearer {self.identity.capability[:-1]}",
            "Bearer \u00e9",
        ):
            for path in ("/api/v1/chats", "/api/v1/cli/context", "/nowhere"):
                self.refused(
                    self.ask("GET", path, headers={"Authorization": value}),
                    403,
                    "CLI_ACCESS_DENIED",
                )

    def test_unlisted_operations(self) -> None:
        """Other methods, other paths, prefixes, and paths below or beside a listed one."""
        for method, path in (
            ("PATCH", "/api/v1/chats/tags"),
            ("POST", "/api/v1/cli/context"),
            ("POST", f"/api/v1/runtime?challenge={CHALLENGE}"),
            ("GET", "/api/v1/openapi.json"),
            ("GET", "/api/v1/chats/"),
            ("GET", "/api/v1/chats/start"),
            ("GET", "/api/v1/chats/snapshot/more"),
            ("GET", "/api/v1/%63hats"),
            ("GET", "/api/v1/../api/v1/chats"),
            ("GET", "/chats"),
            ("GET", "/api/v1/files/tree"),
            ("OPTIONS", "/api/v1/chats"),
            ("HEAD", "/api/v1/chats"),
            ("DELETE", "/api/v1/executors"),
            ("GET", "/api/v1/executors//connection"),
            ("PATCH", "/api/v1/executors/a/b"),
        ):
            client = self.ask(method, path)
            if method == "HEAD":
                self.assertEqual(client.answer.status, 403)
            else:
                self.refused(client, 403, "CLI_ACCESS_DENIED")

    def test_upgrades(self) -> None:
        """No upgrade is forwarded."""
        headers: dict[str, str | None] = {"Upgrade": "websocket", "Connection": "Upgrade"}
        self.refused(self.ask("GET", "/api/v1/chats", headers=headers), 403, "CLI_ACCESS_DENIED")

    def test_the_instance_is_required(self) -> None:
        """A forwarded request names the controller it was meant for."""
        for value in (None, "", "x" * 129):
            self.refused(
                self.ask("GET", "/api/v1/chats", headers={"X-Garcon-Server-Instance": value}),
                400,
                "VALIDATION_FAILED",
            )

    def test_content_types(self) -> None:
        """A body is JSON by its type and by its text, and an object."""
        for kind, body, status in (
            (None, b"{}", 415),
            ("text/plain", b"{}", 415),
            ("application/jsonp", b"{}", 415),
            ("application/json", b"{", 400),
            ("application/json", b"[]", 400),
            ("application/json", b'"text"', 400),
            ("application/json", b'{"a":"\xff"}', 400),
            ("application/json", b'{"a":NaN}', 400),
        ):
            client = self.ask("POST", "/api/v1/chats/run", body, {"Content-Type": kind})
            self.refused(client, status, "VALIDATION_FAILED")
        self.ask("POST", "/api/v1/chats/run", b"{}", {"Content-Type": "Application/JSON; x=y"})
        self.assertEqual(len(self.calls), 1)

    def test_nesting_at_n_and_n_plus_one(self) -> None:
        """What could be read but not sent on is refused; however many values lie side by side."""
        for depth, sent in ((512, False), (511, True)):
            deep = b'{"a":' + b"[" * depth + b"]" * depth + b"}"
            client = self.ask(
                "POST", "/api/v1/chats/run", deep, {"Content-Type": "application/json"}
            )
            if not sent:
                self.refused(client, 400, "VALIDATION_FAILED")
        self.assertEqual(len(self.calls), 1)
        wide = b'{"a":[' + b",".join([b"[]"] * 1_000) + b"]}"
        self.ask("POST", "/api/v1/chats/run", wide, {"Content-Type": "application/json"})
        self.assertEqual(len(self.calls), 2)

    def test_envelope(self) -> None:
        """Executor-sensitive requests name their executor; a settings patch is the one allowed."""
        for method, path, body, status, code in (
            ("POST", "/api/v1/chats/start", {"prompt": "x"}, 400, "VALIDATION_FAILED"),
            ("GET", "/api/v1/models", None, 400, "VALIDATION_FAILED"),
            ("PUT", "/api/v1/app/settings", {"other": 1}, 403, "CLI_ACCESS_DENIED"),
            ("GET", "/api/v1/executors?x=y", None, 400, "VALIDATION_FAILED"),
            ("PATCH", f"/api/v1/executors/{LOCAL}", {}, 404, "EXECUTOR_NOT_FOUND"),
            ("PATCH", "/api/v1/executors/nobody", {}, 400, "VALIDATION_FAILED"),
            ("PATCH", "/api/v1/executors/:executorId", {}, 400, "VALIDATION_FAILED"),
        ):
            content = b"" if body is None else json.dumps(body).encode()
            self.refused(self.ask(method, path, content), status, code)

    def test_declared_sizes_at_n_and_n_plus_one(self) -> None:
        """A body that says it is too large is answered before any of it is read."""
        for path, lane_limit in (
            ("/api/v1/chats/run", limits.BRIDGE_BULK_REQUEST),
            ("/api/v1/chats/stop", limits.BRIDGE_PRIMARY),
        ):
            most = lane_limit - limits.BRIDGE_ENVELOPE
            for size, waits in ((most, True), (most + 1, False)):
                client = Client(self.site)
                headers: dict[str, str | None] = {
                    "Content-Length": str(size),
                    "Content-Type": "application/json",
                }
                client.send(self.head("POST", path, headers))
                self.assertEqual(client.is_waiting, waits)
                if not waits:
                    self.refused(client, 413, "CLI_REQUEST_TOO_LARGE")
                client.vanish()
        self.assertEqual(self.slots.taken, 0)

    def test_chunked_bodies_are_counted(self) -> None:
        """A body without a declared size is cut off at the limit."""
        client = Client(self.site)
        headers: dict[str, str | None] = {
            "Transfer-Encoding": "chunked",
            "Content-Type": "application/json",
        }
        client.send(self.head("POST", "/api/v1/chats/stop", headers))
        client.send(b"10000\r\n" + b" " * 65536 + b"\r\n")
        self.refused(client, 413, "CLI_REQUEST_TOO_LARGE")

    def test_encoded_sizes(self) -> None:
        """What grows when it is encoded once more is measured as it will travel."""
        most = limits.BRIDGE_PRIMARY - limits.BRIDGE_ENVELOPE
        fits = "&".join(f"k{n}={'%01' * 600}" for n in range(4))
        grown = "&".join(f"k{n}={'%01' * 1200}" for n in range(9))
        self.assertLess(4 * 600 * 6, most)
        self.assertGreater(9 * 1200 * 6, most)
        self.ask("GET", f"/api/v1/chats/turn-receipt?{fits}")
        self.assertEqual(len(self.calls), 1)
        del self.calls[:]
        client = self.ask("GET", f"/api/v1/chats/turn-receipt?{grown}")
        # The head itself may be over its own bound first; it is the same to the command.
        self.assertEqual(client.answer.outcome, (413, "CLI_REQUEST_TOO_LARGE"))
        self.assertEqual(self.calls, [])

    def test_what_stands_around_many_pairs_counts(self) -> None:
        """A query of 128 pairs whose text alone would fit is refused here, not at the controller;
        one byte less crosses.
        """
        most = limits.BRIDGE_PRIMARY - limits.BRIDGE_ENVELOPE
        pairs = [("\x01" * 41, "\x01" * 41) for _ in range(limits.QUERY_PAIRS - 1)]

        def encoded() -> int:
            http = BridgedHttp("GET /chats/turn-receipt", pairs, None)
            return len(msgspec.json.encode(BridgedRequest("controller-1", http)))

        pairs.append(("", ""))
        room = most - encoded()
        last = "\x01" * (room // 6) + "x" * (room % 6)
        for text, sent in ((last + "x", 0), (last, 1)):
            pairs[-1] = ("", text)
            self.assertEqual(encoded(), most + 1 - sent)
            self.assertLess(6 * sum(len(a) + len(b) for a, b in pairs) + 512, most)
            client = self.ask("GET", f"/api/v1/chats/turn-receipt?{urlencode(pairs)}")
            self.assertEqual(len(self.calls), sent)
            if not sent:
                self.assertEqual(client.answer.outcome, (413, "CLI_REQUEST_TOO_LARGE"))


class Routing(SynchronousTestCase):
    """Which paths name which operation."""

    def test_every_bridged_operation_is_found(self) -> None:
        """Each route of the registry is reached by its own method and path, and no other method."""
        for route in routes.BRIDGED.values():
            path = route.path.replace(":executorId", EXECUTOR)
            named = EXECUTOR if ":executorId" in route.path else None
            self.assertEqual(find_route(route.method, path), (route, named))
            self.assertIsNone(find_route("TRACE", path))

    def test_what_is_not_bridged_is_not_found(self) -> None:
        """The gateway's own routes and those of the controller alone are not forwarded."""
        for route in routes.ROUTES:
            if not route.bridged:
                self.assertIsNone(find_route(route.method, route.path))


class Forwarding(Cast):
    """One request is one call on the captured session."""

    def test_a_request_crosses_whole(self) -> None:
        """Operation, ordered query pairs with repeats, body and the expected instance."""
        self.ask("GET", "/api/v1/chats?tag=b&tag=a&limit=&x=%2F%20")
        self.ask("PATCH", f"/api/v1/executors/{OTHER}", b'{"label":"caf\\u00e9"}')
        read, change = self.calls
        self.assertEqual((read.method, read.lane, read.deadline), (CLI_REQUEST, Lane.BULK, 30.0))
        self.assertEqual(read.request.expected_server_instance_id, "controller-1")
        self.assertEqual(read.request.http.operation, "GET /chats")
        self.assertEqual(
            read.request.http.query, [("tag", "b"), ("tag", "a"), ("limit", ""), ("x", "/ ")]
        )
        self.assertIs(read.request.http.body, None)
        self.assertIs(read.request.http.executor_id, UNSET)
        self.assertEqual(change.request.http.executor_id, OTHER)
        self.assertEqual(change.request.http.body, {"label": "caf\u00e9"})

    def test_lanes_and_deadlines(self) -> None:
        """Each operation has its own; a hand-off has ten minutes, and none means no timer."""
        self.stop()
        self.ask("POST", "/api/v1/chats/run", b'{"chatId":"1","handoff":{}}')
        self.ask("POST", "/api/v1/chats/fork", b"{}")
        self.ask("GET", "/api/v1/chats/export")
        self.assertEqual(
            [(call.lane, call.deadline) for call in self.calls],
            [(Lane.PRIMARY, 30.0), (Lane.BULK, 600.0), (Lane.BULK, None), (Lane.BULK, 120.0)],
        )

    def test_answers_pass_unchanged(self) -> None:
        """Status, body and retry time are the controller's, for success and failure alike."""
        for status, body, retry in (
            (202, b'{"success":true,  "n":1.50}', UNSET),
            (404, b'{"success":false,"errorCode":"OPERATION_NOT_AVAILABLE"}', UNSET),
            (503, b'{"success":false}', "17"),
        ):
            client = self.start()
            self.calls[-1].reply.callback(BridgedReply(status, Raw(body), retry))
            self.assertEqual(client.answer.status, status)
            self.assertEqual(client.answer.body, body)
            self.assertEqual(client.answer.headers.get("retry-after"), retry or None)
            self.assertEqual(client.answer.headers["content-type"], "application/json")
            self.assertEqual(client.answer.headers["cache-control"], "no-store")
            self.assertEqual(client.answer.headers["connection"], "close")

    def test_an_answer_without_content(self) -> None:
        """A null body stands for none."""
        client = self.start()
        self.calls[-1].reply.callback(BridgedReply(200, Raw(b"null")))
        self.assertEqual(client.answer.body, b"")

    def test_invalid_answers_are_lost_answers(self) -> None:
        """A status or retry time outside the contract never reaches the command."""
        for status, retry in ((302, UNSET), (101, UNSET), (600, UNSET), (200, "soon"), (200, "")):
            for ask, code in (
                (self.start, "CLI_OUTCOME_UNKNOWN"),
                (self.read, "CLI_CONTROLLER_UNAVAILABLE"),
            ):
                client = ask()
                self.calls[-1].reply.callback(BridgedReply(status, Raw(b"{}"), retry))
                self.assertEqual(client.answer.outcome, (503, code))

    def test_outcomes(self) -> None:
        """What a failed call means, for a mutation and for a read (control.md F.6)."""
        lost = "EXECUTOR_UNAVAILABLE"
        denied = CallError("CLI_ACCESS_DENIED", "no", outcome="rejected", domain="executor")
        changed = CallError("CLI_CONTROLLER_CHANGED", "new", outcome="rejected", domain="executor")
        crowded = CallError("CLI_SERVICE_BUSY", "full", outcome="not-dispatched", domain="executor")
        large = CallError("CLI_RESULT_TOO_LARGE", "big", outcome="rejected", domain="executor")
        unknown = CallError("CLI_OUTCOME_UNKNOWN", "?", outcome="unknown", domain="executor")
        for error, mutation, read in (
            (LaneLost("x", outcome="not-dispatched"), "CLI_CONTROLLER_UNAVAILABLE", None),
            (LaneLost("x"), "CLI_OUTCOME_UNKNOWN", "CLI_CONTROLLER_UNAVAILABLE"),
            (
                CallError(lost, "x", outcome="unknown"),
                "CLI_OUTCOME_UNKNOWN",
                "CLI_CONTROLLER_UNAVAILABLE",
            ),
            (denied, "CLI_ACCESS_DENIED", None),
            (changed, "CLI_CONTROLLER_CHANGED", None),
            (crowded, "CLI_SERVICE_BUSY", None),
            (large, "CLI_RESULT_TOO_LARGE", None),
            (unknown, "CLI_OUTCOME_UNKNOWN", None),
        ):
            for ask, code in ((self.start, mutation), (self.read, read or mutation)):
                client = ask()
                self.calls[-1].reply.errback(error)
                self.assertEqual(client.answer.json["errorCode"], code)
                self.assertIs(client.answer.json["success"], False)
        self.assertEqual(self.slots.taken, 0)

    def test_statuses_and_retry_meaning(self) -> None:
        """Each bridge code has its status, its retry flag, and busy says when."""
        for code, status, retryable, after in (
            ("CLI_CONTROLLER_UNAVAILABLE", 503, True, None),
            ("CLI_SERVICE_BUSY", 503, True, "1"),
            ("CLI_CONTROLLER_CHANGED", 409, False, None),
            ("CLI_ACCESS_DENIED", 403, False, None),
            ("CLI_REQUEST_TOO_LARGE", 413, False, None),
            ("CLI_RESULT_TOO_LARGE", 413, False, None),
            ("CLI_OUTCOME_UNKNOWN", 503, False, None),
        ):
            client = self.start()
            self.calls[-1].reply.errback(CallError(code, "x", outcome="rejected"))
            self.assertEqual(client.answer.outcome, (status, code))
            self.assertIs(client.answer.json["retryable"], retryable)
            self.assertEqual(client.answer.headers.get("retry-after"), after)

    def test_failures_of_our_own_are_lost_answers(self) -> None:
        """An unexpected failure after dispatch is not called safe to repeat."""
        client = self.start()
        self.calls[-1].reply.errback(RuntimeError("ours"))
        self.assertEqual(client.answer.outcome, (503, "CLI_OUTCOME_UNKNOWN"))
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)

    def test_a_client_that_goes_away_cancels(self) -> None:
        """The call is cancelled and the slot is free again; a late answer is nobody's."""
        client = self.start()
        self.assertEqual(self.slots.taken, 1)
        client.vanish()
        self.assertTrue(self.calls[0].was_cancelled)
        self.assertEqual(self.slots.taken, 0)


class Capture(Cast):
    """A request belongs to the session that was connected when its headers came."""

    def begin_upload(self) -> Client:
        """Send the head of a mutation only."""
        client = Client(self.site)
        self.body = json.dumps(START).encode()
        client.send(
            self.head(
                "POST",
                "/api/v1/chats/start",
                {"Content-Length": str(len(self.body)), "Content-Type": "application/json"},
            )
        )
        return client

    def test_a_replacement_is_never_followed(self) -> None:
        """A session that replaces the captured one during the upload gets nothing."""
        first = self.link
        assert first is not None
        client = self.begin_upload()
        self.link = HeldLink(generation="generation-2")
        client.send(self.body)
        self.assertEqual(len(first.calls), 1)
        self.assertEqual(self.calls, [])

    def test_nothing_is_read_without_a_link(self) -> None:
        """Without a session the answer comes before the body."""
        self.link = None
        client = self.begin_upload()
        self.assertEqual(client.answer.outcome, (503, "CLI_CONTROLLER_UNAVAILABLE"))
        self.assertTrue(client.answer.json["retryable"])
        self.assertEqual(self.slots.taken, 0)

    def test_another_executor_is_refused(self) -> None:
        """The gateway does not lead retained shells to another relationship."""
        self.read()
        self.link = HeldLink(OTHER, "generation-2")
        for path in ("/api/v1/chats", "/api/v1/cli/context"):
            client = self.ask("GET", path)
            self.assertEqual(client.answer.outcome, (403, "CLI_ACCESS_DENIED"))
        self.assertEqual(self.calls, [])
        self.link = HeldLink(EXECUTOR, "generation-3")
        self.read()
        self.assertEqual(len(self.calls), 1)


class Busy(Cast):
    """Full is answered at once, without reading the upload."""

    def test_bulk_at_n_and_n_plus_one(self) -> None:
        """The thirteenth bulk request is refused before its body; primary still gets through."""
        waiting = [self.start() for _ in range(limits.GATEWAY_RESPONSES_BULK)]
        client = Client(self.site)
        headers: dict[str, str | None] = {
            "Content-Length": "500000",
            "Content-Type": "application/json",
        }
        client.send(self.head("POST", "/api/v1/chats/run", headers))
        self.assertEqual(client.answer.outcome, (503, "CLI_SERVICE_BUSY"))
        self.assertEqual(client.answer.headers["retry-after"], "1")
        self.assertEqual(len(self.calls), limits.GATEWAY_RESPONSES_BULK)
        self.assertTrue(self.stop().is_waiting)
        waiting[0].vanish()
        self.assertTrue(self.start().is_waiting)

    def test_primary_at_n_and_n_plus_one(self) -> None:
        """Sixteen answers in all; context discovery counts as one."""
        for _ in range(limits.GATEWAY_RESPONSES - 1):
            self.stop()
        self.assertTrue(self.ask("GET", "/api/v1/cli/context").is_waiting)
        for client in (self.stop(), self.ask("GET", "/api/v1/cli/context")):
            self.assertEqual(client.answer.outcome, (503, "CLI_SERVICE_BUSY"))

    def test_connections_at_n_and_n_plus_one(self) -> None:
        """The thirty-third connection is closed at once."""
        clients = [Client(self.site) for _ in range(limits.GATEWAY_CONNECTIONS)]
        self.assertIsNone(self.site.buildProtocol(None))
        clients[0].vanish()
        self.assertIsNotNone(self.site.buildProtocol(None))

    def test_a_slow_upload_ends(self) -> None:
        """An upload has thirty seconds in all; then the slot is free again."""
        client = Client(self.site)
        headers: dict[str, str | None] = {
            "Content-Length": "1000",
            "Content-Type": "application/json",
        }
        client.send(self.head("POST", "/api/v1/chats/run", headers))
        for _ in range(29):
            self.clock.advance(1)
            client.send(b" ")
        self.assertTrue(client.is_waiting)
        self.clock.advance(1)
        self.assertEqual(client.answer.outcome, (408, "VALIDATION_FAILED"))
        self.clock.advance(LIMITS.linger)
        client.vanish()
        self.assertEqual(self.slots.taken, 0)

    def test_a_slow_reader_ends(self) -> None:
        """Whoever takes nothing of a large answer for thirty seconds is cut off, and its slot is
        free.
        """
        client = Client(self.site, Stuck())
        client.send(self.head("GET", "/api/v1/chats"))
        body = b'"' + b"x" * (3 * LIMITS.step) + b'"'
        self.calls[-1].reply.callback(BridgedReply(200, Raw(body)))
        self.assertLess(len(client.transport.value()), 2 * LIMITS.step)
        self.clock.advance(LIMITS.drain - 1)
        self.assertEqual(self.slots.taken, 1)
        client.resume()
        self.clock.advance(LIMITS.drain - 1)
        self.assertFalse(client.transport.disconnected)
        self.clock.advance(1)
        self.assertTrue(client.transport.disconnected)
        client.vanish()
        self.assertEqual(self.slots.taken, 0)

    def test_waiting_for_an_answer_has_no_timer_here(self) -> None:
        """Only the operation's own deadline bounds the wait for a reply."""
        client = self.start()
        self.clock.advance(3600)
        self.assertTrue(client.is_waiting)
        self.assertFalse(client.transport.disconnecting)


class Context(Cast):
    """Discovery through the gateway is live."""

    def test_context(self) -> None:
        """It is asked for on primary with five seconds, and needs no instance header."""
        client = self.ask("GET", "/api/v1/cli/context", headers={"X-Garcon-Server-Instance": None})
        (call,) = self.calls
        self.assertEqual(
            (call.method, call.request, call.lane, call.deadline),
            (CLI_DESCRIBE, None, Lane.PRIMARY, 5.0),
        )
        call.reply.callback(CliContext("controller-1", EXECUTOR, None))
        self.assertEqual(
            client.answer.json,
            {
                "serverInstanceId": "controller-1",
                "defaultExecutorId": EXECUTOR,
                "workspaceName": None,
            },
        )
        self.assertEqual(client.answer.headers["cache-control"], "no-store")

    def test_it_is_never_cached(self) -> None:
        """A second discovery asks again, and without a link it is unavailable."""
        for _ in range(2):
            self.ask("GET", "/api/v1/cli/context")
            self.calls[-1].reply.callback(CliContext("controller-1", EXECUTOR, "default"))
        self.assertEqual(len(self.calls), 2)
        self.link = None
        client = self.ask("GET", "/api/v1/cli/context")
        self.assertEqual(client.answer.outcome, (503, "CLI_CONTROLLER_UNAVAILABLE"))

    def test_another_default_executor_is_refused(self) -> None:
        """The controller's default must be the executor that the link has proven."""
        client = self.ask("GET", "/api/v1/cli/context")
        self.calls[-1].reply.callback(CliContext("controller-1", OTHER, None))
        self.assertEqual(client.answer.outcome, (403, "CLI_ACCESS_DENIED"))

    def test_failures(self) -> None:
        """A refusal passes, a lost call is unavailable."""
        client = self.ask("GET", "/api/v1/cli/context")
        self.calls[-1].reply.errback(CallError("CLI_ACCESS_DENIED", "no", outcome="rejected"))
        self.assertEqual(client.answer.outcome, (403, "CLI_ACCESS_DENIED"))
        client = self.ask("GET", "/api/v1/cli/context")
        self.calls[-1].reply.errback(LaneLost("cut"))
        self.assertEqual(client.answer.outcome, (503, "CLI_CONTROLLER_UNAVAILABLE"))
