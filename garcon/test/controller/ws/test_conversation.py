"""What a socket asks and is answered, side by side and within bounds (server.md A.4 to A.8)."""

from __future__ import annotations

import json
from typing import Any

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from garcon.contract.events import ProcessingChat, Reloaded
from garcon.contract.limits import MIB
from garcon.controller.ws.conversation import ANSWER_TIME, AT_ONCE, FLOOD, RELOADS, WAITING
from garcon.controller.ws.interfaces import IAnswers, IReloading
from garcon.errors import GarconError
from garcon.test.controller.ws.cast import (
    INSTANCE,
    NOW,
    FakeAnswers,
    FakeReloading,
    FakeWire,
    new_socket,
)


class ConversationCase(SynchronousTestCase):
    """One open socket."""

    is_newer = False

    def setUp(self) -> None:
        self.clock = Clock()
        self.answers = FakeAnswers()
        self.socket = new_socket(self.clock, is_newer=self.is_newer)
        self.wire = FakeWire(self.socket)
        self.socket.opened(self.wire, self.answers)
        self.addCleanup(self.socket.closed)

    def say(self, kind: str, **fields: Any) -> list[Any]:
        """Send a message; returns what is answered at once."""
        self.socket.received(json.dumps({"type": kind, **fields}).encode())
        return self.wire.said()

    def subscribe(self, request_id: str = "s") -> list[Any]:
        """Ask for a page."""
        return self.say(
            "chat-subscribe",
            clientRequestId=request_id,
            chatId="1",
            transcriptViewId="v",
            afterOrdinal=0,
        )

    def error(self, code: str, retryable: bool, kind: str = "chat-subscribe") -> dict[str, Any]:
        """An error that is answered, but for its text."""
        return {
            "type": "client-request-error",
            "clientRequestId": "s",
            "requestType": kind,
            "code": code,
            "retryable": retryable,
            "chatId": "1",
        }

    def failed(self, answers: list[Any]) -> dict[str, Any]:
        """The one error among the answers, without its text."""
        [answer] = answers
        self.assertTrue(answer.pop("message").strip())
        failed: dict[str, Any] = answer
        return failed


class AnswerTests(ConversationCase):
    """Answers that come at once."""

    def test_the_doubles_are_what_they_stand_for(self) -> None:
        """They provide the real ones' interfaces."""
        self.assertTrue(verifyObject(IAnswers, self.answers))
        self.assertTrue(verifyObject(IReloading, FakeReloading()))

    def test_a_ping(self) -> None:
        """Its id and instant come back, with what the chats do."""
        self.answers.busy = [ProcessingChat("1", "running")]
        self.assertEqual(
            self.say("ws-ping", clientRequestId="p", sentAt=5),
            [
                {
                    "type": "ws-pong",
                    "clientRequestId": "p",
                    "sentAt": 5,
                    "serverTime": NOW,
                    "processing": {
                        "outcome": "snapshot",
                        "chats": [{"chatId": "1", "phase": "running"}],
                    },
                    "serverInstanceId": INSTANCE,
                }
            ],
        )

    def test_what_cannot_be_computed_is_unavailable(self) -> None:
        """The ping is answered all the same."""
        self.answers.error = ValueError("x")
        [pong] = self.say("ws-ping", clientRequestId="p")
        self.assertEqual(pong["processing"], {"outcome": "unavailable"})
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)

    def test_a_reconnect_query(self) -> None:
        """Its controls in order; the id only where there was one."""
        [state] = self.say("reconnect-state-query", controlChatIds=["2", "1"])
        self.assertEqual(
            state,
            {
                "type": "reconnect-state",
                "processing": {"outcome": "snapshot", "chats": []},
                "controlResults": [
                    {"chatId": "2", "outcome": "not-found"},
                    {"chatId": "1", "outcome": "not-found"},
                ],
                "serverInstanceId": INSTANCE,
            },
        )
        [state] = self.say("reconnect-state-query", clientRequestId="q", controlChatIds=[])
        self.assertEqual(state["clientRequestId"], "q")

    def test_a_reconnect_query_that_fails(self) -> None:
        """An error for its id, a fault without one; the cause stays in the log."""
        self.answers.error = ValueError("secret")
        failed = self.failed(self.say("reconnect-state-query", clientRequestId="s"))
        wanted = self.error("INTERNAL_ERROR", True, "reconnect-state-query")
        del wanted["chatId"]
        self.assertEqual(failed, wanted)
        [fault] = self.say("reconnect-state-query")
        self.assertEqual(fault["type"], "ws-fault")
        self.assertNotIn("secret", fault["error"])
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 2)

    def test_a_refused_message_leaves_the_socket_open(self) -> None:
        """What follows is answered."""
        self.socket.received(b"nonsense")
        self.assertEqual(self.wire.said(), [{"type": "ws-fault", "error": "Malformed JSON"}])
        self.assertEqual(len(self.say("ws-ping", clientRequestId="p")), 1)
        self.assertEqual(self.wire.aborts, 0)

    def test_what_is_ignored_has_no_answer(self) -> None:
        """Unknown types, terminals where there are none, a cancel of nothing."""
        for kind in ("whatever", "terminal-input", "terminal-attach"):
            self.assertEqual(self.say(kind, clientRequestId="a"), [])
        self.assertEqual(self.say("chat-reload", chatId="1"), [])
        self.assertEqual(self.say("chat-reload-cancel", chatId="1", reloadRequestId="a"), [])


