"""Conversations that are copied in pieces (chats.md 5.8): what is not whole is no chat."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from garcon.contract import operations
from garcon.controller.transcripts.pieces import ROWS
from garcon.store.records import AppendRows
from garcon.test.controller.chats.cast import CHAT, ChatsTestCase
from garcon.test.controller.chats.test_forks import FORK


class PiecesTests(ChatsTestCase):
    """A chat of three pieces."""

    def setUp(self) -> None:
        super().setUp()
        self.view = self.started()
        self.run_chat(self.view, command="count")
        for number in range(2 * ROWS):
            self.local.last.say(f"{number}")
        self.local.last.finish()
        self.told.clear()
        self.sizes: list[int] = []
        """How many rows each commit has had since."""
        self.holds_at = 0
        """The commit, counted from one, with which the store begins to hold them."""
        write = self.memory.write

        def counted(changes: Any) -> Deferred[None]:
            rows = [len(one.rows) for one in changes if isinstance(one, AppendRows)]
            self.sizes.append(sum(rows))
            if len(self.sizes) == self.holds_at:
                self.memory.held = True
            return write(changes)

        self.patch(self.memory, "write", counted)

    def fork(self, **more: Any) -> Deferred[Any]:
        return self.ask(operations.FORK, {"sourceChatId": CHAT, "chatId": FORK} | more)

    def texts(self) -> list[str]:
        """What was said in the fork, all of it."""
        found: list[str] = []
        more: dict[str, Any] = {}
        while True:
            page = self.messages(FORK, limit=200, **more).body
            found[:0] = [one["message"]["content"] for one in page["messages"]]
            if page["nextBeforeOrdinal"] is None:
                return found
            more = {
                "beforeOrdinal": page["nextBeforeOrdinal"],
                "transcriptViewId": page["transcriptViewId"],
            }

    def test_no_commit_has_more_than_a_piece(self) -> None:
        """And together they have every row, in its order."""
        self.assertEqual(self.successResultOf(self.fork()).status, 200)
        self.assertEqual((len(self.sizes), sum(self.sizes)), (3, 2 * ROWS + 3))
        self.assertLessEqual(max(self.sizes), ROWS)
        said = ["hello", "hi", "count", *(f"{number}" for number in range(2 * ROWS))]
        self.assertEqual(self.texts(), said)
        self.restart()
        self.assertEqual(self.texts(), said)

    def test_others_commit_in_between(self) -> None:
        """Nobody waits for more than a piece."""
        self.holds_at = 2
        forking = self.fork()
        self.assertNoResult(forking)
        marking = self.ask(operations.MARK_READ, {"entries": [{"chatId": CHAT}]})
        self.memory.release()
        self.successResultOf(marking)
        self.successResultOf(forking)
        self.assertEqual([size > 0 for size in self.sizes], [True, True, False, True])

    def test_what_is_not_whole_is_no_chat(self) -> None:
        """It is not listed, cannot be read, and nobody was told of it."""
        self.holds_at = 2
        forking = self.fork()
        self.assertEqual([one["id"] for one in self.listed()], [CHAT])
        self.assertEqual(self.messages(FORK).code, "SESSION_NOT_FOUND")
        self.assertEqual(self.told, [])
        self.memory.release()
        self.assertEqual(self.successResultOf(forking).status, 200)
        self.assertEqual([one["id"] for one in self.listed()], [FORK, CHAT])

    def test_a_crash_between_two_pieces(self) -> None:
        """Leaves no chat, nothing in the store, and the source as it was."""
        self.holds_at = 2
        self.fork()
        self.memory.held = False
        self.restart()
        self.assertEqual([one["id"] for one in self.listed()], [CHAT])
        stored = self.successResultOf(self.memory.load())
        self.assertEqual([one.record.chat_id for one in stored], [CHAT])
        answer = self.successResultOf(self.fork())
        self.assertEqual(answer.body["chat"]["title"], "hello (1)")

    def test_a_store_that_refuses_a_later_piece(self) -> None:
        """Is left with nothing of the fork, which can be tried again."""
        write = self.memory.write

        def refusing(changes: Any) -> Deferred[None]:
            self.memory.refusals = 1 if len(self.sizes) == 1 else 0
            return write(changes)

        self.patch(self.memory, "write", refusing)
        self.assertEqual(self.successResultOf(self.fork()).status, 500)
        stored = self.successResultOf(self.memory.load())
        self.assertEqual([one.record.chat_id for one in stored], [CHAT])
        answer = self.successResultOf(self.fork())
        self.assertEqual(answer.body["chat"]["title"], "hello (1)")

    def test_damage_that_a_later_piece_meets(self) -> None:
        """Fences the source, and leaves nothing of the fork."""
        self.memory.damage(self.view, 2 * ROWS)
        answer = self.successResultOf(self.fork())
        self.assertEqual(answer.failure, (422, "TRANSCRIPT_UNAVAILABLE", False))
        stored = self.successResultOf(self.memory.load())
        self.assertEqual([one.record.chat_id for one in stored], [CHAT])
