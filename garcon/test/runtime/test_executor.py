"""The local runtime's own decisions, on a clock, with an agent the test moves by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred, fail, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from garcon.contract.catalogs import AgentEntry, AgentSettings, Model
from garcon.contract.limits import LAUNCH_WAIT, RUN_EVENT, SESSIONS
from garcon.contract.messages import AssistantMessage
from garcon.contract.runs import (
    Delivery,
    Launch,
    Launched,
    PermissionResponse,
    RowProduced,
    RunEnded,
    SessionStarted,
)
from garcon.contract.steering import Steer, SteerCapture, Steered, SteerTarget
from garcon.errors import GarconError
from garcon.runtime import noted
from garcon.runtime.executor import IDLE_TIME, STOP_WAIT, LocalRuntime
from garcon.runtime.interfaces import IAgent, IAgentSession, IRunSink
from garcon.test.runtime.test_runs import asked
from garcon.testing.agent_runs import RecordingSink, a_launch, a_response
from garcon.testing.inline_threads import InlinePool, InlineReactor


@implementer(IAgentSession)
@define(eq=False)
class HandSession:
    """A session whose turns begin and end when the test says so."""

    launches: list[Launch] = field(factory=list)
    sink: IRunSink | None = None
    beginning: Deferred[None] | None = None
    interrupted: list[Deferred[None]] = field(factory=list)
    closed: list[Deferred[None]] = field(factory=list)
    responses: list[PermissionResponse] = field(factory=list)
    capture: SteerCapture = field(
        factory=lambda: SteerCapture(
            outcome="captured", target=SteerTarget(run_id="", turn="turn-1")
        )
    )
    steers: list[tuple[Steer, Deferred[Steered]]] = field(factory=list)
    slow: bool = False
    slow_to_close: bool = False
    begins_when_cancelled: bool = False

    def run(self, launch: Launch, sink: IRunSink) -> Deferred[None]:
        """Begin at once, or, where slow, when the test fires `beginning`."""
        self.launches.append(launch)
        self.sink = sink
        if not self.slow:
            return succeed(None)
        self.beginning = Deferred(self._cancelled)
        return self.beginning

    def _cancelled(self, beginning: Deferred[None]) -> None:
        if self.begins_when_cancelled:
            beginning.callback(None)

    def interrupt(self) -> Deferred[None]:
        """Wait for the test."""
        d: Deferred[None] = Deferred()
        self.interrupted.append(d)
        return d

    def respond(self, response: PermissionResponse) -> Delivery:
        """Take each occurrence once."""
        if response in self.responses:
            return "not-delivered"
        self.responses.append(response)
        return "confirmed"

    def capture_steering(self) -> SteerCapture:
        """Answer as prepared."""
        return self.capture

    def steer(self, steer: Steer) -> Deferred[Steered]:
        """Wait for the test."""
        d: Deferred[Steered] = Deferred()
        self.steers.append((steer, d))
        return d

    def close(self) -> Deferred[None]:
        """Close at once, or, where slow to close, when the test says so."""
        d: Deferred[None] = Deferred()
        self.closed.append(d)
        if not self.slow_to_close:
            d.callback(None)
        return d

    def end(self, outcome: Any = "finished") -> None:
        """End the turn."""
        assert self.sink is not None
        self.sink.event(RunEnded(outcome=outcome))


@implementer(IAgent)
@define(eq=False)
class HandAgent:
    """An agent whose sessions the test moves."""

    id: str = "hand"
    installed: bool = True
    slow: bool = False
    sessions: list[HandSession] = field(factory=list)
    environments: list[Mapping[str, str]] = field(factory=list)
    trouble: Exception | None = None
    """Why it cannot say what it offers."""
    telling: Deferred[AgentEntry | None] | None = None
    """What its entry has to wait for."""
    asked: int = 0

    def is_installed(self) -> bool:
        """As the test has it."""
        return self.installed

    def entry(self, environment: Mapping[str, str]) -> Deferred[AgentEntry | None]:
        """An entry while it is installed."""
        self.asked += 1
        if self.trouble is not None:
            return fail(self.trouble)
        if not self.installed:
            return succeed(None)
        if self.telling is not None:
            return self.telling
        return succeed(
            AgentEntry(
                id=self.id,
                label="Hand",
                supported_permission_modes=["default"],
                supported_thinking_modes=["none"],
                default_settings=AgentSettings(owner_id=self.id, schema_version=1, values={}),
                default_model="m",
                models=[Model(value="m", label="M")],
            )
        )

    def open(self, launch: Launch, environment: Mapping[str, str]) -> IAgentSession:
        """Make the next session."""
        self.environments.append(environment)
        self.sessions.append(HandSession(slow=self.slow))
        return self.sessions[-1]


class InlineClock(Clock, InlineReactor):
    """A clock whose thread is the caller's."""

    def getThreadPool(self) -> InlinePool:
        return InlinePool()


class RuntimeCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = InlineClock()
        self.agent, self.other = HandAgent(), HandAgent(id="other")
        self.runtime = LocalRuntime(
            self.clock,
            "instance",
            "/",
            {"GARCON_CONTROLLER_URL": "secret", "HOME": "/h"},
            "executor",
            "/root",
            [self.agent, self.other],
        )

    def begin(self, **changes: Any) -> tuple[Launch, RecordingSink, Deferred[Launched]]:
        """Launch a run."""
        launch = a_launch("hi", **({"agent_id": "hand"} | changes))
        sink = RecordingSink(self.clock)
        return launch, sink, self.runtime.launch(launch, sink)

    def turn(self, **changes: Any) -> HandSession:
        """Run a whole turn, and return its session, which named itself ``s``."""
        launch, sink, d = self.begin(**changes)
        self.successResultOf(d)
        owner = self.agent if launch.agent_id == "hand" else self.other
        session = next(s for s in owner.sessions if launch in s.launches)
        assert session.sink is not None
        session.sink.event(SessionStarted(agent_session_id="s"))
        session.end()
        self.assertEqual(len(sink.of(RunEnded)), 1)
        return session

    def refusal(self, d: Deferred[Any]) -> GarconError:
        error = self.failureResultOf(d, GarconError).value
        assert isinstance(error, GarconError)
        return error


class Catalogues(RuntimeCase):
    """What the agents offer, together and each for itself."""

    def test_an_agent_that_cannot_tell_its_models_is_shown_without_any(self) -> None:
        """The others are shown as ever, and a known one keeps its name (control.md A.2)."""
        for known in (False, True):
            if known:
                self.agent.trouble = None
                self.successResultOf(self.runtime.catalog(None))
            self.agent.trouble = ValueError("broken")
            [entry, other] = self.successResultOf(self.runtime.catalog(None))
            self.assertEqual((entry.id, entry.label), ("hand", "Hand" if known else "hand"))
            self.assertEqual((entry.models, entry.default_model), ([], ""))
            self.assertFalse(entry.requires_strict_model_discovery)
            self.assertIsNone(entry.generation)
            self.assertEqual(other.default_model, "m")
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 2)

    def test_one_agent_alone_says_why_it_cannot_tell(self) -> None:
        """As far as that is for others to hear."""
        self.agent.trouble = GarconError("MODEL_DISCOVERY_FAILED", "no answer", status=503)
        error = self.refusal(self.runtime.catalog("hand"))
        self.assertEqual((error.code, error.text), ("MODEL_DISCOVERY_FAILED", "no answer"))
        self.agent.trouble = ValueError("broken")
        [entry] = self.successResultOf(self.runtime.catalog("hand"))
        self.assertEqual(entry.models, [])
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)


