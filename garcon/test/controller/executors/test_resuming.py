"""Runs over lost sessions, on held links: every moment at which a session can go (control.md J.8,
J.10).
"""

from __future__ import annotations

from msgspec import Raw
from twisted.internet.defer import CancelledError, Deferred

from garcon.contract import rpc
from garcon.contract.limits import GRACE, LAUNCH_WAIT
from garcon.contract.messages import TranscriptNotice
from garcon.contract.runs import (
    Launched,
    LaunchFailure,
    LaunchSettled,
    RowProduced,
    RunEnded,
    RunEvent,
)
from garcon.errors import CallError
from garcon.test.controller.executors.test_remote import FINISHED, RemoteCase, launch, row
from garcon.testing.held_link import DESCRIPTION

RUN, STREAM = "run-1", "binding-run-1"
SETTLED = LaunchSettled(run_id=RUN)


def found(
    handle: bool | None = None, *, received: bool = True, through: int = 0
) -> list[rpc.ResumedBinding]:
    """Return a worker's answer: launched, starting (False), or neither (None)."""
    started = None if handle is None else rpc.ResumedLaunch(RUN, Launched(RUN) if handle else None)
    return [rpc.ResumedBinding(STREAM, through, started, [RUN] if received else [])]


class ResumingCase(RemoteCase):
    """With ways to lose and find a session."""

    def again(self, resumed: list[rpc.ResumedBinding] | None = None, **more: str) -> None:
        """Lose the session and install the next one."""
        self.link.lose()
        self.next(resumed, **more)

    def next(
        self, resumed: list[rpc.ResumedBinding] | None = None, worker: str = "runtime-1"
    ) -> None:
        self.generation = self.link.ready("next", worker=worker, resumed=resumed)

    def assertFailed(self, event: RunEvent, code: str) -> None:
        assert isinstance(event, RunEnded) and event.error is not None, event
        self.assertEqual((event.outcome, event.error.code), ("failed", code))


class RunTests(ResumingCase):
    """A run that is under way."""

    def setUp(self) -> None:
        super().setUp()
        self.running()
        self.produce(1, row("a"))

    def test_goes_on(self) -> None:
        """Asked for from the last number taken; what comes twice is taken once."""
        self.produce(2, row("b"))
        self.link.lose()
        self.assertEqual(self.sink.events, [row("a"), row("b")])
        self.clock.advance(2 * 3600)
        self.assertEqual(self.executors.availability(self.executor_id), "reconnecting")
        self.next()
        asked = [c.request for c in self.generation.calls if c.method is rpc.PRODUCERS_RESUME]
        self.assertEqual(asked, [rpc.ResumeProducers([rpc.ResumeBinding(STREAM, 2)])])
        for seq, text in ((2, "b"), (3, "c")):
            self.produce(seq, row(text))
        self.produce(4, FINISHED)
        self.assertEqual(self.sink.events, [row("a"), row("b"), row("c"), FINISHED])

    def test_resumed_before_calls_are_let_through(self) -> None:
        """The executor is ready only then."""
        self.link.lose()
        installed = self.link.install("g2")
        installed.waiting(rpc.DESCRIBE).d.callback(DESCRIPTION)
        self.assertEqual(installed.made(), ["executor.describe", "producers.resume"])
        self.assertFalse(installed.is_active)
        self.assertEqual(self.executors.availability(self.executor_id), "reconnecting")
        answer = rpc.ResumedProducers(found(True))
        installed.waiting(rpc.PRODUCERS_RESUME).d.callback(answer)
        self.assertTrue(installed.is_active)
        self.assertEqual(self.executors.availability(self.executor_id), "ready")

    def test_ends_with_the_grace(self) -> None:
        """As failed, its outcome unknown; nothing follows that."""
        self.link.lose()
        self.clock.advance(GRACE - 1)
        self.assertEqual(len(self.sink.events), 1)
        self.clock.advance(1)
        self.assertEqual(len(self.sink.events), 2)
        self.assertFailed(self.sink.events[1], "OUTCOME_UNKNOWN")
        self.next()
        self.assertNotIn("producers.resume", self.generation.made())
        self.produce(2, FINISHED)
        self.assertEqual(len(self.sink.events), 2)

    def test_ends_with_its_worker_process(self) -> None:
        """As soon as another one is there."""
        self.again(worker="runtime-2")
        self.assertFailed(self.sink.events[1], "OUTCOME_UNKNOWN")
        self.assertEqual(self.executors.availability(self.executor_id), "ready")

    def test_ends_where_its_stream_is_gone(self) -> None:
        """The worker has given it up; other runs go on."""
        self.running("run-2")
        there = [rpc.ResumedBinding("binding-run-2", 0)]
        self.again(there)
        self.assertFailed(self.sink.events[1], "OUTCOME_UNKNOWN")
        self.produce(1, row("b"), "run-2")
        self.assertEqual(self.sink.events[2:], [row("b")])

    def test_ends_with_the_link(self) -> None:
        """An executor whose connector changes has no way back to it."""
        self.updated(self.executor_id, connection={"direction": "executor-connects", "noTls": True})
        self.assertFailed(self.sink.events[1], "OUTCOME_UNKNOWN")

    def test_a_gap_is_one_notice_for_each_session(self) -> None:
        """However many numbers are skipped, in however many places."""
        self.again()
        for seq in (4, 6, 9):
            self.produce(seq, row(str(seq)))
        notices = [
            n
            for n, event in enumerate(self.sink.events)
            if isinstance(event, RowProduced) and isinstance(event.message, TranscriptNotice)
        ]
        self.assertEqual((notices, len(self.sink.events)), ([1], 5))
        self.again()
        self.produce(11, row("11"))
        self.assertEqual(len(self.sink.events), 7)

    def test_an_abort_waits_for_the_next_session(self) -> None:
        """However long that takes."""
        self.link.lose()
        d = self.runtime.abort(RUN)
        self.clock.advance(3600)
        self.assertNoResult(d)
        self.next()
        self.generation.waiting(rpc.ABORT).d.callback(rpc.Aborted(True))
        self.assertIs(self.successResultOf(d), True)

    def test_unreadable_rows_are_lost_output(self) -> None:
        """One notice for as many as come; what can be read goes on."""
        for seq in (2, 3):
            frame = rpc.ProducerFrame(STREAM, Raw(b'{"type":"row","message":{"type":"new"}}'))
            self.link.events.producer_received(STREAM, seq, frame)
        self.produce(4, row("b"))
        self.assertEqual(len(self.sink.events), 3)
        self.assertEqual(self.sink.events[2], row("b"))

    def test_anything_else_unreadable_is_the_end(self) -> None:
        """The run fails, its outcome unknown, and its stream is closed."""
        for content in (b'{"type":"new"}', b"[]"):
            self.setUp()
            frame = rpc.ProducerFrame(STREAM, Raw(content))
            self.link.events.producer_received(STREAM, 2, frame)
            self.assertFailed(self.sink.events[1], "OUTCOME_UNKNOWN")
            close = self.generation.waiting(rpc.CLOSE_BINDING)
            self.assertEqual(close.request, rpc.BindingQuery(STREAM))


