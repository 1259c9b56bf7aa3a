"""Commands that are refused, repeated or busy, as clients of others see them (chats.md 2.3, 2.4,
3.4, 3.5, 5.1.3).
"""

from __future__ import annotations

from typing import Any

from garcon.test.live.foreign import CONFLICT, GONE, INVALID, STALE, ForeignCase
from garcon.testing.foreign_client import command, message

UNKNOWN = "1700000000000000"


class CommandTests(ForeignCase):
    """What becomes of a command that is not simply taken."""

    def test_a_busy_chat_refuses_a_run_without_a_trace(self) -> None:
        """409 with its control; no row, no event, no request, also not later (5.1.3)."""
        turn = self.held("one", "gate")
        chat_id = turn["chatId"]
        body = message(chatId=chat_id, transcriptViewId=self.client.view(chat_id), command="two")
        heard = len(self.socket.of(chat_id))
        reply = self.client.ask("POST", "/chats/run", body)
        self.assertEqual((reply.status, reply.json["errorCode"]), (409, "SESSION_BUSY"))
        self.assertTrue(reply.json["retryable"])
        self.assertEqual(reply.json["control"], self.client.control(chat_id))
        self.socket.ping()
        self.assertEqual(len(self.socket.of(chat_id)), heard)
        self.providers[0].model.release("gate")
        self.ended(turn)
        self.assertEqual(
            self.client.said(chat_id),
            [("user-message", "one"), ("assistant-message", "part")],
        )
        # What was refused so may be asked again by the same name, and is then a command of its own.
        again = self.client.do("POST", "/chats/run", body)
        self.assertEqual(again["status"], "accepted")
        self.assertEqual(self.ended(again)[0], "completed")

    def test_commands_are_known_by_their_names(self) -> None:
        """The same again is a duplicate without effect, another one by its name a conflict, and an
        input's name is its own for good (chats.md 2.3, 2.4).
        """
        model = self.providers[0].model
        body = self.start_body(self.providers[0], "hello")
        first = self.client.do("POST", "/chats/start", body)
        self.ended(first)
        second = self.client.ask("POST", "/chats/start", body)
        self.assertEqual((second.status, second.json["status"]), (202, "duplicate"))
        for name in ("turnId", "acceptedAt", "chatId"):
            self.assertEqual(second.json[name], first[name])
        self.assertEqual(second.json["chat"]["id"], body["chatId"])
        self.assertEqual(
            self.client.refused("POST", "/chats/start", body | {"command": "other"}), CONFLICT
        )
        collision = body | message()
        self.assertEqual(
            self.client.refused("POST", "/chats/start", collision),
            (409, "CHAT_ID_COLLISION", False),
        )
        chat_id = body["chatId"]
        view = self.client.view(chat_id)
        run = message(chatId=chat_id, transcriptViewId=view, command="more")
        turn = self.client.do("POST", "/chats/run", run)
        self.ended(turn)
        self.assertEqual(self.client.do("POST", "/chats/run", run)["turnId"], turn["turnId"])
        other_kind = command(chatId=chat_id) | {"clientRequestId": run["clientRequestId"]}
        self.assertEqual(self.client.refused("POST", "/chats/stop", other_kind), CONFLICT)
        rows, asked = self.client.rows(chat_id), len(model.asked())
        known = run | command()
        self.assertEqual(self.client.do("POST", "/chats/run", known)["status"], "accepted")
        self.assertEqual(
            self.client.refused("POST", "/chats/run", known | command() | {"command": "x"}),
            CONFLICT,
        )
        self.assertEqual((self.client.rows(chat_id), len(model.asked())), (rows, asked))

    def test_a_start_that_is_wrong_is_refused(self) -> None:
        """With the code and status that clients act on; and what is read leniently is not (3.4)."""
        good = self.start_body(self.providers[0], "x")
        nobody = {"ownerId": "nobody", "schemaVersion": 1, "values": {}}
        wrong: list[tuple[dict[str, Any], tuple[int, str, bool]]] = [
            ({"options": {}}, INVALID),
            ({"chatId": "17000000000000"}, INVALID),
            ({"chatId": "9" * 16}, INVALID),
            ({"command": "   "}, INVALID),
            ({"clientRequestId": "x" * 257}, INVALID),
            ({"clientMessageId": " "}, INVALID),
            ({"agentId": "nobody", "agentSettings": nobody}, (400, "UNSUPPORTED_AGENT", False)),
            ({"agentSettings": nobody}, INVALID),
            ({"projectPath": "/"}, (403, "PROJECT_PATH_OUTSIDE_BASE", False)),
            ({"projectPath": f"{self.project}/no"}, (404, "VALIDATION_FAILED", False)),
            ({"modelProtocol": "telepathy"}, INVALID),
            ({"modelEndpointId": None}, (422, "VALIDATION_FAILED", False)),
            ({"apiProviderId": "no_such_one"}, (422, "VALIDATION_FAILED", False)),
            ({"images": [{"data": "no"}]}, INVALID),
        ]
        for change, refusal in wrong:
            self.assertEqual(
                self.client.refused("POST", "/chats/start", good | change), refusal, change
            )
        self.assertEqual(self.client.chats(), [])
        lenient = {"permissionMode": "whatever", "thinkingMode": "ultrathink", "unknown": 1}
        longest = {"clientRequestId": "x" * 256}
        self.ended(self.client.do("POST", "/chats/start", good | lenient | longest))
        entry = self.client.entry(good["chatId"])
        self.assertEqual((entry["permissionMode"], entry["thinkingMode"]), ("default", "max"))

    def test_a_run_that_is_wrong_is_refused(self) -> None:
        """Likewise, and here nothing is read leniently (3.5)."""
        chat_id = self.chat()
        wrong: list[tuple[dict[str, Any], tuple[int, str, bool]]] = [
            ({"transcriptViewId": "other"}, STALE),
            ({"transcriptViewId": ""}, INVALID),
            ({"chatId": UNKNOWN}, GONE),
            ({"command": " "}, INVALID),
            ({"expectedAgentId": "claude"}, (409, "EXPECTED_AGENT_MISMATCH", False)),
            ({"permissionMode": "whatever"}, INVALID),
            ({"permissionMode": "plan"}, (422, "VALIDATION_FAILED", False)),
            ({"thinkingMode": "think"}, INVALID),
            ({"model": ""}, INVALID),
            ({"apiProviderId": self.providers[0].id}, INVALID),
            ({"excludedResendOrdinals": [0]}, INVALID),
            ({"permissionFallbackPolicy": "other"}, INVALID),
        ]
        view = self.client.view(chat_id)
        for change, refusal in wrong:
            body = message(chatId=chat_id, transcriptViewId=view, command="x") | change
            self.assertEqual(self.client.refused("POST", "/chats/run", body), refusal, change)
        self.assertEqual(len(self.client.rows(chat_id)), 2)
        allowed = {"permissionMode": "bypassPermissions", "thinkingMode": "low", "tagsToAdd": ["B"]}
        self.assertEqual(self.ended(self.client.run(chat_id, "x", **allowed))[0], "completed")
        entry = self.client.entry(chat_id)
        self.assertEqual((entry["permissionMode"], entry["tags"]), ("default", ["b"]))

    def test_a_bypass_must_be_asked_for(self) -> None:
        """Where the client says so, unless the run names it itself (3.5)."""
        chat_id = self.chat(permissionMode="bypassPermissions")
        policy = {"permissionFallbackPolicy": "require-explicit-bypass"}
        view = self.client.view(chat_id)
        body = message(chatId=chat_id, transcriptViewId=view, command="x") | policy
        self.assertEqual(
            self.client.refused("POST", "/chats/run", body),
            (422, "EXPLICIT_BYPASS_REQUIRED", False),
        )
        explicit = body | {"permissionMode": "bypassPermissions"}
        self.assertEqual(self.ended(self.client.do("POST", "/chats/run", explicit))[0], "completed")
