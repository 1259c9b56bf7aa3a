"""A linked pair in one process, and strangers who dial the same listener."""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from garcon.link.link import WorkerLink
from garcon.link.memory import MemoryDialler, MemoryNetwork, memory_pair
from garcon.link.settings import LinkSettings
from garcon.test.link.cast import (
    EXECUTOR,
    METHODS,
    OTHER_SECRET,
    ControllerSide,
    Owner,
    WorkerSide,
)


class PairCase(SynchronousTestCase):
    """A controller that listens and a worker that has yet to dial it; `owner` hears the former."""

    settings = LinkSettings()

    def setUp(self) -> None:
        self.clock = Clock()
        self.owner = Owner()
        self.controller, self.worker, self.network = memory_pair(
            self.clock,
            self.owner,
            Owner(),
            dict(ControllerSide().handlers()),
            dict(WorkerSide().handlers()),
            executor_id=EXECUTOR,
            settings=self.settings,
            methods=METHODS,
        )

    def tearDown(self) -> None:
        self.controller.close("over")
        self.worker.close("over")
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def stranger(self) -> WorkerLink:
        """Let a worker with another secret dial the controller once."""
        stranger = WorkerLink(
            self.clock,
            OTHER_SECRET,
            "other-runtime",
            Owner(),
            {},
            MemoryDialler(MemoryNetwork(), self.controller),
            settings=self.settings,
            methods=METHODS,
        )
        stranger.start()
        self.clock.advance(0)
        self.addCleanup(stranger.close, "over")
        return stranger
