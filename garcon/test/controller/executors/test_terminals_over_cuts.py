"""Terminals over links that are lost, replaced and cut at every record (server.md C; control.md
J.8).

The links are real, encryption included; the network, the clock and the shells are the test's.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.python.failure import Failure

from garcon.contract import rpc
from garcon.contract.limits import KIB, MIB, TERMINAL_INPUT, TERMINAL_WINDOW
from garcon.contract.terminals import (
    NOT_ATTACHED,
    OUTCOME_UNKNOWN,
    RUNTIME_CHANGED,
    UNAVAILABLE,
    TerminalChunk,
    TerminalDetach,
    TerminalDetached,
    TerminalInput,
)
from garcon.errors import CallError, GarconError
from garcon.test.controller.executors.terminal_cast import ALICE, LinkedCase
from garcon.test.controller.executors.test_over_cuts import FaultyNetwork
from garcon.testing.fake_pty import FakePtys, RecordingTerminalSink, fake_terminals


class OverCuts(LinkedCase):
    """A worker whose network can be cut."""

    def make_network(self) -> FaultyNetwork:
        """See `LinkedCase`."""
        self.faults = FaultyNetwork()
        return self.faults

    def lose(self, seconds: float = 1.0) -> None:
        """Be without a link for a while, and then with one again."""
        self.faults.is_down = True
        self.faults.cut()
        self.pass_time(seconds)
        self.faults.is_down = False
        self.pass_time(40)
        self.assertEqual(self.executors.availability(self.executor_id), "ready")

    def pass_time(self, seconds: float) -> None:
        self.clock.pump([0.25] * int(seconds * 4))


class Survival(OverCuts):
    """What a lost link costs."""

    def test_the_shell_goes_on(self) -> None:
        """Under the same id and process; what it said meanwhile comes with the next attachment,
        once.
        """
        info = self.new()
        before = self.listed()
        attachment_id, sink, _ = self.attach(info.session_id)
        self.say("one")
        self.faults.is_down = True
        self.faults.cut()
        self.settle()
        end = sink.events[-1]
        assert isinstance(end, TerminalDetached)
        self.assertEqual((end.code, sink.text), (UNAVAILABLE, "one"))
        self.fails(self.terminals.input(attachment_id, "x"), NOT_ATTACHED)
        self.fails(self.terminals.list(ALICE), UNAVAILABLE)
        self.fails(self.create_call(), UNAVAILABLE)
        self.ptys.last.say("two")
        self.faults.is_down = False
        self.pass_time(40)
        after = self.listed()
        self.assertEqual(after.terminal_runtime_id, before.terminal_runtime_id)
        self.assertNotEqual(after.attachment_epoch, before.attachment_epoch)
        self.assertEqual([t.session_id for t in after.terminals], [info.session_id])
        self.assertEqual(after.terminals[0].attachment_status, "detached")
        _, again, _ = self.attach(
            info.session_id, after_sequence=1, attachment_epoch=after.attachment_epoch
        )
        self.settle()
        self.assertEqual(again.text, "two")
        self.assertEqual((self.ptys.last.ends, len(self.ptys.opened)), (0, 1))

    def test_an_epoch_of_before(self) -> None:
        """Is over: whoever attaches by an old list has to look again."""
        info = self.new()
        epoch = self.listed().attachment_epoch
        self.lose()
        _, d = self.attach_call(info.session_id, RecordingTerminalSink(), attachment_epoch=epoch)
        self.fails(d, UNAVAILABLE)

    def test_a_controller_that_starts_again(self) -> None:
        """Finds the terminal as it was, and takes it over from nobody."""
        info = self.new()
        self.attach(info.session_id)
        self.say("before")
        self.worker.close("the controller is gone")
        self.settle()
        self.worker = self.make_worker()
        self.pass_time(40)
        self.assertEqual(self.listed().terminals[0].latest_output_sequence, 1)
        _, sink, attached = self.attach(info.session_id, client_id="another browser")
        self.settle()
        self.assertEqual((attached.generation, sink.text), (2, "before"))

    def test_a_worker_that_starts_again(self) -> None:
        """Is another process, without any terminal, and nothing is started that was meant for the
        one before.
        """
        info = self.new()
        runtime_id = self.listed().terminal_runtime_id
        self.worker.close("restart")
        self.successResultOf(self.service.stop())
        self.ptys = FakePtys()
        self.service = fake_terminals(self.clock, self.ptys, self.base)
        self.service.runtime_id = "00000000-0000-4000-8000-00000000aaaa"
        self.worker_runtime.terminals = self.service
        self.worker = self.make_worker("another process")
        self.pass_time(40)
        self.assertEqual(self.ids(), [])
        self.fails(self.create_call(expected_terminal_runtime_id=runtime_id), RUNTIME_CHANGED)
        self.assertEqual(self.ptys.opened, [])
        self.assertIsNone(self.result(self.terminate_call(info.session_id)))

    def test_a_lost_create(self) -> None:
        """Is not known to have happened, shows in the list, and is neither repeated nor ended."""
        self.hold_threads()
        d = self.create_call(request_id="lost")
        self.settle()
        self.faults.is_down = True
        self.faults.cut()
        self.fails(d, OUTCOME_UNKNOWN)
        self.release_threads()
        self.faults.is_down = False
        self.pass_time(40)
        (session_id,) = self.ids()
        self.assertEqual((len(self.ptys.opened), self.ptys.last.ends), (1, 0))
        again = self.new(request_id="lost")
        self.assertEqual((again.session_id, len(self.ptys.opened)), (session_id, 1))

    def test_a_create_that_is_given_up(self) -> None:
        """By its caller: the same."""
        self.hold_threads()
        d = self.create_call(request_id="lost")
        self.settle()
        d.cancel()
        self.settle()
        self.failureResultOf(d, CancelledError)
        self.release_threads()
        self.settle()
        self.assertEqual(len(self.ids()), 1)

    def test_a_lost_terminate(self) -> None:
        """Is not known to have happened; the same request again says what became of it."""
        info = self.new()
        self.ptys.last.ending = Deferred()
        d = self.terminate_call(info.session_id, request_id="lost")
        self.settle()
        self.faults.is_down = True
        self.faults.cut()
        self.fails(d, OUTCOME_UNKNOWN)
        self.ptys.last.ending.callback(None)
        self.faults.is_down = False
        self.pass_time(40)
        last = self.result(self.terminate_call(info.session_id, request_id="lost"))
        assert last is not None
        self.assertEqual(last.session_id, info.session_id)

    def hold_threads(self) -> None:
        """Let the worker's threads stand still."""
        self.pool.held = True

    def release_threads(self) -> None:
        self.pool.held = False
        while len(self.pool):
            self.pool.run_next()


