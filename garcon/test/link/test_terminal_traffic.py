"""Terminal traffic beside everything else that a link carries.

There are no terminals yet, so the test has notifications of its own: producer frames of a binding
that stands for a terminal, admitted as terminal output is.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock, LoopingCall
from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.limits import (
    KIB,
    MIB,
    TERMINAL_QUEUE_BYTES,
    TERMINAL_QUEUE_MESSAGES,
)
from garcon.contract.rpc import Lane, produced
from garcon.contract.runs import SessionStarted
from garcon.link import frames
from garcon.link.memory import MemoryDialler, MemoryNetwork, memory_pair
from garcon.link.queue import Kind
from garcon.test.link.cast import (
    ASK,
    ECHO,
    EITHER,
    EXECUTOR,
    METHODS,
    ControllerSide,
    Owner,
    Text,
    WorkerSide,
)
from garcon.test.link.test_pressure import SlowNetwork

RATE, ROOM = MIB, 128 * KIB
TERMINAL, RUN = "terminal", "run"
OUTPUT = 4 * KIB


class Terminals(SynchronousTestCase):
    """A linked pair, and output of a terminal on the worker."""

    network: MemoryNetwork
    offered: int
    output: LoopingCall

    def setUp(self) -> None:
        self.clock = Clock()
        self.controller_owner, self.worker_owner = Owner(), Owner()
        self.controller, self.worker, network = memory_pair(
            self.clock,
            self.controller_owner,
            self.worker_owner,
            dict(ControllerSide().handlers()),
            WorkerSide().handlers(),
            executor_id=EXECUTOR,
            methods=METHODS,
        )
        dialler = self.worker._dial
        assert isinstance(dialler, MemoryDialler)
        self.network = dialler.network = self.make_network(network)
        self.pass_time(1)
        self.assertEqual(self.controller.bulk_phase, "ready")
        self.offered = 0
        self.output = LoopingCall(self.write_on)
        self.output.clock = self.clock

    def make_network(self, network: MemoryNetwork) -> MemoryNetwork:
        """Return what carries the records."""
        return network

    def tearDown(self) -> None:
        if self.output.running:
            self.output.stop()
        self.controller.close("over")
        self.worker.close("over")
        self.clock.advance(10)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def pass_time(self, seconds: float) -> None:
        self.clock.pump([0.005] * int(seconds / 0.005))

    def captured(self, link: Any) -> Any:
        found = link.current()
        assert found is not None
        return found

    def write(self, size: int = OUTPUT) -> bool:
        """Offer the next piece of output; return whether it was admitted."""
        session = self.captured(self.worker).primary
        frame = produced(TERMINAL, SessionStarted(agent_session_id="o" * size))
        text = frames.producer(self.offered + 1, frames.encode(frame))
        is_admitted: bool = session.send_frame(text, Kind.TERMINAL)
        self.offered += is_admitted
        return is_admitted

    def write_on(self) -> None:
        """Write all that is admitted: a command that never ends its output."""
        while self.write():
            pass

    def arrived(self, binding: str = TERMINAL) -> list[int]:
        """Return the numbers of what has come of a binding, in the order it came."""
        return [seq for name, seq, _ in self.controller_owner.produced if name == binding]


class Admission(Terminals):
    """Output has to wait outside when much else waits; all of a turn's burst is still in the
    queue here, with a socket that would take more.
    """

    def ask(self, size: int) -> Deferred[Any]:
        d: Deferred[Any] = self.captured(self.worker).call(ASK, Text("x" * size), deadline=None)
        return d

    def test_messages(self) -> None:
        """With 255 waiting one more may join, with 256 none."""
        self.assertTrue(self.captured(self.worker).primary._wire.is_writable)
        d = self.ask(MIB)
        for seq in range(1, TERMINAL_QUEUE_MESSAGES - 1):
            frame = produced(RUN, SessionStarted(agent_session_id="s"))
            self.assertTrue(self.worker.send_producer(seq, frame))
        self.assertEqual(self.worker._shared.budget.messages, TERMINAL_QUEUE_MESSAGES - 1)
        self.assertTrue(self.write())
        self.assertFalse(self.write())
        self.pass_time(0.1)
        self.assertEqual(len(self.successResultOf(d).text), MIB)
        self.assertEqual(self.arrived(), [1])
        self.assertEqual(len(self.arrived(RUN)), TERMINAL_QUEUE_MESSAGES - 2)

    def test_bytes(self) -> None:
        """Below 2 MiB it may join, however little is missing; then none may."""
        budget = self.worker._shared.budget
        first = self.ask(MIB)
        second = self.ask(TERMINAL_QUEUE_BYTES - budget.bytes - (budget.bytes - MIB) - 1)
        self.assertEqual(budget.bytes, TERMINAL_QUEUE_BYTES - 1)
        self.assertTrue(self.write())
        self.assertFalse(self.write())
        self.pass_time(0.1)
        self.assertTrue(self.write())
        for d in (first, second):
            self.successResultOf(d)
        self.assertEqual(self.arrived(), [1, 2])

    def test_a_full_socket(self) -> None:
        """It takes none, though nothing waits; what others have to say is queued."""
        wire = self.captured(self.worker).primary._wire
        wire.set_writable(False)
        self.assertFalse(self.write())
        d = self.ask(1)
        self.assertTrue(
            self.worker.send_producer(1, produced(RUN, SessionStarted(agent_session_id="s")))
        )
        self.assertFalse(self.write())
        wire.set_writable(True)
        self.assertTrue(self.write())
        self.successResultOf(d)
        self.assertEqual((self.arrived(), self.arrived(RUN)), ([1], [1]))

    def test_bulk_that_does_not_move(self) -> None:
        """What waits for bulk counts too; once bulk has gone, output goes on."""
        bulk = self.captured(self.worker).bulk
        bulk._wire.set_writable(False)
        d = self.captured(self.controller).call(EITHER, Text("x" * 2 * MIB), lane=Lane.BULK)
        self.pass_time(0.1)
        self.assertTrue(self.worker._shared.budget.bulk_bytes >= TERMINAL_QUEUE_BYTES)
        self.assertFalse(self.write())
        bulk._wire.close()
        self.failureResultOf(d)
        self.assertTrue(self.write())
        self.assertEqual(self.controller_owner.lost + self.worker_owner.lost, [])


class Beside(Terminals):
    """Endless output over sockets that take a MiB in a second and hold 128 KiB."""

    def make_network(self, network: MemoryNetwork) -> MemoryNetwork:
        """See `Terminals`."""
        return SlowNetwork(clock=self.clock, rate=RATE, room=ROOM)

    def taken(self, *calls: Deferred[Any]) -> list[float]:
        """Return how long each of some calls takes, in seconds."""
        began = self.clock.seconds()
        times = [0.0] * len(calls)

        def ended(result: Any, place: int) -> None:
            times[place] = self.clock.seconds() - began

        for place, d in enumerate(calls):
            d.addCallback(ended, place)
        while not all(times):
            self.pass_time(0.005)
            self.assertLess(self.clock.seconds() - began, 30)
        return times

    def everything(self) -> list[float]:
        """Have a bit of everything else; return how long each of it took."""
        near, far = self.captured(self.controller), self.captured(self.worker)
        last = Deferred[None]()
        count = len(self.arrived(RUN))

        def heard(name: str) -> None:
            if len(self.arrived(RUN)) == count + 20 and not last.called:
                last.callback(None)

        self.controller_owner.on_event = heard
        for seq in range(1, 21):
            frame = produced(RUN, SessionStarted(agent_session_id="s" * 1000))
            self.assertTrue(self.worker.send_producer(seq, frame))
        return self.taken(
            far.call(ASK, Text("may I?")),
            near.call(ECHO, Text("stop")),
            last,
            near.call(EITHER, Text("x" * MIB), lane=Lane.BULK),
            near.call(ECHO, Text("y" * 256 * KIB)),
        )

    def test_nothing_else_waits_for_it(self) -> None:
        """Others wait for what the socket holds at most: a question, an answer, a run's rows, and
        a large answer alike.  Bulk does not wait at all.
        """
        alone = self.everything()
        self.output.start(0.005)
        self.pass_time(1)
        beside = self.everything()
        names = ("question", "answer", "rows", "bulk", "large")
        late = {n: b - a for n, a, b in zip(names, alone, beside, strict=True)}
        self.assertLess(late.pop("bulk"), 0.01)
        for name, by in late.items():
            self.assertLess(by, 1.5 * ROOM / RATE, name)
        self.output.stop()
        self.pass_time(1)
        self.assertEqual(self.arrived(), list(range(1, self.offered + 1)))
        self.assertGreater(self.offered * OUTPUT, MIB)

    def test_losing_bulk_leaves_it_alone(self) -> None:
        """It goes on while bulk is lost and made anew, and nothing of it is missing."""
        self.output.start(0.005)
        self.pass_time(0.5)
        lost = self.captured(self.controller).call(EITHER, Text("x" * MIB), lane=Lane.BULK)
        self.pass_time(0.2)
        before = self.offered
        self.captured(self.worker).bulk._wire.close()
        self.pass_time(0.5)
        self.failureResultOf(lost)
        self.assertGreater((self.offered - before) * OUTPUT, 0.4 * RATE)
        self.pass_time(10)
        self.assertEqual(self.controller.bulk_phase, "ready")
        self.output.stop()
        self.pass_time(1)
        self.assertEqual(self.arrived(), list(range(1, self.offered + 1)))
        self.assertEqual(self.controller_owner.lost + self.worker_owner.lost, [])
