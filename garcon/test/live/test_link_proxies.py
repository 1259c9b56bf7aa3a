"""Links through an HTTP proxy, and what is said where it does not lead on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import evolve
from twisted.internet.task import deferLater

from garcon.contract.limits import MIB
from garcon.contract.rpc import Lane
from garcon.deferreds import returns_deferred
from garcon.link.endpoints import DialTarget, Trust
from garcon.link.proxy_route import ProxyRoutes
from garcon.test.link.cast import EITHER, EXECUTOR, SECRET, Text
from garcon.test.live.linked import Linked, reactor, shorter
from garcon.testing.certificates import Authority, make_authority
from garcon.testing.connect_proxy import ConnectProxy
from garcon.testing.proxy import load_pair

NAME = "controller.example"
"""No machine has this name: only the proxy can lead to it."""
USER, PASSWORD = "worker", "s3cret:/ä"
QUOTED = "worker:s3cret%3A%2F%C3%A4@"


class Proxied(Linked):
    """A worker that dials through a proxy."""

    timeout = 30
    settings = shorter(redial_delays=(0.0, 30.0))
    front: ConnectProxy | None = None

    @returns_deferred
    async def setUp(self) -> None:  # type: ignore[override]  # trial waits for it
        self.make_listener()

    @returns_deferred
    async def tearDown(self) -> None:  # type: ignore[override]  # likewise
        await super().tearDown()
        if self.front is not None:
            self.front.is_black_hole = False
            await self.front.stop()
            await deferLater(reactor, 0.02)

    def through(
        self,
        *,
        credentials: str = "",
        scheme: str = "http",
        proxy_host: str = "127.0.0.1",
        trust: Trust | None = None,
        no_proxy: str = "",
        change: Callable[[ConnectProxy], None] = lambda front: None,
        **options: Any,
    ) -> ConnectProxy:
        """Start the proxy and the links, with the proxy in the dialler's environment."""
        self.front = front = ConnectProxy(reactor, self.proxy_port, **options)
        port = front.start()
        change(front)
        routes = ProxyRoutes.from_environment(
            {"ALL_PROXY": f"{scheme}://{credentials}{proxy_host}:{port}", "NO_PROXY": no_proxy}
        )
        is_tls = self.uses_tls or "intercept" in options
        url = f"{'wss' if is_tls else 'ws'}://{NAME}/executor/{EXECUTOR}#secret={SECRET}"
        self.make_links(target=DialTarget(url, trust or self.trust, False, routes))
        self.start()
        return front

    async def failed(self, kind: str, words: str) -> None:
        """Wait for the dialler's failure, which says this, and none of what nobody may see."""
        await self.until(lambda: self.worker.last_error)
        assert self.worker.last_error is not None
        self.assertEqual(self.worker.last_error[0], kind)
        self.assertIn(words, self.worker.last_error[1])
        told = repr(self.worker.diagnostics()) + repr(self.worker.last_error)
        for private in (SECRET, PASSWORD, "s3cret", "Basic", NAME, EXECUTOR, "127.0.0.1"):
            self.assertNotIn(private, told)


class Plain(Proxied):
    """A plain address behind a plain proxy."""

    @returns_deferred
    async def test_both_lanes_go_through(self) -> None:
        """The proxy is asked for the name as it is; it sees neither path nor secret in clear."""
        front = self.through()
        await self.until(self.is_up)
        self.assertEqual(front.accepted, 2)
        for head in front.heads:
            self.assertEqual(
                head.split(b"\r\n"),
                [f"CONNECT {NAME}:80 HTTP/1.1".encode(), f"Host: {NAME}:80".encode()],
            )
        captured = self.controller.current()
        assert captured is not None
        answer = await captured.call(EITHER, Text("x" * MIB), lane=Lane.BULK)
        self.assertEqual(len(answer.text), MIB)
        told = self.worker.diagnostics()
        self.assertTrue(told.through_proxy)
        self.assertFalse(self.controller.diagnostics().through_proxy)

    @returns_deferred
    async def test_a_password(self) -> None:
        """It is sent as it was meant, percent-encoding taken off."""
        self.through(credentials=QUOTED, user=USER, password=PASSWORD)
        await self.until(self.is_up)

    @returns_deferred
    async def test_a_wrong_password(self) -> None:
        """A 407 is told as what it is."""
        self.through(credentials=QUOTED, user=USER, password="other")
        await self.failed("proxy-failed", "refused the user name or password")
        self.assertEqual(self.last_stage(), "proxy")

    @returns_deferred
    async def test_no_password(self) -> None:
        """A proxy that wants one and gets none is another thing to mend."""
        self.through(user=USER, password=PASSWORD)
        await self.failed("proxy-failed", "wants a user name and password")

    @returns_deferred
    async def test_a_refusal(self) -> None:
        """The proxy's status is told, its words are not."""

        def refuse(front: ConnectProxy) -> None:
            front.instead = b"HTTP/1.1 403 Go away\r\n"

        self.through(change=refuse)
        await self.failed("proxy-failed", "refused to connect (HTTP status 403)")
        assert self.worker.last_error is not None
        self.assertNotIn("Go away", self.worker.last_error[1])

    @returns_deferred
    async def test_an_answer_that_is_no_http(self) -> None:
        """Whatever else listens there is not taken for a proxy."""

        def babble(front: ConnectProxy) -> None:
            front.instead = b"220 mail.example ESMTP\r\n"

        self.through(change=babble)
        await self.failed("proxy-failed", "no HTTP")

    @returns_deferred
    async def test_no_answer(self) -> None:
        """A proxy that closes is told apart from one that refuses."""

        def close(front: ConnectProxy) -> None:
            front.instead = b""

        self.through(change=close)
        await self.failed("proxy-failed", "without an answer")

    @returns_deferred
    async def test_a_hanging_proxy(self) -> None:
        """It has as long as any connection; the stage says who is to blame."""
        self.settings = evolve(self.settings, connect_time=0.2)

        def hang(front: ConnectProxy) -> None:
            front.is_hanging = True

        front = self.through(change=hang)
        await self.failed("connect-timeout", "in time")
        self.assertEqual(self.last_stage(), "proxy")
        await self.until(lambda: not front.connections)

    @returns_deferred
    async def test_nobody_listens(self) -> None:
        """A proxy that cannot be reached is not taken for a worker that cannot."""
        self.through(change=lambda front: setattr(front, "is_refusing", True))
        await self.failed("proxy-failed", "the proxy")

    @returns_deferred
    async def test_no_proxy(self) -> None:
        """A name that is listed is looked for directly, and this one does not exist."""
        front = self.through(no_proxy=".example")
        await self.failed("name-unknown", "could not be resolved")
        self.assertEqual((front.heads, self.last_stage()), ([], "name"))
        self.assertFalse(self.worker.diagnostics().through_proxy)

    @returns_deferred
    async def test_loopback_is_never_proxied(self) -> None:
        """What the variables name is not asked for this machine itself."""
        routes = ProxyRoutes.from_environment({"ALL_PROXY": "http://127.0.0.1:1"})
        self.make_links(target=DialTarget(self.url, self.trust, False, routes))
        self.start()
        await self.until(self.is_up)

    def last_stage(self) -> str:
        """Return how far the last attempt had come."""
        error = self.worker.diagnostics().primary.last_error
        assert error is not None
        return error.stage


