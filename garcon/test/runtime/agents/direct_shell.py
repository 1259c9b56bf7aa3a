"""A direct session without a network: its provider is a transport that the test answers on."""

from __future__ import annotations

import json
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IProtocolFactory, IStreamClientEndpoint
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransportWithDisconnection
from twisted.trial.unittest import SynchronousTestCase
from twisted.web.client import URI
from twisted.web.iweb import IAgentEndpointFactory
from zope.interface import implementer

from garcon.contract.providers import ResolvedEndpoint
from garcon.contract.runs import Launch, RunEnded
from garcon.runtime.agents.direct_http import Deadlines, ModelClient
from garcon.runtime.agents.direct_retry import Patience
from garcon.runtime.agents.direct_session import DirectSession
from garcon.runtime.interfaces import ICredentials
from garcon.test.runtime.agents.direct_cast import CHAT, Case
from garcon.testing.agent_runs import RecordingSink, a_launch


@implementer(ICredentials)
@define(eq=False)
class FakeCredentials:
    """Knows one endpoint; a test may make the next questions wait or fail."""

    endpoint: ResolvedEndpoint
    answers: list[Deferred[ResolvedEndpoint]] = field(factory=list)
    asked: list[tuple[str, str]] = field(factory=list)

    def resolve(self, profile_id: str, endpoint_id: str) -> Deferred[ResolvedEndpoint]:
        """See `ICredentials`."""
        self.asked.append((profile_id, endpoint_id))
        return self.answers.pop(0) if self.answers else succeed(self.endpoint)


class Transport(StringTransportWithDisconnection):
    """One that knows how it ended."""

    aborted = False
    protocol: Any = None

    def abortConnection(self) -> None:
        """Be dropped."""
        self.aborted = True
        self.loseConnection()


@define(eq=False)
class Connection:
    """One connection that a session wants."""

    factory: IProtocolFactory
    made: Deferred[Any]
    transport: Transport = field(factory=Transport)
    is_given_up: bool = False
    answers: int = 0

    def succeed(self) -> None:
        """Be connected."""
        protocol: Any = self.factory.buildProtocol(self.transport.getPeer())
        self.transport.protocol = protocol
        protocol.makeConnection(self.transport)
        self.made.callback(protocol)

    @property
    def requests(self) -> list[dict[str, Any]]:
        """The bodies of what was asked on it."""
        return [
            json.loads(part.partition(b"\r\n\r\n")[2])
            for part in self.transport.value().split(b"POST ")[1:]
        ]

    @property
    def is_open(self) -> bool:
        return self.transport.protocol is not None and self.transport.connected

    @property
    def is_asking(self) -> bool:
        """Whether it waits for an answer."""
        return self.is_open and len(self.requests) > self.answers

    def answer(self, body: bytes = b"", status: str = "200 OK", *headers: str) -> None:
        """Begin an answer in chunks, whose first is `body`."""
        self.answers += 1
        head = [f"HTTP/1.1 {status}", "Transfer-Encoding: chunked", *headers, "", ""]
        self.say("\r\n".join(head).encode())
        self.more(body)

    def more(self, body: bytes) -> None:
        """Send a further chunk."""
        if body:
            self.say(b"%x\r\n%s\r\n" % (len(body), body))

    def end(self) -> None:
        """End the answer in good order."""
        self.say(b"0\r\n\r\n")

    def whole(self, body: bytes, status: str = "200 OK", *headers: str) -> None:
        """Answer at once and in good order."""
        self.answer(body, status, *headers)
        self.end()

    def say(self, data: bytes) -> None:
        """Send bytes."""
        protocol: Any = self.transport.protocol
        protocol.dataReceived(data)

    def lose(self) -> None:
        """Break."""
        self.transport.loseConnection()


@implementer(IAgentEndpointFactory, IStreamClientEndpoint)
@define(eq=False)
class FakeEndpoints:
    """Hands every connection that is wanted to the test."""

    connections: list[Connection] = field(factory=list)
    urls: list[str] = field(factory=list)

    def endpointForURI(self, uri: URI) -> IStreamClientEndpoint:
        """See `IAgentEndpointFactory`."""
        self.urls.append(uri.toBytes().decode())
        return self

    def connect(self, factory: IProtocolFactory) -> Deferred[Any]:
        """See `IStreamClientEndpoint`."""

        def given_up(_: Deferred[Any]) -> None:
            connection.is_given_up = True

        connection = Connection(factory, Deferred(given_up))
        self.connections.append(connection)
        return connection.made


class DirectCase(SynchronousTestCase):
    """One session of one wire, its clock, and the provider's side of its connections."""

    case: Case = CHAT

    def setUp(self) -> None:
        self.clock = Clock()
        self.endpoints = FakeEndpoints()
        self.credentials = FakeCredentials(self.case.endpoint())
        self.client = ModelClient(
            self.clock, self.endpoints, Deadlines(connect=20.0, head=600.0, idle=300.0)
        )
        self.session = DirectSession(
            self.clock,
            self.case.wire,
            self.credentials,
            self.client,
            Patience(attempts=3, pause=0.5, longest=30.0),
        )
        self.addCleanup(self.assert_closed)

    def assert_closed(self) -> None:
        """Nothing is left of a session that was closed: no connection and no timer."""
        self.successResultOf(self.session.close())
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.assertEqual([one for one in self.endpoints.connections if one.is_open], [])

    def launch(self, prompt: str = "hi", **changes: Any) -> Launch:
        """Return a launch of this agent with an endpoint."""
        usual = {
            "agent_id": self.case.agent_id,
            "model": "endpoint:scripted/model:1",
            "api_provider_id": "profile",
            "model_endpoint_id": "endpoint",
            "model_protocol": self.case.wire.speech,
        }
        return a_launch(prompt, **(usual | changes))

    def begin(self, prompt: str = "hi", **changes: Any) -> RecordingSink:
        """Begin a turn; its request is on its way when this returns."""
        sink = RecordingSink(self.clock)
        self.successResultOf(self.session.run(self.launch(prompt, **changes), sink))
        self.assertEqual(sink.events, [])
        self.clock.advance(0)
        return sink

    def connected(self) -> Connection:
        """Return the connection that waits for an answer; one that is wanted succeeds."""
        for connection in self.endpoints.connections:
            if not (connection.made.called or connection.is_given_up):
                connection.succeed()
        [asking] = [one for one in self.endpoints.connections if one.is_asking]
        return asking

    def end_of(self, sink: RecordingSink) -> RunEnded:
        """Return how a turn ended; it has, and with its last event."""
        end = sink.events[-1]
        assert isinstance(end, RunEnded), sink.events
        self.assertEqual(len(sink.of(RunEnded)), 1)
        return end

    def failure_of(self, sink: RecordingSink) -> str:
        """Return why a turn failed, after checking that it left no row."""
        end = self.end_of(sink)
        self.assertEqual((end.outcome, sink.rows(object)), ("failed", []))
        assert end.error is not None
        self.assertEqual(end.error.code, "PROVIDER_FAILED")
        return end.error.message
