"""What browser sockets are told when they ask (server.md A.5, A.6), and what they see of a chat
without asking (A.11).
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET
from twisted.internet.defer import Deferred, fail
from zope.interface.verify import verifyObject

from garcon.contract import operations
from garcon.contract.events import (
    ChatMessages,
    ControlResult,
    ProcessingChat,
    ProcessingUpdated,
    SessionDeleted,
    Subscribed,
)
from garcon.contract.limits import MIB
from garcon.controller.ws.interfaces import IAnswers
from garcon.controller.ws.requests import Subscribe
from garcon.controller.ws.socket import SocketLimits
from garcon.errors import GarconError
from garcon.store.interfaces import IStore, NotStored
from garcon.store.records import Row
from garcon.test.controller.chats.cast import CHAT, INSTANCE, OTHER, WORKER, ChatsTestCase
from garcon.test.controller.chats.test_reading import SlowStore
from garcon.testing.memory_store import MemoryStore

STALE = ("STALE_TRANSCRIPT_VIEW", False)
INVALID = ("REQUEST_VALIDATION_FAILED", False)
UNKNOWN = ("SESSION_NOT_FOUND", False)


class FollowingCase(ChatsTestCase):
    """A chat with one finished turn: its rows are input, session, reply, end."""

    def setUp(self) -> None:
        super().setUp()
        self.view = self.started()
        self.answers = self.chats.answers()

    def subscribe(
        self, after: int, through: int | None = None, view: str = "", chat: str = CHAT
    ) -> Deferred[Subscribed]:
        """Ask for a page."""
        return self.answers.page(Subscribe("s", chat, view or self.view, after, through))

    def page(self, after: int = 0, through: int | None = None) -> Subscribed:
        """Read a page that is answered at once."""
        page: Subscribed = self.successResultOf(self.subscribe(after, through))
        return page

    def refused(self, d: Deferred[Subscribed]) -> tuple[str, bool]:
        """Ask for what is refused."""
        error = self.failureResultOf(d, GarconError).value
        return error.code, error.retryable


class SubscribeTests(FollowingCase):
    """Bounded replay."""

    def test_provides_its_interface(self) -> None:
        """It is an `IAnswers`."""
        self.assertTrue(verifyObject(IAnswers, self.answers))

    def test_from_the_beginning(self) -> None:
        """Every row up to the end, hidden ones in between."""
        page = self.page()
        self.assertEqual(
            (page.first_ordinal, page.last_ordinal, page.next_after_ordinal), (1, 4, 4)
        )
        self.assertEqual((page.through_ordinal, page.has_more), (4, False))
        self.assertEqual([one.ordinal for one in page.messages], [1, 3])
        self.assertEqual((page.chat_id, page.transcript_view_id), (CHAT, self.view))
        self.assertEqual(page.client_request_id, "s")
        self.assertEqual(page.resend_candidates, [])

    def test_it_equals_the_page_over_http(self) -> None:
        """Byte for byte, message for message."""
        shown = self.messages(limit=200).body["messages"]
        self.assertEqual(msgspec.json.decode(msgspec.json.encode(self.page().messages)), shown)

    def test_at_the_end_there_is_nothing(self) -> None:
        """An empty page that ends where it began."""
        page = self.page(4)
        self.assertEqual((page.messages, page.first_ordinal, page.last_ordinal), ([], 5, 4))
        self.assertEqual((page.next_after_ordinal, page.has_more), (4, False))

    def test_the_watermark_stays_though_rows_come(self) -> None:
        """A continuation repeats it and gets it back."""
        self.run_chat(self.view)
        self.local.last.say("more")
        page = self.page(3, 4)
        self.assertEqual((page.through_ordinal, page.has_more, page.messages), (4, False, []))
        self.assertEqual(self.page().through_ordinal, 6)

    def test_an_unknown_chat(self) -> None:
        """Also one that was deleted."""
        self.assertEqual(self.refused(self.subscribe(0, chat=OTHER)), UNKNOWN)

    def test_another_view_comes_before_another_range(self) -> None:
        """A random view with a cursor beyond every end is stale."""
        self.assertEqual(self.refused(self.subscribe(10**9, view="random")), STALE)
        self.assertEqual(self.refused(self.subscribe(5, 4, view="random")), STALE)

    def test_a_range_ends_at_the_last_row(self) -> None:
        """The last row is a good cursor and a good watermark; one more is neither."""
        self.page(4, 4)
        self.assertEqual(self.refused(self.subscribe(5)), INVALID)
        self.assertEqual(self.refused(self.subscribe(0, 5)), INVALID)
        self.assertEqual(self.refused(self.subscribe(3, 2)), INVALID)

    def test_a_fenced_chat(self) -> None:
        """It cannot be loaded, now or later, also where nothing would be read; others can."""
        self.memory.damage(self.view, 2)
        self.assertEqual(self.refused(self.subscribe(0)), ("LEDGER_FENCED", False))
        self.assertEqual(self.refused(self.subscribe(4)), ("LEDGER_FENCED", False))

    def test_candidates_of_an_idle_chat(self) -> None:
        """What a stop has left unanswered; while the chat is busy none."""
        self.run_chat(self.view, command="first")
        self.successResultOf(self.stop())
        [one] = self.page().resend_candidates
        self.assertEqual((one.content, one.ordinal), ("first", 5))
        self.run_chat(self.view, command="second")
        self.assertEqual(self.page().resend_candidates, [])

    def test_live_questions_are_in_it(self) -> None:
        """Of the same chat and view, and of the instant of the answer."""
        self.run_chat(self.view)
        self.local.last.ask("o1")
        feed = self.page().transient_feed
        self.assertEqual(
            (feed.chat_id, feed.transcript_view_id, feed.server_instance_id),
            (CHAT, self.view, INSTANCE),
        )
        self.assertEqual([row.permission_occurrence_id for row in feed.rows], ["o1"])
        self.assertEqual(feed.transient_revision, 1)

    def test_a_row_that_fits_no_page(self) -> None:
        """It cannot be loaded that way; what is before and behind it can."""
        self.run_chat(self.view)
        self.local.last.say("x" * MIB)
        self.local.last.finish()
        self.assertEqual(self.page(4).next_after_ordinal, 5)
        self.assertEqual(self.refused(self.subscribe(5)), ("HISTORY_LOAD_FAILED", False))
        self.assertEqual(self.page(6).next_after_ordinal, 7)


class UnpartableTests(FollowingCase):
    """What is unanswered and what is asked live, of any size, makes no page fail (A.6)."""

    def unanswered(self, *commands: str) -> list[str]:
        """Run turns that are stopped before an answer; returns what is unanswered then."""
        for command in commands:
            self.run_chat(self.view, command=command)
            self.successResultOf(self.stop())
        return list(commands)

    def walk(self) -> list[Subscribed]:
        """Read every page from the beginning, each of which advances."""
        pages = [self.page()]
        while pages[-1].has_more:
            after, through = pages[-1].next_after_ordinal, pages[-1].through_ordinal
            pages.append(self.page(after, through))
            self.assertGreater(pages[-1].next_after_ordinal, after)
        shown = [one.ordinal for page in pages for one in page.messages]
        through = pages[-1].through_ordinal
        self.assertEqual(pages[-1].next_after_ordinal, through)
        every = self.messages(limit=200).body["messages"]
        self.assertEqual(shown, [one["ordinal"] for one in every])
        return pages

    def contents(self, page: Subscribed) -> list[str]:
        """What a page says is unanswered."""
        return [one.content for one in page.resend_candidates]

    def size(self, page: Subscribed) -> int:
        """How large a page is on its way."""
        return len(msgspec.json.encode(page))

    def test_unanswered_text_of_more_than_a_page(self) -> None:
        """All of it is told, with an empty page at the end and with every page on the way there."""
        wanted = self.unanswered(*(letter * 300_000 for letter in "abcd"))
        last = self.walk()[-1].through_ordinal
        end = self.page(last)
        self.assertEqual((end.messages, end.last_ordinal, end.has_more), ([], last, False))
        for page in (*self.walk(), end):
            self.assertEqual(self.contents(page), wanted)

    def test_a_live_question_of_more_than_a_page(self) -> None:
        """Behind its row, which fits no page itself, it is asked."""
        self.run_chat(self.view)
        self.local.last.ask("o1", "x" * MIB)
        end = self.page(6)
        self.assertEqual((end.messages, end.has_more), ([], False))
        self.assertEqual([row.permission_occurrence_id for row in end.transient_feed.rows], ["o1"])
        self.assertEqual(self.refused(self.subscribe(5)), ("HISTORY_LOAD_FAILED", False))

    def test_live_questions_of_a_page_together(self) -> None:
        """Each row of theirs still is on a page."""
        self.run_chat(self.view)
        for name in ("o1", "o2"):
            self.local.last.ask(name, "x" * (MIB // 2))
        for page in self.walk():
            self.assertEqual(len(page.transient_feed.rows), 2)

    def test_what_fits_beside_rows_counts(self) -> None:
        """As long as pages advance so, the whole of each is no larger than a page may be."""
        wanted = self.unanswered(*(letter * 100_000 for letter in "abcdef"))
        pages = self.walk()
        self.assertGreater(len(pages), 1)
        for page in pages:
            self.assertEqual(self.contents(page), wanted)
            self.assertLessEqual(self.size(page), MIB)

    def test_the_newest_unanswered_is_told_where_a_message_cannot_hold_all(self) -> None:
        """The oldest is left out, though the next input carries it."""
        wanted = self.unanswered(*(letter * (4 * MIB) for letter in "abcd"))
        last = self.messages().body["lastOrdinal"]
        self.assertEqual(self.contents(self.page(last)), wanted[1:])
        self.assertLess(self.size(self.page(last)), SocketLimits().message)


class BrokenStore(MemoryStore):
    """Its reads fail once it `is_broken`."""

    is_broken = False

    def read_rows(
        self, view_id: str, first: int, last: int, most_bytes: int | None = None
    ) -> Deferred[list[Row]]:
        if self.is_broken:
            return fail(NotStored("its disk is gone"))
        return super().read_rows(view_id, first, last, most_bytes)


class BrokenStoreTests(FollowingCase):
    """A store that cannot read now."""

    def make_store(self) -> IStore:
        self.broken = BrokenStore()
        return self.broken

    def test_it_may_be_tried_again(self) -> None:
        """Nothing says that the rows are damaged."""
        self.broken.is_broken = True
        self.assertEqual(self.refused(self.subscribe(0)), ("INTERNAL_ERROR", True))
        self.broken.is_broken = False
        self.assertEqual(self.page().last_ordinal, 4)


class MeanwhileTests(FollowingCase):
    """What changes while rows are read."""

    def make_store(self) -> IStore:
        self.slow = SlowStore()
        return self.slow

    def test_a_turn_that_begins_takes_the_candidates_away(self) -> None:
        """They are those of the answer's instant, and so are the questions."""
        self.run_chat(self.view, command="first")
        self.successResultOf(self.stop())
        self.slow.is_slow = True
        d = self.subscribe(0)
        self.slow.is_slow = False
        self.run_chat(self.view, command="second")
        self.local.last.ask("o1")
        self.slow.read()
        page = self.successResultOf(d)
        self.assertEqual(page.resend_candidates, [])
        self.assertEqual(len(page.transient_feed.rows), 1)
        self.assertEqual(page.through_ordinal, 6)

    def test_a_chat_that_is_deleted(self) -> None:
        """It is gone for this reader too."""
        self.slow.is_slow = True
        d = self.subscribe(0)
        self.asked(operations.DELETE_CHAT, {"chatId": CHAT})
        self.slow.read()
        self.assertEqual(self.refused(d), UNKNOWN)