class Certified(Proxied):
    """An authority whose certificates name the address behind the proxy."""

    def make_tls(self) -> tuple[Any, Trust]:
        self.authority: Authority = make_authority(Path(self.mktemp()))
        certificate, key = self.authority.issue(NAME)
        return load_pair(str(certificate), str(key)), Trust.from_environment(
            str(self.authority.certificate), None
        )

    def pair(self, authority: Authority, *names: str) -> Any:
        """Return a server's TLS options."""
        return load_pair(*(str(path) for path in authority.issue(*names)))


class Encrypted(Certified):
    """TLS inside the tunnel, and around it."""

    uses_tls = True

    @returns_deferred
    async def test_tls_ends_behind_the_proxy(self) -> None:
        """The certificate is the address's, not the proxy's."""
        front = self.through()
        await self.until(self.is_up)
        self.assertEqual(front.heads[0].split(b"\r\n")[0], f"CONNECT {NAME}:443 HTTP/1.1".encode())
        self.assertNotIn(EXECUTOR.encode(), bytes(front.seen))

    @returns_deferred
    async def test_the_wrong_certificate_behind_the_proxy(self) -> None:
        """It is refused as it is without a proxy."""
        self.through(trust=Trust.from_environment(None, None))
        await self.failed("tls-failed", "an authority that is not trusted here")

    @returns_deferred
    async def test_a_proxy_that_speaks_tls_itself(self) -> None:
        """It must be the one that was named before it is shown the password."""
        self.through(
            scheme="https",
            credentials=QUOTED,
            user=USER,
            password=PASSWORD,
            tls=self.pair(self.authority, "127.0.0.1"),
        )
        await self.until(self.is_up)

    @returns_deferred
    async def test_a_proxy_that_is_another(self) -> None:
        """A trusted certificate for another name gets neither password nor request."""
        front = self.through(
            scheme="https",
            credentials=QUOTED,
            user=USER,
            password=PASSWORD,
            tls=self.pair(self.authority, "elsewhere.example"),
        )
        await self.failed("proxy-failed", "another name")
        self.assertEqual(front.heads, [])

    @returns_deferred
    async def test_an_unknown_proxy(self) -> None:
        """Nor does one whose authority nobody trusts."""
        front = self.through(
            scheme="https",
            tls=self.pair(make_authority(Path(self.mktemp())), "127.0.0.1"),
        )
        await self.failed("proxy-failed", "the encrypted connection to the proxy failed")
        self.assertEqual(front.heads, [])


class Intercepted(Certified):
    """A proxy that opens the TLS which passes through it, before a plain listener."""

    @returns_deferred
    async def test_its_authority_can_be_trusted(self) -> None:
        """``SSL_CERT_FILE`` names it; what the proxy sees then is still encrypted by Noise."""
        company = make_authority(Path(self.mktemp()))
        front = self.through(
            intercept=self.pair(company, NAME),
            trust=Trust.from_environment(str(company.certificate), None),
        )
        await self.until(self.is_up)
        self.assertIn(EXECUTOR.encode(), bytes(front.seen))
        self.assertNotIn(SECRET.encode(), bytes(front.seen))

    @returns_deferred
    async def test_without_it_nothing_is_sent(self) -> None:
        """An unknown authority in the middle is what TLS is there to refuse."""
        front = self.through(
            intercept=self.pair(make_authority(Path(self.mktemp())), NAME), trust=Trust()
        )
        await self.failed("tls-failed", "an authority that is not trusted here")
        self.assertNotIn(EXECUTOR.encode(), bytes(front.seen))
