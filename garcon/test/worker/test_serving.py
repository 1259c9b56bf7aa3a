"""The methods a worker serves, its run streams, and what ends them."""

from __future__ import annotations

import msgspec
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from garcon.contract import rpc
from garcon.contract.catalogs import AgentSettings
from garcon.contract.limits import RETRY, RUN_EVENT
from garcon.contract.messages import AssistantMessage, BashToolUse
from garcon.contract.providers import Discovered, DiscoverModels, EndpointModel
from garcon.contract.runs import (
    Launch,
    Launched,
    LaunchSettled,
    PermissionRequested,
    PermissionResponse,
    RelayedEvent,
    RowProduced,
    RunEnded,
)
from garcon.contract.steering import (
    MentioningText,
    ResolvedText,
    Steer,
    SteerCapture,
    Steered,
    SteerTarget,
)
from garcon.errors import CallError, GarconError, LimitExceeded
from garcon.link.interfaces import CallContext, Peer
from garcon.runtime.interfaces import IExecutorRuntime, IRunSink
from garcon.test.worker.doubles import EXECUTOR, HeldLink, HeldRuntime, IdleLane, Wire
from garcon.worker.serving.backlog import WELCOME_FRAMES, Backlog
from garcon.worker.serving.bindings import BINDINGS, OUTPUT_LOST, TOO_LARGE
from garcon.worker.serving.serving import Serving

CONTROLLER = "controller-runtime"
NOW = "2026-01-01T00:00:00.000Z"
FINISHED = RunEnded(outcome="finished")


def launch(run_id: str = "run-1", binding_id: str = "binding-1") -> Launch:
    """One turn of the scripted agent."""
    return Launch(
        chat_id="1700000000000000",
        run_id=run_id,
        binding_id=binding_id,
        agent_id="scripted",
        model="scripted",
        permission_mode="default",
        thinking_mode="none",
        agent_settings=AgentSettings("scripted", 1, {}),
        project_path="/srv",
        prompt="say hello",
    )


def row(text: str = "hello") -> RowProduced:
    """One row of output."""
    return RowProduced(message=AssistantMessage(timestamp=NOW, content=text))


def question(occurrence_id: str, command: str = "ls") -> PermissionRequested:
    """A request for permission."""
    return PermissionRequested(
        permission_occurrence_id=occurrence_id,
        requested_tool=BashToolUse(timestamp=NOW, tool_id="t", command=command),
        timestamp=NOW,
    )


