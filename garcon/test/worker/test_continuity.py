"""What a lost session leaves: grace, resumption, detachment (control.md J.5, J.8, J.10)."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from garcon.contract import rpc
from garcon.contract.limits import GRACE, NEWER_GRACE, PRODUCER_WINDOW_FRAMES, RETRY
from garcon.contract.runs import (
    Launched,
    LaunchFailure,
    LaunchSettled,
    PermissionResponse,
    PermissionWithdrawn,
    RunEnded,
)
from garcon.errors import GarconError
from garcon.runtime.interfaces import IRunSink
from garcon.test.worker.test_serving import Cast, launch, question, row
from garcon.worker.serving.relay import BURST_FRAMES

FINISHED = RunEnded(outcome="finished")


class Resuming(Cast):
    """A session is lost and another one comes."""

    def test_nothing_ends_and_nothing_is_lost(self) -> None:
        """What came before the loss, during the gap and after it arrives in order; what had been
        acknowledged does not come again.
        """
        sink = self.begin()
        for text in ("a", "b"):
            sink.event(row(text))
        self.serving.acknowledged({"binding-1": 1})
        self.lose()
        sink.event(row("c"))
        self.clock.advance(7200)
        self.install()
        self.assertEqual(
            self.resume(1),
            [
                rpc.ResumedBinding(
                    "binding-1", 3, rpc.ResumedLaunch("run-1", Launched("run-1")), ["run-1"]
                )
            ],
        )
        sink.event(row("d"))
        sink.event(FINISHED)
        self.assertEqual(
            [(seq, event) for _, seq, event in self.published()],
            [
                *((1, row("a")), (2, row("b"))),
                *((2, row("b")), (3, row("c")), (4, row("d")), (5, FINISHED)),
            ],
        )
        self.assertEqual((self.runtime.aborted, self.runtime.responses), ([], []))
        self.serving.acknowledged({"binding-1": 5})
        self.assertEqual(self.serving.streams, 0)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_no_timer_runs_for_what_cannot_be_sent(self) -> None:
        """During a gap nothing is tried again and again."""
        sink = self.begin()
        self.wire.is_open = False
        sink.event(row("a"))
        self.clock.advance(RETRY)
        self.lose()
        self.clock.advance(RETRY)
        sink.event(row("b"))
        self.assertEqual(len(self.clock.getDelayedCalls()), 1)  # the grace

    def test_frames_come_after_the_answer(self) -> None:
        """Who resumes a stream hears of it first."""
        sink = self.begin()
        self.lose()
        sink.event(row("a"))
        self.install()
        wanted = rpc.ResumeProducers([rpc.ResumeBinding("binding-1", 0)])
        self.successResultOf(self.ask(rpc.PRODUCERS_RESUME, wanted, "generation-2"))
        self.assertEqual(self.wire.taken, [])
        self.clock.advance(0)
        self.assertEqual(len(self.wire.taken), 1)

    def test_a_long_replay_leaves_room_for_others(self) -> None:
        """It goes in bursts, and no further than its window."""
        sink = self.begin()
        self.lose()
        for _ in range(PRODUCER_WINDOW_FRAMES + 100):
            sink.event(row("a"))
        self.install()
        wanted = rpc.ResumeProducers([rpc.ResumeBinding("binding-1", 0)])
        self.successResultOf(self.ask(rpc.PRODUCERS_RESUME, wanted, "generation-2"))
        at_first: list[int] = []
        self.clock.callLater(0, lambda: at_first.append(len(self.wire.taken)))
        self.clock.pump([0] * 100)
        self.assertEqual(at_first, [BURST_FRAMES])
        self.assertEqual(len(self.wire.taken), PRODUCER_WINDOW_FRAMES)
        self.serving.acknowledged({"binding-1": 512})
        self.clock.pump([0] * 100)
        self.assertEqual(len(self.wire.taken), PRODUCER_WINDOW_FRAMES + 100)

    def test_the_order_of_all_streams_is_kept(self) -> None:
        """Replays too come as they were published."""
        one = self.begin("run-1", "binding-1")
        two = self.begin("run-2", "binding-2")
        self.lose()
        for sink, text in ((one, "a"), (two, "b"), (one, "c")):
            sink.event(row(text))
        self.install()
        names = ("binding-2", "binding-1")
        wanted = rpc.ResumeProducers([rpc.ResumeBinding(name, 0) for name in names])
        self.successResultOf(self.ask(rpc.PRODUCERS_RESUME, wanted, "generation-2"))
        self.clock.advance(0)
        self.assertEqual([event for _, _, event in self.published()], [row(t) for t in "abc"])

    def test_missing_streams_are_not_in_the_answer(self) -> None:
        """They are gone."""
        self.install()
        self.assertEqual(self.resume(4), [])

    def test_a_stream_without_a_run_is_bound_again(self) -> None:
        """As its controller does whose answer was lost; with a run it can only be resumed."""
        self.successResultOf(self.ask(rpc.BIND, rpc.BindingQuery("binding-1")))
        self.lose()
        self.install()
        query = rpc.BindingQuery("binding-1")
        self.successResultOf(self.ask(rpc.BIND, query, "generation-2"))
        d = self.ask(rpc.START, launch(), "generation-2")
        self.assertNoResult(d)
        self.lose("generation-2")
        self.install("generation-3")
        self.failureResultOf(self.ask(rpc.BIND, query, "generation-3"), GarconError)

    def test_questions_stay_open(self) -> None:
        """They are decided in the next session."""
        sink = self.begin()
        sink.event(question("o-1"))
        self.lose()
        self.clock.advance(60)
        self.install()
        self.resume(0)
        decide = PermissionResponse(run_id="run-1", permission_occurrence_id="o-1", allow=True)
        answer = self.successResultOf(self.ask(rpc.RESPOND, decide, "generation-2"))
        self.assertEqual(answer, rpc.Delivered("confirmed"))
        self.assertEqual(self.runtime.responses, [decide])


class Launches(Cast):
    """What becomes of launches whose session is lost."""

    def setUp(self) -> None:
        super().setUp()
        self.successResultOf(self.ask(rpc.BIND, rpc.BindingQuery("binding-1")))

    def ask_launch(self, generation: str = "generation-1") -> Deferred[object]:
        """Launch, and mind no failure: the session that asked is lost."""
        d = self.ask(rpc.START, launch(), generation)
        d.addErrback(lambda _: None)
        return d

    def launching(self) -> rpc.ResumedBinding:
        [resumed] = self.resume(0)
        return resumed

    def test_never_received(self) -> None:
        """The answer names no run, and the same run can be launched then."""
        self.lose()
        self.install()
        self.assertEqual(self.launching(), rpc.ResumedBinding("binding-1", 0))
        self.assertNoResult(self.ask_launch("generation-2"))
        self.assertEqual(len(self.runtime.launches), 1)

    def test_begun_during_the_gap(self) -> None:
        """It is told on the stream, before anything of the run."""
        self.ask_launch()
        self.lose()
        _, sink, started = self.runtime.launches[-1]
        started.callback(Launched("run-1"))
        sink.event(row("a"))
        self.install()
        self.assertEqual(self.launching().launch, rpc.ResumedLaunch("run-1", Launched("run-1")))
        events = [event for _, _, event in self.published()]
        self.assertEqual(events, [LaunchSettled(run_id="run-1"), row("a")])

    def test_begun_after_the_gap(self) -> None:
        """The answer says that it is starting; then as before."""
        self.ask_launch()
        self.lose()
        self.install()
        self.assertEqual(self.launching().launch, rpc.ResumedLaunch("run-1", None))
        self.runtime.launches[-1][2].callback(Launched("run-1"))
        [(_, seq, event)] = self.published()
        self.assertEqual((seq, event), (1, LaunchSettled(run_id="run-1")))

    def test_failed_during_the_gap(self) -> None:
        """The answer has the run and no launch; the stream says why, and closes with it."""
        self.ask_launch()
        self.lose()
        refused = GarconError("UNSUPPORTED_AGENT", "no", status=422, retryable=True)
        self.runtime.launches[-1][2].errback(refused)
        self.install()
        resumed = self.launching()
        self.assertEqual((resumed.launch, resumed.received_run_ids), (None, ["run-1"]))
        failure = LaunchFailure(code="UNSUPPORTED_AGENT", message="no", status=422, retryable=True)
        [(_, seq, event)] = self.published()
        self.assertEqual(event, LaunchSettled(run_id="run-1", error=failure))
        self.serving.acknowledged({"binding-1": seq})
        self.assertEqual(self.serving.streams, 0)

    def test_the_lost_answer_of_a_launch_that_failed(self) -> None:
        """It was given to a session that was lost: it is told again on the stream."""
        d = self.ask(rpc.START, launch())
        self.runtime.launches[-1][2].errback(GarconError("UNSUPPORTED_AGENT", "no"))
        self.failureResultOf(d, GarconError)
        self.lose()
        self.install()
        self.launching()
        [(_, _, event)] = self.published()
        assert isinstance(event, LaunchSettled) and event.error is not None
        self.assertEqual(event.error.code, "UNSUPPORTED_AGENT")

    def test_the_lost_answer_of_a_launch_that_succeeded(self) -> None:
        """The answer to the resume has it."""
        self.ask_launch()
        self.runtime.launches[-1][2].callback(Launched("run-1"))
        self.lose()
        self.install()
        self.assertEqual(self.launching().launch, rpc.ResumedLaunch("run-1", Launched("run-1")))
        self.assertEqual(self.published(), [])

    def test_an_unexpected_failure(self) -> None:
        """Its text stays here."""
        d = self.ask(rpc.START, launch())
        self.lose()
        self.runtime.launches[-1][2].errback(ZeroDivisionError("secret"))
        self.failureResultOf(d, ZeroDivisionError)
        self.install()
        self.launching()
        [(_, _, event)] = self.published()
        assert isinstance(event, LaunchSettled) and event.error is not None
        self.assertEqual((event.error.code, event.error.outcome), ("PROVIDER_FAILURE", "unknown"))
        self.assertNotIn("secret", event.error.message)

    def test_cancelled_in_the_next_session(self) -> None:
        """Whether it has begun or not."""
        self.ask_launch()
        self.lose()
        self.install()
        cancel = rpc.CancelLaunch("binding-1", "run-1")
        self.successResultOf(self.ask(rpc.CANCEL_LAUNCH, cancel, "generation-2"))
        self.assertEqual((self.runtime.cancelled_launches, self.serving.streams), (1, 0))


class Grace(Cast):
    """How long a run waits, and what comes then."""

    def waiting(self) -> IRunSink:
        """A run with a question whose session is lost."""
        sink = self.begin()
        for occurrence in ("o-1", "o-2"):
            sink.event(question(occurrence))
        sink.event(PermissionWithdrawn(permission_occurrence_id="o-1"))
        self.lose()
        return sink

    def assertGivenUp(self) -> None:
        self.assertEqual(
            [(r.permission_occurrence_id, r.allow) for r in self.runtime.responses],
            [("o-2", False)],
        )
        self.assertEqual(self.runtime.aborted, ["run-1"])
        self.assertEqual(self.serving.streams, 0)

    def assertKept(self) -> None:
        self.assertEqual((self.runtime.responses, self.runtime.aborted), ([], []))
        self.assertEqual(self.serving.streams, 1)

    def test_at_three_hours_and_before(self) -> None:
        """Then its questions are denied and it is aborted; its stream is gone."""
        self.waiting()
        self.clock.advance(GRACE - 1)
        self.assertKept()
        self.clock.advance(1)
        self.assertGivenUp()
        self.install()
        self.assertEqual(self.resume(0), [])

    def test_counts_from_the_last_loss(self) -> None:
        """A session that resumed it gives it a grace of its own."""
        self.waiting()
        self.clock.advance(GRACE - 1)
        self.install()
        self.resume(0)
        self.clock.advance(GRACE)
        self.lose("generation-2")
        self.clock.advance(GRACE - 1)
        self.assertKept()
        self.clock.advance(1)
        self.assertGivenUp()

    def test_five_minutes_with_a_newer_session(self) -> None:
        """Of the same process or another one, if it does not resume the run."""
        for controller in ("controller-runtime", "another"):
            self.setUp()
            self.waiting()
            self.clock.advance(60)
            self.install("generation-2", controller)
            self.clock.advance(NEWER_GRACE - 1)
            self.assertKept()
            self.clock.advance(1)
            self.assertGivenUp()

    def test_never_longer_than_it_had(self) -> None:
        """Near the end of the grace a newer session does not make it longer."""
        self.waiting()
        self.clock.advance(GRACE - 10)
        self.install("generation-2", "another")
        self.clock.advance(10)
        self.assertGivenUp()

    def test_newer_sessions_of_a_restarted_controller_do_not_add_up(self) -> None:
        """However often they come and go, there are five minutes from the first."""
        self.waiting()
        for number in range(5):
            self.install(f"generation-{number + 2}", "another")
            self.clock.advance(NEWER_GRACE / 5 - 1)
            self.lose(f"generation-{number + 2}", "another")
            self.assertKept()
            self.clock.advance(1)
        self.assertGivenUp()

    def test_a_session_lost_before_it_resumed_anything(self) -> None:
        """Its controller is the same and will come back: the whole grace counts again."""
        self.waiting()
        self.install()
        self.clock.advance(1)
        self.lose("generation-2")
        self.clock.advance(NEWER_GRACE)
        self.assertKept()
        self.install("generation-3")
        self.assertEqual(len(self.resume(0, "generation-3")), 1)

    def test_the_runs_of_a_live_session_are_left_alone(self) -> None:
        """Only what it has not resumed goes."""
        self.begin()
        self.begin("run-2", "binding-2")
        self.lose()
        self.install()
        self.resume(0)
        self.clock.advance(GRACE)
        self.assertEqual((self.runtime.aborted, self.serving.streams), (["run-2"], 1))

    def test_a_finished_run_is_only_forgotten(self) -> None:
        """Nobody is aborted or asked."""
        self.waiting().event(FINISHED)
        self.clock.advance(GRACE)
        self.assertEqual((self.runtime.aborted, self.serving.streams), ([], 0))

    def test_a_launch_under_way_is_cancelled(self) -> None:
        """And a stream without a run is forgotten."""
        for name in ("binding-1", "binding-2"):
            self.successResultOf(self.ask(rpc.BIND, rpc.BindingQuery(name)))
        d = self.ask(rpc.START, launch())
        self.lose()
        self.clock.advance(GRACE)
        self.failureResultOf(d)
        self.assertEqual((self.runtime.cancelled_launches, self.serving.streams), (1, 0))


class Detached(Cast):
    """A run that was given up and does not end."""

    def setUp(self) -> None:
        super().setUp()
        self.sink = self.begin()
        self.lose()
        self.clock.advance(GRACE)
        self.install()

    def begin_another(self) -> object:
        self.successResultOf(self.ask(rpc.BIND, rpc.BindingQuery("binding-2"), "generation-2"))
        d = self.ask(rpc.START, launch("run-2", "binding-2"), "generation-2")
        return None if not d.called else self.failureResultOf(d, GarconError).value.code

    def test_its_output_is_dropped(self) -> None:
        """Nobody could take it."""
        self.sink.event(row("late"))
        self.assertEqual(self.wire.taken, [])

    def test_its_questions_are_denied(self) -> None:
        """Soon, not while the agent is still asking; one withdrawn meanwhile is not."""
        self.sink.event(question("o-1"))
        self.sink.event(question("o-2"))
        self.sink.event(PermissionWithdrawn(permission_occurrence_id="o-1"))
        self.assertEqual(self.runtime.responses, [])
        self.clock.advance(0)
        self.assertEqual(
            [(r.permission_occurrence_id, r.allow) for r in self.runtime.responses],
            [("o-2", False)],
        )

    def test_its_chat_is_busy_until_it_ends(self) -> None:
        """Then a new run can begin."""
        self.assertEqual(self.begin_another(), "SESSION_BUSY")
        self.successResultOf(
            self.ask(rpc.CLOSE_BINDING, rpc.BindingQuery("binding-2"), "generation-2")
        )
        self.sink.event(RunEnded(outcome="interrupted"))
        self.assertIsNone(self.begin_another())
        self.assertEqual(self.clock.getDelayedCalls(), [])
