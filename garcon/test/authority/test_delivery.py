"""What a command learns when its request or its answer is lost, and what nobody does about it."""

from __future__ import annotations

from typing import Any

from garcon.contract import operations
from garcon.contract.limits import BULK_WAIT
from garcon.controller.handlers import Reply
from garcon.test.authority.cast import FORK, START, WholeBridge
from garcon.test.worker.test_gateway import Client


class DeliveryTests(WholeBridge):
    """Links that are cut at different moments.  The gateway never sends anything twice."""

    def setUp(self) -> None:
        super().setUp()
        self.starting = self.hold(operations.START_CHAT)
        self.stopping = self.hold(operations.STOP_CHAT)
        self.forks = self.hold(operations.FORK)
        self.chats = self.hold(operations.LIST_CHATS)

    def fork(self) -> Client:
        return self.http("POST", "/chats/fork", FORK)

    def begun(self) -> int:
        """How many requests have reached a handler."""
        held = (self.starting, self.stopping, self.forks, self.chats)
        return sum(len(one.calls) for one in held)

    def test_without_a_link_nothing_is_forwarded(self) -> None:
        """Definitely not, and nothing waits for a link that may come."""
        self.dialler.is_blocked = True
        self.network.cut()
        for client in (self.start(), self.stop(), self.fork(), self.read()):
            self.outcome(client, 503, "CLI_CONTROLLER_UNAVAILABLE")
            self.assertIs(client.answer.json["retryable"], True)
        self.dialler.is_blocked = False
        self.settle(60)
        self.assertEqual(self.begun(), 0)

    def test_cut_before_it_left(self) -> None:
        """A request that waits for its lane when the link ends was not dispatched."""
        self.lose_bulk()
        clients = [self.start(), self.fork(), self.read()]
        self.network.cut()
        for client in clients:
            self.outcome(client, 503, "CLI_CONTROLLER_UNAVAILABLE")
        self.dialler.is_blocked = False
        self.settle(60)
        self.assertEqual(self.begun(), 0)

    def test_cut_after_acceptance(self) -> None:
        """A mutation may have run; a read has changed nothing.  New requests are served by the next
        session, and none of the old ones comes again.
        """
        mutations, read = [self.start(), self.stop(), self.fork()], self.read()
        self.assertEqual(self.begun(), 4)
        self.relink()
        for client in mutations:
            self.outcome(client, 503, "CLI_OUTCOME_UNKNOWN")
            self.assertIs(client.answer.json["retryable"], False)
        self.outcome(read, 503, "CLI_CONTROLLER_UNAVAILABLE")
        self.settle(60)
        self.assertEqual(self.begun(), 4)
        client = self.stop()
        self.stopping.waiting[1].callback({"outcome": "already-idle"})
        self.settle(0.1)
        self.assertEqual(client.answer.json, {"outcome": "already-idle"})

    def test_cut_while_the_answer_was_on_its_way(self) -> None:
        """The work is done, and its caller is told that it may be; the handler's own ids decide
        what a repetition is.
        """
        client = self.start()
        self.network.hold()
        self.starting.waiting[0].callback({"status": "accepted"})
        self.relink()
        self.outcome(client, 503, "CLI_OUTCOME_UNKNOWN")
        again = self.start()
        self.assertEqual(self.starting.calls[0].body, self.starting.calls[1].body)
        self.starting.waiting[1].callback({"status": "duplicate"})
        self.settle(0.1)
        self.assertEqual(again.answer.json, {"status": "duplicate"})

    def test_bulk_is_waited_for_twenty_seconds(self) -> None:
        """Whether the operation has a deadline or none; then it was surely not dispatched.  What is
        ready in time is dispatched once.
        """
        self.lose_bulk()
        start, fork = self.start(), self.fork()
        self.settle(BULK_WAIT - 0.3)
        self.assertTrue(start.is_waiting and fork.is_waiting)
        self.settle(0.4)
        for client in (start, fork):
            self.outcome(client, 503, "CLI_CONTROLLER_UNAVAILABLE")
        in_time = self.fork()
        self.dialler.is_blocked = False
        self.settle(15)
        self.assertTrue(in_time.is_waiting)
        self.assertEqual(self.begun(), 1)

    def test_the_wait_consumes_the_deadline(self) -> None:
        """Thirty seconds from the request on: what waited for its lane has less for its answer."""
        self.lose_bulk()
        client = self.start()
        self.settle(9)
        self.dialler.is_blocked = False
        self.settle(6)
        self.assertEqual(len(self.starting.calls), 1)
        self.settle(30 - 15 - 0.4)
        self.assertTrue(client.is_waiting)
        self.settle(0.5)
        self.outcome(client, 503, "CLI_OUTCOME_UNKNOWN")

    def test_a_deadline_that_passes(self) -> None:
        """The outcome is unknown, and the work goes on in its slot."""
        client, read = self.start(), self.read()
        self.settle(31)
        self.outcome(client, 503, "CLI_OUTCOME_UNKNOWN")
        self.outcome(read, 503, "CLI_CONTROLLER_UNAVAILABLE")
        self.assertEqual((self.starting.cancelled, self.chats.cancelled), (0, 1))
        self.assertEqual(self.used(), 1)
        self.starting.waiting[0].callback({})
        self.assertEqual(self.used(), 0)

    def test_no_deadline(self) -> None:
        """A fork may last for hours, and nobody's timer ends it."""
        client = self.fork()
        self.settle(3 * 3600)
        self.assertTrue(client.is_waiting)
        self.forks.waiting[0].callback({"success": True})
        self.settle(0.1)
        self.assertEqual(client.answer.json, {"success": True})

    def test_a_command_that_goes_away(self) -> None:
        """Its read is cancelled, its mutation is not: giving up neither stops nor undoes."""
        clients = [self.start(), self.read(), self.fork(), self.stop()]
        for client in clients:
            client.vanish()
        self.settle(0.1)
        self.assertEqual(self.chats.cancelled, 1)
        cancelled = (self.starting.cancelled, self.forks.cancelled, self.stopping.cancelled)
        self.assertEqual(cancelled, (0, 0, 0))
        self.assertEqual((self.used(), self.used("long")), (2, 1))
        for held in (self.starting, self.forks, self.stopping):
            held.waiting[0].callback({})
        self.assertFalse(any(self.dispatcher.pools.used.values()))
        self.assertEqual(self.slots.taken, 0)

    def test_gone_before_it_was_dispatched(self) -> None:
        """What waits for its lane is taken out of the line and never sent."""
        self.lose_bulk()
        client = self.start()
        client.vanish()
        self.dialler.is_blocked = False
        self.settle(15)
        self.assertEqual(self.worker.bulk_phase, "ready")
        self.assertEqual(self.begun(), 0)

    def test_a_partial_success_is_an_answer(self) -> None:
        """Whatever the application says of itself crosses as it is, also its own uncertainty."""
        said: tuple[tuple[int, dict[str, Any]], ...] = (
            (207, {"success": False, "done": ["a"], "failed": ["b"]}),
            (503, {"success": False, "errorCode": "PERMISSION_DECISION_OUTCOME_UNKNOWN"}),
            (409, {"success": False, "errorCode": "CHAT_ID_COLLISION", "retryable": False}),
        )
        for n, (status, body) in enumerate(said):
            client = self.http("POST", "/chats/start", START)
            self.starting.waiting[n].callback(Reply(body, status=status))
            self.settle(0.1)
            self.assertEqual((client.answer.status, client.answer.json), (status, body))


