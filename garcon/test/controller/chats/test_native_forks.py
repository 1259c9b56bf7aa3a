"""Forks that go on in a fork of their parent's agent session (chats.md 5.8.3)."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from garcon.contract import operations
from garcon.contract.catalogs import NativeForking
from garcon.contract.messages import BashToolUse
from garcon.contract.runs import ForkPoint, RowProduced, RunEnded
from garcon.controller.chats.turns import ANCHORS
from garcon.store.interfaces import IStore
from garcon.store.sqlite import SqliteStore
from garcon.test.controller.chats.cast import CHAT, ChatsTestCase, Said
from garcon.testing.fake_runtime import AT, agent_entry
from garcon.testing.inline_threads import InlinePool, InlineReactor

FORK, SECOND = "1767323045000777", "1767323045000778"
NOT_HERE = (409, "TRANSCRIPT_NOT_YET_PERSISTED", True)


class NativeForksTestCase(ChatsTestCase):
    """A chat with one answered turn of an agent that forks its own sessions."""

    native: NativeForking = "message"

    def open_process(self, instance: str = "instance-1") -> None:
        """Begin a process whose executor has such an agent."""
        super().open_process(instance)
        self.local.agents = [structs.replace(agent_entry(), native_fork=self.native)]

    def setUp(self) -> None:
        super().setUp()
        self.start()
        self.local.last.session("session")
        self.answer("one")
        self.view: str = self.messages().body["transcriptViewId"]

    def answer(self, text: str) -> None:
        """Answer the turn that runs; its anchors are named after its text."""
        self.local.last.say(text, anchor=text)
        self.local.last.finish(anchor=f"end of {text}" if self.native == "message" else None)

    def turn(self, text: str) -> None:
        """Run a whole turn."""
        self.run_chat(self.view)
        self.answer(text)

    def use_tool(self) -> None:
        """Let the agent do something."""
        row = BashToolUse(timestamp=AT, tool_id="t", command="make")
        self.local.last.emit(RowProduced(message=row))

    def fork(self, ordinal: int | None = None, **more: Any) -> Said:
        """Fork the chat, up to a row or whole."""
        body: dict[str, Any] = {"sourceChatId": CHAT, "chatId": FORK} | more
        if ordinal is not None:
            body |= {"upToOrdinal": ordinal, "transcriptViewId": self.view}
        return self.asked(operations.FORK, body)

    def run_fork(self, chat_id: str = FORK) -> ForkPoint | None:
        """Run the fork's first turn and return where its session was to begin."""
        view = self.messages(chat_id).body["transcriptViewId"]
        answer = self.run_chat(view, chatId=chat_id, command="child")
        self.assertEqual(answer.status, 202, answer.body)
        return self.local.last.launch.fork_from

    def fork_run(self, **more: Any) -> Said:
        """Fork the chat and run the fork's first turn."""
        body = {
            "clientRequestId": self.request_id(),
            "clientMessageId": "m-fork",
            "sourceChatId": CHAT,
            "chatId": FORK,
            "command": "go on",
        }
        return self.asked(operations.FORK_RUN, body | more)


