"""The bulk lane's life cycle over time: deadlines, back-off, fences and slots (control.md J.6)."""

from __future__ import annotations

from typing import Any

from attrs import define
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.rpc import Continuity, Lane, Method
from garcon.errors import CallError
from garcon.link import frames
from garcon.link.lanes import Lanes
from garcon.link.memory import MemoryNetwork, MemoryWire, memory_pair
from garcon.link.settings import LinkSettings
from garcon.test.link.cast import (
    ECHO,
    EXECUTOR,
    METHODS,
    ControllerSide,
    Owner,
    Text,
    WorkerSide,
)

JOURNALED = Method("test.slow", Text, Text, lane=Lane.BULK, served_by="worker")
SESSION = Method(
    "test.page", Text, Text, lane=Lane.BULK, served_by="worker", continuity=Continuity.SESSION
)


@define(eq=False)
class Network(MemoryNetwork):
    """May carry so many records on each connection that is made from now on."""

    lets_pass: int | None = None
    before: int = 0

    def post(self, wire: MemoryWire | None, what: str, record: bytes) -> None:
        """Drop records of limited connections when they have had theirs."""
        if self.lets_pass is not None and what == "record" and wire in self.wires[self.before :]:
            if self.lets_pass == 0:
                return
            self.lets_pass -= 1
        super().post(wire, what, record)

    def limit(self, lets_pass: int) -> None:
        """Limit the next connection."""
        self.lets_pass, self.before = lets_pass, len(self.wires)


class Case(SynchronousTestCase):
    """A linked pair whose bulk is ready."""

    worker_dials = True
    settings = LinkSettings()

    def setUp(self) -> None:
        self.clock = Clock()
        self.owner = Owner()
        self.ends: list[Deferred[Any]] = []
        self.network = Network()
        handlers = WorkerSide().handlers() | {
            JOURNALED.name: self.stubborn,
            SESSION.name: self.stubborn,
        }
        self.controller, self.worker, _ = memory_pair(
            self.clock,
            self.owner,
            Owner(),
            dict(ControllerSide().handlers()),
            handlers,
            executor_id=EXECUTOR,
            worker_dials=self.worker_dials,
            settings=self.settings,
            methods=METHODS | {m.name: m for m in (JOURNALED, SESSION)},
            network=self.network,
        )
        self.prepared: list[float] = []
        self.owner.on_event = self.told
        self.clock.advance(0)
        self.assert_ready()

    def told(self, name: str) -> None:
        if name == "preparing":
            self.prepared.append(self.clock.seconds())

    def stubborn(self, request: Text, context: Any) -> Deferred[Any]:
        """Take no notice of a cancellation."""
        end: Deferred[Any] = Deferred()
        self.ends.append(end)

        async def run() -> Any:
            try:
                await Deferred()
            finally:
                await end

        return Deferred.fromCoroutine(run())

    def tearDown(self) -> None:
        self.controller.close("over")
        self.worker.close("over")
        self.assertEqual(self.clock.getDelayedCalls(), [])

    @property
    def primary(self) -> Any:
        captured: Any = self.controller.current()
        return captured.primary

    @property
    def bulk(self) -> Any:
        captured: Any = self.controller.current()
        return captured.bulk

    def assert_ready(self) -> None:
        self.assertEqual((self.controller.bulk_phase, self.worker.bulk_phase), ("ready", "ready"))

    def lose_bulk(self) -> None:
        self.bulk.end("session-retired", "a test")
        self.assertEqual(self.controller.bulk_phase, "reconnecting")

    def wait(self, seconds: float) -> None:
        """Let time pass in steps short enough for a living link."""
        end = self.clock.seconds() + seconds
        while self.clock.seconds() < end - 0.5:
            self.clock.advance(0.5)
        self.clock.advance(max(0.0, end - self.clock.seconds()))

    def swallow(self, kind: type) -> None:
        """Have the worker miss the frames of one kind."""
        take = self.worker._primary_frame

        def taking(session: Any, frame: Any) -> None:
            if type(frame) is not kind:
                take(session, frame)

        self.worker._primary_frame = taking  # type: ignore[method-assign]

    def hear_again(self) -> None:
        del self.worker._primary_frame


