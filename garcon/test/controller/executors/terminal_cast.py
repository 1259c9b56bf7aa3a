"""The cast of the tests of terminals, on this machine and behind a link alike."""

from __future__ import annotations

import os
from typing import Any, TypeVar

from attrs import define
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from garcon.contract.terminals import (
    STATUSES,
    TerminalAttached,
    TerminalAttachment,
    TerminalCreation,
    TerminalInfo,
    TerminalNotification,
    TerminalRenaming,
    TerminalSize,
    TerminalsListed,
    TerminalTermination,
)
from garcon.errors import GarconError
from garcon.link.interfaces import ITerminalEvents
from garcon.link.link import WorkerLink
from garcon.link.memory import MemoryDialler, MemoryNetwork
from garcon.runtime.interfaces import ITerminalHost, ITerminals
from garcon.runtime.terminals.service import Terminals
from garcon.test.controller.bridge.test_over_a_link import OverLinks, WorkerSide
from garcon.test.controller.executors.cast import ExecutorsCase
from garcon.testing.fake_pty import FakePty, FakePtys, RecordingTerminalSink, fake_terminals
from garcon.testing.fake_runtime import FakeRuntime
from garcon.testing.held_terminals import HeldTerminals
from garcon.testing.inline_threads import InlinePool
from garcon.worker.serving.serving import Serving

T = TypeVar("T")
ALICE, BOB = "alice", "bob"


def size(number: int) -> TerminalSize:
    return TerminalSize(cols=number, rows=number)


class Asking:
    """How the tests ask; a case says where the terminals are."""

    clock: Clock
    terminals: ITerminals
    ptys: FakePtys
    base: str
    counter = 0

    # What trial's case has.
    assertEqual: Any
    assertNotEqual: Any
    assertTrue: Any
    assertFalse: Any
    assertIsNone: Any
    assertIsInstance: Any
    assertGreater: Any
    successResultOf: Any
    failureResultOf: Any
    assertNoResult: Any

    def settle(self) -> None:
        """Let everything that is due happen."""
        raise NotImplementedError

    # -- asking

    def result(self, d: Deferred[T]) -> T:
        self.settle()
        result: T = self.successResultOf(d)
        return result

    def fails(self, d: Deferred[Any], code: str, status: int | None = None) -> None:
        self.settle()
        error = self.failureResultOf(d, GarconError).value
        status = STATUSES[code] if status is None else status
        self.assertEqual((error.code, error.status), (code, status), error.text)
        self.assertEqual(error.retryable, status >= 500)

    def fresh(self, prefix: str) -> str:
        self.counter += 1
        return f"{prefix}-{self.counter}"

    def create_call(self, who: str = ALICE, **more: Any) -> Deferred[TerminalInfo]:
        fields = {"request_id": self.fresh("create"), **more}
        return self.terminals.create(TerminalCreation(principal_key=who, **fields))

    def new(self, who: str = ALICE, **more: Any) -> TerminalInfo:
        return self.result(self.create_call(who, **more))

    def terminate_call(
        self, session_id: str, who: str = ALICE, request_id: str | None = None
    ) -> Deferred[TerminalInfo | None]:
        wanted = TerminalTermination(
            principal_key=who,
            session_id=session_id,
            request_id=request_id or self.fresh("terminate"),
        )
        return self.terminals.terminate(wanted)

    def rename_call(self, info: TerminalInfo, title: str | None) -> Deferred[TerminalInfo]:
        return self.terminals.rename(
            TerminalRenaming(principal_key=ALICE, session_id=info.session_id, title=title)
        )

    def listed(self, who: str = ALICE) -> TerminalsListed:
        return self.result(self.terminals.list(who))

    def ids(self, who: str = ALICE) -> list[str]:
        return [info.session_id for info in self.listed(who).terminals]

    def attach_call(
        self, session_id: str, sink: RecordingTerminalSink, **more: Any
    ) -> tuple[str, Deferred[TerminalAttached]]:
        fields: dict[str, Any] = {
            "principal_key": ALICE,
            "attachment_id": self.fresh("attachment"),
            "client_id": "tab",
            "after_sequence": 0,
            "intent": "restore",
            **more,
        }
        wanted = TerminalAttachment(session_id=session_id, **fields)
        return wanted.attachment_id, self.terminals.attach(wanted, sink)

    def attach(
        self, session_id: str, **more: Any
    ) -> tuple[str, RecordingTerminalSink, TerminalAttached]:
        sink = RecordingTerminalSink()
        attachment_id, d = self.attach_call(session_id, sink, **more)
        return attachment_id, sink, self.result(d)

    def say(self, text: str, pty: FakePty | None = None) -> None:
        (pty or self.ptys.last).say(text)
        self.settle()

    def take(self, attachment_id: str, sink: RecordingTerminalSink) -> None:
        """Take all that comes, until no more does."""
        count = -1
        while len(sink.chunks) > count:
            count = len(sink.chunks)
            if count:
                self.terminals.taken(attachment_id, sink.chunks[-1].sequence)
            self.settle()