class BindTests(ResumingCase):
    """The session goes before anything was launched."""

    def setUp(self) -> None:
        super().setUp()
        self.d = self.runtime.launch(launch(), self.sink)
        self.link.lose()

    def test_bound_again(self) -> None:
        """In the next session; the launch knows nothing of it."""
        self.assertNoResult(self.d)
        self.next()
        self.generation.waiting(rpc.BIND).d.callback(rpc.Nothing())
        self.generation.waiting(rpc.START).d.callback(Launched(RUN))
        self.assertEqual(self.successResultOf(self.d), Launched(RUN))

    def test_no_session_in_time(self) -> None:
        """It was never started, and that is what is said."""
        self.clock.advance(LAUNCH_WAIT)
        self.assertEqual(self.failed(self.d).outcome, "not-dispatched")

    def test_cancelled(self) -> None:
        """Its stream, should there be one, is closed in the next session."""
        self.d.cancel()
        self.failureResultOf(self.d, CancelledError)
        self.next()
        self.generation.waiting(rpc.CLOSE_BINDING)
        self.assertNotIn("producers.bind", self.generation.made())

    def test_another_worker_process(self) -> None:
        """It was never started."""
        self.next(worker="runtime-2")
        self.assertEqual(self.failed(self.d).outcome, "not-dispatched")
        self.assertEqual(self.sink.events, [])