class QueryTests(FollowingCase):
    """What the chats do, and their controls."""

    def test_every_busy_chat_once_by_its_id(self) -> None:
        """Idle ones are absent."""
        self.assertEqual(self.answers.processing().chats, [])
        self.start(chatId=OTHER, executorId=WORKER)
        self.run_chat(self.view)
        busy = [ProcessingChat(CHAT, "running"), ProcessingChat(OTHER, "running")]
        self.assertEqual(self.answers.processing().chats, busy)
        self.executors.states[WORKER] = "reconnecting"
        self.local.holds_aborts = True
        self.stop()
        phases = [(one.chat_id, one.phase) for one in self.answers.processing().chats or []]
        self.assertEqual(phases, [(CHAT, "stopping"), (OTHER, "reconnecting")])

    def test_controls_follow_the_request(self) -> None:
        """A chat that does not exist is said to."""
        found = self.answers.controls([OTHER, CHAT])
        self.assertEqual(found[0], ControlResult(chat_id=OTHER, outcome="not-found"))
        assert found[1].control is not UNSET
        self.assertEqual(found[1].outcome, "snapshot")
        self.assertEqual(found[1].control.server_instance_id, INSTANCE)
        self.assertEqual(found[1].control.version, 0)


class ToldTests(ChatsTestCase):
    """What every socket is told of a chat, and in which order."""

    def rows(self) -> list[ChatMessages]:
        """What was told of rows."""
        return [event for event in self.told if isinstance(event, ChatMessages)]

    def test_rows_of_an_idle_chat_come_with_its_candidates(self) -> None:
        """Those of a busy one with none."""
        view = self.started()
        self.run_chat(view, command="first")
        self.successResultOf(self.stop())
        self.add_row(view)
        self.assertEqual([one.content for one in self.rows()[-1].resend_candidates], ["first"])
        self.run_chat(view, command="second")
        self.assertEqual(self.rows()[-1].resend_candidates, [])
        self.add_row(view)
        self.assertEqual(self.rows()[-1].resend_candidates, [])

    def test_of_its_candidates_the_newest_that_a_message_holds(self) -> None:
        """The rows are told, however much is unanswered."""
        view = self.started()
        for letter in "abcd":
            self.run_chat(view, command=letter * (4 * MIB))
            self.successResultOf(self.stop())
        self.add_row(view)
        told = self.rows()[-1]
        self.assertEqual([one.content[0] for one in told.resend_candidates], ["b", "c", "d"])
        self.assertLess(len(msgspec.json.encode(told)), SocketLimits().message)

    def test_after_a_restart_too(self) -> None:
        """Though nobody has asked for them yet."""
        view = self.started()
        self.run_chat(view, command="first")
        self.restart()
        self.add_row(view)
        self.assertEqual([one.content for one in self.rows()[-1].resend_candidates], ["first"])

    def test_nothing_is_told_of_a_chat_whose_start_failed_but_that_it_is_gone(self) -> None:
        """Its input was told of, so its end has to be."""
        self.local.launch_error = GarconError("X", "no")
        self.assertEqual(self.start().status, 500)
        kinds = [type(event) for event in self.told]
        self.assertEqual(kinds[-2:], [ProcessingUpdated, SessionDeleted])

    def test_nothing_is_told_of_a_deleted_chat(self) -> None:
        """Not even what a decision on its way to the agent comes to."""
        view = self.started()
        turn = self.run_chat(view).body["turnId"]
        self.local.last.ask("o1")
        self.local.deliveries.append(Deferred())
        [fate] = self.local.deliveries
        control = {
            "serverInstanceId": INSTANCE,
            "chatId": CHAT,
            "runId": turn,
            "permissionOccurrenceId": "o1",
        }
        body = {
            "clientRequestId": "d",
            "chatId": CHAT,
            "permissionOccurrenceId": "o1",
            "allow": True,
            "alwaysAllow": False,
            "control": control,
        }
        decision = self.ask(operations.PERMISSION_DECISION, body)
        self.assertEqual(self.asked(operations.DELETE_CHAT, {"chatId": CHAT}).status, 200)
        self.assertIsInstance(self.told[-1], SessionDeleted)
        told = len(self.told)
        fate.callback("confirmed")
        self.successResultOf(decision)
        self.chats.availability_changed("local")
        self.assertEqual(len(self.told), told)

    def test_what_is_too_much_for_one_message_is_told_in_several(self) -> None:
        """Their spans join, and only the last one ends the turn."""
        view = self.started()
        self.run_chat(view)
        self.memory.held = True
        self.local.last.say("x" * MIB)
        self.local.last.say("y" * MIB)
        self.local.last.finish()
        told = len(self.rows())
        self.memory.release()
        spans = [(one.first_ordinal, one.last_ordinal) for one in self.rows()[told:]]
        self.assertEqual(spans, [(6, 6), (7, 7), (8, 8)])
        named = [one.turn_id is not UNSET for one in self.rows()[told:]]
        self.assertEqual(named, [False, False, True])

    def add_row(self, view: str) -> None:
        """Append a chat row."""
        body: dict[str, Any] = {
            "clientRequestId": self.request_id(),
            "clientMessageId": f"row-{self.requests}",
            "chatId": CHAT,
            "transcriptViewId": view,
            "content": "a row",
            "type": "info",
        }
        answer = self.asked(operations.ADD_ROW, body)
        self.assertIn(answer.status, (200, 201), answer.body)
        self.assertEqual(answer.body["status"], "appended")
