"""Calls that outlive their sessions, over whole links in one process; time is a `Clock`.

Each test cuts the link at one point of a call's way and says how the call ends, and how often its
handler ran.
"""

from __future__ import annotations

from typing import Any

from attrs import evolve
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.limits import CALLS, CALLS_BULK, GRACE, INTERACTIVE_WAIT, MIB
from garcon.contract.rpc import RECONCILE, CallState, LostCall, ReconcileCalls
from garcon.errors import CallError, GarconError, LaunchLost
from garcon.link.link import WorkerLink
from garcon.link.memory import MemoryDialler, memory_pair
from garcon.link.parked import Place
from garcon.link.settings import LinkSettings
from garcon.test.link.cast import (
    ECHO,
    EXECUTOR,
    FETCH,
    HELD,
    KEPT,
    KEPT_BULK,
    LAUNCH,
    METHODS,
    ControllerSide,
    Owner,
    Text,
    WorkerSide,
)

SETTINGS = LinkSettings(redial_delays=(0.0, 0.1), redial_reset_after=0.0)


class Case(SynchronousTestCase):
    """A linked pair whose controller installs each session as its owner does."""

    settings = SETTINGS
    worker_dials = True

    def setUp(self) -> None:
        self.clock = Clock()
        self.installs = True
        self.controller_owner, self.worker_owner = Owner(), Owner()
        self.worker_side = WorkerSide()
        self.controller, self.worker, self.network = memory_pair(
            self.clock,
            self.controller_owner,
            self.worker_owner,
            dict(ControllerSide().handlers()),
            self.worker_side.handlers(),
            executor_id=EXECUTOR,
            worker_dials=self.worker_dials,
            settings=self.settings,
            methods=METHODS,
        )
        self.controller_owner.on_event = self.controller_told
        self.clock.advance(0)
        self.assertEqual(self.controller.bulk_phase, "ready")

    def controller_told(self, name: str) -> None:
        if name == "installed" and self.installs:
            self.install()

    def install(self) -> None:
        """Do what the owner does at its place in the order."""
        self.controller.reconcile_primary().addCallbacks(
            lambda _: self.controller.activate(), lambda f: f.trap(CallError)
        )

    def tearDown(self) -> None:
        self.controller.close("over")
        self.worker.close("over")
        for _, _, d in self.worker_side.held:
            if not d.called:
                d.callback(Text("too late"))
        self.clock.advance(0)
        self.assertEqual(self.clock.getDelayedCalls(), [])
        for link in (self.controller, self.worker):
            shared = link._shared
            self.assertEqual((shared.budget.bytes, shared.budget.messages), (0, 0))
            self.assertEqual((shared.outgoing.used, shared.outgoing.bulk_used), (0, 0))
            self.assertEqual((shared.served.slots.used, shared.served.slots.exempt_used), (0, 0))
        for continuing in self.controller._continuing.values():
            self.assertEqual((len(continuing), continuing._room.used), (0, 0))

    # -- what happens --

    def cut(self) -> None:
        """Lose every connection, and whatever was on its way."""
        self.network.cut()

    def offline(self, seconds: float = 60.0) -> None:
        """Be disconnected for a while: what is dialled meanwhile goes nowhere."""
        self.network.cut()
        self.network.hold()
        self.clock.pump([0.5] * int(seconds / 0.5))
        self.network.cut()

    def relink(self) -> None:
        """Come back."""
        self.clock.pump([0.0, 0.0])
        if self.controller.bulk_phase != "ready":
            self.clock.pump([0.1, 0.0])
        self.assertEqual(self.controller.bulk_phase, "ready")

    def failed(self, d: Deferred[Any]) -> CallError:
        error = self.failureResultOf(d, CallError).value
        assert isinstance(error, CallError)
        return error

    def reply(self, which: int = 0, text: str = "done") -> None:
        """Let a held handler end."""
        self.worker_side.held[which][2].callback(Text(text))

    def ran(self) -> list[str]:
        """Name what the worker has begun, in order."""
        return [request.text for request, _, _ in self.worker_side.held]

    @property
    def journal(self) -> Any:
        return self.worker._outliving.journal

    def parked(self, place: Place) -> int:
        return sum(c.count(place) for c in self.controller._continuing.values())


