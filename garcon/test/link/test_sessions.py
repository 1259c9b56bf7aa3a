"""Sessions and links under hostile frames, full budgets, slow sockets and lost peers; time is a
`Clock`.
"""

from __future__ import annotations

from typing import Any

import msgspec
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.limits import FRAGMENT, MIB
from garcon.contract.rpc import RECONCILE, Lane, ProducerFrame, ReconcileCalls, produced
from garcon.contract.runs import SessionStarted
from garcon.errors import CallError, LimitExceeded
from garcon.link import frames
from garcon.link.causes import safe_notice
from garcon.link.fragments import LAST, MORE, WHOLE, cut
from garcon.link.handshake import Hello, Refusal, Refused
from garcon.link.memory import memory_pair
from garcon.link.settings import LinkSettings
from garcon.test.link.cast import (
    ASK,
    ASK_BULK,
    ECHO,
    EITHER,
    EXECUTOR,
    FETCH,
    HELD,
    METHODS,
    OTHER_EXECUTOR,
    ControllerSide,
    Owner,
    Text,
    WorkerSide,
)

CALL = "c1de4c62-9c2d-4d0c-8f0a-000000000020"
SESSION = "c1de4c62-9c2d-4d0c-8f0a-000000000010"


def records(text: bytes) -> list[bytes]:
    """Return the records that carry a text."""
    found = [cut(text, at) for at in range(0, len(text), FRAGMENT)]
    return [WHOLE + text] if len(found) == 1 else found


class Case(SynchronousTestCase):
    """A linked pair in one process."""

    settings = LinkSettings()

    def setUp(self) -> None:
        self.clock = Clock()
        self.controller_owner, self.worker_owner = Owner(), Owner()
        self.controller_side, self.worker_side = ControllerSide(), WorkerSide()
        self.controller, self.worker, self.network = memory_pair(
            self.clock,
            self.controller_owner,
            self.worker_owner,
            dict(self.controller_side.handlers()),
            self.worker_handlers(),
            executor_id=EXECUTOR,
            settings=self.settings,
            methods=METHODS,
        )
        self.clock.advance(0)
        captured: Any = self.controller.current()
        self.captured = captured
        self.session = captured.primary
        self.far: Any = self.worker.current()

    def worker_handlers(self) -> dict[str, Any]:
        return self.worker_side.handlers()

    def tearDown(self) -> None:
        self.controller.close("over")
        self.worker.close("over")
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def failed(self, d: Deferred[Any]) -> CallError:
        """Return the call error that `d` has failed with."""
        error = self.failureResultOf(d, CallError).value
        assert isinstance(error, CallError)
        return error

    def inject(self, plaintext: bytes, lane: Lane = Lane.PRIMARY) -> None:
        """Let the worker send the controller a record of the test's own."""
        session = self.far.primary if lane is Lane.PRIMARY else self.far.bulk
        session._wire.send(session._cipher.seal(plaintext))

    def say(self, lane: Lane = Lane.PRIMARY, **fields: Any) -> None:
        self.inject(WHOLE + msgspec.json.encode(fields), lane)

    def request(self, **changes: Any) -> dict[str, Any]:
        fields = {"type": "request", "id": CALL, "seq": 1, "method": ASK.name}
        return fields | {"request": {"text": "t"}} | changes


