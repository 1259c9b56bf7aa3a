"""Identities in requests and answers, and how long they may be (chats.md 1.1, 2.1, 2.2, 4.16)."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from garcon.contract import operations
from garcon.contract.ids import is_uuid4
from garcon.contract.limits import CLIENT_ID_BYTES, ENTRY_ID_BYTES
from garcon.test.controller.chats.bodies import requests, start
from garcon.test.controller.chats.cast import CHAT, INSTANCE, OTHER, SETTINGS
from garcon.test.controller.chats.queue_cast import QueueTestCase

UNKNOWN = "1767000000000009"
GONE = (404, "SESSION_NOT_FOUND", False)
INVALID = (400, "VALIDATION_FAILED", False)

LOOKED_UP = {
    *("GET /chats/messages", "GET /chats/details", "GET /chats/queue", "GET /chats/tags"),
    *("POST /chats/pin", "PUT /chats/pin", "POST /chats/archive", "PUT /chats/archive"),
    *("PATCH /chats/tags", "PUT /chats/tags", "POST /chats/reorder"),
    *("PUT /chats/last-selected", "PATCH /chats/model", "PATCH /chats/execution-settings"),
    "PUT /app/session-name",
}
"""Operations that know any text for a chat or do not know it; all others look at its form (2.1)."""
OTHERS = {
    *("POST /chats/start", "GET /chats", "GET /chats/running", "GET /chats/validate-start"),
    *("POST /chats/lookup-native-session", "GET /chats/turn-receipt", "POST /chats/read"),
}
"""Operations that are about no chat that exists, or about many."""


class ChatIdTests(QueueTestCase):
    """Chat ids in requests (2.1)."""

    def test_every_operation_is_of_one_kind(self) -> None:
        """None is forgotten here."""
        keys = {
            one.route.key
            for one in operations.OPERATIONS
            if one.route.path.startswith("/api/v1/chats")
        }
        named = set(requests(CHAT, OTHER))
        self.assertEqual(named | OTHERS, keys | {"PUT /app/session-name"})
        self.assertEqual(LOOKED_UP - named, set())

    def test_what_is_no_chat_id(self) -> None:
        """400 where its form is looked at, 404 where it is only looked up; never a chat."""
        for wrong in ("nobody", "1767000000", "1767000000000", "9007199254740992"):
            for key, (operation, body, query) in requests(wrong, OTHER).items():
                answer = self.asked(operation, body, query)
                self.assertEqual(answer.failure, GONE if key in LOOKED_UP else INVALID, key)
            self.assertEqual(
                self.asked(operations.START_CHAT, start(wrong, f"{self.base}/p")).failure, INVALID
            )

    def test_the_chat_that_is_made_has_one_too(self) -> None:
        """Of a fork, a fork-run and a continuation; and it is another than its source."""
        for made in ("nobody", "9007199254740992", CHAT):
            for key in ("POST /chats/fork", "POST /chats/fork-run", "POST /chats/handoff-run"):
                operation, body, _ = requests(CHAT, made)[key]
                self.assertEqual(self.asked(operation, body).failure, INVALID, (key, made))
        self.assertEqual(len(self.listed()), 1)

    def test_marks_skip_what_they_do_not_know(self) -> None:
        """Whatever it looks like (3.27)."""
        entries = [{"chatId": "nobody"}, {"chatId": UNKNOWN}, {"chatId": " "}]
        answer = self.asked(operations.MARK_READ, {"entries": entries})
        self.assertEqual(answer.body, {"success": True, "results": []})


class ClientIdTests(QueueTestCase):
    """Identities that clients make (1.1, 2.2)."""

    def assert_bounded(self, name: str, most: int) -> None:
        """So many bytes are taken, and one more is not, by every operation that has the member."""
        met = 0
        for key, (operation, body, _) in requests(UNKNOWN, OTHER).items():
            if name not in body:
                continue
            met += 1
            for text, failure in (
                ("é" * (most // 2), GONE),
                (f"  {'x' * most} ", GONE),
                ("é" * (most // 2) + "x", INVALID),
                (" ", INVALID),
                (7, INVALID),
            ):
                answer = self.asked(operation, body | {name: text})
                self.assertEqual(answer.failure, failure, (key, name))
        self.assertGreater(met, 0)

    def test_request_ids_have_up_to_256_bytes(self) -> None:
        """Once trimmed, in UTF-8."""
        self.assert_bounded("clientRequestId", CLIENT_ID_BYTES)
        self.assertEqual(CLIENT_ID_BYTES, 256)

    def test_message_ids_have_up_to_256_bytes(self) -> None:
        """Once trimmed, in UTF-8."""
        self.assert_bounded("clientMessageId", CLIENT_ID_BYTES)

    def test_entry_ids_have_up_to_128_bytes(self) -> None:
        """Both that a move has."""
        self.assert_bounded("entryId", ENTRY_ID_BYTES)
        self.assert_bounded("targetEntryId", ENTRY_ID_BYTES)
        self.assertEqual(ENTRY_ID_BYTES, 128)

    def test_a_start_has_them_too(self) -> None:
        """And with the longest it begins."""
        for name in ("clientRequestId", "clientMessageId"):
            body = start(OTHER, f"{self.base}/p") | {name: "x" * (CLIENT_ID_BYTES + 1)}
            self.assertEqual(self.asked(operations.START_CHAT, body).failure, INVALID)
        longest = "x" * CLIENT_ID_BYTES
        answer = self.start(chatId=OTHER, clientRequestId=longest, clientMessageId=longest)
        self.assertEqual((answer.status, answer.body["clientRequestId"]), (202, longest))

    def test_they_are_trimmed(self) -> None:
        """An id with blanks around it is the same id."""
        body = self.run_body(self.view, clientRequestId=" r ", chatId=f" {CHAT} ")
        self.assertEqual(self.asked(operations.RUN_CHAT, body).body["clientRequestId"], "r")
        again = self.asked(operations.RUN_CHAT, body | {"clientRequestId": "r", "chatId": CHAT})
        self.assertEqual(again.body["status"], "duplicate")


class ServerIdTests(QueueTestCase):
    """Identities that the server makes (2.2)."""

    def test_they_are_uuids(self) -> None:
        """Turns, views, epochs, entries and pauses."""
        turn = self.run_chat(self.view).body["turnId"]
        entry = self.queued()
        pause = self.pause()
        snapshot = self.snapshot().body
        made = (turn, entry, pause, self.view, snapshot["chat"]["agentOwnershipEpoch"])
        for one in made:
            self.assertEqual(str(UUID(one)), one)
        self.assertTrue(is_uuid4(turn))
        self.assertEqual(len(set(made)), len(made))
        self.assertEqual(snapshot["control"]["serverInstanceId"], INSTANCE)

    def test_a_run_is_named_as_its_turn(self) -> None:
        """In what its executor is told and in what is asked of users."""
        turn = self.run_chat(self.view).body["turnId"]
        self.local.last.ask("one")
        [row] = self.snapshot().body["transientFeed"]["rows"]
        self.assertEqual((self.local.last.launch.run_id, row["runId"]), (turn, turn))

    def test_nothing_is_archived(self) -> None:
        """This layout has no archive, so its revision is the one of none."""
        self.assertEqual(self.snapshot().body["chat"]["carryOverRevision"], "carry-v1:0")
        details = self.asked(operations.CHAT_DETAILS, query={"chatId": CHAT}).body
        archive = {"revision": "carry-v1:0", "archivedMessageCount": 0, "segments": []}
        self.assertEqual(details["carryOver"], archive)


class SettingsEnvelopeTests(QueueTestCase):
    """Agent settings say whose they are (4.16)."""

    def test_a_malformed_envelope(self) -> None:
        """No owner, no version, no object: 400, wherever there is one."""
        epoch = self.listed()[0]["agentOwnershipEpoch"]
        wrong: tuple[Any, ...] = (
            SETTINGS | {"ownerId": " "},
            SETTINGS | {"ownerId": "other"},
            SETTINGS | {"schemaVersion": 0},
            SETTINGS | {"schemaVersion": "1"},
            SETTINGS | {"values": []},
            {"ownerId": "scripted", "values": {}},
            [],
            None,
        )
        every = requests(CHAT, OTHER)
        for settings in wrong:
            run = self.run_body(self.view, agentSettings=settings)
            self.assertEqual(self.asked(operations.RUN_CHAT, run).failure, INVALID, settings)
            body = every[operations.FORK_RUN.route.key][1] | {"agentSettings": settings}
            self.assertEqual(self.asked(operations.FORK_RUN, body).failure, INVALID, settings)
            body = start(OTHER, f"{self.base}/p") | {"agentSettings": settings}
            self.assertEqual(self.asked(operations.START_CHAT, body).failure, INVALID, settings)
            if settings is not None:
                target = {"agentId": "third", "model": "m", "agentSettings": settings}
                handoff = {"expectedAgentOwnershipEpoch": epoch, "target": target}
                run = self.run_body(self.view, handoff=handoff)
                self.assertEqual(self.asked(operations.RUN_CHAT, run).failure, INVALID, settings)
        self.assertEqual(len(self.listed()), 1)

    def test_its_values_go_to_the_agent(self) -> None:
        """As they are, and nothing of them is judged here."""
        values = {"a": [1.5, None, {"b": True}]}
        self.run_chat(self.view, agentSettings=SETTINGS | {"values": values})
        self.assertEqual(self.local.last.launch.agent_settings.values, values)
