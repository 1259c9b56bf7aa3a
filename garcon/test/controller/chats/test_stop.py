"""Stopping (chats.md 3.10, 5.4, 5.6) and the end of the process."""

from __future__ import annotations

from twisted.internet.defer import CancelledError, Deferred

from garcon.contract import operations
from garcon.contract.events import ProcessingUpdated, SessionStopped
from garcon.controller.chats.commits import PENDING_ROWS, RETRIES
from garcon.controller.chats.service import COMMANDS_WAIT
from garcon.errors import CallError, GarconError, LaneLost
from garcon.test.controller.chats.cast import CHAT, OTHER, ChatsTestCase
from garcon.testing.fake_runtime import FakeRuntime


class BrokenRuntime(FakeRuntime):
    """It fails where it is to stop a run."""

    def abort(self, run_id: str) -> Deferred[bool]:
        raise RuntimeError("no")


class StopTests(ChatsTestCase):
    """A chat whose turn runs."""

    def setUp(self) -> None:
        super().setUp()
        self.view = self.started()
        self.turn = self.run_chat(self.view, command="long").body["turnId"]

    def test_interrupts_the_turn(self) -> None:
        """Aborted once; interrupted by its user, best effort; the chat is idle."""
        self.local.last.say("half")
        answer = self.successResultOf(self.stop())
        self.assertEqual((answer.status, answer.body["outcome"]), (200, "interrupt-requested"))
        self.assertNotIn("turnId", answer.body)
        self.assertEqual(answer.body["control"]["version"], 0)
        self.assertEqual(self.local.aborted, [self.turn])
        receipt = self.receipt(self.turn).body
        self.assertEqual((receipt["state"], receipt["reason"]), ("interrupted", "user-stop"))
        self.assertEqual(receipt["output"]["completeness"], "best-effort")
        self.assertEqual(receipt["output"]["assistantMessages"], ["half"])
        self.assertIsNone(self.phase())

    def test_shows_while_it_is_in_flight(self) -> None:
        """The phase is stopping until the run has ended."""
        self.local.holds_aborts = True
        d = self.stop()
        self.assertEqual(self.phase(), "stopping")
        self.assertNoResult(d)
        self.local.last.interrupted()
        self.assertEqual(self.successResultOf(d).body["outcome"], "interrupt-requested")
        self.assertIsNone(self.phase())

    def test_late_output_is_dropped(self) -> None:
        """Between the stop and the end, and after it."""
        self.local.holds_aborts = True
        d = self.stop()
        self.local.last.say("late")
        self.local.last.finish()
        self.successResultOf(d)
        self.local.last.say("later")
        self.assertEqual(self.kinds()[-1][2], "long")
        self.assertEqual(self.receipt(self.turn).body["state"], "interrupted")

    def test_more_output_than_can_be_held(self) -> None:
        """Is dropped with the rest when the stop is taken: a stop is no failure."""
        self.local.holds_aborts = True
        d = self.stop()
        self.flood()
        self.assertEqual(self.phase(), "stopping")
        self.local.last.finish()
        self.assertEqual(self.successResultOf(d).body["outcome"], "interrupt-requested")
        self.assertEqual(self.receipt(self.turn).body["state"], "interrupted")

    def test_more_output_than_can_be_held_of_a_stop_that_fails(self) -> None:
        """Something of the turn is missing, so it ends as one that overran, and says that."""
        self.local.say_nothing = True
        d = self.stop()
        self.flood()
        self.clock.advance(16)
        self.assertEqual(self.successResultOf(d).body["outcome"], "failed")
        receipt = self.receipt(self.turn).body
        self.assertEqual(receipt["state"], "failed")
        self.assertIn("faster than its output could be kept", receipt["error"])

    def flood(self) -> None:
        for n in range(PENDING_ROWS + 2):
            self.local.last.say(f"{n}")

    def test_a_turn_whose_rows_are_lost_meanwhile(self) -> None:
        """It has failed, and the stop is answered when its agent has ended."""
        self.memory.refusals = RETRIES + 1
        self.local.last.say("lost")
        self.local.holds_aborts = True
        d = self.stop()
        self.clock.pump([1.0] * RETRIES)
        self.assertIsNone(self.phase())
        self.assertNoResult(d)
        self.local.last.interrupted()
        self.assertEqual(self.successResultOf(d).body["outcome"], "interrupt-requested")
        self.assertEqual(self.receipt(self.turn).body["state"], "failed")

    def test_an_agent_that_does_not_end_is_left_behind(self) -> None:
        """Ten seconds after it took the stop the turn is over all the same."""
        self.local.holds_aborts = True
        d = self.stop()
        self.clock.advance(9.9)
        self.assertNoResult(d)
        self.clock.advance(0.1)
        self.assertEqual(self.successResultOf(d).body["outcome"], "interrupt-requested")
        self.assertIsNone(self.phase())

    def test_an_idle_chat_is_already_idle(self) -> None:
        """Also for the second of two stops at once (5.6.1, 8.11)."""
        self.local.holds_aborts = True
        first, second = self.stop(), self.stop()
        self.local.last.interrupted()
        self.assertEqual(self.successResultOf(first).body["outcome"], "interrupt-requested")
        self.assertEqual(self.successResultOf(second).body["outcome"], "already-idle")
        self.assertEqual(len(self.local.aborted), 1)

    def test_a_stop_that_fails_keeps_the_turn_and_its_output(self) -> None:
        """What came meanwhile is kept."""
        self.local.abort_error = GarconError("EXECUTOR_UNAVAILABLE", "down", status=503)
        answer = self.successResultOf(self.stop())
        self.assertEqual(answer.body["outcome"], "failed")
        self.assertEqual(self.phase(), "running")
        self.local.last.say("going on")
        self.local.last.finish()
        self.assertEqual(self.receipt(self.turn).body["state"], "completed")
        self.assertEqual(self.kinds()[-1][2], "going on")

    def test_an_executor_that_cannot_even_be_asked(self) -> None:
        """The interruption itself has failed (5.6.1), whatever kept it from being asked."""
        self.executors.runtimes["local"] = BrokenRuntime(self.base)
        answer = self.successResultOf(self.stop())
        self.assertEqual((answer.status, answer.body["outcome"]), (200, "failed"))
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)
        self.local.last.say("going on")
        self.assertEqual((self.phase(), self.kinds()[-1][2]), ("running", "going on"))

    def test_output_during_a_stop_that_fails_is_kept_in_order(self) -> None:
        """An executor that does not answer for sixteen seconds has not stopped anything."""
        self.local.say_nothing = True
        d = self.stop()
        self.local.last.say("one")
        self.clock.advance(15.9)
        self.assertNoResult(d)
        self.clock.advance(0.1)
        self.assertEqual(self.successResultOf(d).body["outcome"], "failed")
        self.local.last.say("two")
        self.assertEqual([text for _, _, text in self.kinds()[-2:]], ["one", "two"])

    def test_the_same_stop_again_repeats_its_outcome(self) -> None:
        """With the control of now, and without a second abort."""
        body = {"clientRequestId": "stop", "agentId": "scripted"}
        first = self.successResultOf(self.stop(**body))
        again = self.successResultOf(self.stop(**body))
        self.assertEqual(
            (again.status, again.body["status"], again.body["outcome"]),
            (200, "duplicate", first.body["outcome"]),
        )
        self.assertEqual(len(self.local.aborted), 1)
        other = self.successResultOf(self.stop(clientRequestId="stop", agentId="other"))
        self.assertEqual(other.failure, (409, "IDEMPOTENCY_CONFLICT", False))

    def test_a_failed_stop_is_replayed_as_failed(self) -> None:
        """200 with its outcome (chats.md 8.2)."""
        self.local.abort_error = GarconError("EXECUTOR_UNAVAILABLE", "down", status=503)
        self.successResultOf(self.stop(clientRequestId="stop"))
        again = self.successResultOf(self.stop(clientRequestId="stop"))
        self.assertEqual((again.status, again.body["outcome"]), (200, "failed"))

    def test_an_unknown_chat(self) -> None:
        """404."""
        answer = self.successResultOf(self.stop(chatId=OTHER))
        self.assertEqual(answer.failure, (404, "SESSION_NOT_FOUND", False))

    def test_a_stop_while_it_launches_prevents_the_launch(self) -> None:
        """The launch is cancelled, and the turn interrupted."""
        self.local.last.finish()
        self.local.holds_launches = True
        turn = self.run_chat(self.view).body["turnId"]
        launched = self.local.last.launched
        answer = self.successResultOf(self.stop())
        self.assertEqual(answer.body["outcome"], "interrupt-requested")
        self.assertTrue(launched.called)
        self.assertEqual(self.receipt(turn).body["state"], "interrupted")
        self.assertIsNone(self.phase())

    def test_a_stop_while_the_first_turn_is_launched(self) -> None:
        """It does not wait for the launch, which is cancelled; the chat is there with its input,
        and the start is answered as one that was taken.
        """
        self.local.holds_launches = True
        start = self.ask(operations.START_CHAT, self.start_body(chatId=OTHER))
        launched = self.local.last.launched
        self.told.clear()
        answer = self.successResultOf(self.stop(chatId=OTHER))
        self.assertEqual((answer.status, answer.body["outcome"]), (200, "interrupt-requested"))
        self.assertTrue(launched.called)
        taken = self.successResultOf(start)
        self.assertEqual((taken.status, taken.body["chat"]["id"]), (202, OTHER))
        receipt = self.receipt(taken.body["turnId"], chat_id=OTHER).body
        self.assertEqual((receipt["state"], receipt["reason"]), ("interrupted", "user-stop"))
        self.assertEqual(self.kinds(OTHER)[0][2], "hello")
        self.assertIsNone(self.phase(OTHER))
        stopped = [one for one in self.told if isinstance(one, SessionStopped)]
        self.assertEqual([one.outcome for one in stopped], ["interrupt-requested"])

    def test_a_stop_waits_for_commands_before_it_where_no_launch_holds_them(self) -> None:
        """A later turn is launched beside them: it is stopped in its order, and what is queued is
        held back before that.
        """
        self.local.last.finish()
        self.local.holds_launches = True
        self.run_chat(self.view)
        launched = self.local.last.launched
        before: Deferred[None] = Deferred()

        async def command() -> None:
            await before

        self.chats._state.lanes.run(CHAT, command)
        d = self.stop()
        self.assertFalse(launched.called)
        before.callback(None)
        self.assertEqual(self.successResultOf(d).body["outcome"], "interrupt-requested")
        self.assertTrue(launched.called)

    def test_two_stops_while_the_first_turn_is_launched(self) -> None:
        """The first one stops it; the same again is a duplicate, another one finds it idle."""
        self.local.holds_launches = True
        self.ask(operations.START_CHAT, self.start_body(chatId=OTHER))
        self.memory.held = True
        same = {"chatId": OTHER, "clientRequestId": "same"}
        stops = [self.stop(**same), self.stop(**same), self.stop(chatId=OTHER)]
        for d in stops:
            self.assertNoResult(d)
        self.assertEqual(self.phase(OTHER), "stopping")
        self.memory.release()
        answers = [self.successResultOf(d).body for d in stops]
        self.assertEqual(
            [(one["status"], one["outcome"]) for one in answers],
            [
                ("accepted", "interrupt-requested"),
                ("duplicate", "interrupt-requested"),
                ("accepted", "already-idle"),
            ],
        )

    def test_a_turn_that_waited_for_the_first_one_s_launch(self) -> None:
        """It was asked for before the stop, which ends it too; the stop is told of once."""
        for operation in (operations.STOP_CHAT, operations.INTERRUPT_AND_SEND):
            self.setUp()
            self.local.holds_launches = True
            start = self.ask(operations.START_CHAT, self.start_body(chatId=OTHER))
            view = self.messages(OTHER).body["transcriptViewId"]
            run = self.ask(operations.RUN_CHAT, self.run_body(view, chatId=OTHER))
            self.assertNoResult(run)
            self.told.clear()
            body = {"clientRequestId": self.request_id(), "chatId": OTHER}
            answer = self.successResultOf(self.ask(operation, body))
            self.assertEqual(answer.body["outcome"], "interrupt-requested")
            for d in (start, run):
                turn = self.successResultOf(d).body["turnId"]
                receipt = self.receipt(turn, chat_id=OTHER).body
                self.assertEqual(
                    (receipt["state"], receipt["reason"]), ("interrupted", "user-stop")
                )
            self.assertIsNone(self.phase(OTHER))
            stopped = [one for one in self.told if isinstance(one, SessionStopped)]
            self.assertEqual([one.outcome for one in stopped], ["interrupt-requested"])

    def test_the_next_run_is_admitted_at_once(self) -> None:
        """Idle means idle."""
        self.successResultOf(self.stop())
        self.assertEqual(self.run_chat(self.view).status, 202)


