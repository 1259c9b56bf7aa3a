"""What a browser socket may say, message by message and in which order (server.md A.6 to A.11).

One `Hearing` follows one socket from its opening.  It knows no network: messages in, an
`AssertionError` out for the first one that an existing client would not bear.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
from attrs import define, field

from garcon.contract.chats import ResendCandidate, TransientFeed, TransientRow
from garcon.contract.events import (
    NEWER_ONLY,
    Answer,
    ChatMessages,
    ClientRequestError,
    ControlUpdated,
    Event,
    Fault,
    Mutation,
    Pong,
    ProcessingSnapshot,
    ProcessingUpdated,
    ReconnectState,
    Reloaded,
    ReloadProgress,
    Remove,
    RunFailed,
    RunFinished,
    SessionDeleted,
    ShownRow,
    Subscribed,
    TranscriptReplaced,
    TransientFeedMutation,
    Upsert,
)
from garcon.contract.messages import ChatMessage
from garcon.contract.terminals import ServerMessage
from garcon.testing.fleet import expect
from garcon.testing.foreign_terminals import TerminalJudgement
from garcon.testing.strict_rules import check_control, check_times, same

Message = Event | Answer | ServerMessage

PAGE_BYTES, PAGE_ORDINALS = 1_048_576, 200
CODES = frozenset(
    {
        *("MISSING_CHAT_ID", "REQUEST_VALIDATION_FAILED", "SESSION_NOT_FOUND", "CHAT_RUNNING"),
        *("NATIVE_PATH_UNRESOLVED", "HISTORY_LOAD_FAILED", "STALE_TRANSCRIPT_VIEW"),
        *("REQUEST_TIMEOUT", "INTERNAL_ERROR", "REQUEST_CANCELLED"),
    }
)
TEXTS = frozenset(
    {
        *("chatId", "transcriptViewId", "previousTranscriptViewId", "clientRequestId", "error"),
        *("serverInstanceId", "projectPath", "effectiveProjectKey", "previousProjectPath"),
        *("lastReadAt", "requestType", "turnId", "runId", "permissionOccurrenceId", "content"),
    }
)
"""Members of a message itself that a client wants to be more than blanks (A.8, str+)."""

_decoder = msgspec.json.Decoder(Message)


@define
class Seen:
    """What is known of one chat from what was told of it."""

    view: str | None = None
    cursor: int | None = None
    revision: int | None = None
    live: dict[str, str] = field(factory=dict)
    """The run of each live question."""
    is_processing: bool | None = None
    control_version: int = -1
    ending: str | None = None
    """The turn whose last rows were told."""
    ended: set[str] = field(factory=set)
    is_deleted: bool = False


@define(eq=False)
class Hearing:
    """One socket's messages so far; `requests` are what was asked and is to be answered once."""

    is_newer: bool = False
    instance: str | None = None
    chats: dict[str, Seen] = field(factory=dict)
    requests: dict[str, dict[str, Any]] = field(factory=dict)
    terminals: TerminalJudgement = field(factory=TerminalJudgement)

    def asked(self, request: dict[str, Any]) -> None:
        """Something was asked that has an id."""
        self.requests[request["clientRequestId"]] = request

    def heard(self, text: bytes) -> Message:
        """Judge a message; returns it decoded."""
        raw = json.loads(text)
        message: Message = _decoder.decode(text)
        same(json.loads(msgspec.json.encode(message)), raw, "the message, key for key")
        if isinstance(message, ServerMessage):
            self.terminals.heard(text, raw)
            return message
        check_times(raw)
        for name in TEXTS & set(raw):
            expect(isinstance(raw[name], str) and raw[name].strip(), f"{name} is blank: {raw}")
        self._instance(raw)
        chat_id = raw.get("chatId")
        if isinstance(message, Event):
            self._event(message, chat_id)
        else:
            self._answer(message, text)
        return message

    def _instance(self, raw: dict[str, Any]) -> None:
        named = raw.get("serverInstanceId")
        if named is None and raw["type"] == "chat-execution-control-updated":
            named = raw["control"]["serverInstanceId"]
        if named is not None:
            same(named, self.instance or named, "the server's instance")
            self.instance = named

    def _seen(self, chat_id: str) -> Seen:
        return self.chats.setdefault(chat_id, Seen())

    # Events

    def _event(self, event: Any, chat_id: str | None) -> None:
        expect(self.is_newer or not isinstance(event, NEWER_ONLY), f"an unknown type: {event}")
        if chat_id is None:
            return
        seen = self._seen(chat_id)
        if seen.is_deleted:
            # The same id may be used again; that begins with its first row.
            expect(isinstance(event, ChatMessages), f"of a deleted chat: {event}")
            expect(event.first_ordinal == 1, f"of a deleted chat: {event}")
            seen = self.chats[chat_id] = Seen()
        match event:
            case ChatMessages():
                self._rows(seen, event)
            case ProcessingUpdated():
                expect(self.is_newer or event.phase != "reconnecting", "an unknown phase")
                seen.is_processing = event.phase is not None
            case RunFinished() | RunFailed():
                self._run_ended(seen, event)
            case TransientFeedMutation():
                self._mutated(seen, event)
            case TranscriptReplaced():
                same(
                    event.previous_transcript_view_id,
                    seen.view or event.previous_transcript_view_id,
                    "the view",
                )
                seen.view, seen.cursor = event.transcript_view_id, None
                seen.revision, seen.live = 0, {}
            case ControlUpdated():
                expect(event.control.version > seen.control_version, "the version grows")
                seen.control_version = event.control.version
                check_control(event.control, self.instance)
            case SessionDeleted():
                seen.is_deleted = True

    def _rows(self, seen: Seen, event: ChatMessages) -> None:
        same(event.transcript_view_id, seen.view or event.transcript_view_id, "the view")
        expect(1 <= event.first_ordinal <= event.last_ordinal, f"a span: {event}")
        if seen.cursor is not None:
            same(event.first_ordinal, seen.cursor + 1, "the spans join")
        check_rows(event.messages, event.first_ordinal, event.last_ordinal)
        check_candidates(event.resend_candidates)
        if seen.is_processing:
            same(event.resend_candidates, [], "no candidates while a chat is processing")
        if event.turn_id is not msgspec.UNSET:
            kinds = [json.loads(bytes(row.message))["type"] for row in event.messages]
            expect("user-message" not in kinds, "an input in the batch that ends a turn")
            seen.ending = event.turn_id
        seen.view, seen.cursor = event.transcript_view_id, event.last_ordinal

    def _run_ended(self, seen: Seen, event: RunFinished | RunFailed) -> None:
        expect(event.turn_id not in seen.ended, "a turn ends once")
        expect(not seen.is_processing, "the chat is given back before its turn's end is told")
        expect(seen.ending in (None, event.turn_id), "the turn's last rows come before its end")
        seen.ending = None
        expect(event.turn_id not in seen.live.values(), "questions are left")
        seen.ended.add(event.turn_id)

    def _mutated(self, seen: Seen, event: TransientFeedMutation) -> None:
        same(event.transcript_view_id, seen.view or event.transcript_view_id, "the feed's view")
        if seen.revision is not None:
            same(event.transient_revision, seen.revision + 1, "the feed's revision")
        seen.revision = event.transient_revision
        mutation: Mutation = event.mutation
        if isinstance(mutation, Upsert):
            row = mutation.row
            check_transient(row, event.transcript_view_id)
            expect(seen.cursor is None or row.display_order <= seen.cursor, "behind its row")
            seen.live[row.permission_occurrence_id] = row.run_id
        elif isinstance(mutation, Remove):
            seen.live.pop(mutation.permission_occurrence_id, None)
        else:
            seen.live = {k: run for k, run in seen.live.items() if run != mutation.run_id}

    # Answers

    def _answer(self, answer: Any, text: bytes) -> None:
        request = self._request(answer)
        match answer:
            case Pong():
                same(answer.sent_at, request["sentAt"], "the ping's instant")
                self._processing(answer.processing)
            case ReconnectState():
                self._processing(answer.processing)
                asked = list(dict.fromkeys(request.get("controlChatIds", [])))[:256]
                same(
                    [one.chat_id for one in answer.control_results], asked, "the chats asked about"
                )
                for one in answer.control_results:
                    has = one.control is not msgspec.UNSET
                    same(has, one.outcome == "snapshot", "a control in a snapshot")
                    if one.control is not msgspec.UNSET:
                        check_control(one.control, answer.server_instance_id)
            case ClientRequestError():
                same(answer.request_type, request["type"], "the request's type")
                expect(answer.code in CODES, f"a code of the contract: {answer}")
                same(answer.chat_id, request.get("chatId", msgspec.UNSET), "the request's chat")
            case Subscribed():
                check_subscribed(answer, request, text)
            case Reloaded():
                check_reloaded(answer, request)
            case ReloadProgress():
                same(answer.chat_id, request["chatId"], "the request's chat")
            case Fault():
                pass

    def _request(self, answer: Any) -> dict[str, Any]:
        request_id = getattr(answer, "client_request_id", msgspec.UNSET)
        if request_id is msgspec.UNSET:
            return {}
        expect(request_id in self.requests, f"nobody asked, or it was answered before: {answer}")
        if isinstance(answer, ReloadProgress):
            return self.requests[request_id]
        return self.requests.pop(request_id)

    def _processing(self, snapshot: ProcessingSnapshot) -> None:
        same(snapshot.outcome == "snapshot", snapshot.chats is not msgspec.UNSET, "the chats")
        ids = [one.chat_id for one in snapshot.chats or []]
        same(ids, sorted(set(ids)), "every chat once, in order")
        for one in snapshot.chats or []:
            expect(self.is_newer or one.phase != "reconnecting", "an unknown phase")