class PageTests(ConversationCase):
    """Pages of a replay."""

    def test_a_page(self) -> None:
        """It is sent as soon as it is read."""
        self.assertEqual(self.subscribe(), [])
        self.answers.turn()
        [answer] = self.wire.said()
        self.assertEqual((answer["type"], answer["clientRequestId"]), ("chat-subscribed", "s"))

    def test_failures_are_answered_with_their_codes(self) -> None:
        """Those of the contract as they are; any other failure is one of the history."""
        for error, code, retryable in (
            (GarconError("SESSION_NOT_FOUND", "x"), "SESSION_NOT_FOUND", False),
            (GarconError("STALE_TRANSCRIPT_VIEW", "x"), "STALE_TRANSCRIPT_VIEW", False),
            (GarconError("REQUEST_VALIDATION_FAILED", "x"), "REQUEST_VALIDATION_FAILED", False),
            (GarconError("LEDGER_FENCED", "x"), "HISTORY_LOAD_FAILED", False),
            (GarconError("INTERNAL_ERROR", "x", retryable=True), "HISTORY_LOAD_FAILED", True),
            (ValueError("secret"), "HISTORY_LOAD_FAILED", True),
        ):
            self.subscribe()
            self.answers.pages.pop()[1].errback(error)
            self.assertEqual(self.failed(self.wire.said()), self.error(code, retryable))
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)

    def test_pages_are_read_one_at_a_time(self) -> None:
        """The next one when the last has gone out."""
        for request_id in ("a", "b"):
            self.subscribe(request_id)
        self.assertEqual([one.request_id for one, _ in self.answers.pages], ["a"])
        self.answers.turn()
        self.assertEqual([one.request_id for one, _ in self.answers.pages], ["b"])

    def test_a_page_waits_until_the_socket_takes_it(self) -> None:
        """It is not even read before: memory and disk are not for those who do not listen."""
        self.wire.is_stuck = True
        self.socket.wire_full()
        self.subscribe()
        self.assertEqual(self.answers.pages, [])
        self.wire.drain()
        self.answers.turn()
        self.assertEqual(len(self.wire.said()), 1)

    def test_other_answers_do_not_wait_for_a_page(self) -> None:
        """There is no order among answers."""
        self.subscribe()
        self.assertEqual(len(self.say("ws-ping", clientRequestId="p")), 1)
        self.assertEqual(len(self.say("reconnect-state-query")), 1)

    def test_a_page_that_takes_too_long(self) -> None:
        """It is given up after half a minute, and the next one begins."""
        self.subscribe()
        self.clock.advance(1)
        self.subscribe("later")
        self.clock.advance(ANSWER_TIME - 1.1)
        self.assertEqual(self.wire.said(), [])
        self.clock.advance(0.1)
        self.assertEqual(self.answers.cancelled, 1)
        self.assertEqual(self.failed(self.wire.said()), self.error("REQUEST_TIMEOUT", True))
        self.assertEqual(self.answers.pages[-1][0].request_id, "later")

    def test_the_end_of_the_socket_ends_its_requests(self) -> None:
        """What is read is given up, and nothing else begins."""
        self.subscribe("a")
        self.subscribe("b")
        self.socket.closed()
        self.assertEqual((self.answers.cancelled, len(self.answers.pages)), (1, 1))
        self.assertEqual(self.wire.said(), [])


