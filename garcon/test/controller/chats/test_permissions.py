"""Permissions (chats.md 3.24, 4.19, 5.12; decisions.md 31)."""

from __future__ import annotations

from typing import Any

import msgspec
from twisted.internet.defer import Deferred

from garcon.contract import operations
from garcon.contract.events import ChatMessages, TransientFeedMutation, Upsert
from garcon.contract.messages import BashToolUse
from garcon.contract.runs import Delivery, PermissionAutoResolved, PermissionWithdrawn
from garcon.errors import CallError
from garcon.test.controller.chats.cast import (
    CHAT,
    INSTANCE,
    OTHER,
    ChatsTestCase,
    HeldStoreTestCase,
    Said,
)
from garcon.testing.fake_runtime import AT

STALE = (409, "PERMISSION_NOT_ACTIONABLE", False)


class PermissionCase(ChatsTestCase):
    """A chat whose agent asks."""

    def setUp(self) -> None:
        super().setUp()
        self.view = self.started()
        self.turn: str = self.run_chat(self.view).body["turnId"]
        self.local.last.ask("o1")

    def body(self, occurrence: str = "o1", allow: bool = True, **control: Any) -> dict[str, Any]:
        return {
            "clientRequestId": f"decide-{occurrence}",
            "chatId": CHAT,
            "permissionOccurrenceId": occurrence,
            "allow": allow,
            "alwaysAllow": False,
            "control": {
                "serverInstanceId": INSTANCE,
                "chatId": CHAT,
                "runId": self.turn,
                "permissionOccurrenceId": occurrence,
            }
            | control,
        }

    def decide(self, body: dict[str, Any] | None = None) -> Deferred[Said]:
        return self.ask(operations.PERMISSION_DECISION, body or self.body())

    def decided(self, body: dict[str, Any] | None = None) -> Said:
        said: Said = self.successResultOf(self.decide(body))
        return said

    def prepare(self) -> Deferred[Delivery]:
        """Hold the fate of the next decision."""
        fate: Deferred[Delivery] = Deferred()
        self.local.deliveries.append(fate)
        return fate

    def live(self) -> list[str]:
        feed = self.snapshot(limit=0).body["transientFeed"]
        return [row["permissionOccurrenceId"] for row in feed["rows"]]

    def last_kind(self) -> str:
        kind: str = self.kinds()[-1][1]
        return kind

    def mutations(self) -> list[tuple[int, str]]:
        """What was told of the feed: revision and kind."""
        told = [event for event in self.told if isinstance(event, TransientFeedMutation)]
        for event in told:
            self.assertEqual(event.server_instance_id, INSTANCE)
            self.assertEqual((event.chat_id, event.transcript_view_id), (CHAT, self.view))
        kinds = [msgspec.to_builtins(event.mutation)["kind"] for event in told]
        return list(zip([event.transient_revision for event in told], kinds, strict=True))


