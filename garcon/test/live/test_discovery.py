"""Asking endpoints for their models on real sockets: what is sent, followed, bounded and said."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec import UNSET
from twisted.internet import reactor
from twisted.internet.defer import Deferred, fail
from twisted.internet.error import DNSLookupError
from twisted.internet.interfaces import IProtocolFactory, IStreamClientEndpoint
from twisted.internet.task import Clock, deferLater
from twisted.trial.unittest import TestCase
from twisted.web.client import URI
from twisted.web.iweb import IAgentEndpointFactory
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Request, Site
from zope.interface import implementer

from garcon.contract.decoding import PARTS
from garcon.contract.providers import Discovered, DiscoverModels
from garcon.deferreds import returns_deferred
from garcon.errors import GarconError
from garcon.link.endpoints import Trust
from garcon.link.outgoing import OutgoingEndpoints
from garcon.runtime.discovery import BODY, CALL_TIME, REDIRECTIONS, ModelDiscovery
from garcon.runtime.model_lists import PAGES

KEY = "sk-secret-of-the-test"
LIST = b'{"data": [{"id": "m", "name": "M"}]}'


class _Endpoint(Resource):
    """Answers as the test says, and keeps what it was asked."""

    isLeaf = True

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.answer: Callable[[Request], bytes | int] = lambda request: LIST

    def render_GET(self, request: Request) -> bytes | int:
        """Note the request, and answer."""
        headers = {
            name.decode().lower(): values[0].decode()
            for name, values in request.requestHeaders.getAllRawHeaders()
        }
        self.asked.append((request.uri.decode(), headers))
        return self.answer(request)


@implementer(IAgentEndpointFactory, IStreamClientEndpoint)
class _NoWay:
    """Endpoints that nothing leads to."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def endpointForURI(self, uri: URI) -> IStreamClientEndpoint:
        """Be the endpoint."""
        return self

    def connect(self, protocolFactory: IProtocolFactory) -> Deferred[Any]:
        """Fail."""
        return fail(self._error)