class Cuts(Case):
    """The link is cut at each point of a journaled call's way."""

    def test_undisturbed(self) -> None:
        """A call without faults is one call; its reply is kept for a quarter of a second."""
        d = self.controller.call(KEPT, Text("a"))
        self.reply()
        self.assertEqual(self.successResultOf(d), Text("done"))
        self.assertEqual(len(self.journal), 1)
        self.clock.advance(0.24)
        self.assertEqual(len(self.journal), 1)
        self.clock.advance(0.01)
        self.assertEqual(len(self.journal), 0)

    def test_before_sending(self) -> None:
        """A call that never left goes out on the next session."""
        captured: Any = self.controller.current()
        captured.primary._wire.set_writable(False)
        d = self.controller.call(KEPT, Text("a"))
        self.cut()
        self.assertEqual((self.parked(Place.WAITING), self.ran()), (1, []))
        self.relink()
        self.assertEqual(self.ran(), ["a"])
        self.reply()
        self.assertEqual(self.successResultOf(d), Text("done"))

    def test_while_it_is_half_sent(self) -> None:
        """What left in part was not received, and needs no asking."""
        captured: Any = self.controller.current()
        d = self.controller.call(KEPT, Text("x" * MIB))
        captured.primary._wire.set_writable(False)
        self.assertEqual(self.ran(), [])
        self.cut()
        self.assertEqual((self.parked(Place.WAITING), self.parked(Place.LOST)), (1, 0))
        self.relink()
        self.clock.pump([0.0] * 20)
        self.assertEqual([len(text) for text in self.ran()], [MIB])
        self.reply()
        self.successResultOf(d)

    def test_after_sending_before_receipt(self) -> None:
        """The worker has not received it, so it is sent again, under the same id."""
        self.network.hold()
        d = self.controller.call(KEPT, Text("a"))
        self.cut()
        self.assertEqual((self.parked(Place.LOST), self.ran()), (1, []))
        self.relink()
        self.assertEqual(self.ran(), ["a"])
        self.reply()
        self.assertEqual(self.successResultOf(d), Text("done"))

    def test_after_receipt(self) -> None:
        """Its handler goes on and answers on the next session."""
        d = self.controller.call(KEPT, Text("a"))
        self.cut()
        self.assertEqual(self.worker_side.cancelled, [])
        self.assertEqual(self.parked(Place.LOST), 1)
        self.relink()
        self.assertNoResult(d)
        self.reply()
        self.assertEqual(self.successResultOf(d), Text("done"))
        self.assertEqual(self.ran(), ["a"])

    def test_it_ends_while_disconnected(self) -> None:
        """The reply is kept and follows the reconciliation."""
        d = self.controller.call(KEPT, Text("a"))
        self.cut()
        self.reply()
        self.assertEqual(len(self.journal), 1)
        self.relink()
        self.assertEqual(self.successResultOf(d), Text("done"))
        self.clock.advance(0.25)
        self.assertEqual((self.ran(), len(self.journal)), (["a"], 0))

    def test_an_error_is_kept_too(self) -> None:
        """A refusal arrives as what it was."""
        d = self.controller.call(KEPT, Text("a"))
        self.cut()
        self.worker_side.held[0][2].errback(GarconError("NOT_NOW", "not now", status=409))
        self.relink()
        error = self.failed(d)
        self.assertEqual((error.code, error.outcome), ("NOT_NOW", "rejected"))

    def test_after_the_reply_was_sent_before_it_arrived(self) -> None:
        """It is sent once more from the journal."""
        d = self.controller.call(KEPT, Text("a"))
        self.network.hold()
        self.reply()
        self.cut()
        self.assertNoResult(d)
        self.relink()
        self.assertEqual((self.successResultOf(d), self.ran()), (Text("done"), ["a"]))

    def test_after_the_reply_arrived_before_it_was_acknowledged(self) -> None:
        """The call has ended; the next reconciliation does not name it, and it is dropped."""
        d = self.controller.call(KEPT, Text("a"))
        self.reply()
        self.successResultOf(d)
        self.cut()
        self.assertEqual(len(self.journal), 1)
        self.relink()
        self.assertEqual((self.ran(), len(self.journal)), (["a"], 0))

    def test_again_and_again(self) -> None:
        """A call outlives any number of sessions, and runs once."""
        d = self.controller.call(KEPT, Text("a"), deadline=None)
        for _ in range(20):
            self.cut()
            self.relink()
        self.reply()
        self.assertEqual((self.successResultOf(d), self.ran()), (Text("done"), ["a"]))

    def test_during_the_reconciliation(self) -> None:
        """A session lost before it has answered leaves the call where it was."""
        d = self.controller.call(KEPT, Text("a"))
        self.installs = False
        self.cut()
        self.relink()
        self.network.hold()
        self.install()
        self.cut()
        self.assertEqual(self.parked(Place.LOST), 1)
        self.installs = True
        self.relink()
        self.reply()
        self.assertEqual((self.successResultOf(d), self.ran()), (Text("done"), ["a"]))

    def test_after_the_reconciliation_was_answered(self) -> None:
        """The worker gives the handler to a session that is lost again; it is found once more."""
        d = self.controller.call(KEPT, Text("a"))
        self.cut()
        self.relink()
        self.cut()
        self.reply()
        self.relink()
        self.assertEqual((self.successResultOf(d), self.ran()), (Text("done"), ["a"]))

    def test_a_waiting_call_keeps_its_place(self) -> None:
        """Calls made in the gap go out in their order."""
        self.cut()
        waiting = [self.controller.call(KEPT, Text(str(n))) for n in range(5)]
        self.assertEqual(self.ran(), [])
        self.relink()
        self.assertEqual(self.ran(), ["0", "1", "2", "3", "4"])
        for n in range(5):
            self.reply(n)
        self.assertEqual([self.successResultOf(d) for d in waiting], [Text("done")] * 5)


