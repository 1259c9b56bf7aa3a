"""What agents remember is read behind a link as on this machine, piece by piece."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred, succeed
from zope.interface import implementer
from zope.interface.verify import verifyObject

from garcon.contract.messages import AssistantMessage
from garcon.contract.runs import ExecutorDescription, NativeRow, NativeSession, SessionPoint
from garcon.deferreds import Waiters
from garcon.errors import GarconError
from garcon.runtime.interfaces import INativeDrift, INativeHistory, TakeRows
from garcon.test.controller.bridge.test_over_a_link import OverALink
from garcon.test.controller.executors.test_over_cuts import FaultyNetwork
from garcon.testing.fake_runtime import AT, FakeRuntime
from garcon.worker.serving.history import IDLE, READERS

SESSION = NativeSession("scripted", "session", "/projects/p")


def piece(*texts: str) -> list[NativeRow]:
    """Return rows with these texts."""
    return [AssistantMessage(timestamp=AT, content=text) for text in texts]


@implementer(INativeDrift, INativeHistory)
@define(eq=False)
class Remembering(FakeRuntime):
    """An executor whose agent's memory comes in pieces, each when the one before was taken."""

    pieces: list[list[NativeRow]] = field(factory=list)
    failure: Exception | None = None
    """How reading ends, where not well."""
    given: int = 0
    open: int = 0
    sessions: list[NativeSession] = field(factory=list)
    holds: Waiters[None] | None = None
    """What the first piece waits for."""

    def describe(self) -> Deferred[ExecutorDescription]:
        return succeed(
            ExecutorDescription("fake", self.base, ["scripted"], history_agent_ids=["scripted"])
        )

    def keeps_history(self, agent_id: str) -> bool:
        return agent_id == "scripted"

    def has_moved_on(self, point: SessionPoint) -> Deferred[bool]:
        return succeed(point == SessionPoint(SESSION, "old"))

    def read_history(self, session: NativeSession, take: TakeRows) -> Deferred[None]:
        self.sessions.append(session)
        d: Deferred[None] = Deferred.fromCoroutine(self._read(take))
        return d

    async def _read(self, take: TakeRows) -> None:
        self.open += 1
        try:
            if self.holds is not None:
                await self.holds.wait()
            for one in self.pieces:
                self.given += 1
                await take(one)
            if self.failure is not None:
                raise self.failure
        finally:
            self.open -= 1


class HistoryCase(OverALink):
    """A worker whose agents remember something."""

    def setUp(self) -> None:
        super().setUp()
        self.history: Any = self.executors.runtime(self.executor_id)
        self.taken: list[list[str]] = []
        self.slow: Deferred[None] | None = None

    def make_worker(self, process: str = "worker-runtime") -> Any:
        if not isinstance(self.network, FaultyNetwork):
            self.network = FaultyNetwork()
        self.there = self.runtime = Remembering()
        return super().make_worker(process)

    def take(self, rows: Sequence[NativeRow]) -> Deferred[None]:
        """Take a piece, at once or as slowly as the test wants."""
        self.taken.append([row.content for row in rows if isinstance(row, AssistantMessage)])
        return succeed(None) if self.slow is None else self.slow

    def read(self, take: TakeRows | None = None) -> Deferred[None]:
        """Begin to read."""
        d: Deferred[None] = self.history.read_history(SESSION, take or self.take)
        self.settle()
        return d

    def failed(self, d: Deferred[None]) -> tuple[str, bool]:
        """Return how it failed."""
        error = self.failureResultOf(d, GarconError).value
        assert isinstance(error, GarconError)
        return error.code, error.retryable


