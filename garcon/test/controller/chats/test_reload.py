"""Reading a chat anew from its agent's history (server.md A.7)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from attrs import define, field
from twisted.internet.defer import Deferred
from zope.interface import implementer
from zope.interface.verify import verifyObject

from garcon.contract import operations
from garcon.contract.events import Reloaded, TranscriptReplaced
from garcon.contract.messages import AgentSwitch, AssistantMessage, ToolResult, UserMessage
from garcon.contract.runs import NativeRow, NativeSession
from garcon.controller.providers.store import PROFILES_FILE
from garcon.controller.transcripts import remade, rows
from garcon.controller.transcripts.remade import REMADE_ROWS, RemadeView, inherited
from garcon.controller.ws.interfaces import IReloading
from garcon.controller.ws.requests import Reload, Subscribe
from garcon.errors import GarconError
from garcon.runtime.interfaces import INativeHistory, TakeRows
from garcon.store.interfaces import IStore
from garcon.store.records import AppendRows, Row
from garcon.test.controller.chats.cast import CHAT, OTHER, WORKER, ChatsTestCase
from garcon.test.controller.chats.test_profiles import PROFILE, ProfilesCase
from garcon.test.controller.chats.test_reading import SlowStore
from garcon.test.controller.providers.test_profiles import a_profile
from garcon.testing.fake_runtime import AT, FakeExecutors, FakeRuntime

LATER = ("CHAT_RUNNING", True)
QUEUED = ("CHAT_RUNNING", False)
FAILED = ("HISTORY_LOAD_FAILED", False)
CANCELLED = ("REQUEST_CANCELLED", True)
MAY_WORK_LATER = ("HISTORY_LOAD_FAILED", True)


def told(text: str) -> UserMessage:
    """What the agent was told."""
    return UserMessage(timestamp=AT, content=text)


def replied(text: str) -> AssistantMessage:
    """What it said."""
    return AssistantMessage(timestamp=AT, content=text)


@implementer(INativeHistory)
@define(eq=False)
class NativeRuntime(FakeRuntime):
    """An executor whose agent keeps histories: what it remembers is handed over when `give`n."""

    keeps: bool = True
    reading: list[tuple[NativeSession, TakeRows, Deferred[None]]] = field(factory=list)
    cancelled: int = 0
    remembered: list[NativeRow] | None = None
    """Handed over at once, where there is something."""

    def keeps_history(self, agent_id: str) -> bool:
        return self.keeps and agent_id == "scripted"

    def read_history(self, session: NativeSession, take: TakeRows) -> Deferred[None]:
        if self.remembered is not None:
            return take(self.remembered)
        d: Deferred[None] = Deferred(self._cancelled)
        self.reading.append((session, take, d))
        return d

    def _cancelled(self, d: Deferred[None]) -> None:
        self.cancelled += 1

    def give(self, *some: NativeRow) -> None:
        """Hand over a piece."""
        self.reading[-1][1](some)

    def end(self) -> None:
        """There is no more."""
        self.reading[-1][2].callback(None)


class SecretTests(ProfilesCase):
    """A chat whose agent has been told a profile's key."""

    def open_process(self, instance: str = "instance-1") -> None:
        super().open_process(instance)
        self.native = NativeRuntime(self.base, agents=self.local.agents)
        self.local = self.executors.runtimes["local"] = self.native

    def reload(self) -> Deferred[Reloaded]:
        return self.chats.answers().reload(Reload("r", CHAT), lambda phase, count: None).done

    def test_a_key_that_the_agent_remembers(self) -> None:
        """Does not come back with its history, as it was not shown before; where it cannot be said
        what the keys are the reload fails.
        """
        key = a_profile().endpoints[0].api_key
        assert key
        output = ToolResult(
            timestamp=AT, tool_id="t", content={"text": f"KEY={key}"}, is_error=False
        )
        remembered: list[NativeRow] = [told("show it"), output, replied(f"it is {key}")]
        self.native.remembered = [*remembered]
        self.started()
        page: Reloaded = self.successResultOf(self.reload())
        shown = msgspec.json.encode(page).decode()
        self.assertIn("KEY=[secret]", shown)
        self.assertIn("it is [secret]", shown)
        self.assertNotIn(key, shown)
        Path(self.folder, PROFILES_FILE).write_bytes(b"?")
        self.reopen()
        self.open_process("instance-2")
        self.native.remembered = [*remembered]
        failure = self.failureResultOf(self.reload(), GarconError).value
        self.assertEqual(failure.code, "API_PROVIDER_STORAGE_UNAVAILABLE")

    def test_a_key_that_was_replaced_or_removed(self) -> None:
        """Does not come back either."""
        key, later = a_profile().endpoints[0].api_key, "sk-another-key-of-it"
        self.started()
        kept = [{PROFILE: a_profile({"apiKey": later})}, {}]
        for _ in range(2):
            self.successResultOf(self.profiles.change_profiles(lambda _: kept.pop(0)))
            self.native.remembered = [told("show it"), replied(f"it was {key}, and is {later}")]
            page: Reloaded = self.successResultOf(self.reload())
            shown = msgspec.json.encode(page).decode()
            self.assertIn("it was [secret], and is [secret]", shown)


