"""Two links over real loopback sockets, with a fault proxy between them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from attrs import evolve
from twisted.internet import reactor as _reactor
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.task import deferLater
from twisted.trial.unittest import TestCase
from twisted.web.resource import Resource
from twisted.web.server import Site

from garcon.deferreds import returns_deferred
from garcon.link.admission import Admission
from garcon.link.endpoints import DialTarget, Trust
from garcon.link.link import ControllerLink, WorkerLink
from garcon.link.settings import LinkSettings
from garcon.link.websocket import LaneResource
from garcon.test.link.cast import (
    EXECUTOR,
    METHODS,
    SECRET,
    ControllerSide,
    Owner,
    WorkerSide,
)
from garcon.testing.certificates import Authority, make_authority
from garcon.testing.proxy import FaultProxy, load_pair

reactor: Any = _reactor

SETTINGS = LinkSettings(
    redial_delays=(0.0, 0.05, 0.05, 0.2), redial_reset_after=0.5, bulk_wait=5.0, close_time=0.3
)


class Linked(TestCase):
    """Both ends linked by the end of `setUp`; the listener is reached through `self.proxy`."""

    worker_dials = True
    uses_tls = False
    settings = SETTINGS
    host = "localhost"

    def make_tls(self) -> tuple[Any, Trust]:
        """Return the listener's TLS and what the dialler trusts."""
        self.authority: Authority = make_authority(Path(self.mktemp()))
        certificate, key = self.authority.issue("localhost", "127.0.0.1")
        return load_pair(str(certificate), str(key)), Trust.from_environment(
            str(self.authority.certificate), None
        )

    @returns_deferred
    async def setUp(self) -> None:  # type: ignore[override]  # trial waits for it
        self.make_listener()
        self.make_links()
        self.start()
        await self.until(self.is_up)

    def make_listener(self) -> None:
        """Open the listening port and the proxy in front of it."""
        tls, self.trust = self.make_tls() if self.uses_tls else (None, Trust())
        self.admission = Admission()
        root = Resource()
        root.putChild(b"executor", LaneResource(self.find, reactor, self.admission))
        self.site = Site(root)
        self.site.noisy = False
        if tls is None:
            self.port = reactor.listenTCP(0, self.site, interface="127.0.0.1")
        else:
            self.port = reactor.listenSSL(0, self.site, tls, interface="127.0.0.1")
        self.proxy = FaultProxy(reactor, cast(IPv4Address, self.port.getHost()).port)
        self.proxy_port = self.proxy.start()

    def find(self, segment: bytes | None) -> Any:
        """See `LaneResource`."""
        if self.worker_dials:
            return self.controller if segment == EXECUTOR.encode() else None
        return self.worker if segment is None else None

    @property
    def url(self) -> str:
        path = f"/executor/{EXECUTOR}" if self.worker_dials else "/executor"
        scheme = "wss" if self.uses_tls else "ws"
        return f"{scheme}://{self.host}:{self.proxy_port}{path}"

    def make_links(
        self,
        *,
        controller_secret: str = SECRET,
        worker_secret: str = SECRET,
        worker_executor: str | None = None,
        target: DialTarget | None = None,
    ) -> None:
        """Make both ends."""
        target = target or DialTarget(self.url, self.trust, False)
        self.controller_owner, self.worker_owner = Owner(), Owner()
        self.controller_side, self.worker_side = ControllerSide(), WorkerSide()
        self.controller = ControllerLink(
            reactor,
            EXECUTOR,
            controller_secret,
            "controller-runtime",
            self.controller_owner,
            self.controller_side.handlers(),
            None if self.worker_dials else target,
            settings=self.settings,
            methods=METHODS,
        )
        self.worker = WorkerLink(
            reactor,
            worker_secret,
            "worker-runtime",
            self.worker_owner,
            self.worker_side.handlers(),
            target if self.worker_dials else None,
            worker_executor,
            settings=self.settings,
            methods=METHODS,
        )

    def start(self) -> None:
        """Let them link."""
        self.controller.start()
        self.worker.start()

    def is_up(self) -> bool:
        """Whether both lanes are ready on both sides."""
        return self.controller.bulk_phase == self.worker.bulk_phase == "ready"

    @returns_deferred
    async def tearDown(self) -> None:  # type: ignore[override]  # likewise
        closing = [self.controller.close("the test is over"), self.worker.close("the same")]
        self.proxy.is_black_hole = False
        await self.proxy.stop()
        for d in closing:
            await d
        await maybeDeferred(self.port.stopListening)
        self.assertEqual(len(self.admission), 0)
        # The proxy's halves learn of their ends one turn later.
        await deferLater(reactor, 0.02)

    def cut(self) -> None:
        """Break every connection."""
        self.proxy.cut()

    def settle(self) -> Deferred[Any]:
        """Fire when what is under way has had time to happen."""
        return deferLater(reactor, 0.1)

    @returns_deferred
    async def until(self, condition: Callable[[], Any]) -> None:
        """Fire when `condition` holds."""
        deadline = reactor.seconds() + 10
        while not condition():
            if reactor.seconds() > deadline:
                raise AssertionError(
                    f"it never came: {self.controller.last_error} {self.worker.last_error}"
                    f" {self.controller.bulk_error} {self.controller.bulk_phase}"
                )
            await deferLater(reactor, 0.005)


def shorter(**changes: Any) -> LinkSettings:
    """Return the tests' settings with changes."""
    return evolve(SETTINGS, **changes)