class HostileFrames(Case):
    """Frames that no peer of ours sends."""

    def assert_ended(self, cause: str = "protocol-error") -> None:
        self.assertEqual([c for _, c in self.controller_owner.lost], [cause])

    def test_each_ends_the_lane(self) -> None:
        """Whatever breaks the protocol ends the lane that carried it, silently in our log."""
        wrong: list[bytes] = [
            b"",
            b"\x03{}",
            LAST + b"{}",
            MORE + b"short",
            WHOLE + b"{",
            WHOLE + b"\xff\xfe",
            WHOLE + b"[" * 20_000,
            *(
                WHOLE + msgspec.json.encode(fields)
                for fields in (
                    {},
                    {"type": "unheard-of"},
                    {"type": "ping", "more": 1},
                    {"type": "bulk-active"},
                    {"type": "bulk-active", "sessionId": SESSION, "more": 1},
                    {"type": "bulk-prepare", "sessionId": SESSION},
                    {"type": "producer-ack", "acknowledgements": []},
                    {"type": "producer", "seq": 1, "notification": {"bindingId": 7}},
                    {"type": "producer", "seq": "1", "notification": {}},
                    {"type": "cancel"},
                    {"type": "hello"},
                    self.request(seq=0),
                    self.request(seq=2),
                    self.request(seq="1"),
                    self.request(id="x"),
                    self.request(id=CALL.upper()),
                    {"type": "error", "id": CALL, "error": {"code": "C"}},
                    {
                        "type": "error",
                        "id": CALL,
                        "error": {
                            "code": "C",
                            "message": "m",
                            "retryable": False,
                            "domain": "other",
                        },
                    },
                )
            ),
        ]
        for plaintext in wrong:
            self.controller_owner.lost.clear()
            self.inject(plaintext)
            self.assertEqual(
                [c for _, c in self.controller_owner.lost], ["protocol-error"], plaintext[:60]
            )
            self.assertEqual(self.worker_owner.lost[-1][1], "protocol-error")
            self.clock.advance(30)
            self.far = self.worker.current()
            assert self.far is not None

    def test_acknowledgements_of_a_batch(self) -> None:
        """1,024 ids are one; with one more the lane ends."""
        for count, lost in ((1024, []), (1025, ["protocol-error"])):
            for record in records(frames.encode(frames.ReplyAck([CALL] * count))):
                self.session._wire.send(self.session._cipher.seal(record))
            self.assertEqual([cause for _, cause in self.worker_owner.lost], lost)

    def test_the_status_of_an_error(self) -> None:
        """From 400 to 599, else the lane ends."""
        error = {"code": "C", "message": "m", "retryable": False, "domain": "executor"}
        for status, lost in ((400, 0), (599, 0), (399, 1), (600, 1)):
            self.controller_owner.lost.clear()
            self.say(type="error", id=CALL, error=error | {"status": status})
            self.assertEqual(len(self.controller_owner.lost), lost, status)
            if lost:
                self.clock.advance(30)
                self.far = self.worker.current()

    def test_a_repeated_id(self) -> None:
        """The id of a running call cannot be used again."""
        self.controller._shared.served.handlers = {ASK.name: lambda r, c: Deferred()}
        self.say(**self.request())
        self.assertEqual(self.controller_owner.lost, [])
        self.say(**self.request(seq=2))
        self.assert_ended()

    def test_life_cycle_frames_on_bulk(self) -> None:
        """Bulk carries calls only; it is lost, primary is not."""
        bulk = self.far.bulk
        self.say(Lane.BULK, type="bulk-active", sessionId=SESSION)
        self.assertFalse(bulk.is_open)
        self.assertEqual(self.controller_owner.lost, [])
        assert self.controller.bulk_error is not None
        self.assertEqual(self.controller.bulk_error[0], "protocol-error")

    def test_late_and_unknown_answers_are_ignored(self) -> None:
        """An answer to nobody is a late one; so are old bulk sessions' frames."""
        self.say(type="result", id=CALL, value=1)
        self.say(type="error", id=CALL, error={"code": "C", "message": "m", "retryable": False})
        self.say(type="cancel", id=CALL)
        self.say(type="bulk-lost", sessionId=SESSION)
        self.say(type="bulk-prepared", sessionId=SESSION)
        self.say(type="bulk-active", sessionId=SESSION)
        self.assertEqual(self.controller_owner.lost, [])
        self.assertEqual(self.controller.bulk_phase, "ready")

    def test_a_malformed_request_is_rejected(self) -> None:
        """A request that its method cannot read is refused; the lane lives."""
        d = self.far.call(ASK, Text("t"))
        self.assertEqual(self.successResultOf(d), Text("T"))
        error = self.failed(self.far.call(ASK, frames.Ping()))
        self.assertEqual((error.code, error.outcome), ("VALIDATION_FAILED", "rejected"))

    def test_a_failing_owner_does_not_stop_the_link(self) -> None:
        """An owner's failure over a notice is logged, and the link goes on."""

        def fail(name: str) -> None:
            raise ZeroDivisionError

        self.controller_owner.on_event = fail
        self.network.cut()
        self.clock.advance(5)
        self.assertIsNotNone(self.controller.current())
        self.assertEqual(self.controller.bulk_phase, "ready")
        self.controller_owner.on_event = lambda name: None
        self.assertNotEqual(self.flushLoggedErrors(ZeroDivisionError), [])

    def test_handlers_may_be_added_later(self) -> None:
        """A link serves what its owner's table has when the call comes."""
        handlers: Any = self.worker._shared.served.handlers
        handlers["test.missing"] = handlers[ECHO.name]
        d = self.captured.call(METHODS["test.missing"], Text("t"))
        self.assertEqual(self.successResultOf(d), Text("t"))

    def test_a_malformed_answer_is_of_unknown_outcome(self) -> None:
        """What a method's result type cannot read fails that call only."""
        self.worker_side.guard = lambda size, value: {"other": 1}
        error = self.failed(self.captured.call(METHODS["test.guard"], Text("t")))
        self.assertEqual((error.code, error.outcome), ("PROVIDER_FAILURE", "unknown"))
        self.assertTrue(self.captured.is_current)

    def test_a_changed_record(self) -> None:
        """A record that does not open ends the lane."""
        sealed = self.far.primary._cipher.seal(WHOLE + frames.PING)
        self.far.primary._wire.send(sealed[:-1] + bytes([sealed[-1] ^ 1]))
        self.assert_ended()

    def test_a_failing_owner_retires_the_session(self) -> None:
        """When our own side fails on a frame, that is logged, and the session ends."""

        def fail(name: str) -> None:
            if name == "produced":
                raise ZeroDivisionError

        self.controller_owner.on_event = fail
        self.worker.send_producer(1, produced("b", SessionStarted(agent_session_id="s")))
        self.assert_ended("session-retired")
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_one_reconciliation_in_each_lane_session(self) -> None:
        """A second ends the lane that it came on, whatever became of the first; the next session
        of the lane may reconcile again.
        """
        request = ReconcileCalls()
        bulk: Any = self.captured.bulk
        self.assertTrue(bulk.is_open)
        # The link itself has reconciled bulk.
        error = self.failed(bulk.call(RECONCILE, request))
        self.assertEqual(error.outcome, "unknown")
        self.assertEqual((bulk.is_open, self.session.is_open), (False, True))
        assert self.worker.bulk_error is not None
        self.assertEqual(self.worker.bulk_error[0], "protocol-error")
        self.clock.advance(5)
        self.assertEqual(self.controller.bulk_phase, "ready")
        # Primary is reconciled by the owner, which has not done so here.
        self.successResultOf(self.session.call(RECONCILE, request))
        self.assertTrue(self.session.is_open)
        self.failed(self.session.call(RECONCILE, request))
        self.assert_ended()
        self.assertEqual(self.worker_owner.lost[-1][1], "protocol-error")
        self.clock.advance(5)
        captured: Any = self.controller.current()
        self.successResultOf(captured.primary.call(RECONCILE, request))

    def test_a_refused_reconciliation_was_the_one(self) -> None:
        """Also one that cannot be read."""
        wrong = ReconcileCalls("nonsense")  # type: ignore[arg-type]  # what is tested
        self.failed(self.session.call(RECONCILE, wrong))
        self.assertTrue(self.session.is_open)
        self.failed(self.session.call(RECONCILE, ReconcileCalls()))
        self.assert_ended()


