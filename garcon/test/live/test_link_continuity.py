"""Journaled calls over real sockets that break: each ends once, and runs at most once."""

from __future__ import annotations

from random import Random
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.python.failure import Failure

from garcon.contract.limits import MIB
from garcon.deferreds import returns_deferred
from garcon.errors import CallError
from garcon.link.interfaces import CallContext
from garcon.test.link.cast import ECHO, FETCH, KEPT, KEPT_BULK, Text
from garcon.test.live.linked import Linked, reactor, shorter


class Continuity(Linked):
    """The controller's owner installs each session as it should."""

    timeout = 60
    settings = evolve(shorter(redial_delays=(0.0, 0.02, 0.05)), retry=0.002)

    def make_links(self, **more: Any) -> None:
        super().make_links(**more)

        def told(name: str) -> None:
            if name == "installed":
                self.controller.reconcile_primary().addCallbacks(
                    lambda _: self.controller.activate(), lambda f: f.trap(CallError)
                )

        self.controller_owner.on_event = told

    @returns_deferred
    async def test_a_call_over_a_cut(self) -> None:
        """Its handler goes on, and answers on the next session."""
        d = self.controller.call(KEPT, Text("a"))
        await self.until(lambda: self.worker_side.held)
        self.proxy.cut()
        await self.until(lambda: len(self.controller_owner.installed) == 2)
        self.worker_side.held[0][2].callback(Text("done"))
        self.assertEqual(await d, Text("done"))
        self.assertEqual(len(self.worker_side.held), 1)

    @returns_deferred
    async def test_calls_made_in_the_gap(self) -> None:
        """They go out when the link is back, on both lanes."""
        self.proxy.refuse()
        self.proxy.cut()
        await self.until(lambda: self.controller.current() is None)
        calls = [self.controller.call(ECHO, Text("a")), self.controller.call(FETCH, Text("3"))]
        await deferLater(reactor, 0.2)
        self.proxy.refuse(False)
        self.assertEqual([await d for d in calls], [Text("a"), Text("xxx")])

    @returns_deferred
    async def test_a_black_hole(self) -> None:
        """A request and a reply that vanish, and nobody hears of it, both come to their end."""
        self.settings = evolve(self.settings, ping_every=0.1, dead_after=0.3)
        for link in (self.controller, self.worker):
            link._settings = link._shared.settings = self.settings
        self.proxy.cut()
        await self.until(lambda: len(self.controller_owner.installed) == 2 and self.is_up())
        answered = self.controller.call(KEPT, Text("a"))
        await self.until(lambda: self.worker_side.held)
        self.proxy.black_hole()
        self.worker_side.held[0][2].callback(Text("done"))
        asked = self.controller.call(ECHO, Text("b"))
        await self.until(lambda: self.controller_owner.lost[1:] and self.worker_owner.lost[1:])
        self.proxy.is_black_hole = False
        self.proxy.cut()
        self.assertEqual((await answered, await asked), (Text("done"), Text("b")))
        self.assertEqual(len(self.worker_side.held), 1)

    @returns_deferred
    async def test_many_cuts_under_load(self) -> None:
        """Calls of all sizes on both lanes, some cancelled, while the link breaks every now and
        then: each that is not cancelled succeeds, and none runs twice.
        """
        seed = 20_260_101
        random = Random(seed)
        ran: list[str] = []

        def serve(request: Text, context: CallContext) -> Deferred[Any]:
            ran.append(request.text[:8])
            return deferLater(reactor, random.random() * 0.05, lambda: request)

        handlers: Any = self.worker._shared.served.handlers
        handlers[KEPT.name] = handlers[KEPT_BULK.name] = serve
        done: list[str] = []
        waiting = []

        def failed(failure: Failure, which: int) -> None:
            self.fail(f"seed {seed}, call {which}: {failure.value}")

        for n in range(300):
            text = f"{n:08}" + "x" * random.choice((0, 100, 40_000, MIB // 4))
            d = self.controller.call(random.choice((KEPT, KEPT_BULK)), Text(text))
            if random.random() < 0.1:
                reactor.callLater(random.random() * 0.1, d.cancel)
                d.addErrback(lambda _: None)
            else:
                d.addCallback(lambda answer: done.append(answer.text[:8]))
                d.addErrback(failed, n)
            waiting.append(d)
            if n % 25 == 24:
                self.proxy.cut()
            if n % 5 == 0:
                await deferLater(reactor, random.random() * 0.03)
        for d in waiting:
            await d
        self.assertEqual(len(ran), len(set(ran)), f"seed {seed}: some ran twice")
        self.assertEqual(len(done), len(set(done)))
        await deferLater(reactor, 0.4)
        await self.until(lambda: len(self.worker._outliving.journal) == 0)
        self.assertEqual(self.controller._shared.outgoing.used, 0)
        await self.until(lambda: self.worker._shared.served.slots.used == 0)
        self.assertTrue(len(self.controller_owner.installed) > 5)


class ContinuityControllerDials(Continuity):
    """The same the other way round."""

    worker_dials = False
