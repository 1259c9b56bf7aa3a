"""The deadline of each phase of a handshake: name, TCP, TLS, upgrade, Noise, hello."""

from __future__ import annotations

import re
from base64 import b64encode
from collections import deque
from hashlib import sha1
from pathlib import Path
from typing import Any

from attrs import define, field
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IDelayedCall, IHostnameResolver
from twisted.internet.task import Clock
from twisted.internet.testing import MemoryReactorClock, StringTransport
from twisted.protocols.tls import TLSMemoryBIOFactory
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from garcon.link.endpoints import DialTarget
from garcon.link.link import WorkerLink
from garcon.link.memory import MemoryNetwork, MemoryWire, memory_pair
from garcon.link.noise import HANDSHAKE_MESSAGE
from garcon.link.proxy_route import Proxy, ProxyRoutes
from garcon.link.settings import LinkSettings
from garcon.test.link.cast import EXECUTOR, METHODS, SECRET, ControllerSide, Owner, WorkerSide
from garcon.test.web.test_site import Policy
from garcon.testing.certificates import make_authority
from garcon.testing.proxy import load_pair
from garcon.web.exchange import DoorLimits, Incoming, Outgoing
from garcon.web.site import BoundedSite


@define(eq=False)
class SlowNetwork(MemoryNetwork):
    """Carries `lets_pass` records, one each `pace` seconds, and drops the rest and every close, so
    that each side finds out for itself.
    """

    clock: Clock = field(factory=Clock)
    lets_pass: int = 0
    pace: float = 0.0
    waiting: deque[tuple[MemoryWire, bytes]] = field(factory=deque)
    timer: IDelayedCall | None = None

    def post(self, wire: MemoryWire | None, what: str, record: bytes) -> None:
        """Records wait for their turn."""
        if what == "gone" or wire is None:
            super().post(wire, what, record)
        elif what == "record" and self.lets_pass > 0:
            self.lets_pass -= 1
            self.waiting.append((wire, record))
            self.go_on()

    def go_on(self) -> None:
        """Have the next record carried."""
        if self.timer is None and self.waiting:
            self.timer = self.clock.callLater(self.pace, self.carry)

    def carry(self) -> None:
        """Deliver one."""
        self.timer = None
        wire, record = self.waiting.popleft()
        super().post(wire, "record", record)
        self.go_on()


class Handshakes(SynchronousTestCase):
    """After the upgrade both sides have five seconds for all of it, whatever still trickles in."""

    worker_dials = True

    def link(self, lets_pass: int, pace: float = 0.0) -> None:
        """Dial over a network that carries so much."""
        self.clock = Clock()
        self.network = SlowNetwork(clock=self.clock, lets_pass=lets_pass, pace=pace)
        self.controller, self.worker, _ = memory_pair(
            self.clock,
            Owner(),
            Owner(),
            dict(ControllerSide().handlers()),
            dict(WorkerSide().handlers()),
            executor_id=EXECUTOR,
            worker_dials=self.worker_dials,
            settings=LinkSettings(redial_delays=(0.0, 60.0)),
            methods=METHODS,
            network=self.network,
        )
        self.clock.advance(0)

    def tearDown(self) -> None:
        """Nothing is left of a handshake that ran out of time."""
        self.controller.close("over")
        self.worker.close("over")
        self.network.waiting.clear()
        if self.network.timer is not None:
            self.network.timer.cancel()
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.assertEqual(self.network.wires, [])

    def end(self) -> list[tuple[str, str]]:
        """Return kind and stage of what the dialler and the listener tell, at the deadline."""
        ends: list[Any] = [self.worker, self.controller]
        if not self.worker_dials:
            ends.reverse()
        already = self.clock.seconds()
        for _ in range(499 - round(already * 100)):
            self.clock.advance(0.01)
        self.assertEqual([e.last_error for e in ends], [None, None], "just before")
        self.clock.advance(0.0100001)
        told = []
        for end in ends:
            assert end.last_error is not None
            failure = end.diagnostics().primary.last_error
            self.assertEqual((failure.kind, failure.message), end.last_error)
            told.append((failure.kind, failure.stage))
            words = {"noise": "encrypted handshake", "hello": "prove itself"}
            self.assertIn(words[failure.stage], failure.message)
        return told

    def assert_ran_out(self, dialler: str, listener: str) -> None:
        """Each side by its own deadline, in the phase that it was in."""
        self.assertEqual(
            self.end(), [("handshake-timeout", dialler), ("handshake-timeout", listener)]
        )

    def test_silence_after_the_upgrade(self) -> None:
        """Neither hears a word: dialler and listener end in Noise, at the deadline."""
        self.link(0)
        self.assert_ran_out("noise", "noise")

    def test_silence_of_the_listener_in_noise(self) -> None:
        """The dialler's message arrived, the answer did not."""
        self.link(1)
        self.assert_ran_out("noise", "hello")

    def test_silence_after_noise(self) -> None:
        """At each step of hello and proof."""
        for lets_pass in (2, 3, 4):
            self.link(lets_pass)
            self.assert_ran_out("hello", "hello")
            self.tearDown()
        self.link(2)

    def test_a_trickling_peer_in_noise(self) -> None:
        """A message just before the deadline buys no time."""
        self.link(9, 4.95)
        self.assert_ran_out("noise", "hello")

    def test_a_trickling_peer_in_hello(self) -> None:
        """Each message in its turn, and still too slow altogether."""
        self.link(9, 1.2)
        self.assert_ran_out("hello", "hello")

    def test_slow_but_in_time(self) -> None:
        """The last proof arrives just before the deadline."""
        self.link(6, 0.815)
        for _ in range(499):
            self.clock.advance(0.01)
        self.assertIsNone(self.controller.last_error)
        self.assertIsNone(self.worker.last_error)
        self.assertIsNotNone(self.controller.current())
        self.assertIsNotNone(self.worker.current())


