"""Terminal traffic beside everything else that a link carries."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock, LoopingCall
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer_only

from garcon.contract.limits import (
    FRAGMENT,
    KIB,
    MIB,
    TERMINAL_QUEUE_BYTES,
    TERMINAL_QUEUE_MESSAGES,
)
from garcon.contract.rpc import Lane, produced
from garcon.contract.runs import SessionStarted
from garcon.contract.terminals import (
    TerminalChunk,
    TerminalEvent,
    TerminalGone,
    TerminalNotification,
    TerminalOutput,
    TerminalTakenOver,
)
from garcon.errors import LimitExceeded
from garcon.link import frames
from garcon.link.interfaces import ILinkEvents
from garcon.link.memory import MemoryDialler, MemoryNetwork, memory_pair
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
        chunk = TerminalChunk(sequence=self.offered + 1, data="o" * size)
        is_admitted = self.worker.send_terminal(notice(TerminalOutput(chunks=[chunk])))
        self.offered += is_admitted
        return is_admitted

    def write_on(self) -> None:
        """Write all that is admitted: a command that never ends its output."""
        while self.write():
            pass

    def arrived(self, binding: str = TERMINAL) -> list[int]:
        """Return the numbers of what has come of a terminal or a run, in the order it came."""
        if binding != TERMINAL:
            return [seq for name, seq, _ in self.controller_owner.produced if name == binding]
        events = [told.event for told in self.controller_owner.told]
        return [c.sequence for e in events if isinstance(e, TerminalOutput) for c in e.chunks]


def notice(event: TerminalEvent) -> TerminalNotification:
    """Return an event as it crosses."""
    return TerminalNotification(attachment_id="a", event=event)


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


class Events(Terminals):
    """What is said of terminals, both ways."""

    def test_their_order(self) -> None:
        """Is kept, whatever kind they are of, also with the replies of calls before and after."""
        asked = self.captured(self.controller).call(ECHO, Text("before"))
        order: list[str] = []
        asked.addCallback(lambda _: order.append("reply"))
        self.controller_owner.on_event = order.append
        self.clock.advance(0)
        self.write()
        self.worker.send_terminal(notice(TerminalTakenOver(replacement_client_id="c")))
        self.worker.send_terminal(notice(TerminalGone()))
        self.pass_time(0.1)
        kinds = [type(told.event) for told in self.controller_owner.told]
        self.assertEqual(kinds, [TerminalOutput, TerminalTakenOver, TerminalGone])
        self.assertEqual(order, ["reply", "told", "told", "told"])

    def test_what_is_no_output(self) -> None:
        """Is admitted as a call would be, when output is not."""
        wire = self.captured(self.worker).primary._wire
        wire.set_writable(False)
        self.assertFalse(self.write())
        self.assertTrue(self.worker.send_terminal(notice(TerminalGone())))
        wire.set_writable(True)
        self.pass_time(0.1)
        self.assertEqual([told.event for told in self.controller_owner.told], [TerminalGone()])

    def test_one_that_no_record_holds(self) -> None:
        """Is refused, as it would leave in pieces, between which others pass; the largest goes."""
        around = len(frames.terminal(frames.encode(self.output_of(0))))
        self.assertTrue(self.worker.send_terminal(self.output_of(FRAGMENT - around)))
        self.assertRaises(
            LimitExceeded, self.worker.send_terminal, self.output_of(FRAGMENT - around + 1)
        )
        self.pass_time(0.1)
        self.assertEqual(len(self.controller_owner.told), 1)

    def output_of(self, size: int) -> TerminalNotification:
        return notice(TerminalOutput(chunks=[TerminalChunk(sequence=1, data="x" * size)]))

    def test_the_controllers_word(self) -> None:
        """On what was taken and on what is not wanted needs no call and no place."""
        self.controller.take_terminals({"a": 3, "b": 4})
        self.controller.take_terminals({})
        self.controller.detach_terminal("a")
        self.pass_time(0.1)
        self.assertEqual(self.worker_owner.taken, [{"a": 3, "b": 4}])
        self.assertEqual(self.worker_owner.detached, ["a"])

    def test_without_a_session(self) -> None:
        """Nothing is sent, and nothing fails."""
        self.network.cut()
        self.assertFalse(self.write())
        self.assertFalse(self.worker.send_terminal(notice(TerminalGone())))
        self.controller.take_terminals({"a": 1})
        self.controller.detach_terminal("a")

    def test_an_owner_without_terminals(self) -> None:
        """Is told nothing: the peer has broken the protocol."""
        for link, owner, say in (
            (self.controller, PlainOwner(), lambda: self.worker.send_terminal(gone())),
            (self.worker, PlainOwner(), lambda: self.controller.detach_terminal("a")),
            (self.worker, PlainOwner(), lambda: self.controller.take_terminals({"a": 1})),
        ):
            before, link._events = link._events, owner
            say()
            self.pass_time(0.1)
            self.assertEqual([cause for _, cause in owner.lost], ["protocol-error"])
            link._events = before
            self.pass_time(20)
            self.assertEqual(self.controller.bulk_phase, "ready")


def gone() -> TerminalNotification:
    return notice(TerminalGone())


@implementer_only(ILinkEvents)
class PlainOwner(Owner):
    """One that knows no terminals."""


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
