"""What every link promises, whatever its wires: one set of tests for the in-process network and
for real sockets.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from garcon.contract.limits import MIB
from garcon.contract.rpc import produced
from garcon.contract.runs import SessionStarted
from garcon.deferreds import returns_deferred
from garcon.errors import CallError, GarconError
from garcon.link.interfaces import ICapturedLink
from garcon.link.link import ControllerLink, WorkerLink
from garcon.test.link.cast import (
    ASK,
    ASK_BULK,
    BREAK,
    ECHO,
    EITHER,
    EXECUTOR,
    FETCH,
    GUARD,
    HELD,
    LAUNCH,
    MISSING,
    NESTED,
    REFUSE,
    ControllerSide,
    Owner,
    Text,
    WorkerSide,
)


class LinkPromises:
    """Mixed into a `TestCase` that has both ends linked, bulk included, at the end of its
    `setUp`.
    """

    controller: ControllerLink
    worker: WorkerLink
    controller_owner: Owner
    worker_owner: Owner
    controller_side: ControllerSide
    worker_side: WorkerSide

    def cut(self) -> None:
        """Break every connection."""
        raise NotImplementedError

    def until(self, condition: Any) -> Deferred[Any]:
        """Fire when `condition` holds."""
        raise NotImplementedError

    # The assertions that mixing in with a `TestCase` brings.
    assertEqual: Any
    assertIs: Any
    assertIn: Any
    assertTrue: Any
    assertFalse: Any
    flushLoggedErrors: Any

    def captured(self) -> ICapturedLink:
        """Return the controller's present generation."""
        captured = self.controller.current()
        assert captured is not None
        return captured

    def worker_captured(self) -> ICapturedLink:
        """Return the worker's present generation."""
        captured = self.worker.current()
        assert captured is not None
        return captured

    async def failure(self, d: Deferred[Any], kind: type[GarconError] = CallError) -> Any:
        """Return the error that `d` fails with."""
        try:
            result = await d
        except kind as error:
            return error
        raise AssertionError(f"it did not fail: {result!r}")

    @returns_deferred
    async def test_both_lanes_come_up(self) -> None:
        """Both sides know each other, agree on the generation, and have bulk ready."""
        self.assertEqual(self.captured().generation, self.worker_captured().generation)
        self.assertEqual(self.captured().peer.role, "worker")
        self.assertEqual(self.worker_captured().peer.executor_id, EXECUTOR)
        self.assertEqual(self.worker.executor_id, EXECUTOR)
        self.assertEqual(self.controller.bulk_phase, "ready")
        self.assertEqual(self.worker.bulk_phase, "ready")
        self.assertEqual(
            self.controller_owner.phases,
            ["preparing", "connecting", "reconciling", "activating", "ready"],
        )

    @returns_deferred
    async def test_calls_go_both_ways(self) -> None:
        """Either side calls the other on either lane."""
        self.assertEqual(await self.captured().call(ECHO, Text("hello")), Text("hello"))
        self.assertEqual(await self.captured().call(FETCH, Text("3")), Text("xxx"))
        self.assertEqual(await self.worker_captured().call(ASK, Text("up")), Text("UP"))
        self.assertEqual(await self.worker_captured().call(ASK_BULK, Text("up")), Text("UP"))

    @returns_deferred
    async def test_a_handler_may_call_back(self) -> None:
        """A handler asks its caller something while the caller waits."""
        self.assertEqual(await self.captured().call(NESTED, Text("me")), Text("ASKED BY ME"))

    @returns_deferred
    async def test_many_calls_at_once(self) -> None:
        """Concurrent calls each get their own answer, large ones among them."""
        texts = [str(n) * (1 if n % 10 else 100_000) for n in range(100)]
        waiting = [self.captured().call(ECHO, Text(text)) for text in texts]
        for text, d in zip(texts, waiting, strict=True):
            self.assertEqual((await d).text, text)

    @returns_deferred
    async def test_a_typed_error_crosses(self) -> None:
        """A handler's error arrives with its code, status, details and whether to retry."""
        error = await self.failure(self.captured().call(REFUSE, Text("")))
        self.assertEqual(
            (error.code, error.text, error.status, error.retryable, error.details),
            ("NOT_NOW", "not now", 409, True, "perhaps later"),
        )
        self.assertEqual((error.outcome, error.domain), ("rejected", "executor"))

    @returns_deferred
    async def test_an_unexpected_failure_is_logged_once_and_hidden(self) -> None:
        """What a handler did not mean to raise crosses without its words, and may have had
        effects.
        """
        error = await self.failure(self.captured().call(BREAK, Text("")))
        self.assertEqual((error.code, error.outcome), ("PROVIDER_FAILURE", "unknown"))
        self.assertFalse("private" in error.text)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    @returns_deferred
    async def test_a_method_without_handler_is_rejected(self) -> None:
        """A method that the other side does not serve is rejected; the link goes on."""
        error = await self.failure(self.captured().call(MISSING, Text("")))
        self.assertEqual(error.outcome, "rejected")
        self.assertTrue(self.captured().is_current)

    @returns_deferred
    async def test_the_wrong_lane_is_not_dispatched(self) -> None:
        """A session refuses a method of the other lane by itself."""
        session: Any = self.captured()
        error = await self.failure(session.primary.call(FETCH, Text("3")))
        self.assertEqual(error.outcome, "not-dispatched")

    @returns_deferred
    async def test_a_method_without_lane_takes_the_callers(self) -> None:
        """A method that has no lane of its own is called on the lane that its caller names."""
        from garcon.contract.rpc import Lane

        for lane in (Lane.PRIMARY, Lane.BULK):
            self.assertEqual(await self.captured().call(EITHER, Text("a"), lane=lane), Text("a"))

    @returns_deferred
    async def test_cancelling_reaches_the_handler(self) -> None:
        """A caller that gives up cancels the handler, and nothing else."""
        d = self.captured().call(HELD, Text("first"))
        await self.until(lambda: self.worker_side.held)
        d.addErrback(lambda f: None)
        d.cancel()
        await self.until(lambda: self.worker_side.cancelled)
        self.assertEqual(self.worker_side.cancelled, ["first"])
        self.assertEqual(await self.captured().call(ECHO, Text("on")), Text("on"))

    @returns_deferred
    async def test_a_deadline_leaves_the_outcome_open(self) -> None:
        """A sent call that is not answered in time may have run; its handler is cancelled."""
        error = await self.failure(self.captured().call(HELD, Text("late"), deadline=0.05))
        self.assertEqual(error.outcome, "unknown")
        await self.until(lambda: self.worker_side.cancelled)

    @returns_deferred
    async def test_a_cut_leaves_the_outcome_open(self) -> None:
        """When the link is cut a sent call is unknown; a session handler is cancelled, a launch
        goes on.
        """
        held = self.captured().call(HELD, Text("held"), deadline=None)
        launch = self.captured().call(LAUNCH, Text("launch"), deadline=None)
        failures = [self.failure(held), self.failure(launch)]
        await self.until(lambda: len(self.worker_side.held) == 2)
        before = self.captured()
        self.cut()
        for failure in failures:
            self.assertEqual((await failure).outcome, "unknown")
        await self.until(lambda: self.worker_side.cancelled)
        self.assertEqual(self.worker_side.cancelled, ["held"])
        self.assertFalse(before.is_current)
        error = await self.failure(before.call(ECHO, Text("late")))
        self.assertEqual(error.outcome, "not-dispatched")
        self.worker_side.held[1][2].callback(Text("done"))

    @returns_deferred
    async def test_the_link_comes_back_after_a_cut(self) -> None:
        """A cut link is dialled again, as a new generation, with bulk."""
        before = self.captured()
        self.cut()
        await self.until(
            lambda: (
                len(self.controller_owner.installed) == 2
                and self.controller.bulk_phase == self.worker.bulk_phase == "ready"
            )
        )
        self.assertTrue(self.captured().generation != before.generation)
        self.assertEqual(await self.captured().call(FETCH, Text("3")), Text("xxx"))
        self.assertIs(self.controller_owner.lost[0][0], before)

    @returns_deferred
    async def test_losing_bulk_leaves_primary(self) -> None:
        """A lost bulk lane is replaced under the same primary; its sent calls are unknown."""
        captured: Any = self.captured()
        first = captured.bulk
        d = first.call(EITHER, Text("x" * 300_000))
        first.end("session-retired", "a test")
        self.assertEqual((await self.failure(d)).outcome in ("unknown", "not-dispatched"), True)
        self.assertTrue(captured.is_current)
        self.assertEqual(await captured.call(ECHO, Text("still")), Text("still"))
        # This waits for the new bulk lane.
        self.assertEqual(await captured.call(FETCH, Text("3")), Text("xxx"))
        self.assertTrue(captured.bulk is not first)
        self.assertEqual(self.controller_owner.lost, [])

    @returns_deferred
    async def test_a_large_answer_arrives_whole(self) -> None:
        """Eight MiB cross on bulk."""
        answer = await self.captured().call(FETCH, Text(str(8 * MIB)))
        self.assertEqual(len(answer.text), 8 * MIB)

    @returns_deferred
    async def test_an_answer_over_the_limit_is_a_small_error(self) -> None:
        """A reply that no message can hold becomes an error of unknown outcome, and the lane
        lives.
        """
        error = await self.failure(self.captured().call(FETCH, Text(str(16 * MIB))))
        self.assertEqual((error.code, error.outcome), ("REPLY_LOST", "unknown"))
        self.assertEqual(await self.captured().call(FETCH, Text("1")), Text("x"))

    @returns_deferred
    async def test_a_request_over_the_limit_is_not_dispatched(self) -> None:
        """A request that no message can hold is refused where it is made."""
        error = await self.failure(self.captured().call(ECHO, Text("x" * 16 * MIB)))
        self.assertEqual((error.code, error.outcome), ("MESSAGE_TOO_LARGE", "not-dispatched"))

    @returns_deferred
    async def test_a_guard_sees_the_size_and_may_refuse(self) -> None:
        """The reply guard runs on the encoded size, and its error is sent instead of the value."""
        self.assertEqual(await self.captured().call(GUARD, Text("fine")), Text("fine"))
        self.assertEqual(self.worker_side.guard_sizes, [len('{"text":"fine"}')])

        def shorten(size: int, value: Text) -> Any:
            return Text(value.text[:2])

        self.worker_side.guard = shorten
        self.assertEqual(await self.captured().call(GUARD, Text("fine")), Text("fi"))

        def refuse(size: int, value: Text) -> Any:
            raise GarconError("CLI_ACCESS_DENIED", "no longer", status=403)

        self.worker_side.guard = refuse
        error = await self.failure(self.captured().call(GUARD, Text("fine")))
        self.assertEqual((error.code, error.status), ("CLI_ACCESS_DENIED", 403))

    @returns_deferred
    async def test_producer_frames_keep_their_order(self) -> None:
        """Producer frames arrive in order with their numbers, whatever else is under way;
        acknowledgements return.
        """
        large = self.captured().call(ECHO, Text("x" * 1_000_000))
        for n in range(1, 21):
            frame = produced("binding", SessionStarted(agent_session_id="s" * n * 3000))
            self.assertTrue(self.worker.send_producer(n, frame))
        await self.until(lambda: len(self.controller_owner.produced) == 20)
        self.assertEqual(
            [p[:2] for p in self.controller_owner.produced], [("binding", n) for n in range(1, 21)]
        )
        last = self.controller_owner.produced[-1][2]
        self.assertIn(b"s" * 60_000, bytes(last.event))
        self.controller.acknowledge({"binding": 20})
        await self.until(lambda: self.worker_owner.acknowledged)
        self.assertEqual(self.worker_owner.acknowledged, [{"binding": 20}])
        await large

    @returns_deferred
    async def test_closing_ends_both_ends_and_fails_calls(self) -> None:
        """Closing a link fails its calls and tells the peer; the Deferred fires when the sockets
        are gone.
        """
        d = self.captured().call(HELD, Text("held"), deadline=None)
        failure = self.failure(d)
        await self.until(lambda: self.worker_side.held)
        await self.controller.close("a test")
        self.assertEqual((await failure).outcome, "unknown")
        await self.until(lambda: self.worker.current() is None)
        self.assertEqual(self.worker.last_error, ("socket-closed", "the other side ended the link"))
        self.assertEqual(self.controller_owner.lost[0][1], "local-close")
        self.assertEqual(self.controller.last_error, None)

    @returns_deferred
    async def test_nothing_is_left_charged(self) -> None:
        """When all calls have ended no budget holds anything."""
        await self.captured().call(FETCH, Text("100000"))
        await self.worker_captured().call(ASK, Text("a"))
        for link in (self.controller, self.worker):
            shared = link._shared
            self.assertEqual((shared.budget.bytes, shared.budget.messages), (0, 0))
            self.assertEqual((shared.outgoing.used, shared.served.slots.used), (0, 0))
            self.assertEqual((shared.outgoing.exempt_used, shared.served.slots.exempt_used), (0, 0))
