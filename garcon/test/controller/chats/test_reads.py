"""Read marks (chats.md 3.27, 5.14)."""

from __future__ import annotations

from typing import Any

from garcon.contract import operations
from garcon.contract.events import ReadUpdated
from garcon.test.controller.chats.cast import CHAT, OTHER, ChatsTestCase

AT = "2026-01-02T03:04:05.000Z"
LATER = "2026-01-02T03:04:06.000Z"


class ReadTests(ChatsTestCase):
    """Two chats that nobody has read."""

    def setUp(self) -> None:
        super().setUp()
        self.started()
        self.started(chatId=OTHER)
        self.told.clear()

    def read(self, *chat_ids: Any) -> list[dict[str, str]]:
        """Mark chats as read."""
        entries = [{"chatId": one, "lastReadAt": "1999"} for one in chat_ids]
        answer = self.asked(operations.MARK_READ, {"entries": entries})
        self.assertEqual((answer.status, answer.body["success"]), (200, True))
        results: list[dict[str, str]] = answer.body["results"]
        return results

    def marks(self) -> dict[str, Any]:
        """Return every chat's mark as lists show it."""
        return {entry["id"]: entry["activity"]["lastReadAt"] for entry in self.listed()}

    def test_a_mark_is_this_controllers_time(self) -> None:
        """Whatever the client says; it is told and lasts."""
        self.assertEqual(self.read(CHAT), [{"chatId": CHAT, "lastReadAt": AT}])
        self.assertEqual(self.marks(), {CHAT: AT, OTHER: None})
        self.assertEqual(self.told, [ReadUpdated(chat_id=CHAT, last_read_at=AT)])
        self.restart()
        self.assertEqual(self.marks(), {CHAT: AT, OTHER: None})

    def test_what_is_read_is_not_unread(self) -> None:
        """Until something is said after that."""
        self.time += 3_600
        unread = {entry["id"]: entry["isUnread"] for entry in self.listed()}
        self.assertEqual(unread, {CHAT: True, OTHER: True})
        self.read(CHAT)
        unread = {entry["id"]: entry["isUnread"] for entry in self.listed()}
        self.assertEqual(unread, {CHAT: False, OTHER: True})
        self.time += 1
        self.run_chat(self.messages().body["transcriptViewId"])
        self.assertTrue({entry["id"]: entry["isUnread"] for entry in self.listed()}[CHAT])

    def test_a_mark_stays_whatever_a_turn_writes(self) -> None:
        """Though the turn's part of the record has waited for its commit since before."""
        view = self.messages().body["transcriptViewId"]
        self.run_chat(view)
        self.memory.held = True
        row = {"type": "notice", "content": "aside", "clientMessageId": "row"}
        row |= {"clientRequestId": "r", "chatId": CHAT, "transcriptViewId": view}
        adding = self.ask(operations.ADD_ROW, row)
        self.local.last.session("another-session")
        marking = self.ask(operations.MARK_READ, {"entries": [{"chatId": CHAT}]})
        self.memory.release()
        self.successResultOf(adding)
        self.successResultOf(marking)
        self.restart()
        self.assertEqual(self.marks(), {CHAT: AT, OTHER: None})
        found = self.asked(operations.CHAT_DETAILS, query={"chatId": CHAT}).body
        self.assertEqual(found["agentSessionId"], "another-session")

    def test_a_mark_never_moves_back(self) -> None:
        """A clock that was set back leaves it, and answers it; nobody is told."""
        self.time += 1
        self.read(CHAT)
        self.time -= 1
        self.assertEqual(
            self.read(CHAT, OTHER),
            [{"chatId": CHAT, "lastReadAt": LATER}, {"chatId": OTHER, "lastReadAt": AT}],
        )
        self.assertEqual(
            self.told,
            [
                ReadUpdated(chat_id=CHAT, last_read_at=LATER),
                ReadUpdated(chat_id=OTHER, last_read_at=AT),
            ],
        )

    def test_what_names_no_chat_is_skipped(self) -> None:
        """Unknown and blank ids, other things; a chat that is named twice counts once."""
        self.assertEqual(self.read("1767000000000009", "", " ", 7, None), [])
        self.assertEqual(len(self.read(CHAT, CHAT)), 1)
        for entries in ([], None, "all", [1], {"chatId": CHAT}):
            answer = self.asked(operations.MARK_READ, {"entries": entries})
            self.assertEqual((answer.status, answer.body["results"]), (200, []), entries)
        self.assertEqual(self.asked(operations.MARK_READ, {}).body["results"], [])

    def test_all_marks_are_one_commit(self) -> None:
        """And they are answered when it is durable, even those that have not moved."""
        writes = self.memory.writes
        self.read(CHAT, OTHER)
        self.assertEqual(self.memory.writes, writes + 1)
        self.memory.held = True
        self.time += 1
        calls = [self.ask(operations.MARK_READ, {"entries": [{"chatId": CHAT}]}) for _ in range(2)]
        for d in calls:
            self.assertNoResult(d)
        self.memory.release()
        for d in calls:
            [mark] = self.successResultOf(d).body["results"]
            self.assertEqual(mark["lastReadAt"], LATER)

    def test_a_store_that_refuses(self) -> None:
        """The marks are where they were."""
        self.memory.refusals = 1
        answer = self.asked(operations.MARK_READ, {"entries": [{"chatId": CHAT}]})
        self.assertEqual(answer.failure, (500, "INTERNAL_ERROR", True))
        self.assertEqual((self.marks()[CHAT], self.told), (None, []))
