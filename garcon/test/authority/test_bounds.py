"""Every number of the bridge at N and at N + 1, from the command's side (control.md F.4)."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Raw
from twisted.internet.defer import Deferred

from garcon.contract import limits, operations, routes
from garcon.contract.limits import KIB, MIB
from garcon.contract.rpc import BridgedHttp, BridgedReply, BridgedRequest
from garcon.controller.bridge.dispatcher import Dispatcher
from garcon.controller.handlers import Reply
from garcon.test.authority.cast import FORK, START, STOP, WholeBridge
from garcon.test.worker.test_gateway import Client, Stuck

RUN = {"clientRequestId": "r", "clientMessageId": "m", "chatId": "c", "transcriptViewId": "v"}


class SlotTests(WholeBridge):
    """How many requests are handled at once, for one executor."""

    def setUp(self) -> None:
        super().setUp()
        self.starting = self.hold(operations.START_CHAT)
        self.stopping = self.hold(operations.STOP_CHAT)
        self.running = self.hold(operations.RUN_CHAT)
        self.forks = self.hold(operations.FORK)

    def busy(self, client: Client) -> None:
        self.outcome(client, 503, "CLI_SERVICE_BUSY")
        self.assertEqual(client.answer.headers["retry-after"], "1")

    def waiting(self, client: Client) -> Client:
        self.assertTrue(client.is_waiting)
        return client

    def run_chat(self, **more: Any) -> Client:
        return self.http("POST", "/chats/run", RUN | more)

    def test_four_of_six_for_bulk(self) -> None:
        """The fifth bulk request is refused, the two controls left have their slots, the third has
        none; context discovery needs one as well.
        """
        for _ in range(limits.POOL_SHORT_BULK):
            self.waiting(self.start())
        self.busy(self.start())
        self.assertEqual(self.discover().answer.status, 200)
        for _ in range(limits.POOL_SHORT - limits.POOL_SHORT_BULK):
            self.waiting(self.stop())
        self.busy(self.stop())
        self.busy(self.discover())
        self.stopping.waiting[0].callback({})
        self.settle(0.1)
        self.assertEqual(self.discover().answer.status, 200)
        self.assertEqual(len(self.starting.calls), limits.POOL_SHORT_BULK)

    def test_two_long_ones(self) -> None:
        """Forks and runs that hand over share them, by their bodies; a plain run has a short one,
        and long ones never take what polling needs.
        """
        self.waiting(self.http("POST", "/chats/fork", FORK))
        self.waiting(self.run_chat(handoff={}))
        self.busy(self.run_chat(handoff={}))
        self.busy(self.http("POST", "/chats/fork", FORK))
        self.assertEqual((self.used("long"), self.used()), (limits.POOL_LONG, 0))
        self.waiting(self.run_chat(handoff=None))
        self.waiting(self.run_chat())
        self.waiting(self.stop())

    def test_given_up_waits_keep_their_slots_over_sessions(self) -> None:
        """However often a command goes away and however often the link comes back: no more than
        four handlers of it are ever unsettled.
        """
        for _ in range(limits.POOL_SHORT_BULK):
            self.waiting(self.start()).vanish()
            self.settle(0.1)
        for _ in range(3):
            self.busy(self.start())
            self.relink()
        self.busy(self.start())
        self.assertEqual(len(self.starting.calls), limits.POOL_SHORT_BULK)
        self.starting.waiting[2].callback({})
        self.waiting(self.start())
        self.busy(self.start())

    def test_reads_that_take_their_time_to_end_keep_theirs(self) -> None:
        """A read is cancelled when its command goes away, and its slot is free when it has really
        ended, not before.
        """
        ends: list[Deferred[None]] = []

        async def stubborn(call: Any) -> dict[str, bool]:
            never: Deferred[None] = Deferred()
            try:
                await never
            finally:
                ends.append(Deferred())
                await ends[-1]
            return {}

        self.handlers.register(operations.LIST_CHATS, stubborn)
        for _ in range(limits.POOL_SHORT_BULK):
            self.read().vanish()
            self.settle(0.1)
        self.assertEqual(len(ends), limits.POOL_SHORT_BULK)
        self.busy(self.read())
        self.relink()
        self.busy(self.read())
        ends[0].callback(None)
        self.waiting(self.read())
        self.busy(self.read())

    def test_revoked_waits_keep_their_slots(self) -> None:
        """Taking a grant and giving it again makes no room either."""
        for _ in range(limits.POOL_SHORT_BULK):
            self.start()
        self.updated(self.executor_id, allowControllerCli=False)
        self.updated(self.executor_id, allowControllerCli=True)
        self.busy(self.start())

    def test_given_up_long_ones_keep_theirs(self) -> None:
        """Without a deadline nothing but the handler's end frees them."""
        for _ in range(limits.POOL_LONG):
            self.http("POST", "/chats/fork", FORK).vanish()
        self.settle(3600)
        self.busy(self.http("POST", "/chats/fork", FORK))
        self.forks.waiting[0].callback({})
        self.waiting(self.http("POST", "/chats/fork", FORK))

    def test_answers_of_the_gateway(self) -> None:
        """Of sixteen at work twelve are for bulk.  What the controller would refuse next is not
        asked of it: here the gateway's own link is held.
        """
        self.network.hold()
        reads = [self.read() for _ in range(limits.GATEWAY_RESPONSES_BULK)]
        self.busy(self.read())
        stops = [self.stop() for _ in range(4)]
        self.busy(self.stop())
        self.assertTrue(all(client.is_waiting for client in reads + stops))