class PermissionTests(PermissionCase):
    """Its questions, and what becomes of them."""

    def test_a_question_is_told_behind_its_row(self) -> None:
        """Whoever sees it live has its message already (server.md A.11.1)."""
        *_, row, live = self.told
        assert isinstance(row, ChatMessages) and isinstance(live, TransientFeedMutation)
        assert isinstance(live.mutation, Upsert)
        self.assertEqual(live.mutation.row.transcript.after_ordinal, row.last_ordinal)
        self.assertEqual(live.mutation.row.display_order, row.last_ordinal)

    def test_an_answer_is_told_once(self) -> None:
        """A removal, and nothing more at the end of the run."""
        self.decided()
        self.local.last.finish()
        self.assertEqual(self.mutations(), [(1, "upsert"), (2, "remove")])

    def test_the_end_of_a_run_is_told_of_all_its_questions_at_once(self) -> None:
        """Before the rows that cancel them, each of which would take away one."""
        self.local.last.ask("o2")
        self.told.clear()
        self.local.last.finish()
        self.assertEqual(self.mutations(), [(3, "clear-run")])
        self.assertIsInstance(self.told[0], TransientFeedMutation)

    def test_a_turn_whose_rows_are_lost_leaves_no_question(self) -> None:
        """Nobody could answer it any more."""
        self.memory.refusals = 6
        self.local.last.say("lost")
        for _ in range(6):
            self.clock.advance(1)
        self.assertEqual(self.mutations(), [(1, "upsert"), (2, "clear-run")])
        self.assertEqual(self.live(), [])

    def test_a_live_request_shows_twice(self) -> None:
        """As a message, and as a transient row with its controls (5.12.1)."""
        snapshot = self.snapshot().body
        feed = snapshot["transientFeed"]
        [row] = feed["rows"]
        self.assertEqual(feed["transcriptViewId"], snapshot["transcript"]["transcriptViewId"])
        self.assertEqual((row["runId"], row["permissionOccurrenceId"]), (self.turn, "o1"))
        last = snapshot["transcript"]["lastOrdinal"]
        self.assertEqual(row["transcript"], {"transcriptViewId": self.view, "afterOrdinal": last})
        self.assertEqual(row["message"], snapshot["transcript"]["messages"][-1]["message"])
        self.assertEqual(row["message"]["type"], "permission-request")

    def test_a_request_is_live_only_when_durable(self) -> None:
        """Its anchor must exist."""
        self.memory.held = True
        self.local.last.ask("o2")
        self.assertEqual(self.live(), ["o1"])
        self.memory.release()
        self.assertEqual(self.live(), ["o1", "o2"])

    def test_every_change_counts(self) -> None:
        """The revision starts at 0 and grows by one."""
        revision = self.snapshot(limit=0).body["transientFeed"]["transientRevision"]
        self.assertEqual(revision, 1)
        self.decided()
        revision = self.snapshot(limit=0).body["transientFeed"]["transientRevision"]
        self.assertEqual(revision, 2)

    def test_a_delivered_decision_resolves(self) -> None:
        """The row follows the request, and the transient row is gone (5.12.2)."""
        for occurrence, allow in (("o1", True), ("o2", False)):
            if occurrence == "o2":
                self.local.last.ask("o2")
            answer = self.decided(self.body(occurrence, allow))
            self.assertEqual((answer.status, answer.body["status"]), (200, "accepted"))
            message = self.messages().body["messages"][-1]["message"]
            self.assertEqual((message["type"], message["allowed"]), ("permission-resolved", allow))
        self.assertEqual(self.live(), [])
        self.assertEqual([one.allow for one in self.local.responses], [True, False])

    def test_the_answer_to_a_question_goes_along(self) -> None:
        """`response` is the agent's (4.18); null is absent."""
        response = {"type": "ask-user-question-response", "outcome": "skipped"}
        self.decided(self.body() | {"response": response, "alwaysAllow": True})
        self.assertEqual(self.local.responses[0].response, response)
        self.assertTrue(self.local.responses[0].always_allow)

    def test_stale_controls_are_refused(self) -> None:
        """Another process, another run, another request: 409 and no row (5.12.2)."""
        before = self.kinds()
        for stale in (
            self.body(serverInstanceId="other"),
            self.body(runId="other"),
            self.body("unknown"),
        ):
            self.assertEqual(self.decided(stale).failure, STALE)
            self.assertEqual(self.decided(stale).failure, STALE)
        self.assertEqual((self.kinds(), self.local.responses), (before, []))
        self.assertEqual(self.live(), ["o1"])

    def test_controls_must_agree_with_the_request(self) -> None:
        """400 when the tuple names something else."""
        wrong = [
            self.body(chatId=OTHER),
            self.body(permissionOccurrenceId="o2"),
            self.body(serverInstanceId=" "),
            self.body(runId=""),
            self.body() | {"allow": "yes"},
        ]
        for body in wrong:
            self.assertEqual(self.decided(body).failure, (400, "VALIDATION_FAILED", False))

    def test_an_unknown_chat(self) -> None:
        """404."""
        body = self.body(chatId=OTHER) | {"chatId": OTHER}
        self.assertEqual(self.decided(body).failure, (404, "SESSION_NOT_FOUND", False))

    def test_the_same_decision_again_is_a_duplicate(self) -> None:
        """The opposite one under the same id conflicts, and a second one is stale."""
        self.decided()
        self.assertEqual(self.decided().body["status"], "duplicate")
        opposite = self.decided(self.body(allow=False))
        self.assertEqual(opposite.failure, (409, "IDEMPOTENCY_CONFLICT", False))
        second = self.decided(self.body() | {"clientRequestId": "other"})
        self.assertEqual(second.failure, STALE)
        self.assertEqual(len(self.local.responses), 1)

    def test_one_decision_at_a_time(self) -> None:
        """A second waits for the first, and is then too late."""
        fate = self.prepare()
        first = self.decide()
        second = self.decide(self.body(allow=False) | {"clientRequestId": "other"})
        same = self.decide()
        self.assertNoResult(second)
        fate.callback("confirmed")
        self.assertEqual(self.successResultOf(first).body["status"], "accepted")
        self.assertEqual(self.successResultOf(second).failure, STALE)
        self.assertEqual(self.successResultOf(same).body["status"], "duplicate")
        self.assertEqual(len(self.local.responses), 1)

    def test_what_follows_from_a_decision_stands_after_it(self) -> None:
        """Even if the agent goes on before its delivery is known."""
        fate = self.prepare()
        d = self.decide()
        self.local.last.say("thanks")
        self.local.last.finish()
        self.assertEqual(self.last_kind(), "permission-request")
        fate.callback("confirmed")
        self.assertEqual(self.successResultOf(d).status, 200)
        kinds = [kind for _, kind, _ in self.kinds()[-3:]]
        self.assertEqual(kinds, ["permission-request", "permission-resolved", "assistant-message"])
        self.assertEqual(self.receipt(self.turn).body["state"], "completed")

    def test_a_decision_that_is_not_delivered_leaves_it_pending(self) -> None:
        """No row; the same decision, or the opposite, may be sent again."""
        for fate in ("not-delivered", CallError("X", "x", outcome="not-dispatched")):
            prepared = self.prepare()
            d = self.decide()
            if isinstance(fate, Exception):
                prepared.errback(fate)
            else:
                prepared.callback("not-delivered")
            answer = self.successResultOf(d)
            self.assertEqual(answer.failure, (409, "PERMISSION_NOT_ACTIONABLE", True))
            self.assertEqual((self.live(), self.last_kind()), (["o1"], "permission-request"))
        self.assertEqual(self.decided(self.body(allow=False)).body["status"], "accepted")
        self.assertEqual(self.last_kind(), "permission-resolved")

    def test_an_unknown_outcome_retires_the_request(self) -> None:
        """503; no row, no second delivery, and the same answer again."""
        prepared = self.prepare()
        d = self.decide()
        prepared.errback(CallError("X", "x", outcome="unknown"))
        unknown = (503, "PERMISSION_DECISION_OUTCOME_UNKNOWN", False)
        self.assertEqual(self.successResultOf(d).failure, unknown)
        self.assertEqual((self.live(), self.last_kind()), ([], "permission-request"))
        self.assertEqual(self.decided().failure, unknown)
        other = self.decided(self.body() | {"clientRequestId": "other"})
        self.assertEqual((other.failure, len(self.local.responses)), (STALE, 1))

    def test_twenty_seconds_without_an_answer_are_unknown(self) -> None:
        """The turn goes on with what was held."""
        self.prepare()
        d = self.decide()
        self.local.last.say("on")
        self.clock.advance(19.9)
        self.assertNoResult(d)
        self.clock.advance(0.1)
        self.assertEqual(self.successResultOf(d).status, 503)
        self.assertEqual(self.kinds()[-1][2], "on")

    def test_a_withdrawn_request_is_cancelled(self) -> None:
        """Whatever withdrew it, readers see cancelled."""
        withdrawn = PermissionWithdrawn(permission_occurrence_id="o1", reason="aborted")
        self.local.last.emit(withdrawn)
        message = self.messages().body["messages"][-1]["message"]
        self.assertEqual(
            (message["type"], message["reason"]), ("permission-cancelled", "cancelled")
        )
        self.assertEqual((self.live(), self.decided().failure), ([], STALE))
        self.local.last.emit(withdrawn)
        self.assertEqual([kind for _, kind, _ in self.kinds()].count("permission-cancelled"), 1)

    def test_the_end_of_the_run_cancels_what_is_live(self) -> None:
        """Also when the agent does not say so (5.12.4)."""
        self.local.last.finish()
        self.assertEqual(self.last_kind(), "permission-cancelled")
        self.assertEqual((self.live(), self.decided().failure), ([], STALE))

    def test_a_stop_does_not_wait_for_a_decision(self) -> None:
        """A decision in flight then ends as it may, with one row of its own."""
        for delivery, kind in (
            ("confirmed", "permission-resolved"),
            ("not-delivered", "permission-cancelled"),
        ):
            prepared = self.prepare()
            d = self.decide()
            stop = self.successResultOf(self.stop())
            self.assertEqual(stop.body["outcome"], "interrupt-requested")
            prepared.callback(delivery)  # type: ignore[arg-type]  # one of the literals
            self.successResultOf(d)
            self.assertEqual((self.last_kind(), self.live()), (kind, []))
            self.turn = self.run_chat(self.view).body["turnId"]
            self.local.last.ask("o1")

    def test_what_was_allowed_automatically_is_resolved_at_once(self) -> None:
        """Two rows, and never live."""
        tool = BashToolUse(timestamp=AT, tool_id="t", command="ls")
        self.local.last.emit(
            PermissionAutoResolved(
                permission_occurrence_id="auto", requested_tool=tool, allowed=True, timestamp=AT
            )
        )
        kinds = [kind for _, kind, _ in self.kinds()[-2:]]
        self.assertEqual(kinds, ["permission-request", "permission-resolved"])
        self.assertEqual(self.live(), ["o1"])

    def test_after_a_restart_it_is_history(self) -> None:
        """The request stays a message, the feed is empty, old controls are refused (5.12.3)."""
        self.restart()
        self.assertEqual((self.last_kind(), self.live()), ("permission-request", []))
        self.assertEqual(self.decided().failure, STALE)
        self.assertEqual(self.last_kind(), "permission-request")


class TalkingTests(PermissionCase, HeldStoreTestCase):
    """An agent that goes on talking, and a store that works when the test says."""

    def test_a_decision_is_answered_with_the_commit_that_holds_its_row(self) -> None:
        """Not with an earlier one, and however much comes after it."""
        self.pool.held = True
        self.local.last.say("one")
        d = self.decide()
        self.local.last.say("two")
        self.pool.run_next()
        self.assertNoResult(d)
        self.local.last.say("three")
        self.pool.run_next()
        self.assertEqual(len(self.pool), 1)
        self.assertEqual(self.successResultOf(d).status, 200)
        self.pool.run_next()