class Outcomes(Case):
    """What is known of calls that end early."""

    def block(self) -> None:
        """Let the controller's primary socket take no more."""
        self.session._wire.set_writable(False)

    def unblock(self) -> None:
        self.session._wire.set_writable(True)

    def test_a_call_that_never_left(self) -> None:
        """Queued and then lost, late or cancelled, it was not dispatched."""
        self.block()
        late = self.captured.call(ECHO, Text("late"), deadline=1.0)
        lost = self.captured.call(ECHO, Text("lost"))
        given_up = self.captured.call(HELD, Text("given up"))
        self.clock.advance(1.0)
        self.assertEqual(self.failed(late).outcome, "not-dispatched")
        given_up.cancel()
        self.failureResultOf(given_up, CancelledError)
        self.network.cut()
        self.assertEqual(self.failed(lost).outcome, "not-dispatched")
        self.assertEqual(self.worker_side.held, [])

    def test_a_call_half_sent(self) -> None:
        """Without its last record a call cannot have begun."""
        self.block()
        d = self.captured.call(ECHO, Text("x" * 3 * FRAGMENT))
        record = self.session._outbox._queue.next_record()
        self.session._wire.send(self.session._cipher.seal(record))
        self.network.cut()
        self.assertEqual(self.failed(d).outcome, "not-dispatched")

    def test_a_cancelled_call_that_waits_is_taken_out(self) -> None:
        """It never reaches the other side, and the next one's number follows without a gap."""
        self.block()
        gone = self.captured.call(HELD, Text("gone"))
        kept = self.captured.call(ECHO, Text("kept"))
        gone.cancel()
        self.failureResultOf(gone, CancelledError)
        self.unblock()
        self.assertEqual(self.successResultOf(kept), Text("kept"))
        self.assertEqual(self.worker_side.held, [])

    def test_a_cancel_goes_behind_its_large_request(self) -> None:
        """The handler is begun and then cancelled."""
        self.block()
        d = self.captured.call(HELD, Text("x" * 3 * FRAGMENT))
        record = self.session._outbox._queue.next_record()
        self.session._wire.send(self.session._cipher.seal(record))
        d.cancel()
        self.failureResultOf(d, CancelledError)
        self.unblock()
        self.assertEqual(len(self.worker_side.held), 1)
        self.assertEqual(len(self.worker_side.cancelled), 1)

    def test_small_calls_pass_a_large_request(self) -> None:
        """They are served while it is still on its way, in spite of their later numbers."""
        self.block()
        large = self.captured.call(ECHO, Text("x" * 3 * FRAGMENT))
        record = self.session._outbox._queue.next_record()
        self.session._wire.send(self.session._cipher.seal(record))
        small = [self.captured.call(ECHO, Text(str(n))) for n in range(3)]
        for _ in small:
            record = self.session._outbox._queue.next_record()
            self.session._wire.send(self.session._cipher.seal(record))
        self.assertEqual([self.successResultOf(d).text for d in small], ["0", "1", "2"])
        self.assertNoResult(large)
        self.unblock()
        self.assertEqual(len(self.successResultOf(large).text), 3 * FRAGMENT)

    def test_an_answer_that_finds_no_room(self) -> None:
        """It becomes a small error of unknown outcome; the slot is free again."""
        self.far.primary._wire.set_writable(False)
        calls = []
        for _ in range(3):
            calls.append(self.captured.call(EITHER, Text("x" * 15 * MIB)))
            self.clock.advance(0)
        self.far.primary._wire.set_writable(True)
        # The small error passed the two large answers.
        self.clock.advance(0)
        outcomes = [
            self.failed(d).code if n == 2 else len(self.successResultOf(d).text)
            for n, d in enumerate(calls)
        ]
        self.assertEqual(outcomes, [15 * MIB, 15 * MIB, "REPLY_LOST"])
        self.assertEqual(self.worker._shared.served.slots.used, 0)

    def test_a_call_that_finds_no_room_is_not_dispatched(self) -> None:
        """The queue's bound refuses it at once, as busy and worth repeating."""
        self.block()
        for _ in range(2):
            self.captured.call(EITHER, Text("x" * 15 * MIB)).addErrback(lambda f: None)
        error = self.failed(self.captured.call(EITHER, Text("x" * 3 * MIB)))
        self.assertEqual(
            (error.code, error.outcome, error.retryable), ("EXECUTOR_BUSY", "not-dispatched", True)
        )

    def test_a_session_refuses_the_other_roles_methods(self) -> None:
        """What this side serves is not asked of the other."""
        error = self.failed(self.captured.call(ASK, Text("t")))
        self.assertEqual(error.outcome, "not-dispatched")