class ReloadCase(ChatsTestCase):
    """A chat of an agent that keeps its history."""

    def setUp(self) -> None:
        super().setUp()
        self.view = self.started()
        self.progress: list[tuple[str, int]] = []
        self.told.clear()

    def open_process(self, *args: Any) -> None:
        super().open_process(*args)
        self.native = NativeRuntime(self.base)
        self.local = self.native
        self.executors.runtimes["local"] = self.native
        assert isinstance(self.executors, FakeExecutors)

    def reload(self, chat: str = CHAT) -> IReloading:
        """Ask for a reload."""
        reloading = self.chats.answers().reload(
            Reload("r", chat), lambda phase, count: self.progress.append((phase, count))
        )
        self.assertTrue(verifyObject(IReloading, reloading))
        return reloading

    def reloaded(self, *remembered: NativeRow) -> Reloaded:
        """Reload with what the agent remembers."""
        self.native.remembered = list(remembered)
        page: Reloaded = self.successResultOf(self.reload().done)
        return page

    def refused(self, reloading: IReloading) -> tuple[str, bool]:
        """Ask for what is refused, and leaves the transcript as it was."""
        error = self.failureResultOf(reloading.done, GarconError).value
        self.assertEqual(self.messages().body["transcriptViewId"], self.view)
        self.assertEqual([text for _, _, text in self.kinds()], ["hello", "hi"])
        self.assertEqual([e for e in self.told if isinstance(e, TranscriptReplaced)], [])
        return error.code, error.retryable