class EveryCut(OverCuts):
    """One conversation with a terminal, cut once at each record of its way, and taken up again by a
    client that attaches from where it had come.
    """

    turns = 10

    def converse(self, cut_after: int | None) -> tuple[str, bytes]:
        """Return what the client has got and what was typed."""
        info = self.new()
        got: list[TerminalChunk] = []
        pty = self.ptys.last
        self.faults.cut_after = cut_after
        said = typed = 0
        attachment_id, sink = "", RecordingTerminalSink()
        sink.events.append(TerminalDetached(code=UNAVAILABLE, message="not attached yet"))
        for _ in range(60):
            if sink.is_over or self.executors.availability(self.executor_id) != "ready":
                self.pass_time(40)
                after = got[-1].sequence if got else 0
                sink = RecordingTerminalSink()
                attachment_id, d = self.attach_call(info.session_id, sink, after_sequence=after)
                results: list[Any] = []
                d.addBoth(results.append)
                self.settle()
                (attached,) = results
                if isinstance(attached, Failure):
                    attached.trap(GarconError)
                    sink.events.append(TerminalDetached(code=UNAVAILABLE, message="not attached"))
                    continue
                self.assertFalse(attached.is_truncated)
            if said < 8:
                said += 1
                pty.say(f"{said}" + "x" * 3 * KIB)
            if typed < 8:
                typed += 1
                self.terminals.input(attachment_id, f"{typed};").addErrback(lambda _: None)
            self.settle()
            got += [c for c in sink.chunks if not got or c.sequence > got[-1].sequence]
            numbers = [c.sequence for c in sink.chunks]
            self.assertEqual(numbers, sorted(set(numbers)))
            if said == 8 and len(got) == 8 and typed == 8:
                break
        self.assertEqual([c.sequence for c in got], list(range(1, 9)))
        result = "".join(c.data[0] for c in got), b"".join(pty.typed)
        self.faults.cut_after = None
        self.terminals.detach(attachment_id)
        self.result(self.terminate_call(info.session_id))
        return result

    def test_cut_once(self) -> None:
        """Wherever the cut comes, all output arrives once and in order, and what is typed arrives
        in order, at most once each.
        """
        before = self.faults.records
        self.assertEqual(self.converse(None), ("12345678", b"1;2;3;4;5;6;7;8;"))
        records = self.faults.records - before
        self.assertGreater(records, 20)
        for place in range(records):
            got, typed = self.converse(place)
            self.assertEqual(got, "12345678", place)
            keys = [int(key) for key in typed.decode().split(";") if key]
            self.assertEqual(keys, sorted(set(keys)), place)


