"""Runs that a controller gives up while it launches them, on a worker with a real runtime: the
chat's next run may come at once.
"""

from __future__ import annotations

from twisted.internet.defer import Deferred

from garcon.contract import rpc
from garcon.contract.runs import Launched, RunEnded
from garcon.errors import GarconError
from garcon.runtime.executor import LocalRuntime
from garcon.test.runtime.test_executor import HandAgent, HandSession, InlineClock
from garcon.test.worker.test_serving import Cast, launch
from garcon.worker.serving.serving import Serving

CANCEL = rpc.CancelLaunch("binding-1", "run-1")


class GivenUp(Cast):
    def setUp(self) -> None:
        super().setUp()
        self.clock = InlineClock()
        self.agent = HandAgent(id="scripted")
        runtime = LocalRuntime(self.clock, "i", "/", {}, "executor", "/root", [self.agent])
        self.serving = Serving(self.clock, runtime, self.wire.offer)
        self.handlers = self.serving.handlers()

    def start(self, number: int) -> Deferred[object]:
        """Bind a stream and launch a run of the one chat on it."""
        self.successResultOf(self.ask(rpc.BIND, rpc.BindingQuery(f"binding-{number}")))
        return self.ask(rpc.START, launch(f"run-{number}", f"binding-{number}"))

    def slow_start(self) -> tuple[Deferred[object], HandSession]:
        """Launch a first run, whose agent neither begins nor ends soon."""
        self.agent.slow = True
        d = self.start(1)
        self.agent.slow = False
        [session] = self.agent.sessions
        session.slow_to_close = True
        return d, session

    def test_the_next_run_waits_for_a_launch_that_ends(self) -> None:
        """Whether its call was cancelled or it was named; it is not refused."""
        for is_named in (False, True):
            self.setUp()
            given_up, session = self.slow_start()
            if is_named:
                self.successResultOf(self.ask(rpc.CANCEL_LAUNCH, CANCEL))
            else:
                given_up.cancel()
            self.failureResultOf(given_up)
            d = self.start(2)
            self.assertNoResult(d)
            self.assertEqual(len(self.agent.sessions), 1)
            session.closed[0].callback(None)
            self.clock.advance(0)
            self.assertEqual(self.successResultOf(d), Launched("run-2"))
            self.assertEqual((len(self.agent.sessions), self.serving.streams), (2, 1))

    def test_the_next_run_waits_for_one_that_had_begun(self) -> None:
        """The cancellation met the answer: the run is stopped, and its end is waited for."""
        self.successResultOf(self.start(1))
        [session] = self.agent.sessions
        self.successResultOf(self.ask(rpc.CANCEL_LAUNCH, CANCEL))
        self.assertEqual(len(session.interrupted), 1)
        d = self.start(2)
        self.assertNoResult(d)
        session.end("interrupted")
        session.interrupted[0].callback(None)
        self.clock.advance(0)
        self.assertEqual(self.successResultOf(d), Launched("run-2"))
        self.agent.sessions[-1].end()
        self.clock.advance(0)
        [(name, _, event)] = self.published()
        self.assertEqual((name, event), ("binding-2", RunEnded(outcome="finished")))

    def test_a_run_that_waits_can_be_given_up_as_well(self) -> None:
        """It never begins, and the one after it does."""
        given_up, session = self.slow_start()
        given_up.cancel()
        self.failureResultOf(given_up)
        waiting = self.start(2)
        self.successResultOf(self.ask(rpc.CANCEL_LAUNCH, rpc.CancelLaunch("binding-2", "run-2")))
        self.failureResultOf(waiting, GarconError)
        d = self.start(3)
        self.assertNoResult(d)
        session.closed[0].callback(None)
        self.clock.advance(0)
        self.assertEqual(self.successResultOf(d), Launched("run-3"))
        self.assertEqual(len(self.agent.sessions), 2)
