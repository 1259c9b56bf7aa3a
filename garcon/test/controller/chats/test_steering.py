"""Further input for a turn that runs (chats.md 3.12, 5.11)."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from twisted.internet.defer import Deferred

from garcon.contract import operations
from garcon.contract.limits import INTERACTIVE_READ, INTERACTIVE_WAIT
from garcon.contract.runs import UnknownEvent
from garcon.contract.steering import SteerCapture, Steered, SteerTarget
from garcon.controller.chats import ledger
from garcon.controller.chats.commits import RETRIES
from garcon.controller.chats.lanes import WAITING
from garcon.controller.chats.steering import MENTIONS_WAIT
from garcon.errors import CallError, GarconError
from garcon.test.controller.chats.cast import CHAT, OTHER, HeldStoreTestCase, Said
from garcon.test.controller.chats.queue_cast import QueueTestCase


class SteerCase(QueueTestCase):
    """A turn runs."""

    def setUp(self) -> None:
        super().setUp()
        self.turn = self.run_chat(self.view, command="long").body["turnId"]
        self.told.clear()

    def steer_body(self, content: str = "more", **more: Any) -> dict[str, Any]:
        """Return a steer that is in order."""
        body = {
            "clientRequestId": self.request_id(),
            "clientMessageId": f"s-{self.requests}",
            "chatId": CHAT,
            "transcriptViewId": self.view,
            "content": content,
        }
        return body | more

    def steer(self, content: str = "more", **more: Any) -> Deferred[Said]:
        """Steer the turn."""
        return self.ask(operations.STEER, self.steer_body(content, **more))

    def steered(self, content: str = "more", **more: Any) -> Said:
        """Steer the turn, and be answered at once."""
        answer: Said = self.successResultOf(self.steer(content, **more))
        return answer

    def held(self) -> Deferred[Steered]:
        """Let the next delivery wait for the test."""
        d: Deferred[Steered] = Deferred()
        self.local.steerings.append(d)
        return d

    def answers(self, outcome: Any, text: str = "") -> None:
        """Prepare what becomes of the next delivery."""
        self.held().callback(Steered(outcome=outcome, text=text))

    def delivered(self) -> list[str]:
        """Return what the agent was given."""
        return [steer.content for steer in self.local.steers]

    def texts(self) -> list[str]:
        """Return the transcript from the second turn on."""
        return [text for _, _, text in self.kinds()[2:]]


class SteerTests(SteerCase):
    """One that is taken."""

    def test_joins_the_running_turn(self) -> None:
        """202 with its turn's id; a user row at once; the queue as it was (5.11.1)."""
        self.queued("waits")
        before = self.control()
        answer = self.steered()
        self.assertEqual((answer.status, answer.body["commandType"]), (202, "steer"))
        self.assertEqual((answer.body["turnId"], answer.body["status"]), (self.turn, "accepted"))
        self.assertIsNone(answer.body["parentChat"])
        self.assertEqual(self.texts(), ["long", "more"])
        self.assertEqual(self.delivered(), ["more"])
        self.assertEqual(self.control(), before)

    def test_its_row(self) -> None:
        """Says that it joined a turn, over the socket as over HTTP."""
        self.steered(clientMessageId="mine")
        message = self.messages().body["messages"][-1]["message"]
        self.assertEqual(message["metadata"], {"clientMessageId": "mine"})
        self.assertIs(message["steer"], True)
        self.assertNotIn("steer", self.messages().body["messages"][-2]["message"])
        self.assertEqual(self.order(), ["rows"])

    def test_its_presentation(self) -> None:
        """As of any input (decisions.md 29)."""
        shown = {"presentation": {"style": "info"}, "title": "Note"}
        self.steered(userMessagePresentation=shown)
        message = self.messages().body["messages"][-1]["message"]
        self.assertEqual(message["presentation"]["title"], "Note")

    def test_its_row_comes_before_the_answer_to_it(self) -> None:
        """Whatever the agent says meanwhile waits until it is known that the agent has it."""
        delivery = self.held()
        d = self.steer()
        self.local.last.say("answer")
        self.assertEqual(self.texts(), ["long"])
        self.assertNoResult(d)
        delivery.callback(Steered(outcome="delivered"))
        self.assertEqual(self.successResultOf(d).status, 202)
        self.assertEqual(self.texts(), ["long", "more", "answer"])

    def test_answered_when_its_row_is_durable(self) -> None:
        """Not before."""
        self.memory.held = True
        d = self.steer()
        self.assertNoResult(d)
        self.memory.release()
        self.assertEqual(self.successResultOf(d).status, 202)

    def test_steered_replies_are_part_of_the_receipt(self) -> None:
        """Of the turn it joined (5.7.2, 3.21)."""
        self.local.last.say("one")
        self.steered()
        self.local.last.say("two")
        self.local.last.finish()
        output = self.receipt(self.turn).body["output"]
        self.assertEqual(output["assistantMessages"], ["one", "two"])

    def test_concurrent_steers_arrive_in_order(self) -> None:
        """All on the same turn, one after the other (5.11.2)."""
        first = self.held()
        answers = [self.steer(f"{n}") for n in range(4)]
        self.assertEqual(self.delivered(), ["0"])
        first.callback(Steered(outcome="delivered"))
        for d in answers:
            self.assertEqual(self.successResultOf(d).body["turnId"], self.turn)
        self.assertEqual(self.delivered(), ["0", "1", "2", "3"])
        self.assertEqual(self.texts(), ["long", "0", "1", "2", "3"])

    def test_a_launch_that_is_under_way_is_waited_for(self) -> None:
        """There is nothing to steer before."""
        self.local.last.finish()
        self.local.holds_launches = True
        turn = self.run_chat(self.view, command="slow").body["turnId"]
        first, second = self.steer("one"), self.steer("two")
        self.assertNoResult(first)
        self.assertEqual(self.successResultOf(self.stop(chatId=OTHER)).status, 404)
        self.local.last.begin()
        for d in (first, second):
            self.assertEqual(self.successResultOf(d).body["turnId"], turn)
        self.assertEqual(self.delivered(), ["one", "two"])

    def test_a_launch_that_fails(self) -> None:
        """Then there is no turn."""
        self.local.last.finish()
        self.local.holds_launches = True
        self.run_chat(self.view, command="slow")
        d = self.steer()
        self.local.last.refuse(GarconError("INTERNAL_ERROR", "no", status=500))
        self.assertEqual(self.successResultOf(d).failure, (409, "STEER_TURN_UNAVAILABLE", False))

    def test_a_stop_does_not_wait_for_a_delivery(self) -> None:
        """Its row stays, and the next run carries it (5.11.6)."""
        delivery = self.held()
        d = self.steer()
        self.assertEqual(self.successResultOf(self.stop()).body["outcome"], "interrupt-requested")
        self.assertEqual(self.texts(), ["long", "more"])
        delivery.callback(Steered(outcome="delivered"))
        self.assertEqual(self.successResultOf(d).status, 202)
        self.assertEqual(self.texts(), ["long", "more"])
        self.run_chat(self.view, command="next")
        self.assertEqual(self.prompts()[-1], "long\n\nmore\n\nnext")

    def test_an_accepted_steer_s_row_survives_a_stop(self) -> None:
        """Also one that was delivered before (5.11.6)."""
        self.steered()
        self.successResultOf(self.stop())
        candidates = self.messages().body["resendCandidates"]
        self.assertEqual([one["content"] for one in candidates], ["long", "more"])

    def test_the_end_of_the_turn_waits_for_a_delivery(self) -> None:
        """So that its row is still part of the turn."""
        delivery = self.held()
        d = self.steer()
        self.local.last.finish()
        self.assertEqual(self.phase(), "running")
        delivery.callback(Steered(outcome="delivered"))
        self.assertEqual(self.successResultOf(d).status, 202)
        self.assertEqual((self.texts(), self.phase()), (["long", "more"], None))
        self.assertEqual(self.receipt(self.turn).body["state"], "completed")

    def test_a_steered_turn_that_is_replaced(self) -> None:
        """Output of the successor is not held back by what its predecessor waits for."""
        delivery = self.held()
        d = self.steer()
        self.successResultOf(self.stop())
        self.run_chat(self.view, command="next")
        self.local.last.say("answer")
        self.assertEqual(self.texts(), ["long", "more", "next", "answer"])
        delivery.callback(Steered(outcome="rejected"))
        answer = self.successResultOf(d)
        self.assertEqual(answer.failure, (500, "STEER_OUTCOME_UNKNOWN", False))


