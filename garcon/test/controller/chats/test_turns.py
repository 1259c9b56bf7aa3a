"""Rows of a turn on their way to the store (chats.md 5.1, 5.7), and what a restart finds."""

from __future__ import annotations

import msgspec
from msgspec import UNSET

from garcon.contract.events import ChatMessages, ProcessingUpdated, RunFinished
from garcon.contract.runs import RunEnded, UnknownEvent
from garcon.controller.chats.commits import PENDING_ROWS, RETRIES, WELCOME_ROWS
from garcon.runtime.interfaces import IRunSink
from garcon.store.interfaces import IStore
from garcon.store.sqlite import SqliteStore
from garcon.test.controller.chats.cast import ChatsTestCase
from garcon.testing.inline_threads import InlinePool, InlineReactor


class CommitTests(ChatsTestCase):
    """A turn whose agent talks."""

    def setUp(self) -> None:
        super().setUp()
        self.turn: str = self.start().body["turnId"]

    def texts(self) -> list[str]:
        return [text for _, _, text in self.kinds()]

    def test_rows_that_come_during_a_commit_share_the_next(self) -> None:
        """A hundred rows behind one commit need one more."""
        before = self.memory.writes
        self.memory.held = True
        for n in range(101):
            self.local.last.say(f"row {n}")
        self.memory.release()
        self.assertEqual(self.memory.writes - before, 2)
        self.assertEqual(self.texts()[1:], [f"row {n}" for n in range(101)])

    def test_a_refused_commit_is_tried_again(self) -> None:
        """In order, and without a gap."""
        self.memory.refusals = RETRIES
        self.local.last.say("one")
        self.local.last.say("two")
        self.local.last.finish()
        self.assertEqual(self.phase(), "running")
        self.clock.pump([1.0] * RETRIES)
        self.assertEqual(self.texts(), ["hello", "one", "two"])
        self.assertEqual(self.receipt(self.turn).body["state"], "completed")

    def test_a_store_that_keeps_refusing_fails_the_turn(self) -> None:
        """One refusal too many: the agent is stopped, the chat is usable again."""
        self.memory.refusals = RETRIES + 1
        self.local.last.say("lost")
        self.clock.pump([1.0] * RETRIES)
        self.assertEqual(self.receipt(self.turn).body["state"], "failed")
        self.assertEqual((self.local.aborted, self.phase()), ([self.turn], None))
        view = self.messages().body["transcriptViewId"]
        self.assertEqual(self.run_chat(view).status, 202)
        self.assertEqual([ordinal for ordinal, _, _ in self.kinds()], [1, 2])

    def test_a_turn_that_overruns_the_store_is_ended(self) -> None:
        """What waits is bounded; what was taken is kept."""
        self.memory.held = True
        for n in range(PENDING_ROWS + 1):
            self.local.last.say(f"{n}")
        self.assertEqual(self.local.aborted, [])
        self.local.last.say("one more")
        self.assertEqual(self.local.aborted, [self.turn])
        self.memory.release()
        receipt = self.receipt(self.turn).body
        self.assertEqual(receipt["state"], "failed")
        last = self.messages().body["lastOrdinal"]
        self.assertEqual(last, PENDING_ROWS + 4)

    def test_the_same_session_is_not_told_twice(self) -> None:
        """A hidden row only when the name changes."""
        for name in ("a", "a", "b"):
            self.local.last.session(name)
        self.assertEqual(self.messages().body["lastOrdinal"], 3)

    def test_what_an_agent_says_that_we_do_not_know(self) -> None:
        """Is counted by agent and kept as it came, in a row that readers are not shown; more of it
        is counted only.
        """
        first = UnknownEvent(agent_id="scripted", kind="sparkle", raw='{"a":1}', agent_version="2")
        self.local.last.emit(first)
        self.local.last.emit(UnknownEvent(agent_id="scripted", kind="sparkle", count=3))
        self.assertEqual(self.chats.unknown_events(), {"scripted": 4})
        self.assertEqual((self.messages().body["lastOrdinal"], self.texts()), (2, ["hello"]))
        view = self.messages().body["transcriptViewId"]
        (row,) = self.successResultOf(self.memory.read_rows(view, 2, 2, None))
        self.assertEqual(row.kind, "unknown-event")
        self.assertEqual(msgspec.json.decode(row.payload, type=UnknownEvent), first)

    def test_what_is_unknown_counts_in_a_stop_too(self) -> None:
        """And behind the end."""
        self.local.holds_aborts = True
        stopping = self.stop()
        unknown = UnknownEvent(agent_id="scripted", kind="sparkle", raw="{}")
        self.local.last.emit(unknown)
        self.local.last.interrupted()
        self.successResultOf(stopping)
        self.local.last.emit(unknown)
        self.assertEqual(self.chats.unknown_events(), {"scripted": 2})

    def test_the_version_of_the_agent_is_in_the_end_of_its_turn(self) -> None:
        """In a row that readers are not shown."""
        self.local.last.emit(RunEnded(outcome="finished", agent_version="2.1"))
        view = self.messages().body["transcriptViewId"]
        (row,) = self.successResultOf(self.memory.read_rows(view, 2, 2, None))
        self.assertEqual(msgspec.json.decode(row.payload)["agentVersion"], "2.1")

    def test_nothing_follows_the_end(self) -> None:
        """A second end and late rows are ignored."""
        self.local.last.finish()
        self.local.last.say("late")
        self.local.last.fail("again")
        self.assertEqual(self.receipt(self.turn).body["state"], "completed")
        self.assertEqual(self.texts(), ["hello"])