class CallBudgets(Case):
    """How many calls run at once."""

    def test_256_outgoing(self) -> None:
        """The 257th is refused here; an ended one makes room."""
        calls = [self.captured.call(HELD, Text(str(n))) for n in range(256)]
        error = self.failed(self.captured.call(HELD, Text("more")))
        self.assertEqual((error.code, error.outcome), ("EXECUTOR_BUSY", "not-dispatched"))
        self.worker_side.held[0][2].callback(Text("done"))
        self.assertEqual(self.successResultOf(calls[0]), Text("done"))
        more = self.captured.call(HELD, Text("more"))
        self.assertNoResult(more)
        for d in [*calls, more]:
            d.addErrback(lambda f: None)

    def test_a_cancelled_handler_keeps_its_slot(self) -> None:
        """Giving up frees nothing on the other side before the handler has settled, not even a
        new session.
        """
        ends: list[Deferred[None]] = []

        async def stubborn() -> None:
            try:
                await Deferred()
            finally:
                end: Deferred[None] = Deferred()
                ends.append(end)
                await end

        handlers: Any = self.worker._shared.served.handlers
        handlers[HELD.name] = lambda r, c: Deferred.fromCoroutine(stubborn())
        for _ in range(256):
            d = self.captured.call(HELD, Text("t"))
            d.addErrback(lambda f: None)
            d.cancel()
        self.assertEqual(self.controller._shared.outgoing.used, 0)
        self.assertEqual(self.worker._shared.served.slots.used, 256)
        self.network.cut()
        self.clock.advance(5)
        captured: Any = self.controller.current()
        error = self.failed(captured.call(ECHO, Text("t")))
        self.assertEqual((error.code, error.outcome), ("EXECUTOR_BUSY", "not-dispatched"))
        ends[0].callback(None)
        self.assertEqual(self.successResultOf(captured.call(ECHO, Text("t"))), Text("t"))
        for end in ends[1:]:
            end.callback(None)
        self.assertEqual(self.worker._shared.served.slots.used, 0)


