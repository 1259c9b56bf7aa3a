"""Bounded under pressure from either side: floods that are answered, abandoned calls, slow links,
and machines that slept.
"""

from __future__ import annotations

from typing import Any

import msgspec
from attrs import define, field
from twisted.internet.defer import CancelledError
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.limits import (
    CALLS,
    FRAGMENT,
    KIB,
    MIB,
    TERMINAL_QUEUE_BYTES,
    TERMINAL_QUEUE_MESSAGES,
)
from garcon.contract.rpc import Lane
from garcon.link.fragments import WHOLE
from garcon.link.liveness import Beat, Heart, Liveness
from garcon.link.memory import MemoryDialler, MemoryNetwork, MemoryWire, memory_pair
from garcon.link.outbox import MOST_SMALL
from garcon.link.queue import Item, Kind, SendBudget
from garcon.link.settings import LinkSettings
from garcon.test.link.cast import (
    ECHO,
    EXECUTOR,
    HELD,
    METHODS,
    ControllerSide,
    Owner,
    Text,
    WorkerSide,
)


class Case(SynchronousTestCase):
    """A linked pair."""

    settings = LinkSettings()

    def setUp(self) -> None:
        self.clock = Clock()
        self.controller_owner, self.worker_owner = Owner(), Owner()
        self.worker_side = WorkerSide()
        self.controller, self.worker, self.network = memory_pair(
            self.clock,
            self.controller_owner,
            self.worker_owner,
            dict(ControllerSide().handlers()),
            self.worker_side.handlers(),
            executor_id=EXECUTOR,
            settings=self.settings,
            methods=METHODS,
        )
        self.clock.advance(0)
        captured: Any = self.controller.current()
        self.near = captured.primary
        far: Any = self.worker.current()
        self.far = far.primary

    def tearDown(self) -> None:
        self.controller.close("over")
        self.worker.close("over")
        self.clock.advance(0)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def inject(self, **fields: Any) -> None:
        """Let the worker send the controller a frame of the test's own."""
        self.far._wire.send(self.far._cipher.seal(WHOLE + msgspec.json.encode(fields)))


class Floods(Case):
    """A peer that asks much and takes nothing."""

    def setUp(self) -> None:
        super().setUp()
        self.near._wire.set_writable(False)

    def test_pings(self) -> None:
        """However many come, one pong waits."""
        before = self.near._outbox.queued_messages
        for _ in range(1000):
            self.inject(type="ping")
        self.assertEqual(self.near._outbox.queued_messages, before + 1)
        self.near._wire.set_writable(True)
        self.inject(type="ping")
        self.assertEqual(self.near._outbox.queued_messages, 0)

    def ask(self, seq: int) -> None:
        self.inject(
            type="request",
            id=f"c1de4c62-9c2d-4d0c-8f0a-{seq:012}",
            seq=seq,
            method="unheard.of",
            request=None,
        )

    def test_calls_that_are_refused(self) -> None:
        """With as many refusals waiting as there can be calls, no more is read until half of them
        have left; nothing is lost.
        """
        self.assertEqual(MOST_SMALL, CALLS)
        for seq in range(1, MOST_SMALL + 1):
            self.ask(seq)
        self.assertTrue(self.near._wire.is_reading)
        self.ask(MOST_SMALL + 1)
        self.assertFalse(self.near._wire.is_reading)
        for seq in range(MOST_SMALL + 2, MOST_SMALL + 1001):
            self.ask(seq)
        self.assertEqual(self.near._outbox.queued_messages, MOST_SMALL + 1)
        self.near._wire.set_writable(True)
        self.assertTrue(self.near._wire.is_reading)
        self.assertEqual(self.near._outbox.queued_messages, 0)
        self.assertEqual(self.near._serving._numbers._expected, MOST_SMALL + 1001)
        self.assertEqual(self.controller_owner.lost, [])

    def test_calls_that_are_abandoned(self) -> None:
        """A call that is cancelled before it left leaves nothing behind, however often."""
        for _ in range(10_000):
            d = self.near.call(HELD, Text("x" * 100))
            d.cancel()
            self.failureResultOf(d, CancelledError)
        queue = self.near._outbox._queue
        self.assertTrue(len(queue._whole) < 100, len(queue._whole))
        self.assertEqual((queue.queued_bytes, queue.messages), (0, 0))
        d = self.near.call(ECHO, Text("still"))
        self.near._wire.set_writable(True)
        self.assertEqual(self.successResultOf(d), Text("still"))


