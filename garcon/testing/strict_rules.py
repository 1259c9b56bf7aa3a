"""What every answer must keep to, beyond what its type says (chats.md 1.2, 4.1, 4.9 to 4.19)."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import msgspec
from attrs import frozen

from garcon.contract.chats import (
    ChatListEntry,
    ChatSnapshot,
    History,
    TranscriptAvailable,
    TranscriptNotRequested,
    TranscriptUnavailable,
    TurnReceipt,
)
from garcon.contract.ids import is_chat_id, is_uuid4
from garcon.contract.queues import ExecutionControl
from garcon.testing.fleet import expect

TIMES = frozenset(
    {
        "acceptedAt",
        "createdAt",
        "dispatchedAt",
        "lastActivityAt",
        "lastReadAt",
        "observedAt",
        "pausedAt",
        "serverTime",
        "settledAt",
        "timestamp",
        "updatedAt",
    }
)
"""Members that are instants, or null where their type says so."""

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


def exactly(body: bytes, shape: Any) -> Any:
    """Decode a body that must be of a shape: no key more, no key less, every instant canonical."""
    value = msgspec.json.decode(body, type=shape)
    raw = json.loads(body)
    same(msgspec.to_builtins(value), raw, str(shape))
    check_times(raw)
    return value


def refusal(said: Said) -> tuple[int, str, bool]:
    """Check the error envelope; returns its status, code and whether it may be tried again."""
    envelope = said.json
    expect(said.status >= 400, str(said))
    needed = {"success", "error", "errorCode", "retryable"}
    expect(needed <= set(envelope), f"the envelope lacks a member: {envelope}")
    steered = {"deliveryOutcome", "serverInstanceId"}
    more = set(envelope) - needed - {"details", "control"} - steered
    expect(not more, f"the envelope has {more}: {envelope}")
    # Both belong to the steer of a queue's entry, and there is none of them without the other.
    expect(len(steered & set(envelope)) in (0, 2), f"the envelope has half of {steered}")
    delivery = envelope.get("deliveryOutcome", "not-sent")
    expect(delivery in ("not-sent", "unknown", "accepted"), "an outcome of a delivery")
    if "control" in envelope:
        check_control(exactly(json.dumps(envelope["control"]).encode(), ExecutionControl), None)
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
                same(f"{parsed.isoformat(timespec='milliseconds')}Z", one, name)
            else:
                check_times(one)


def check_entry(entry: ChatListEntry) -> None:
    """The rules of a list entry (chats.md 4.1)."""
    expect(is_chat_id(entry.id), "a chat id")
    expect(entry.title and entry.title == entry.title.strip(), "a title")
    expect("\n" not in entry.title + entry.preview.last_message, "one line")
    same(entry.is_processing, entry.processing_phase is not None, "isProcessing")
    same(entry.is_active, entry.is_processing, "isActive")
    same(entry.is_pinned, entry.order_group == "pinned", "isPinned")
    same(entry.is_archived, entry.order_group == "archived", "isArchived")
    same(entry.tags, sorted(set(entry.tags)), "tags")
    same(entry.agent_settings.owner_id, entry.agent_id, "the settings' owner")
    at, read = entry.activity.last_activity_at, entry.activity.last_read_at
    same(entry.is_unread, at is not None and (read is None or at > read), "isUnread")


def check_page(page: History | TranscriptAvailable, limit: int) -> None:
    """The arithmetic of a page (chats.md 4.9)."""
    ordinals = [one.ordinal for one in page.messages]
    oldest, newest = page.page_oldest_ordinal, page.page_newest_ordinal
    same(ordinals, sorted(set(ordinals)), "ordinals ascend")
    same(oldest, ordinals[0] if ordinals else 0, "pageOldestOrdinal")
    expect(0 <= oldest <= newest <= page.last_ordinal, "the page's bounds")
    expect(all(oldest <= one <= newest for one in ordinals), "messages lie on their page")
    cursor = newest - limit + 1
    same(page.next_before_ordinal, cursor if cursor > 1 else None, "nextBeforeOrdinal")
    same(page.has_more, page.next_before_ordinal is not None, "hasMore")
    expect(all(one >= cursor for one in ordinals), "a page covers `limit` raw rows")


def check_control(control: Any, instance: str | None) -> None:
    """The rules of an execution control (chats.md 4.5, 4.6)."""
    expect(control.server_instance_id, "an instance")
    if instance is not None:
        same(control.server_instance_id, instance, "the instance")
    same(control.version == 0, control.updated_at is None, "a change has its time")
    check_queue(control.queue)


def check_queue(queue: Any) -> None:
    """The rules of a queue (chats.md 4.2 to 4.5)."""
    ids = [entry.id for entry in queue.entries]
    same(len(set(ids)), len(ids), "every entry once")
    expect(len(queue.recently_dispatched) <= 32, "at most 32 dispatched ones")
    expect(all(entry.revision >= 1 for entry in queue.entries), "revisions count from one")
    expect(queue.steering_entry_id in (None, *ids), "the entry that is being steered is there")


def check_snapshot(snapshot: ChatSnapshot, instance: str | None) -> None:
    """The rules of a snapshot (chats.md 4.10, 4.19)."""
    chat, feed = snapshot.chat, snapshot.transient_feed
    expect(chat.title, "a title")
    same(chat.tags, sorted(set(chat.tags)), "tags")
    check_control(snapshot.control, instance)
    same(feed.server_instance_id, snapshot.control.server_instance_id, "the feed's instance")
    same(feed.chat_id, chat.id, "the feed's chat")
    kind = _TRANSCRIPTS[snapshot.transcript["availability"]]
    transcript = exactly(msgspec.json.encode(snapshot.transcript), kind)
    same(kind is TranscriptNotRequested, snapshot.message_limit == 0, "not-requested")
    last = None
    if isinstance(transcript, TranscriptAvailable):
        check_page(transcript, snapshot.message_limit)
        same(transcript.page_newest_ordinal, transcript.last_ordinal, "the newest page")
        same(feed.transcript_view_id, transcript.transcript_view_id, "the feed's view")
        last = transcript.last_ordinal
    occurrences = [row.permission_occurrence_id for row in feed.rows]
    same(len(set(occurrences)), len(occurrences), "every occurrence once")
    order = [(row.display_order, row.permission_occurrence_id) for row in feed.rows]
    same(order, sorted(order), "the feed's order")
    for row in feed.rows:
        expect(is_uuid4(row.permission_occurrence_id), "an occurrence is a UUID v4")
        same(row.message.permission_occurrence_id, row.permission_occurrence_id, "occurrence")
        same(row.transcript.transcript_view_id, feed.transcript_view_id, "the row's view")
        expect(last is None or row.transcript.after_ordinal <= last, "the row's place")
        expect(snapshot.processing_phase is not None, "a request lives while its turn runs")


def check_receipt(receipt: TurnReceipt) -> None:
    """The members of each state of a receipt, no more (chats.md 4.11, control.md I.7)."""
    is_settled = receipt.state != "pending"
    same(receipt.settled_at is not msgspec.UNSET, is_settled, "settledAt")
    same(receipt.output is not msgspec.UNSET, is_settled, "output")
    same(receipt.error is not msgspec.UNSET, receipt.state == "failed", "error")
    same(receipt.reason is not msgspec.UNSET, receipt.state == "interrupted", "reason")
    expect(receipt.error is msgspec.UNSET or receipt.error, "the error has a text")
    if isinstance(receipt.output, msgspec.UnsetType):
        return
    output, is_there = receipt.output, receipt.output.availability == "available"
    for name in ("completeness", "text", "assistant_messages"):
        same(getattr(output, name) is not msgspec.UNSET, is_there, name)
    same(output.reason is msgspec.UNSET, is_there, "reason")
    if is_there:
        wanted = "complete" if receipt.state == "completed" else "best-effort"
        same(output.completeness, wanted, "completeness")


def same(found: Any, wanted: Any, what: str) -> None:
    """Fail unless two values are equal; `what` names them."""
    expect(found == wanted, f"{what}: {found!r} instead of {wanted!r}")