def check_rows(rows: list[ShownRow], first: int, last: int) -> None:
    """Rows ascend within their span and are of the message catalogue, key for key."""
    ordinals = [row.ordinal for row in rows]
    same(ordinals, sorted(set(ordinals)), "ordinals ascend")
    expect(all(first <= one <= last for one in ordinals), "rows lie in their span")
    for row in rows:
        text = bytes(row.message)
        message = msgspec.json.decode(text, type=ChatMessage)
        same(json.loads(msgspec.json.encode(message)), json.loads(text), "a message, key for key")


def check_candidates(candidates: list[ResendCandidate]) -> None:
    """They ascend."""
    ordinals = [one.ordinal for one in candidates]
    same(ordinals, sorted(set(ordinals)), "candidates ascend")
    expect(all(one >= 1 for one in ordinals), "candidates have ordinals")


def check_transient(row: TransientRow, view_id: str) -> None:
    """One live question (A.10)."""
    same(row.transcript.transcript_view_id, view_id, "the row's view")
    same(row.message.permission_occurrence_id, row.permission_occurrence_id, "the occurrence")
    same(row.display_order, row.transcript.after_ordinal, "the row's place")


def check_feed(feed: TransientFeed) -> None:
    """A snapshot of the live questions (A.10)."""
    order = [(row.display_order, row.permission_occurrence_id) for row in feed.rows]
    same(order, sorted(order), "the feed's order")
    same(len({row.permission_occurrence_id for row in feed.rows}), len(order), "each once")
    for row in feed.rows:
        check_transient(row, feed.transcript_view_id)


