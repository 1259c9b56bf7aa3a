"""The door's bounds, over an in-memory transport and a hand-driven clock."""

from __future__ import annotations

import gc
from collections.abc import Callable
from sys import getrefcount
from urllib.parse import parse_qsl

from attrs import define, field
from twisted.internet.address import IPv4Address
from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Request
from zope.interface import implementer

from garcon.contract.limits import MIB
from garcon.web.channel import LINGER_BYTES, BoundedChannel
from garcon.web.exchange import (
    Admission,
    DoorLimits,
    IDoorPolicy,
    Incoming,
    Outgoing,
    Upgrade,
    json_answer,
    text_answer,
)
from garcon.web.request import query_pairs
from garcon.web.site import BoundedSite

NOW = 1_700_000_000.0


class Transport(StringTransport):
    """A transport that remembers being aborted, and can act as one that is full."""

    aborted = False

    def abortConnection(self) -> None:
        """Drop it."""
        self.aborted = True
        self.loseConnection()


@implementer(IDoorPolicy)
@define(eq=False)
class Policy:
    """Admit everything up to 10 bytes, and note what was reserved and released."""

    limit: int = 10
    asked: list[Incoming] = field(factory=list)
    released: list[str] = field(factory=list)
    verdicts: dict[str, Outgoing | Upgrade] = field(factory=dict)
    too_large: Outgoing = field(factory=lambda: Outgoing(413))
    anybodys: set[str] = field(factory=set)
    """Paths that need nobody to be known."""

    def admit(self, incoming: Incoming) -> Admission | Outgoing | Upgrade:
        """Decide by path."""
        self.asked.append(incoming)
        verdict = self.verdicts.get(incoming.path)
        if verdict is not None:
            return verdict
        return Admission(
            self.limit,
            "reserved",
            lambda: self.released.append(incoming.path),
            self.too_large,
            incoming.path not in self.anybodys,
        )