class CutsControllerDials(Cuts):
    """The same when the controller dials."""

    worker_dials = False


class Installation(Case):
    """The order in which a session is installed."""

    def test_calls_wait_for_activation(self) -> None:
        """A primary that is connected but not activated sends nothing; lost calls are asked about
        only when the owner says so.
        """
        first = self.controller.call(KEPT, Text("a"))
        self.installs = False
        self.cut()
        self.relink()
        second = self.controller.call(KEPT, Text("b"))
        self.reply()
        self.assertNoResult(first)
        self.assertEqual(
            self.failed(self.controller.call(HELD, Text("c"))).outcome, "not-dispatched"
        )
        d = self.controller.reconcile_primary()
        self.successResultOf(d)
        self.clock.advance(0)
        self.successResultOf(first)
        self.assertEqual(self.ran(), ["a"])
        self.controller.activate()
        self.assertEqual(self.ran(), ["a", "b"])
        self.reply(1)
        self.successResultOf(second)

    def test_a_session_class_call_follows_the_generation(self) -> None:
        """It goes to the present one, and where there is none it is refused at once."""
        d = self.controller.call(HELD, Text("a"))
        self.cut()
        self.assertEqual(self.failed(d).outcome, "unknown")
        self.assertEqual(self.worker_side.cancelled, ["a"])
        self.assertEqual(
            self.failed(self.controller.call(HELD, Text("b"))).outcome, "not-dispatched"
        )
        self.relink()
        d = self.controller.call(HELD, Text("c"))
        self.reply(1)
        self.successResultOf(d)

    def test_reconciling_a_session_that_ends(self) -> None:
        """The owner is told; there is nothing to activate."""
        self.installs = False
        self.cut()
        self.assertEqual(self.failed(self.controller.reconcile_primary()).outcome, "not-dispatched")
        self.relink()
        self.network.hold()
        d = self.controller.reconcile_primary()
        self.cut()
        self.failed(d)
        self.controller.activate()
        self.installs = True
        self.relink()

    def test_nothing_waits_before_the_first_session(self) -> None:
        """An executor that never was connected has nobody to wait for."""
        self.controller.close("over")
        error = self.failed(self.controller.call(KEPT, Text("a")))
        self.assertEqual((error.outcome, error.retryable), ("not-dispatched", True))

    def test_captured_calls_end_with_their_generation(self) -> None:
        """Whatever their class."""
        captured: Any = self.controller.current()
        d = captured.call(KEPT, Text("a"))
        self.cut()
        self.assertEqual(self.failed(d).outcome, "unknown")
        self.relink()
        self.assertEqual(self.worker_side.cancelled, ["a"])