class SizeTests(WholeBridge):
    """Sizes are those of the encoded messages, escapes included."""

    def setUp(self) -> None:
        super().setUp()
        self.starting = self.hold(operations.START_CHAT)
        self.stopping = self.hold(operations.STOP_CHAT)
        self.chats = self.hold(operations.LIST_CHATS)
        self.receipts = self.hold(operations.TURN_RECEIPT)

    def test_requests_with_escapes(self) -> None:
        """What grows or shrinks when it is encoded once more counts as it travels: texts whose
        every character is escaped by the command pass up to the limit, and not one byte beyond.
        """
        for route, path, body, limit in (
            (routes.START_CHAT, "/chats/start", START, MIB - KIB),
            (routes.STOP_CHAT, "/chats/stop", STOP, 64 * KIB - KIB),
        ):
            for character in ("é", "\x01", '"', "\U0001f600"):
                http = BridgedHttp(route.key, [], body | {"pad": ""})
                shell = len(msgspec.json.encode(BridgedRequest(self.expected, http)))
                each = len(msgspec.json.encode(character)) - 2
                room = limit - shell
                pad = character * (room // each) + "x" * (room % each)
                content = msgspec.json.encode(body | {"pad": pad})
                client = self.http("POST", path, content)
                self.assertTrue(client.is_waiting, character)
                client.vanish()
                self.settle(0.1)
                content = msgspec.json.encode(body | {"pad": pad + "x"})
                self.outcome(self.http("POST", path, content), 413, "CLI_REQUEST_TOO_LARGE")
                for held in (self.starting, self.stopping):
                    while held.waiting:
                        held.waiting.pop().callback({})

    def test_queries_with_escapes(self) -> None:
        """Of a query it is the decoded text that travels: one byte for three on the way here, and
        six on the way on.
        """
        names = [("chatId", "c"), ("turnId", "t"), ("a", ""), ("b", "")]
        http = BridgedHttp("GET /chats/turn-receipt", names, None)
        shell = len(msgspec.json.encode(BridgedRequest(self.expected, http)))
        room = 64 * KIB - KIB - shell
        a, b = "\x01" * 8_000, "\x01" * (room // 6 - 8_000) + "x" * (room % 6)
        fits = f"/chats/turn-receipt?chatId=c&turnId=t&a={quote(a)}&b={quote(b)}"
        self.assertTrue(self.http("GET", fits).is_waiting)
        self.assertEqual(len(self.receipts.calls), 1)
        self.outcome(self.http("GET", fits + "x"), 413, "CLI_REQUEST_TOO_LARGE")
        self.assertEqual(len(self.receipts.calls), 1)

    def answered(self, client: Client, held: Any, text: str) -> Client:
        held.waiting[-1].callback(Reply(text))
        self.settle(3)
        return client

    def test_replies_with_escapes(self) -> None:
        """Eight MiB with every character escaped cross whole; one byte more is refused for a read,
        unknown for a mutation, and never cut.
        """
        shell = len(msgspec.json.encode(BridgedReply(200, Raw(b'""'))))
        room = 8 * MIB - KIB - shell
        for character in ("\x01", '"', "é"):
            each = len(msgspec.json.encode(character)) - 2
            text = character * (room // each) + "x" * (room % each)
            client = self.answered(self.read(), self.chats, text)
            self.assertEqual(client.answer.status, 200)
            self.assertEqual(client.answer.json, text)
            client = self.answered(self.read(), self.chats, text + "x")
            self.outcome(client, 413, "CLI_RESULT_TOO_LARGE")
            client = self.answered(self.start(), self.starting, text + "x")
            self.outcome(client, 503, "CLI_OUTCOME_UNKNOWN")

    def test_primary_replies(self) -> None:
        """64 KiB, and the same for what is over."""
        shell = len(msgspec.json.encode(BridgedReply(200, Raw(b'""'))))
        text = "x" * (64 * KIB - KIB - shell)
        self.assertEqual(self.answered(self.stop(), self.stopping, text).answer.json, text)
        client = self.answered(self.stop(), self.stopping, text + "x")
        self.outcome(client, 503, "CLI_OUTCOME_UNKNOWN")
        # What is no receipt is not cut like one.
        client = self.answered(self.receipt(), self.receipts, text + "x")
        self.outcome(client, 413, "CLI_RESULT_TOO_LARGE")

    def test_small_replies_are_never_crowded_out(self) -> None:
        """With more than eight MiB in the queue an acknowledgement of a mutation still crosses,
        while a large answer is refused at once.
        """
        self.block_bulk(True)
        first, second = self.read(), self.read()
        for d in self.chats.waiting:
            d.callback("x" * (4 * MIB - 2 * KIB))
        third, small, large = self.read(), self.start(), self.start()
        self.chats.waiting[2].callback("x" * 100 * KIB)
        self.starting.waiting[0].callback("x" * 60 * KIB)
        self.starting.waiting[1].callback("x" * 64 * KIB)
        self.block_bulk(False)
        self.settle(3)
        self.assertEqual([c.answer.status for c in (first, second)], [200, 200])
        self.outcome(third, 503, "CLI_SERVICE_BUSY")
        self.assertEqual(len(small.answer.json), 60 * KIB)
        self.outcome(large, 503, "CLI_OUTCOME_UNKNOWN")

    def block_bulk(self, is_blocked: bool) -> None:
        """Let the controller's bulk socket take nothing more, or take again."""
        _, accepted = self.bulk_wires()
        accepted.set_writable(not is_blocked)


class ConnectionTests(WholeBridge):
    """The door has thirty-two places, and no more sockets than that."""

    def test_thirty_two(self) -> None:
        """The next one is closed at once while all of them may still say something; later it takes
        the place of the oldest that has said nothing, which is gone before anything else happens.
        """
        clients = [Client(self.site, Stuck()) for _ in range(limits.GATEWAY_CONNECTIONS)]
        self.assertIsNone(self.site.buildProtocol(None))
        self.clock.advance(1.1)
        newcomer = Client(self.site)
        self.clock.advance(0)
        gone = [client for client in clients if client.transport.disconnected]
        self.assertEqual(gone, clients[:1])
        clients[0].vanish()
        self.assertEqual(len(self.site.channels), limits.GATEWAY_CONNECTIONS)
        newcomer.send(self.head("GET", "/cli/context"))
        self.settle(0.1)
        self.assertEqual(newcomer.answer.status, 200)

    def test_who_waits_for_an_answer_keeps_the_place(self) -> None:
        """Only who asks for nothing gives way: with every place at work there is none."""
        self.hold(operations.START_CHAT)
        working = [self.start() for _ in range(limits.POOL_SHORT_BULK)]
        for _ in range(limits.GATEWAY_CONNECTIONS - len(working)):
            Client(self.site, Stuck())
        self.clock.advance(1.1)
        for _ in range(2 * limits.GATEWAY_CONNECTIONS):
            self.site.buildProtocol(None)
            self.clock.advance(0)
        self.assertTrue(all(client.is_waiting for client in working))
        for client in working:
            self.assertFalse(client.transport.disconnecting)

    def test_trickling_headers_and_bodies_end(self) -> None:
        """A byte a second keeps nobody: ten seconds for the headers, thirty for the body, in all.
        A slot is held by neither for longer.
        """
        headers, body = Client(self.site), Client(self.site)
        body.send(self.head("POST", "/chats/start", 1_000))
        self.assertEqual(self.slots.taken, 1)
        for _ in range(int(limits.GATEWAY_HEADER_TIME) - 1):
            headers.send(b"G")
            body.send(b" ")
            self.clock.advance(1)
        self.assertFalse(headers.transport.disconnecting)
        self.clock.advance(1)
        self.assertTrue(headers.transport.disconnecting)
        for _ in range(int(limits.GATEWAY_REQUEST_TIME - limits.GATEWAY_HEADER_TIME)):
            body.send(b" ")
            self.clock.advance(1)
        self.assertEqual(body.answer.outcome, (408, "VALIDATION_FAILED"))
        self.assertEqual(self.slots.taken, 0)

    def test_headers_at_and_over_32_kib(self) -> None:
        """Request line and headers together."""
        head = self.head("GET", "/cli/context", headers={"X-Pad": ""})
        room = limits.GATEWAY_HEADERS - (len(head) - 2 * head.count(b"\r\n"))
        client = self.http("GET", "/cli/context", headers={"X-Pad": "x" * room})
        self.assertEqual(client.answer.status, 200)
        client = self.http("GET", "/cli/context", headers={"X-Pad": "x" * (room + 1)})
        self.outcome(client, 413, "CLI_REQUEST_TOO_LARGE")

    def test_what_is_no_http(self) -> None:
        """It is told so in the words of every other refusal."""
        for said in (b"HELLO\r\n\r\n", b"GET / HTTP/1.1\r\nHost\r\n\r\n"):
            client = Client(self.site)
            client.send(said)
            self.assertEqual(client.answer.outcome, (400, "VALIDATION_FAILED"))
            self.assertEqual(client.answer.headers["cache-control"], "no-store")


class ManyExecutors(WholeBridge):
    """What all executors together may do."""

    def setUp(self) -> None:
        super().setUp()
        self.pools = self.dispatcher.pools

    def test_the_totals_are_the_dispatchers(self) -> None:
        """One executor's requests are refused when the others have taken what there is in all, and
        the refusal takes nothing.
        """
        assert isinstance(self.dispatcher, Dispatcher)
        self.hold(operations.START_CHAT)
        self.hold(operations.FORK)
        self.hold(operations.STOP_CHAT)
        short, bulk, long = ("", "short"), ("", "short-bulk"), ("", "long")
        for pool, n, ask in (
            (bulk, limits.POOL_SHORT_BULK_TOTAL, self.start),
            (short, limits.POOL_SHORT_TOTAL, self.stop),
            (long, limits.POOL_LONG_TOTAL, lambda: self.http("POST", "/chats/fork", FORK)),
        ):
            self.pools.used[pool] = n - 1  # type: ignore[index]
            self.assertTrue(ask().is_waiting)
            self.assertEqual(self.pools.used[pool], n)  # type: ignore[index]
            self.outcome(ask(), 503, "CLI_SERVICE_BUSY")
            self.assertEqual(self.pools.used[pool], n)  # type: ignore[index]