class Cast(SynchronousTestCase):
    """A worker's serving side with a runtime and a wire that the test holds."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.lanes: dict[str, IdleLane] = {}
        self.runtime = HeldRuntime()
        self.wire = Wire()
        self.serving = Serving(self.clock, self.runtime, self.wire.offer)
        self.handlers = self.serving.handlers()

    def ask(
        self, method: rpc.Method, request: object, generation: str = "generation-1"
    ) -> Deferred[object]:
        """Call a method as the controller does."""
        lane = self.lanes.setdefault(generation, IdleLane())
        context = CallContext(method, lane.lane, lane.peer, lane, generation)
        return self.handlers[method.name](request, context)

    def lose(self, generation: str = "generation-1", controller: str = CONTROLLER) -> None:
        """Lose a session."""
        self.wire.is_open = False
        self.lanes.setdefault(generation, IdleLane()).is_open = False
        self.serving.session_lost(captured(generation, controller))

    def install(self, generation: str = "generation-2", controller: str = CONTROLLER) -> None:
        """Install a session."""
        self.wire.is_open = True
        self.lanes[generation] = IdleLane(Peer(EXECUTOR, controller, "controller"))
        self.serving.session_started(captured(generation, controller))

    def resume(
        self, acknowledged: int, generation: str = "generation-2", binding_id: str = "binding-1"
    ) -> list[rpc.ResumedBinding]:
        """Resume one stream in a session and let its frames come."""
        wanted = rpc.ResumeProducers([rpc.ResumeBinding(binding_id, acknowledged)])
        answer = self.successResultOf(self.ask(rpc.PRODUCERS_RESUME, wanted, generation))
        assert isinstance(answer, rpc.ResumedProducers)
        self.clock.advance(0)
        return answer.resumed

    def begin(self, run_id: str = "run-1", binding_id: str = "binding-1") -> IRunSink:
        """Bind a stream and launch a run on it."""
        self.successResultOf(self.ask(rpc.BIND, rpc.BindingQuery(binding_id)))
        d = self.ask(rpc.START, launch(run_id, binding_id))
        _, sink, started = self.runtime.launches[-1]
        started.callback(Launched(run_id))
        self.assertEqual(self.successResultOf(d), Launched(run_id))
        return sink

    def published(self) -> list[tuple[str, int, object]]:
        """What the controller would decode from the frames taken so far."""
        frames: list[tuple[str, int, object]] = []
        for seq, frame in self.wire.taken:
            decoded = msgspec.json.decode(msgspec.json.encode(frame), type=rpc.ProducerFrame)
            event = msgspec.json.decode(decoded.event, type=RelayedEvent)
            frames.append((decoded.binding_id, seq, event))
        return frames


def captured(generation: str, controller: str = CONTROLLER) -> HeldLink:
    """One generation of the link, to a controller process."""
    link = HeldLink(generation=generation)
    link.peer = Peer(EXECUTOR, controller, "controller")
    return link


class Methods(Cast):
    """Each method asks the runtime and answers in the contract's type."""

    def test_the_doubles_honour_their_interface(self) -> None:
        """The runtime these tests use is one."""
        verifyObject(IExecutorRuntime, self.runtime)

    def test_every_worker_method_is_served(self) -> None:
        """The table of methods and the handlers name the same, but for services that this runtime
        does not have.
        """
        wanted = {
            name
            for name, method in rpc.METHODS.items()
            if method.served_by == "worker"
            and not name.startswith(("files.", "history.", "processes.", "terminals."))
        }
        wanted.discard(rpc.RECONCILE.name)  # the link's own
        self.assertEqual(set(self.handlers), wanted)

    def test_simple_answers(self) -> None:
        """Description, catalog, project and runs come from the runtime."""
        description = self.successResultOf(self.ask(rpc.DESCRIBE, rpc.Nothing()))
        self.assertEqual(msgspec.to_builtins(description)["instanceId"], "instance-1")
        self.assertEqual(
            self.successResultOf(self.ask(rpc.CATALOG, rpc.AgentQuery())), rpc.CatalogSnapshot([])
        )
        inspection = self.successResultOf(self.ask(rpc.INSPECT_PROJECT, rpc.PathQuery("/srv/p")))
        self.assertEqual(msgspec.to_builtins(inspection)["projectPath"], "/srv/p")
        self.begin()
        self.assertEqual(
            self.successResultOf(self.ask(rpc.RUNNING, rpc.Nothing())),
            rpc.RunningSessions(["run-1"]),
        )
        self.assertEqual(
            self.successResultOf(self.ask(rpc.ABORT, rpc.RunQuery("run-1"))), rpc.Aborted(True)
        )

    def test_models_and_accounts(self) -> None:
        """An endpoint's models and the agents' accounts are asked for on this machine."""
        wanted = DiscoverModels(kind="openai-models", base_url="https://a.example", api_key="k")
        found = self.successResultOf(self.ask(rpc.DISCOVER_MODELS, wanted))
        self.assertEqual(found, Discovered(success=True, models=[EndpointModel("m", "M")]))
        self.assertEqual(self.runtime.discoveries, [wanted])
        accounts = self.successResultOf(self.ask(rpc.AUTH_STATUS, rpc.AgentQuery()))
        self.assertEqual(accounts, rpc.AuthStatuses({}))

    def test_steering(self) -> None:
        """Mentions, a capture and a steer are the runtime's own affair."""
        text = MentioningText("/srv/p", "see @a")
        self.assertEqual(
            self.successResultOf(self.ask(rpc.RESOLVE_MENTIONS, text)),
            ResolvedText("see @a in /srv/p"),
        )
        target = SteerTarget(run_id="run-1")
        self.assertEqual(
            self.successResultOf(self.ask(rpc.CAPTURE_STEERING, rpc.RunQuery("run-1"))),
            SteerCapture(outcome="captured", target=target),
        )
        steer = Steer(target=target, client_message_id="m", content="more")
        self.assertEqual(
            self.successResultOf(self.ask(rpc.STEER, steer)), Steered(outcome="delivered")
        )
        self.assertEqual(self.runtime.steers, [steer])

    def test_a_decision_is_handed_on_once(self) -> None:
        """A confirmed decision is not denied again at the end; one not delivered still waits."""
        sink = self.begin()
        for occurrence in ("o-1", "o-2"):
            sink.event(question(occurrence))
        decide = PermissionResponse(run_id="run-1", permission_occurrence_id="o-1", allow=True)
        self.assertEqual(
            self.successResultOf(self.ask(rpc.RESPOND, decide)), rpc.Delivered("confirmed")
        )
        self.runtime.delivery = "not-delivered"
        late = PermissionResponse(run_id="run-1", permission_occurrence_id="o-2", allow=True)
        self.successResultOf(self.ask(rpc.RESPOND, late))
        del self.runtime.responses[:]
        self.successResultOf(self.ask(rpc.CLOSE_BINDING, rpc.BindingQuery("binding-1")))
        self.assertEqual([r.permission_occurrence_id for r in self.runtime.responses], ["o-2"])