class Times(Case):
    """Deadlines go on while a call is parked."""

    def test_the_dispatch_deadline(self) -> None:
        """119 of 120 seconds; a call that could not be sent by then has not happened."""
        self.cut()
        self.network.hold()
        d = self.controller.call(KEPT, Text("a"))
        self.clock.pump([1.0] * 118 + [0.9])
        self.assertNoResult(d)
        self.clock.advance(0.1)
        self.assertEqual(self.failed(d).outcome, "not-dispatched")

    def test_an_interactive_call(self) -> None:
        """Nineteen of twenty seconds, though the method itself has more."""
        self.assertEqual(INTERACTIVE_WAIT, 20.0)
        self.cut()
        self.network.hold()
        d = self.controller.call(KEPT, Text("a"), interactive=True)
        self.clock.pump([1.0] * 18 + [0.9])
        self.assertNoResult(d)
        self.clock.advance(0.1)
        self.assertEqual(self.failed(d).outcome, "not-dispatched")

    def test_an_interactive_call_that_was_sent(self) -> None:
        """After twenty seconds it is uncertain, and its handler is cancelled."""
        d = self.controller.call(KEPT, Text("a"), interactive=True)
        self.clock.pump([1.0] * 19 + [0.9])
        self.assertNoResult(d)
        self.clock.advance(0.1)
        self.assertEqual(self.failed(d).outcome, "unknown")
        self.assertEqual(self.worker_side.cancelled, ["a"])

    def test_an_interactive_call_may_run_longer(self) -> None:
        """With a deadline of its own, twenty seconds bound only the waiting."""
        d = self.controller.call(KEPT, Text("a"), interactive=True, deadline=25.0)
        self.clock.pump([1.0] * 24 + [0.9])
        self.reply()
        self.successResultOf(d)
        self.cut()
        self.network.hold()
        d = self.controller.call(KEPT, Text("b"), interactive=True, deadline=25.0)
        self.clock.pump([1.0] * 19 + [0.9])
        self.assertNoResult(d)
        self.clock.advance(0.1)
        self.assertEqual(self.failed(d).outcome, "not-dispatched")

    def test_a_reconnect_just_in_time(self) -> None:
        """What is kept back is there for the call itself."""
        self.offline(18.5)
        d = self.controller.call(KEPT, Text("a"), interactive=True)
        self.relink()
        self.reply()
        self.assertEqual(self.successResultOf(d), Text("done"))

    def test_lost_and_out_of_time(self) -> None:
        """A lost call whose caller's time is up is uncertain; the next session does not ask for
        it, so that the worker cancels it.
        """
        d = self.controller.call(KEPT, Text("a"), deadline=30.0)
        self.offline(30.0)
        self.assertEqual(self.failed(d).outcome, "unknown")
        self.assertEqual(self.worker_side.cancelled, [])
        self.relink()
        self.assertEqual(self.worker_side.cancelled, ["a"])

    def test_too_late_to_send_again(self) -> None:
        """A call that the worker never received is not repeated after its dispatch deadline."""
        self.network.hold()
        d = self.controller.call(KEPT, Text("a"), deadline=30.0)
        self.offline(29.5)
        self.assertNoResult(d)
        self.relink()
        self.assertEqual((self.failed(d).outcome, self.ran()), ("not-dispatched", []))

    def test_no_deadline_waits_for_the_grace(self) -> None:
        """Three hours; then a lost call is uncertain, and one that never left has not happened."""
        self.assertEqual(GRACE, 3 * 3600.0)
        first = self.controller.call(KEPT, Text("a"), deadline=None)
        self.cut()
        self.network.hold()
        second = self.controller.call(KEPT, Text("b"), deadline=None)
        self.clock.pump([60.0] * 179 + [59.0])
        self.assertNoResult(first)
        self.assertNoResult(second)
        self.assertEqual(self.worker_side.cancelled, [])
        self.clock.advance(1.0)
        self.assertEqual(self.failed(first).outcome, "unknown")
        self.assertEqual(self.failed(second).outcome, "not-dispatched")
        self.assertEqual(self.worker_side.cancelled, ["a"])
        self.assertEqual(
            self.failed(self.controller.call(KEPT, Text("c"))).outcome, "not-dispatched"
        )
        self.network.cut()
        self.relink()
        d = self.controller.call(KEPT, Text("d"))
        self.reply(1)
        self.successResultOf(d)

    def test_sessions_that_are_never_installed_do_not_prolong_the_grace(self) -> None:
        """It runs from the loss to the next activation."""
        d = self.controller.call(KEPT, Text("a"), deadline=None)
        self.installs = False
        self.cut()
        self.relink()
        self.clock.pump([1.0] * 3600)
        self.cut()
        self.relink()
        self.clock.pump([1.0] * 7199)
        self.assertNoResult(d)
        self.clock.advance(1.0)
        self.assertEqual(self.failed(d).outcome, "unknown")