class BulkLife(Case):
    """Waiting for bulk, and its steps' times.  Reconciliation hangs until the test lets it go."""

    def worker_handlers(self) -> dict[str, Any]:
        self.reconciling: list[Deferred[Any]] = []

        def reconcile(request: Any, context: Any) -> Deferred[Any]:
            self.reconciling.append(Deferred())
            return self.reconciling[-1]

        return self.worker_side.handlers() | {RECONCILE.name: reconcile}

    def finish(self) -> None:
        self.reconciling[-1].callback({"states": []})

    def test_calls_wait_for_bulk(self) -> None:
        """A bulk call made before goes out as soon as bulk is active; primary is usable
        meanwhile.
        """
        self.assertEqual(self.controller.bulk_phase, "reconciling")
        d = self.captured.call(FETCH, Text("3"))
        up = self.far.call(ASK_BULK, Text("up"))
        self.assertEqual(self.successResultOf(self.captured.call(ECHO, Text("t"))), Text("t"))
        self.assertNoResult(d)
        self.finish()
        self.assertEqual(self.successResultOf(d), Text("xxx"))
        self.assertEqual(self.successResultOf(up), Text("UP"))

    def test_twenty_seconds_at_most(self) -> None:
        """Also for a call without a deadline; it was not dispatched."""
        d = self.captured.call(FETCH, Text("3"), deadline=None)
        self.clock.advance(19.9)
        self.assertNoResult(d)
        self.clock.advance(0.1)
        error = self.failed(d)
        self.assertEqual((error.code, error.outcome), ("EXECUTOR_UNAVAILABLE", "not-dispatched"))

    def test_within_the_calls_own_deadline(self) -> None:
        """A shorter deadline ends the wait, and the wait is taken off the deadline."""
        short = self.captured.call(FETCH, Text("3"), deadline=2.0)
        self.worker._shared.served.handlers[FETCH.name] = self.worker_side.hold  # type: ignore[index]
        held = self.captured.call(FETCH, Text("3"), deadline=10.0)
        self.clock.advance(2.0)
        self.assertEqual(self.failed(short).outcome, "not-dispatched")
        self.finish()
        self.clock.advance(7.9)
        self.assertNoResult(held)
        self.clock.advance(0.2)
        self.assertEqual(self.failed(held).outcome, "unknown")

    def test_waiting_ends_with_the_generation(self) -> None:
        """A replaced primary does not inherit calls that waited."""
        d = self.captured.call(FETCH, Text("3"))
        self.network.cut()
        self.assertEqual(self.failed(d).outcome, "not-dispatched")

    def test_a_cancelled_wait_is_forgotten(self) -> None:
        """Nothing is sent for it later."""
        d = self.captured.call(FETCH, Text("3"))
        d.cancel()
        self.failureResultOf(d, CancelledError)
        self.finish()
        self.assertEqual(self.controller._shared.outgoing.used, 0)

    def test_192_may_wait(self) -> None:
        """The next is refused at once."""
        waiting = [self.captured.call(FETCH, Text("1")) for _ in range(192)]
        self.assertEqual(self.failed(self.captured.call(FETCH, Text("1"))).code, "EXECUTOR_BUSY")
        self.finish()
        self.assertEqual([self.successResultOf(d) for d in waiting], [Text("x")] * 192)

    def test_ordinary_calls_on_an_inactive_lane_are_not_dispatched(self) -> None:
        """Until activation a receiver takes only recovery traffic."""
        bulk: Any = self.worker._bulk
        bulk.admits = True
        error = self.failed(bulk.call(ASK_BULK, Text("early")))
        self.assertEqual(error.outcome, "not-dispatched")
        self.assertEqual(self.controller_side.questions, [])

    def test_reconciliation_has_120_seconds(self) -> None:
        """Then the attempt is given up and a new one is made under the same primary."""
        for _ in range(24):
            self.clock.advance(4.99)
        self.clock.advance(0.23)
        self.assertEqual(self.controller.bulk_phase, "reconciling", "at 119.99 s")
        self.assertEqual(len(self.reconciling), 1)
        self.clock.advance(0.0100001)
        self.assertEqual(self.controller.bulk_phase, "reconnecting")
        self.assertEqual(self.controller_owner.lost, [])
        self.clock.advance(5.0)
        self.assertEqual(len(self.reconciling), 2)
        self.finish()
        self.assertEqual((self.controller.bulk_phase, self.worker.bulk_phase), ("ready", "ready"))

    def test_a_silent_worker_has_five_seconds_to_prepare(self) -> None:
        """A step that never ends is retried after the redial delay."""
        self.worker._primary_frame = lambda session, frame: None  # type: ignore[method-assign]
        bulk: Any = self.controller._bulk
        bulk.end("session-retired", "a test")
        self.clock.advance(5.0)
        self.assertEqual(self.controller.bulk_phase, "preparing")
        self.clock.advance(5.0)
        self.assertEqual(self.controller.bulk_phase, "reconnecting")
        self.assertEqual(self.controller_owner.lost, [])


