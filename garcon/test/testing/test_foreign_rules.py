"""The client of somebody else fails where it should: what it takes, and what it does not."""

from __future__ import annotations

import copy
import json
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from garcon.testing.foreign_answers import judge
from garcon.testing.foreign_rules import (
    CONTROL,
    MESSAGES,
    Malformed,
    OneOf,
    check,
    count,
    iso,
    maybe,
    message,
    page_relations,
    positive,
    text,
)
from garcon.testing.foreign_socket import SAID, Judgement

AT = "2026-01-02T03:04:05.678Z"
CHAT = "1767000000000001"
VIEW = "view"
QUEUE: dict[str, Any] = {
    "entries": [],
    "steeringEntryId": None,
    "recentlyDispatched": [],
    "pause": None,
    "reorderRevision": 0,
}
IDLE = {"serverInstanceId": "i", "version": 0, "updatedAt": None, "queue": QUEUE}


def row(ordinal: int, content: str = "x") -> dict[str, Any]:
    """Return an input's row."""
    said = {"type": "user-message", "timestamp": AT, "content": content}
    return {"ordinal": ordinal, "message": said}


def rows(first: int, last: int, **more: Any) -> dict[str, Any]:
    """Return the message that tells of a span."""
    return {
        "type": "chat-messages",
        "chatId": CHAT,
        "transcriptViewId": VIEW,
        "messages": [row(first)],
        "firstOrdinal": first,
        "lastOrdinal": last,
        "resendCandidates": [],
        **more,
    }


class ShapeTests(SynchronousTestCase):
    """Single values."""

    def test_scalars(self) -> None:
        """A boolean is no number, a time has milliseconds, a text is not blank."""
        for shape, good, bad in (
            (count, [0, 2**53 - 1], [True, -1, 1.0, "1", None, 2**53]),
            (positive, [1], [0, None]),
            (text, ["x"], ["", " ", None, 1]),
            (iso, [AT], ["2026-01-02T03:04:05Z", "2026-01-02 03:04:05.678Z", f"{AT} ", None]),
            ({"a", 1}, ["a", 1], ["b", None, []]),
            (maybe(text), [None, "x"], ["", 1]),
            (None, [None], [0, ""]),
            ([count], [[], [1]], [None, {}, ["x"]]),
        ):
            for value in good:
                check(value, shape)
            for value in bad:
                with self.assertRaises(Malformed, msg=repr(value)):
                    check(value, shape)

    def test_members(self) -> None:
        """What must be there, what may be absent but never null, and what is nobody's business."""
        shape = {"a": text, "b?": count}
        for good in ({"a": "x"}, {"a": "x", "b": 1}, {"a": "x", "c": None}):
            check(good, shape)
        wrong: list[Any] = [{}, {"a": None}, {"a": "x", "b": None}, [], None]
        for bad in wrong:
            self.assertRaises(Malformed, check, bad, shape)
        self.assertRaises(Malformed, check, {"a": 1}, OneOf(({"b": text}, {"a": text})))

    def test_controls(self) -> None:
        """All five members of a queue, and pauses of the kinds there are."""
        check(IDLE, CONTROL)
        for name in QUEUE:
            without = {key: value for key, value in QUEUE.items() if key != name}
            self.assertRaises(Malformed, check, IDLE | {"queue": without}, CONTROL)
        for pause, is_good in (
            ({"id": "p", "kind": "manual", "pausedAt": AT}, True),
            ({"id": "p", "kind": "manual", "pausedAt": None}, False),
            ({"id": "p", "kind": "queued-turn-failed", "pausedAt": AT}, False),
            ({"id": "p", "kind": "unknown", "pausedAt": None}, True),
        ):
            value = IDLE | {"queue": QUEUE | {"pause": pause}}
            if is_good:
                check(value, CONTROL)
            else:
                self.assertRaises(Malformed, check, value, CONTROL)

    def test_messages(self) -> None:
        """Of the catalogue, with all that they must have."""
        self.assertIn("bash-tool-use", MESSAGES)
        message(row(1)["message"])
        for bad in (
            {"type": "user-message", "timestamp": AT},
            {"type": "user-message", "content": "x"},
            {"type": "telepathy", "timestamp": AT},
            {"type": "tool-result", "timestamp": AT, "toolId": "t", "content": "x"},
        ):
            self.assertRaises(Malformed, message, bad)

    def test_pages(self) -> None:
        """A page that lies about its place is none."""
        good = {
            "messages": [row(4), row(5)],
            "lastOrdinal": 6,
            "pageOldestOrdinal": 4,
            "pageNewestOrdinal": 6,
            "nextBeforeOrdinal": 4,
            "hasMore": True,
        }
        page_relations(good, 3)
        changes: list[dict[str, Any]] = [
            {"nextBeforeOrdinal": 3},
            {"nextBeforeOrdinal": None},
            {"hasMore": False},
            {"pageOldestOrdinal": 5},
            {"lastOrdinal": 5},
            {"messages": [row(5), row(4)]},
            {"messages": []},
        ]
        for change in changes:
            self.assertRaises(Malformed, page_relations, good | change, 3)