class OnTheLink(OverCuts):
    """What terminals take of the link."""

    def handler(self, method: rpc.Method, request: Any) -> Deferred[Any]:
        """Call the worker past the façade."""
        captured = self.controller.current()
        assert captured is not None
        return captured.call(method, request)

    def test_the_worker_knows_the_window(self) -> None:
        """It sends no more than that to somebody who takes none of it, and the rest waits there."""
        info = self.new()
        attachment_id, sink, _ = self.attach(info.session_id)
        for _ in range(MIB // (16 * KIB)):
            self.say("x" * 16 * KIB)
        self.assertEqual(len(sink.text), TERMINAL_WINDOW)
        self.take(attachment_id, sink)
        self.assertEqual(len(sink.text), MIB)

    def test_detaching_costs_no_call(self) -> None:
        """With every call of the link taken it arrives all the same."""
        info = self.new()
        attachment_id, _, _ = self.attach(info.session_id)
        self.ptys.last.block()
        captured = self.controller.current()
        assert captured is not None
        calls: list[Deferred[Any]] = []
        number = 0
        while not (calls and calls[-1].called):
            number += 1
            typed = TerminalInput(attachment_id=attachment_id, number=number, data="x")
            calls.append(captured.call(rpc.TERMINAL_INPUT, typed))
        self.failureResultOf(calls.pop(), CallError)
        self.settle()
        self.terminals.detach(attachment_id)
        self.settle()
        (info,) = self.successResultOf(self.service.list(ALICE)).terminals
        self.assertEqual(info.attachment_status, "detached")
        for d in calls:
            self.successResultOf(d)
        self.assertEqual(self.ptys.last.typed, [])

    def test_input_waits_for_a_place(self) -> None:
        """While the link takes no more calls, and is typed whole and in order after that."""
        info = self.new()
        attachment_id, _, _ = self.attach(info.session_id)
        captured = self.controller.current()
        assert captured is not None
        other = self.new()
        blocked, _, _ = self.attach(other.session_id)
        self.ptys.last.block()
        calls: list[Deferred[Any]] = []
        while not (calls and calls[-1].called):
            typed = TerminalInput(attachment_id=blocked, number=len(calls) + 1, data="x")
            calls.append(captured.call(rpc.TERMINAL_INPUT, typed))
        self.failureResultOf(calls.pop(), CallError)
        text = "".join(f"{n:07}\n" for n in range(TERMINAL_INPUT // 8))
        waiting = [self.terminals.input(attachment_id, text) for _ in range(2)]
        self.settle()
        for d in waiting:
            self.assertNoResult(d)
        self.ptys.last.read_on()
        self.pass_time(1)
        for d in (*waiting, *calls):
            self.successResultOf(d)
        self.assertTrue(b"".join(self.ptys.opened[0].typed) == (text * 2).encode())

    def test_a_piece_that_is_missing(self) -> None:
        """Is never passed over: the worker types nothing that follows it."""
        info = self.new()
        attachment_id, _, _ = self.attach(info.session_id)
        for number, data in ((2, "b"), (3, "c"), (0, "z")):
            typed = TerminalInput(attachment_id=attachment_id, number=number, data=data)
            d = self.handler(rpc.TERMINAL_INPUT, typed)
            self.settle()
            error = self.failureResultOf(d, CallError).value
            assert isinstance(error, CallError)
            self.assertEqual((error.code, error.outcome), (NOT_ATTACHED, "rejected"))
        d = self.handler(
            rpc.TERMINAL_INPUT, TerminalInput(attachment_id=attachment_id, number=1, data="a")
        )
        self.settle()
        self.successResultOf(d)
        self.assertEqual(self.ptys.last.typed, [b"a"])

    def test_detaching_by_a_call(self) -> None:
        """Is there too."""
        info = self.new()
        attachment_id, _, _ = self.attach(info.session_id)
        d = self.handler(rpc.DETACH_TERMINAL, TerminalDetach(attachment_id=attachment_id))
        self.settle()
        self.assertEqual(self.successResultOf(d), rpc.Nothing())
        self.assertEqual(self.listed().terminals[0].attachment_status, "detached")

    def test_many_terminals_share_it(self) -> None:
        """Floods of some leave room for the keys of another and for every other call."""
        floods = []
        for _ in range(4):
            info = self.new()
            floods.append((*self.attach(info.session_id)[:2], self.ptys.last))
        quiet = self.new()
        key, sink, _ = self.attach(quiet.session_id)
        for _ in range(8):
            for attachment_id, taker, pty in floods:
                pty.say("x" * 64 * KIB)
                if taker.chunks:
                    self.terminals.taken(attachment_id, taker.chunks[-1].sequence)
        done = self.terminals.input(key, "k")
        self.ptys.last.say("k")
        asked = self.executors.runtime(self.executor_id).running()
        self.settle()
        self.successResultOf(done)
        self.successResultOf(asked)
        self.assertEqual(sink.text, "k")
        for attachment_id, taker, _ in floods:
            self.take(attachment_id, taker)
            self.assertEqual(len(taker.text), 8 * 64 * KIB)

    def test_output_for_nobody(self) -> None:
        """Which was on its way when its attachment ended here, is nothing."""
        info = self.new()
        attachment_id, sink, _ = self.attach(info.session_id)
        self.faults.hold()
        self.ptys.last.say("x")
        self.terminals.detach(attachment_id)
        self.faults.release()
        self.settle()
        self.assertEqual(sink.events, [])
        self.assertEqual(self.executors.availability(self.executor_id), "ready")

    def test_attaching_that_is_given_up(self) -> None:
        """Leaves no owner behind."""
        info = self.new()
        sink = RecordingTerminalSink()
        self.faults.hold()
        _, d = self.attach_call(info.session_id, sink)
        d.cancel()
        self.faults.release()
        self.settle()
        self.failureResultOf(d, CancelledError)
        self.say("x")
        self.assertEqual(sink.events, [])
        self.assertEqual(self.listed().terminals[0].attachment_status, "detached")