class DoorCase(SynchronousTestCase):
    """A site with one connection to it."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.policy = Policy()
        self.answered: list[Incoming] = []
        self.reply: Callable[[Incoming], Deferred[Outgoing]] = lambda incoming: succeed(
            text_answer(200, f"{incoming.method} {len(incoming.body)}")
        )
        self.site = self.make_site(DoorLimits())
        self.connect()

    def make_site(self, limits: DoorLimits) -> BoundedSite:
        """Make a site with these limits."""
        return BoundedSite(
            self.clock, self.policy, self.answer, limits, {"X-Fixed": "yes"}, lambda: NOW
        )

    def answer(self, incoming: Incoming) -> Deferred[Outgoing]:
        """Answer as the test wants."""
        self.answered.append(incoming)
        return self.reply(incoming)

    def open(self) -> tuple[BoundedChannel, Transport]:
        """Open one more connection."""
        channel = self.site.buildProtocol(IPv4Address("TCP", "127.0.0.1", 5))
        assert channel is not None
        transport = Transport(
            hostAddress=IPv4Address("TCP", "127.0.0.1", 80),
            peerAddress=IPv4Address("TCP", "127.0.0.9", 5),
        )
        channel.makeConnection(transport)
        return channel, transport

    def connect(self) -> None:
        """Make the connection that the test speaks over."""
        self.channel, self.transport = self.open()

    def send(self, *lines: str, body: bytes = b"") -> None:
        """Send a head and a body in one segment."""
        self.channel.dataReceived("\r\n".join([*lines, "", ""]).encode() + body)

    def received(self) -> str:
        """Return what was answered since the last call."""
        text: str = self.transport.value().decode("latin-1")
        self.transport.clear()
        return text

    def status(self) -> int:
        """Return the status of what was answered since the last call."""
        return int(self.received().split(" ")[1])

    def lose(self) -> None:
        """End the connection, as the reactor does after `loseConnection`."""
        self.channel.connectionLost(Failure(ConnectionDone()))


class ExchangeTests(DoorCase):
    """A request that breaks no bound."""

    def test_a_request_reaches_the_answerer_whole(self) -> None:
        """Method, path, query pairs in order, headers, peer and body arrive as sent."""
        self.send(
            "POST /a/b%20c?x=1&y=&x=%C3%A4 HTTP/1.1",
            "Host: h",
            "X-Two: a",
            "X-Two: b",
            "Content-Length: 4",
            body=b"body",
        )
        (incoming,) = self.answered
        self.assertEqual(incoming.method, "POST")
        self.assertEqual(incoming.path, "/a/b%20c")
        self.assertEqual(incoming.query, (("x", "1"), ("y", ""), ("x", "ä")))
        self.assertEqual(incoming.header(b"x-two"), "a, b")
        self.assertIsNone(incoming.header(b"x-three"))
        self.assertEqual((incoming.peer, incoming.local), ("127.0.0.9", "127.0.0.1"))
        self.assertEqual(incoming.body, b"body")
        self.assertEqual(incoming.context, "reserved")
        self.assertFalse(incoming.secure)

    def test_an_answer_has_length_date_and_fixed_headers(self) -> None:
        """The connection stays open for the next request."""
        self.send("GET / HTTP/1.1", "Host: h")
        self.assertEqual(
            self.received(),
            "HTTP/1.1 200 OK\r\nDate: Tue, 14 Nov 2023 22:13:20 GMT\r\nX-Fixed: yes\r\n"
            "Content-Type: text/plain; charset=utf-8\r\nContent-Length: 5\r\n\r\nGET 0",
        )
        self.assertFalse(self.transport.disconnecting)

    def test_requests_on_one_connection_are_answered_in_order(self) -> None:
        """Also when the second comes before the first has its answer."""
        waiting: list[Deferred[Outgoing]] = []

        def wait(incoming: Incoming) -> Deferred[Outgoing]:
            waiting.append(Deferred())
            return waiting[-1]

        self.reply = wait
        self.send("GET /1 HTTP/1.1", "Host: h")
        self.send("GET /2 HTTP/1.1", "Host: h")
        self.assertEqual(len(waiting), 1)
        waiting[0].callback(Outgoing(200, b"one"))
        self.clock.advance(0)
        self.assertEqual([i.path for i in self.answered], ["/1", "/2"])
        waiting[1].callback(Outgoing(200, b"two"))
        self.assertEqual(self.received().count("200 OK"), 2)

    def test_head_has_the_length_and_no_body(self) -> None:
        """HEAD is GET without its body."""
        self.reply = lambda incoming: succeed(Outgoing(200, b"12345"))
        self.send("HEAD / HTTP/1.1", "Host: h")
        text = self.received()
        self.assertIn("Content-Length: 5\r\n", text)
        self.assertTrue(text.endswith("\r\n\r\n"))

    def test_not_modified_has_no_length(self) -> None:
        """304 and 204 end with their headers."""
        for status in (204, 304):
            answer = Outgoing(status)
            self.reply = lambda incoming, answer=answer: succeed(answer)  # type: ignore[misc]
            self.send("GET / HTTP/1.1", "Host: h")
            self.assertNotIn("Content-Length", self.received())

    def test_close_is_honoured(self) -> None:
        """Whoever asks for the end of the connection gets it, and is told so."""
        self.send("GET / HTTP/1.1", "Host: h", "Connection: close")
        self.assertIn("\r\nConnection: close\r\n", self.received())
        self.assertTrue(self.transport.disconnecting)

    def test_old_clients_get_one_answer(self) -> None:
        """HTTP/1.0 connections are not kept."""
        self.send("GET / HTTP/1.0")
        self.assertIn("\r\nConnection: close\r\n", self.received())

    def test_a_failing_answerer_is_a_plain_500(self) -> None:
        """Nothing of the failure's text is told; the log has it once."""
        failed: Deferred[Outgoing] = Deferred()
        self.reply = lambda incoming: failed
        self.send("GET / HTTP/1.1", "Host: h")
        failed.errback(RuntimeError("secret text"))
        text = self.received()
        self.assertIn(" 500 ", text)
        self.assertIn('"errorCode":"INTERNAL_ERROR"', text)
        self.assertNotIn("secret text", text)
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)

    def test_a_raising_answerer_is_a_plain_500(self) -> None:
        """The same when no Deferred came at all."""

        def broken(incoming: Incoming) -> Deferred[Outgoing]:
            raise RuntimeError("x")

        self.reply = broken
        self.send("GET / HTTP/1.1", "Host: h")
        self.assertEqual(self.status(), 500)
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)

    def test_a_header_with_a_line_break_is_never_sent(self) -> None:
        """The connection is dropped rather than split."""
        self.reply = lambda incoming: succeed(Outgoing(200, b"", {"X": "a\r\nSet-Cookie: b"}))
        self.send("GET / HTTP/1.1", "Host: h")
        self.assertEqual(self.received(), "")
        self.assertTrue(self.transport.aborted)
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)

    def test_forms_are_not_parsed(self) -> None:
        """A form is a body like any other."""
        self.send(
            "POST / HTTP/1.1",
            "Host: h",
            "Content-Type: application/x-www-form-urlencoded",
            "Content-Length: 3",
            body=b"a=b",
        )
        self.assertEqual(self.answered[0].body, b"a=b")

    def test_a_query_that_is_no_text_is_refused(self) -> None:
        """Broken UTF-8 has no meaning to guess."""
        self.send("GET /?a=%FF HTTP/1.1", "Host: h")
        self.assertEqual(self.status(), 400)
        self.assertEqual(self.policy.asked, [])