class GapTests(ChatsTestCase):
    """A turn runs on an executor whose link is down."""

    def setUp(self) -> None:
        super().setUp()
        self.view = self.started()
        self.turn = self.run_chat(self.view, command="long").body["turnId"]
        self.local.say_nothing = True
        self.told.clear()

    @property
    def shown(self) -> list[str | None]:
        return [event.phase for event in self.told if isinstance(event, ProcessingUpdated)]

    def lose(self) -> None:
        self.executors.states["local"] = "reconnecting"
        self.chats.availability_changed("local")

    def find(self) -> None:
        self.executors.states["local"] = "ready"
        self.chats.availability_changed("local")

    def stopped(self) -> None:
        """Stop the turn in the gap."""
        answer = self.successResultOf(self.stop())
        self.assertEqual(answer.body["outcome"], "interrupt-requested")
        self.assertEqual(self.phase(), "stopping")
        self.assertEqual(self.local.aborted, [self.turn])

    def answered(self, there: bool) -> None:
        """The executor answers the stop."""
        self.local.unanswered.pop().callback(there)

    def test_it_shows(self) -> None:
        """The phase is reconnecting until the link is back, and those who watch are told."""
        self.lose()
        self.assertEqual(self.phase(), "reconnecting")
        self.find()
        self.assertEqual(self.phase(), "running")
        self.assertEqual(self.shown, ["reconnecting", "running"])

    def test_idle_chats_are_not_told_of(self) -> None:
        """Nothing shows there."""
        self.local.last.finish()
        self.told.clear()
        self.lose()
        self.assertEqual((self.phase(), self.shown), (None, []))

    def test_no_new_turn(self) -> None:
        """Here or elsewhere on that executor."""
        self.lose()
        refusal = (503, "EXECUTOR_UNAVAILABLE", True)
        self.assertEqual(self.run_chat(self.view).failure, refusal)
        self.assertEqual(self.start(chatId=OTHER).failure, refusal)

    def test_a_stop_is_kept(self) -> None:
        """It is answered at once; the turn is stopping, and over when the stop was delivered."""
        self.lose()
        self.stopped()
        self.clock.advance(3600)
        self.assertEqual(self.phase(), "stopping")
        self.find()
        self.local.last.say("before it was stopped")
        self.answered(True)
        self.assertEqual(self.phase(), "stopping")
        self.local.last.interrupted()
        self.assertIsNone(self.phase())
        receipt = self.receipt(self.turn).body
        self.assertEqual((receipt["state"], receipt["reason"]), ("interrupted", "user-stop"))
        self.assertEqual(self.kinds()[-1][2], "before it was stopped")

    def test_a_second_stop_is_the_same(self) -> None:
        """Nobody waits, and nothing is sent again."""
        self.lose()
        self.stopped()
        self.stopped()

    def test_a_stop_while_the_link_is_being_lost(self) -> None:
        """Whoever waits for it hears that it is kept as soon as the loss is known."""
        d = self.stop()
        self.clock.advance(14)
        self.assertNoResult(d)
        self.lose()
        self.assertEqual(self.successResultOf(d).body["outcome"], "interrupt-requested")
        self.assertEqual(self.phase(), "stopping")
        self.find()
        self.answered(True)
        self.local.last.interrupted()
        self.assertEqual(self.receipt(self.turn).body["state"], "interrupted")

    def test_the_turn_ended_meanwhile(self) -> None:
        """As whatever it was; a stop that finds nothing changes nothing."""
        self.lose()
        self.stopped()
        self.find()
        self.answered(False)
        self.local.last.say("done")
        self.local.last.finish()
        self.assertEqual(self.receipt(self.turn).body["state"], "completed")

    def test_an_agent_that_takes_a_stop_for_a_failure(self) -> None:
        """It was stopped."""
        self.lose()
        self.stopped()
        self.find()
        self.answered(True)
        self.local.last.fail("aborted")
        self.assertEqual(self.receipt(self.turn).body["state"], "interrupted")

    def test_the_link_does_not_come_back(self) -> None:
        """The turn has failed, its outcome unknown; the stop is forgotten."""
        self.lose()
        self.stopped()
        self.local.last.fail("gone", "OUTCOME_UNKNOWN")
        self.local.unanswered.pop().errback(LaneLost("grace over"))
        self.assertEqual(self.receipt(self.turn).body["state"], "failed")
        self.assertIsNone(self.phase())

    def test_a_kept_stop_that_fails(self) -> None:
        """The turn goes on, and can be stopped again."""
        self.lose()
        self.stopped()
        self.find()
        self.local.unanswered.pop().errback(LaneLost("x", outcome="not-dispatched"))
        self.assertEqual(self.phase(), "running")
        self.local.say_nothing = False
        self.assertEqual(self.successResultOf(self.stop()).body["outcome"], "interrupt-requested")
        self.assertIsNone(self.phase())

    def test_an_agent_that_does_not_end_after_a_kept_stop(self) -> None:
        """It is left behind, but not while what it said before is still coming."""
        self.lose()
        self.stopped()
        self.find()
        self.answered(True)
        for n in range(5):
            self.clock.advance(6)
            self.local.last.say(f"row {n}")
        self.assertEqual(self.phase(), "stopping")
        self.clock.advance(20)
        self.assertIsNone(self.phase())
        self.assertEqual(self.kinds()[-1][2], "row 4")

    def test_the_controller_stops(self) -> None:
        """It gives a stop that is kept the time of every command, and waits no longer for an
        executor that is not there.
        """
        self.lose()
        self.stopped()
        d = self.chats.shut_down()
        self.assertNoResult(d)
        self.clock.advance(COMMANDS_WAIT)
        self.successResultOf(d)
        self.assertEqual(self.receipt(self.turn).body["state"], "interrupted")