def check_subscribed(page: Subscribed, request: dict[str, Any], text: bytes) -> None:
    """A page of a replay (A.6)."""
    same(page.chat_id, request["chatId"], "the chat")
    same(page.transcript_view_id, request["transcriptViewId"], "the view")
    after = request["afterOrdinal"]
    same(page.first_ordinal, after + 1, "firstOrdinal")
    same(page.last_ordinal, page.next_after_ordinal, "lastOrdinal")
    same(page.through_ordinal, request.get("throughOrdinal", page.through_ordinal), "watermark")
    expect(after <= page.next_after_ordinal <= page.through_ordinal, "the page's end")
    same(page.has_more, page.next_after_ordinal < page.through_ordinal, "hasMore")
    expect(not page.has_more or page.next_after_ordinal > after, "a page advances")
    expect(page.next_after_ordinal - after <= PAGE_ORDINALS, "at most 200 raw rows")
    expect(len(text) <= PAGE_BYTES, f"{len(text)} bytes")
    check_rows(page.messages, after + 1, page.next_after_ordinal)
    check_candidates(page.resend_candidates)
    same(page.transient_feed.chat_id, page.chat_id, "the feed's chat")
    same(page.transient_feed.transcript_view_id, page.transcript_view_id, "the feed's view")
    check_feed(page.transient_feed)


def check_reloaded(page: Reloaded, request: dict[str, Any]) -> None:
    """The newest page of a new view (A.7, A.9)."""
    same(page.chat_id, request["chatId"], "the chat")
    same(page.page_newest_ordinal, page.last_ordinal, "the newest page")
    before = page.page_newest_ordinal - 100 + 1
    same(page.next_before_ordinal, before if before > 1 else None, "nextBeforeOrdinal")
    same(page.has_more, page.next_before_ordinal is not None, "hasMore")
    oldest = page.messages[0].ordinal if page.messages else 0
    same(page.page_oldest_ordinal, oldest, "pageOldestOrdinal")
    check_rows(page.messages, max(before, 1), page.last_ordinal)