class Fences(Case):
    """Who may attach what to which generation."""

    def hello(self, **changes: Any) -> Hello:
        sound: dict[str, Any] = {
            "version": "v",
            "role": "worker",
            "executor_id": EXECUTOR,
            "runtime_id": "worker-runtime",
            "nonce": "0" * 64,
            "lane": Lane.BULK,
            "session_id": SESSION,
            "primary_session_id": self.captured.generation,
        }
        return Hello(**(sound | changes))

    def refusal(self, **changes: Any) -> Refusal:
        error: Refused = self.assertRaises(Refused, self.controller._judge, self.hello(**changes))
        return error.kind

    def test_an_old_bulk_socket_cannot_join(self) -> None:
        """The secret alone attaches nothing: grant, primary, executor and process must all be
        right.
        """
        self.assertEqual(self.refusal(), Refusal.SECOND_BULK)
        self.controller._abandon_bulk()
        self.assertEqual(self.refusal(), Refusal.NOT_GRANTED)
        self.assertEqual(self.refusal(primary_session_id=SESSION), Refusal.STALE_PRIMARY)
        self.assertEqual(self.refusal(executor_id=OTHER_EXECUTOR), Refusal.WRONG_EXECUTOR)
        self.controller._bulk_state.prepare(SESSION)
        self.controller._bulk_state.prepared(SESSION)
        self.assertEqual(self.refusal(runtime_id="another"), Refusal.RUNTIME_MISMATCH)
        self.assertEqual(self.refusal(session_id=CALL), Refusal.NOT_GRANTED)
        self.assertEqual(self.controller._judge(self.hello()).session_id, SESSION)
        self.network.cut()
        self.assertEqual(self.refusal(), Refusal.STALE_PRIMARY)

    def test_a_second_primary(self) -> None:
        """It is refused while the first is connected."""
        primary = {"lane": Lane.PRIMARY, "session_id": None, "primary_session_id": None}
        self.assertEqual(self.refusal(**primary), Refusal.SECOND_PRIMARY)
        self.network.cut()
        self.assertIsNotNone(self.controller._judge(self.hello(**primary)).session_id)

    def test_losing_primary_fences_bulk_at_once(self) -> None:
        """Bulk has ended before anybody is told, and its calls have failed."""
        seen: list[Any] = []
        d = self.captured.call(FETCH, Text("1"))
        self.successResultOf(d)
        self.worker._shared.served.handlers[FETCH.name] = self.worker_side.hold  # type: ignore[index]
        held = self.captured.call(FETCH, Text("1"))
        bulk = self.captured.bulk

        def look(name: str) -> None:
            if name == "lost":
                seen.append((bulk.is_open, held.called, self.controller.bulk_phase))

        self.controller_owner.on_event = look
        self.session.end("session-retired", "a test")
        self.assertEqual(seen, [(False, True, "offline")])
        self.assertEqual(self.failed(held).outcome, "unknown")

    def test_a_worker_keeps_its_executor(self) -> None:
        """Once it has linked it belongs to that executor for good."""
        self.network.cut()
        self.assertEqual(self.worker.executor_id, EXECUTOR)
        error: Refused = self.assertRaises(
            Refused,
            self.worker._judge,
            self.hello(role="controller", executor_id=OTHER_EXECUTOR),
        )
        self.assertEqual(error.kind, Refusal.WRONG_EXECUTOR)