class ShutDownTests(ChatsTestCase):
    """The controller stops."""

    def setUp(self) -> None:
        super().setUp()
        self.view = self.started()

    def assertRefused(self) -> None:
        refusal = (503, "SERVER_SHUTTING_DOWN", True)
        self.assertEqual(self.start(chatId=OTHER).failure, refusal)
        self.assertEqual(self.run_chat(self.view).failure, refusal)
        self.assertEqual(self.snapshot().failure, refusal)

    def test_refuses_new_work(self) -> None:
        """Turns and snapshots."""
        self.successResultOf(self.chats.shut_down())
        self.assertRefused()

    def test_interrupts_what_runs(self) -> None:
        """And waits for its last row."""
        turn = self.run_chat(self.view).body["turnId"]
        self.successResultOf(self.chats.shut_down())
        self.assertEqual(self.local.aborted, [turn])
        self.restart()
        self.assertEqual(self.messages().body["resendCandidates"][0]["content"], "again")

    def test_three_seconds_are_enough(self) -> None:
        """An agent that does not end holds nothing up longer."""
        self.local.holds_aborts = True
        self.run_chat(self.view)
        d = self.chats.shut_down()
        self.clock.advance(2.9)
        self.assertNoResult(d)
        self.assertRefused()
        self.clock.advance(0.1)
        self.successResultOf(d)
        self.assertEqual(self.chats.running_on("local"), [])

    def test_a_start_that_launches_is_rolled_back(self) -> None:
        """Its caller hears that the controller stops."""
        self.local.holds_launches = True
        start = self.ask(operations.START_CHAT, self.start_body(chatId=OTHER))
        self.successResultOf(self.chats.shut_down())
        self.assertEqual(self.successResultOf(start).failure, (503, "SERVER_SHUTTING_DOWN", True))
        self.restart()
        self.assertEqual([chat["id"] for chat in self.listed()], [CHAT])

    def test_a_start_that_may_have_begun_is_not_denied(self) -> None:
        """It is rolled back too, but its caller hears that it may have run."""
        lost = CallError("EXECUTOR_UNAVAILABLE", "given up", outcome="unknown")
        self.local.holds_launches = True
        self.local.cancelled_launch = lost
        start = self.ask(operations.START_CHAT, self.start_body(chatId=OTHER))
        self.successResultOf(self.chats.shut_down())
        answer = self.successResultOf(start)
        self.assertEqual(answer.failure, (500, "INTERNAL_ERROR", False))
        self.assertIn("Whether it began is not known", answer.body["error"])

    def test_a_start_that_is_being_kept_ends_without_a_launch(self) -> None:
        """Its chat leaves again before the controller does: what is refused is not there."""
        self.memory.held = True
        start = self.ask(operations.START_CHAT, self.start_body(chatId=OTHER))
        d = self.chats.shut_down()
        self.assertNoResult(d)
        self.memory.release()
        self.successResultOf(d)
        self.assertEqual(self.successResultOf(start).failure, (503, "SERVER_SHUTTING_DOWN", True))
        self.assertEqual(len(self.local.runs), 1)
        self.restart()
        self.assertEqual([chat["id"] for chat in self.listed()], [CHAT])

    def test_a_run_that_is_being_kept_is_interrupted(self) -> None:
        """It is accepted, since its input is durable, and never launched."""
        self.memory.held = True
        run = self.ask(operations.RUN_CHAT, self.run_body(self.view))
        d = self.chats.shut_down()
        self.memory.release()
        self.successResultOf(d)
        answer = self.successResultOf(run)
        self.assertEqual(answer.status, 202)
        self.assertEqual(self.receipt(answer.body["turnId"]).body["state"], "interrupted")
        self.assertEqual(len(self.local.runs), 1)

    def test_commands_have_one_second_more(self) -> None:
        """One that waits for something else does not hold the end up."""
        self.memory.held = True
        start = self.ask(operations.START_CHAT, self.start_body(chatId=OTHER))
        d = self.chats.shut_down()
        self.clock.advance(0.9)
        self.assertNoResult(start)
        self.clock.advance(0.1)
        self.failureResultOf(start, CancelledError)
        self.memory.release()
        self.successResultOf(d)

    def test_waits_until_every_row_is_durable(self) -> None:
        """Rows on their way are not lost."""
        self.run_chat(self.view)
        self.memory.held = True
        self.local.last.say("last words")
        d = self.chats.shut_down()
        self.assertNoResult(d)
        self.memory.release()
        self.successResultOf(d)
        self.restart()
        self.assertIn("last words", [text for _, _, text in self.kinds()])
