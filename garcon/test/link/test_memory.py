"""The in-process network keeps every promise of a link."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet import reactor
from twisted.internet.task import Clock, LoopingCall, deferLater
from twisted.trial.unittest import TestCase

from garcon.deferreds import returns_deferred
from garcon.link.memory import memory_pair
from garcon.test.link.cast import EXECUTOR, METHODS, ControllerSide, Owner, WorkerSide
from garcon.test.link.promises import LinkPromises


class MemoryPromises(TestCase, LinkPromises):
    """The worker dials."""

    worker_dials = True

    def setUp(self) -> None:
        self.clock = Clock()
        self.controller_owner, self.worker_owner = Owner(), Owner()
        self.controller_side, self.worker_side = ControllerSide(), WorkerSide()
        self.controller, self.worker, self.network = memory_pair(
            self.clock,
            self.controller_owner,
            self.worker_owner,
            dict(self.controller_side.handlers()),
            self.worker_side.handlers(),
            executor_id=EXECUTOR,
            worker_dials=self.worker_dials,
            methods=METHODS,
        )
        self.clock.advance(0)
        # The link's time passes while a test waits, faster than real time.
        self.time = LoopingCall(lambda: self.clock.advance(0.05))
        self.time.start(0.001, now=False)

    def tearDown(self) -> None:
        self.time.stop()
        self.controller.close("the test is over")
        self.worker.close("the test is over")
        self.clock.advance(0)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def cut(self) -> None:
        self.network.cut()

    @returns_deferred
    async def until(self, condition: Callable[[], Any]) -> None:
        for _ in range(1000):
            if condition():
                return
            await deferLater(reactor, 0.001)
        raise AssertionError("it never came")


class MemoryPromisesControllerDials(MemoryPromises):
    """The controller dials."""

    worker_dials = False