class ForkTests(NativeForksTestCase):
    """An agent that forks at messages."""

    def test_a_whole_chat_is_forked_at_its_last_turns_end(self) -> None:
        """Whatever is said in the source later; and what was said is told all the same, for an
        agent that finds that it cannot.
        """
        self.assertEqual(self.fork().status, 200)
        self.turn("two")
        self.assertEqual(self.run_fork(), ForkPoint("session", "end of one"))
        launch = self.local.last.launch
        self.assertEqual([one.content for one in launch.history], ["hello", "one"])
        self.assertEqual((launch.prompt, launch.agent_session_id), ("child", None))

    def test_with_a_first_turn(self) -> None:
        """The launch says where."""
        self.assertEqual(self.fork_run().status, 202)
        self.assertEqual(self.local.last.launch.fork_from, ForkPoint("session", "end of one"))

    def test_at_a_message(self) -> None:
        """Of a turn that has ended: the last, an earlier one, and one among others."""
        self.run_chat(self.view)  # row 5
        self.local.last.say("two", anchor="two")
        self.use_tool()
        self.local.last.say("three", anchor="three")
        self.local.last.say("four", anchor="four")
        self.local.last.finish(anchor="end of four")
        for number, (ordinal, anchor) in enumerate(
            ((3, "end of one"), (6, "two"), (8, "three"), (9, "end of four"), (5, "end of one"))
        ):
            chat_id = f"176732304500080{number}"
            self.assertEqual(self.fork(ordinal, chatId=chat_id).status, 200)
            self.assertEqual(self.run_fork(chat_id), ForkPoint("session", anchor), ordinal)
            self.local.last.finish()

    def test_where_there_is_no_point(self) -> None:
        """At a tool's row, or in a turn that goes on: refused, unless a copy may be made."""
        self.run_chat(self.view)
        self.use_tool()
        self.local.last.say("two", anchor="two")
        for refused in (self.fork(), self.fork(6), self.fork(7), self.fork_run()):
            self.assertEqual(refused.failure, NOT_HERE)
        self.local.last.finish(anchor="end of two")
        self.assertEqual(self.fork(6).failure, NOT_HERE)
        self.assertEqual([one["id"] for one in self.listed()], [CHAT])
        self.assertEqual(self.fork(6, allowHandoffFork=True).status, 200)
        self.assertIsNone(self.run_fork())

    def test_while_a_turn_that_said_nothing_goes_on(self) -> None:
        """At the end of the one before; its input goes along."""
        self.run_chat(self.view, command="parent")
        self.assertEqual(self.fork().status, 200)
        self.assertEqual(self.run_fork(), ForkPoint("session", "end of one"))
        self.assertEqual(self.local.last.launch.prompt, "parent\n\nchild")

    def test_an_interrupted_turn_has_the_points_of_its_messages(self) -> None:
        """Its end has none, but where it said last is one."""
        self.run_chat(self.view)
        self.local.last.say("two", anchor="two")
        self.local.last.interrupted()
        self.fork()
        self.assertEqual(self.run_fork(), ForkPoint("session", "two"))

    def test_a_turn_that_was_stopped(self) -> None:
        """What its agent did after the stop is not shown, but it is in its session."""
        self.run_chat(self.view)
        self.use_tool()
        self.local.holds_aborts = True
        stopping = self.stop()
        self.local.last.emit(RunEnded(outcome="interrupted", anchor="end of the stop"))
        self.assertEqual(self.successResultOf(stopping).status, 200)
        self.fork()
        self.assertEqual(self.run_fork(), ForkPoint("session", "end of the stop"))

    def test_another_session(self) -> None:
        """What was said in the one before is not in the present one."""
        self.run_chat(self.view)
        self.local.last.session("cleared")
        self.local.last.finish()
        self.assertEqual(self.fork().failure, NOT_HERE)
        self.turn("three")
        self.fork()
        self.assertEqual(self.run_fork(), ForkPoint("cleared", "end of three"))

    def test_points_of_long_turns_are_bounded(self) -> None:
        """The last messages have one, as many as are kept."""
        self.run_chat(self.view)
        for n in range(ANCHORS + 1):
            self.local.last.say(f"{n}", anchor=f"anchor {n}")
        self.local.last.finish(anchor="end")
        self.assertEqual(self.fork(6).failure, NOT_HERE)
        self.fork(7)
        self.assertEqual(self.run_fork(), ForkPoint("session", "anchor 1"))

    def test_a_fork_that_began_is_one_of_its_own(self) -> None:
        """Its next turn resumes its session, and it can be forked where it spoke itself."""
        self.fork()
        self.run_fork()
        self.local.last.session("forked", is_fork=True)
        self.answer("child says")
        view = self.messages(FORK).body["transcriptViewId"]
        self.run_chat(view, chatId=FORK)
        launch = self.local.last.launch
        self.assertEqual((launch.agent_session_id, launch.fork_from), ("forked", None))
        self.local.last.finish()
        more = {"sourceChatId": FORK, "chatId": SECOND}
        ordinal = next(n for n, _, text in self.kinds(FORK) if text == "child says")
        self.assertEqual(
            self.asked(
                operations.FORK, {"upToOrdinal": ordinal, "transcriptViewId": view} | more
            ).status,
            200,
        )
        self.assertEqual(self.run_fork(SECOND), ForkPoint("forked", "end of child says"))

    def test_a_fork_of_a_fork_that_did_not_begin(self) -> None:
        """Begins where that was to begin, over restarts too."""
        self.fork()
        self.restart()
        self.fork(sourceChatId=FORK, chatId=SECOND)
        self.assertEqual(self.run_fork(SECOND), ForkPoint("session", "end of one"))

    def test_an_agent_that_could_not_after_all(self) -> None:
        """Its session began anew, and what was said before is not in it."""
        for is_fork, inherited in ((True, 0), (False, 2)):
            chat_id = FORK if is_fork else SECOND
            self.fork(chatId=chat_id)
            self.run_fork(chat_id)
            self.local.last.session(f"session of {chat_id}", is_fork=is_fork)
            self.local.last.finish()
            (stored,) = [
                one.record
                for one in self.successResultOf(self.store.load())
                if one.record.chat_id == chat_id
            ]
            self.assertEqual((stored.inherited, stored.fork_from), (inherited, None))

    def test_a_chat_that_moved_begins_anew(self) -> None:
        """Agents find sessions by their directory."""
        self.local.agents = [
            structs.replace(self.local.agents[0], supports_update_project_path=True)
        ]
        self.clock.advance(61)
        self.fork()
        body = {"chatId": FORK, "projectPath": self.base}
        self.assertEqual(self.asked(operations.CHANGE_PROJECT_PATH, body).status, 200)
        self.assertIsNone(self.run_fork())

    def test_nothing_to_fork(self) -> None:
        """A chat in which nobody has answered is copied."""
        self.start(chatId=SECOND, clientMessageId="m-2")
        self.local.last.fail("no")
        self.assertEqual(self.fork(sourceChatId=SECOND).status, 200)
        self.assertIsNone(self.run_fork())

    def test_an_executor_that_is_away(self) -> None:
        """Nobody knows whether its agent forks sessions: the copy is told what was said."""
        self.executors.states["local"] = "offline"
        self.assertEqual(self.fork().status, 200)
        self.executors.states["local"] = "ready"
        self.assertIsNone(self.run_fork())