class Ends(Case):
    """What ends parked calls other than an answer."""

    def test_cancelled_while_it_waits(self) -> None:
        """It is never sent."""
        self.cut()
        d = self.controller.call(KEPT, Text("a"))
        d.cancel()
        self.failureResultOf(d, CancelledError)
        self.relink()
        self.assertEqual(self.ran(), [])

    def test_cancelled_while_it_is_lost(self) -> None:
        """The next session does not name it, so the worker cancels it; its slot is free only when
        its handler has really ended.
        """
        d = self.controller.call(KEPT, Text("a"))
        slots = self.worker._shared.served.slots
        ending: Deferred[Any] = Deferred()
        self.worker_side.after_cancel = lambda _: ending
        self.cut()
        d.cancel()
        self.failureResultOf(d, CancelledError)
        self.assertEqual(slots.used, 1)
        self.relink()
        self.assertEqual((self.worker_side.cancelled, slots.used), (["a"], 1))
        self.cut()
        self.relink()
        self.assertEqual((self.worker_side.cancelled, slots.used), (["a"], 1))
        ending.callback(Text("at last"))
        self.assertEqual((slots.used, len(self.journal)), (0, 0))

    def test_cancelled_after_it_was_found_again(self) -> None:
        """The present session carries the cancellation."""
        d = self.controller.call(KEPT, Text("a"))
        self.cut()
        self.relink()
        d.cancel()
        self.failureResultOf(d, CancelledError)
        self.assertEqual(self.worker_side.cancelled, ["a"])

    def test_closing_the_link(self) -> None:
        """A lost call is uncertain, one that waits has not happened, one under way is uncertain."""
        lost = self.controller.call(KEPT, Text("a"))
        self.cut()
        waiting = self.controller.call(KEPT, Text("b"))
        self.controller.close("over")
        self.assertEqual(self.failed(lost).outcome, "unknown")
        self.assertEqual(self.failed(waiting).outcome, "not-dispatched")

    def test_closing_with_a_call_under_way(self) -> None:
        """It has been sent, so it is uncertain."""
        d = self.controller.call(KEPT, Text("a"))
        self.controller.close("over")
        self.assertEqual(self.failed(d).outcome, "unknown")

    def test_a_restarted_worker(self) -> None:
        """Another process knows nothing: lost calls are uncertain, waiting ones have not happened;
        nothing reaches it.
        """
        lost = self.controller.call(KEPT, Text("a"))
        self.cut()
        waiting = self.controller.call(KEPT, Text("b"))
        self.worker.close("killed")
        other = WorkerSide()
        dialler = MemoryDialler(self.network, self.controller)
        secret = self.controller._secret
        again = WorkerLink(
            self.clock,
            secret,
            "another-runtime",
            Owner(),
            other.handlers(),
            dialler,
            settings=self.settings,
            methods=METHODS,
        )
        again.start()
        self.relink()
        self.assertEqual(self.failed(lost).outcome, "unknown")
        self.assertEqual(self.failed(waiting).outcome, "not-dispatched")
        self.assertEqual(other.held, [])
        self.assertEqual(self.successResultOf(self.controller.call(ECHO, Text("c"))), Text("c"))
        self.controller.close("over")
        again.close("over")

    def test_a_restarted_controller(self) -> None:
        """It names nothing, so the worker cancels what nobody waits for."""
        d = self.controller.call(KEPT, Text("a"))
        self.cut()
        self.controller.reconcile_primary().addErrback(lambda f: f.trap(CallError))
        continuing = self.controller._continuing
        for one in continuing.values():
            one.give_up("restarted")
        self.failed(d)
        self.relink()
        self.assertEqual(self.worker_side.cancelled, ["a"])