class LocalCase(Asking, SynchronousTestCase):
    """Terminals of this machine."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.base = os.path.realpath(self.mktemp())
        os.makedirs(self.base)
        self.ptys = FakePtys()
        self.service = fake_terminals(self.clock, self.ptys, self.base)
        self.terminals = self.service

    def tearDown(self) -> None:
        stopped = self.service.stop()
        self.clock.advance(20)
        self.successResultOf(stopped)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def settle(self) -> None:
        self.clock.pump([0.01] * 3)


class HeldCase(LocalCase):
    """The double whose answers to attaching can be held back, while it holds none."""

    def setUp(self) -> None:
        super().setUp()
        self.terminals = HeldTerminals(self.service)


@implementer(ITerminalHost)
@define(eq=False)
class RuntimeWithTerminals(FakeRuntime):
    """A worker's runtime."""

    terminals: Any = None


@implementer(ITerminalEvents)
class TerminalWorkerSide(WorkerSide):
    """A worker's owner of the link that passes on what is said of terminals."""

    def terminal_received(self, notification: TerminalNotification) -> None:
        raise AssertionError("a worker gets none")

    def terminal_detached(self, attachment_id: str) -> None:
        assert self.serving is not None and self.serving.terminals is not None
        self.serving.terminals.detached(attachment_id)

    def terminals_taken(self, taken: dict[str, int]) -> None:
        assert self.serving is not None and self.serving.terminals is not None
        self.serving.terminals.taken(taken)


class LinkedCase(Asking, OverLinks):
    """Terminals of a worker behind a whole link, in memory."""

    turns = 30

    def setUp(self) -> None:
        super().setUp()
        self.base = os.path.realpath(self.mktemp())
        os.makedirs(self.base)
        self.network = self.make_network()
        self.ptys = FakePtys()
        self.executor_id = self.create_executor()
        self.worker_runtime = RuntimeWithTerminals()
        self.pool = InlinePool()
        self.service: Terminals = fake_terminals(self.clock, self.ptys, self.base, self.pool)
        self.worker_runtime.terminals = self.service
        self.worker = self.make_worker()
        self.settle()
        runtime = self.executors.runtime(self.executor_id)
        assert ITerminalHost.providedBy(runtime)
        self.terminals: ITerminals = runtime.terminals

    def tearDown(self) -> None:
        self.worker.close("over")
        stopped = self.service.stop()
        stopped_executors = self.executors.stop()
        self.clock.pump([0.5] * 40)
        self.successResultOf(stopped)
        self.successResultOf(stopped_executors)

    def make_network(self) -> MemoryNetwork:
        """Return what carries the records."""
        return MemoryNetwork()

    def create_executor(self) -> str:
        return ExecutorsCase.create(self)

    def make_worker(self, process: str = "worker-runtime") -> WorkerLink:
        """Start a worker's link to whatever runs in its process."""
        record = self.executors.registry.get(self.executor_id)
        assert record is not None
        side = TerminalWorkerSide()
        side.serving = self.serving = Serving(
            self.clock,
            self.worker_runtime,
            lambda seq, frame: worker.send_producer(seq, frame),
            tell=lambda notification: worker.send_terminal(notification),
        )
        worker = WorkerLink(
            self.clock,
            record.secret,
            process,
            side,
            self.serving.handlers(),
            MemoryDialler(self.network, self.controller),
        )
        worker.start()
        return worker

    def settle(self) -> None:
        """Let everything that is due happen."""
        self.clock.pump([0.01] * self.turns)
