"""A browser's socket written by somebody else: one message that is unknown, malformed or out of its
order, and it stays failed (server.md A.8 to A.11; existing-clients.md).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from attrs import define, field

from garcon.testing.foreign_answers import SETTINGS
from garcon.testing.foreign_rules import (
    CANDIDATE,
    CONTROL,
    FEED,
    LIVE_ROW,
    PAGE,
    PHASES,
    ROW,
    Malformed,
    OneOf,
    Shape,
    boolean,
    check,
    count,
    feed_relations,
    iso,
    live_row,
    maybe,
    need,
    number,
    page_relations,
    positive,
    rows_ascend,
    string,
    text,
)
from garcon.testing.foreign_terminals import TerminalJudgement
from garcon.testing.heard_socket import HeardSocket
from garcon.testing.websocket_client import WAIT, WebSocketClient

Message = dict[str, Any]

_IDS = {"turnId?": text, "clientRequestId?": text, "upstreamRequestId?": text}
_PROCESSING = OneOf(
    (
        {"outcome": {"snapshot"}, "chats": [{"chatId": text, "phase": PHASES}]},
        {"outcome": {"unavailable"}},
    )
)
_MUTATION = OneOf(
    (
        {"kind": {"upsert"}, "row": LIVE_ROW},
        {"kind": {"remove"}, "permissionOccurrenceId": text},
        {"kind": {"clear-run"}, "runId": text},
    )
)
_RESULT = OneOf(
    (
        {"chatId": text, "outcome": {"snapshot"}, "control": CONTROL},
        {"chatId": text, "outcome": {"not-found", "unavailable"}},
    )
)
_REASONS = {"chat-added", "pinned-toggled", "archive-toggled", "tags-updated", "chats-reordered"}
_CODES = {
    *("MISSING_CHAT_ID", "REQUEST_VALIDATION_FAILED", "SESSION_NOT_FOUND", "CHAT_RUNNING"),
    *("NATIVE_PATH_UNRESOLVED", "HISTORY_LOAD_FAILED", "STALE_TRANSCRIPT_VIEW"),
    *("REQUEST_TIMEOUT", "INTERNAL_ERROR"),
}
SAID: dict[str, dict[str, Shape]] = {
    "chat-messages": {
        "chatId": text,
        "transcriptViewId": text,
        "messages": [ROW],
        "firstOrdinal": positive,
        "lastOrdinal": count,
        "resendCandidates": [CANDIDATE],
        **_IDS,
    },
    "chat-subscribed": {
        "clientRequestId": text,
        "chatId": text,
        "transcriptViewId": text,
        "messages": [ROW],
        "firstOrdinal": positive,
        "lastOrdinal": count,
        "nextAfterOrdinal": count,
        "throughOrdinal": count,
        "hasMore": boolean,
        "resendCandidates": [CANDIDATE],
        "transientFeed": FEED,
    },
    "chat-transcript-replaced": {
        "chatId": text,
        "previousTranscriptViewId": text,
        "transcriptViewId": text,
        "lastOrdinal": {0},
    },
    "chat-transient-feed-mutation": {
        "serverInstanceId": text,
        "chatId": text,
        "transcriptViewId": text,
        "transientRevision": count,
        "mutation": _MUTATION,
    },
    "chat-reloaded": {"clientRequestId": text, "chatId": text, "transcriptViewId": text, **PAGE},
    "agent-run-finished": {"chatId": text, "exitCode?": number, **_IDS},
    "agent-run-failed": {"chatId": text, "error": text, **_IDS},
    "chat-session-created": {"chatId": text},
    "chat-project-path-updated": {
        "chatId": text,
        "projectPath": text,
        "effectiveProjectKey": text,
        "previousProjectPath": text,
        "previousEffectiveProjectKey": maybe(string),
    },
    "chat-session-stopped": {
        "chatId": text,
        "outcome": {"interrupt-requested", "already-idle", "failed"},
        "intent": {"stop", "interrupt-and-send", "chat-deletion"},
    },
    "chat-processing-updated": {"chatId": text, "phase": maybe(PHASES)},
    "chat-execution-control-updated": {"chatId": text, "control": CONTROL},
    "chat-operational-notice": {
        "chatId": text,
        "content": text,
        "noticeType": {"warning", "error"},
        "timestamp": iso,
    },
    "reconnect-state": {
        "processing": _PROCESSING,
        "controlResults": [_RESULT],
        "serverInstanceId": text,
        "clientRequestId?": text,
    },
    "ws-pong": {
        "clientRequestId": text,
        "sentAt": number,
        "serverTime": iso,
        "processing": _PROCESSING,
        "serverInstanceId": text,
    },
    "ws-fault": {"error": text},
    "client-request-error": {
        "clientRequestId": text,
        "requestType": text,
        "code": _CODES,
        "message": string,
        "retryable": boolean,
        "chatId?": text,
    },
    "chat-title-updated": {"chatId": text, "title": string},
    "chat-session-deleted": {"chatId": text},
    "chat-read-updated-v1": {"chatId": text, "lastReadAt": text},
    "chat-list-refresh-requested": {"chatId": text, "reason": _REASONS | {"agent-handoff"}},
    "settings-changed": {"settings": SETTINGS},
}
"""Everything that an older client knows of what this controller has to say."""


@define
class Judgement:
    """What one socket has heard so far, and what that leaves to be said."""

    instance: str | None = None
    _cursors: dict[str, tuple[str, int]] = field(factory=dict)
    _processing: set[str] = field(factory=set)
    _deleted: set[str] = field(factory=set)
    _versions: dict[str, int] = field(factory=dict)
    _ended: set[str] = field(factory=set)
    terminals: TerminalJudgement = field(factory=TerminalJudgement)

    def heard(self, raw: bytes) -> Message:
        """Return a message; raises `Malformed`."""
        said: Message = json.loads(raw)
        kind = said.get("type")
        if str(kind).startswith("terminal-"):
            self.terminals.heard(raw, said)
            return said
        if kind not in SAID:
            raise Malformed(f"a message of the unknown type {kind!r}: {said}")
        check(said, SAID[kind], str(kind))
        instance = said.get("serverInstanceId") or said.get("control", {}).get("serverInstanceId")
        if instance is not None:
            need(instance == (self.instance or instance), said, "one instance")
            self.instance = instance
        self._relations(str(kind), said, len(raw))
        return said

    def _relations(self, kind: str, said: Message, size: int) -> None:
        chat = said.get("chatId", "")
        # Nothing more is said of a deleted chat, and its id may be used again.
        if chat in self._deleted and "clientRequestId" not in said:
            again = said.get("phase") == "running" or said.get("firstOrdinal") == 1
            need(again, said, "a deleted chat")
            self._deleted.discard(chat)
        match kind:
            case "chat-messages":
                self._rows(said)
            case "chat-subscribed":
                _subscribed(said, size)
            case "chat-reloaded":
                page_relations(said, 100)
                need(said["pageNewestOrdinal"] == said["lastOrdinal"], said, "the newest page")
            case "chat-transcript-replaced":
                self._cursors.pop(chat, None)
            case "chat-transient-feed-mutation":
                if said["mutation"]["kind"] == "upsert":
                    live_row(said["mutation"]["row"], said["transcriptViewId"])
            case "chat-processing-updated":
                (self._processing.discard if said["phase"] is None else self._processing.add)(chat)
            case "chat-execution-control-updated":
                version = said["control"]["version"]
                need(version > self._versions.get(chat, -1), said, "the version grows")
                self._versions[chat] = version
            case "agent-run-finished" | "agent-run-failed":
                need(chat not in self._processing, said, "given back before its end is told")
                need(said.get("turnId") not in self._ended, said, "a turn ends once")
                self._ended.add(said.get("turnId", ""))
            case "chat-session-deleted":
                self._deleted.add(chat)
                for known in (self._cursors, self._versions):
                    known.pop(chat, None)
            case "reconnect-state":
                asked = [one["chatId"] for one in said["controlResults"]]
                need(len(asked) == len(set(asked)), said, "each chat once")
                for one in said["controlResults"]:
                    named = one.get("control", said)["serverInstanceId"]
                    need(named == said["serverInstanceId"], said, "the control's instance")
        if "processing" in said and said["processing"]["outcome"] == "snapshot":
            chats = [one["chatId"] for one in said["processing"]["chats"]]
            need(chats == sorted(set(chats)), said, "chats in order, each once")

    def _rows(self, said: Message) -> None:
        chat, first, last = said["chatId"], said["firstOrdinal"], said["lastOrdinal"]
        need(last >= first - 1, said, "the span")
        rows_ascend(said["messages"], first, last)
        view, cursor = self._cursors.get(chat, (said["transcriptViewId"], first - 1))
        need(said["transcriptViewId"] == view, said, "the view")
        need(first == cursor + 1, said, f"the span joins {cursor}")
        self._cursors[chat] = (view, last)
        if chat in self._processing:
            need(said["resendCandidates"] == [], said, "no candidates while processing")


class ForeignSocket(HeardSocket[Message]):
    """One socket from its opening to `close`; a thread reads it and judges every message."""

    def __init__(self, url: str, **more: Any) -> None:
        self._judgement = Judgement()
        super().__init__(WebSocketClient.open(url, **more), self._judgement.heard)

    @property
    def instance(self) -> str | None:
        """The server's instance, as far as it was named."""
        return self._judgement.instance

    # Waiting

    def wait_for(
        self, what: str, is_it: Callable[[Message], Any], after: int = 0, seconds: float = WAIT
    ) -> Message:
        """Return the first message that is it, of those since the given number of them."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while True:
                self.check()
                for one in self.messages[after:]:
                    if is_it(one):
                        return one
                left = deadline - time.monotonic()
                need(left > 0 and not self._is_over, self.messages[-5:], f"{what} is not heard")
                self._changed.wait(left)

    def of(self, chat_id: str, *kinds: str) -> list[Message]:
        """Return what was said of a chat so far, of these types or of any."""
        with self._changed:
            return [
                one
                for one in self.messages
                if one.get("chatId") == chat_id and (not kinds or one["type"] in kinds)
            ]

    def rows(self, chat_id: str) -> list[tuple[int, str, Any]]:
        """Return the rows that came live: ordinal, type and text."""
        return [
            (row["ordinal"], row["message"]["type"], row["message"].get("content"))
            for one in self.of(chat_id, "chat-messages")
            for row in one["messages"]
        ]

    def turn_ended(self, turn: Message) -> Message:
        """Wait for the end of a turn that was accepted; returns the event."""
        return self.wait_for(
            f"the end of {turn['turnId']}",
            lambda one: (
                one["type"] in ("agent-run-finished", "agent-run-failed")
                and one.get("turnId") == turn["turnId"]
            ),
        )

    # Asking

    def send(self, message: Message) -> None:
        """Say something."""
        with self._changed:
            self._judgement.terminals.asked(message)
        self.connection.send(message)

    def ask(self, kind: str, **members: Any) -> Message:
        """Ask something and return the answer."""
        request_id = str(uuid4())
        after = len(self.messages)
        self.send({"type": kind, "clientRequestId": request_id, **members})
        return self.wait_for(
            f"the answer to {kind}", lambda one: one.get("clientRequestId") == request_id, after
        )

    def ping(self) -> Message:
        """Ask whether anybody is there; whatever was said before the answer has been heard."""
        sent = time.time_ns() // 1_000_000
        pong = self.ask("ws-ping", sentAt=sent)
        need((pong["type"], pong["sentAt"]) == ("ws-pong", sent), pong, "the pong")
        return pong

    def reconnect(self, *chats: str) -> Message:
        """Ask what goes on, as a client does after it was away."""
        state = self.ask("reconnect-state-query", controlChatIds=list(chats))
        need(state["type"] == "reconnect-state", state, "the state")
        asked = [one["chatId"] for one in state["controlResults"]]
        need(asked == list(chats), state, "the chats that were asked for")
        return state

    def subscribe(self, chat: str, view: str, after: int, through: int | None = None) -> Message:
        """Ask for rows after a cursor; the answer is a page or an error."""
        more = {} if through is None else {"throughOrdinal": through}
        page = self.ask(
            "chat-subscribe", chatId=chat, transcriptViewId=view, afterOrdinal=after, **more
        )
        need(page["chatId"] == chat, page, "the chat that was asked for")
        if page["type"] == "chat-subscribed":
            need(page["firstOrdinal"] == after + 1, page, "firstOrdinal")
            need(through in (None, page["throughOrdinal"]), page, "the watermark")
        return page

    def replay(self, chat: str, view: str, after: int = 0) -> list[Message]:
        """Catch up; returns the pages."""
        pages = [self.subscribe(chat, view, after)]
        while pages[-1]["hasMore"]:
            last = pages[-1]
            pages.append(
                self.subscribe(chat, view, last["nextAfterOrdinal"], last["throughOrdinal"])
            )
        return pages


def _subscribed(page: Message, size: int) -> None:
    """One page of a replay (A.6)."""
    first, last, through = page["firstOrdinal"], page["lastOrdinal"], page["throughOrdinal"]
    need(size <= 1_048_576, size, "bytes of a page")
    need(last == page["nextAfterOrdinal"] <= through, page, "the page's end")
    need(first - 1 <= last <= first + 199, page, "raw rows of a page")
    need(page["hasMore"] == (last < through), page, "hasMore")
    need(not page["hasMore"] or last >= first, page, "a page advances")
    rows_ascend(page["messages"], first, last)
    feed_relations(page["transientFeed"], page["chatId"], page["transcriptViewId"])