class AnswerTests(SynchronousTestCase):
    """Whole answers."""

    def test_failures(self) -> None:
        """Are envelopes, but for the routes that are of older times."""
        whole = {"success": False, "error": "x", "errorCode": "X", "retryable": False}
        judge("GET", "/chats", {}, 404, whole)
        judge("GET", "/models", {}, 400, {"error": "x"})
        for name in whole:
            part = {key: value for key, value in whole.items() if key != name}
            self.assertRaises(Malformed, judge, "GET", "/chats", {}, 404, part)
        self.assertRaises(Malformed, judge, "GET", "/nowhere", {}, 200, {})

    def test_histories(self) -> None:
        """Complete or degraded, each with its own members and no others."""
        page = {
            "historyState": {"kind": "complete"},
            "chatId": CHAT,
            "transcriptViewId": VIEW,
            "messages": [row(1)],
            "lastOrdinal": 1,
            "pageOldestOrdinal": 1,
            "pageNewestOrdinal": 1,
            "nextBeforeOrdinal": None,
            "hasMore": False,
            "resendCandidates": [],
            "limit": 20,
        }
        state = {"kind": "degraded", "errorCode": "LEDGER_FENCED", "retryable": False}
        degraded = {"historyState": state, "chatId": CHAT, "messages": []}
        for good in (page, degraded):
            judge("GET", "/chats/messages", {}, 200, good)
        for bad in (
            page | {"limit": 10},
            page | {"historyState": {"kind": "complete", "x": 1}},
            degraded | {"lastOrdinal": 0},
            degraded | {"historyState": state | {"x": 1}},
        ):
            self.assertRaises(Malformed, judge, "GET", "/chats/messages", {}, 200, bad)


class SocketTests(SynchronousTestCase):
    """One socket's messages, in their order."""

    def setUp(self) -> None:
        self.judgement = Judgement()

    def heard(self, **said: Any) -> None:
        """Hear a message."""
        self.judgement.heard(json.dumps(said).encode())

    def refuse(self, **said: Any) -> None:
        """Hear one that must not be."""
        before = copy.deepcopy(self.judgement)
        with self.assertRaises(Malformed):
            self.heard(**said)
        self.judgement = before

    def test_unknown_and_malformed(self) -> None:
        """Fail at once."""
        self.refuse(type="executor-changed")
        self.refuse(type="chat-session-created")
        self.refuse(type="chat-processing-updated", chatId=CHAT, phase="reconnecting")
        self.heard(type="chat-processing-updated", chatId=CHAT, phase=None)
        for kind in SAID:
            self.refuse(type=kind)

    def test_spans_join(self) -> None:
        """In one view, from wherever they begin."""
        self.heard(**rows(3, 4))
        self.refuse(**rows(6, 6))
        self.refuse(**rows(4, 5))
        self.refuse(**rows(5, 5, transcriptViewId="other"))
        self.refuse(**rows(5, 5, messages=[row(6)]))
        self.heard(**rows(5, 5))

    def test_candidates_of_a_chat_that_is_processing(self) -> None:
        """There are none."""
        some = [{"ordinal": 1, "content": "x", "attachmentNames": []}]
        self.heard(**rows(1, 1, resendCandidates=some))
        self.heard(type="chat-processing-updated", chatId=CHAT, phase="running")
        self.refuse(**rows(2, 2, resendCandidates=some))

    def test_the_end_of_a_turn(self) -> None:
        """Comes when the chat was given back."""
        ended = {"type": "agent-run-finished", "chatId": CHAT, "turnId": "t"}
        self.heard(type="chat-processing-updated", chatId=CHAT, phase="running")
        self.refuse(**ended)
        self.heard(type="chat-processing-updated", chatId=CHAT, phase=None)
        self.heard(**ended)
        self.refuse(**ended)

    def test_a_deleted_chat(self) -> None:
        """Is silent until its id is used again."""
        self.heard(**rows(1, 1))
        self.heard(type="chat-session-deleted", chatId=CHAT)
        self.refuse(type="chat-title-updated", chatId=CHAT, title="x")
        self.refuse(**rows(2, 2))
        self.heard(**rows(1, 1))

    def test_one_instance(self) -> None:
        """A socket has one server."""
        control = {"type": "chat-execution-control-updated", "chatId": CHAT}
        self.heard(**control, control=IDLE | {"version": 1})
        self.refuse(**control, control=IDLE | {"version": 2, "serverInstanceId": "j"})
        self.refuse(**control, control=IDLE | {"version": 1})
        self.heard(**control, control=IDLE | {"version": 2})
