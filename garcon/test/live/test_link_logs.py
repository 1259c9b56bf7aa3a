"""What two links log while everything happens to them: nothing that nobody may see."""

from __future__ import annotations

from base64 import b64encode, urlsafe_b64decode
from typing import Any, cast

from attrs import define, evolve
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.logger import ILogObserver, LogEvent, eventAsText, globalLogPublisher
from twisted.web.resource import IResource
from zope.interface import implementer, provider

from garcon.contract.rpc import Lane, produced
from garcon.contract.runs import SessionStarted
from garcon.deferreds import returns_deferred
from garcon.errors import GarconError
from garcon.link.admission import Admission
from garcon.link.endpoints import DialTarget, Trust
from garcon.link.proxy_route import ProxyRoutes
from garcon.link.websocket import LaneResource
from garcon.test.link.cast import (
    ASK,
    BREAK,
    ECHO,
    EITHER,
    EXECUTOR,
    OTHER_SECRET,
    REFUSE,
    SECRET,
    Text,
)
from garcon.test.live.linked import Linked, reactor, shorter
from garcon.testing.connect_proxy import ConnectProxy
from garcon.testing.proxy import FaultProxy
from garcon.web.exchange import IDoorPolicy, Incoming, Outgoing, Upgrade, text_answer
from garcon.web.site import BoundedSite

NAME = "controller.example"
USER, PASSWORD, WRONG = "somebody", "pr0xyPass/ä", "wr0ngPass/ä"
QUOTED = "pr0xyPass%2F%C3%A4", "wr0ngPass%2F%C3%A4"
PAYLOAD, OUTPUT = "payload-that-is-private", "output-that-is-private"
PRIVATE = (
    *(SECRET, OTHER_SECRET, urlsafe_b64decode(SECRET + "==").hex()),
    *(PASSWORD, WRONG, *QUOTED, "pr0xyPass", "wr0ngPass", "Proxy-Authorization"),
    *(b64encode(f"{USER}:{word}".encode()).decode() for word in (PASSWORD, WRONG)),
    *("ws://", "wss://", "http://", "secret=", "/executor", NAME),
    *(PAYLOAD, OUTPUT),
)


@implementer(IDoorPolicy)
@define(eq=False)
class Listening:
    """Lets upgrades through and nothing else, as the services' doors do."""

    resource: IResource

    def admit(self, incoming: Incoming) -> Upgrade | Outgoing:
        """See `IDoorPolicy`."""
        if incoming.path.startswith("/executor"):
            return Upgrade(self.resource)
        return text_answer(404, "Not found")


def _nobody(incoming: Incoming) -> Deferred[Outgoing]:
    raise AssertionError("nothing is admitted at this door")


