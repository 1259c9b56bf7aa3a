"""What a strict client is told: by the controller and through a worker's gateway, of chats on Local
and on the worker (chats.md 1 to 5).
"""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from msgspec import UNSET

from garcon.contract import operations
from garcon.test.live.strict import INVALID, StrictTestCase
from garcon.testing.fleet import eventually
from garcon.testing.strict_client import StrictClient
from garcon.testing.strict_rules import refusal


class Conversations(StrictTestCase):
    """Turns from their start to their receipt."""

    def test_a_chat_from_start_to_list(self) -> None:
        """Receipt, rows, list entry and snapshot tell the same story, everywhere."""
        for client, executor_id in self.everywhere():
            body = client.start_body(
                executor_id, self.project, "  say one\nsay two ", tags=["B b", "a", "A", 1]
            )
            accepted = client.start(body)
            assert accepted.chat is not None
            self.assertEqual((accepted.chat.executor_id, accepted.parent_chat), (executor_id, None))
            self.assertEqual(accepted.chat.tags, ["a", "b-b"])
            receipt = client.settled(accepted.chat_id, accepted.turn_id)
            assert receipt.output is not UNSET
            self.assertEqual(receipt.output.assistant_messages, ["one", "two"])
            self.assertEqual(receipt.output.text, "one\n\ntwo")
            self.assertEqual(receipt.accepted_at, accepted.accepted_at)
            self.assertEqual(receipt.client_request_id, body["clientRequestId"])
            entry = client.chats()[0]
            self.assertEqual((entry.id, entry.title), (accepted.chat_id, "say one"))
            self.assertEqual(
                (entry.preview.first_message, entry.preview.last_message), ("say one", "two")
            )
            self.assertIsNone(entry.processing_phase)
            page = client.messages(accepted.chat_id)
            user = page.messages[0]
            self.assertEqual(user.message.content, "say one\nsay two")  # type: ignore[union-attr]
            self.assertEqual(page.resend_candidates, [])
            snapshot = client.snapshot(accepted.chat_id)
            self.assertEqual(
                snapshot.chat.activity.last_activity_at, entry.activity.last_activity_at
            )
            for limit in (1, 2, 3, 200):
                self.assertEqual(
                    [one.ordinal for one in client.all_messages(accepted.chat_id, limit)],
                    [one.ordinal for one in page.messages],
                )
            for limit in (0, 1, 200):
                client.snapshot(accepted.chat_id, limit)

    def test_the_same_command_again_has_no_second_effect(self) -> None:
        """Duplicates keep their turn, their time and their status."""
        for client, executor_id in self.everywhere():
            start = client.start_body(executor_id, self.project, "say one")
            first = client.start(start)
            client.settled(first.chat_id, first.turn_id)
            again = client.start(start, "duplicate")
            self.assertEqual((again.turn_id, again.accepted_at), (first.turn_id, first.accepted_at))
            view = client.messages(first.chat_id).transcript_view_id
            run = client.run_body(view, first.chat_id, "say two", tagsToAdd=["x"])
            second = client.run(run)
            client.settled(first.chat_id, second.turn_id)
            last = client.messages(first.chat_id).last_ordinal
            repeated = client.run(run, "duplicate")
            self.assertEqual(
                (repeated.turn_id, repeated.accepted_at), (second.turn_id, second.accepted_at)
            )
            self.assertEqual(client.snapshot(first.chat_id, 0).chat.tags, ["x"])
            # The identity of the message alone is enough not to run it again.
            third = client.run({**run, "clientRequestId": client.request_id()})
            self.assertEqual(client.settled(first.chat_id, third.turn_id).state, "completed")
            self.assertEqual(client.messages(first.chat_id).last_ordinal, last)
            conflict = (409, "IDEMPOTENCY_CONFLICT", False)
            for change in (
                {"command": "say three"},
                {"command": "say three", "clientRequestId": client.request_id()},
                {"clientRequestId": start["clientRequestId"]},
            ):
                self.assertEqual(client.refused(operations.RUN_CHAT, {**run, **change}), conflict)
            self.assertEqual(
                client.refused(
                    operations.START_CHAT, {**start, "clientRequestId": client.request_id()}
                ),
                (409, "CHAT_ID_COLLISION", False),
            )

    def test_busy_stop_and_unanswered_input(self) -> None:
        """A busy chat refuses with its control and changes nothing; a stopped input is resent."""
        for client, executor_id in self.everywhere():
            started = client.start(client.start_body(executor_id, self.project, "sleep 60"))
            chat = started.chat_id
            self.assertEqual(client.snapshot(chat, 0).processing_phase, "running")
            page = client.messages(chat)
            self.assertEqual(page.resend_candidates, [])
            run = client.run_body(page.transcript_view_id, chat, "hello")
            said = client.ask(operations.RUN_CHAT, run)
            self.assertEqual(refusal(said), (409, "SESSION_BUSY", True))
            self.assertEqual(said.json["control"]["serverInstanceId"], self.instance)
            self.assertNotIn("pending control state", said.json["error"])
            stop = {"clientRequestId": client.request_id(), "chatId": chat}
            self.assertEqual(client.stop(stop).outcome, "interrupt-requested")
            self.assertEqual(client.stop(stop, "duplicate").outcome, "interrupt-requested")
            other = {**stop, "clientRequestId": client.request_id()}
            self.assertEqual(client.stop(other).outcome, "already-idle")
            receipt = client.receipt(chat, started.turn_id)
            self.assertEqual((receipt.state, receipt.reason), ("interrupted", "user-stop"))
            [candidate] = client.messages(chat).resend_candidates
            self.assertEqual((candidate.content, candidate.attachment_names), ("sleep 60", []))
            # What was refused as busy is a new command now.
            accepted = client.run({**run, "excludedResendOrdinals": None})
            receipt = client.settled(chat, accepted.turn_id)
            assert receipt.output is not UNSET
            self.assertIn("sleep 60\n\nhello", str(receipt.output.text))

    def test_failures_tell_the_agents_text(self) -> None:
        """A failed turn is a failed receipt, best effort, and leaves the chat idle."""
        for client, executor_id in self.everywhere():
            chat, _, receipt = self.begun(client, executor_id, "say one\nfail out of cheese")
            self.assertEqual(receipt.state, "failed")
            self.assertIn("out of cheese", receipt.error)
            self.assertEqual(receipt.output.assistant_messages, ["one"])
            self.assertEqual(client.messages(chat).resend_candidates, [])

    def test_permissions_are_decided_once(self) -> None:
        """The live row's own controls decide; everything else is refused and leaves no row."""
        gone = (409, "PERMISSION_NOT_ACTIONABLE", False)
        for client, executor_id in self.everywhere():
            started = client.start(client.start_body(executor_id, self.project, "ask echo hi"))
            chat = started.chat_id
            control = client.permission(chat)
            self.assertEqual(control["runId"], started.turn_id)
            body = {
                "clientRequestId": client.request_id(),
                "chatId": chat,
                "permissionOccurrenceId": control["permissionOccurrenceId"],
                "allow": True,
                "alwaysAllow": False,
                "control": control,
            }
            for name in ("serverInstanceId", "runId"):
                stale = {**control, name: str(uuid4())}
                self.assertEqual(
                    client.refused(operations.PERMISSION_DECISION, {**body, "control": stale}), gone
                )
            elsewhere = {**control, "permissionOccurrenceId": str(uuid4())}
            self.assertEqual(
                client.refused(operations.PERMISSION_DECISION, {**body, "control": elsewhere}),
                INVALID,
            )
            first = client.decide(body)
            self.assertEqual(client.decide(body, "duplicate").accepted_at, first.accepted_at)
            self.assertEqual(
                client.refused(operations.PERMISSION_DECISION, {**body, "allow": False}),
                (409, "IDEMPOTENCY_CONFLICT", False),
            )
            later = {**body, "clientRequestId": client.request_id()}
            self.assertEqual(client.refused(operations.PERMISSION_DECISION, later), gone)
            client.settled(chat, started.turn_id)
            kinds = [one.message.__struct_config__.tag for one in client.messages(chat).messages]
            self.assertEqual(kinds.count("permission-request"), 1)
            self.assertEqual(kinds.count("permission-resolved"), 1)

    def test_reading_during_a_turn_is_of_one_instant(self) -> None:
        """Who sees an idle chat sees all of its last turn."""
        for client, executor_id in self.everywhere():
            body = client.start_body(executor_id, self.project, "emit 200\nsay done")
            chat = client.start(body).chat_id

            def idle(client: StrictClient = client, chat: str = chat) -> Any:
                snapshot = client.snapshot(chat, 5)
                return snapshot if snapshot.processing_phase is None else None

            snapshot = eventually("an idle chat", idle, every=0.0)
            contents = [row["message"].get("content") for row in snapshot.transcript["messages"]]
            self.assertEqual(contents[-1], "done")


