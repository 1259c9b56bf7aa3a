"""What a strict client is told: by the controller and through a worker's gateway, of chats on Local
and on the worker (chats.md 1 to 5).
"""

from __future__ import annotations

import base64
import json
from typing import Any
from uuid import uuid4

from msgspec import UNSET

from garcon.contract import operations
from garcon.test.live.fleets import FleetTestCase
from garcon.testing.fleet import eventually
from garcon.testing.strict_client import StrictClient, check_times, refusal

INVALID = (400, "VALIDATION_FAILED", False)
UNKNOWN_CHAT = "1700000000000000"


class StrictTestCase(FleetTestCase):
    """A pair, and a strict client at either endpoint."""

    def setUp(self) -> None:
        super().setUp()
        self.controller, self.worker, self.executor_id = self.fleet.pair()
        own, gateway = self.controller.descriptor(), self.worker.descriptor()
        self.direct = StrictClient(own["baseUrl"], own["localCapability"])
        self.gateway = StrictClient(
            gateway["baseUrl"], gateway["localCapability"], own["instanceId"]
        )
        self.instance: str = own["instanceId"]
        self.project = str(self.fleet.project("project"))

    def everywhere(self) -> list[tuple[StrictClient, str]]:
        """Every way to reach an agent: both endpoints, both executors."""
        return [
            (client, executor_id)
            for client in (self.direct, self.gateway)
            for executor_id in ("local", self.executor_id)
        ]

    def begun(self, client: StrictClient, executor_id: str, command: str, **more: Any) -> Any:
        """Start a chat whose first turn ends; returns chat id, view and the turn's receipt."""
        accepted = client.start(client.start_body(executor_id, self.project, command, **more))
        receipt = client.settled(accepted.chat_id, accepted.turn_id)
        view = client.messages(accepted.chat_id).transcript_view_id
        return accepted.chat_id, view, receipt


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