class RefusalTests(SteerCase):
    """One that is not taken; none of its errors is to be retried (3.12)."""

    def assertRefused(self, status: int, code: str, rows: list[str], **more: Any) -> Said:
        answer = self.steered(**more)
        self.assertEqual(answer.failure, (status, code, False))
        self.assertNotIn("control", answer.body)
        self.assertEqual(self.texts(), rows)
        return answer

    def test_outcomes(self) -> None:
        """Each has its code; what did not reach the agent leaves no row."""
        for outcome, status, code in (
            ("rejected", 409, "STEER_PROVIDER_REJECTED"),
            ("not-steerable", 409, "STEER_TURN_NOT_STEERABLE"),
            ("turn-changed", 409, "STEER_TURN_CHANGED"),
            ("turn-unavailable", 409, "STEER_TURN_UNAVAILABLE"),
            ("not-delivered", 500, "STEER_NOT_DELIVERED"),
        ):
            self.answers(outcome, f"because {outcome}")
            answer = self.assertRefused(status, code, ["long"])
            self.assertEqual(answer.body["error"], f"because {outcome}")

    def test_an_input_the_agent_finds_invalid(self) -> None:
        """400, and its row stays (5.11.3)."""
        self.answers("invalid")
        self.assertRefused(400, "VALIDATION_FAILED", ["long", "more"])

    def test_an_unknown_outcome(self) -> None:
        """It may be there, so its row is."""
        self.answers("unknown")
        self.assertRefused(500, "STEER_OUTCOME_UNKNOWN", ["long", "more"])

    def test_captures(self) -> None:
        """What cannot be steered is not tried."""
        for outcome, status, code in (
            ("unsupported", 422, "OPERATION_UNSUPPORTED"),
            ("not-steerable", 409, "STEER_TURN_NOT_STEERABLE"),
            ("turn-unavailable", 409, "STEER_TURN_UNAVAILABLE"),
        ):
            capture: Deferred[SteerCapture] = Deferred()
            capture.callback(SteerCapture(outcome=outcome))  # type: ignore[arg-type]
            self.local.captures.append(capture)
            self.assertRefused(status, code, ["long"])
        self.assertEqual(self.delivered(), [])

    def test_an_executor_that_cannot_be_asked(self) -> None:
        """Not delivered, whether it says so or is silent."""
        lost: Deferred[SteerCapture] = Deferred()
        lost.errback(CallError("EXECUTOR_UNAVAILABLE", "down", outcome="not-dispatched"))
        self.local.captures.append(lost)
        self.assertRefused(500, "STEER_NOT_DELIVERED", ["long"])
        self.local.captures.append(Deferred())
        d = self.steer()
        self.clock.advance(INTERACTIVE_READ - 0.1)
        self.assertNoResult(d)
        self.clock.advance(0.1)
        self.assertEqual(self.successResultOf(d).code, "STEER_NOT_DELIVERED")

    def test_a_delivery_that_fails(self) -> None:
        """By what is known of it."""
        for error, code in (
            (CallError("X", "x", outcome="not-dispatched"), "STEER_NOT_DELIVERED"),
            (CallError("X", "x", outcome="unknown"), "STEER_OUTCOME_UNKNOWN"),
            (GarconError("X", "x"), "STEER_NOT_DELIVERED"),
            (ValueError("a bug"), "STEER_OUTCOME_UNKNOWN"),
        ):
            self.held().errback(error)
            self.assertEqual(self.steered().code, code)
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)

    def test_twenty_seconds(self) -> None:
        """Then its outcome is unknown, and what the agent said goes on."""
        self.held()
        d = self.steer()
        self.local.last.say("answer")
        self.clock.advance(INTERACTIVE_WAIT - 0.1)
        self.assertNoResult(d)
        self.clock.advance(0.1)
        self.assertEqual(self.successResultOf(d).code, "STEER_OUTCOME_UNKNOWN")
        self.assertEqual(self.texts(), ["long", "more", "answer"])

    def test_a_row_that_cannot_be_kept(self) -> None:
        """It was delivered, but nobody will see it."""
        self.memory.refusals = RETRIES + 1
        d = self.steer()
        self.clock.pump([1.0] * RETRIES)
        self.assertEqual(self.successResultOf(d).code, "STEER_OUTCOME_UNKNOWN")

    def test_no_turn(self) -> None:
        """After it has settled: 409, and no row (5.11.4)."""
        self.local.last.finish()
        self.assertRefused(409, "STEER_TURN_UNAVAILABLE", ["long"])

    def test_a_turn_that_is_being_stopped(self) -> None:
        """It takes no more."""
        self.local.say_nothing = True
        self.executors.states["local"] = "reconnecting"
        self.successResultOf(self.stop())
        self.assertEqual(self.phase(), "stopping")
        self.assertRefused(409, "STEER_TURN_UNAVAILABLE", ["long"])

    def test_stopped_while_it_waits_for_its_mentions(self) -> None:
        """It is not sent any more; with another turn by then, that one is not meant."""
        for successor, code in ((False, "STEER_TURN_UNAVAILABLE"), (True, "STEER_TURN_CHANGED")):
            resolving: Deferred[str] = Deferred()
            self.local.resolutions.append(resolving)
            d = self.steer("see @file")
            self.successResultOf(self.stop())
            if successor:
                self.run_chat(self.view, command="next")
            resolving.callback("see the file")
            self.assertEqual(self.successResultOf(d).code, code)
            self.assertEqual(self.delivered(), [])
            if not successor:
                self.run_chat(self.view, command="long again")

    def test_another_view_and_an_unknown_chat(self) -> None:
        """Before everything else."""
        self.assertRefused(409, "STALE_TRANSCRIPT_VIEW", ["long"], transcriptViewId="other")
        self.assertRefused(404, "SESSION_NOT_FOUND", ["long"], chatId=OTHER)

    def test_fields(self) -> None:
        """400."""
        for more in (
            {"content": " \n"},
            {"clientMessageId": ""},
            {"clientRequestId": "r" * 257},
            {"transcriptViewId": ""},
            {"chatId": "x"},
            {"parentChat": None},
            {"userMessagePresentation": {"presentation": {"style": "loud"}}},
        ):
            answer = self.asked(operations.STEER, self.steer_body() | more)
            self.assertEqual(answer.failure, (400, "VALIDATION_FAILED", False))

    def test_while_the_controller_stops(self) -> None:
        """503, unlike others not to be retried (1.3)."""
        d = self.chats.shut_down()
        self.assertRefused(503, "SERVER_SHUTTING_DOWN", ["long"])
        self.successResultOf(d)


