"""What runs, details of one chat, and whose a native session is (chats.md 3.33, 3.34; control.md
I.3).
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import fail

from garcon.contract import operations
from garcon.errors import GarconError
from garcon.test.controller.chats.cast import CHAT, OTHER, WORKER, ChatsTestCase
from garcon.testing.fake_runtime import agent_entry

UNKNOWN = "1767000000000009"
GONE = (404, "SESSION_NOT_FOUND", False)
INVALID = (400, "VALIDATION_FAILED", False)


class RunningTests(ChatsTestCase):
    """`GET /chats/running`."""

    def running(self) -> dict[str, Any]:
        """Ask what runs."""
        sessions: dict[str, Any] = self.asked(operations.RUNNING_CHATS).body["sessions"]
        return sessions

    def test_every_known_agent_has_a_key(self) -> None:
        """Local's agents, and those that chats elsewhere have."""
        self.local.agents.append(agent_entry("another"))
        self.assertEqual(self.running(), {"another": [], "scripted": []})
        self.worker.agents = [agent_entry("foreign")]
        settings = {"ownerId": "foreign", "schemaVersion": 1, "values": {}}
        self.start(executorId=WORKER, agentId="foreign", model="foreign", agentSettings=settings)
        self.assertEqual(
            self.running(),
            {"another": [], "foreign": [{"id": CHAT, "status": "running"}], "scripted": []},
        )

    def test_idle_chats_are_not_there(self) -> None:
        """What stops still runs."""
        self.started(chatId=OTHER)
        self.start()
        self.assertEqual(self.running(), {"scripted": [{"id": CHAT, "status": "running"}]})
        self.local.holds_aborts = True
        self.stop()
        self.assertEqual(len(self.running()["scripted"]), 1)
        self.local.last.interrupted()
        self.assertEqual(self.running(), {"scripted": []})

    def test_without_a_catalog_what_runs_is_still_told(self) -> None:
        """Its agent is known by the chat."""
        self.start()
        self.local.reads.append(fail(GarconError("INTERNAL_ERROR", "no", status=500)))
        self.assertEqual(len(self.running()["scripted"]), 1)


class DetailsTests(ChatsTestCase):
    """`GET /chats/details`."""

    def test_details(self) -> None:
        """Everything there is to say, and nothing of an archive."""
        self.started(command="first\nsecond")
        answer = self.asked(operations.CHAT_DETAILS, query={"chatId": CHAT})
        self.assertEqual(
            answer.body,
            {
                "chatId": CHAT,
                "executorId": "local",
                "firstMessage": "first",
                "createdAt": "2026-01-02T03:04:05.000Z",
                "lastActivityAt": "2026-01-02T03:04:05.678Z",
                "agentSessionId": "agent-session",
                "transcriptSource": None,
                "carryOver": {
                    "revision": "carry-v1:0",
                    "archivedMessageCount": 0,
                    "segments": [],
                },
            },
        )

    def test_a_chat_without_a_session(self) -> None:
        """It has none to name."""
        self.start()
        answer = self.asked(operations.CHAT_DETAILS, query={"chatId": CHAT})
        self.assertIsNone(answer.body["agentSessionId"])

    def test_malformed_and_unknown(self) -> None:
        """400 without an id, 404 for any that is not there."""
        self.assertEqual(self.asked(operations.CHAT_DETAILS).failure, INVALID)
        for chat_id in (UNKNOWN, "what"):
            answer = self.asked(operations.CHAT_DETAILS, query={"chatId": chat_id})
            self.assertEqual(answer.failure, GONE)


class NativeSessionTests(ChatsTestCase):
    """`POST /chats/lookup-native-session`."""

    def setUp(self) -> None:
        super().setUp()
        self.started()
        self.started(chatId=OTHER, executorId=WORKER)

    def found(self, **body: Any) -> list[dict[str, str]]:
        """Look a session up."""
        wanted = {"nativeSessionId": "agent-session"} | body
        answer = self.asked(operations.LOOKUP_NATIVE_SESSION, wanted)
        self.assertEqual((answer.status, answer.body["success"]), (200, True))
        matches: list[dict[str, str]] = answer.body["matches"]
        return matches

    def test_one_id_on_two_executors_is_two_sessions(self) -> None:
        """Absent means Local, as everywhere."""
        here = {"chatId": CHAT, "executorId": "local", "agentId": "scripted"}
        self.assertEqual(self.found(), [here])
        self.assertEqual(self.found(executorId=None), [here])
        there = {"chatId": OTHER, "executorId": WORKER, "agentId": "scripted"}
        self.assertEqual(self.found(executorId=WORKER), [there])

    def test_agents_are_told_apart(self) -> None:
        """Where one is named."""
        self.assertEqual(len(self.found(agentId="scripted")), 1)
        self.assertEqual(self.found(agentId="claude"), [])

    def test_none_and_many(self) -> None:
        """Whatever there is."""
        self.assertEqual(self.found(nativeSessionId="another"), [])
        self.started(chatId=UNKNOWN)
        self.assertEqual({one["chatId"] for one in self.found()}, {CHAT, UNKNOWN})
        self.asked(operations.DELETE_CHAT, {"chatId": CHAT})
        self.assertEqual([one["chatId"] for one in self.found()], [UNKNOWN])

    def test_malformed(self) -> None:
        """The id has to be said, the executor has to be one."""
        for body in (
            {},
            {"nativeSessionId": " "},
            {"nativeSessionId": "x", "executorId": "there"},
            {"nativeSessionId": "x", "agentId": ""},
        ):
            answer = self.asked(operations.LOOKUP_NATIVE_SESSION, body)
            self.assertEqual(answer.failure, INVALID, body)