class Rhythm(Case):
    """Liveness and record budgets on whole links."""

    def test_an_idle_link_pings_after_five_seconds(self) -> None:
        """Nothing is sent before; each lane keeps itself alive."""
        wires = list(self.network.wires)
        before = sum(w.sent for w in wires)
        self.clock.pump([1.0] * 4)
        self.assertEqual(sum(w.sent for w in wires), before)
        self.clock.pump([1.0] * 60)
        self.assertEqual(self.controller_owner.lost + self.worker_owner.lost, [])
        self.assertEqual(len(wires), 4)
        self.assertTrue(all(w.sent for w in wires))

    def test_a_silent_peer_is_given_up_after_fifteen(self) -> None:
        """Both sides end the link by themselves when nothing passes."""
        self.network.hold()
        self.clock.pump([1.0] * 14)
        self.assertEqual(self.controller_owner.lost, [])
        self.clock.pump([1.0])
        for owner in (self.controller_owner, self.worker_owner):
            self.assertEqual([cause for _, cause in owner.lost], ["liveness-timeout"])
        self.network.release()
        self.clock.pump([1.0] * 10)
        self.assertIsNotNone(self.controller.current())

    def test_within_fifteen_seconds_wherever_the_beat_is(self) -> None:
        """Both sides give each other up 15 s after the last word, not at the next whole second."""
        self.clock.advance(0.4)
        self.successResultOf(self.captured.call(ECHO, Text("t")))
        self.successResultOf(self.far.call(ASK, Text("t")))
        bulk: list[Any] = [self.controller._bulk, self.worker._bulk]
        self.successResultOf(self.captured.call(FETCH, Text("1")))
        self.network.hold()
        self.clock.pump([1.0] * 14)
        self.clock.advance(0.59 + 0.4)
        owners = (self.controller_owner, self.worker_owner)
        self.assertEqual([o.lost for o in owners], [[], []])
        self.clock.advance(0.0100001)
        for owner in owners:
            self.assertEqual([cause for _, cause in owner.lost], ["liveness-timeout"])
        self.assertEqual([b.is_open for b in bulk], [False, False])

    def test_traffic_on_one_lane_does_not_keep_the_other(self) -> None:
        """Each lane answers for itself."""
        bulk: Any = self.controller._bulk
        far: Any = self.worker._bulk
        for session in (bulk, far):
            session._wire.is_black_hole = True
        for _ in range(16):
            self.clock.advance(1.0)
            self.successResultOf(self.captured.call(ECHO, Text("t")))
        self.assertFalse(bulk.is_open)
        self.assertEqual(self.controller_owner.lost, [])