class RefusedTests(ReloadCase):
    """What keeps a reload from happening."""

    def test_an_unknown_chat(self) -> None:
        """There is nothing to reload."""
        self.assertEqual(self.refused(self.reload(OTHER)), ("SESSION_NOT_FOUND", False))

    def test_a_running_turn(self) -> None:
        """It ends, so another try can succeed; also where something is queued behind it."""
        self.run_chat(self.view)
        error = self.failureResultOf(self.reload().done, GarconError).value
        self.assertEqual((error.code, error.retryable), LATER)
        self.queue()
        error = self.failureResultOf(self.reload().done, GarconError).value
        self.assertEqual((error.code, error.retryable), LATER)

    def test_another_command_of_the_chat(self) -> None:
        """Whatever it is."""
        self.native.reads.append(Deferred())
        self.run_chat_later()
        self.assertEqual(self.refused(self.reload()), LATER)

    def test_another_reload(self) -> None:
        """Of the same chat; and then it is free again."""
        first = self.reload()
        self.assertEqual(self.refused(self.reload()), LATER)
        first.stop()
        self.assertEqual(self.refused(first), CANCELLED)
        self.reloaded(told("a"))

    def test_a_queued_message(self) -> None:
        """Also while the queue is paused: it names the view that would go."""
        self.run_chat(self.view)
        self.queue()
        self.successResultOf(self.stop())
        error = self.failureResultOf(self.reload().done, GarconError).value
        self.assertEqual((error.code, error.retryable), QUEUED)

    def test_an_agent_that_keeps_no_history(self) -> None:
        """Nor does it later."""
        self.native.keeps = False
        self.assertEqual(self.refused(self.reload()), FAILED)

    def test_an_executor_that_reads_none(self) -> None:
        """As the remote ones."""
        self.started(chatId=OTHER, executorId=WORKER)
        error = self.failureResultOf(self.reload(OTHER).done, GarconError).value
        self.assertEqual((error.code, error.retryable), FAILED)

    def test_a_chat_without_a_session(self) -> None:
        """There is nothing that its agent could remember."""
        self.assertEqual(self.start(chatId=OTHER).status, 202)
        self.native.last.finish()
        error = self.failureResultOf(self.reload(OTHER).done, GarconError).value
        self.assertEqual((error.code, error.retryable), FAILED)

    def test_a_history_that_cannot_be_read(self) -> None:
        """It says itself whether another try can succeed."""
        for retryable in (True, False):
            reloading = self.reload()
            self.native.give(told("a"))
            error = GarconError("HISTORY_LOAD_FAILED", "gone", retryable=retryable)
            self.native.reading[-1][2].errback(error)
            self.assertEqual(self.refused(reloading), ("HISTORY_LOAD_FAILED", retryable))

    def test_a_history_that_takes_too_long(self) -> None:
        """Ten minutes and no longer."""
        reloading = self.reload()
        self.clock.advance(599)
        self.assertNoResult(reloading.done)
        self.clock.advance(1)
        self.assertEqual(self.refused(reloading), MAY_WORK_LATER)
        self.assertEqual(self.native.cancelled, 1)

    def test_a_store_that_refuses(self) -> None:
        """The old view takes rows again."""
        self.native.remembered = [told("a")]
        self.memory.refusals = 1
        self.assertEqual(self.refused(self.reload())[1], True)
        self.assertEqual(self.run_chat(self.view).status, 202)

    def test_a_damaged_transcript(self) -> None:
        """What earlier owners left could not be kept."""
        self.memory.damage(self.view, 1)
        self.native.remembered = [told("a")]
        error = self.failureResultOf(self.reload().done, GarconError).value
        self.assertEqual((error.code, error.retryable), ("LEDGER_FENCED", False))

    def test_a_controller_that_stops(self) -> None:
        """It begins nothing more."""
        self.successResultOf(self.chats.shut_down())
        self.assertEqual(self.refused(self.reload())[1], True)

    def queue(self) -> None:
        """Queue a message."""
        body = {
            "clientRequestId": self.request_id(),
            "clientMessageId": f"q-{self.requests}",
            "chatId": CHAT,
            "transcriptViewId": self.view,
            "content": "later",
        }
        answer = self.asked(operations.CREATE_ENTRY, body)
        self.assertLess(answer.status, 300, answer.body)

    def run_chat_later(self) -> None:
        """Begin a run that waits for its agent's catalog."""
        self.clock.advance(61)
        self.assertNoResult(self.ask(operations.RUN_CHAT, self.run_body(self.view)))