class IdentityTests(SteerCase):
    """Exactly one delivery per identity (2.3, 2.4, 5.11.1)."""

    def test_the_same_steer_again(self) -> None:
        """A duplicate, also after its turn."""
        body = self.steer_body()
        first = self.asked(operations.STEER, body)
        for _ in range(2):
            again = self.asked(operations.STEER, body)
            self.assertEqual((again.status, again.body["status"]), (202, "duplicate"))
            for member in ("turnId", "acceptedAt"):
                self.assertEqual(again.body[member], first.body[member])
            self.local.last.finish()
        self.assertEqual(self.delivered(), ["more"])
        self.assertEqual(self.texts(), ["long", "more"])

    def test_other_content(self) -> None:
        """A conflict, for every field that is compared, and for another command."""
        body = self.steer_body(clientRequestId="r")
        self.asked(operations.STEER, body)
        for other in ({"content": "x"}, {"clientMessageId": "x"}):
            answer = self.asked(operations.STEER, body | other)
            self.assertEqual(answer.failure, (409, "IDEMPOTENCY_CONFLICT", False))
        answer = self.create(clientRequestId="r")
        self.assertEqual(answer.failure, (409, "IDEMPOTENCY_CONFLICT", False))

    def test_a_failed_steer_again(self) -> None:
        """The recorded error, and no second try (3.12)."""
        body = self.steer_body()
        self.answers("rejected", "no")
        for _ in range(2):
            answer = self.asked(operations.STEER, body)
            self.assertEqual(answer.failure, (409, "STEER_PROVIDER_REJECTED", False))
            self.assertEqual(answer.body["error"], "no")
        self.assertEqual(self.delivered(), ["more"])

    def test_an_unfinished_steer_again(self) -> None:
        """Its outcome is unknown from then on, for everybody (3.12)."""
        body = self.steer_body()
        delivery = self.held()
        first = self.ask(operations.STEER, body)
        again = self.asked(operations.STEER, body)
        self.assertEqual(again.failure, (500, "STEER_OUTCOME_UNKNOWN", False))
        delivery.callback(Steered(outcome="delivered"))
        self.assertEqual(self.successResultOf(first).code, "STEER_OUTCOME_UNKNOWN")
        self.assertEqual(self.asked(operations.STEER, body).code, "STEER_OUTCOME_UNKNOWN")
        self.assertEqual((self.delivered(), self.texts()), (["more"], ["long", "more"]))

    def test_an_unfinished_steer_again_that_is_not_taken(self) -> None:
        """Its row is there all the same, as of every unknown outcome."""
        body = self.steer_body()
        delivery = self.held()
        first = self.ask(operations.STEER, body)
        self.asked(operations.STEER, body)
        delivery.callback(Steered(outcome="not-delivered"))
        self.assertEqual(self.successResultOf(first).code, "STEER_OUTCOME_UNKNOWN")
        self.assertEqual(self.texts(), ["long", "more"])

    def test_an_unfinished_steer_again_while_the_controller_stops(self) -> None:
        """Its turn among the deliveries never comes; its row is there after the restart."""
        self.held()
        self.steer("one").addErrback(lambda _: None)
        body = self.steer_body("two")
        second = self.ask(operations.STEER, body)
        self.asked(operations.STEER, body)
        end = self.chats.shut_down()
        self.clock.advance(1)
        self.successResultOf(end)
        self.assertEqual(self.successResultOf(second).code, "STEER_OUTCOME_UNKNOWN")
        self.assertEqual(self.delivered(), ["one"])
        self.restart()
        self.assertEqual(self.texts(), ["long", "one", "two"])

    def test_the_same_message_under_another_request(self) -> None:
        """Success, without a row or a delivery (2.4)."""
        self.steered(clientMessageId="m")
        answer = self.steered(clientMessageId="m")
        self.assertEqual((answer.status, answer.body["turnId"]), (202, self.turn))
        self.assertEqual((self.delivered(), self.texts()), (["more"], ["long", "more"]))

    def test_the_same_message_with_other_content(self) -> None:
        """Or one that was no steer: a conflict, and nothing changes."""
        self.steered(clientMessageId="m")
        for content, message in (("other", "m"), ("hello", "m-start")):
            answer = self.steered(content, clientMessageId=message)
            self.assertEqual(answer.failure, (409, "IDEMPOTENCY_CONFLICT", False))
        self.assertEqual(self.delivered(), ["more"])
        self.local.last.finish()
        run = self.run_chat(self.view, command="more", clientMessageId="m")
        self.assertEqual(run.failure, (409, "IDEMPOTENCY_CONFLICT", False))

    def test_who_gives_up_does_not_take_it_back(self) -> None:
        """Admitted is admitted, also while it waits for another one's delivery."""
        delivery = self.held()
        first, second = self.steer("one"), self.steer("two")
        for d in (first, second):
            d.addErrback(lambda _: None)
            d.cancel()
        delivery.callback(Steered(outcome="delivered"))
        self.assertEqual(self.texts(), ["long", "one", "two"])

    def test_ten_thousand_and_one_more(self) -> None:
        """They are never forgotten; further ones are refused (2.3)."""
        self.patch(ledger, "STEERS", 3)
        bodies = [self.steer_body(f"{n}") for n in range(3)]
        for body in bodies:
            self.assertEqual(self.asked(operations.STEER, body).status, 202)
        more = self.steered("more")
        self.assertEqual(more.failure, (503, "STEER_CAPACITY_EXHAUSTED", False))
        self.assertEqual(self.asked(operations.STEER, bodies[0]).body["status"], "duplicate")
        self.assertEqual(self.delivered(), ["0", "1", "2"])

    def test_sixty_four_deliveries_and_one_more(self) -> None:
        """What waits for an agent is bounded."""
        delivery = self.held()
        answers = [self.steer(f"{n}") for n in range(WAITING + 1)]
        more = self.steered("more")
        self.assertEqual(more.failure, (409, "SESSION_BUSY", True))
        delivery.callback(Steered(outcome="delivered"))
        for d in answers:
            self.assertEqual(self.successResultOf(d).status, 202)

    def test_a_restart_remembers_the_message(self) -> None:
        """The row is durable, the ledger is not."""
        self.steered(clientMessageId="m")
        self.restart()
        self.run_chat(self.view, command="next")
        answer = self.steered(clientMessageId="m")
        self.assertEqual((answer.status, self.delivered()), (202, []))
        UUID(answer.body["turnId"])