class Logs(Linked):
    """A worker dials, through a proxy that wants a password, and is cut."""

    timeout = 60
    settings = shorter(notice_every=0.0)

    @returns_deferred
    async def setUp(self) -> None:  # type: ignore[override]  # trial waits for it
        self.lines: list[str] = []
        self.fronts: list[ConnectProxy] = []

        @provider(ILogObserver)
        def observe(event: LogEvent) -> None:
            self.lines.append(eventAsText(event, includeTraceback=True))

        globalLogPublisher.addObserver(observe)
        self.addCleanup(globalLogPublisher.removeObserver, observe)
        self.make_listener()

    def make_listener(self) -> None:
        """Listen with the door of the services, which has no access log."""
        self.trust = Trust()
        self.admission = Admission()
        policy = Listening(cast(IResource, LaneResource(self.find, reactor, self.admission)))
        self.door = BoundedSite(reactor, policy, _nobody)
        self.port = reactor.listenTCP(0, self.door, interface="127.0.0.1")
        self.proxy = FaultProxy(reactor, cast(IPv4Address, self.port.getHost()).port)
        self.proxy_port = self.proxy.start()

    @returns_deferred
    async def tearDown(self) -> None:  # type: ignore[override]  # likewise
        await super().tearDown()
        for front in self.fronts:
            await front.stop()
        await deferLater(reactor, 0.05)

    def through(self, password: str) -> DialTarget:
        """Return the target behind a proxy, asked for with this password."""
        front = ConnectProxy(reactor, self.proxy_port, user=USER, password=PASSWORD)
        self.fronts.append(front)
        proxy = f"http://{USER}:{password}@127.0.0.1:{front.start()}"
        path = f"/executor/{EXECUTOR}" if self.worker_dials else "/executor"
        routes = ProxyRoutes.from_environment({"ALL_PROXY": proxy})
        return DialTarget(f"ws://{NAME}{path}#secret={SECRET}", self.trust, False, routes)

    async def fail_with(self, kind: str) -> None:
        """Start the links, wait until the one that dials has failed so, and end them."""
        self.start()
        dialler = self.worker if self.worker_dials else self.controller
        await self.until(lambda: dialler.last_error)
        assert dialler.last_error is not None
        self.assertEqual(dialler.last_error[0], kind)
        await self.settle()
        await self.ended()

    async def ended(self) -> None:
        """End both links, after reading what they tell of themselves."""
        for link in (self.controller, self.worker):
            self.lines += [repr(link.diagnostics()), repr(link.last_error)]
        for owner in (self.controller_owner, self.worker_owner):
            self.lines += [repr(owner.failures), repr([cause for _, cause in owner.lost])]
        await self.controller.close("a test")
        await self.worker.close("the same")

    async def converse(self) -> None:
        """Carry payloads of every kind."""
        near, far = self.controller.current(), self.worker.current()
        assert near is not None and far is not None
        await near.call(ECHO, Text(PAYLOAD))
        await near.call(EITHER, Text(PAYLOAD * 10_000), lane=Lane.BULK)
        await far.call(ASK, Text(PAYLOAD))
        for method in (REFUSE, BREAK):
            try:
                await near.call(method, Text(PAYLOAD))
            except GarconError as error:
                self.lines.append(repr(error))
        frame = produced("b", SessionStarted(agent_session_id=OUTPUT))
        before = len(self.controller_owner.produced)
        self.assertTrue(self.worker.send_producer(before + 1, frame))
        await self.until(lambda: len(self.controller_owner.produced) > before)

    @returns_deferred
    async def test_nothing_private_is_logged(self) -> None:
        """Wrong secret, wrong version, wrong password, no proxy; then a conversation, cut, garbled
        and taken up again.
        """
        self.make_links(worker_secret=OTHER_SECRET)
        await self.fail_with("handshake-failed")
        self.make_links()
        self.worker._settings = evolve(self.settings, version="0.0.0+protocol.0")
        await self.fail_with("version-mismatch")
        self.make_links(target=self.through(QUOTED[1]))
        await self.fail_with("proxy-failed")
        target = self.through(QUOTED[0])
        self.fronts[-1].is_refusing = True
        self.make_links(target=target)
        await self.fail_with("proxy-failed")
        self.make_links(target=self.through(QUOTED[0]))
        self.start()
        await self.until(self.is_up)
        await self.converse()
        self.cut()
        await self.until(lambda: self.controller_owner.lost and self.worker_owner.lost)
        await self.until(self.is_up)
        await self.converse()
        captured: Any = self.worker.current()
        captured.primary._wire.send(SECRET.encode() + PAYLOAD.encode())
        await self.until(lambda: len(self.controller_owner.lost) > 1)
        await self.until(self.is_up)
        await self.converse()
        await self.ended()
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 3)
        text = "\n".join(self.lines)
        self.assertIn("linked", text)
        self.assertIn("handshake-failed", text)
        for private in PRIVATE:
            self.assertNotIn(private, text)


class LogsControllerDials(Logs):
    """The same the other way round."""

    worker_dials = False