class StopTests(ReloadCase):
    """Stopping a reload."""

    def test_while_it_reads(self) -> None:
        """The agent is told, and the transcript is as it was."""
        reloading = self.reload()
        self.native.give(told("a"))
        reloading.stop()
        self.assertEqual(self.refused(reloading), CANCELLED)
        self.assertEqual(self.native.cancelled, 1)
        self.assertEqual(self.run_chat(self.view).status, 202)

    def test_while_it_saves(self) -> None:
        """Too late: it completes."""
        self.memory.held = True
        self.native.remembered = [told("a")]
        reloading = self.reload()
        self.assertEqual(self.progress[-1], ("saving", 2))
        reloading.stop()
        self.assertNoResult(reloading.done)
        self.memory.release()
        self.assertEqual(self.successResultOf(reloading.done).last_ordinal, 2)

    def test_after_its_end(self) -> None:
        """Nothing happens."""
        self.native.remembered = [told("a")]
        reloading = self.reload()
        self.successResultOf(reloading.done)
        reloading.stop()

    def test_whoever_waited_is_gone(self) -> None:
        """It goes on, and tells everybody of the new view."""
        reloading = self.reload()
        reloading.done.addErrback(lambda f: None)
        reloading.done.cancel()
        self.native.give(told("a"))
        self.native.end()
        self.assertEqual(len([e for e in self.told if isinstance(e, TranscriptReplaced)]), 1)


