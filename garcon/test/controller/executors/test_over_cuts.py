"""Whole turns over links that are cut, at every record and for any time (control.md J.8, J.10).

The links are real, encryption included; the network, the clock and the agent are the test's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, succeed
from zope.interface import implementer

from garcon.contract.limits import GRACE, LAUNCH_WAIT, MIB, NEWER_GRACE
from garcon.contract.messages import AssistantMessage, TranscriptNotice
from garcon.contract.runs import (
    Launched,
    PermissionRequested,
    PermissionResponse,
    RowProduced,
    RunEnded,
    RunEvent,
)
from garcon.errors import CallError, GarconError
from garcon.link.causes import Cause
from garcon.link.lanes import Lanes
from garcon.link.memory import MemoryNetwork, MemoryWire
from garcon.runtime.interfaces import IExecutorRuntime, IRunSink
from garcon.test.controller.bridge.test_over_a_link import OverALink
from garcon.test.controller.executors.test_remote import launch
from garcon.worker.serving.bindings import OUTPUT_LOST

FINISHED = RunEnded(outcome="finished")
HOUR = 3600.0


@define(eq=False)
class FaultyNetwork(MemoryNetwork):
    """Can be down, and can cut itself after so many more records."""

    is_down: bool = False
    cut_after: int | None = None
    records: int = 0

    def post(self, wire: MemoryWire | None, what: str, record: bytes) -> None:
        if what == "record":
            self.records += 1
            if self.cut_after is not None:
                self.cut_after -= 1
                if self.cut_after < 0:
                    self.cut_after = None
                    self.cut()
                    return
        super().post(wire, what, record)

    def connect(self, dialler: MemoryWire, target: Lanes) -> None:
        if self.is_down and not dialler.is_over:
            dialler.is_over = True
            dialler.user.wire_closed(Cause.CONNECT_FAILED, "the network is down")
        else:
            super().connect(dialler, target)


@implementer(IRunSink)
@define(eq=False)
class Reader:
    """The controller's side of a run: keeps what comes and answers the agent's question."""

    runtime: IExecutorRuntime
    decides: bool = True
    events: list[RunEvent] = field(factory=list)
    answers: list[Any] = field(factory=list)

    def room(self) -> Deferred[None]:
        return succeed(None)

    def event(self, event: RunEvent) -> None:
        self.events.append(event)
        if self.decides and isinstance(event, PermissionRequested):
            response = PermissionResponse(
                run_id="run-1",
                permission_occurrence_id=event.permission_occurrence_id,
                allow=True,
            )
            self.runtime.respond(response).addBoth(self.answers.append)

    @property
    def texts(self) -> list[str]:
        """What was said, notices in brackets."""
        found = []
        for event in self.events:
            if isinstance(event, RowProduced) and isinstance(event.message, AssistantMessage):
                found.append(event.message.content)
            elif isinstance(event, RowProduced) and isinstance(event.message, TranscriptNotice):
                found.append("[lost]")
        return found

    @property
    def ends(self) -> list[RunEnded]:
        return [event for event in self.events if isinstance(event, RunEnded)]


class Cuts(OverALink):
    """One worker, ready, over a network with faults."""

    def setUp(self) -> None:
        super().setUp()
        self.remote = self.executors.runtime(self.executor_id)
        self.reader = Reader(self.remote)

    def make_worker(self, process: str = "worker-runtime") -> Any:
        if not isinstance(self.network, FaultyNetwork):
            self.network = FaultyNetwork()
        return super().make_worker(process)

    @property
    def faults(self) -> FaultyNetwork:
        assert isinstance(self.network, FaultyNetwork)
        return self.network

    def lose(self, seconds: float = 1.0) -> None:
        """Cut the link and let it come back after so long."""
        self.faults.is_down = True
        self.faults.cut()
        self.clock.pump([seconds / 100] * 100)
        self.faults.is_down = False

    def back(self) -> None:
        """Let the link come back: the longest time between two attempts is half a minute."""
        self.clock.pump([0.5] * 64)
        self.assertEqual(self.executors.availability(self.executor_id), "ready")

    def launched(self) -> Any:
        d = self.remote.launch(launch(), self.reader)
        self.settle(0.1)
        self.assertEqual(self.successResultOf(d), Launched("run-1"))
        return self.runtime.last

    def known(self, error: GarconError | None) -> tuple[str, str]:
        assert isinstance(error, CallError)
        return error.code, error.outcome


class EveryRecord(Cuts):
    """A turn with a launch, rows, a question and an end, cut once at each record of its way."""

    def play(self) -> None:
        """Play the turn to its end, however long it takes."""
        self.runtime.holds_launches = True
        d = self.remote.launch(launch(), self.reader)
        results: list[Any] = []
        d.addBoth(results.append)
        said = 0
        for tick in range(800):
            self.clock.advance(0.05)
            if not self.runtime.runs:
                continue
            run = self.runtime.last
            if not run.launched.called:
                if tick % 4 == 3:
                    run.begin()
            elif run.is_over:
                pass
            elif said < 4 or self.runtime.responses:
                run.say(f"row {said}")
                said += 1
                if said == 4:
                    run.ask("o-1")
                elif said == 8:
                    run.finish()
            if self.reader.ends:
                break
        self.assertEqual(results, [Launched("run-1")])

    def assertWhole(self, why: str) -> None:
        """Everything happened, once, and in order."""
        self.assertEqual(self.reader.texts, [f"row {n}" for n in range(8)], why)
        self.assertEqual(self.reader.events[-1], FINISHED, why)
        self.assertEqual(len(self.reader.events), 10, why)
        self.assertEqual(len(self.runtime.runs), 1, why)
        self.assertEqual(
            (self.reader.answers, len(self.runtime.responses)), (["confirmed"], 1), why
        )
        self.assertEqual(self.runtime.aborted, [], why)

    def test_cut_once(self) -> None:
        """Wherever the cut comes, the turn is whole."""
        before = self.faults.records
        self.play()
        self.assertWhole("not cut at all")
        for at in range(self.faults.records - before + 1):
            self.setUp()
            self.faults.cut_after = at
            self.play()
            self.assertWhole(f"cut at {at}")
            self.clock.pump([1.0] * int(NEWER_GRACE + 10))
            self.assertEqual(self.serving.streams, 0, f"cut at {at}")

    def test_cut_and_cut_again(self) -> None:
        """Also while the first cut is being mended."""
        before = self.faults.records
        self.play()
        for at in range(0, self.faults.records - before, 3):
            for again in (1, 4, 9, 16, 23):
                self.setUp()
                self.faults.cut_after = at
                self.cut_again(again)
                self.play()
                self.assertWhole(f"cut at {at} and {again} later")

    def cut_again(self, after: int) -> None:
        """Arm the second cut when the first one has come."""
        if self.faults.cut_after is None:
            self.faults.cut_after = after
        else:
            self.clock.callLater(0.05, self.cut_again, after)


class Gaps(Cuts):
    """How long the link is away."""

    def test_a_second_and_two_hours(self) -> None:
        """The turn goes on, and everything it said meanwhile is there."""
        for seconds in (1.0, 2 * HOUR, GRACE - 60):
            self.setUp()
            run = self.launched()
            run.say("before")
            self.settle(0.1)
            self.faults.is_down = True
            self.faults.cut()
            for n in range(100):
                run.say(f"{n}")
                self.clock.advance(seconds / 100)
            self.assertEqual(self.executors.availability(self.executor_id), "reconnecting")
            self.faults.is_down = False
            self.back()
            run.say("after")
            run.finish()
            self.settle()
            expected = ["before", *(str(n) for n in range(100)), "after"]
            self.assertEqual(self.reader.texts, expected)
            self.assertEqual(self.reader.ends, [FINISHED])
            self.assertEqual(self.serving.streams, 0)

    def test_more_than_three_hours(self) -> None:
        """Each side gives the run up by itself: here it has failed, its outcome unknown; there its
        question is denied and it is aborted.
        """
        self.reader.decides = False
        run = self.launched()
        run.ask("o-1")
        self.settle(0.1)
        self.runtime.holds_aborts = True
        self.lose(GRACE + 60)
        self.assertEqual(self.executors.availability(self.executor_id), "offline")
        [end] = self.reader.ends
        assert end.error is not None
        self.assertEqual((end.outcome, end.error.code), ("failed", "OUTCOME_UNKNOWN"))
        self.assertEqual([r.allow for r in self.runtime.responses], [False])
        self.assertEqual(self.runtime.aborted, ["run-1"])
        self.back()
        run.say("late")
        self.assertBusy()
        run.interrupted()
        self.settle()
        self.assertEqual(len(self.reader.ends), 1)
        self.assertEqual(self.reader.texts, [])
        d = self.remote.launch(launch("run-2"), Reader(self.remote))
        self.settle()
        self.successResultOf(d)

    def assertBusy(self) -> None:
        d = self.remote.launch(launch("run-2"), Reader(self.remote))
        self.settle()
        error = self.failureResultOf(d, CallError).value
        assert isinstance(error, CallError)
        self.assertEqual((error.code, error.outcome), ("SESSION_BUSY", "rejected"))

    def test_a_worker_that_is_restarted(self) -> None:
        """The run ends as soon as the other process is there; a new one can begin at once."""
        self.launched().say("a")
        self.settle(0.1)
        old = self.worker
        self.faults.is_down = True
        self.faults.cut()
        self.successResultOf(old.close("killed"))
        self.successResultOf(self.serving.stop())
        self.faults.is_down = False
        self.worker = self.make_worker("another-process")
        self.settle()
        [end] = self.reader.ends
        assert end.error is not None
        self.assertEqual(end.error.code, "OUTCOME_UNKNOWN")
        self.assertEqual(self.executors.availability(self.executor_id), "ready")
        d = self.remote.launch(launch("run-2"), Reader(self.remote))
        self.settle(0.1)
        self.successResultOf(d)

    def test_a_controller_that_is_restarted(self) -> None:
        """It sees nothing of what ran; the worker keeps that for five minutes, and its chat busy
        until it has ended.
        """
        run = self.launched()
        run.say("a")
        self.settle(0.1)
        self.runtime.holds_aborts = True
        self.successResultOf(self.executors.stop())
        old_reader = len(self.reader.events)
        self.executors = self.make()
        self.executors.load()
        self.executors.start()
        self.worker_redials()
        self.remote = self.executors.runtime(self.executor_id)
        self.assertEqual(self.runtime.aborted, [])
        run.say("b")
        self.settle(NEWER_GRACE - 60)
        self.assertEqual((self.runtime.aborted, self.serving.streams), ([], 1))
        self.settle(60)
        self.assertEqual((self.runtime.aborted, self.serving.streams), (["run-1"], 0))
        self.assertBusy()
        run.interrupted()
        d = self.remote.launch(launch("run-2"), Reader(self.remote))
        self.settle(0.1)
        self.successResultOf(d)
        self.assertEqual(len(self.reader.events), old_reader)

    def worker_redials(self) -> None:
        """Let the worker find the new controller behind the same address."""
        dialler: Any = self.worker._dial
        dialler.target = self.controller
        self.back()


class Pressure(Cuts):
    """More is said during a gap than is kept."""

    def test_one_notice_where_rows_are_missing(self) -> None:
        """The oldest rows of the larger backlog go; the question, the end and the smaller backlog
        stay, and what is there is in order.
        """
        run = self.launched()
        other = Reader(self.remote)
        d = self.remote.launch(launch("run-2"), other)
        self.settle(0.1)
        self.successResultOf(d)
        small = self.runtime.last
        run.say("before")
        self.settle(1)
        self.faults.is_down = True
        self.faults.cut()
        small.say("small")
        for n in range(20):
            run.say(f"{n} " + "x" * MIB)
        run.ask("o-1")
        for n in range(20, 40):
            run.say(f"{n} " + "x" * MIB)
        run.finish()
        self.faults.is_down = False
        self.back()
        self.settle(20)
        self.assertEqual(other.texts, ["small"])
        texts = [text.split()[0] for text in self.reader.texts]
        kept = [int(text) for text in texts[2:]]
        self.assertEqual(texts[:2], ["before", "[lost]"])
        self.assertEqual(kept, list(range(kept[0], 40)))
        self.assertTrue(28 <= len(kept) <= 32, kept)
        self.assertEqual(self.reader.ends, [FINISHED])
        asked = [e for e in self.reader.events if isinstance(e, PermissionRequested)]
        self.assertEqual(len(asked), 1)

    def test_more_questions_than_can_be_kept(self) -> None:
        """None of those that were kept is missing; the run is stopped, and that it failed, and
        why, is told.  Another run of the same worker goes on.
        """
        self.reader.decides = False
        run = self.launched()
        other = Reader(self.remote)
        d = self.remote.launch(launch("run-2"), other)
        self.settle(0.1)
        self.successResultOf(d)
        small = self.runtime.last
        self.faults.is_down = True
        self.faults.cut()
        run.say("a row")
        for n in range(5):
            run.ask(f"o-{n}", "x" * 15 * MIB)
        self.assertEqual(self.runtime.aborted, ["run-1"])
        self.assertTrue(run.is_over)
        small.ask("o-9")
        small.finish()
        self.faults.is_down = False
        self.back()
        self.settle(20)
        asked = [e for e in self.reader.events if isinstance(e, PermissionRequested)]
        self.assertEqual([e.permission_occurrence_id for e in asked], [f"o-{n}" for n in range(4)])
        self.assertEqual(self.reader.texts, ["[lost]"])
        self.assertEqual(self.reader.ends, [RunEnded(outcome="failed", error=OUTPUT_LOST)])
        self.assertEqual([type(e) for e in other.events], [PermissionRequested, RunEnded])
        self.assertEqual((other.ends, self.serving.streams), ([FINISHED], 0))


class WithoutBulk(Cuts):
    """The bulk lane is lost over and over, and never comes back for long."""

    def lose_bulk(self) -> None:
        """Cut bulk, and primary not."""
        bulk: Any = self.worker._bulk
        if bulk is not None:
            bulk.end(Cause.SOCKET_ERROR, "a test")
        self.settle(0.1)

    def test_a_whole_turn(self) -> None:
        """Its launch, its rows, its question, a decision, a stop: nothing waits, nothing is lost,
        and the executor stays ready.
        """
        self.reader.decides = False
        self.lose_bulk()
        self.assertNotEqual(self.controller.bulk_phase, "ready")
        run = self.launched()
        generation = self.controller.current()
        for n in range(5):
            run.say(str(n))
            self.lose_bulk()
        run.ask("o-1")
        self.lose_bulk()
        response = PermissionResponse(run_id="run-1", permission_occurrence_id="o-1", allow=True)
        decided = self.remote.respond(response)
        self.lose_bulk()
        self.assertEqual(self.successResultOf(decided), "confirmed")
        stopped = self.remote.abort("run-1")
        self.lose_bulk()
        self.assertIs(self.successResultOf(stopped), True)
        self.settle(1)
        self.assertEqual(self.reader.texts, list("01234"))
        self.assertEqual(self.reader.ends, [RunEnded(outcome="interrupted")])
        self.assertIs(self.controller.current(), generation)
        self.assertEqual(self.executors.availability(self.executor_id), "ready")


class Launching(Cuts):
    """What becomes of a launch when the link goes."""

    def setUp(self) -> None:
        super().setUp()
        self.runtime.holds_launches = True

    def begin(self) -> Deferred[Launched]:
        return self.remote.launch(launch(), self.reader)

    def test_never_received(self) -> None:
        """It is sent once more, and runs once."""
        self.faults.cut_after = 2  # the binding and its answer
        d = self.begin()
        self.assertEqual(self.runtime.runs, [])
        self.clock.pump([0.5] * 16)
        self.assertEqual(len(self.runtime.runs), 1)
        self.runtime.last.begin()
        self.settle(0.1)
        self.assertEqual(self.successResultOf(d), Launched("run-1"))

    def test_failed_in_the_gap(self) -> None:
        """The worker's own error is the launch's, and nothing is left of it."""
        d = self.begin()
        self.settle(0.1)
        self.faults.is_down = True
        self.faults.cut()
        self.runtime.last.refuse(GarconError("UNSUPPORTED_AGENT", "no", status=422))
        self.faults.is_down = False
        self.clock.pump([0.5] * 30)
        self.assertEqual(
            self.known(self.failureResultOf(d, CallError).value), ("UNSUPPORTED_AGENT", "rejected")
        )
        self.assertEqual((self.serving.streams, self.reader.events), (0, []))

    def test_begun_in_a_long_gap(self) -> None:
        """After twenty seconds it counts as launched; everything it said comes."""
        d = self.begin()
        self.settle(0.1)
        self.faults.is_down = True
        self.faults.cut()
        self.runtime.last.begin()
        self.runtime.last.say("a")
        self.clock.pump([0.5] * int(2 * LAUNCH_WAIT))
        self.assertEqual(self.successResultOf(d), Launched("run-1"))
        self.clock.pump([30.0] * 240)
        self.faults.is_down = False
        self.back()
        self.runtime.last.finish()
        self.settle()
        self.assertEqual((self.reader.texts, self.reader.ends), (["a"], [FINISHED]))

    def test_cancelled_in_the_gap(self) -> None:
        """The worker ends it when the link is back, whether it has begun meanwhile or not."""
        for begins in (True, False):
            self.setUp()
            d = self.begin()
            self.settle(0.1)
            self.faults.is_down = True
            self.faults.cut()
            d.cancel()
            self.assertEqual(self.known(self.failureResultOf(d, CallError).value)[1], "unknown")
            if begins:
                self.runtime.last.begin()
            self.faults.is_down = False
            self.back()
            self.assertEqual(self.runtime.aborted, ["run-1"] if begins else [])
            self.assertTrue(self.runtime.last.launched.called)
            self.assertEqual((self.serving.streams, self.reader.events), (0, []))


class Commands(Cuts):
    """Stops and decisions in a gap."""

    def test_a_stop(self) -> None:
        """It is delivered after the gap, once, and the run ends as interrupted."""
        run = self.launched()
        self.faults.is_down = True
        self.faults.cut()
        d = self.remote.abort("run-1")
        run.say("meanwhile")
        self.clock.pump([36.0] * 100)
        self.assertNoResult(d)
        self.faults.is_down = False
        self.back()
        self.assertIs(self.successResultOf(d), True)
        self.assertEqual(self.runtime.aborted, ["run-1"])
        self.assertEqual(self.reader.texts, ["meanwhile"])
        self.assertEqual(self.reader.ends, [RunEnded(outcome="interrupted")])

    def test_a_stop_of_a_run_that_ended_meanwhile(self) -> None:
        """It is not there any more; its own end arrives."""
        run = self.launched()
        self.faults.is_down = True
        self.faults.cut()
        d = self.remote.abort("run-1")
        run.finish()
        self.faults.is_down = False
        self.back()
        self.assertIs(self.successResultOf(d), False)
        self.assertEqual(self.reader.ends, [FINISHED])

    def test_a_decision(self) -> None:
        """It is delivered after a short gap; after twenty seconds it is not, and stays to be
        made.
        """
        self.reader.decides = False
        run = self.launched()
        run.ask("o-1")
        self.settle(0.1)
        response = PermissionResponse(run_id="run-1", permission_occurrence_id="o-1", allow=True)
        self.faults.is_down = True
        self.faults.cut()
        late = self.remote.respond(response)
        self.clock.pump([0.5] * 40)
        self.assertEqual(self.successResultOf(late), "not-delivered")
        self.faults.is_down = False
        self.back()
        self.faults.cut()
        soon = self.remote.respond(response)
        self.assertNoResult(soon)
        self.clock.pump([0.5] * 36)
        self.assertEqual(self.successResultOf(soon), "confirmed")
        self.assertEqual(self.runtime.responses, [response])

    def test_reads(self) -> None:
        """They wait twenty seconds for the link, have not happened then, and are answered where it
        comes back before.
        """
        reads: list[Callable[[], Deferred[Any]]] = [
            lambda: self.remote.catalog(None),
            lambda: self.remote.inspect_project("/projects/a"),
            self.remote.running,
        ]
        for read in reads:
            self.faults.is_down = True
            self.faults.cut()
            late = read()
            self.clock.pump([0.5] * 39 + [0.4])
            self.assertNoResult(late)
            self.clock.advance(0.1)
            error = self.failureResultOf(late, CallError).value
            self.assertEqual(self.known(error), ("EXECUTOR_UNAVAILABLE", "not-dispatched"))
            self.faults.is_down = False
            self.back()
            self.faults.cut()
            soon = read()
            self.assertNoResult(soon)
            self.clock.pump([0.5] * 36)
            self.successResultOf(soon)

    def test_a_decision_whose_answer_is_lost(self) -> None:
        """It is confirmed in the next session, and was delivered once."""
        self.reader.decides = False
        run = self.launched()
        run.ask("o-1")
        self.settle(1)
        response = PermissionResponse(run_id="run-1", permission_occurrence_id="o-1", allow=True)
        self.faults.cut_after = 1
        d = self.remote.respond(response)
        self.assertNoResult(d)
        self.clock.pump([0.5] * 36)
        self.assertEqual(self.successResultOf(d), "confirmed")
        self.assertEqual(self.runtime.responses, [response])
