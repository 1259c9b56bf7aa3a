"""Further input for a run of this machine, with an agent that the test moves by hand (chats.md
5.11).
"""

from __future__ import annotations

import os
from typing import Any

from twisted.internet.defer import Deferred

from garcon.contract.steering import Steer, SteerCapture, Steered, SteerTarget
from garcon.runtime.executor import STEERS_WAITING, LocalRuntime
from garcon.test.runtime.test_executor import HandSession, RuntimeCase
from garcon.testing.inline_threads import InlinePool, InlineReactor


class SteeringTests(RuntimeCase):
    """A run that goes on."""

    def setUp(self) -> None:
        super().setUp()
        launch, self.sink, d = self.begin()
        self.successResultOf(d)
        self.run_id = launch.run_id

    @property
    def session(self) -> HandSession:
        return self.agent.sessions[-1]

    def captured(self, run_id: str | None = None) -> SteerCapture:
        capture: SteerCapture = self.successResultOf(
            self.runtime.capture_steering(run_id or self.run_id)
        )
        return capture

    def steer(self, content: str = "more", run_id: str | None = None) -> Deferred[Steered]:
        target = SteerTarget(run_id=run_id or self.run_id, turn="turn-1")
        return self.runtime.steer(
            Steer(target=target, client_message_id=f"m-{content}", content=content)
        )

    def outcome(self, d: Deferred[Any]) -> str:
        steered: Steered = self.successResultOf(d)
        return steered.outcome

    def test_a_capture_names_the_run_and_the_agent_s_turn(self) -> None:
        """The run is ours to name."""
        target = SteerTarget(run_id=self.run_id, turn="turn-1")
        self.assertEqual(self.captured(), SteerCapture(outcome="captured", target=target))

    def test_what_the_agent_says_of_itself_passes(self) -> None:
        """Unsupported, or not just now."""
        for outcome in ("unsupported", "not-steerable"):
            self.session.capture = SteerCapture(outcome=outcome)
            self.assertEqual(self.captured(), self.session.capture)

    def test_delivered_as_it_is(self) -> None:
        """And answered when the agent has it."""
        d = self.steer("text")
        self.assertNoResult(d)
        steer, taken = self.session.steers[0]
        self.assertEqual((steer.content, steer.target.turn), ("text", "turn-1"))
        taken.callback(Steered(outcome="delivered"))
        self.assertEqual(self.outcome(d), "delivered")

    def test_in_order_one_at_a_time(self) -> None:
        """The second is not handed over before the first was taken."""
        first, second = self.steer("one"), self.steer("two")
        self.assertEqual([steer.content for steer, _ in self.session.steers], ["one"])
        self.session.steers[0][1].callback(Steered(outcome="rejected"))
        self.assertEqual([steer.content for steer, _ in self.session.steers], ["one", "two"])
        self.session.steers[1][1].callback(Steered(outcome="delivered"))
        self.assertEqual((self.outcome(first), self.outcome(second)), ("rejected", "delivered"))

    def test_the_end_of_the_run(self) -> None:
        """Nothing is handed over any more; what waits hears of it."""
        first, second = self.steer("one"), self.steer("two")
        self.session.end()
        self.session.steers[0][1].callback(Steered(outcome="turn-unavailable"))
        self.assertEqual(len(self.session.steers), 1)
        for d in (first, second, self.steer("three")):
            self.assertEqual(self.outcome(d), "turn-unavailable")
        self.assertEqual(self.captured().outcome, "turn-unavailable")

    def test_no_such_run(self) -> None:
        """Nor its capture."""
        self.assertEqual(self.outcome(self.steer(run_id="other")), "turn-unavailable")
        self.assertEqual(self.captured("other").outcome, "turn-unavailable")

    def test_a_run_that_is_being_launched(self) -> None:
        """There is no turn yet."""
        self.agent.slow = True
        launch, _, d = self.begin(chat_id="another")
        self.assertNoResult(d)
        self.assertEqual(self.captured(launch.run_id).outcome, "turn-unavailable")
        self.assertEqual(self.outcome(self.steer(run_id=launch.run_id)), "turn-unavailable")
        self.runtime.abort(launch.run_id)
        self.refusal(d)

    def test_a_compaction(self) -> None:
        """Is no conversation."""
        launch, _, d = self.begin(chat_id="another", is_compaction=True)
        self.successResultOf(d)
        self.assertEqual(self.captured(launch.run_id).outcome, "not-steerable")

    def test_sixty_four_may_wait_and_one_more_may_not(self) -> None:
        """It is rejected, and says why."""
        first = self.steer("first")
        waiting = [self.steer(f"{n}") for n in range(STEERS_WAITING)]
        for d in waiting:
            self.assertNoResult(d)
        self.assertEqual(self.outcome(self.steer("more")), "rejected")
        self.session.end()
        self.session.steers[0][1].callback(Steered(outcome="unknown"))
        self.assertEqual(self.outcome(first), "unknown")
        for d in waiting:
            self.assertEqual(self.outcome(d), "turn-unavailable")


class OneThread(InlineReactor):
    """A reactor whose thread is the caller's."""

    def getThreadPool(self) -> InlinePool:
        return InlinePool()


class MentionTests(RuntimeCase):
    """Files are read in a thread."""

    def test_from_the_base(self) -> None:
        """Nowhere else."""
        base = os.path.realpath(self.mktemp())
        os.makedirs(base)
        with open(os.path.join(base, "a"), "w") as file:
            file.write("hello")
        runtime = LocalRuntime(OneThread(), "i", base, {}, "executor", "/root", [])
        text = self.successResultOf(runtime.resolve_mentions(base, "see @a"))
        self.assertIn("hello", text)
