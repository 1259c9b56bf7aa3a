"""What a link does when the other side, the address, the certificate or the network is wrong."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import TCP4ClientEndpoint
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.task import deferLater

from garcon.contract.limits import MIB
from garcon.contract.rpc import Lane
from garcon.deferreds import returns_deferred
from garcon.errors import StartupError
from garcon.link.endpoints import DialTarget, Trust
from garcon.link.lanes import Lanes
from garcon.link.link import WorkerLink
from garcon.test.link.cast import (
    ECHO,
    EITHER,
    EXECUTOR,
    METHODS,
    OTHER_EXECUTOR,
    OTHER_SECRET,
    SECRET,
    Owner,
    Text,
)
from garcon.test.live.linked import Linked, reactor, shorter
from garcon.testing.certificates import make_authority
from garcon.testing.proxy import PathProxy, load_pair


class Refusals(Linked):
    """Handshakes that must fail, each with its own kind on both sides."""

    timeout = 20
    settings = shorter(redial_delays=(0.0, 0.1, 0.1, 30.0))

    @returns_deferred
    async def setUp(self) -> None:  # type: ignore[override]  # trial waits for it
        self.make_listener()

    async def refused(self, kind: str, other: str | None = None) -> None:
        """Wait for the dialler to learn `kind`; the listener learns `other` or the same."""
        self.start()
        dialler: Lanes = self.worker if self.worker_dials else self.controller
        listener: Lanes = self.controller if self.worker_dials else self.worker
        await self.until(lambda: dialler.last_error and listener.last_error)
        assert dialler.last_error is not None and listener.last_error is not None
        self.assertEqual((dialler.last_error[0], listener.last_error[0]), (kind, other or kind))
        self.assertEqual(self.controller_owner.installed + self.worker_owner.installed, [])
        for _, text in (dialler.last_error, listener.last_error):
            self.assertNotIn(SECRET, text)
            self.assertNotIn(OTHER_SECRET, text)

    @returns_deferred
    async def test_a_wrong_secret(self) -> None:
        """Nobody is told more than that the encrypted handshake failed."""
        self.make_links(worker_secret=OTHER_SECRET)
        await self.refused("handshake-failed")

    @returns_deferred
    async def test_another_version(self) -> None:
        """Another version is named as such on both sides."""
        self.make_links()
        self.worker._settings = evolve(self.settings, version="0.0.0+protocol.0")
        await self.refused("version-mismatch")

    @returns_deferred
    async def test_another_executor(self) -> None:
        """A worker that belongs to another executor is refused, and keeps its own."""
        self.make_links(worker_executor=OTHER_EXECUTOR)
        await self.refused("wrong-executor")
        self.assertEqual(self.worker.executor_id, OTHER_EXECUTOR)

    @returns_deferred
    async def test_a_refused_handshake_backs_off(self) -> None:
        """Refusals do not reset the delays between attempts; a later success does its work."""
        self.make_links(worker_secret=OTHER_SECRET)
        self.start()
        await self.until(lambda: self.proxy.accepted == 3)
        await deferLater(reactor, 0.5)
        self.assertEqual(self.proxy.accepted, 3)
        self.assertEqual(len(self.worker_owner.failures), 1, "notices come once a second")


class RefusalsControllerDials(Refusals):
    """The same the other way round."""

    worker_dials = False


class Addresses(Linked):
    """Addresses where nothing useful answers."""

    timeout = 20
    settings = shorter(redial_delays=(0.0, 30.0))

    @returns_deferred
    async def setUp(self) -> None:  # type: ignore[override]  # trial waits for it
        self.make_listener()

    async def dial(self, target: DialTarget) -> tuple[str, str]:
        self.make_links(target=target)
        self.start()
        await self.until(lambda: self.worker.last_error)
        assert self.worker.last_error is not None
        return self.worker.last_error

    @returns_deferred
    async def test_an_unknown_executor_is_404(self) -> None:
        """An id that nobody has is not found, before any upgrade."""
        url = self.url.replace(EXECUTOR, OTHER_EXECUTOR)
        kind, text = await self.dial(DialTarget(url))
        self.assertEqual(kind, "upgrade-refused")
        self.assertIn("404", text)
        for path in ("/executor", f"/executor/{EXECUTOR}/more", "/other"):
            self.assertIn(b" 404 ", await self.request(path))

    @returns_deferred
    async def test_what_is_no_upgrade_is_426(self) -> None:
        """A plain request takes no place on the link."""
        self.make_links()
        self.assertIn(b" 426 ", await self.request(f"/executor/{EXECUTOR}"))
        self.assertEqual(len(self.admission), 0)

    @returns_deferred
    async def test_nobody_listens(self) -> None:
        """A closed port is said to be unreachable."""
        self.make_links()
        port = self.proxy_port
        await self.proxy.stop()
        kind, text = await self.dial(DialTarget(f"ws://127.0.0.1:{port}/executor/x"))
        self.assertEqual(kind, "connect-failed")
        self.assertNotIn(str(port), text)
        self.proxy.start()

    @returns_deferred
    async def test_a_silent_address_is_given_up(self) -> None:
        """An address that accepts and says nothing has only so much time."""
        self.settings = evolve(self.settings, connect_time=0.2)
        self.proxy.black_hole()
        kind, _ = await self.dial(DialTarget(self.url))
        self.assertEqual(kind, "connect-timeout")

    def request(self, path: str) -> Deferred[bytes]:
        """Send a plain request and fire with the head of the answer."""
        if not hasattr(self, "controller"):
            self.make_links()
        done: Deferred[bytes] = Deferred()

        class Asking(Protocol):
            def connectionMade(self) -> None:
                assert self.transport is not None
                self.transport.write(
                    f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode()
                )

            def dataReceived(self, data: bytes) -> None:
                if not done.called:
                    done.callback(data)

        TCP4ClientEndpoint(reactor, "127.0.0.1", self.proxy_port).connect(
            Factory.forProtocol(Asking)
        )
        return done


class Certificates(Linked):
    """Whom a dialling side trusts over TLS."""

    timeout = 20
    uses_tls = True
    settings = shorter(redial_delays=(0.0, 30.0))
    names: tuple[str, ...] = ("localhost", "127.0.0.1")
    has_names = True
    age = timedelta()

    @returns_deferred
    async def setUp(self) -> None:  # type: ignore[override]  # trial waits for it
        self.found: list[bytes | None] = []

    def make_tls(self) -> tuple[Any, Trust]:
        self.authority = make_authority(Path(self.mktemp()))
        certificate, key = self.authority.issue(
            *self.names, alternative_names=self.has_names, age=self.age
        )
        return load_pair(str(certificate), str(key)), Trust.from_environment(
            str(self.authority.certificate), ""
        )

    def find(self, segment: bytes | None) -> Any:
        self.found.append(segment)
        return super().find(segment)

    def prepare(self, **more: Any) -> None:
        self.make_listener()
        self.make_links(target=DialTarget(self.url, **({"trust": self.trust} | more)))
        self.start()

    async def refused(self, words: str) -> None:
        await self.until(lambda: self.worker.last_error)
        assert self.worker.last_error is not None
        kind, text = self.worker.last_error
        self.assertEqual(kind, "tls-failed")
        self.assertIn(words, text)
        # The listener has seen no request, so nothing of ours was sent, not even the path.
        self.assertEqual(self.found, [])
        self.assertNotIn(EXECUTOR.encode(), bytes(self.proxy.seen))

    @returns_deferred
    async def test_a_certificate_without_names_is_refused(self) -> None:
        """A common name alone names nobody, whoever signed it; nothing is sent and nothing
        logged.
        """
        self.has_names = False
        self.prepare()
        await self.refused("subjectAltName")

    @returns_deferred
    async def test_another_name_is_refused(self) -> None:
        """A trusted certificate for another host is refused."""
        self.names = ("elsewhere.example",)
        self.prepare()
        await self.refused("another name")

    @returns_deferred
    async def test_another_address_is_refused(self) -> None:
        """Addresses are matched against address names."""
        self.names = ("127.0.0.2", "localhost")
        self.host = "127.0.0.1"
        self.prepare()
        await self.refused("another name")

    @returns_deferred
    async def test_an_unknown_authority_is_refused(self) -> None:
        """The platform does not know a private authority."""
        self.prepare(trust=Trust.from_environment(None, None))
        await self.refused("authority that is not trusted here")

    @returns_deferred
    async def test_an_expired_certificate_is_refused_as_such(self) -> None:
        """Who has to renew one must not look for a missing authority."""
        self.age = timedelta(days=30)
        self.prepare()
        await self.refused("the server's certificate has expired")

    @returns_deferred
    async def test_a_certificate_of_tomorrow_is_refused_as_such(self) -> None:
        """One of the two clocks is wrong, and that is said."""
        self.age = timedelta(days=-30)
        self.prepare()
        await self.refused("not valid yet")

    @returns_deferred
    async def test_the_right_address_is_accepted(self) -> None:
        """A certificate that names the address serves for it."""
        self.host = "127.0.0.1"
        self.prepare()
        await self.until(self.is_up)

    @returns_deferred
    async def test_a_directory_of_authorities(self) -> None:
        """``SSL_CERT_DIR`` is read too, other files in it notwithstanding."""
        self.make_listener()
        (self.authority.directory / "note.txt").write_text("not a certificate")
        trust = Trust.from_environment(None, str(self.authority.directory))
        self.make_links(target=DialTarget(self.url, trust))
        self.start()
        await self.until(self.is_up)

    @returns_deferred
    async def test_verification_can_be_switched_off(self) -> None:
        """With the explicit option any certificate will do; Noise still decides who is there."""
        self.has_names = False
        self.prepare(trust=Trust.from_environment(None, None), allow_unverified_tls=True)
        await self.until(self.is_up)

    @returns_deferred
    async def test_a_proxy_that_ends_tls_and_rewrites_the_path(self) -> None:
        """A worker reaches a plain controller behind a TLS proxy with a prefix of its own."""
        tls, trust = self.make_tls()
        self.uses_tls = False
        self.make_listener()
        front = PathProxy(reactor, self.proxy_port, "/garcon/", tls)
        port = front.start()
        url = f"wss://localhost:{port}/garcon/executor/{EXECUTOR}#secret={SECRET}"
        self.make_links(target=DialTarget(url, trust))
        self.start()
        await self.until(self.is_up)
        captured = self.controller.current()
        assert captured is not None
        answer = await captured.call(EITHER, Text("x" * MIB), lane=Lane.BULK)
        self.assertEqual(len(answer.text), MIB)
        self.assertNotIn(SECRET.encode(), bytes(front.seen))
        await front.stop()

    def test_unreadable_trust_is_a_startup_error(self) -> None:
        """A missing or empty file is named at start, not at the first connection."""
        self.prepare()
        for arguments in (("/nonexistent", None), (None, "/nonexistent"), ("/dev/null", None)):
            error = self.assertRaises(StartupError, Trust.from_environment, *arguments)
            self.assertIn("SSL_CERT_", error.text)


class Faults(Linked):
    """Linked, and then something goes wrong."""

    timeout = 30
    settings = shorter(ping_every=0.2, dead_after=0.6)

    @returns_deferred
    async def test_a_dead_peer_is_noticed_on_both_sides(self) -> None:
        """When nothing passes any more, both sides end the link themselves."""
        began = reactor.seconds()
        self.proxy.black_hole()
        await self.until(lambda: self.controller_owner.lost and self.worker_owner.lost)
        took = reactor.seconds() - began
        self.assertTrue(0.4 < took < 2.0, took)
        for owner in (self.controller_owner, self.worker_owner):
            self.assertEqual(owner.lost[0][1], "liveness-timeout")
        self.proxy.is_black_hole = False
        self.proxy.cut()
        await self.until(self.is_up)

    @returns_deferred
    async def test_an_idle_link_stays(self) -> None:
        """Pings keep an idle link alive."""
        await deferLater(reactor, 1.5)
        self.assertEqual(self.controller_owner.lost + self.worker_owner.lost, [])
        self.assertTrue(self.is_up())

    @returns_deferred
    async def test_a_second_primary_is_refused(self) -> None:
        """Another process with the same secret is refused while the first is connected."""
        owner = Owner()
        second = WorkerLink(
            reactor,
            SECRET,
            "another-runtime",
            owner,
            {},
            DialTarget(self.url),
            settings=shorter(redial_delays=(0.0, 30.0)),
            methods=METHODS,
        )
        second.start()
        await self.until(lambda: second.last_error and self.controller.last_error)
        assert second.last_error is not None and self.controller.last_error is not None
        self.assertEqual(second.last_error[0], "second-primary")
        self.assertEqual(self.controller.last_error[0], "second-primary")
        self.assertEqual(owner.installed, [])
        self.assertEqual(self.controller_owner.lost, [])
        await second.close("the test is over")

    @returns_deferred
    async def test_silent_sockets_do_not_keep_a_worker_out(self) -> None:
        """Four silent upgrades fill a link; a newcomer pushes the oldest out, and the pair stays
        up.
        """
        sockets = [await self.upgraded() for _ in range(6)]
        await self.until(lambda: sum(s.is_lost for s in sockets) == 4)
        # Two places belong to the lanes, two to the last silent sockets.
        self.assertEqual([s.is_lost for s in sockets], [True] * 4 + [False] * 2)
        self.assertTrue(self.is_up())
        self.proxy.cut()
        await self.until(lambda: len(self.controller_owner.installed) == 2 and self.is_up())

    def upgraded(self) -> Deferred[Any]:
        """Fire with a socket that has become a WebSocket and says no more."""
        done: Deferred[Any] = Deferred()

        class Silent(Protocol):
            is_lost = False

            def connectionMade(self) -> None:
                assert self.transport is not None
                self.transport.write(
                    f"GET /executor/{EXECUTOR} HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n"
                    "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n".encode()
                )

            def dataReceived(self, data: bytes) -> None:
                if not done.called:
                    done.callback(self)

            def connectionLost(self, reason: Any = None) -> None:
                self.is_lost = True

        TCP4ClientEndpoint(reactor, "127.0.0.1", self.proxy_port).connect(
            Factory.forProtocol(Silent)
        )
        return done

    @returns_deferred
    async def test_a_large_message_delays_no_small_one(self) -> None:
        """On each lane, a small call made after an eight MiB one began is answered before it."""
        captured = self.controller.current()
        assert captured is not None
        large = "x" * 8 * MIB
        for lane in (Lane.PRIMARY, Lane.BULK):
            method = ECHO if lane is Lane.PRIMARY else EITHER
            first = captured.call(method, Text(large), lane=lane)
            self.assertEqual(await captured.call(method, Text("s"), lane=lane), Text("s"))
            self.assertFalse(first.called)
            self.assertEqual(len((await first).text), len(large))

    @returns_deferred
    async def test_rubbish_ends_the_lane_that_carried_it(self) -> None:
        """A peer that breaks the protocol loses that lane, with its cause on both sides."""
        captured: Any = self.worker.current()
        captured.primary._wire.send(captured.primary._cipher.seal(b"\x07nonsense"))
        await self.until(lambda: self.controller_owner.lost)
        self.assertEqual(self.controller_owner.lost[0][1], "protocol-error")
        await self.until(lambda: self.worker_owner.lost)
        self.assertEqual(self.worker_owner.lost[0][1], "protocol-error")
        await self.until(lambda: len(self.worker_owner.installed) == 2)