class Deadlines(Case):
    """Preparing, connecting and activating have five seconds each; primary never notices."""

    def assert_limited(self, phase: str, stage: str = "session") -> None:
        """The phase lasts just less than five seconds more, and the next attempt succeeds."""
        self.assertEqual(self.controller.bulk_phase, phase)
        self.wait(4.99)
        self.assertEqual(self.controller.bulk_phase, phase)
        before = self.controller.diagnostics().bulk.causes.get("handshake-timeout", 0)
        self.clock.advance(0.0100001)
        self.assertEqual(self.controller.bulk_phase, "reconnecting")
        told = self.controller.diagnostics().bulk
        assert told.last_error is not None
        self.assertEqual(told.causes["handshake-timeout"], before + 1)
        self.assertEqual(
            (told.last_error.kind, told.last_error.stage), ("handshake-timeout", stage)
        )
        self.assertIn(phase, told.last_error.message)
        self.assertEqual(self.owner.lost, [])
        self.network.lets_pass = None

    def test_preparing(self) -> None:
        """A worker that does not answer."""
        self.wait(10.0)
        self.swallow(frames.BulkPrepare)
        self.lose_bulk()
        self.clock.advance(0)
        self.assert_limited("preparing")
        self.hear_again()
        self.wait(5.1)
        self.assert_ready()

    def test_connecting(self) -> None:
        """A handshake that stays under way; the phase of it is told where this side takes part."""
        for lets_pass, stage in ((0, "noise"), (2, "hello")):
            self.wait(10.0)
            self.lose_bulk()
            self.network.limit(lets_pass)
            self.clock.advance(0)
            self.clock.advance(0)
            known = stage if not self.worker_dials else "session"
            self.assert_limited("connecting", known)
            self.wait(5.1)
            self.assert_ready()

    def test_activating(self) -> None:
        """A worker that never says that bulk is active."""
        self.wait(10.0)
        self.swallow(frames.BulkActivate)
        self.lose_bulk()
        self.clock.advance(0)
        self.clock.advance(0)
        self.assert_limited("activating")
        self.hear_again()
        self.wait(5.1)
        self.assert_ready()


class DeadlinesControllerDials(Deadlines):
    """The same the other way round."""

    worker_dials = False


class BackOff(Case):
    """Bulk's delays are counted for themselves, by the controller."""

    def delays(self, count: int, lived: float = 0.0) -> list[float]:
        """Lose bulk over and over; return how long the next attempts took to begin."""
        found = []
        for _ in range(count):
            self.wait(lived)
            self.lose_bulk()
            began = self.clock.seconds()
            self.wait(0.0)
            while self.prepared[-1] < began or self.controller.bulk_phase != "ready":
                self.clock.advance(0.5)
            found.append(self.prepared[-1] - began)
        return found

    def test_the_delays(self) -> None:
        """The first attempt came with primary; then 5, 5, 10 five times, and 30 for ever."""
        self.assertEqual(self.delays(9), [5, 5, 10, 10, 10, 10, 10, 30, 30])
        self.assertEqual(self.owner.lost, [])

    def test_ten_seconds_reset_them(self) -> None:
        """Just less does not."""
        self.assertEqual(self.delays(3), [5, 5, 10])
        self.assertEqual(self.delays(1, 9.99), [10])
        self.assertEqual(self.delays(1, 10.001), [0])
        self.assertEqual(self.delays(2), [5, 5])

    def test_the_workers_word_comes_first(self) -> None:
        """Bulk's end is counted as one, with its life, also when primary tells of it earlier than
        its own socket.
        """
        self.assertEqual(self.delays(2), [5, 5])
        self.wait(10.0)
        bulk = self.bulk
        began = self.clock.seconds()
        self.worker._say(frames.BulkLost(bulk.session_id))
        self.assertFalse(bulk.is_open)
        self.assertEqual(self.controller.diagnostics().bulk.causes["socket-closed"], 1)
        self.clock.advance(0)
        self.clock.advance(0)
        self.assertEqual(self.prepared[-1], began)
        self.assert_ready()

    def test_primary_counts_for_itself(self) -> None:
        """Bulk's failures do not slow primary, and a new primary begins bulk's delays anew."""
        self.delays(8)
        self.network.cut()
        began = self.clock.seconds()
        self.clock.advance(0)
        self.clock.advance(0)
        self.assertIsNotNone(self.controller.current())
        self.assertEqual(self.prepared[-1], began)
        self.assert_ready()
        self.assertEqual(self.delays(1), [5])


class BackOffControllerDials(BackOff):
    """The same the other way round."""

    worker_dials = False