class Launching(RuntimeCase):
    def test_launch_waits_its_time_and_no_longer(self) -> None:
        """An agent that has not begun by then fails the launch, and its session is closed."""
        self.agent.slow = True
        launch, sink, d = self.begin()
        self.clock.advance(LAUNCH_WAIT - 0.1)
        self.assertNoResult(d)
        self.clock.advance(0.2)
        self.assertEqual(self.refusal(d).code, "INTERNAL_ERROR")
        self.assertEqual(len(self.agent.sessions[0].closed), 1)
        self.assertEqual(self.successResultOf(self.runtime.running()), ())
        self.assertEqual(sink.events, [])
        self.agent.slow = False
        self.turn(chat_id=launch.chat_id)

    def test_failed_launch_frees_its_chat_when_its_process_is_gone(self) -> None:
        """Until then the chat is busy, so that two processes never share it."""
        self.agent.slow = True
        _, _, d = self.begin()
        session = self.agent.sessions[0]
        session.slow_to_close = True
        assert session.beginning is not None
        session.beginning.errback(GarconError("INTERNAL_ERROR", "no", status=500))
        self.assertNoResult(d)
        self.assertEqual(self.refusal(self.begin()[2]).code, "SESSION_BUSY")
        session.closed[0].callback(None)
        self.assertEqual(self.refusal(d).text, "no")
        self.agent.slow = False
        self.turn()

    def test_stop_during_launch(self) -> None:
        """An abort cancels the launch; there was a run, and no event of it will come."""
        self.agent.slow = True
        launch, sink, d = self.begin()
        self.assertTrue(self.successResultOf(self.runtime.abort(launch.run_id)))
        self.assertEqual(self.refusal(d).code, "RUN_INTERRUPTED")
        self.assertEqual(sink.events, [])
        self.assertFalse(self.successResultOf(self.runtime.abort(launch.run_id)))

    def test_cancelled_by_its_caller(self) -> None:
        """Cancelling the launch ends it and frees the chat."""
        self.agent.slow = True
        _, _, d = self.begin()
        d.cancel()
        self.failureResultOf(d, CancelledError)
        self.assertEqual(len(self.agent.sessions[0].closed), 1)
        self.agent.slow = False
        self.turn()

    def test_unexpected_error_is_logged_and_told_without_its_text(self) -> None:
        """A bug's words are ours alone."""
        self.agent.slow = True
        _, _, d = self.begin()
        assert self.agent.sessions[0].beginning is not None
        self.agent.sessions[0].beginning.errback(KeyError("inside"))
        self.assertNotIn("inside", self.refusal(d).text)
        self.assertEqual(len(self.flushLoggedErrors(KeyError)), 1)

    def test_unknown_and_missing_agents(self) -> None:
        """Both are unsupported; the text names those that are known."""
        self.other.installed = False
        for agent_id in ("nobody", "other"):
            refusal = self.refusal(self.begin(agent_id=agent_id)[2])
            self.assertEqual((refusal.code, refusal.status), ("UNSUPPORTED_AGENT", 400))
            catalog = self.refusal(self.runtime.catalog(agent_id))
            self.assertEqual(catalog.code, "UNSUPPORTED_AGENT")
            self.assertIn("hand", catalog.text)
        (entry,) = self.successResultOf(self.runtime.catalog(None))
        self.assertEqual(entry.id, "hand")
        described = self.successResultOf(self.runtime.describe())
        self.assertEqual(described.agent_ids, ["hand"])

    def test_it_says_what_it_is_before_its_agents_say_what_they_offer(self) -> None:
        """A session waits for that, and lists of models may be long in coming."""
        self.patch(noted, "look", lambda *_: (frozenset(), frozenset()))
        given_up: list[object] = []
        self.agent.telling = Deferred(given_up.append)
        self.other.installed = False
        for _ in range(2):
            described = self.successResultOf(self.runtime.describe())
            self.assertEqual(described.agent_ids, ["hand"])
        self.assertEqual(self.agent.asked, 1)  # so that whoever asks next need not wait as long
        self.successResultOf(self.runtime.stop())
        self.assertEqual(len(given_up), 1)

    def test_one_run_per_chat_and_per_id(self) -> None:
        """A second run of a chat is busy, also while it only starts; so is a known run id."""
        launch, _, d = self.begin()
        self.successResultOf(d)
        refusal = self.refusal(self.begin()[2])
        self.assertEqual(
            (refusal.code, refusal.status, refusal.retryable), ("SESSION_BUSY", 409, True)
        )
        again = self.begin(chat_id="1700000000000002", run_id=launch.run_id)[2]
        self.assertEqual(self.refusal(again).code, "SESSION_BUSY")

    def test_children_get_an_environment_without_secrets(self) -> None:
        """The agent is handed the child environment, whatever the service's holds."""
        self.turn()
        (environment,) = self.agent.environments
        self.assertNotIn("secret", str(environment))
        self.assertEqual(environment["GARCON_RUNTIME"], "executor")
        self.assertEqual(environment["HOME"], "/h")