class QueryTests(SynchronousTestCase):
    """What is plain is taken apart as the standard library does it."""

    def test_like_the_standard_library(self) -> None:
        """Blank values, names without a value, empty pairs, repeats, encoded ones."""
        for raw in (
            *("", "a=b", "a=b&c=d", "a=b&a=c", "a=", "a", "=", "=b", "&", "a=b&&c", "&a=b&"),
            *("a=b=c", "a;b=c", "a=%20", "a+b=c", "x=" + "y" * 9_000),
        ):
            wanted = tuple(parse_qsl(raw, keep_blank_values=True))
            self.assertEqual(query_pairs(raw.encode()), wanted, raw)

    def test_a_thousand_pairs(self) -> None:
        """And not one more; nor anything that is no ASCII."""
        for pair in (b"a", b"%20"):
            self.assertEqual(len(query_pairs(b"&".join([pair] * 1_000))), 1_000)
            self.assertRaises(ValueError, query_pairs, b"&".join([pair] * 1_001))
        self.assertRaises(ValueError, query_pairs, "é".encode())


class BodyLimitTests(DoorCase):
    """At most what the admission allows, decided as early as can be."""

    def post(self, size: int, *more: str, body: bytes | None = None) -> None:
        """Declare and send a body."""
        self.send(
            "POST / HTTP/1.1",
            "Host: h",
            f"Content-Length: {size}",
            *more,
            body=b"x" * size if body is None else body,
        )

    def chunked(self, *sizes: int) -> None:
        """Send a chunked body."""
        pieces = b"".join(b"%x\r\n%s\r\n" % (size, b"x" * size) for size in (*sizes, 0))
        self.send("POST / HTTP/1.1", "Host: h", "Transfer-Encoding: chunked", body=pieces)

    def test_a_body_of_the_limit_is_taken(self) -> None:
        """N bytes pass."""
        self.post(10)
        self.assertTrue(self.received().endswith("POST 10"))

    def test_a_body_over_the_limit_is_refused_from_its_headers(self) -> None:
        """N+1 bytes are answered before one of them was sent, and the connection ends."""
        self.post(11, body=b"")
        text = self.received()
        self.assertTrue(text.startswith("HTTP/1.1 413 "))
        self.assertIn("\r\nConnection: close\r\n", text)
        self.assertEqual(self.answered, [])
        self.channel.dataReceived(b"x" * 11)
        self.assertTrue(self.transport.disconnecting)
        self.assertEqual(self.answered, [])

    def test_continue_is_sent_within_the_limit(self) -> None:
        """Who asks for leave to send gets it."""
        self.post(10, "Expect: 100-continue", body=b"")
        self.assertEqual(self.received(), "HTTP/1.1 100 Continue\r\n\r\n")
        self.channel.dataReceived(b"x" * 10)
        self.assertEqual(self.status(), 200)

    def test_no_continue_over_the_limit(self) -> None:
        """Who asks for leave to send too much gets the refusal alone, and nothing is waited for."""
        self.post(11, "Expect: 100-continue", body=b"")
        self.assertEqual(self.status(), 413)
        self.assertTrue(self.transport.disconnecting)

    def test_a_chunked_body_of_the_limit_is_taken(self) -> None:
        """Chunks are counted together."""
        self.chunked(4, 6)
        self.assertTrue(self.received().endswith("POST 10"))

    def test_a_chunked_body_over_the_limit_is_refused(self) -> None:
        """The byte too much ends it, and the rest is not taken for a request."""
        self.chunked(4, 7)
        self.assertEqual(self.status(), 413)
        self.assertEqual(self.answered, [])
        self.assertEqual(self.site.uploading, 0)

    def test_chunked_with_a_length_is_refused(self) -> None:
        """Two ways to say where a body ends are a smuggler's."""
        self.send(
            "POST / HTTP/1.1",
            "Host: h",
            "Content-Length: 3",
            "Transfer-Encoding: chunked",
            body=b"0\r\n\r\n",
        )
        self.assertEqual(self.status(), 400)
        self.assertEqual(self.answered, [])

    def test_a_policy_words_its_own_refusal(self) -> None:
        """The answer for too much is the admission's."""
        self.policy.too_large = json_answer(413, {"errorCode": "CLI_REQUEST_TOO_LARGE"})
        self.post(11)
        self.assertIn("CLI_REQUEST_TOO_LARGE", self.received())

    def test_a_refused_sender_may_finish(self) -> None:
        """Its bytes are swallowed so that no reset eats the answer; then the connection ends."""
        self.post(11, body=b"x" * 5)
        self.assertFalse(self.transport.disconnecting)
        self.channel.dataReceived(b"x" * 6)
        self.assertTrue(self.transport.disconnecting)

    def test_a_refused_sender_may_not_go_on_for_ever(self) -> None:
        """So many bytes are swallowed; with one more the connection ends."""
        self.post(LINGER_BYTES + 2, body=b"")
        for _ in range(LINGER_BYTES // MIB):
            self.channel.dataReceived(bytes(MIB))
        self.assertFalse(self.transport.disconnecting)
        self.channel.dataReceived(b"x")
        self.assertTrue(self.transport.disconnecting)

    def test_a_refused_sender_is_not_waited_for_long(self) -> None:
        """After the linger time the connection ends whatever is still to come."""
        self.post(11, body=b"")
        self.clock.advance(1.9)
        self.assertFalse(self.transport.disconnecting)
        self.clock.advance(0.2)
        self.assertTrue(self.transport.disconnecting)
        self.clock.advance(2.1)
        self.assertTrue(self.transport.aborted)

    def test_bodies_of_all_connections_share_a_bound(self) -> None:
        """Beyond it an upload is told to come again."""
        self.site = self.make_site(DoorLimits(uploads=15))
        self.connect()
        self.reply = lambda incoming: Deferred()
        self.post(10)
        self.connect()
        self.post(5)
        self.assertEqual(self.received(), "")
        self.connect()
        self.post(1)
        text = self.received()
        self.assertIn(" 503 ", text)
        self.assertIn("Retry-After: 1", text)


class AdmissionTests(DoorCase):
    """What the policy says holds before the body, and what it reserved is freed once."""

    def test_a_refusal_is_answered_without_the_body(self) -> None:
        """The answer goes out as soon as the headers are there."""
        self.policy.verdicts["/busy"] = text_answer(503, "busy")
        self.send("POST /busy HTTP/1.1", "Host: h", "Content-Length: 1000000")
        text = self.received()
        self.assertIn(" 503 ", text)
        self.assertIn("Connection: close", text)
        self.assertEqual(self.answered, [])

    def test_a_refusal_of_a_request_without_body_keeps_the_connection(self) -> None:
        """Nothing is left unread, so the next request can follow."""
        self.policy.verdicts["/no"] = text_answer(404, "Not found")
        self.send("GET /no HTTP/1.1", "Host: h")
        self.assertEqual(self.status(), 404)
        self.send("GET / HTTP/1.1", "Host: h")
        self.assertEqual(self.status(), 200)

    def test_a_failing_policy_is_a_plain_500(self) -> None:
        """A bug of ours refuses, it does not admit."""
        self.policy.verdicts = None  # type: ignore[assignment]
        self.send("GET / HTTP/1.1", "Host: h")
        self.assertEqual(self.status(), 500)
        self.assertEqual(len(self.flushLoggedErrors(AttributeError)), 1)

    def test_release_after_the_answer(self) -> None:
        """On a connection that lives on, what was reserved is free when the answer is out."""
        self.send("GET / HTTP/1.1", "Host: h")
        self.assertEqual(self.policy.released, ["/"])
        self.lose()
        self.assertEqual(self.policy.released, ["/"])

    def test_release_when_a_closing_answer_has_drained(self) -> None:
        """On a connection that ends with its answer, it is free when the connection has ended."""
        self.send("GET / HTTP/1.1", "Host: h", "Connection: close")
        self.assertEqual(self.policy.released, [])
        self.lose()
        self.assertEqual(self.policy.released, ["/"])

    def test_release_when_the_client_leaves_in_mid_upload(self) -> None:
        """A body that never ends holds nothing."""
        self.send("POST / HTTP/1.1", "Host: h", "Content-Length: 5", body=b"xx")
        self.assertEqual(self.site.uploading, 2)
        self.lose()
        self.assertEqual(self.policy.released, ["/"])
        self.assertEqual(self.site.uploading, 0)

    def test_release_when_too_much_came(self) -> None:
        """A refused upload frees its slot with its connection."""
        self.send("POST / HTTP/1.1", "Host: h", "Content-Length: 11")
        self.lose()
        self.assertEqual(self.policy.released, ["/"])


class GoneTests(DoorCase):
    """The client leaves before its answer."""

    def test_the_handler_is_cancelled(self) -> None:
        """Nobody needs its result any more."""
        cancelled: list[bool] = []
        self.reply = lambda incoming: Deferred(lambda d: cancelled.append(True))
        self.send("GET / HTTP/1.1", "Host: h")
        self.channel.connectionLost(Failure(ConnectionLost()))
        self.assertEqual(cancelled, [True])
        self.assertEqual(self.policy.released, ["/"])
        self.assertEqual(self.received(), "")

    def test_a_late_answer_is_dropped(self) -> None:
        """A handler that cannot be cancelled answers into the void."""
        d: Deferred[Outgoing] = Deferred(lambda d: d.callback(Outgoing(200)))
        self.reply = lambda incoming: d
        self.send("GET / HTTP/1.1", "Host: h")
        self.channel.connectionLost(Failure(ConnectionLost()))
        self.assertEqual(self.received(), "")

    def test_a_cancellation_from_elsewhere_is_our_failure(self) -> None:
        """Somebody still waits, and is told."""
        d: Deferred[Outgoing] = Deferred()
        self.reply = lambda incoming: d
        self.send("GET / HTTP/1.1", "Host: h")
        d.cancel()
        self.assertEqual(self.status(), 500)
        self.flushLoggedErrors(CancelledError)


class HeaderBoundTests(DoorCase):
    """Request line and headers."""

    def head(self, size: int) -> None:
        """Send a head of `size` bytes, line ends not counted."""
        fixed = len("GET / HTTP/1.1") + len("Host: h") + len("X: ")
        self.send("GET / HTTP/1.1", "Host: h", "X: " + "a" * (size - fixed))

    def test_headers_of_the_limit_pass(self) -> None:
        """N bytes pass."""
        self.head(32 * 1024)
        self.assertEqual(self.status(), 200)

    def test_headers_over_the_limit_are_told_so(self) -> None:
        """N+1 bytes are 431, not a silent close."""
        self.head(32 * 1024 + 1)
        self.assertEqual(self.status(), 431)
        self.assertEqual(self.policy.asked, [])

    def test_one_endless_line_is_told_so(self) -> None:
        """A line without an end is not kept either."""
        self.channel.dataReceived(b"GET /" + b"a" * (32 * 1024))
        self.assertEqual(self.status(), 431)

    def test_too_many_headers(self) -> None:
        """500 headers pass, one more does not."""
        self.send("GET / HTTP/1.1", *["X: y"] * 500)
        self.assertEqual(self.status(), 200)
        self.send("GET / HTTP/1.1", *["X: y"] * 501)
        self.assertEqual(self.status(), 431)

    def test_nonsense_is_refused_once(self) -> None:
        """A broken header is 400, and what follows it means nothing."""
        self.send("GET / HTTP/1.1", "no colon", "Host: h")
        text = self.received()
        self.assertEqual(text.count("HTTP/1.1"), 1)
        self.assertIn(" 400 ", text)
        self.assertEqual(self.policy.asked, [])


class TimeTests(DoorCase):
    """Deadlines are totals: a trickle does not extend them."""

    def test_a_silent_connection_is_closed(self) -> None:
        """It has as long as slow headers have."""
        self.clock.advance(9.9)
        self.assertFalse(self.transport.disconnecting)
        self.clock.advance(0.2)
        self.assertTrue(self.transport.disconnecting)

    def test_trickling_headers_run_out_of_time(self) -> None:
        """Each byte in time does not help."""
        self.channel.dataReceived(b"GET / HTTP/1.1\r\n")
        for _ in range(4):
            self.clock.advance(2)
            self.channel.dataReceived(b"X: y\r\n")
        self.assertEqual(self.received(), "")
        self.clock.advance(2)
        self.assertEqual(self.status(), 408)
        self.assertTrue(self.transport.disconnecting)

    def test_a_trickling_body_runs_out_of_time(self) -> None:
        """The upload has a total as well."""
        self.send("POST / HTTP/1.1", "Host: h", "Content-Length: 10")
        for _ in range(5):
            self.clock.advance(59)
            self.channel.dataReceived(b"x")
        self.assertEqual(self.received(), "")
        self.clock.advance(6)
        self.assertEqual(self.status(), 408)
        self.assertEqual(self.answered, [])

    def test_an_answer_may_take_its_time(self) -> None:
        """No timer of the door runs while a handler works."""
        d: Deferred[Outgoing] = Deferred()
        self.reply = lambda incoming: d
        self.send("GET / HTTP/1.1", "Host: h")
        self.clock.advance(10_000)
        d.callback(Outgoing(200))
        self.assertEqual(self.status(), 200)

    def test_an_idle_connection_is_closed(self) -> None:
        """After an answer the next request may come for 120 s."""
        self.send("GET / HTTP/1.1", "Host: h")
        self.clock.advance(119)
        self.assertFalse(self.transport.disconnecting)
        self.clock.advance(2)
        self.assertTrue(self.transport.disconnecting)

    def test_no_timer_outlives_its_connection(self) -> None:
        """A connection that ended leaves nothing behind."""
        self.send("GET / HTTP/1.1", "Host: h")
        self.lose()
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.assertEqual(self.site.channels, {})


class SlowReaderTests(DoorCase):
    """Large answers go out as they are read."""

    def setUp(self) -> None:
        super().setUp()
        self.site = self.make_site(DoorLimits(step=100))
        self.connect()
        self.reply = lambda incoming: succeed(Outgoing(200, b"x" * 1_000))

    def test_steps_stop_while_the_transport_is_full(self) -> None:
        """At most one step more than the transport wanted is handed over."""
        self.transport.producerState = "producing"
        wrote = self.transport.write

        def write(data: bytes) -> None:
            wrote(data)
            if len(self.transport.value()) > 300:
                self.channel.pauseProducing()

        self.transport.write = write  # type: ignore[method-assign]
        self.send("GET / HTTP/1.1", "Host: h")
        self.assertLess(len(self.transport.value()), 500)
        self.assertEqual(self.policy.released, [])
        while not self.policy.released:
            self.transport.clear()
            self.channel.resumeProducing()
        self.assertEqual(self.policy.released, ["/"])

    def test_a_reader_that_stops_is_cut_off(self) -> None:
        """30 s without progress end the connection and free the slot."""
        self.transport.write = lambda data: self.channel.pauseProducing()  # type: ignore[method-assign]
        self.send("GET / HTTP/1.1", "Host: h")
        self.clock.advance(29)
        self.channel.resumeProducing()
        self.clock.advance(29)
        self.assertFalse(self.transport.aborted)
        self.clock.advance(2)
        self.assertTrue(self.transport.aborted)
        self.lose()
        self.assertEqual(self.policy.released, ["/"])

    def test_a_reader_that_stops_gives_his_place(self) -> None:
        """Where there is no other, a second after it last took something."""
        self.site = self.make_site(DoorLimits(connections=1, step=100))
        self.connect()
        self.transport.write = lambda data: self.channel.pauseProducing()  # type: ignore[method-assign]
        self.send("GET / HTTP/1.1", "Host: h")
        self.clock.advance(5)
        self.channel.resumeProducing()
        self.clock.advance(0.99)
        self.assertIsNone(self.site.buildProtocol(IPv4Address("TCP", "127.0.0.1", 5)))
        self.clock.advance(0.01)
        self.open()
        self.clock.advance(0.5)
        self.assertTrue(self.transport.aborted)
        self.lose()
        self.assertEqual(self.policy.released, ["/"])

    def test_a_reader_that_leaves_leaves_no_body_behind(self) -> None:
        """It is free at once, not when the collector next looks: bodies are large and few."""
        body = bytes(1_000)
        self.reply = lambda incoming: succeed(Outgoing(200, body))
        self.transport.write = lambda data: self.channel.pauseProducing()  # type: ignore[method-assign]
        gc.disable()
        self.addCleanup(gc.enable)
        alone = getrefcount(body)
        self.send("GET / HTTP/1.1", "Host: h")
        self.assertGreater(getrefcount(body), alone)
        self.channel.stopProducing()  # as the transport does first
        self.lose()
        self.assertEqual(getrefcount(body), alone)

    def test_a_sender_that_leaves_leaves_no_body_behind(self) -> None:
        """Nor does what it sent stay with the connection's remains."""
        self.reply = lambda incoming: Deferred()
        self.send("POST / HTTP/1.1", "Host: h", "Content-Length: 10", body=b"0123456789")
        (request,) = self.channel.requests
        self.lose()
        self.assertNotIn(self.answered[0], vars(request).values())

    def test_a_reader_that_never_takes_the_last_step_is_cut_off(self) -> None:
        """The end of an answer is waited for as long as the rest."""
        self.send("GET / HTTP/1.1", "Host: h", "Connection: close")
        self.assertTrue(self.transport.disconnecting)
        self.clock.advance(29)
        self.assertFalse(self.transport.aborted)
        self.clock.advance(2)
        self.assertTrue(self.transport.aborted)


class CeilingTests(DoorCase):
    """How many connections there may be, and how all of them end."""

    def test_connections_of_the_limit_and_one_more(self) -> None:
        """N are served, the next is closed at once, and a freed place is taken again."""
        self.site = self.make_site(DoorLimits(connections=2))
        self.connect()
        self.open()
        address = IPv4Address("TCP", "127.0.0.1", 5)
        self.assertIsNone(self.site.buildProtocol(address))
        self.lose()
        self.assertIsNotNone(self.site.buildProtocol(address))

    def full(self, *, quiet: float) -> None:
        """Fill a door of two places with connections that have been quiet so long."""
        self.site = self.make_site(DoorLimits(connections=2))
        self.connect()
        self.other, self.other_transport = self.open()
        self.clock.advance(quiet)

    def test_who_asks_for_nothing_gives_his_place(self) -> None:
        """After a second without a request the oldest makes room: it is not read any more, and is
        closed half a second later, so that its coming again does not cost the next one its place.
        """
        self.full(quiet=1.0)
        self.open()
        self.assertEqual(self.transport.producerState, "paused")
        self.clock.advance(0.49)
        self.assertFalse(self.transport.aborted)
        self.clock.advance(0.01)
        self.assertTrue(self.transport.aborted)
        self.assertFalse(self.other_transport.aborted)

    def test_those_thrown_out_go_one_after_the_other(self) -> None:
        """However many have to make room at once."""
        self.full(quiet=1.0)
        self.open()
        self.open()
        self.clock.advance(0.5)
        self.assertTrue(self.transport.aborted)
        self.assertFalse(self.other_transport.aborted)
        self.clock.advance(0.05)
        self.assertTrue(self.other_transport.aborted)

    def test_a_second_is_not_over(self) -> None:
        """Until then a newcomer is closed at once."""
        self.full(quiet=0.99)
        self.assertIsNone(self.site.buildProtocol(IPv4Address("TCP", "127.0.0.1", 5)))

    def test_who_was_refused_gives_his_place(self) -> None:
        """A second after the refusal, while its body is still swallowed; before one that had its
        answer.
        """
        self.policy.limit = 3
        self.full(quiet=5.0)
        self.send("GET / HTTP/1.1", "Host: h")
        self.other.dataReceived(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\n")
        self.clock.advance(0.99)
        self.assertIsNone(self.site.buildProtocol(IPv4Address("TCP", "127.0.0.1", 5)))
        self.clock.advance(0.01)
        self.open()
        self.assertEqual(self.other_transport.producerState, "paused")
        self.assertNotEqual(self.transport.producerState, "paused")

    def test_a_body_of_which_nothing_is_taken_is_not_awaited(self) -> None:
        """Also when its length is not known."""
        self.policy.limit = 0
        self.send("GET / HTTP/1.1", "Host: h", "Transfer-Encoding: chunked")
        self.assertEqual(self.status(), 413)

    def test_a_request_under_way_keeps_its_place(self) -> None:
        """However long its answer takes; one that has had its answer comes before it."""
        d: Deferred[Outgoing] = Deferred()
        self.full(quiet=0.0)
        self.reply = lambda incoming: d
        self.send("GET / HTTP/1.1", "Host: h")
        self.reply = lambda incoming: succeed(Outgoing(200))
        self.other.dataReceived(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        self.clock.advance(60)
        self.open()
        self.assertEqual(self.other_transport.producerState, "paused")
        self.clock.advance(0.9)
        self.assertTrue(self.other_transport.aborted)
        self.assertFalse(self.transport.aborted)
        self.assertIsNone(self.site.buildProtocol(IPv4Address("TCP", "127.0.0.1", 5)))
        d.callback(Outgoing(200))

    def test_each_answer_may_be_the_last(self) -> None:
        """A door that keeps no connection says so in every answer."""
        self.site = self.make_site(DoorLimits(keep_alive=False))
        self.connect()
        self.send("GET / HTTP/1.1", "Host: h")
        self.assertIn("Connection: close", self.received())
        self.assertTrue(self.transport.disconnecting)

    def test_close_ends_idle_connections_at_once(self) -> None:
        """And fires when they are gone."""
        closed = self.site.close(5)
        self.assertTrue(self.transport.disconnecting)
        self.assertNoResult(closed)
        self.lose()
        self.successResultOf(closed)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_close_lets_an_answer_out(self) -> None:
        """An answer within the grace still arrives, as the connection's last."""
        d: Deferred[Outgoing] = Deferred()
        self.reply = lambda incoming: d
        self.send("GET / HTTP/1.1", "Host: h")
        self.site.close(5)
        self.assertFalse(self.transport.disconnecting)
        d.callback(Outgoing(200))
        self.assertIn("Connection: close", self.received())
        self.assertTrue(self.transport.disconnecting)

    def test_close_cuts_off_after_the_grace(self) -> None:
        """What is not answered by then never is."""
        self.reply = lambda incoming: Deferred()
        self.send("GET / HTTP/1.1", "Host: h")
        self.site.close(5)
        self.clock.advance(5)
        self.assertTrue(self.transport.aborted)

    def test_close_without_connections(self) -> None:
        """Nothing to wait for."""
        self.lose()
        self.successResultOf(self.site.close(5))


class _Takeover(Resource):
    """Takes the connection over as a WebSocket resource does."""

    isLeaf = True

    def __init__(self) -> None:
        super().__init__()
        self.taken: list[tuple[list[bytes], bytes]] = []

    def render(self, request: Request) -> int:
        """Detach the transport."""
        assert request.content is not None
        self.taken.append((list(request.postpath or []), request.content.read()))
        request.channel.transport = None
        return NOT_DONE_YET


class UpgradeTests(DoorCase):
    """A path that belongs to WebSockets."""

    def test_the_resource_takes_the_connection(self) -> None:
        """It sees its part of the path; the door forgets the connection and its timer."""
        resource = _Takeover()
        self.policy.verdicts["/executor/abc"] = Upgrade(resource)
        self.send("GET /executor/abc HTTP/1.1", "Host: h", "Upgrade: websocket")
        self.assertEqual(resource.taken, [([b"abc"], b"")])
        self.assertEqual(self.site.channels, {})
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_an_upgrade_has_no_body(self) -> None:
        """One with a body is refused."""
        resource = _Takeover()
        self.policy.verdicts["/executor/abc"] = Upgrade(resource)
        self.send("GET /executor/abc HTTP/1.1", "Host: h", "Content-Length: 3", body=b"abc")
        self.assertEqual(self.status(), 400)
        self.assertEqual(resource.taken, [])