class MentionTests(SteerCase):
    """Files that a steer mentions (5.11.7)."""

    def test_the_agent_gets_the_files(self) -> None:
        """The row keeps what its user wrote."""
        resolving: Deferred[str] = Deferred()
        self.local.resolutions.append(resolving)
        d = self.steer("see @a")
        self.assertEqual(self.local.mentions, [(f"{self.base}/p", "see @a")])
        self.clock.advance(MENTIONS_WAIT - 0.1)
        resolving.callback("see @a: hello")
        self.assertEqual(self.successResultOf(d).status, 202)
        self.assertEqual(self.delivered(), ["see @a: hello"])
        self.assertEqual(self.texts(), ["long", "see @a"])

    def test_two_seconds_are_enough(self) -> None:
        """Then it goes as it is."""
        self.local.resolutions.append(Deferred())
        d = self.steer("see @a")
        self.clock.advance(MENTIONS_WAIT - 0.1)
        self.assertEqual(self.delivered(), [])
        self.clock.advance(0.1)
        self.assertEqual((self.successResultOf(d).status, self.delivered()), (202, ["see @a"]))

    def test_an_executor_that_cannot_say(self) -> None:
        """It goes as it is."""
        failing: Deferred[str] = Deferred()
        failing.errback(GarconError("EXECUTOR_UNAVAILABLE", "down", status=503))
        self.local.resolutions.append(failing)
        self.steered("see @a")
        self.assertEqual(self.delivered(), ["see @a"])

    def test_a_text_without_any_is_not_looked_at(self) -> None:
        """That would only take time."""
        self.steered("nothing to see")
        self.assertEqual(self.local.mentions, [])

    def test_order_is_kept_while_one_is_read(self) -> None:
        """Both read at the same time, and arrive as they came (5.18)."""
        resolving: Deferred[str] = Deferred()
        self.local.resolutions.append(resolving)
        first, second = self.steer("see @a"), self.steer("then this")
        self.assertEqual(self.delivered(), [])
        resolving.callback("see @a: hello")
        for d in (first, second):
            self.assertEqual(self.successResultOf(d).status, 202)
        self.assertEqual(self.delivered(), ["see @a: hello", "then this"])


