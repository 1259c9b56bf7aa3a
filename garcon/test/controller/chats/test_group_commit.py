"""An accepted input costs one durable commit, shared with its neighbours (decisions.md 24)."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from garcon.contract import operations
from garcon.store.interfaces import IStore
from garcon.store.sqlite import SqliteStore
from garcon.test.controller.chats.cast import ChatsTestCase, Said
from garcon.testing.inline_threads import InlinePool, InlineReactor

CLIENTS = 32
CHATS = [f"17670000000000{n:02}" for n in range(CLIENTS)]


class GroupCommitTests(ChatsTestCase):
    """Thirty-two clients, and a store that does its work when the test says."""

    def make_store(self) -> IStore:
        self.pool = InlinePool()
        self.sqlite = SqliteStore(self.mktemp(), InlineReactor(), self.pool)
        self.addCleanup(lambda: self.successResultOf(self.sqlite.close()))
        return self.sqlite

    def hold(self) -> None:
        """Let the store's work wait from now on."""
        self.pool.held = True
        self.before = self.sqlite.commits

    def work_off(self) -> int:
        """Let the store do its work; returns how many commits that were."""
        while len(self.pool):
            self.pool.run_next()
        self.pool.held = False
        return self.sqlite.commits - self.before

    def assert_accepted(self, waiting: list[Deferred[Said]]) -> None:
        answers = [self.successResultOf(d) for d in waiting]
        self.assertEqual([answer.status for answer in answers], [202] * CLIENTS)

    def test_inputs_of_new_chats_share_two_commits(self) -> None:
        """The first does not wait for anybody; those that come meanwhile share the next."""
        self.hold()
        waiting = [self.ask(operations.START_CHAT, self.start_body(chatId=chat)) for chat in CHATS]
        for d in waiting:
            self.assertNoResult(d)
        self.assertEqual(self.work_off(), 2)
        self.assert_accepted(waiting)
        self.restart()
        self.assertEqual(len(self.listed()), CLIENTS)

    def test_inputs_of_chats_that_are_there_share_two_commits(self) -> None:
        """Each is read back by who reads that chat alone, after the process is lost."""
        views = {chat: self.started(chatId=chat) for chat in CHATS}
        self.hold()
        waiting = [
            self.ask(operations.RUN_CHAT, self.run_body(view, chatId=chat, command=f"of {chat}"))
            for chat, view in views.items()
        ]
        for d in waiting:
            self.assertNoResult(d)
        self.assertEqual(self.work_off(), 2)
        self.assert_accepted(waiting)
        self.restart()
        for chat in CHATS:
            self.assertEqual(self.kinds(chat)[-1][2], f"of {chat}")

    def test_what_turns_say_shares_commits_too(self) -> None:
        """Rows and ends of all the turns that run."""
        for chat in CHATS:
            self.start(chatId=chat)
        self.hold()
        for run in self.local.runs:
            run.say("one")
            run.say("two")
            run.finish()
        # Of each turn the first row goes at once, and the rest when that is durable.
        self.assertLessEqual(self.work_off(), 4)
        for chat in CHATS:
            self.assertEqual([text for _, _, text in self.kinds(chat)], ["hello", "one", "two"])
            self.assertIsNone(self.phase(chat))

    def test_one_input_is_one_commit(self) -> None:
        """Alone as well: its row, its chat and what lists show of it are kept together."""
        view = self.started()
        before = self.sqlite.commits
        self.assertEqual(self.run_chat(view).status, 202)
        self.assertEqual(self.sqlite.commits - before, 1)
        before = self.sqlite.commits
        self.assertEqual(self.start(chatId=CHATS[7]).status, 202)
        self.assertEqual(self.sqlite.commits - before, 1)