class GivenUp(RuntimeCase):
    """A launch was cancelled, and what it has begun takes its time to end."""

    def setUp(self) -> None:
        super().setUp()
        self.agent.slow = True
        self.first, _, self.cancelled = self.begin()
        [self.session] = self.agent.sessions
        self.session.slow_to_close = True
        self.cancelled.cancel()
        self.failureResultOf(self.cancelled, CancelledError)
        self.agent.slow = False

    def gone(self) -> None:
        """Nothing is left of it."""
        self.session.closed[0].callback(None)
        self.clock.advance(0)

    def assert_waits(self, d: Deferred[Launched]) -> None:
        """Assert that a launch begins when nothing is left of the first one, and not before."""
        self.assertNoResult(d)
        self.assertEqual(len(self.agent.sessions), 1)
        self.gone()
        self.successResultOf(d)
        self.assertEqual(len(self.agent.sessions), 2)

    def test_the_next_launch_waits_for_the_end(self) -> None:
        """It is neither refused nor has its chat two processes at once."""
        _, _, d = self.begin()
        self.assert_waits(d)

    def test_one_launch_waits_at_a_time(self) -> None:
        """Another one is busy, and so is the run id of the one that ends."""
        waiting, _, d = self.begin()
        self.assertEqual(self.refusal(self.begin()[2]).code, "SESSION_BUSY")
        self.assertEqual(
            self.refusal(self.begin(chat_id="1700000000000002", run_id=self.first.run_id)[2]).code,
            "SESSION_BUSY",
        )
        self.gone()
        self.assertEqual(self.successResultOf(d).run_id, waiting.run_id)

    def test_a_launch_that_waits_can_be_given_up_as_well(self) -> None:
        """By its caller or by an abort; whoever comes next waits for the same end."""
        _, _, d = self.begin()
        d.cancel()
        self.failureResultOf(d, CancelledError)
        aborted, _, d = self.begin()
        self.assertTrue(self.successResultOf(self.runtime.abort(aborted.run_id)))
        self.assertEqual(self.refusal(d).code, "RUN_INTERRUPTED")
        _, _, d = self.begin()
        self.assert_waits(d)

    def test_the_wait_is_part_of_the_launch(self) -> None:
        """What has not ended by then leaves the chat busy."""
        _, _, d = self.begin()
        self.clock.advance(LAUNCH_WAIT - 0.1)
        self.assertNoResult(d)
        self.clock.advance(0.2)
        refusal = self.refusal(d)
        self.assertEqual((refusal.code, refusal.retryable), ("SESSION_BUSY", True))
        self.assertEqual(len(self.agent.sessions), 1)
        self.gone()
        self.turn()

    def test_stop_waits_for_it_and_begins_nothing_after_it(self) -> None:
        """The launch that waits is interrupted."""
        _, _, d = self.begin()
        stopped = self.runtime.stop()
        self.assertEqual(self.refusal(d).code, "RUN_INTERRUPTED")
        self.assertNoResult(stopped)
        self.gone()
        self.successResultOf(stopped)
        self.assertEqual(len(self.agent.sessions), 1)
        self.assertEqual(self.clock.getDelayedCalls(), [])


class GivenUpElsewhere(RuntimeCase):
    """Other ways by which a run comes to its end without its chat being free at once."""

    def test_a_launch_that_waits_for_the_session_before(self) -> None:
        """Given up, it leaves that session ending, and the next launch waits for it too."""
        session = self.turn()
        session.slow_to_close = True
        _, _, d = self.begin()
        d.cancel()
        self.failureResultOf(d, CancelledError)
        _, _, d = self.begin()
        self.assertNoResult(d)
        self.assertEqual((len(session.closed), len(self.agent.sessions)), (1, 1))
        session.closed[0].callback(None)
        self.successResultOf(d)
        self.assertEqual(len(self.agent.sessions), 2)

    def test_a_launch_whose_caller_and_whose_own_time_are_over(self) -> None:
        """It is cancelled once: its chat stays taken until its process is gone."""
        self.agent.slow = True
        _, _, d = self.begin()
        [session] = self.agent.sessions
        session.slow_to_close = True
        self.clock.advance(LAUNCH_WAIT)
        self.assertNoResult(d)
        d.cancel()
        self.failureResultOf(d, CancelledError)
        self.agent.slow = False
        _, _, d = self.begin()
        self.assertNoResult(d)
        self.assertEqual(len(self.agent.sessions), 1)
        session.closed[0].callback(None)
        self.clock.advance(0)
        self.successResultOf(d)

    def test_an_agent_that_begins_all_the_same(self) -> None:
        """Its session is closed, its run is heard of by nobody, and the next launch waits."""
        self.agent.slow = True
        _, sink, d = self.begin()
        [session] = self.agent.sessions
        session.slow_to_close = True
        session.begins_when_cancelled = True
        d.cancel()
        self.failureResultOf(d, CancelledError)
        self.agent.slow = False
        _, _, d = self.begin()
        self.assertNoResult(d)
        self.assertEqual((len(session.closed), len(self.agent.sessions)), (1, 1))
        session.closed[0].callback(None)
        self.clock.advance(0)
        self.successResultOf(d)
        self.assertEqual(sink.events, [])

    def test_a_run_that_was_aborted(self) -> None:
        """The next launch waits for its end, and goes on in its session once that is told."""
        launch, sink, d = self.begin()
        self.successResultOf(d)
        [session] = self.agent.sessions
        assert session.sink is not None
        session.sink.event(SessionStarted(agent_session_id="s"))
        self.runtime.abort(launch.run_id)
        _, after, d = self.begin(agent_session_id="s")
        self.assertNoResult(d)
        session.end("interrupted")
        self.assertEqual((len(sink.of(RunEnded)), len(session.launches)), (1, 1))
        session.interrupted[0].callback(None)
        self.clock.advance(0)
        self.successResultOf(d)
        self.assertEqual((len(session.launches), session.closed), (2, []))
        self.clock.advance(IDLE_TIME)
        session.end()
        self.assertEqual(after.of(RunEnded), [RunEnded(outcome="finished")])


