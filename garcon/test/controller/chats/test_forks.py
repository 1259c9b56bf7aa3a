"""Forks without a turn (chats.md 3.6, 5.8)."""

from __future__ import annotations

from typing import Any

from garcon.contract import operations
from garcon.contract.events import ListRefreshRequested
from garcon.store.interfaces import IStore
from garcon.store.sqlite import SqliteStore
from garcon.test.controller.chats.cast import CHAT, ChatsTestCase, Said
from garcon.testing.inline_threads import InlinePool, InlineReactor
from garcon.testing.memory_store import MemoryStore

FORK, SECOND = "1767323045000777", "1767323045000778"


class ForksTestCase(ChatsTestCase):
    """A chat with one answered turn, on a store of its own kind."""

    def setUp(self) -> None:
        super().setUp()
        self.view = self.started(tags=["a"], permissionMode="acceptEdits")

    def fork(self, **more: Any) -> Said:
        """Fork the chat."""
        return self.asked(operations.FORK, {"sourceChatId": CHAT, "chatId": FORK} | more)

    def made_body(self, **more: Any) -> dict[str, Any]:
        """Return a command that makes a chat and runs it."""
        body = {
            "clientRequestId": self.request_id(),
            "clientMessageId": "m-fork",
            "sourceChatId": CHAT,
            "chatId": FORK,
            "command": "go on",
        }
        return body | more

    def texts(self, chat_id: str = FORK) -> list[tuple[int, str, Any]]:
        return self.kinds(chat_id)