class BoundTests(ConversationCase):
    """How much one socket may ask at once."""

    def test_eight_requests_are_worked_on_at_once(self) -> None:
        """The ninth waits for one of them."""
        for n in range(AT_ONCE - 1):
            self.subscribe(f"s{n}")
        self.assertEqual(len(self.say("reconnect-state-query")), 1)
        self.subscribe("s")
        self.assertEqual(self.say("reconnect-state-query"), [])
        self.answers.turn()
        kinds = [answer["type"] for answer in self.wire.said()]
        self.assertEqual(kinds, ["chat-subscribed", "reconnect-state"])

    def test_reading_stops_when_too_many_wait(self) -> None:
        """At the bound it goes on, one more holds it, and room lets it go on."""
        for n in range(AT_ONCE + WAITING):
            self.subscribe(f"s{n}")
        self.assertEqual(self.wire.holds, [])
        self.subscribe("more")
        self.assertEqual(self.wire.holds, [True])
        self.answers.turn()
        self.assertEqual(self.wire.holds, [True, False])

    def test_reading_stops_when_too_much_waits(self) -> None:
        """A mebibyte of requests, however few."""
        for n in range(AT_ONCE):
            self.subscribe(f"s{n}")
        self.subscribe("x" * MIB)
        self.assertEqual(self.wire.holds, [True])

    def test_a_flood_closes_its_socket(self) -> None:
        """More than a read buffer can hold: the bound is met at the request."""
        for n in range(AT_ONCE + FLOOD):
            self.subscribe(f"s{n}")
        self.assertEqual(self.wire.aborts, 0)
        self.subscribe("more")
        self.assertEqual(self.wire.aborts, 1)


class ManyReloadsTests(ConversationCase):
    """Reloads are counted apart from other requests: they may take minutes."""

    def reload(self, request_id: str) -> list[Any]:
        """Ask for a reload."""
        return self.say("chat-reload", clientRequestId=request_id, chatId="1")

    def test_nothing_else_waits_for_reloads(self) -> None:
        """Eight that run leave all the room that there is to what else is asked."""
        for n in range(RELOADS):
            self.assertEqual(self.reload(f"r{n}"), [])
        for n in range(AT_ONCE - 1):
            self.subscribe(f"s{n}")
        self.assertEqual(len(self.say("reconnect-state-query")), 1)

    def test_reloads_do_not_wait_for_anything_else(self) -> None:
        """They begin while other requests wait."""
        for n in range(AT_ONCE + 1):
            self.subscribe(f"s{n}")
        self.reload("r")
        self.assertEqual(len(self.answers.reloads), 1)

    def test_one_too_many_is_refused(self) -> None:
        """For now: eight run, the ninth may be tried again, and is taken once one has ended."""
        self.assertEqual(RELOADS, 8)
        for n in range(RELOADS):
            self.reload(f"r{n}")
        self.assertEqual(len(self.answers.reloads), RELOADS)
        wanted = self.error("HISTORY_LOAD_FAILED", True, "chat-reload")
        self.assertEqual(self.failed(self.reload("s")), wanted)
        self.assertEqual(len(self.answers.reloads), RELOADS)
        self.answers.reloads[0][2].done.errback(GarconError("CHAT_RUNNING", "x"))
        self.wire.said()
        self.assertEqual(self.reload("s"), [])
        self.assertEqual(len(self.answers.reloads), RELOADS + 1)

    def test_a_reload_that_is_asked_for_twice_counts_twice(self) -> None:
        """Though both have one name."""
        for _ in range(RELOADS):
            self.reload("s")
        wanted = self.error("HISTORY_LOAD_FAILED", True, "chat-reload")
        self.assertEqual(self.failed(self.reload("s")), wanted)


class ReloadCase(ConversationCase):
    """A reload that is under way."""

    def setUp(self) -> None:
        super().setUp()
        self.say("chat-reload", clientRequestId="s", chatId="1")
        [(_, self.progress, self.reloading)] = self.answers.reloads

    def finish(self) -> list[Any]:
        """Let it succeed."""
        reloaded = Reloaded(
            client_request_id="s",
            chat_id="1",
            transcript_view_id="w",
            messages=[],
            last_ordinal=0,
            page_oldest_ordinal=0,
            page_newest_ordinal=0,
            next_before_ordinal=None,
            has_more=False,
        )
        self.reloading.done.callback(reloaded)
        return self.wire.said()

    def cancel(self, chat: str = "1", request: str = "s") -> None:
        """Ask for it to stop."""
        self.assertEqual(self.say("chat-reload-cancel", chatId=chat, reloadRequestId=request), [])

    def phases(self) -> list[tuple[str, int]]:
        """What progress was told."""
        said = self.wire.said()
        for one in said:
            self.assertEqual(one["type"], "chat-reload-progress")
            self.assertEqual((one["clientRequestId"], one["chatId"]), ("s", "1"))
        return [(one["phase"], one["rows"]) for one in said]


