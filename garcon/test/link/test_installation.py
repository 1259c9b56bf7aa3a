"""Installation calls when everything else is full (control.md J.4)."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.limits import CALLS
from garcon.contract.rpc import Continuity, Method
from garcon.errors import CallError
from garcon.link.calls import INSTALLATION_CALLS
from garcon.link.memory import memory_pair
from garcon.test.link.cast import (
    EXECUTOR,
    HELD,
    METHODS,
    ControllerSide,
    Owner,
    Text,
    WorkerSide,
)

INSTALL = Method(
    "test.install",
    Text,
    Text,
    served_by="worker",
    continuity=Continuity.SESSION,
    installation=True,
    deadline=None,
)


class Exempting(SynchronousTestCase):
    """64 pairs of method and integration at a time on primary, besides the budget."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.ends: list[Deferred[Any]] = []
        self.side = WorkerSide()
        self.controller, self.worker, self.network = memory_pair(
            self.clock,
            Owner(),
            Owner(),
            dict(ControllerSide().handlers()),
            self.side.handlers() | {INSTALL.name: self.stubborn},
            executor_id=EXECUTOR,
            methods=METHODS | {INSTALL.name: INSTALL},
        )
        self.clock.advance(0)

    def tearDown(self) -> None:
        self.controller.close("over")
        self.worker.close("over")
        for end in self.ends:
            end.callback(Text("over"))
        self.assertEqual(self.clock.getDelayedCalls(), [])
        for slots in (self.controller._shared.outgoing, self.worker._shared.served.slots):
            self.assertEqual((slots.used, slots.exempt_used), (0, 0))

    def stubborn(self, request: Text, context: Any) -> Deferred[Any]:
        """Take no notice of a cancellation."""
        end: Deferred[Any] = Deferred()
        self.ends.append(end)

        async def run() -> Any:
            try:
                return await Deferred()
            finally:
                await end

        return Deferred.fromCoroutine(run())

    def install(self, integration: int) -> Deferred[Any]:
        session: Any = self.controller.current()
        d: Deferred[Any] = session.primary.call(INSTALL, Text("t"), None, str(integration))
        return d

    def fill(self) -> list[Deferred[Any]]:
        """Have every ordinary place taken, on both sides."""
        session: Any = self.controller.current()
        held = [session.primary.call(HELD, Text(str(n)), None) for n in range(CALLS)]
        for d in held:
            d.addErrback(lambda f: f.trap(CallError) and None)
        return held

    def assert_busy(self, d: Deferred[Any]) -> None:
        error: Any = self.failureResultOf(d, CallError).value
        self.assertEqual((error.code, error.outcome), ("EXECUTOR_BUSY", "not-dispatched"))

    def forget(self, *calls: Deferred[Any]) -> None:
        for d in calls:
            d.addErrback(lambda f: None)

    def test_sixty_four_and_one_more(self) -> None:
        """With all 256 places taken 64 go through and the 65th does not; it is an ordinary call
        then, and goes as soon as one of those has ended.
        """
        self.assertEqual(INSTALLATION_CALLS, 64)
        self.fill()
        exempt = [self.install(n) for n in range(64)]
        self.assertEqual(len(self.ends), 64)
        self.assert_busy(self.install(64))
        self.side.held[0][2].callback(Text("done"))
        more = self.install(64)
        self.assertEqual(len(self.ends), 65)
        self.assert_busy(self.install(65))
        self.forget(*exempt, more)

    def test_the_same_pair_again(self) -> None:
        """While the first has not ended the second is an ordinary call."""
        self.fill()
        first = self.install(0)
        self.assertEqual(len(self.ends), 1)
        self.assert_busy(self.install(0))
        self.forget(first)

    def test_handlers_of_a_lost_session(self) -> None:
        """Their places stay taken until they have settled, and the next session is installed all
        the same.
        """
        self.forget(*[self.install(n) for n in range(64)])
        self.network.cut()
        self.clock.advance(5)
        slots = self.worker._shared.served.slots
        self.assertEqual((slots.used, slots.exempt_used), (0, 64))
        again = self.install(0)
        self.assertNoResult(again)
        self.assertEqual((slots.used, slots.exempt_used), (1, 64))
        self.ends.pop(0).callback(None)
        third = self.install(1)
        self.assertEqual((slots.used, slots.exempt_used), (1, 64))
        self.forget(again, third)