class UsedUpKeys(Case):
    """A key that has sealed all it may."""

    settings = LinkSettings(records_per_key=40)

    def test_the_link_ends_with_its_cause_and_comes_back(self) -> None:
        """Both sides know why, and the next connection has new keys."""
        for n in range(100):
            d = self.captured.call(ECHO, Text(str(n)))
            d.addErrback(lambda f: None)
            if self.controller_owner.lost:
                break
        self.assertEqual(self.controller_owner.lost[0][1], "record-limit")
        self.assertEqual(self.worker_owner.lost[0][1], "record-limit")
        self.clock.advance(5)
        captured = self.controller.current()
        assert captured is not None
        self.assertEqual(self.successResultOf(captured.call(ECHO, Text("t"))), Text("t"))


class Producing(Case):
    """Producer frames at their limits."""

    def frame(self, size: int) -> ProducerFrame:
        return produced("b", SessionStarted(agent_session_id="s" * size))

    def test_not_admitted_is_said(self) -> None:
        """While 512 wait or no link is up, a frame has to be offered again."""
        self.far.primary._wire.set_writable(False)
        admitted = [self.worker.send_producer(n, self.frame(1)) for n in range(1, 514)]
        self.assertEqual(admitted, [True] * 512 + [False])
        self.far.primary._wire.set_writable(True)
        self.clock.advance(0)
        self.assertEqual([n for _, n, _ in self.controller_owner.produced], list(range(1, 513)))
        self.network.cut()
        self.assertFalse(self.worker.send_producer(1, self.frame(1)))

    def test_a_frame_that_no_message_holds(self) -> None:
        """It can never be sent, so it is an error and not a wait."""
        self.assertRaises(LimitExceeded, self.worker.send_producer, 1, self.frame(16 * MIB))
        self.assertTrue(self.worker.send_producer(1, self.frame(16 * MIB - 200)))


class Notices(SynchronousTestCase):
    """What is shown of a peer's closing words."""

    def test_only_known_kinds_and_printable_words(self) -> None:
        """An unknown kind is a closed socket; control characters and length do not get through."""
        self.assertEqual(safe_notice("version-mismatch", "w"), ("version-mismatch", "w"))
        self.assertEqual(safe_notice("rm -rf", "w")[0], "socket-closed")
        self.assertEqual(safe_notice("local-close", "w")[0], "socket-closed")
        kind, text = safe_notice("protocol-error", "a\x1b[31m\n" + "b" * 500)
        self.assertEqual(kind, "protocol-error")
        self.assertTrue(text.startswith("a[31mb"))
        self.assertLess(len(text), 201)
