"""What a strict client is refused, and how much it may ask: at both endpoints, on both executors
(chats.md 1, 3; control.md A, C, D).
"""

from __future__ import annotations

import base64
import json
from typing import Any
from uuid import uuid4

from garcon.contract import operations
from garcon.test.live.strict import INVALID, StrictTestCase
from garcon.testing.strict_rules import check_times, refusal

UNKNOWN_CHAT = "1700000000000000"


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
                # An agent without models of its own has none before a profile brings some.
                names = [model.value for model in agent.models] or [""]
                self.assertIn(agent.default_model, names)
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
