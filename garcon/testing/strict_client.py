"""A client that believes nothing: every answer must be exactly what the contract says, key for key.

It asks a controller directly or through a worker's gateway, and blocks.  What decodes is encoded
again and compared, so that a key too many, a key too few and a null out of place are all seen; then
come the rules that no type says (chats.md 4.9, 4.10; control.md 0).
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit
from uuid import uuid4

import msgspec
from attrs import define, field, frozen

from garcon.contract import operations
from garcon.contract.chats import (
    ChatListEntry,
    ChatSnapshot,
    CommandAccepted,
    History,
    RunAccepted,
    StartAccepted,
    StopAccepted,
    TranscriptAvailable,
    TranscriptMessage,
    TranscriptNotRequested,
    TranscriptUnavailable,
    TurnReceipt,
)
from garcon.contract.ids import is_chat_id, is_uuid4
from garcon.contract.operations import Operation
from garcon.testing.fleet import eventually, expect

TIMES = frozenset(
    {
        "acceptedAt",
        "createdAt",
        "lastActivityAt",
        "lastReadAt",
        "observedAt",
        "settledAt",
        "timestamp",
        "updatedAt",
    }
)
"""Members that are instants, or null where their type says so."""

WAIT = 60.0
_TRANSCRIPTS: dict[str, Any] = {
    "available": TranscriptAvailable,
    "not-requested": TranscriptNotRequested,
    "unavailable": TranscriptUnavailable,
}


@frozen
class Said:
    """One answer.  Header names are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