class ForkTests(ForksTestCase):
    """Without a turn."""

    def test_the_target_has_the_sources_choices_and_conversation(self) -> None:
        """Its own epoch, a numbered title, on top of the list; no session and no run end."""
        source = self.listed()[0]
        answer = self.fork()
        self.assertEqual((answer.status, answer.body["success"]), (200, True))
        chat = answer.body["chat"]
        for same in (
            "agentId",
            "model",
            "permissionMode",
            "thinkingMode",
            "agentSettings",
            "tags",
            "projectPath",
            "executorId",
        ):
            self.assertEqual(chat[same], source[same], same)
        self.assertNotEqual(chat["agentOwnershipEpoch"], source["agentOwnershipEpoch"])
        self.assertEqual((chat["title"], chat["isProcessing"]), ("hello (1)", False))
        self.assertEqual(chat["preview"], {"firstMessage": "hello", "lastMessage": "hi"})
        self.assertEqual(
            chat["parentChat"],
            {"chatId": CHAT, "relation": "fork", "transcriptViewId": self.view, "ordinal": 4},
        )
        self.assertEqual([one["id"] for one in self.listed()], [FORK, CHAT])
        self.assertEqual(
            self.texts(), [(1, "user-message", "hello"), (2, "assistant-message", "hi")]
        )
        page = self.messages(FORK).body
        self.assertEqual((page["lastOrdinal"], page["resendCandidates"]), (2, []))
        self.assertNotEqual(page["transcriptViewId"], self.view)

    def test_forks_are_counted_over_restarts(self) -> None:
        """From one on, each source for itself."""
        self.fork()
        self.restart()
        answer = self.fork(chatId=SECOND)
        self.assertEqual(answer.body["chat"]["title"], "hello (2)")
        again = self.fork(sourceChatId=SECOND, chatId="1767323045000779")
        self.assertEqual(again.body["chat"]["title"], "hello (2) (1)")

    def test_a_fork_up_to_a_row(self) -> None:
        """That row included, with the activity of what was copied."""
        self.run_chat(self.view)
        self.local.last.say("later")
        self.local.last.finish()
        answer = self.fork(upToOrdinal=3, transcriptViewId=self.view)
        self.assertEqual(
            self.texts(), [(1, "user-message", "hello"), (2, "assistant-message", "hi")]
        )
        self.assertEqual(answer.body["chat"]["preview"]["lastMessage"], "hi")
        self.assertEqual(answer.body["chat"]["parentChat"]["ordinal"], 3)

    def test_what_is_not_copied(self) -> None:
        """Errors, notices, chat rows and permissions stay where they were said."""
        self.run_chat(self.view)
        self.local.last.ask("occurrence")
        body = {
            "clientRequestId": "r",
            "clientMessageId": "row",
            "chatId": CHAT,
            "transcriptViewId": self.view,
            "type": "notice",
            "content": "aside",
        }
        self.assertEqual(self.asked(operations.ADD_ROW, body).status, 200)
        self.local.last.fail("broken")
        self.fork()
        self.assertEqual(
            [kind for _, kind, _ in self.texts()],
            ["user-message", "assistant-message", "user-message"],
        )

    def test_a_fork_of_a_running_chat(self) -> None:
        """Is made of what is there; the source never shows as changed (5.4)."""
        self.run_chat(self.view, command="parent")
        self.told.clear()
        self.assertEqual(self.fork().status, 200)
        self.assertEqual(self.phase(), "running")
        (event,) = self.told
        assert isinstance(event, ListRefreshRequested)
        self.assertEqual((event.chat_id, event.reason), (FORK, "chat-added"))
        fork_view = self.messages(FORK).body["transcriptViewId"]
        candidates = self.messages(FORK).body["resendCandidates"]
        self.assertEqual([one["content"] for one in candidates], ["parent"])
        self.run_chat(fork_view, chatId=FORK, command="child")
        self.assertEqual(self.local.last.launch.prompt, "parent\n\nchild")
        history = [(one.role, one.content) for one in self.local.last.launch.history]
        self.assertEqual(history, [("user", "hello"), ("assistant", "hi")])
        self.assertIsNone(self.local.last.launch.agent_session_id)

    def test_source_and_target_are_independent(self) -> None:
        """What is said in one is not in the other, also after a restart."""
        self.fork()
        fork_view = self.messages(FORK).body["transcriptViewId"]
        self.run_chat(self.view, command="here")
        self.run_chat(fork_view, chatId=FORK, command="there")
        self.restart()
        self.assertEqual([text for _, _, text in self.kinds()], ["hello", "hi", "here"])
        self.assertEqual([text for _, _, text in self.texts()], ["hello", "hi", "there"])

    def test_what_is_refused(self) -> None:
        """Each by its code, and nothing is made."""
        for change, failure in (
            ({"sourceChatId": SECOND}, (404, "SESSION_NOT_FOUND", False)),
            ({"chatId": CHAT}, (400, "VALIDATION_FAILED", False)),
            ({"chatId": "17"}, (400, "VALIDATION_FAILED", False)),
            ({"upToOrdinal": 1}, (400, "VALIDATION_FAILED", False)),
            ({"transcriptViewId": self.view}, (400, "VALIDATION_FAILED", False)),
            ({"parentChat": None}, (400, "VALIDATION_FAILED", False)),
            (
                {"upToOrdinal": 0, "transcriptViewId": self.view},
                (400, "VALIDATION_FAILED", False),
            ),
            (
                {"upToOrdinal": 1, "transcriptViewId": "old"},
                (409, "STALE_TRANSCRIPT_VIEW", True),
            ),
            (
                {"upToOrdinal": 5, "transcriptViewId": self.view},
                (422, "TRANSCRIPT_UNAVAILABLE", False),
            ),
        ):
            self.assertEqual(self.fork(**change).failure, failure, change)
        self.assertEqual([one["id"] for one in self.listed()], [CHAT])
        self.fork()
        self.assertEqual(self.fork().failure, (409, "IDEMPOTENCY_CONFLICT", False))
        self.local.agents = []
        self.clock.advance(61)
        answer = self.fork(chatId=SECOND)
        self.assertEqual(answer.failure, (422, "UNSUPPORTED_AGENT", False))

    def test_an_executor_that_is_away(self) -> None:
        """Is not asked for a copy; what runs there needs it."""
        self.executors.states["local"] = "offline"
        self.assertEqual(self.fork().status, 200)
        answer = self.asked(operations.FORK_RUN, self.made_body(chatId=SECOND))
        self.assertEqual(answer.failure, (503, "EXECUTOR_UNAVAILABLE", True))

    def test_a_count_that_is_written_while_a_turn_runs(self) -> None:
        """Neither the fork nor the turn takes back what the other wrote."""
        self.run_chat(self.view)
        self.memory_held(True)
        waiting = self.ask(operations.FORK, {"sourceChatId": CHAT, "chatId": FORK})
        self.local.last.session("another")
        self.memory_held(False)
        self.assertEqual(self.successResultOf(waiting).status, 200)
        self.restart()
        self.assertEqual(self.fork(chatId=SECOND).body["chat"]["title"], "hello (2)")
        found = self.asked(operations.CHAT_DETAILS, query={"chatId": CHAT}).body
        self.assertEqual(found["agentSessionId"], "another")

    def memory_held(self, held: bool) -> None:
        """Hold the store's writes, where it is the double, or let them go."""
        if isinstance(self.store, MemoryStore):
            if held:
                self.store.held = True
            else:
                self.store.release()


class StoreTests(ForksTestCase):
    """Stores that cannot, and the real one."""

    def test_a_store_that_refuses(self) -> None:
        """Nothing is made, and the fork may be tried again."""
        self.memory.refusals = 1
        self.assertEqual(self.fork().status, 500)
        self.assertEqual(self.fork().body["chat"]["title"], "hello (1)")

    def test_a_damaged_source(self) -> None:
        """Cannot be forked."""
        self.memory.damage(self.view, 2)
        self.assertEqual(self.fork().failure, (422, "TRANSCRIPT_UNAVAILABLE", False))
        self.assertEqual([one["id"] for one in self.listed()], [CHAT])


class SqliteForkTests(ForkTests):
    """The same over the real store."""

    def make_store(self) -> IStore:
        return SqliteStore(self.mktemp(), InlineReactor(), InlinePool())