class HeaderTests(WholeBridge):
    """Which headers cross: hardly any, in either direction."""

    def test_only_the_small_set_comes_back(self) -> None:
        """Of what a handler says besides its answer only the retry time crosses; no cookie, no
        redirect, no caching and no coding does, and no page is told that it may read anything.
        """
        chats = self.hold(operations.LIST_CHATS)
        asked = {
            "Accept-Encoding": "gzip, br",
            "If-None-Match": "*",
            "Range": "bytes=0-1",
            "Access-Control-Request-Method": "GET",
        }
        client = self.http("GET", "/chats", headers=asked)
        said = {
            "Access-Control-Allow-Origin": "*",
            "Cache-Control": "max-age=3600",
            "Content-Encoding": "gzip",
            "ETag": '"1"',
            "Location": "https://elsewhere.example/",
            "Retry-After": "3",
            "Set-Cookie": "a=b",
            "X-Anything": "else",
        }
        chats.waiting[0].callback(Reply({"sessions": []}, headers=said))
        self.settle(0.1)
        headers = dict(client.answer.headers)
        self.assertEqual(client.answer.body, b'{"sessions":[]}')
        self.assertIn("date", headers)
        headers.pop("date")
        self.assertEqual(
            headers,
            {
                "cache-control": "no-store",
                "connection": "close",
                "content-length": "15",
                "content-type": "application/json",
                "retry-after": "3",
            },
        )

    def test_a_retry_time_that_is_none(self) -> None:
        """An answer with one that no command could read is not an answer: of a mutation it is not
        known what it would have been, and it was carried out.
        """
        chats, starting = self.hold(operations.LIST_CHATS), self.hold(operations.START_CHAT)
        for n, value in enumerate(("soon", "-1", "100000", "1.5", "", "1, 2")):
            read, mutation = self.read(), self.start()
            for held in (chats, starting):
                held.waiting[n].callback(Reply({}, headers={"Retry-After": value}))
            self.outcome(read, 503, "CLI_CONTROLLER_UNAVAILABLE")
            self.outcome(mutation, 503, "CLI_OUTCOME_UNKNOWN")