@define(eq=False)
class StrictClient:
    """Asks one endpoint.  `instance` is the generation that a gateway wants named, else None."""

    url: str
    token: str
    instance: str | None = None
    _requests: int = field(default=0)

    # Any request

    def send(
        self,
        method: str,
        target: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Said:
        """Send one request over a connection of its own."""
        parts = urlsplit(self.url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=WAIT)
        own = {"Authorization": f"Bearer {self.token}"}
        if self.instance is not None:
            own["X-Garcon-Server-Instance"] = self.instance
        if body is not None:
            own["Content-Type"] = "application/json"
        try:
            connection.request(method, target, body, {**own, **(headers or {})})
            answer = connection.getresponse()
            names = {name.lower(): value for name, value in answer.getheaders()}
            return Said(answer.status, names, answer.read())
        finally:
            connection.close()

    def ask(
        self,
        operation: Operation,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, Any] | Sequence[tuple[str, str]] = (),
    ) -> Said:
        """Ask for an operation; whatever is answered has the headers its operation wants."""
        target = operation.route.path + ("?" + urlencode(query) if query else "")
        content = None if body is None else json.dumps(body).encode()
        said = self.send(operation.route.method, target, content)
        _same(said.headers.get("content-type"), "application/json", f"type of {target}")
        if operation.no_store:
            _same(said.headers.get("cache-control"), "no-store", f"caching of {target}")
        return said

    def asked(
        self,
        operation: Operation,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, Any] | Sequence[tuple[str, str]] = (),
    ) -> Any:
        """Ask for what must succeed; returns the reply, decoded."""
        said = self.ask(operation, body, query)
        expect(said.status == operation.status, f"{operation.route}: {said}")
        return exactly(said.body, operation.reply)

    def refused(
        self,
        operation: Operation,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, Any] | Sequence[tuple[str, str]] = (),
    ) -> tuple[int, str, bool]:
        """Ask for what must fail; returns status, code and whether it may be tried again."""
        return refusal(self.ask(operation, body, query))

    def request_id(self) -> str:
        """Return an identity nobody used."""
        self._requests += 1
        return f"strict-{self._requests}-{uuid4()}"

    # Commands

    def start_body(self, executor_id: str, project: str, command: str, **more: Any) -> Any:
        """Return a start of the scripted agent that is in order."""
        body = {
            "clientRequestId": self.request_id(),
            "clientMessageId": self.request_id(),
            "chatId": str(time.time_ns() // 1_000),
            "executorId": executor_id,
            "agentId": "scripted",
            "projectPath": project,
            "model": "scripted",
            "agentSettings": {"ownerId": "scripted", "schemaVersion": 1, "values": {}},
            "command": command,
        }
        return body | more

    def run_body(self, view: str, chat_id: str, command: str, **more: Any) -> Any:
        """Return a run that is in order."""
        body = {
            "clientRequestId": self.request_id(),
            "clientMessageId": self.request_id(),
            "chatId": chat_id,
            "transcriptViewId": view,
            "command": command,
        }
        return body | more

    def start(self, body: Mapping[str, Any], status: str = "accepted") -> StartAccepted:
        """Start a chat; the same body again with ``duplicate``."""
        accepted: StartAccepted = self._turn(operations.START_CHAT, body, "chat-start", status)
        if accepted.chat is not None:
            check_entry(accepted.chat)
            _same(accepted.chat.id, body["chatId"], "the chat")
        return accepted

    def run(self, body: Mapping[str, Any], status: str = "accepted") -> RunAccepted:
        """Run a turn; the same body again with ``duplicate``."""
        accepted: RunAccepted = self._turn(operations.RUN_CHAT, body, "agent-run", status)
        return accepted

    def stop(self, body: Mapping[str, Any], status: str = "accepted") -> StopAccepted:
        """Stop a chat's turn."""
        accepted: StopAccepted = self.asked(operations.STOP_CHAT, body)
        _accepted(accepted, body, "agent-stop", status)
        expect(accepted.turn_id is msgspec.UNSET, "a stop has no turn")
        check_control(accepted.control, self.instance)
        return accepted

    def decide(self, body: Mapping[str, Any], status: str = "accepted") -> CommandAccepted:
        """Decide on a permission."""
        accepted: CommandAccepted = self.asked(operations.PERMISSION_DECISION, body)
        _accepted(accepted, body, "permission-decision", status)
        expect(accepted.turn_id is msgspec.UNSET, "a decision has no turn")
        return accepted

    def _turn(
        self, operation: Operation, body: Mapping[str, Any], command_type: str, status: str
    ) -> Any:
        said = self.ask(operation, body)
        expect(said.status == operation.status, f"{operation.route}: {said}")
        accepted = exactly(said.body, operation.reply)
        _accepted(accepted, body, command_type, status)
        expect(is_uuid4(accepted.turn_id), "a turn has a UUID")
        location = said.headers.get("location")
        # A gateway carries no headers; a controller names the receipt.
        if self.instance is None:
            path, _, query = (location or "").partition("?")
            _same(path, operations.TURN_RECEIPT.route.path, "location")
            wanted = {"chatId": [body["chatId"]], "turnId": [accepted.turn_id]}
            _same(parse_qs(query), wanted, "location")
        return accepted

    # Reading

    def chats(self) -> list[ChatListEntry]:
        """Read the chat list."""
        listed = self.asked(operations.LIST_CHATS)
        _same(listed.total, len(listed.sessions), "total")
        ids = [entry.id for entry in listed.sessions]
        _same(len(set(ids)), len(ids), "every chat once")
        for entry in listed.sessions:
            check_entry(entry)
        return list(listed.sessions)

    def messages(self, chat_id: str, **query: Any) -> History:
        """Read a page that must be whole."""
        page: History = self.asked(operations.MESSAGES, query={"chatId": chat_id, **query})
        _same(page.chat_id, chat_id, "the chat")
        limit = min(int(query.get("limit", 20)), 200)
        _same(page.limit, limit, "limit")
        before = query.get("beforeOrdinal")
        newest = page.last_ordinal if before is None else min(before, page.last_ordinal + 1) - 1
        _same(page.page_newest_ordinal, newest, "pageNewestOrdinal")
        check_page(page, limit)
        ordinals = [one.ordinal for one in page.resend_candidates]
        _same(ordinals, sorted(set(ordinals)), "candidates ascend")
        return page

    def all_messages(self, chat_id: str, limit: int) -> list[TranscriptMessage]:
        """Walk back from the end to the beginning; returns every message, oldest first."""
        page = self.messages(chat_id, limit=limit)
        found, view = list(page.messages), page.transcript_view_id
        while page.has_more:
            page = self.messages(
                chat_id,
                limit=limit,
                beforeOrdinal=page.next_before_ordinal,
                transcriptViewId=view,
            )
            _same(page.transcript_view_id, view, "one view")
            found[:0] = page.messages
        ordinals = [one.ordinal for one in found]
        _same(ordinals, sorted(set(ordinals)), "every message once")
        return found

    def snapshot(self, chat_id: str, limit: int = 10) -> ChatSnapshot:
        """Observe a chat."""
        query = {"chatId": chat_id, "limit": limit}
        snapshot: ChatSnapshot = self.asked(operations.SNAPSHOT, query=query)
        _same(snapshot.chat.id, chat_id, "the chat")
        _same(snapshot.message_limit, limit, "messageLimit")
        check_snapshot(snapshot, self.instance)
        return snapshot

    def receipt(self, chat_id: str, turn_id: Any) -> TurnReceipt:
        """Read a turn's receipt."""
        query = {"chatId": chat_id, "turnId": turn_id}
        receipt: TurnReceipt = self.asked(operations.TURN_RECEIPT, query=query)
        _same((receipt.chat_id, receipt.turn_id), (chat_id, turn_id), "the turn")
        check_receipt(receipt)
        return receipt

    def settled(self, chat_id: str, turn_id: Any) -> TurnReceipt:
        """Wait until a turn is over."""

        def ended() -> TurnReceipt | None:
            receipt = self.receipt(chat_id, turn_id)
            return None if receipt.state == "pending" else receipt

        found: TurnReceipt = eventually("the end of a turn", ended)
        return found

    def permission(self, chat_id: str) -> dict[str, Any]:
        """Wait for a live permission request; returns the control tuple that decides it."""

        def asked() -> dict[str, Any] | None:
            feed = self.snapshot(chat_id, 0).transient_feed
            if not feed.rows:
                return None
            return {
                "serverInstanceId": feed.server_instance_id,
                "chatId": feed.chat_id,
                "runId": feed.rows[0].run_id,
                "permissionOccurrenceId": feed.rows[0].permission_occurrence_id,
            }

        found: dict[str, Any] = eventually("a permission request", asked)
        return found


# Rules


def exactly(body: bytes, shape: Any) -> Any:
    """Decode a body that must be of a shape: no key more, no key less, every instant canonical."""
    value = msgspec.json.decode(body, type=shape)
    raw = json.loads(body)
    _same(msgspec.to_builtins(value), raw, str(shape))
    check_times(raw)
    return value


def refusal(said: Said) -> tuple[int, str, bool]:
    """Check the error envelope; returns its status, code and whether it may be tried again."""
    envelope = said.json
    expect(said.status >= 400, str(said))
    needed = {"success", "error", "errorCode", "retryable"}
    expect(needed <= set(envelope), f"the envelope lacks a member: {envelope}")
    more = set(envelope) - needed - {"details", "control"}
    expect(not more, f"the envelope has {more}: {envelope}")
    expect(envelope["success"] is False, "success is false")
    expect(isinstance(envelope["error"], str) and envelope["error"], "there is a text")
    expect(isinstance(envelope.get("details", ""), str), "details are text")
    expect(isinstance(envelope["retryable"], bool), "retryable is true or false")
    return said.status, envelope["errorCode"], envelope["retryable"]


def check_times(value: Any) -> None:
    """Every instant formats to what it was read from."""
    if isinstance(value, list):
        for one in value:
            check_times(one)
    elif isinstance(value, dict):
        for name, one in value.items():
            if name in TIMES and one is not None:
                parsed = datetime.fromisoformat(one).astimezone(UTC).replace(tzinfo=None)
                _same(f"{parsed.isoformat(timespec='milliseconds')}Z", one, name)
            else:
                check_times(one)


def check_entry(entry: ChatListEntry) -> None:
    """The rules of a list entry (chats.md 4.1)."""
    expect(is_chat_id(entry.id), "a chat id")
    expect(entry.title and entry.title == entry.title.strip(), "a title")
    expect("\n" not in entry.title + entry.preview.last_message, "one line")
    _same(entry.is_processing, entry.processing_phase is not None, "isProcessing")
    _same(entry.is_active, entry.is_processing, "isActive")
    _same(entry.is_pinned, entry.order_group == "pinned", "isPinned")
    _same(entry.is_archived, entry.order_group == "archived", "isArchived")
    _same(entry.tags, sorted(set(entry.tags)), "tags")
    _same(entry.agent_settings.owner_id, entry.agent_id, "the settings' owner")
    at, read = entry.activity.last_activity_at, entry.activity.last_read_at
    _same(entry.is_unread, at is not None and (read is None or at > read), "isUnread")


def check_page(page: History | TranscriptAvailable, limit: int) -> None:
    """The arithmetic of a page (chats.md 4.9)."""
    ordinals = [one.ordinal for one in page.messages]
    oldest, newest = page.page_oldest_ordinal, page.page_newest_ordinal
    _same(ordinals, sorted(set(ordinals)), "ordinals ascend")
    _same(oldest, ordinals[0] if ordinals else 0, "pageOldestOrdinal")
    expect(0 <= oldest <= newest <= page.last_ordinal, "the page's bounds")
    expect(all(oldest <= one <= newest for one in ordinals), "messages lie on their page")
    cursor = newest - limit + 1
    _same(page.next_before_ordinal, cursor if cursor > 1 else None, "nextBeforeOrdinal")
    _same(page.has_more, page.next_before_ordinal is not None, "hasMore")
    expect(all(one >= cursor for one in ordinals), "a page covers `limit` raw rows")


def check_control(control: Any, instance: str | None) -> None:
    """The rules of an execution control, as long as there are no queues (chats.md 4.5, 4.6)."""
    expect(control.server_instance_id, "an instance")
    if instance is not None:
        _same(control.server_instance_id, instance, "the instance")
    _same((control.version, control.updated_at), (0, None), "the initial control")
    _same((control.queue.entries, control.queue.pause), ([], None), "the empty queue")


def check_snapshot(snapshot: ChatSnapshot, instance: str | None) -> None:
    """The rules of a snapshot (chats.md 4.10, 4.19)."""
    chat, feed = snapshot.chat, snapshot.transient_feed
    expect(chat.title, "a title")
    _same(chat.tags, sorted(set(chat.tags)), "tags")
    check_control(snapshot.control, instance)
    _same(feed.server_instance_id, snapshot.control.server_instance_id, "the feed's instance")
    _same(feed.chat_id, chat.id, "the feed's chat")
    kind = _TRANSCRIPTS[snapshot.transcript["availability"]]
    transcript = exactly(msgspec.json.encode(snapshot.transcript), kind)
    _same(kind is TranscriptNotRequested, snapshot.message_limit == 0, "not-requested")
    last = None
    if isinstance(transcript, TranscriptAvailable):
        check_page(transcript, snapshot.message_limit)
        _same(transcript.page_newest_ordinal, transcript.last_ordinal, "the newest page")
        _same(feed.transcript_view_id, transcript.transcript_view_id, "the feed's view")
        last = transcript.last_ordinal
    occurrences = [row.permission_occurrence_id for row in feed.rows]
    _same(len(set(occurrences)), len(occurrences), "every occurrence once")
    order = [(row.display_order, row.permission_occurrence_id) for row in feed.rows]
    _same(order, sorted(order), "the feed's order")
    for row in feed.rows:
        expect(is_uuid4(row.permission_occurrence_id), "an occurrence is a UUID v4")
        _same(row.message.permission_occurrence_id, row.permission_occurrence_id, "occurrence")
        _same(row.transcript.transcript_view_id, feed.transcript_view_id, "the row's view")
        expect(last is None or row.transcript.after_ordinal <= last, "the row's place")
        expect(snapshot.processing_phase is not None, "a request lives while its turn runs")


def check_receipt(receipt: TurnReceipt) -> None:
    """The members of each state of a receipt, no more (chats.md 4.11, control.md I.7)."""
    is_settled = receipt.state != "pending"
    _same(receipt.settled_at is not msgspec.UNSET, is_settled, "settledAt")
    _same(receipt.output is not msgspec.UNSET, is_settled, "output")
    _same(receipt.error is not msgspec.UNSET, receipt.state == "failed", "error")
    _same(receipt.reason is not msgspec.UNSET, receipt.state == "interrupted", "reason")
    expect(receipt.error is msgspec.UNSET or receipt.error, "the error has a text")
    if isinstance(receipt.output, msgspec.UnsetType):
        return
    output, is_there = receipt.output, receipt.output.availability == "available"
    for name in ("completeness", "text", "assistant_messages"):
        _same(getattr(output, name) is not msgspec.UNSET, is_there, name)
    _same(output.reason is msgspec.UNSET, is_there, "reason")
    if is_there:
        wanted = "complete" if receipt.state == "completed" else "best-effort"
        _same(output.completeness, wanted, "completeness")


def _accepted(
    accepted: CommandAccepted, body: Mapping[str, Any], command_type: str, status: str
) -> None:
    """The members that every accepted command has (chats.md 2.5)."""
    _same(accepted.success, True, "success")
    _same(accepted.command_type, command_type, "commandType")
    _same(accepted.client_request_id, body["clientRequestId"], "clientRequestId")
    _same(accepted.chat_id, body["chatId"], "chatId")
    _same(accepted.status, status, "status")


def _same(found: Any, wanted: Any, what: str) -> None:
    expect(found == wanted, f"{what}: {found!r} instead of {wanted!r}")