class ReloadTests(ReloadCase):
    """``chat-reload`` of an older client."""

    def test_it_is_answered(self) -> None:
        """With its page."""
        [answer] = self.finish()
        self.assertEqual((answer["type"], answer["transcriptViewId"]), ("chat-reloaded", "w"))

    def test_failures_are_answered_with_their_codes(self) -> None:
        """Whatever is not of the contract is a failure of the history."""
        for error, code, retryable in (
            (GarconError("CHAT_RUNNING", "x", retryable=True), "CHAT_RUNNING", True),
            (GarconError("CHAT_RUNNING", "x"), "CHAT_RUNNING", False),
            (GarconError("REQUEST_CANCELLED", "x", retryable=True), "REQUEST_CANCELLED", True),
            (GarconError("EXECUTOR_UNAVAILABLE", "x", retryable=True), "HISTORY_LOAD_FAILED", True),
            (GarconError("SESSION_NOT_FOUND", "x"), "SESSION_NOT_FOUND", False),
        ):
            self.answers.reloads[-1][2].done.errback(error)
            wanted = self.error(code, retryable, "chat-reload")
            self.assertEqual(self.failed(self.wire.said()), wanted)
            self.say("chat-reload", clientRequestId="s", chatId="1")

    def test_a_cancel_finds_its_reload(self) -> None:
        """By both its ids, and only while it is under way."""
        self.cancel(chat="2")
        self.cancel(request="other")
        self.assertEqual(self.reloading.stopped, 0)
        self.cancel()
        self.assertEqual(self.reloading.stopped, 1)
        self.finish()
        self.cancel()
        self.assertEqual(self.reloading.stopped, 1)

    def test_the_end_of_the_socket_stops_it(self) -> None:
        """Nobody waits for it any more; its timers are gone."""
        self.socket.closed()
        self.assertEqual(self.reloading.stopped, 1)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_short_reload_says_nothing_of_itself(self) -> None:
        """A client that may not know the message is spared it."""
        self.progress("reading", 0)
        self.progress("saving", 5)
        self.assertEqual(self.phases(), [])
        self.finish()
        self.clock.advance(60)
        self.assertEqual(self.wire.said(), [])

    def test_a_long_one_is_told_every_five_seconds(self) -> None:
        """Also while no row comes: its client gives up after thirty of silence."""
        self.progress("reading", 0)
        self.progress("reading", 7)
        self.clock.advance(5)
        self.assertEqual(self.phases(), [("reading", 7)])
        self.clock.pump([5] * 2)
        self.assertEqual(self.phases(), [("reading", 7)] * 2)
        self.progress("saving", 9)
        self.clock.advance(5)
        self.assertEqual(self.phases(), [("saving", 9)])


class NewerReloadTests(ReloadCase):
    """``chat-reload`` of a client that knows of progress."""

    is_newer = True

    def test_each_phase_is_told_at_once(self) -> None:
        """And then every few seconds."""
        self.progress("reading", 0)
        self.progress("reading", 7)
        self.progress("saving", 9)
        self.assertEqual(self.phases(), [("reading", 0), ("saving", 9)])
        self.clock.advance(5)
        self.assertEqual(self.phases(), [("saving", 9)])

    def test_after_its_end_nothing_is_told(self) -> None:
        """Whatever the reload still says."""
        self.finish()
        self.progress("reading", 1)
        self.assertEqual(self.wire.said(), [])


class OlderClientTests(ConversationCase):
    """Phases that only newer clients know (decisions.md 14)."""

    def test_a_chat_that_waits_for_its_executor_runs(self) -> None:
        """In a pong and in a reconnect state."""
        self.answers.busy = [ProcessingChat("1", "reconnecting")]
        for answer in (
            *self.say("ws-ping", clientRequestId="p"),
            *self.say("reconnect-state-query"),
        ):
            self.assertEqual(answer["processing"]["chats"], [{"chatId": "1", "phase": "running"}])


class NewerClientTests(ConversationCase):
    """The same for those who know."""

    is_newer = True

    def test_a_chat_that_waits_for_its_executor_says_so(self) -> None:
        """As it is."""
        self.answers.busy = [ProcessingChat("1", "reconnecting")]
        [pong] = self.say("ws-ping", clientRequestId="p")
        self.assertEqual(pong["processing"]["chats"], [{"chatId": "1", "phase": "reconnecting"}])