class TalkingTests(SteerCase, HeldStoreTestCase):
    """An agent that goes on talking, and a store that works when the test says."""

    def test_answered_with_the_commit_that_holds_its_row(self) -> None:
        """However much comes after it."""
        delivery = self.held()
        d = self.steer()
        self.pool.held = True
        delivery.callback(Steered(outcome="delivered"))
        self.local.last.say("one")
        self.assertNoResult(d)
        self.pool.run_next()
        self.assertEqual(len(self.pool), 1)
        self.assertEqual(self.successResultOf(d).status, 202)
        self.pool.run_next()

    def test_not_answered_before_its_row_is_durable(self) -> None:
        """Whatever else is, by then."""
        delivery = self.held()
        d = self.steer()
        self.pool.held = True
        self.local.last.emit(UnknownEvent(agent_id="scripted", kind="odd", raw="{}"))
        delivery.callback(Steered(outcome="delivered"))
        self.pool.run_next()
        self.assertNoResult(d)
        self.pool.run_next()
        self.assertEqual(self.successResultOf(d).status, 202)


class ShutDownTests(SteerCase):
    """The controller ends while a steer is on its way."""

    def test_its_row_is_kept(self) -> None:
        """What may have arrived is seen after the restart."""
        self.held()
        d = self.steer()
        d.addErrback(lambda _: None)
        end = self.chats.shut_down()
        self.clock.advance(1)
        self.successResultOf(end)
        self.restart()
        self.assertEqual(self.texts(), ["long", "more"])

    def test_one_that_waits_for_another_is_not_sent(self) -> None:
        """It never reached the agent, and says so."""
        self.held()
        first, second = self.steer("one"), self.steer("two")
        end = self.chats.shut_down()
        self.clock.advance(1)
        self.successResultOf(end)
        self.assertEqual(self.successResultOf(first).code, "STEER_OUTCOME_UNKNOWN")
        code = self.successResultOf(second).code
        self.assertIn(code, ("STEER_NOT_DELIVERED", "STEER_TURN_UNAVAILABLE"))
        self.assertEqual(self.delivered(), ["one"])