class Launches(Case):
    """Launches go on without their caller."""

    def test_a_lost_launch(self) -> None:
        """Its caller is told that the relay will tell; the handler is not disturbed, its slot is
        taken, and no reconciliation cancels it.
        """
        d = self.controller.call(LAUNCH, Text("a"), deadline=None)
        slots = self.worker._shared.served.slots
        self.cut()
        error = self.failed(d)
        self.assertIsInstance(error, LaunchLost)
        self.assertEqual((error.outcome, error.lost_launch), ("unknown", True))
        self.relink()
        self.assertEqual((self.worker_side.cancelled, slots.used), ([], 1))
        self.reply()
        self.assertEqual((slots.used, len(self.journal)), (0, 0))

    def test_a_launch_that_never_left(self) -> None:
        """It has not happened, which is no lost launch."""
        captured: Any = self.controller.current()
        captured.primary._wire.set_writable(False)
        d = self.controller.call(LAUNCH, Text("a"))
        self.cut()
        error = self.failed(d)
        self.assertEqual((error.outcome, error.lost_launch), ("not-dispatched", False))
        error = self.failed(self.controller.call(LAUNCH, Text("b")))
        self.assertEqual((error.outcome, error.lost_launch), ("not-dispatched", False))


class Bulk(Case):
    """Bulk calls live and are lost with bulk alone."""

    def bulk(self) -> Any:
        captured: Any = self.controller.current()
        return captured.bulk

    def let_bulk_connect(self, connects: bool) -> None:
        """Have nobody listen where bulk is dialled."""
        dialler: Any = self.worker._dial

        def told(name: str) -> None:
            self.controller_told(name)
            if name == "preparing":
                dialler.target = self.controller if connects else self.worker

        self.controller_owner.on_event = told

    def test_a_bulk_cut_alone(self) -> None:
        """Bulk's calls are kept for the next bulk lane; primary's know nothing of it."""
        primary = self.controller.call(KEPT, Text("p"))
        lost = self.controller.call(KEPT_BULK, Text("b"))
        self.bulk().end("session-retired", "a test")
        waiting = self.controller.call(KEPT_BULK, Text("w"))
        self.assertEqual((self.parked(Place.LOST), self.parked(Place.WAITING)), (1, 1))
        self.reply(0, "still")
        self.assertEqual(self.successResultOf(primary), Text("still"))
        self.reply(1)
        self.assertNoResult(lost)
        self.relink()
        self.assertEqual(self.successResultOf(lost), Text("done"))
        self.assertEqual(self.ran(), ["p", "b", "w"])
        self.reply(2)
        self.successResultOf(waiting)
        self.assertEqual(self.controller_owner.lost, [])

    def test_primary_does_not_wait_for_bulk(self) -> None:
        """A lost primary call is settled while bulk is not there yet."""
        primary = self.controller.call(KEPT, Text("p"))
        bulk = self.controller.call(KEPT_BULK, Text("b"))
        self.cut()
        self.reply(0)
        self.reply(1)

        self.let_bulk_connect(False)
        self.clock.advance(0)
        self.clock.advance(0)
        self.assertEqual(self.successResultOf(primary), Text("done"))
        self.assertNoResult(bulk)
        self.let_bulk_connect(True)
        self.relink()
        self.assertEqual(self.successResultOf(bulk), Text("done"))

    def test_a_call_waits_twenty_seconds_for_bulk(self) -> None:
        """Whatever its deadline."""
        self.offline(10)
        self.network.hold()
        d = self.controller.call(KEPT_BULK, Text("a"))
        self.clock.pump([1.0] * 19 + [0.9])
        self.assertNoResult(d)
        self.clock.advance(0.1)
        self.assertEqual(self.failed(d).outcome, "not-dispatched")

    def test_bulk_calls_wait_for_the_owner_too(self) -> None:
        """A bulk lane that is ready before the owner has activated its primary sends nothing."""
        self.installs = False
        self.cut()
        self.relink()
        d = self.controller.call(KEPT_BULK, Text("a"))
        self.assertEqual(self.ran(), [])
        self.install()
        self.assertEqual(self.ran(), ["a"])
        self.reply()
        self.successResultOf(d)

    def test_ownership_never_crosses_lanes(self) -> None:
        """Asked on another lane the worker knows nothing of a call, and neither gives it away nor
        cancels it.
        """
        d = self.controller.call(KEPT_BULK, Text("a"))
        bulk = self.bulk()
        (call_id,) = self.controller._continuing[KEPT_BULK.lane]._calls  # type: ignore[index]
        self.installs = False
        self.let_bulk_connect(False)
        self.cut()
        self.clock.pump([0.0, 0.0])
        captured: Any = self.controller.current()
        asked = captured.call(RECONCILE, ReconcileCalls([LostCall(call_id, bulk.session_id, 1)]))
        answer = self.successResultOf(asked)
        self.assertEqual(answer.states, [CallState(call_id, "unknown")])
        self.assertEqual(self.worker_side.cancelled, [])
        self.installs = True
        self.let_bulk_connect(True)
        dialler: Any = self.worker._dial
        dialler.target = self.controller
        self.network.cut()
        self.clock.pump([1.0] * 10)
        self.assertEqual(self.controller.bulk_phase, "ready")
        self.reply()
        self.assertEqual(self.successResultOf(d), Text("done"))

    def test_bulk_grace(self) -> None:
        """Three hours without an active bulk lane end its calls, though primary lives."""
        d = self.controller.call(KEPT_BULK, Text("a"), deadline=None)
        self.let_bulk_connect(False)
        self.bulk().end("session-retired", "a test")
        self.clock.pump([1.0] * 10_799)
        self.assertNoResult(d)
        self.clock.advance(1.0)
        self.assertEqual(self.failed(d).outcome, "unknown")
        self.assertEqual(self.worker_side.cancelled, ["a"])
        self.assertEqual(self.controller_owner.lost, [])