class Crashes(StrictTestCase):
    """A controller killed at the worst time, and its successor."""

    def test_what_a_successor_knows(self) -> None:
        """Every row, no live request, no receipt; nothing runs twice and unanswered input stays."""
        waiting = [
            [
                client.start(client.start_body(executor_id, self.project, command))
                for command in ("say one", "ask echo hi", "sleep 60")
            ]
            for client, executor_id in self.everywhere()
        ]
        controls = []
        for (client, _), (done, asks, _) in zip(self.everywhere(), waiting, strict=True):
            client.settled(done.chat_id, done.turn_id)
            controls.append(client.permission(asks.chat_id))
        before = [[self.direct.messages(one.chat_id) for one in accepted] for accepted in waiting]
        run = self.direct.run_body(before[0][0].transcript_view_id, waiting[0][0].chat_id, "again")
        self.direct.settled(run["chatId"], self.direct.run(run).turn_id)
        committed = self.direct.messages(run["chatId"])
        before[0][0] = committed
        port = self.controller.port
        self.controller.kill()
        self.controller = self.fleet.controller(port=port)
        self.fleet.await_executor(self.controller, self.executor_id)
        own = self.controller.descriptor()
        self.assertNotEqual(own["instanceId"], self.instance)
        self.direct = StrictClient(own["baseUrl"], own["localCapability"])
        stale = (409, "CLI_CONTROLLER_CHANGED")
        self.assertEqual(self.gateway.refused(operations.LIST_CHATS)[:2], stale)
        self.gateway.instance = own["instanceId"]
        for (client, _), accepted, pages, control in zip(
            self.everywhere(), waiting, before, controls, strict=True
        ):
            for one, page in zip(accepted, pages, strict=True):
                now = client.messages(one.chat_id)
                self.assertEqual(now.transcript_view_id, page.transcript_view_id)
                self.assertEqual(now.messages[: len(page.messages)], page.messages)
                snapshot = client.snapshot(one.chat_id)
                self.assertEqual(snapshot.transient_feed.rows, [])
                query = {"chatId": one.chat_id, "turnId": one.turn_id}
                self.assertEqual(
                    client.refused(operations.TURN_RECEIPT, query=query),
                    (404, "TURN_RECEIPT_NOT_FOUND", False),
                )
            unanswered = client.messages(accepted[2].chat_id).resend_candidates
            self.assertEqual([one.content for one in unanswered], ["sleep 60"])
            decision = {
                "clientRequestId": client.request_id(),
                "chatId": control["chatId"],
                "permissionOccurrenceId": control["permissionOccurrenceId"],
                "allow": True,
                "alwaysAllow": False,
                "control": control,
            }
            self.assertEqual(
                client.refused(operations.PERMISSION_DECISION, decision),
                (409, "PERMISSION_NOT_ACTIONABLE", False),
            )
        repeated = self.direct.run(run)
        receipt = self.direct.settled(run["chatId"], repeated.turn_id)
        assert receipt.output is not UNSET
        self.assertEqual((receipt.state, receipt.output.text), ("completed", ""))
        self.assertEqual(self.direct.messages(run["chatId"]).messages, committed.messages)