class SqliteNativeForkTests(ForkTests):
    """The same over the real store."""

    def make_store(self) -> IStore:
        return SqliteStore(self.mktemp(), InlineReactor(), InlinePool())


class SessionForkTests(NativeForksTestCase):
    """An agent that forks whole sessions only."""

    native: NativeForking = "session"

    def test_as_long_as_the_session_is_as_it_was(self) -> None:
        """Later it has more than the fork: then that is told what was said."""
        self.fork()
        self.assertEqual(self.run_fork(), ForkPoint("session"))
        self.fork(chatId=SECOND)
        self.turn("two")
        self.assertIsNone(self.run_fork(SECOND))

    def test_not_at_a_message(self) -> None:
        """Refused, unless a copy may be made."""
        self.turn("two")
        self.assertEqual(self.fork(3).failure, NOT_HERE)
        self.assertEqual(self.fork(3, allowHandoffFork=True).status, 200)

    def test_not_while_it_works(self) -> None:
        """What the turn adds is not there yet."""
        self.run_chat(self.view)
        self.local.last.say("half")
        self.assertEqual(self.fork().failure, NOT_HERE)


class CopyingAgentTests(NativeForksTestCase):
    """An agent that forks nothing."""

    native: NativeForking = "none"

    def test_it_is_told_what_was_said(self) -> None:
        """At any point."""
        self.run_chat(self.view)
        self.use_tool()
        self.assertEqual(self.fork().status, 200)
        self.assertIsNone(self.run_fork())
        self.local.last.emit(RunEnded(outcome="finished"))