class Sessions(RuntimeCase):
    def test_what_keeps_and_what_displaces_a_session(self) -> None:
        """Only a launch that names it, with the same agent and directory, goes on in a session."""
        for changes, kept in (
            ({"agent_session_id": "s"}, True),
            ({"agent_session_id": None}, False),
            ({"agent_session_id": "other"}, False),
            ({"agent_session_id": "s", "project_path": "/tmp"}, False),
            ({"agent_session_id": "s", "agent_id": "other"}, False),
        ):
            self.setUp()
            first = self.turn()
            second = self.turn(**changes)
            self.assertEqual(second is first, kept, changes)
            self.assertEqual(len(first.closed), 0 if kept else 1, changes)

    def test_idle_session_is_closed_in_time(self) -> None:
        """Use starts the time anew; a running turn is never idle."""
        session = self.turn()
        self.clock.advance(IDLE_TIME - 1)
        self.turn(agent_session_id="s")
        self.clock.advance(IDLE_TIME - 1)
        _, _, d = self.begin(agent_session_id="s")
        self.successResultOf(d)
        self.clock.advance(IDLE_TIME * 2)
        self.assertEqual(session.closed, [])
        session.end()
        self.clock.advance(IDLE_TIME)
        self.assertEqual(len(session.closed), 1)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_limit_of_sessions(self) -> None:
        """As many as the limit may run; one more fails, unless an idle one makes room."""
        for number in range(SESSIONS):
            self.successResultOf(self.begin(chat_id=f"{number:016}")[2])
        refusal = self.refusal(self.begin(chat_id="9" * 16)[2])
        self.assertEqual((refusal.code, refusal.status), ("INTERNAL_ERROR", 500))
        self.agent.sessions[7].end()
        self.clock.advance(1)
        self.agent.sessions[3].end()
        self.successResultOf(self.begin(chat_id="9" * 16)[2])
        self.assertEqual(len(self.agent.sessions[7].closed), 1)
        self.assertEqual(len(self.agent.sessions[3].closed), 0)

    def test_limit_holds_for_launches_at_once(self) -> None:
        """A place that one launch waits for may go to another; neither gets a second one."""
        for number in range(SESSIONS):
            self.successResultOf(self.begin(chat_id=f"{number:016}")[2])
        idle = self.agent.sessions[0]
        idle.end()
        idle.slow_to_close = True
        _, _, waiting = self.begin(chat_id="8" * 16)
        self.assertNoResult(waiting)
        self.successResultOf(self.begin(chat_id="9" * 16)[2])
        idle.closed[0].callback(None)
        refusal = self.failureResultOf(waiting, GarconError).value
        self.assertIn(f"{SESSIONS} agent sessions", refusal.text)
        self.assertEqual(len(self.agent.sessions), SESSIONS + 1)