class HistoryTests(HistoryCase):
    """Behind a link."""

    def test_the_interface(self) -> None:
        """Is implemented, and known of each agent since the session was installed."""
        verifyObject(INativeHistory, self.history)
        self.assertTrue(self.history.keeps_history("scripted"))
        self.assertFalse(self.history.keeps_history("another"))

    def test_whether_a_session_was_gone_on_with(self) -> None:
        """Is asked of the worker; one that cannot tell says no."""
        verifyObject(INativeDrift, self.history)
        for anchor, moved_on in (("old", True), ("new", False)):
            d = self.history.has_moved_on(SessionPoint(SESSION, anchor))
            self.settle()
            self.assertEqual(self.successResultOf(d), moved_on)

    def test_all_of_it_in_order(self) -> None:
        """Piece by piece; an empty history has none."""
        self.successResultOf(self.read())
        self.assertEqual(self.taken, [])
        self.there.pieces = [piece("a", "b"), piece("c")]
        self.successResultOf(self.read())
        self.assertEqual(self.taken, [["a", "b"], ["c"]])
        self.assertEqual(self.there.sessions, [SESSION] * 2)
        assert self.serving._history is not None
        self.assertEqual((self.there.open, len(self.serving._history)), (0, 0))

    def test_no_further_than_it_is_taken(self) -> None:
        """While a piece is being taken the worker reads no more than the next one."""
        self.there.pieces = [piece(str(n)) for n in range(5)]
        self.slow = Deferred()
        d = self.read()
        self.assertEqual((self.taken, self.there.given), ([["0"]], 1))
        slow, self.slow = self.slow, None
        slow.callback(None)
        self.settle()
        self.successResultOf(d)
        self.assertEqual(len(self.taken), 5)

    def test_what_the_agent_says_of_its_failure(self) -> None:
        """Comes through, also whether it may go better later."""
        for retryable in (True, False):
            self.there.pieces = [piece("a")]
            self.there.failure = GarconError("HISTORY_LOAD_FAILED", "no", retryable=retryable)
            self.assertEqual(self.failed(self.read()), ("HISTORY_LOAD_FAILED", retryable))
        self.there.failure = ValueError("ours")
        self.assertEqual(self.failed(self.read()), ("HISTORY_LOAD_FAILED", True))
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)

    def test_cancelled(self) -> None:
        """The worker reads no further."""
        self.there.holds = Waiters()
        d = self.read()
        self.assertEqual(self.there.open, 1)
        d.cancel()
        self.failureResultOf(d, CancelledError)
        self.settle()
        self.assertEqual(self.there.open, 0)

    def test_a_piece_that_cannot_be_taken(self) -> None:
        """Ends the reading on both sides, and fails as the taking did."""
        self.there.pieces = [piece("a"), piece("b")]

        def refuse(rows: Sequence[NativeRow]) -> Deferred[None]:
            raise GarconError("HISTORY_LOAD_FAILED", "too long", status=422)

        self.assertEqual(self.failed(self.read(refuse)), ("HISTORY_LOAD_FAILED", False))
        self.settle()
        self.assertEqual(self.there.open, 0)

    def test_a_session_that_is_lost(self) -> None:
        """What was read is of no use, and nobody goes on reading."""
        self.there.holds = Waiters()
        d = self.read()
        assert isinstance(self.network, FaultyNetwork)
        self.network.cut()
        self.settle()
        self.assertEqual(self.failed(d), ("HISTORY_LOAD_FAILED", True))
        self.assertEqual(self.there.open, 0)
        self.there.holds = None
        self.clock.pump([0.5] * 40)
        self.there.pieces = [piece("again")]
        self.successResultOf(self.read())
        self.assertEqual(self.taken, [["again"]])

    def test_readers_are_bounded(self) -> None:
        """As many as may be; one more is refused, and may be tried later."""
        self.there.holds = Waiters()
        reading = [self.read() for _ in range(READERS)]
        for d in reading:
            self.assertNoResult(d)
        self.assertEqual(self.failed(self.read()), ("HISTORY_LOAD_FAILED", True))
        for d in reading:
            d.cancel()
            self.failureResultOf(d, CancelledError)
        self.settle()
        self.assertEqual(self.there.open, 0)

    def test_one_that_nobody_goes_on_with(self) -> None:
        """Is closed after a while, and a piece asked for later is refused."""
        self.there.pieces = [piece("a"), piece("b")]
        self.slow = Deferred()
        d = self.read()
        self.assertEqual(self.there.open, 1)
        self.clock.pump([1.0] * int(IDLE + 2))
        self.assertEqual(self.there.open, 0)
        self.slow.callback(None)
        self.settle()
        self.assertEqual(self.failed(d), ("HISTORY_LOAD_FAILED", True))