class TerminalOutput(Case):
    """Terminal output waits outside the queue while that holds much."""

    def budget(self, size: int, messages: int) -> SendBudget:
        budget = SendBudget()
        budget.take(Lane.PRIMARY, Item(b"", Kind.ORDINARY, size))
        budget.messages = messages
        return budget

    def admits(self, budget: SendBudget, size: int = 1) -> bool:
        return budget.admits(Lane.PRIMARY, Kind.TERMINAL, size)

    def test_thresholds(self) -> None:
        """Below 2 MiB and below 256 messages, each in one record."""
        self.assertEqual((TERMINAL_QUEUE_BYTES, TERMINAL_QUEUE_MESSAGES), (2 * MIB, 256))
        self.assertTrue(self.admits(self.budget(2 * MIB - 1, 255)))
        self.assertFalse(self.admits(self.budget(2 * MIB, 255)))
        self.assertFalse(self.admits(self.budget(2 * MIB - 1, 256)))
        self.assertTrue(self.admits(SendBudget(), FRAGMENT))
        self.assertFalse(self.admits(SendBudget(), FRAGMENT + 1))

    def test_only_while_the_socket_is_writable(self) -> None:
        """A socket that has enough takes none; other texts may queue."""
        self.far._wire.set_writable(False)
        self.assertFalse(self.far.send_frame(b"{}", Kind.TERMINAL))
        self.assertEqual(self.far._outbox.queued_messages, 0)
        self.assertTrue(self.far.send_frame(b'{"type":"pong"}', Kind.SMALL))
        self.far._wire.set_writable(True)
        self.assertTrue(self.far.send_frame(b'{"type":"pong"}', Kind.TERMINAL))