class Running(RuntimeCase):
    def test_abort_interrupts(self) -> None:
        """The run is still there until it ends; then its chat is free before anyone hears of it."""
        launch, sink, d = self.begin()
        self.successResultOf(d)
        (session,) = self.agent.sessions
        self.assertTrue(self.successResultOf(self.runtime.abort(launch.run_id)))
        self.assertEqual(len(session.interrupted), 1)
        self.assertEqual(self.successResultOf(self.runtime.running()), (launch.run_id,))
        free: list[tuple[str, ...]] = []
        sink._waiting.append(
            (lambda: bool(sink.of(RunEnded)), over := Deferred())  # type: ignore[var-annotated]
        )
        over.addCallback(lambda _: free.append(self.successResultOf(self.runtime.running())))
        session.end("interrupted")
        session.interrupted[0].callback(None)
        self.assertEqual(free, [()])
        self.assertFalse(self.successResultOf(self.runtime.abort(launch.run_id)))

    def test_decision_reaches_the_session_once(self) -> None:
        """A decided request is not withdrawn at the end; unknown runs take no decision."""
        launch, sink, d = self.begin()
        self.successResultOf(d)
        (session,) = self.agent.sessions
        assert session.sink is not None
        session.sink.event(asked("one"))
        answer = a_response(launch.run_id, asked("one"))
        self.assertEqual(self.successResultOf(self.runtime.respond(answer)), "confirmed")
        self.assertEqual(self.successResultOf(self.runtime.respond(answer)), "not-delivered")
        stray = a_response("no such run", asked("one"))
        self.assertEqual(self.successResultOf(self.runtime.respond(stray)), "not-delivered")
        session.end()
        self.assertEqual(sink.events, [asked("one"), RunEnded(outcome="finished")])
        self.assertEqual(self.successResultOf(self.runtime.respond(answer)), "not-delivered")

    def test_a_row_that_is_too_large_is_cut(self) -> None:
        """It costs neither its run nor the rows after it."""
        _, sink, d = self.begin()
        self.successResultOf(d)
        (session,) = self.agent.sessions
        assert session.sink is not None
        for text in ("x" * RUN_EVENT, "after"):
            message = AssistantMessage(timestamp="2026-01-01T00:00:00.000Z", content=text)
            session.sink.event(RowProduced(message=message))
        session.end()
        messages: list[Any] = [row.message for row in sink.of(RowProduced)]
        cut, after = (message.content for message in messages)
        self.assertIn("[Cut here: ", cut[-100:])
        self.assertLess(len(cut), RUN_EVENT)
        self.assertEqual((after, sink.of(RunEnded)), ("after", [RunEnded(outcome="finished")]))


class Stopping(RuntimeCase):
    def test_stop_interrupts_then_closes(self) -> None:
        """It waits for the runs' ends, then for every session's."""
        _, sink, d = self.begin()
        self.successResultOf(d)
        (session,) = self.agent.sessions
        session.slow_to_close = True
        stopped = self.runtime.stop()
        self.assertEqual((len(session.interrupted), len(session.closed)), (1, 0))
        session.end("interrupted")
        session.interrupted[0].callback(None)
        self.assertEqual(len(session.closed), 1)
        self.assertNoResult(stopped)
        session.closed[0].callback(None)
        self.successResultOf(stopped)
        self.assertEqual(sink.of(RunEnded), [RunEnded(outcome="interrupted")])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_stop_does_not_wait_for_a_deaf_agent(self) -> None:
        """After three seconds the session is closed all the same."""
        _, _, d = self.begin()
        self.successResultOf(d)
        (session,) = self.agent.sessions
        stopped = self.runtime.stop()
        self.clock.advance(STOP_WAIT - 0.1)
        self.assertEqual(session.closed, [])
        self.clock.advance(0.2)
        self.assertEqual(len(session.closed), 1)
        self.assertNoResult(stopped)
        session.interrupted[0].callback(None)
        self.successResultOf(stopped)

    def test_stop_cancels_launches_and_refuses_new_ones(self) -> None:
        """Nothing begins any more."""
        self.agent.slow = True
        _, _, d = self.begin()
        self.successResultOf(self.runtime.stop())
        self.assertEqual(self.refusal(d).code, "RUN_INTERRUPTED")
        refusal = self.refusal(self.begin(chat_id="1700000000000002")[2])
        self.assertEqual((refusal.code, refusal.status), ("SERVER_SHUTTING_DOWN", 503))