class Refusals(StrictTestCase):
    """Every error in its envelope, with its status, its code and whether it may be retried."""

    def test_starts(self) -> None:
        """Fields in order, then agent, project and model (chats.md 3.4)."""
        outside = (403, "PROJECT_PATH_OUTSIDE_BASE", False)
        mistakes: list[tuple[dict[str, Any], tuple[int, str, bool]]] = [
            *(({name: "é" * 128 + "x"}, INVALID) for name in ("clientRequestId",)),
            *(({name: " "}, INVALID) for name in ("clientMessageId", "model", "agentId")),
            *(({"chatId": bad}, INVALID) for bad in ("1", "9007199254740992", "0000000000000999")),
            ({"agentSettings": {"ownerId": "x", "schemaVersion": 1, "values": {}}}, INVALID),
            ({"agentSettings": None}, INVALID),
            ({"options": {}}, INVALID),
            ({"parentChat": None}, INVALID),
            ({"command": " "}, INVALID),
            ({"modelProtocol": "gopher"}, INVALID),
            ({"executorId": "elsewhere"}, INVALID),
            ({"images": [picture()] * 6}, INVALID),
            (
                {
                    "agentId": "nobody",
                    "agentSettings": {"ownerId": "nobody", "schemaVersion": 1, "values": {}},
                },
                (400, "UNSUPPORTED_AGENT", False),
            ),
            ({"images": [picture()] * 5}, (422, "UNSUPPORTED_AGENT", False)),
            ({"projectPath": "/"}, outside),
            ({"projectPath": f"{self.project}/../.."}, outside),
            ({"projectPath": f"{self.project}/none"}, (404, "VALIDATION_FAILED", False)),
            ({"apiProviderId": "p"}, (422, "VALIDATION_FAILED", False)),
            ({"parentChatId": UNKNOWN_CHAT}, (404, "SESSION_NOT_FOUND", False)),
        ]
        for client, executor_id in self.everywhere():
            for change, wanted in mistakes:
                body = {**client.start_body(executor_id, self.project, "say no"), **change}
                if client is self.gateway and change == {"executorId": "elsewhere"}:
                    continue  # the gateway itself refuses that envelope
                self.assertEqual(client.refused(operations.START_CHAT, body), wanted, change)
            self.assertEqual(client.chats(), [])

    def test_runs(self) -> None:
        """In the order of chats.md 3.5, and the transcript is untouched."""
        for client, executor_id in self.everywhere():
            chat, view, _ = self.begun(client, executor_id, "say one")
            last = client.messages(chat).last_ordinal
            stale = (409, "STALE_TRANSCRIPT_VIEW", False)
            mistakes: list[tuple[dict[str, Any], tuple[int, str, bool]]] = [
                ({"chatId": UNKNOWN_CHAT}, (404, "SESSION_NOT_FOUND", False)),
                ({"transcriptViewId": str(uuid4()), "expectedAgentId": "other"}, stale),
                ({"command": " \n"}, INVALID),
                ({"excludedResendOrdinals": [0]}, INVALID),
                ({"permissionMode": "sometimes"}, INVALID),
                ({"thinkingMode": "think"}, INVALID),
                ({"modelProtocol": "anthropic-messages"}, INVALID),
                ({"model": "scripted", "modelEndpointId": "e"}, INVALID),
                ({"model": ""}, INVALID),
                ({"tagsToAdd": "x"}, INVALID),
                ({"permissionFallbackPolicy": "no"}, INVALID),
                ({"handoff": {}}, INVALID),
                ({"parentChat": None}, INVALID),
                ({"images": [picture()] * 6}, INVALID),
                ({"expectedAgentId": "other"}, (409, "EXPECTED_AGENT_MISMATCH", False)),
                ({"images": [picture()]}, (422, "UNSUPPORTED_AGENT", False)),
                (
                    {"agentSettings": {"ownerId": "other", "schemaVersion": 1, "values": {}}},
                    INVALID,
                ),
                (
                    {"expectedAgentOwnershipEpoch": "old"},
                    (409, "STALE_CHAT_OWNERSHIP", False),
                ),
            ]
            for change, wanted in mistakes:
                body = {**client.run_body(view, chat, "say no"), **change}
                self.assertEqual(client.refused(operations.RUN_CHAT, body), wanted, change)
            self.assertEqual(client.messages(chat).last_ordinal, last)

    def test_reads(self) -> None:
        """Queries at and beyond their limits (chats.md 3.21 to 3.23)."""
        for client, executor_id in self.everywhere():
            chat, view, receipt = self.begun(client, executor_id, "say one")
            missing = (404, "SESSION_NOT_FOUND", False)
            pages: list[tuple[dict[str, Any], tuple[int, str, bool]]] = [
                ({}, INVALID),
                ({"chatId": "anything"}, missing),
                ({"chatId": chat, "limit": "0"}, INVALID),
                ({"chatId": chat, "limit": "-1"}, INVALID),
                ({"chatId": chat, "limit": "x"}, INVALID),
                ({"chatId": chat, "beforeOrdinal": "2"}, INVALID),
                ({"chatId": chat, "beforeOrdinal": "0", "transcriptViewId": view}, INVALID),
                ({"chatId": chat, "purpose": "fun"}, INVALID),
                (
                    {"chatId": chat, "purpose": "activation", "beforeOrdinal": "2"}
                    | {"transcriptViewId": view},
                    INVALID,
                ),
                (
                    {"chatId": chat, "transcriptViewId": str(uuid4())},
                    (409, "STALE_TRANSCRIPT_VIEW", False),
                ),
            ]
            for query, wanted in pages:
                self.assertEqual(client.refused(operations.MESSAGES, query=query), wanted, query)
            client.messages(chat, limit=201)
            client.messages(chat, limit=10**18)
            client.messages(chat, limit=20, beforeOrdinal=10**6, transcriptViewId=view)
            client.messages(chat, limit=20, beforeOrdinal=1, transcriptViewId=view)
            client.messages(chat, purpose="activation")
            snapshots: list[tuple[dict[str, Any], tuple[int, str, bool]]] = [
                ({}, INVALID),
                ({"chatId": "anything"}, INVALID),
                ({"chatId": UNKNOWN_CHAT}, missing),
                ({"chatId": chat, "limit": "201"}, INVALID),
                ({"chatId": chat, "limit": "1.0"}, INVALID),
                ({"chatId": chat, "limit": ""}, INVALID),
            ]
            for query, wanted in snapshots:
                self.assertEqual(client.refused(operations.SNAPSHOT, query=query), wanted, query)
            turn = receipt.turn_id
            receipts: list[tuple[dict[str, Any], tuple[int, str, bool]]] = [
                ({"chatId": chat}, INVALID),
                ({"chatId": " ", "turnId": turn}, INVALID),
                ({"chatId": "x", "turnId": turn}, (404, "TURN_RECEIPT_NOT_FOUND", False)),
            ]
            for query, wanted in receipts:
                found = client.refused(operations.TURN_RECEIPT, query=query)
                self.assertEqual(found, wanted, query)

    def test_names(self) -> None:
        """4 KiB of title, counted once trimmed; a second line is no part of the shown title."""
        for client, executor_id in self.everywhere():
            chat, _, _ = self.begun(client, executor_id, "say one")
            longest = "é" * 2048
            for title, changed in ((f" {longest} ", True), (longest, False), ("one\ntwo", True)):
                body = {"chatId": chat, "title": title}
                named = client.asked(operations.SESSION_NAME, body)
                self.assertEqual((named.title, named.changed), (title.strip(), changed))
            self.assertEqual(client.snapshot(chat, 0).chat.title, "one")
            for body in ({"chatId": chat, "title": longest + "x"}, {"chatId": chat, "title": " "}):
                self.assertEqual(client.refused(operations.SESSION_NAME, body), INVALID)
            self.assertEqual(
                client.refused(operations.SESSION_NAME, {"chatId": "x", "title": "t"}),
                (404, "SESSION_NOT_FOUND", False),
            )


