"""The remote runtime: launches, facts, acknowledgements, lost sessions (control.md J.8-J.10)."""

from __future__ import annotations

from twisted.internet.defer import CancelledError, Deferred
from zope.interface import implementer

from garcon.contract import rpc
from garcon.contract.agents import AgentAuth
from garcon.contract.catalogs import AgentSettings
from garcon.contract.messages import AssistantMessage, TranscriptNotice
from garcon.contract.providers import Discovered, DiscoverModels
from garcon.contract.runs import (
    Launch,
    Launched,
    PermissionResponse,
    ProjectInspection,
    RelayedEvent,
    RowProduced,
    RunEnded,
    SessionStarted,
)
from garcon.contract.steering import (
    MentioningText,
    ResolvedText,
    Steer,
    SteerCapture,
    Steered,
    SteerOutcome,
    SteerTarget,
)
from garcon.controller.executors.remote import ACK_BYTES, ACK_FRAMES
from garcon.deferreds import Waiters
from garcon.errors import CallError, GarconError
from garcon.runtime.interfaces import IRunSink
from garcon.test.controller.executors.cast import ExecutorsCase, Sink
from garcon.testing.held_link import HeldGeneration


def launch(run: str = "run-1", session: str | None = None) -> Launch:
    return Launch(
        chat_id="1700000000000001",
        run_id=run,
        binding_id=f"binding-{run}",
        agent_id="scripted",
        model="scripted",
        permission_mode="default",
        thinking_mode="none",
        agent_settings=AgentSettings("scripted", 1, {}),
        project_path="/projects/a",
        prompt="say hello",
        agent_session_id=session,
    )


def row(text: str) -> RowProduced:
    return RowProduced(message=AssistantMessage(timestamp="t", content=text))


FINISHED = RunEnded(outcome="finished")