class Bounds(Case):
    """What is kept is bounded."""

    def test_as_many_calls_as_may_be_under_way(self) -> None:
        """256 wait, of them 192 for bulk; one more is refused and not dispatched."""
        self.cut()
        bulk = [self.controller.call(KEPT_BULK, Text("b")) for _ in range(CALLS_BULK)]
        self.assertEqual(
            self.failed(self.controller.call(KEPT_BULK, Text("b"))).code, "EXECUTOR_BUSY"
        )
        more = [self.controller.call(KEPT, Text("p")) for _ in range(CALLS - CALLS_BULK)]
        error = self.failed(self.controller.call(KEPT, Text("p")))
        self.assertEqual((error.code, error.outcome), ("EXECUTOR_BUSY", "not-dispatched"))
        self.relink()
        self.assertEqual(len(self.ran()), CALLS)
        for n in range(CALLS):
            self.reply(n)
        for d in bulk + more:
            self.successResultOf(d)

    def test_requests_are_kept_within_the_queues_size(self) -> None:
        """Two requests of nearly 16 MiB wait; a third is refused."""
        self.cut()
        large = "x" * (16 * MIB - 1024)
        waiting = [self.controller.call(KEPT, Text(large)) for _ in range(2)]
        self.assertEqual(
            self.failed(self.controller.call(KEPT, Text("x" * 4096))).code, "EXECUTOR_BUSY"
        )
        self.relink()
        self.clock.pump([0.01] * 1000)
        self.assertEqual([len(text) for text in self.ran()], [len(large)] * 2)
        for n, d in enumerate(waiting):
            self.reply(n)
            self.successResultOf(d)

    def test_replies_over_the_journals_size(self) -> None:
        """Four replies of nearly 16 MiB are kept, the fifth becomes a small error of unknown
        outcome; all kept ones arrive, though the send queue holds only two at a time.
        """
        waiting = [self.controller.call(KEPT, Text(str(n)), deadline=None) for n in range(5)]
        self.cut()
        large = "x" * (16 * MIB - 2048)
        for n in range(5):
            self.reply(n, large)
        self.relink()
        self.clock.pump([0.01] * 3000)
        for d in waiting[:4]:
            self.assertEqual(len(self.successResultOf(d).text), len(large))
        error = self.failed(waiting[4])
        self.assertEqual((error.code, error.outcome), ("REPLY_LOST", "unknown"))
        self.assertEqual(len(self.journal), 0)

    def test_a_delivered_reply_that_was_dropped(self) -> None:
        """The worker has no record any more, so the call is uncertain, not repeated."""
        d = self.controller.call(KEPT, Text("a"))
        self.network.hold()
        self.reply()
        self.cut()
        (reply,) = self.journal._replies.values()
        self.journal.forget(reply.lane, reply.id)
        self.relink()
        self.assertEqual((self.failed(d).outcome, self.ran()), ("unknown", ["a"]))

    def sessions_later(self, count: int) -> Deferred[Any]:
        """Lose a call unreceived, and let the worker end so many sessions after that one before it
        is asked.
        """
        self.installs = False
        d = self.controller.call(KEPT, Text("a"), deadline=None)
        self.assertEqual(self.ran(), [])
        self.cut()
        for _ in range(count):
            self.relink()
            self.cut()
        self.installs = True
        self.relink()
        return d

    def test_receipts_of_sixteen_sessions(self) -> None:
        """A call lost on the sixteenth last session can still be sent again."""
        self.network.hold()
        d = self.sessions_later(15)
        self.assertEqual(self.ran(), ["a"])
        self.reply()
        self.successResultOf(d)

    def test_receipts_of_seventeen_sessions(self) -> None:
        """One lost on the seventeenth last is uncertain."""
        self.network.hold()
        d = self.sessions_later(16)
        self.assertEqual((self.failed(d).outcome, self.ran()), ("unknown", []))

    def test_slots_are_counted_over_sessions(self) -> None:
        """Handlers that go on take the places of new calls, however many sessions there were."""
        lost = [self.controller.call(KEPT, Text("a"), deadline=None) for _ in range(CALLS - 1)]
        self.cut()
        for d in lost:
            d.addErrback(lambda f: f.trap(CancelledError))
        self.relink()
        last = self.controller.call(KEPT, Text("b"), deadline=None)
        self.assertEqual(len(self.ran()), CALLS)
        captured: Any = self.controller.current()
        # The controller counts likewise; with places of its own the worker would refuse.
        for d in lost[:5]:
            d.cancel()
        slots = self.worker._shared.served.slots
        self.assertEqual(slots.used, CALLS - 5)
        self.reply(CALLS - 1)
        self.successResultOf(last)
        self.assertEqual(self.successResultOf(captured.call(ECHO, Text("c"))), Text("c"))
        for n in range(5, CALLS - 1):
            self.reply(n)

    def test_acknowledgements_come_in_batches(self) -> None:
        """A batch of 1,024 does not wait for its time."""
        for _ in range(1023):
            self.successResultOf(self.controller.call(ECHO, Text("")))
        self.assertEqual(len(self.journal), 1023)
        self.successResultOf(self.controller.call(ECHO, Text("")))
        self.assertEqual(len(self.journal), 0)
        self.successResultOf(self.controller.call(FETCH, Text("1")))
        self.clock.advance(0.249)
        self.assertEqual(len(self.journal), 1)
        self.clock.advance(0.0010001)
        self.assertEqual(len(self.journal), 0)


class ShortGrace(Case):
    """All times come from one settings object."""

    settings = evolve(SETTINGS, grace=10.0, interactive_wait=2.0, dispatch_reserve=0.5)

    def test_a_shorter_grace(self) -> None:
        """As the settings say."""
        self.cut()
        self.network.hold()
        first = self.controller.call(KEPT, Text("a"), interactive=True)
        second = self.controller.call(KEPT, Text("a"))
        self.clock.advance(1.5)
        self.failed(first)
        self.clock.advance(8.5)
        self.failed(second)
