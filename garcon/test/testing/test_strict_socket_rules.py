"""The strict socket notices what an existing client would not bear."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from twisted.trial.unittest import SynchronousTestCase

from garcon.testing.strict_socket_rules import Hearing

AT = "2026-01-02T03:04:05.678Z"


def rows(first: int, last: int, *shown: int, **more: Any) -> dict[str, Any]:
    """A batch of rows of chat 1."""
    messages = [
        {"ordinal": n, "message": {"type": "assistant-message", "timestamp": AT, "content": "x"}}
        for n in shown
    ]
    return {
        "type": "chat-messages",
        "chatId": "1",
        "transcriptViewId": "v",
        "messages": messages,
        "firstOrdinal": first,
        "lastOrdinal": last,
        "resendCandidates": [],
        **more,
    }


def phase(value: str | None) -> dict[str, Any]:
    """What chat 1 does."""
    return {"type": "chat-processing-updated", "chatId": "1", "phase": value}


def finished(turn: str = "t") -> dict[str, Any]:
    """The end of a turn."""
    return {
        "type": "agent-run-finished",
        "chatId": "1",
        "turnId": turn,
        "clientRequestId": "r",
    }


def mutated(revision: int, **mutation: Any) -> dict[str, Any]:
    """A change of the feed."""
    return {
        "type": "chat-transient-feed-mutation",
        "serverInstanceId": "i",
        "chatId": "1",
        "transcriptViewId": "v",
        "transientRevision": revision,
        "mutation": mutation,
    }


def pong(**more: Any) -> dict[str, Any]:
    """The answer to a ping."""
    return {
        "type": "ws-pong",
        "clientRequestId": "p",
        "sentAt": 1,
        "serverTime": AT,
        "processing": {"outcome": "snapshot", "chats": []},
        "serverInstanceId": "i",
        **more,
    }


def subscribed(**more: Any) -> dict[str, Any]:
    """A page."""
    return {
        "type": "chat-subscribed",
        "clientRequestId": "s",
        "chatId": "1",
        "transcriptViewId": "v",
        "messages": [],
        "firstOrdinal": 6,
        "lastOrdinal": 7,
        "nextAfterOrdinal": 7,
        "throughOrdinal": 9,
        "hasMore": True,
        "resendCandidates": [],
        "transientFeed": {
            "serverInstanceId": "i",
            "chatId": "1",
            "transcriptViewId": "v",
            "transientRevision": 0,
            "rows": [],
        },
        **more,
    }


class HearingTests(SynchronousTestCase):
    """One socket's messages."""

    def setUp(self) -> None:
        self.hearing = Hearing()

    def hear(self, *messages: dict[str, Any]) -> None:
        """What is in order."""
        for message in messages:
            self.hearing.heard(json.dumps(message).encode())

    def wrong(self, message: dict[str, Any]) -> None:
        """What is not."""
        with self.assertRaises((AssertionError, msgspec.ValidationError)):
            self.hear(message)

    def test_a_turn_in_order(self) -> None:
        """Rows that join, the phase, the end."""
        self.hear(
            phase("running"), rows(1, 1, 1), rows(2, 4, 3, turnId="t"), phase(None), finished()
        )

    def test_a_shape_key_for_key(self) -> None:
        """Unknown, missing, superfluous and mistyped members."""
        self.wrong({"type": "chat-whatever", "chatId": "1"})
        self.wrong({**finished(), "more": 1})
        self.wrong({**finished(), "chatId": None})
        self.wrong({key: value for key, value in finished().items() if key != "turnId"})
        self.wrong({**finished(), "chatId": "  "})
        self.wrong(rows(1, 1, 1) | {"messages": [{"ordinal": 1, "message": {"type": "odd"}}]})

    def test_rows_join(self) -> None:
        """No gap, no overlap, no other view, no row outside, no order but one."""
        self.hear(rows(5, 6, 5))
        for wrong in (
            *(rows(6, 7), rows(8, 8), rows(7, 6)),
            *(rows(7, 8, 9), rows(7, 8, 8, 7), rows(7, 7, 7, transcriptViewId="w")),
        ):
            self.wrong(wrong)
        self.hear(rows(7, 8, 7, 8))

    def test_candidates_are_for_idle_chats(self) -> None:
        """And ascend."""
        some: list[Any] = [{"ordinal": n, "content": "x", "attachmentNames": []} for n in (1, 2)]
        self.hear(rows(3, 3, resendCandidates=some))
        self.wrong(rows(4, 4, resendCandidates=some[::-1]))
        self.hear(phase("running"))
        self.wrong(rows(4, 4, resendCandidates=some))

    def test_an_input_is_not_in_the_batch_that_ends_a_turn(self) -> None:
        """A client would take it for another turn's."""
        user = {"type": "user-message", "timestamp": AT, "content": "x", "metadata": {}}
        self.wrong(rows(1, 2, turnId="t") | {"messages": [{"ordinal": 1, "message": user}]})

    def test_a_turn_ends_once_and_last(self) -> None:
        """Not while the chat is processing, not before its rows, not twice."""
        self.hear(phase("running"))
        self.wrong(finished())
        self.hear(rows(1, 1, turnId="t"), phase(None))
        self.wrong(finished("u"))
        self.hear(finished())
        self.wrong(finished())

    def test_phases_of_newer_clients(self) -> None:
        """Others may not hear of them."""
        self.wrong(phase("reconnecting"))
        self.hearing = Hearing(is_newer=True)
        self.hear(phase("reconnecting"))

    def test_the_feed_counts(self) -> None:
        """One by one, with what belongs to the view."""
        self.hear(mutated(4, kind="remove", permissionOccurrenceId="o"))
        self.wrong(mutated(6, kind="clear-run", runId="r"))
        self.wrong(mutated(4, kind="clear-run", runId="r"))
        self.hear(mutated(5, kind="clear-run", runId="r"))
        self.wrong(mutated(6, kind="clear-run", runId="r") | {"serverInstanceId": "j"})

    def test_after_its_deletion_a_chat_is_silent(self) -> None:
        """Until its id is used anew."""
        self.hear(rows(1, 1, 1), {"type": "chat-session-deleted", "chatId": "1"})
        self.wrong(phase(None))
        self.wrong(rows(2, 2))
        self.hear(rows(1, 1, 1, transcriptViewId="w"))

    def test_answers_answer(self) -> None:
        """What was asked, once."""
        self.wrong(pong())
        self.hearing.asked({"type": "ws-ping", "clientRequestId": "p", "sentAt": 1})
        self.hear(pong())
        self.wrong(pong())
        self.hearing.asked({"type": "ws-ping", "clientRequestId": "p", "sentAt": 2})
        self.wrong(pong())

    def test_a_snapshot_names_each_chat_once_in_order(self) -> None:
        """And has chats where it is one."""
        for processing in (
            {"outcome": "snapshot"},
            {"outcome": "unavailable", "chats": []},
            {"outcome": "snapshot", "chats": [{"chatId": n, "phase": "running"} for n in "21"]},
            {"outcome": "snapshot", "chats": [{"chatId": "1", "phase": "running"}] * 2},
            {"outcome": "snapshot", "chats": [{"chatId": "1", "phase": "reconnecting"}]},
        ):
            self.hearing.asked({"type": "ws-ping", "clientRequestId": "p", "sentAt": 1})
            self.wrong(pong(processing=processing))

    def test_a_page_is_what_was_asked_for(self) -> None:
        """Every relation of A.6."""
        request = {
            "type": "chat-subscribe",
            "clientRequestId": "s",
            "chatId": "1",
            "transcriptViewId": "v",
            "afterOrdinal": 5,
            "throughOrdinal": 9,
        }
        large = {"type": "assistant-message", "timestamp": AT, "content": "x" * 1_100_000}
        for wrong in (
            *({"firstOrdinal": 5}, {"lastOrdinal": 6}, {"hasMore": False}, {"throughOrdinal": 8}),
            {"nextAfterOrdinal": 5, "lastOrdinal": 5},
            {"nextAfterOrdinal": 10, "lastOrdinal": 10},
            *({"chatId": "2"}, {"transcriptViewId": "w"}),
            {"messages": rows(1, 9, 8)["messages"]},
            {"messages": [{"ordinal": 6, "message": large}]},
            {"transientFeed": subscribed()["transientFeed"] | {"chatId": "2"}},
        ):
            self.hearing.asked(request)
            self.wrong(subscribed(**wrong))
        self.hearing.asked(request)
        self.hear(subscribed())
        self.hearing.asked(request | {"throughOrdinal": 900})
        self.wrong(subscribed(throughOrdinal=900, nextAfterOrdinal=206, lastOrdinal=206))