@implementer(IRunSink)
class FullSink(Sink):
    """One that has room when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: Waiters[None] = Waiters()

    def room(self) -> Deferred[None]:
        return self.waiting.wait()


class RemoteCase(ExecutorsCase):
    """One ready executor and its runtime."""

    def setUp(self) -> None:
        super().setUp()
        self.executor_id = self.create()
        self.link = self.links[self.executor_id]
        self.generation = self.link.ready("g1")
        self.runtime = self.executors.runtime(self.executor_id)
        self.sink = Sink()

    def begin(self, run: str = "run-1", session: str | None = None) -> Deferred[Launched]:
        """Ask for a launch whose stream is bound already."""
        d = self.runtime.launch(launch(run, session), self.sink)
        self.generation.waiting(rpc.BIND).d.callback(rpc.Nothing())
        return d

    def running(self, run: str = "run-1") -> None:
        """Launch a run and let its facts through."""
        d = self.begin(run)
        self.generation.waiting(rpc.START).d.callback(Launched(run))
        self.assertEqual(self.successResultOf(d), Launched(run))
        self.clock.advance(0)

    def produce(self, seq: int, event: RelayedEvent, run: str = "run-1") -> None:
        self.link.produce(f"binding-{run}", seq, event)

    def failed(self, d: Deferred[Launched]) -> CallError:
        error = self.failureResultOf(d, CallError).value
        assert isinstance(error, CallError)
        return error


class LaunchTests(RemoteCase):
    """Bind, then start or resume, within 20 s."""

    def test_the_stream_is_bound_first(self) -> None:
        """Nothing is started before that is confirmed."""
        d = self.runtime.launch(launch(), self.sink)
        self.assertEqual(self.generation.made()[1:], ["producers.bind"])
        bind = self.generation.waiting(rpc.BIND)
        self.assertEqual(bind.request, rpc.BindingQuery("binding-run-1"))
        bind.d.callback(rpc.Nothing())
        self.assertEqual(self.generation.made()[2:], ["execution.start"])
        self.assertEqual(self.generation.waiting(rpc.START).request, launch())
        self.assertNoResult(d)

    def test_a_known_session_is_resumed(self) -> None:
        """By the other method."""
        self.begin(session="s")
        self.assertEqual(self.generation.made()[2:], ["execution.resume"])

    def test_facts_wait_for_the_answer(self) -> None:
        """The caller hears of the launch before the sink hears anything."""
        d = self.begin()
        self.produce(1, SessionStarted(agent_session_id="s"))
        self.produce(2, FINISHED)
        self.assertEqual(self.sink.events, [])
        self.generation.waiting(rpc.START).d.callback(Launched("run-1"))
        self.assertEqual(self.successResultOf(d), Launched("run-1"))
        self.assertEqual(self.sink.events, [])
        self.clock.advance(0)
        self.assertEqual(self.sink.events, [SessionStarted(agent_session_id="s"), FINISHED])

    def test_refused(self) -> None:
        """The worker's own error is the launch's; no fact ever comes; the stream is closed."""
        for outcome in ("rejected", "not-dispatched"):
            d = self.begin()
            self.produce(1, row("never"))
            refused = CallError("UNSUPPORTED_AGENT", "no", outcome=outcome)
            self.generation.waiting(rpc.START).d.errback(refused)
            self.assertIs(self.failed(d), refused)
            self.assertEqual(self.generation.made()[-1], "producers.close")
        self.clock.advance(1)
        self.assertEqual(self.sink.events, [])
        self.assertNotIn("execution.abort", self.generation.made())

    def test_unknown_outcome_aborts_best_effort(self) -> None:
        """It is a failed launch, and whatever may run is ended with its stream."""
        d = self.begin()
        lost = CallError("REPLY_LOST", "x", outcome="unknown")
        self.generation.waiting(rpc.START).d.errback(lost)
        self.assertIs(self.failed(d), lost)
        cancel = self.generation.waiting(rpc.CANCEL_LAUNCH)
        self.assertEqual(cancel.request, rpc.CancelLaunch("binding-run-1", "run-1"))
        cancel.d.callback(rpc.Nothing())
        self.assertEqual(self.generation.made()[-1], "producers.cancelLaunch")

    def test_at_20_seconds_and_before(self) -> None:
        """The wait ends, the call is cancelled and the run ended."""
        d = self.begin()
        start = self.generation.waiting(rpc.START)
        self.clock.advance(19.9)
        self.assertNoResult(d)
        self.clock.advance(0.1)
        error = self.failed(d)
        self.assertEqual((error.code, error.outcome), ("EXECUTOR_UNAVAILABLE", "unknown"))
        self.assertTrue(start.is_cancelled)
        self.generation.waiting(rpc.CANCEL_LAUNCH)

    def test_too_slow_before_the_start_was_sent(self) -> None:
        """Then nothing ran, and that is what is said."""
        d = self.runtime.launch(launch(), self.sink)
        self.clock.advance(20)
        self.assertEqual(self.failed(d).outcome, "not-dispatched")
        self.assertEqual(self.generation.made()[1:], ["producers.bind", "producers.close"])

    def test_cancelling_aborts(self) -> None:
        """As the interface promises; that it may have begun is not hidden."""
        d = self.begin()
        start = self.generation.waiting(rpc.START)
        d.cancel()
        self.assertEqual(self.failed(d).outcome, "unknown")
        self.assertTrue(start.is_cancelled)
        self.generation.waiting(rpc.CANCEL_LAUNCH)

    def test_cancelling_before_the_start_was_sent(self) -> None:
        """Then it is a cancellation and nothing else."""
        d = self.runtime.launch(launch(), self.sink)
        d.cancel()
        self.failureResultOf(d, CancelledError)
        self.assertNotIn("execution.abort", self.generation.made())
        self.clock.advance(30)
        self.assertEqual(self.sink.events, [])

    def test_not_connected(self) -> None:
        """Nothing is sent."""
        self.link.lose()
        d = self.runtime.launch(launch(), self.sink)
        self.assertEqual(self.failed(d).outcome, "not-dispatched")


class FactTests(RemoteCase):
    """Producer frames of a run."""

    def setUp(self) -> None:
        super().setUp()
        self.running()

    def test_in_order_each_once(self) -> None:
        """Duplicates are ignored."""
        for seq, text in ((1, "a"), (2, "b"), (1, "a"), (2, "b"), (3, "c")):
            self.produce(seq, row(text))
        self.assertEqual(self.sink.events, [row("a"), row("b"), row("c")])

    def test_a_gap_is_one_notice(self) -> None:
        """Before the row behind it, and once per run however many gaps there are."""
        for seq in (1, 3, 4, 7):
            self.produce(seq, row(str(seq)))
        notice = self.sink.events[1]
        assert isinstance(notice, RowProduced)
        self.assertIsInstance(notice.message, TranscriptNotice)
        self.assertEqual(
            [e for e in self.sink.events if e is not notice], [row(n) for n in ("1", "3", "4", "7")]
        )

    def test_nothing_follows_the_end(self) -> None:
        """Neither frames nor another session."""
        self.produce(1, FINISHED)
        self.produce(2, row("late"))
        self.produce(1, FINISHED)
        self.link.lose()
        self.assertEqual(self.sink.events, [FINISHED])

    def test_acknowledgements_are_batched(self) -> None:
        """For 250 ms, over all streams; each with its highest number."""
        self.running("run-2")
        for seq in (1, 2, 3):
            self.produce(seq, row("x"))
        self.produce(1, row("y"), "run-2")
        self.clock.advance(0.24)
        self.assertEqual(self.link.acknowledged, [])
        self.clock.advance(0.02)
        self.assertEqual(self.link.acknowledged, [{"binding-run-1": 3, "binding-run-2": 1}])
        self.clock.advance(1)
        self.assertEqual(len(self.link.acknowledged), 1)

    def test_much_is_acknowledged_at_once(self) -> None:
        """So that a worker with more need not wait."""
        for seq in range(1, ACK_FRAMES + 2):
            self.produce(seq, row("x"))
        self.assertEqual(self.link.acknowledged, [{"binding-run-1": ACK_FRAMES}])
        self.produce(ACK_FRAMES + 2, row("x" * ACK_BYTES))
        self.assertEqual(self.link.acknowledged[1:], [{"binding-run-1": ACK_FRAMES + 2}])
        self.clock.advance(1)
        self.assertEqual(len(self.link.acknowledged), 2)

    def test_a_sink_without_room_holds_the_acknowledgements(self) -> None:
        """Of its run, until it has room; the end is acknowledged at once."""
        full = FullSink()
        self.sink = full
        self.running("run-2")
        for seq in (1, 2):
            self.produce(seq, row("a"), "run-2")
        self.clock.advance(1)
        self.assertEqual(self.link.acknowledged, [])
        full.waiting.fire(None)
        self.clock.advance(1)
        self.assertEqual(self.link.acknowledged, [{"binding-run-2": 2}])
        self.produce(3, row("a"), "run-2")
        self.produce(4, FINISHED, "run-2")
        self.clock.advance(1)
        self.assertEqual(self.link.acknowledged[1:], [{"binding-run-2": 4}])
        full.waiting.fire(None)
        self.clock.advance(1)
        self.assertEqual(len(full.events), 4)

    def test_frames_of_forgotten_runs_are_acknowledged(self) -> None:
        """So that the worker may forget them too."""
        self.link.produce("binding-old", 7, row("x"))
        self.clock.advance(0.25)
        self.assertEqual(self.link.acknowledged, [{"binding-old": 7}])

    def test_acknowledgements_do_not_cross_sessions(self) -> None:
        """What was due on the lost one is not sent on the next."""
        self.produce(1, row("a"))
        self.link.lose()
        self.link.ready("g2")
        self.clock.advance(1)
        self.assertEqual(self.link.acknowledged, [])


class CallTests(RemoteCase):
    """The rest of the interface."""

    def answered(self, method: rpc.Method, value: object) -> HeldGeneration:
        self.generation.waiting(method).d.callback(value)
        return self.generation

    def test_calls_and_results(self) -> None:
        """Each is its method's request and the bare result."""
        catalog = self.runtime.catalog("scripted")
        self.answered(rpc.CATALOG, rpc.CatalogSnapshot([]))
        self.assertEqual(self.successResultOf(catalog), ())
        inspected = ProjectInspection("/projects/a", "key")
        inspection = self.runtime.inspect_project("a")
        self.answered(rpc.INSPECT_PROJECT, inspected)
        self.assertEqual(self.successResultOf(inspection), inspected)
        aborted = self.runtime.abort("run")
        self.answered(rpc.ABORT, rpc.Aborted(False))
        self.assertIs(self.successResultOf(aborted), False)
        running = self.runtime.running()
        self.answered(rpc.RUNNING, rpc.RunningSessions(["a"]))
        self.assertEqual(self.successResultOf(running), ("a",))

    def test_models_and_accounts(self) -> None:
        """An endpoint is asked from the worker, and its agents' accounts are the worker's."""
        wanted = DiscoverModels(kind="openai-models", base_url="https://a.example", api_key="k")
        discovering = self.runtime.discover_models(wanted)
        self.assertEqual(self.generation.waiting(rpc.DISCOVER_MODELS).request, wanted)
        self.answered(rpc.DISCOVER_MODELS, Discovered(success=True))
        self.assertEqual(self.successResultOf(discovering), Discovered(success=True))
        asking = self.runtime.auth("scripted")
        self.answered(rpc.AUTH_STATUS, rpc.AuthStatuses({"scripted": AgentAuth(True)}))
        self.assertEqual(self.successResultOf(asking), {"scripted": AgentAuth(True)})

    def test_typed_failures_pass(self) -> None:
        """The worker's codes are the caller's."""
        d = self.runtime.inspect_project("x")
        error = CallError("PROJECT_PATH_NOT_FOUND", "no", outcome="rejected", status=404)
        self.generation.waiting(rpc.INSPECT_PROJECT).d.errback(error)
        self.assertIs(self.failureResultOf(d, GarconError).value, error)

    def test_what_became_of_a_steer(self) -> None:
        """Whatever the worker says, never delivered, or unknown: never an exception."""
        target = SteerTarget(run_id="r")
        steer = Steer(target=target, client_message_id="m", content="more")
        fates: tuple[tuple[str, SteerOutcome], ...] = (
            ("not-dispatched", "not-delivered"),
            ("rejected", "not-delivered"),
            ("unknown", "unknown"),
        )
        for outcome, known in fates:
            d = self.runtime.steer(steer)
            self.generation.waiting(rpc.STEER).d.errback(CallError("X", "x", outcome=outcome))
            self.assertEqual(self.successResultOf(d), Steered(outcome=known, text="x"))
        d = self.runtime.steer(steer)
        self.answered(rpc.STEER, Steered(outcome="invalid", text="no"))
        self.assertEqual(self.successResultOf(d), Steered(outcome="invalid", text="no"))

    def test_before_a_steer(self) -> None:
        """Mentions are resolved, and its target captured, where the run is."""
        text = self.runtime.resolve_mentions("/p", "@a")
        asked = self.generation.waiting(rpc.RESOLVE_MENTIONS).request
        self.assertEqual(asked, MentioningText("/p", "@a"))
        self.answered(rpc.RESOLVE_MENTIONS, ResolvedText("@a: b"))
        self.assertEqual(self.successResultOf(text), "@a: b")
        captured = SteerCapture(outcome="not-steerable")
        capture = self.runtime.capture_steering("r")
        self.answered(rpc.CAPTURE_STEERING, captured)
        self.assertEqual(self.successResultOf(capture), captured)

    def test_what_became_of_a_decision(self) -> None:
        """Confirmed, never delivered, or unknown: never an exception."""
        response = PermissionResponse(run_id="r", permission_occurrence_id="p", allow=True)
        for outcome, delivery in (
            ("not-dispatched", "not-delivered"),
            ("rejected", "not-delivered"),
            ("unknown", "unknown"),
        ):
            d = self.runtime.respond(response)
            error = CallError("X", "x", outcome=outcome)
            self.generation.waiting(rpc.RESPOND).d.errback(error)
            self.assertEqual(self.successResultOf(d), delivery)
        d = self.runtime.respond(response)
        self.answered(rpc.RESPOND, rpc.Delivered("confirmed"))
        self.assertEqual(self.successResultOf(d), "confirmed")
        self.link.lose()
        waiting = self.runtime.respond(response)
        self.assertNoResult(waiting)
        self.link.ready("g2").waiting(rpc.RESPOND).d.callback(rpc.Delivered("confirmed"))
        self.assertEqual(self.successResultOf(waiting), "confirmed")