class Streams(Cast):
    """Facts of a run reach the session that bound it, numbered, in order."""

    def test_rows_are_published_in_order(self) -> None:
        """Events of two runs go out as they come, each numbered in its own stream."""
        one = self.begin("run-1", "binding-1")
        two = self.begin("run-2", "binding-2")
        one.event(row("a"))
        two.event(row("b"))
        one.event(RunEnded(outcome="finished"))
        self.assertEqual(
            self.published(),
            [
                ("binding-1", 1, row("a")),
                ("binding-2", 1, row("b")),
                ("binding-1", 2, RunEnded(outcome="finished")),
            ],
        )

    def test_a_full_queue_is_tried_again(self) -> None:
        """What the link does not admit is offered again after 10 ms, in order."""
        sink = self.begin()
        self.wire.is_open = False
        sink.event(row("a"))
        sink.event(row("b"))
        self.clock.advance(RETRY)
        self.assertEqual(self.wire.taken, [])
        self.wire.is_open = True
        self.clock.advance(RETRY)
        self.assertEqual([seq for seq, _ in self.wire.taken], [1, 2])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_more_is_welcome_once_less_waits(self) -> None:
        """A stream that the link does not take asks its agent to wait; an acknowledgement, a lost
        session or the end of the stream ends that.
        """
        for end in (self.open_again, self.lose, self.close_stream):
            self.setUp()
            sink = self.begin()
            self.wire.is_open = False
            self.successResultOf(sink.room())
            for _ in range(WELCOME_FRAMES + 2):
                sink.event(row())
            room = sink.room()
            self.assertNoResult(room)
            end()
            self.successResultOf(room)

    def open_again(self) -> None:
        self.wire.is_open = True
        self.clock.advance(RETRY)

    def close_stream(self) -> None:
        self.successResultOf(self.ask(rpc.CLOSE_BINDING, rpc.BindingQuery("binding-1")))

    def test_a_launch_needs_its_binding(self) -> None:
        """A run cannot start on a stream that its session has not bound."""
        self.successResultOf(self.ask(rpc.BIND, rpc.BindingQuery("binding-1"), "generation-0"))
        self.failureResultOf(self.ask(rpc.START, launch()), GarconError)
        self.failureResultOf(self.ask(rpc.START, launch(binding_id="nowhere")), GarconError)
        self.assertEqual(self.runtime.launches, [])

    def test_a_binding_carries_one_run(self) -> None:
        """A second launch on a stream is refused."""
        self.begin()
        self.failureResultOf(self.ask(rpc.START, launch("run-2")), GarconError)

    def test_a_failed_launch_keeps_its_stream_until_it_is_closed(self) -> None:
        """Its reply may be lost, and then it is told on the stream."""
        self.successResultOf(self.ask(rpc.BIND, rpc.BindingQuery("binding-1")))
        d = self.ask(rpc.START, launch())
        self.runtime.launches[-1][2].errback(GarconError("PROVIDER_FAILURE", "no such agent"))
        self.failureResultOf(d, GarconError)
        self.assertEqual((self.serving.streams, self.wire.taken), (1, []))
        self.successResultOf(self.ask(rpc.CLOSE_BINDING, rpc.BindingQuery("binding-1")))
        self.assertEqual(self.serving.streams, 0)

    def test_a_delivered_run_closes_its_stream(self) -> None:
        """With the last acknowledgement of an ended run its stream goes."""
        sink = self.begin()
        sink.event(row())
        sink.event(RunEnded(outcome="finished"))
        self.serving.acknowledged({"binding-1": 1})
        self.assertEqual(self.serving.streams, 1)
        self.serving.acknowledged({"binding-1": 2})
        self.assertEqual(self.serving.streams, 0)

    def test_closing_is_idempotent(self) -> None:
        """A stream may be closed twice, and an unknown one too; facts after that go nowhere."""
        sink = self.begin()
        for _ in range(2):
            self.successResultOf(self.ask(rpc.CLOSE_BINDING, rpc.BindingQuery("binding-1")))
        sink.event(row())
        self.assertEqual(self.wire.taken, [])

    def test_closing_a_live_stream_ends_its_run(self) -> None:
        """Nobody could see or answer the run any more; one that has ended is only forgotten."""
        self.begin().event(RunEnded(outcome="finished"))
        self.successResultOf(self.ask(rpc.CLOSE_BINDING, rpc.BindingQuery("binding-1")))
        self.assertEqual(self.runtime.aborted, [])
        self.begin("run-2", "binding-2")
        self.successResultOf(self.ask(rpc.CLOSE_BINDING, rpc.BindingQuery("binding-2")))
        self.assertEqual(self.runtime.aborted, ["run-2"])

    def test_streams_at_n_and_n_plus_one(self) -> None:
        """There is room for a fixed number of streams."""
        for number in range(BINDINGS):
            self.successResultOf(self.ask(rpc.BIND, rpc.BindingQuery(f"binding-{number}")))
        self.successResultOf(self.ask(rpc.BIND, rpc.BindingQuery("binding-0")))
        self.failureResultOf(self.ask(rpc.BIND, rpc.BindingQuery("one-more")), LimitExceeded)

    def test_a_run_that_asks_without_end_fails_honestly(self) -> None:
        """Facts are never dropped; a run with more of them than can be kept is stopped and ends as
        failed, whatever its agent says.
        """
        size = len(msgspec.json.encode(question("o-0")))
        self.keeping(Backlog(budget=2 * size, share=0))
        sink = self.begin()
        for number in range(4):
            sink.event(question(f"o-{number}"))
        self.assertEqual(self.runtime.aborted, [])
        sink.event(question("o-4"))
        self.assertEqual(self.runtime.aborted, ["run-1"])
        self.assertEqual([r.allow for r in self.runtime.responses], [False] * 5)
        sink.event(row("c"))
        sink.event(RunEnded(outcome="interrupted"))
        events = [event for _, _, event in self.published()]
        self.assertEqual(events[:4], [question(f"o-{number}") for number in range(4)])
        self.assertEqual(events[4:], [RunEnded(outcome="failed", error=OUTPUT_LOST)])

    def test_a_run_that_asks_without_end_leaves_others_alone(self) -> None:
        """Each has room for a few facts of its own, and for what became of its launch."""
        size = len(msgspec.json.encode(question("o-0")))
        self.keeping(Backlog(budget=2 * size, share=size))
        loud, other = self.begin(), self.begin("run-2", "binding-2")
        for number in range(9):
            loud.event(question(f"o-{number}"))
        other.event(question("o-9"))
        other.event(FINISHED)
        self.assertEqual(self.runtime.aborted, ["run-1"])
        events = [event for name, _, event in self.published() if name == "binding-2"]
        self.assertEqual(events, [question("o-9"), FINISHED])
        self.successResultOf(self.ask(rpc.BIND, rpc.BindingQuery("binding-3")))
        d = self.ask(rpc.START, launch("run-3", "binding-3"))
        self.lose()
        self.runtime.launches[-1][2].callback(Launched("run-3"))
        self.successResultOf(d)
        self.install()
        self.resume(0, binding_id="binding-3")
        self.assertEqual(self.published()[-1][2], LaunchSettled(run_id="run-3"))
        self.assertEqual(self.runtime.aborted, ["run-1"])

    def test_a_fact_that_no_message_holds(self) -> None:
        """It is the end of its run too, with the reason that it is."""
        sink = self.begin()
        sink.event(question("o-1", "x" * RUN_EVENT))
        sink.event(RunEnded(outcome="interrupted"))
        self.assertEqual(self.runtime.aborted, ["run-1"])
        events = [event for _, _, event in self.published()]
        self.assertEqual(events, [RunEnded(outcome="failed", error=TOO_LARGE)])

    def keeping(self, backlog: Backlog) -> None:
        """Begin anew with room for so much."""
        self.serving = Serving(self.clock, self.runtime, self.wire.offer, backlog)
        self.handlers = self.serving.handlers()

    def test_a_caller_who_gives_up_cancels_the_launch(self) -> None:
        """Cancelling the handler cancels the launch and closes the stream."""
        self.successResultOf(self.ask(rpc.BIND, rpc.BindingQuery("binding-1")))
        d = self.ask(rpc.START, launch())
        d.cancel()
        self.failureResultOf(d)
        self.assertEqual(self.runtime.cancelled_launches, 1)
        self.assertEqual(self.serving.streams, 0)

    def test_a_cancelled_launch(self) -> None:
        """Not begun, it is cancelled; begun, its run is aborted and its questions are denied.

        Again, or for another run, it is nothing.
        """
        self.successResultOf(self.ask(rpc.BIND, rpc.BindingQuery("binding-1")))
        d = self.ask(rpc.START, launch())
        cancel = rpc.CancelLaunch("binding-1", "run-1")
        self.successResultOf(self.ask(rpc.CANCEL_LAUNCH, rpc.CancelLaunch("binding-1", "other")))
        self.assertNoResult(d)
        self.successResultOf(self.ask(rpc.CANCEL_LAUNCH, cancel))
        self.assertEqual(self.failureResultOf(d, CallError).value.outcome, "unknown")
        self.assertEqual((self.runtime.cancelled_launches, self.serving.streams), (1, 0))
        self.begin("run-2", "binding-2").event(question("o-1"))
        for _ in range(2):
            cancel = rpc.CancelLaunch("binding-2", "run-2")
            self.successResultOf(self.ask(rpc.CANCEL_LAUNCH, cancel))
        self.assertEqual(self.runtime.aborted, ["run-2"])
        self.assertEqual([r.allow for r in self.runtime.responses], [False])