class LaunchTests(ResumingCase):
    """The session goes while a launch is on its way."""

    def setUp(self) -> None:
        super().setUp()
        self.d = self.begin()
        self.link.lose()

    def events(self) -> list[RunEvent]:
        self.clock.advance(0)
        return self.sink.events

    def test_launched(self) -> None:
        """The next session's answer says so."""
        self.assertNoResult(self.d)
        self.next(found(True))
        self.assertEqual(self.successResultOf(self.d), Launched(RUN))
        self.produce(1, row("a"))
        self.assertEqual(self.events(), [row("a")])

    def test_still_starting(self) -> None:
        """The stream says so later."""
        self.next(found(False))
        self.assertNoResult(self.d)
        self.produce(1, SETTLED)
        self.assertEqual(self.successResultOf(self.d), Launched(RUN))
        self.produce(2, row("a"))
        self.assertEqual(self.events(), [row("a")])

    def test_told_twice(self) -> None:
        """By the answer and by the stream."""
        self.next(found(True))
        self.produce(1, SETTLED)
        self.produce(2, FINISHED)
        self.assertEqual(self.events(), [FINISHED])

    def test_failed(self) -> None:
        """With the worker's own error, and its stream is closed."""
        self.next(found())
        self.assertNoResult(self.d)
        failure = LaunchFailure(code="UNSUPPORTED_AGENT", message="no", status=422)
        self.produce(1, LaunchSettled(run_id=RUN, error=failure))
        error = self.failed(self.d)
        self.assertEqual(
            (error.code, error.status, error.outcome), ("UNSUPPORTED_AGENT", 422, "rejected")
        )
        self.generation.waiting(rpc.CLOSE_BINDING)
        self.assertEqual(self.events(), [])

    def test_never_received(self) -> None:
        """It is sent once more, as the same run, when calls are let through."""
        self.next(found(received=False))
        start = self.generation.waiting(rpc.START)
        self.assertEqual(start.request, launch())
        start.d.callback(Launched(RUN))
        self.assertEqual(self.successResultOf(self.d), Launched(RUN))

    def test_never_received_twice(self) -> None:
        """It is not sent a third time; it never began."""
        self.next(found(received=False))
        self.again(found(received=False))
        self.assertNotIn("execution.start", self.generation.made())
        self.assertEqual(self.failed(self.d).outcome, "not-dispatched")

    def test_lost_again_and_received(self) -> None:
        """The second sending counts as the first."""
        self.next(found(received=False))
        self.again(found(True))
        self.assertEqual(self.successResultOf(self.d), Launched(RUN))

    def test_lost_again_before_it_was_told(self) -> None:
        """Each session is asked."""
        for _ in range(3):
            self.next(found(False))
            self.link.lose()
        self.assertNoResult(self.d)
        self.next(found(True))
        self.assertEqual(self.successResultOf(self.d), Launched(RUN))

    def test_the_stream_is_gone(self) -> None:
        """What became of the launch is not known, and never will be."""
        self.next([])
        self.assertEqual(self.failed(self.d).outcome, "unknown")
        self.assertEqual(self.events(), [])

    def test_another_worker_process(self) -> None:
        """Likewise."""
        self.next(worker="runtime-2")
        self.assertEqual(self.failed(self.d).outcome, "unknown")

    def test_cancelled(self) -> None:
        """The next session's worker is told to end it."""
        self.d.cancel()
        self.assertEqual(self.failed(self.d).outcome, "unknown")
        self.next()
        self.assertNotIn("producers.resume", self.generation.made())
        cancel = self.generation.waiting(rpc.CANCEL_LAUNCH)
        self.assertEqual(cancel.request, rpc.CancelLaunch(STREAM, RUN))
        self.assertEqual(self.events(), [])

    def test_cancelled_when_it_was_to_be_sent_again(self) -> None:
        """It is not."""
        installed = self.link.install("g2")
        installed.waiting(rpc.DESCRIBE).d.callback(DESCRIPTION)
        self.d.cancel()
        self.assertEqual(self.failed(self.d).outcome, "unknown")
        answer = rpc.ResumedProducers(found(received=False))
        installed.waiting(rpc.PRODUCERS_RESUME).d.callback(answer)
        self.assertNotIn("execution.start", installed.made())
        installed.waiting(rpc.CANCEL_LAUNCH)


class LongGapTests(ResumingCase):
    """A launch is lost and its session does not come back in 20 seconds."""

    def setUp(self) -> None:
        super().setUp()
        self.d: Deferred[Launched] = self.begin()
        self.link.lose()
        self.clock.advance(LAUNCH_WAIT - 0.1)
        self.assertNoResult(self.d)
        self.clock.advance(0.1)
        self.assertEqual(self.successResultOf(self.d), Launched(RUN))
        self.clock.advance(3600)
        self.assertEqual(self.sink.events, [])

    def test_it_was_launched(self) -> None:
        """Everything is there."""
        self.next(found(True))
        self.produce(1, row("a"))
        self.produce(2, FINISHED)
        self.assertEqual(self.sink.events, [row("a"), FINISHED])

    def test_it_failed(self) -> None:
        """That is the end of the run."""
        self.next(found())
        failure = LaunchFailure(code="UNSUPPORTED_AGENT", message="no")
        self.produce(1, LaunchSettled(run_id=RUN, error=failure))
        [end] = self.sink.events
        self.assertFailed(end, "UNSUPPORTED_AGENT")

    def test_it_was_never_received(self) -> None:
        """It is launched now; should that fail, this is the end of the run."""
        self.next(found(received=False))
        refused = CallError("SESSION_BUSY", "no", outcome="rejected")
        self.generation.waiting(rpc.START).d.errback(refused)
        [end] = self.sink.events
        self.assertFailed(end, "SESSION_BUSY")

    def test_the_grace_ends(self) -> None:
        """Its outcome stays unknown."""
        self.clock.advance(GRACE)
        [end] = self.sink.events
        self.assertFailed(end, "OUTCOME_UNKNOWN")

    def test_stopped_meanwhile(self) -> None:
        """It ends at once; the worker is told when it is back."""
        self.assertIs(self.successResultOf(self.runtime.abort(RUN)), True)
        self.assertEqual(self.sink.events, [RunEnded(outcome="interrupted")])
        self.next()
        self.generation.waiting(rpc.CANCEL_LAUNCH)
        self.assertNotIn("execution.start", self.generation.made())
        self.assertEqual(len(self.sink.events), 1)