class SuccessTests(ReloadCase):
    """A new view in the place of the old."""

    def test_the_view_is_made_of_what_the_agent_remembers(self) -> None:
        """Behind the row of its session; the answer is its newest page."""
        page = self.reloaded(told("a"), replied("b"), told("c"))
        self.assertEqual(page.last_ordinal, 4)
        self.assertEqual((page.page_oldest_ordinal, page.page_newest_ordinal), (2, 4))
        self.assertEqual((page.next_before_ordinal, page.has_more), (None, False))
        self.assertEqual([one.ordinal for one in page.messages], [2, 3, 4])
        self.assertEqual(page.client_request_id, "r")
        shown = [(2, "user-message", "a"), (3, "assistant-message", "b"), (4, "user-message", "c")]
        self.assertEqual(self.kinds(), shown)
        listed = self.messages(limit=100).body
        self.assertEqual(listed["transcriptViewId"], page.transcript_view_id)
        self.assertEqual(
            msgspec.json.decode(msgspec.json.encode(page.messages)), listed["messages"]
        )

    def test_the_agent_is_asked_for_the_chats_session(self) -> None:
        """In its project."""
        self.reload()
        session, _, _ = self.native.reading[-1]
        self.assertEqual(session, NativeSession("scripted", "agent-session", f"{self.base}/p"))

    def test_everybody_is_told_before_the_answer(self) -> None:
        """Of the old view and the new."""
        page = self.reloaded(told("a"))
        self.assertEqual(
            self.told,
            [
                TranscriptReplaced(
                    chat_id=CHAT,
                    previous_transcript_view_id=self.view,
                    transcript_view_id=page.transcript_view_id,
                )
            ],
        )

    def test_the_old_view_is_refused(self) -> None:
        """For a replay in its middle, a page, and a run."""
        self.reloaded(told("a"))
        d = self.chats.answers().page(Subscribe("s", CHAT, self.view, 1, 2))
        self.assertEqual(self.failureResultOf(d, GarconError).value.code, "STALE_TRANSCRIPT_VIEW")
        stale = (409, "STALE_TRANSCRIPT_VIEW", False)
        self.assertEqual(self.messages(transcriptViewId=self.view, beforeOrdinal=2).failure, stale)
        self.assertEqual(self.run_chat(self.view).failure, stale)

    def test_it_can_be_done_again(self) -> None:
        """Another view with the same messages."""
        first, second = (
            self.reloaded(told("a"), replied("b")),
            self.reloaded(told("a"), replied("b")),
        )
        self.assertNotEqual(first.transcript_view_id, second.transcript_view_id)
        self.assertEqual(first.messages, second.messages)

    def test_the_chat_goes_on_in_the_new_view(self) -> None:
        """Its rows follow, also after a restart."""
        view = self.reloaded(told("a"), replied("b")).transcript_view_id
        self.assertEqual(self.run_chat(view).status, 202)
        self.native.last.say("more")
        self.native.last.finish()
        self.restart()
        self.assertEqual(self.messages().body["transcriptViewId"], view)
        self.assertEqual([text for _, _, text in self.kinds()], ["a", "b", "again", "more"])

    def test_live_questions_begin_anew(self) -> None:
        """With the revision, and without a mutation."""
        self.run_chat(self.view)
        self.native.last.ask("o1")
        self.native.last.finish()
        self.told.clear()
        view = self.reloaded(told("a")).transcript_view_id
        feed = self.snapshot(limit=0).body["transientFeed"]
        self.assertEqual((feed["transientRevision"], feed["transcriptViewId"]), (0, view))
        self.assertEqual(len(self.told), 1)

    def test_what_earlier_owners_left_stays(self) -> None:
        """Up to the last change of hands, with the identities of its inputs; rows behind that are
        the agent's own and are made anew.
        """
        switch = AgentSwitch(timestamp=AT, from_agent_id="other", to_agent_id="scripted")
        row = rows.agent_switch(switch).placed(5)
        own = rows.provider_row(replied("old")).placed(6)
        self.successResultOf(self.store.write([AppendRows(self.view, (row, own))]))
        self.restart()
        self.reloaded(told("new"))
        self.assertEqual([text for _, _, text in self.kinds()], ["hello", "hi", None, "new"])
        self.assertEqual(self.messages().body["lastOrdinal"], 7)
        found = self.successResultOf(self.store.find_message(self.current(), "m-start"))
        assert found is not None
        self.assertEqual(found.ordinal, 1)

    def test_what_a_fork_has_copied_stays(self) -> None:
        """It is in no session of the fork's own agent, however often that is read."""
        fork = {"sourceChatId": CHAT, "chatId": OTHER}
        self.assertEqual(self.asked(operations.FORK, fork).status, 200)
        view = self.messages(OTHER).body["transcriptViewId"]
        self.run_chat(view, chatId=OTHER, command="old")
        self.local.last.session("of the fork")
        self.local.last.say("own")
        self.local.last.finish()
        self.restart()
        for _ in range(2):
            self.native.remembered = [told("new")]
            self.successResultOf(self.reload(OTHER).done)
            texts = [text for _, _, text in self.kinds(OTHER)]
            self.assertEqual(texts, ["hello", "hi", "new"])

    def test_what_was_said_in_an_earlier_session_stays(self) -> None:
        """An agent that was told to forget has a new session, which knows nothing of it."""
        for is_fork, texts in (
            (False, ["hello", "hi", "forget", "new"]),
            (True, ["new"]),
        ):
            self.setUp()
            self.run_chat(self.view, command="forget")
            self.local.last.session("another", is_fork=is_fork)
            self.local.last.finish()
            self.run_chat(self.view, command="old")
            self.local.last.say("own")
            self.local.last.finish()
            self.restart()
            for _ in range(2):
                self.native.remembered = [told("new")]
                self.successResultOf(self.reload().done)
                self.assertEqual([text for _, _, text in self.kinds()], texts)

    def test_a_session_that_began_as_a_fork_of_the_one_before(self) -> None:
        """It has what that had: each row is there once, and what only the fork's source has said
        stays where it was told to the first one.
        """
        fork = {"sourceChatId": CHAT, "chatId": OTHER}
        self.assertEqual(self.asked(operations.FORK, fork).status, 200)
        view = self.messages(OTHER).body["transcriptViewId"]
        for session, is_fork in (("own", False), ("at a provider", True), ("back", True)):
            self.run_chat(view, chatId=OTHER, command=f"to {session}")
            self.local.last.session(session, is_fork=is_fork)
            self.local.last.say(session)
            self.local.last.finish()
        said = ["to own", "own", "to at a provider", "at a provider", "to back", "back"]
        for _ in range(2):
            turns = zip(said[::2], said[1::2], strict=True)
            self.native.remembered = [
                row for asked, answer in turns for row in (told(asked), replied(answer))
            ]
            self.successResultOf(self.reload(OTHER).done)
            texts = [text for _, _, text in self.kinds(OTHER)]
            self.assertEqual(texts, ["hello", "hi", *said])

    def test_progress_is_told(self) -> None:
        """At least once in each phase, with all rows so far."""
        reloading = self.reload()
        self.native.give(told("a"))
        self.native.give(replied("b"), replied("c"))
        self.native.end()
        self.successResultOf(reloading.done)
        reading = [("reading", 0), ("reading", 2), ("reading", 4)]
        self.assertEqual(self.progress, [*reading, ("saving", 4)])

    def test_the_answer_covers_a_hundred_raw_rows(self) -> None:
        """At the bound it is whole; one row more, and there is an older page."""
        page = self.reloaded(*[replied(str(n)) for n in range(99)])
        self.assertEqual((page.last_ordinal, page.next_before_ordinal), (100, None))
        self.assertEqual((page.page_oldest_ordinal, page.page_newest_ordinal), (2, 100))
        page = self.reloaded(*[replied(str(n)) for n in range(101)])
        self.assertEqual((page.last_ordinal, page.next_before_ordinal), (102, 3))
        self.assertEqual((page.page_oldest_ordinal, page.has_more), (3, True))

    def current(self) -> str:
        """The view as it is now."""
        view: str = self.messages().body["transcriptViewId"]
        return view