class HandshakesControllerDials(Handshakes):
    """The same the other way round."""

    worker_dials = False


@implementer(IHostnameResolver)
@define(eq=False)
class Names:
    """Resolves any name to one address, or hangs."""

    hangs: bool = False

    def resolveHostName(self, resolutionReceiver: Any, *arguments: Any, **more: Any) -> Any:
        """See `IHostnameResolver`."""
        resolutionReceiver.resolutionBegan(self)
        if not self.hangs:
            resolutionReceiver.addressResolved(IPv4Address("TCP", "127.0.0.1", 1))
            resolutionReceiver.resolutionComplete()
        return self

    def cancel(self) -> None:
        """Whoever asked has gone."""


class Transport(StringTransport):
    """A socket, as far as protocols ask for more than bytes."""

    def setTcpNoDelay(self, enabled: bool) -> None:
        """See `ITCPTransport`."""

    def abortConnection(self) -> None:
        """See `ITCPTransport`."""
        self.loseConnection()

    def unregisterProducer(self) -> None:
        """A socket does not mind when there is none."""
        if self.producer is not None:
            super().unregisterProducer()


class Dialling(SynchronousTestCase):
    """From dialling to the open WebSocket there is one time, an injected one; where it ran out is
    told.
    """

    def dial(
        self, url: str, *, hangs: bool = False, connects: bool = False, proxy: Proxy | None = None
    ) -> None:
        self.reactor: Any = MemoryReactorClock()
        self.reactor.nameResolver = Names(hangs)
        self.worker = WorkerLink(
            self.reactor,
            SECRET,
            "worker-runtime",
            Owner(),
            {},
            DialTarget(url, allow_unverified_tls=True, proxies=ProxyRoutes(every=proxy)),
            EXECUTOR,
            settings=LinkSettings(connect_time=3.0, redial_delays=(0.0, 60.0)),
            methods=METHODS,
        )
        self.worker.start()
        self.reactor.advance(0)
        self.reactor.advance(0)
        if connects:
            _, _, factory, _, _ = self.reactor.tcpClients[0]
            self.transport = Transport()
            protocol: Any = factory.buildProtocol(None)
            self.protocol = protocol
            protocol.makeConnection(self.transport)

    def assert_ran_out(self, stage: str, words: str, left: float = 3.0) -> None:
        """Not just before three seconds, but then."""
        self.reactor.advance(left - 0.01)
        self.assertIsNone(self.worker.last_error)
        self.assertEqual(self.worker.diagnostics().primary.stage, stage)
        self.reactor.advance(0.0100001)
        failure = self.worker.diagnostics().primary.last_error
        assert failure is not None
        self.assertEqual((failure.kind, failure.stage), ("connect-timeout", stage))
        self.assertIn(words, failure.message)
        self.assertIn("in time", failure.message)
        self.worker.close("over")

    def test_name(self) -> None:
        """A name service that hangs."""
        self.dial("ws://worker.example:1/executor", hangs=True)
        self.assert_ran_out("name", "name")

    def test_tcp(self) -> None:
        """A machine that answers nothing."""
        self.dial("ws://worker.example:1/executor")
        self.assert_ran_out("tcp", "take the connection")

    def test_proxy(self) -> None:
        """One whose name service hangs, one that answers nothing, one that takes the connection
        and no more, and one whose answer dribbles in.
        """
        proxy = Proxy("proxy.example", 3128)
        for hangs, connects, answer in (
            (True, False, b""),
            (False, False, b""),
            (False, True, b""),
            (False, True, b"HTTP/1.1 200 OK\r\nX: "),
        ):
            url = "ws://worker.example:1/executor"
            self.dial(url, hangs=hangs, connects=connects, proxy=proxy)
            if connects:
                self.assertIn(b"CONNECT worker.example:1 ", self.transport.value())
            for byte in answer:
                self.protocol.dataReceived(bytes([byte]))
            self.assert_ran_out("proxy", "proxy")
            if connects:
                self.assertTrue(self.transport.disconnecting)

    def test_behind_the_proxy(self) -> None:
        """What the proxy's part has taken is taken off the upgrade's time."""
        proxy = Proxy("proxy.example", 3128)
        self.dial("ws://worker.example:1/executor", connects=True, proxy=proxy)
        self.reactor.advance(2.5)
        self.protocol.dataReceived(b"HTTP/1.1 200 OK\r\n\r\n")
        self.assertIn(b"GET /executor", self.transport.value())
        self.assert_ran_out("upgrade", "upgrade", 0.5)

    def test_tls(self) -> None:
        """A port that takes the connection and no more."""
        self.dial("wss://worker.example:1/executor", connects=True)
        self.assert_ran_out("tls", "TLS")

    def test_upgrade(self) -> None:
        """A server that reads the request and never answers."""
        self.dial("ws://worker.example:1/executor", connects=True)
        self.assertIn(b"GET /executor", self.transport.value())
        self.assert_ran_out("upgrade", "upgrade")

    def test_a_trickling_upgrade(self) -> None:
        """An answer that dribbles in buys no time."""
        self.dial("ws://worker.example:1/executor", connects=True)
        for byte in b"HTTP/1.1 101 Switch":
            self.protocol.dataReceived(bytes([byte]))
        self.assert_ran_out("upgrade", "upgrade")

    def test_bytes_that_trickle_after_the_upgrade(self) -> None:
        """A record of which a byte comes now and then is silence: the handshake's own time ends
        it.
        """
        self.dial("ws://worker.example:1/executor", connects=True)
        self.reactor.advance(2.5)
        (key,) = re.findall(rb"Sec-WebSocket-Key: (\S+)", self.transport.value())
        accept = b64encode(sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
        self.protocol.dataReceived(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n"
        )
        self.assertEqual(self.worker.diagnostics().primary.stage, "noise")
        frame = bytes([0x82, HANDSHAKE_MESSAGE]) + bytes(HANDSHAKE_MESSAGE)
        for n in range(9):
            self.protocol.dataReceived(frame[n : n + 1])
            self.reactor.advance(0.55)
        self.assertIsNone(self.worker.last_error)
        self.reactor.advance(0.04)
        self.assertIsNone(self.worker.last_error)
        self.reactor.advance(0.0100001)
        failure = self.worker.diagnostics().primary.last_error
        assert failure is not None
        self.assertEqual((failure.kind, failure.stage), ("handshake-timeout", "noise"))
        self.protocol.connectionLost(Failure(ConnectionDone()))
        self.worker.close("over")


class Listening(SynchronousTestCase):
    """A listener's sockets are the door's until the upgrade: TLS and request have its time."""

    def test_stalled_tls(self) -> None:
        """A peer that never ends its TLS handshake is dropped, silent or trickling."""
        authority = make_authority(Path(self.mktemp()))
        certificate, key = authority.issue("localhost")
        options = load_pair(str(certificate), str(key))
        for trickle in (b"", bytes([22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3])):
            clock = Clock()
            site = BoundedSite(clock, Policy(), self.unasked, DoorLimits(header_time=3.0))
            factory = TLSMemoryBIOFactory(options, False, site, clock)
            protocol: Any = factory.buildProtocol(IPv4Address("TCP", "127.0.0.1", 1))
            transport = Transport()
            protocol.makeConnection(transport)
            for n in range(10):
                if trickle:
                    protocol.dataReceived(trickle[n : n + 1])
                clock.advance(0.299)
            self.assertFalse(transport.disconnecting, "just before")
            clock.advance(0.0100001)
            self.assertTrue(transport.disconnecting)
            protocol.connectionLost(Failure(ConnectionDone()))
            self.assertEqual(site.channels, {})
            site.close(0.0)

    def unasked(self, incoming: Incoming) -> Deferred[Outgoing]:
        raise AssertionError("nobody has asked anything")
