"""The rules that the events of one run keep."""

from __future__ import annotations

from typing import Any

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.messages import AssistantMessage, BashToolUse
from garcon.contract.runs import (
    PermissionRequested,
    PermissionWithdrawn,
    RowProduced,
    RunEnded,
    RunFailure,
)
from garcon.runtime.runs import Run
from garcon.testing.agent_runs import RecordingSink, a_launch

NOW = "2026-01-02T03:04:05.678Z"
ROW = RowProduced(message=AssistantMessage(timestamp=NOW, content="x"))


def asked(occurrence: str) -> PermissionRequested:
    tool = BashToolUse(timestamp=NOW, tool_id="t", command="x")
    return PermissionRequested(
        permission_occurrence_id=occurrence, requested_tool=tool, timestamp=NOW
    )


def withdrawn(occurrence: str, reason: Any) -> PermissionWithdrawn:
    return PermissionWithdrawn(permission_occurrence_id=occurrence, reason=reason)


class Events(SynchronousTestCase):
    def setUp(self) -> None:
        self.sink = RecordingSink(Clock())
        self.run_ = Run(a_launch("hi"), self.sink)

    def test_nothing_before_the_launch_is_answered(self) -> None:
        """Events wait for the release, then keep their order; so does the end."""
        over = self.run_.when_ended()
        self.run_.event(ROW)
        self.run_.event(RunEnded(outcome="finished"))
        self.assertEqual(self.sink.events, [])
        self.assertNoResult(over)
        self.run_.release()
        self.assertEqual(self.sink.events, [ROW, RunEnded(outcome="finished")])
        self.successResultOf(over)
        self.successResultOf(self.run_.when_ended())

    def test_end_is_the_last_and_comes_once(self) -> None:
        """What comes after the end is dropped, another end too."""
        self.run_.release()
        self.run_.event(RunEnded(outcome="interrupted"))
        self.run_.event(ROW)
        self.run_.event(RunEnded(outcome="finished"))
        self.assertEqual(self.sink.events, [RunEnded(outcome="interrupted")])

    def test_live_permissions_are_withdrawn_at_the_end(self) -> None:
        """Those neither decided nor withdrawn, each once, with the reason of the end."""
        ends = {
            "session-complete": RunEnded(outcome="finished"),
            "aborted": RunEnded(outcome="interrupted"),
            "cancelled": RunEnded(outcome="failed", error=RunFailure("X", "x")),
        }
        for reason, end in ends.items():
            sink = RecordingSink(Clock())
            run = Run(a_launch("hi"), sink)
            run.release()
            for occurrence in ("open", "decided", "gone"):
                run.event(asked(occurrence))
            run.decided("decided")
            run.event(withdrawn("gone", "cancelled"))
            run.event(withdrawn("gone", "cancelled"))
            run.event(withdrawn("never", "cancelled"))
            run.event(end)
            self.assertEqual(
                sink.events[3:], [withdrawn("gone", "cancelled"), withdrawn("open", reason), end]
            )


class TimeLimit(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.sink = RecordingSink(self.clock)
        self.run_ = Run(a_launch("hi"), self.sink)
        self.run_.release()
        self.stops = 0

    def stop(self) -> None:
        self.stops += 1

    def test_a_run_that_takes_too_long(self) -> None:
        """It is asked to stop when the time is over, and however it then ends, it failed of
        that.
        """
        self.run_.limit(self.clock, 5.0, self.stop)
        self.clock.advance(4.99)
        self.assertEqual(self.stops, 0)
        self.clock.advance(0.01)
        self.assertEqual(self.stops, 1)
        self.run_.event(RunEnded(outcome="interrupted"))
        (end,) = self.sink.of(RunEnded)
        assert end.error is not None
        self.assertEqual((end.outcome, end.error.code), ("failed", "AGENT_TIME_LIMIT"))

    def test_a_run_that_ends_in_time(self) -> None:
        """Nothing is left of the limit, and none begins after the end."""
        self.run_.limit(self.clock, 5.0, self.stop)
        self.run_.event(RunEnded(outcome="finished"))
        self.run_.limit(self.clock, 5.0, self.stop)
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.assertEqual(self.sink.events, [RunEnded(outcome="finished")])