class TargetTests(SteerCase):
    """What a capture names is what is steered."""

    def test_the_captured_target(self) -> None:
        """The agent's own name of its turn goes with the input."""
        capture: Deferred[SteerCapture] = Deferred()
        target = SteerTarget(run_id=self.turn, turn="agent-turn")
        capture.callback(SteerCapture(outcome="captured", target=target))
        self.local.captures.append(capture)
        self.steered(clientMessageId="m")
        (steer,) = self.local.steers
        self.assertEqual((steer.target, steer.client_message_id), (target, "m"))

    def test_a_stop_does_not_wait_for_a_capture(self) -> None:
        """What is captured then is gone; with another turn by then, that one is not meant."""
        for successor, code in ((False, "STEER_TURN_UNAVAILABLE"), (True, "STEER_TURN_CHANGED")):
            capture: Deferred[SteerCapture] = Deferred()
            self.local.captures.append(capture)
            turn = self.local.last.launch.run_id
            d = self.steer()
            stopped = self.successResultOf(self.stop())
            self.assertEqual(stopped.body["outcome"], "interrupt-requested")
            if successor:
                self.run_chat(self.view, command="next")
            target = SteerTarget(run_id=turn)
            capture.callback(SteerCapture(outcome="captured", target=target))
            self.assertEqual(self.successResultOf(d).failure, (409, code, False))
            self.assertEqual(self.delivered(), [])
            if not successor:
                self.run_chat(self.view, command="long again")

    def test_deleted_while_it_is_being_captured(self) -> None:
        """There is no such chat any more."""
        capture: Deferred[SteerCapture] = Deferred()
        self.local.captures.append(capture)
        d = self.steer()
        self.assertEqual(self.asked(operations.DELETE_CHAT, {"chatId": CHAT}).status, 200)
        target = SteerTarget(run_id=self.turn)
        capture.callback(SteerCapture(outcome="captured", target=target))
        self.assertEqual(self.successResultOf(d).code, "SESSION_NOT_FOUND")

    def test_the_turn_ends_while_it_is_being_captured(self) -> None:
        """There is none any more."""
        capture: Deferred[SteerCapture] = Deferred()
        self.local.captures.append(capture)
        d = self.steer()
        self.local.last.finish()
        target = SteerTarget(run_id=self.turn)
        capture.callback(SteerCapture(outcome="captured", target=target))
        self.assertEqual(self.successResultOf(d).code, "STEER_TURN_UNAVAILABLE")
        self.assertEqual(self.delivered(), [])