class Sleep(SynchronousTestCase):
    """A machine that was suspended tests its links at once."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.slept = 100.0
        self.heart = Heart(self.clock, lambda: self.slept)
        self.liveness = Liveness(5.0, 15.0, 0.0)
        self.woken_at: list[float] = []
        self.beats: list[Beat] = []

    def beat(self, now: float) -> None:
        self.beats.append(self.liveness.check(now, 0))

    def woken(self, now: float) -> None:
        self.woken_at.append(now)
        self.liveness.test(now)

    def test_every_lane_is_told_once(self) -> None:
        """At the first beat after waking; inaccuracies of the two clocks are no sleep."""
        self.heart.add(self)
        self.slept += 0.99
        self.clock.advance(1.0)
        self.assertEqual(self.woken_at, [])
        self.slept += 1.0
        self.clock.advance(1.0)
        self.clock.advance(1.0)
        self.assertEqual(self.woken_at, [2.0])
        self.heart.remove(self)

    def test_a_link_that_does_not_answer_is_given_up(self) -> None:
        """Five seconds after waking, however fresh the last word looks."""
        self.heart.add(self)
        self.liveness.heard = self.liveness.spoke = 0.9
        self.slept += 3600.0
        self.clock.pump([1.0] * 5)
        self.assertNotIn(Beat.DEAD, self.beats)
        self.clock.advance(1.0)
        self.assertIs(self.beats[-1], Beat.DEAD)
        self.heart.remove(self)

    def test_a_link_that_answers_lives(self) -> None:
        """The test is over with the first word."""
        self.heart.add(self)
        self.slept += 3600.0
        self.clock.advance(1.0)
        self.liveness.heard = 1.1
        self.clock.pump([1.0] * 8)
        self.assertNotIn(Beat.DEAD, self.beats)
        self.heart.remove(self)


class SleepingLink(Case):
    """The same for a whole link."""

    def setUp(self) -> None:
        self.slept = 0.0
        self.settings = LinkSettings(slept=lambda: self.slept)
        super().setUp()

    def test_a_dead_link_is_replaced_soon(self) -> None:
        """Both lanes are asked at once, and what does not answer is over after five seconds."""
        self.clock.pump([1.0] * 2)
        self.network.hold()
        self.slept += 7200.0
        before = self.near._wire.sent
        self.clock.advance(1.0)
        self.assertEqual(self.near._wire.sent, before + 1)
        self.clock.pump([1.0] * 5)
        self.assertEqual([cause for _, cause in self.controller_owner.lost], ["liveness-timeout"])

    def test_a_living_link_stays(self) -> None:
        """It answers, and nothing changes."""
        self.slept += 7200.0
        self.clock.pump([1.0] * 10)
        self.assertEqual(self.controller_owner.lost + self.worker_owner.lost, [])


@define(eq=False)
class SlowNetwork(MemoryNetwork):
    """Carries so many bytes a second each way, and holds `room` of them before a sender hears that
    it has sent enough.
    """

    clock: Clock = field(kw_only=True)
    rate: int = field(kw_only=True)
    room: int = field(kw_only=True)
    _free_at: dict[MemoryWire, float] = field(factory=dict)

    def post(self, wire: MemoryWire | None, what: str, record: bytes) -> None:
        if wire is None or what != "record":
            super().post(wire, what, record)
            return
        now = self.clock.seconds()
        arrives = max(now, self._free_at.get(wire, 0.0)) + len(record) / self.rate
        self._free_at[wire] = arrives
        self.clock.callLater(arrives - now, self._arrive, wire, record)
        sender = wire.peer
        assert sender is not None
        sender.buffered = int((arrives - now) * self.rate)
        if sender.buffered >= self.room:
            sender.is_writable = False

    def _arrive(self, wire: MemoryWire, record: bytes) -> None:
        super().post(wire, "record", record)
        sender = wire.peer
        assert sender is not None
        waits = max(0.0, self._free_at[wire] - self.clock.seconds())
        sender.buffered = 0 if sender.is_writable else int(waits * self.rate)
        if not sender.is_writable and sender.buffered < self.room // 2:
            sender.buffered = 0
            sender.set_writable(True)


class SlowLinks(SynchronousTestCase):
    """12 KiB in a second, with a socket that takes half a MiB before it says enough."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.network = SlowNetwork(clock=self.clock, rate=12 * KIB, room=512 * KIB)
        self.owners = Owner(), Owner()
        self.worker_side = WorkerSide()
        self.controller, self.worker, _ = memory_pair(
            self.clock,
            *self.owners,
            dict(ControllerSide().handlers()),
            self.worker_side.handlers(),
            executor_id=EXECUTOR,
            methods=METHODS,
        )
        dialler = self.worker._dial
        assert isinstance(dialler, MemoryDialler)
        dialler.network = self.network
        self.pass_time(2)
        self.assertEqual(self.controller.bulk_phase, "ready")

    def tearDown(self) -> None:
        self.controller.close("over")
        self.worker.close("over")

    def pass_time(self, seconds: float) -> None:
        self.clock.pump([0.05] * int(seconds / 0.05))

    def test_a_large_message_keeps_both_lanes(self) -> None:
        """One MiB up takes a minute and a half and its echo as long; nobody is given up, though no
        ping of the sender's gets through.
        """
        captured: Any = self.controller.current()
        d = captured.call(ECHO, Text("x" * MIB), deadline=None)
        self.pass_time(80)
        self.assertNoResult(d)
        self.pass_time(110)
        self.assertEqual(len(self.successResultOf(d).text), MIB)
        self.assertEqual(self.owners[0].lost + self.owners[1].lost, [])

    def test_in_both_directions_at_once(self) -> None:
        """Fragments are signs of life."""
        near: Any = self.controller.current()
        first = near.call(ECHO, Text("x" * MIB), deadline=None)
        self.pass_time(100)
        second = near.call(ECHO, Text("y" * MIB), deadline=None)
        self.pass_time(200)
        for d in (first, second):
            self.assertEqual(len(self.successResultOf(d).text), MIB)
        self.assertEqual(self.owners[0].lost + self.owners[1].lost, [])