class Limits(StrictTestCase):
    """The largest that is taken."""

    def test_identities_and_presentations(self) -> None:
        """256 bytes of identity, the last chat id, and a presentation that readers see."""
        shown = {
            "presentation": {
                "style": "custom",
                "customStyle": {"lightAccent": "#00ff00", "darkAccent": "#000000"},
            },
            "title": "t" * 120,
            "bodyDisclosure": "collapsed",
        }
        chat_ids = iter(
            ("9007199254740991", "0000000000001000", "9007199254740990", "0000000000001001")
        )
        for client, executor_id in self.everywhere():
            number = client.request_id()[:4]
            chat, _, _ = self.begun(
                client,
                executor_id,
                "say one",
                chatId=next(chat_ids),
                clientRequestId=(number + "é" * 126),
                clientMessageId=(number + "é" * 126),
                userMessagePresentation=shown,
            )
            said = client.ask(operations.MESSAGES, query={"chatId": chat})
            message = said.json["messages"][0]["message"]
            self.assertEqual(message["presentation"], shown)
            self.assertEqual(message["content"], "say one")


class Others(StrictTestCase):
    """Catalogs, settings, preambles, and the envelope of HTTP itself."""

    def test_catalogs_settings_preambles(self) -> None:
        """Every key of control.md A.2, C.2 and D.1, for each executor."""
        for client, executor_id in self.everywhere():
            query = {"executorId": executor_id}
            catalog = client.asked(operations.MODELS, query=query).catalog
            one = client.asked(operations.MODELS, query={**query, "agent": "scripted"}).catalog
            self.assertEqual([agent.id for agent in one.agents], ["scripted"])
            for agent in catalog.agents:
                self.assertEqual(agent.default_settings.owner_id, agent.id)
                self.assertIn(agent.default_model, [model.value for model in agent.models])
            said = client.ask(operations.MODELS, query={**query, "agent": "nobody"})
            self.assertEqual(refusal(said), (400, "UNSUPPORTED_AGENT", False))
            self.assertIn("nobody", said.json["error"])
            self.assertIn("scripted", said.json["error"])
            absent = client.refused(operations.MODELS, query={"executorId": str(uuid4())})
            self.assertEqual(absent[:2], (404, "EXECUTOR_NOT_FOUND"))
            settings = client.asked(operations.READ_SETTINGS)
            self.assertEqual(settings.project_base_path, str(self.fleet.projects))
            patch = {"features": {"transcriptSearch": {"enabled": False}}}
            changed = client.asked(operations.CHANGE_SETTINGS, patch)
            self.assertEqual((changed.success, changed.settings), (True, settings))
            preambles = client.asked(operations.LIST_PREAMBLES)
            self.assertEqual((preambles.revision, preambles.preambles), (0, []))
            self.assertEqual(client.asked(operations.CLI_CONTEXT).server_instance_id, self.instance)

    def test_what_is_not_listed_is_plain_text(self) -> None:
        """404 ``Not found`` for unknown paths, other methods and trailing slashes; no redirect."""
        for method, path in (
            ("GET", "/api/v1/none"),
            ("GET", "/api/v1/chats/"),
            ("PATCH", "/api/v1/chats"),
            ("POST", "/api/v1/chats/snapshot"),
            ("POST", "/api/v1/chats/goal-control"),
            ("GET", "/api/v1/chats/1700000000000000"),
        ):
            said = self.direct.send(method, path)
            self.assertEqual((said.status, said.body), (404, b"Not found"), path)
            self.assertTrue(said.headers["content-type"].startswith("text/plain"), path)

    def test_bodies(self) -> None:
        """Other types and nothing are ``{}``; broken JSON and other values are refused."""
        target = operations.STOP_CHAT.route.path
        for body, headers in (
            (b"{", {}),
            (b"[]", {}),
            (b"\xff", {}),
            (b'"x"', {"Content-Type": "APPLICATION/JSON; charset=utf-8"}),
            (b"{}", {"Content-Type": "text/plain"}),
            (b"", {}),
        ):
            said = self.direct.send("POST", target, body, headers)
            self.assertEqual(refusal(said), INVALID, (body, headers))

    def test_answers_that_are_never_stored(self) -> None:
        """Whatever is said of snapshots, receipts and the proof, it is not to be kept."""
        for path in (
            *("/chats/snapshot", "/chats/snapshot?chatId=%ff", "/chats/turn-receipt"),
            *("/chats/turn-receipt?chatId=1&turnId=2", "/runtime", "/runtime?challenge=x"),
        ):
            for headers in ({}, {"Host": "elsewhere"}, {"X-Garcon-Server-Instance": "old"}):
                said = self.direct.send("GET", f"/api/v1{path}", headers=headers)
                self.assertGreaterEqual(said.status, 400)
                self.assertEqual(said.headers.get("cache-control"), "no-store", (path, headers))

    def test_larger_answers_may_be_coded(self) -> None:
        """From 1024 bytes on, when it is offered."""
        said = self.direct.send(
            "GET", operations.READ_SETTINGS.route.path, headers={"Accept-Encoding": "br, gzip"}
        )
        self.assertEqual(said.headers.get("content-encoding"), "gzip")
        check_times(json.loads(self.direct.send("GET", operations.LIST_CHATS.route.path).body))


def picture() -> dict[str, str]:
    """An attachment that is in order."""
    return {"data": f"data:image/png;base64,{base64.b64encode(b'x').decode()}"}
