"""HTTP clients of ours on real sockets: whom they trust, and the proxies that they go through."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.trial.unittest import TestCase
from twisted.web.client import Agent, HTTPConnectionPool, readBody
from twisted.web.http_headers import Headers
from twisted.web.resource import Resource
from twisted.web.server import Request, Site

from garcon.deferreds import returns_deferred
from garcon.errors import GarconError
from garcon.link.endpoints import Trust
from garcon.link.outgoing import NotTrusted, OutgoingEndpoints
from garcon.testing.certificates import make_authority
from garcon.testing.connect_proxy import ConnectProxy
from garcon.testing.proxy import load_pair

NAME = "models.example"
"""No machine has this name: only the proxy can lead to it."""


class _Models(Resource):
    isLeaf = True

    def __init__(self) -> None:
        super().__init__()
        self.keys: list[str] = []

    def render_GET(self, request: Request) -> bytes:
        """Note the key that came, and answer."""
        self.keys.append(request.getHeader("authorization") or "")
        return b"hello"


class OutgoingTests(TestCase):
    """An agent over these endpoints, a server with a certificate, and a proxy between them."""

    timeout = 30

    def setUp(self) -> None:
        self.authority = make_authority(Path(self.mktemp()))
        self.models = _Models()
        self.ports: list[Any] = []
        self.pool = HTTPConnectionPool(reactor, persistent=False)
        self.addCleanup(self.end)

    @returns_deferred
    async def end(self) -> None:
        """Close everything."""
        await self.pool.closeCachedConnections()
        for port in self.ports:
            await port.stopListening()
        await deferLater(reactor, 0.02)

    def serve(self, *hosts: str, **options: Any) -> int:
        """Listen with a certificate for `hosts`; without any, in the clear."""
        any_reactor: Any = reactor
        if hosts:
            pair = load_pair(*map(str, self.authority.issue(*hosts, **options)))
            port = any_reactor.listenSSL(0, Site(self.models), pair, interface="127.0.0.1")
        else:
            port = any_reactor.listenTCP(0, Site(self.models), interface="127.0.0.1")
        self.ports.append(port)
        return int(port.getHost().port)

    def trusting(self, **environment: str) -> OutgoingEndpoints:
        """Endpoints that believe the test's authority."""
        return OutgoingEndpoints.from_environment(
            reactor, {"SSL_CERT_FILE": str(self.authority.certificate), **environment}
        )

    async def get(self, endpoints: OutgoingEndpoints, url: str) -> bytes:
        """Ask for a page, with a secret in the request."""
        agent = Agent.usingEndpointFactory(reactor, endpoints, self.pool)
        d: Deferred[Any] = agent.request(
            b"GET", url.encode(), Headers({"Authorization": ["Bearer secret"]})
        )
        response = await d.addTimeout(10, reactor)
        body: bytes = await readBody(response)
        return body

    async def test_a_server_with_the_right_name_is_asked(self) -> None:
        """By address or by name, over TLS or in the clear."""
        port = self.serve("127.0.0.1", "localhost")
        for host in ("127.0.0.1", "localhost"):
            self.assertEqual(await self.get(self.trusting(), f"https://{host}:{port}/"), b"hello")
        plain = self.serve()
        self.assertEqual(await self.get(self.trusting(), f"http://127.0.0.1:{plain}/"), b"hello")

    async def test_a_certificate_without_names_gets_nothing(self) -> None:
        """Such a server is refused before it hears a word, though its authority is trusted."""
        port = self.serve("127.0.0.1", alternative_names=False)
        with self.assertRaises(NotTrusted) as caught:
            await self.get(self.trusting(), f"https://127.0.0.1:{port}/")
        self.assertIn("subjectAltName", caught.exception.text)
        self.assertEqual(self.models.keys, [])

    async def test_another_name_and_an_unknown_authority_are_refused(self) -> None:
        """Each in words that say what is wrong."""
        port = self.serve("other.example")
        for endpoints, words in (
            (self.trusting(), "another name"),
            (OutgoingEndpoints(reactor, Trust()), "not trusted here"),
        ):
            with self.assertRaises(NotTrusted) as caught:
                await self.get(endpoints, f"https://127.0.0.1:{port}/")
            self.assertIn(words, caught.exception.text)
        self.assertEqual(self.models.keys, [])

    async def test_a_proxy_of_the_environment_leads_there(self) -> None:
        """Both kinds of URL go through a tunnel, and the proxy sees none of what is in it."""
        for hosts, scheme in (((NAME,), "https"), ((), "http")):
            front = ConnectProxy(reactor, self.serve(*hosts))
            try:
                through = self.trusting(ALL_PROXY=f"http://127.0.0.1:{front.start()}")
                self.assertEqual(await self.get(through, f"{scheme}://{NAME}:444/"), b"hello")
                self.assertIn(f"CONNECT {NAME}:444 HTTP/1.1".encode(), front.heads[0])
                self.assertNotIn(b"secret", front.heads[0])
            finally:
                await front.stop()

    async def test_a_proxy_that_cannot_be_used_fails_each_request_with_its_words(self) -> None:
        """A service that needs no proxy otherwise starts all the same."""
        for name, value in (("ALL_PROXY", "socks5://127.0.0.1:1"), ("SSL_CERT_FILE", "/absent")):
            with self.assertRaises(GarconError) as caught:
                await self.get(self.trusting(**{name: value}), "https://models.example/")
            self.assertIn(name, caught.exception.text)