class DiscoveryTests(TestCase):
    """A discovery, and an endpoint that the test plays."""

    timeout = 60

    def setUp(self) -> None:
        self.endpoint, self.other = _Endpoint(), _Endpoint()
        any_reactor: Any = reactor
        self.ports: list[Any] = [
            any_reactor.listenTCP(0, Site(one), interface="127.0.0.1")
            for one in (self.endpoint, self.other)
        ]
        self.discovery = self.over()
        self.addCleanup(self.end)

    def over(self, **more: Any) -> ModelDiscovery:
        """Make a discovery."""
        return ModelDiscovery(reactor, OutgoingEndpoints(reactor, Trust()), **more)

    @returns_deferred
    async def end(self) -> None:
        """Close everything; the connections of a discovery are gone with it."""
        for port in self.ports:
            await port.stopListening()
        await deferLater(reactor, 0.05)

    def url(self, number: int = 0, path: str = "") -> str:
        """Return the address of an endpoint."""
        return f"http://127.0.0.1:{self.ports[number].getHost().port}{path}"

    async def discover(self, **more: Any) -> Discovered:
        """Ask the endpoint for its models."""
        usual: dict[str, Any] = {
            "kind": "openai-models",
            "base_url": self.url(),
            "api_key": KEY,
        }
        found = await self.discovery.discover(DiscoverModels(**(usual | more)))
        self.assertNotIn(KEY, str(found))
        return found

    async def assert_fails(self, *words: str, **more: Any) -> None:
        """Assert that the answer says why there is none."""
        found = await self.discover(**more)
        self.assertEqual((found.success, found.models), (False, UNSET))
        for word in words:
            self.assertIn(word, str(found.error))

    async def test_a_list(self) -> None:
        """Is asked for with the key, and comes back."""
        found = await self.discover()
        self.assertTrue(found.success)
        assert found.models is not UNSET
        self.assertEqual([(m.value, m.label) for m in found.models], [("m", "M")])
        [(uri, headers)] = self.endpoint.asked
        self.assertEqual(uri, "/v1/models")
        self.assertEqual(headers["authorization"], f"Bearer {KEY}")

    async def test_an_empty_list(self) -> None:
        """Is a success without models."""
        self.endpoint.answer = lambda request: b'{"data": []}'
        self.assertEqual(await self.discover(), Discovered(success=True))

    async def test_pages(self) -> None:
        """Of an endless list five are read."""

        def page(request: Request) -> bytes:
            name = f"m{len(self.endpoint.asked)}"
            return json.dumps({"data": [{"id": name}], "has_more": True, "last_id": name}).encode()

        self.endpoint.answer = page
        found = await self.discover(kind="anthropic-models")
        assert found.models is not UNSET
        self.assertEqual([m.value for m in found.models], [f"m{n}" for n in range(1, PAGES + 1)])
        self.assertEqual(
            [uri for uri, _ in self.endpoint.asked][1:3],
            ["/v1/models?limit=1000&after_id=m1", "/v1/models?limit=1000&after_id=m2"],
        )

    async def test_a_refusal(self) -> None:
        """Is told by its status; what the endpoint writes is not repeated."""

        def refuse(request: Request) -> bytes:
            request.setResponseCode(401)
            return f"Incorrect API key provided: {KEY}".encode()

        self.endpoint.answer = refuse
        await self.assert_fails("401", "key")

    async def test_nothing_there(self) -> None:
        """Neither a server nor a name."""
        await self.ports.pop().stopListening()
        await self.assert_fails("Nothing answers", base_url="http://127.0.0.1:1")
        for error, words in (
            (DNSLookupError(), "host name is not known"),
            (GarconError("NOT_TRUSTED", "its certificate is too old"), "too old"),
            (ValueError("a secret"), "could not be asked"),
        ):
            self.discovery = ModelDiscovery(reactor, _NoWay(error))
            await self.assert_fails(words)

    def say(self, body: bytes, request: Request) -> bytes:
        """Answer with a body."""
        return body

    async def test_what_is_no_list(self) -> None:
        """Neither text nor other JSON, nor what would take seconds to read."""
        many = b'{"data": [' + b"{}," * PARTS + b'{"id": "m"}]}'
        for body in (b"<html>", b"[1", b'{"error": "x"}', b"\xff", many):
            self.endpoint.answer = partial(self.say, body)
            await self.assert_fails("no list of models")

    async def test_a_cut_answer(self) -> None:
        """Is not taken for a whole one."""

        def cut(request: Request) -> int:
            request.setHeader(b"content-length", b"1000")
            request.write(LIST)
            assert request.channel is not None
            request.channel.loseConnection()
            return NOT_DONE_YET

        self.endpoint.answer = cut
        await self.assert_fails("cut short")

    # Redirections

    def redirect(self, to: str, status: int = 302) -> None:
        """Send everything that is no list elsewhere."""

        def answer(request: Request) -> bytes:
            if request.path == b"/list":
                return LIST
            request.setResponseCode(status)
            request.setHeader(b"location", to.encode())
            return b""

        self.endpoint.answer = answer

    async def test_a_redirection_at_the_same_origin(self) -> None:
        """Is followed, with the key."""
        for status in (301, 302, 303, 307, 308):
            self.redirect("/list", status)
            self.assertTrue((await self.discover()).success)
            self.assertEqual(self.endpoint.asked[-1][1]["authorization"], f"Bearer {KEY}")

    async def test_a_redirection_to_another_origin(self) -> None:
        """Is not followed: the key is not for others, be it another port, scheme or host."""
        port = self.ports[0].getHost().port
        for place in (
            self.url(1, "/list"),
            f"http://localhost:{port}/list",
            f"https://127.0.0.1:{port}/list",
            f"http://user@127.0.0.1:{port}/list",
            "http://[broken/list",
            "",
        ):
            self.redirect(place)
            await self.assert_fails("redirects to another place")
        self.assertEqual(self.other.asked, [])

    async def test_redirections_without_an_end(self) -> None:
        """Are followed three times."""
        self.redirect("/again")
        await self.assert_fails("without an end")
        self.assertEqual(len(self.endpoint.asked), REDIRECTIONS + 1)

    # Bounds

    async def test_eight_mebibytes_and_no_more(self) -> None:
        """One byte over the bound is too much, said beforehand or not."""
        padding = b" " * (BODY - len(LIST))
        for with_length in (True, False):
            self.endpoint.answer = partial(self.whole, LIST + padding, with_length)
            self.assertTrue((await self.discover()).success)
            self.endpoint.answer = partial(self.whole, LIST + padding + b" ", with_length)
            await self.assert_fails("too large")

    def whole(self, body: bytes, with_length: bool, request: Request) -> int:
        """Answer with a body whose length is said beforehand, or not."""
        if with_length:
            request.setHeader(b"content-length", str(len(body)).encode())
        request.write(body)
        request.finish()
        return NOT_DONE_YET

    async def test_a_head_without_an_end(self) -> None:
        """Is bounded by itself: the share of the body is not for it."""
        self.discovery = self.over(body=BODY, head=1_000)

        def flood(request: Request) -> int:
            transport: Any = request.transport
            transport.write(b"HTTP/1.1 200 OK\r\n" + b"X-More: yes\r\n" * 1_000)
            return NOT_DONE_YET

        self.endpoint.answer = flood
        await self.assert_fails("too large")

    async def test_ten_seconds(self) -> None:
        """Are given to a call, its answer included; then its connection is dropped."""
        clock = Clock()
        self.discovery = self.over(clock=clock)
        gone: list[Any] = []

        def trickle(request: Request) -> int:
            request.notifyFinish().addBoth(gone.append)
            request.write(b"{")
            reactor.callLater(0.05, clock.advance, CALL_TIME - 0.1)
            reactor.callLater(0.1, request.write, b" ")
            reactor.callLater(0.15, clock.advance, 0.1)
            return NOT_DONE_YET

        self.endpoint.answer = trickle
        await self.assert_fails("within 10 seconds")
        await deferLater(reactor, 0.05)
        self.assertEqual(len(gone), 1)

    async def test_nobody_waits_any_more(self) -> None:
        """Then the connection is dropped at once."""
        gone: list[Any] = []

        def hold(request: Request) -> int:
            request.notifyFinish().addBoth(gone.append)
            reactor.callLater(0, asking.cancel)
            return NOT_DONE_YET

        self.endpoint.answer = hold
        wanted = DiscoverModels(kind="openai-models", base_url=self.url())
        asking = self.discovery.discover(wanted)
        asking.addErrback(lambda f: None)
        await asking
        await deferLater(reactor, 0.05)
        self.assertEqual(len(gone), 1)