class ReadMeanwhileTests(ReloadCase):
    """Readers of the old view."""

    def make_store(self) -> IStore:
        self.slow = SlowStore()
        return self.slow

    def test_what_is_being_read_is_stale(self) -> None:
        """A page of a replay and one over HTTP alike, whatever the store makes of it."""
        self.slow.is_slow = True
        replayed = self.chats.answers().page(Subscribe("s", CHAT, self.view, 0, None))
        paged = self.ask(operations.MESSAGES, query={"chatId": CHAT})
        reads, self.slow.reads, self.slow.is_slow = self.slow.reads, [], False
        self.reloaded(told("a"))
        self.slow.reads = reads
        self.slow.read()
        error = self.failureResultOf(replayed, GarconError).value
        self.assertEqual(error.code, "STALE_TRANSCRIPT_VIEW")
        self.assertEqual(self.successResultOf(paged).code, "STALE_TRANSCRIPT_VIEW")


class BoundTests(ReloadCase):
    """How long a history may be."""

    def fill(self, view: RemadeView, many: int) -> None:
        """Add short rows."""
        draft = rows.notice(AT, "n")
        view.keep([draft.placed(1)] * many)

    def test_rows(self) -> None:
        """At the bound it is taken, beyond it is not."""
        view = RemadeView()
        self.fill(view, REMADE_ROWS)
        error = self.assertRaises(GarconError, self.fill, view, 1)
        self.assertEqual((error.code, error.retryable), FAILED)

    def test_bytes(self) -> None:
        """Together, whatever their number."""
        view = RemadeView()
        size = 16 * 1024 * 1024
        row = Row(1, "notice", AT, b"x" * size)
        view.keep([row] * (remade.REMADE_BYTES // size))
        error = self.assertRaises(GarconError, self.fill, view, 1)
        self.assertEqual((error.code, error.retryable), FAILED)

    def test_nothing_is_inherited_without_a_change_of_hands(self) -> None:
        """The last one counts."""
        some: list[Row] = [rows.notice(AT, "n").placed(n) for n in range(1, 5)]
        self.assertEqual(inherited(some), None)
        for at in (1, 2):
            some[at] = msgspec.structs.replace(some[at], kind="agent-switch")
        self.assertEqual(inherited(some), 3)
        empty: Sequence[Row] = []
        self.assertEqual(inherited(empty), None)