class RestartTests(ChatsTestCase):
    """Another process over the same file."""

    def make_store(self) -> IStore:
        self.path = self.mktemp()
        return SqliteStore(self.path, InlineReactor(), InlinePool())

    def reopen(self) -> None:
        self.successResultOf(self.store.close())
        self.store = SqliteStore(self.path, InlineReactor(), InlinePool())
        self.successResultOf(self.store.open())
        self.restart()

    def tearDown(self) -> None:
        self.successResultOf(self.store.close())

    def test_an_idle_chat_is_what_it_was(self) -> None:
        """View, ordinals, messages, place, tags, title, settings, the agent's session (5.1.7)."""
        view = self.started(tags=["a"], permissionMode="acceptEdits", thinkingMode="high")
        before, page = self.listed(), self.messages().body
        self.reopen()
        self.assertEqual((self.listed(), self.messages().body), (before, page))
        self.assertEqual(self.run_chat(view).status, 202)
        launch = self.local.last.launch
        self.assertEqual(
            (launch.agent_session_id, launch.permission_mode, launch.thinking_mode),
            ("agent-session", "acceptEdits", "high"),
        )

    def test_nothing_is_executed_again(self) -> None:
        """A chat whose turn ran is idle, its input unanswered; ordinals go on."""
        self.start()
        self.reopen()
        self.assertEqual((self.local.runs, self.phase()), ([], None))
        view = self.messages().body["transcriptViewId"]
        self.run_chat(view, command="next")
        self.assertEqual(self.local.last.launch.prompt, "hello\n\nnext")
        self.assertEqual([ordinal for ordinal, _, _ in self.kinds()], [1, 2])


class RoomTests(ChatsTestCase):
    """Whether a turn welcomes more output."""

    def setUp(self) -> None:
        super().setUp()
        self.view = self.started()
        self.run_chat(self.view)
        self.sink = IRunSink(self.local.last.sink)

    def test_while_the_store_keeps_up(self) -> None:
        """Always."""
        self.local.last.say("a")
        self.successResultOf(self.sink.room())

    def test_while_the_store_does_not(self) -> None:
        """As long as little waits; later when it has caught up."""
        self.memory.held = True
        for n in range(WELCOME_ROWS + 1):
            self.local.last.say(f"{n}")
        self.successResultOf(self.sink.room())
        self.local.last.say("one more")
        room = self.sink.room()
        self.assertNoResult(room)
        self.memory.release()
        self.successResultOf(room)

    def test_while_a_stop_is_on_its_way(self) -> None:
        """Not before its fate is known."""
        self.local.say_nothing = True
        self.stop()
        room = self.sink.room()
        self.assertNoResult(room)
        self.clock.advance(16)
        self.successResultOf(room)

    def test_once_a_stop_was_taken(self) -> None:
        """What comes is dropped, but for the end."""
        self.local.say_nothing = True
        d = self.stop()
        room = self.sink.room()
        self.assertNoResult(room)
        self.local.unanswered[0].callback(True)
        self.successResultOf(room)
        self.local.last.say("late")
        self.successResultOf(self.sink.room())
        self.local.last.interrupted()
        self.successResultOf(d)
        self.assertEqual(self.kinds()[-1][2], "again")

    def test_once_rows_are_lost(self) -> None:
        """The turn is over, whatever is still held back."""
        self.memory.refusals = RETRIES + 1
        self.local.last.say("lost")
        self.local.say_nothing = True
        self.stop()
        room = self.sink.room()
        self.assertNoResult(room)
        self.clock.pump([1.0] * RETRIES)
        self.successResultOf(room)

    def test_after_the_end(self) -> None:
        """Whatever comes is dropped."""
        self.local.last.finish()
        self.successResultOf(self.sink.room())


class EventTests(ChatsTestCase):
    """What the chats tell (chats.md 5.19, server.md A.11)."""

    def test_rows_come_between_the_phases(self) -> None:
        """That it runs, the input, the end of the run before idle, and the terminal event last."""
        self.started()
        self.assertEqual(
            [msgspec.json.decode(msgspec.json.encode(event))["type"] for event in self.told],
            [
                "chat-processing-updated",
                "chat-messages",
                "chat-list-refresh-requested",
                "chat-messages",
                "chat-session-created",
                "chat-messages",
                "chat-messages",
                "chat-processing-updated",
                "agent-run-finished",
            ],
        )
        rows = [event for event in self.told if isinstance(event, ChatMessages)]
        self.assertEqual([e.first_ordinal for e in rows], [1, 2, 3, 4])
        self.assertEqual([len(e.messages) for e in rows], [1, 0, 1, 0])
        ended = self.told[-1]
        assert isinstance(ended, RunFinished)
        self.assertEqual([event.turn_id for event in rows], [UNSET, UNSET, UNSET, ended.turn_id])
        phases = [event.phase for event in self.told if isinstance(event, ProcessingUpdated)]
        self.assertEqual(phases, ["running", None])