class Fences(Case):
    """Primary's end takes with it whatever bulk was about to do."""

    def lose_primary(self) -> None:
        """Lose primary, and have nobody reach anybody afterwards."""
        self.network.held = True
        for link in (self.controller, self.worker):
            captured: Any = link.current()
            captured.primary.end("session-retired", "a test")

    def openings(self, link: Lanes) -> list[Any]:
        return [o for o in link._openings if o.lane is Lane.BULK]

    def test_a_handshake_under_way(self) -> None:
        """In Noise and in hello, whoever dialled: the attempt is given up in the same turn."""
        for lets_pass in (0, 2, 3, 4):
            self.wait(10.0)
            self.lose_bulk()
            self.network.limit(lets_pass)
            self.clock.advance(0)
            self.clock.advance(0)
            self.assertEqual(self.controller.bulk_phase, "connecting")
            links = (self.controller, self.worker)
            dialler = self.worker if self.worker_dials else self.controller
            self.assertEqual(len(self.openings(dialler)), 1)
            under_way = [o for link in links for o in self.openings(link)]
            # A listener knows that it is bulk once it has read the hello.
            self.assertEqual(len(under_way), 2 if lets_pass > 2 else 1)
            self.lose_primary()
            self.assertEqual([o for link in links for o in self.openings(link)], [])
            self.assertTrue(all(o.is_over for o in under_way))
            self.assertEqual([link.bulk_phase for link in links], ["offline", "offline"])
            self.assertIsNone(self.controller._bulk_timer)
            self.network.lets_pass = None
            self.network.release()
            self.wait(5.1)
            self.assert_ready()

    def test_a_retry_that_waits(self) -> None:
        """Its timer is gone at once, and nothing begins without a primary."""
        self.lose_bulk()
        self.assertIsNotNone(self.controller._bulk_timer)
        before = len(self.prepared)
        self.lose_primary()
        self.assertIsNone(self.controller._bulk_timer)
        self.wait(60.0)
        self.assertEqual(len(self.prepared), before)
        self.assertEqual(self.controller.bulk_phase, "offline")
        self.assertIsNone(self.controller.diagnostics().bulk.redial_seconds)

    def test_a_step_under_way(self) -> None:
        """Preparing and activating are fenced too; their deadlines tell of nothing later."""
        for kind in (frames.BulkPrepare, frames.BulkActivate):
            self.wait(10.0)
            self.swallow(kind)
            self.lose_bulk()
            self.clock.advance(0)
            self.clock.advance(0)
            self.assertIn(self.controller.bulk_phase, ("preparing", "activating"))
            self.lose_primary()
            self.assertIsNone(self.controller._bulk_timer)
            self.assertIsNone(self.controller._bulk)
            self.assertEqual(self.controller.bulk_phase, "offline")
            self.hear_again()
            self.network.release()
            self.wait(5.1)
            self.assert_ready()
            self.assertNotIn("handshake-timeout", self.controller.diagnostics().bulk.causes)


class FencesControllerDials(Fences):
    """The same the other way round."""

    worker_dials = False


class Slots(Case):
    """A handler that was cancelled holds its slot until it has settled, whatever lane is there."""

    def failed(self, d: Deferred[Any]) -> CallError:
        error = self.failureResultOf(d, CallError).value
        assert isinstance(error, CallError)
        return error

    def fill(self, method: Method) -> None:
        """Have all of bulk's slots held by handlers whose callers have gone."""
        for _ in range(192):
            d = self.bulk.call(method, Text("t"))
            d.addErrback(lambda f: None)
            d.cancel()
        self.assertEqual(self.worker._shared.served.slots.bulk_used, 192)
        self.assertEqual(self.controller._shared.outgoing.bulk_used, 0)

    def assert_held(self) -> None:
        """The new bulk lane has room only as they settle; primary has its own."""
        primary = self.primary
        old = self.bulk
        self.lose_bulk()
        self.wait(5.0)
        self.assert_ready()
        self.assertIsNot(self.bulk, old)
        self.assertIs(self.primary, primary)
        slots = self.worker._shared.served.slots
        self.assertEqual(slots.bulk_used, 192)
        error = self.failed(self.bulk.call(SESSION, Text("more")))
        self.assertEqual((error.code, error.outcome), ("EXECUTOR_BUSY", "not-dispatched"))
        echoed = self.primary.call(ECHO, Text("t"))
        self.assertEqual(self.successResultOf(echoed), Text("t"))
        self.ends[0].callback(None)
        self.assertEqual(slots.bulk_used, 191)
        taken = self.bulk.call(SESSION, Text("one"))
        self.assertNoResult(taken)
        self.assertEqual(self.failed(self.bulk.call(SESSION, Text("two"))).code, "EXECUTOR_BUSY")
        taken.addErrback(lambda f: None)
        taken.cancel()
        for end in self.ends[1:]:
            end.callback(None)
        self.assertEqual((slots.bulk_used, slots.used), (0, 0))

    def test_calls_of_the_session(self) -> None:
        """Cancelled before their lane went."""
        self.fill(SESSION)
        self.assert_held()

    def test_journaled_calls(self) -> None:
        """Cancelled before their lane went."""
        self.fill(JOURNALED)
        self.assert_held()

    def test_calls_that_the_loss_cancels(self) -> None:
        """A session's calls are cancelled by the lane's end, which frees nothing either."""
        held = [self.bulk.call(SESSION, Text("t")) for _ in range(192)]
        self.assert_held()
        self.assertEqual({self.failed(d).outcome for d in held}, {"unknown"})
