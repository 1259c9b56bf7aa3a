"""What is read of chats: snapshots, pages, receipts.  Reading changes nothing (chats.md
5.14).
"""

from __future__ import annotations

from typing import TypeVar

from attrs import Factory, define, field
from msgspec import structs
from twisted.internet.defer import Deferred

from garcon.contract.chats import (
    AvailableOf,
    ChatSnapshot,
    HistoryComplete,
    HistoryDegraded,
    HistoryOf,
    MessagesQuery,
    ReceiptQuery,
    ResendCandidate,
    SnapshotQuery,
    TranscriptNotRequested,
    TranscriptUnavailable,
    TurnReceipt,
    UnavailableHistory,
)
from garcon.contract.events import ShownRow
from garcon.contract.limits import PAGE_ROWS
from garcon.controller.chats import fields
from garcon.controller.chats.chat import Chat
from garcon.controller.chats.drift import Drifts
from garcon.controller.chats.registry import snapshot_chat
from garcon.controller.chats.run import stale_view
from garcon.controller.chats.state import State
from garcon.controller.handlers import Call
from garcon.errors import validation
from garcon.store.interfaces import Damaged

T = TypeVar("T")

PAGE, SNAPSHOT_ROWS = 20, 10


@define(eq=False)
class Readings:
    """Serves snapshots, messages and turn receipts."""

    _state: State
    _drifts: Drifts = field(
        default=Factory(lambda self: Drifts(self._state), takes_self=True), init=False
    )

    async def messages(
        self, call: Call[MessagesQuery, None]
    ) -> HistoryOf[ShownRow] | UnavailableHistory:
        """Read one page of messages, or say why they cannot be read."""
        query = call.query
        chat_id = fields.required(query.chat_id, "chatId")
        limit = min(fields.positive(query.limit, "limit") or PAGE, PAGE_ROWS)
        before = fields.positive(query.before_ordinal, "beforeOrdinal")
        if before is not None and query.transcript_view_id is None:
            raise validation("beforeOrdinal needs transcriptViewId")
        if query.purpose not in (None, "activation"):
            raise validation("purpose is unknown")
        if query.purpose is not None and before is not None:
            raise validation("purpose and beforeOrdinal exclude each other")
        chat = self._state.registry.get(chat_id)
        view_id = chat.transcript.view_id
        if query.transcript_view_id is not None and query.transcript_view_id != view_id:
            raise stale_view()
        try:
            page = await self._read(chat, chat.transcript.page(limit, before))
            candidates: list[ResendCandidate] = []
            if chat.turn is None:
                candidates = await self._read(chat, chat.transcript.resend_candidates())
        except Damaged as damage:
            degraded = HistoryDegraded(error_code=damage.code, retryable=False)
            return UnavailableHistory(history_state=degraded, chat_id=chat_id)
        if query.purpose is not None:
            self._drifts.look(chat)
        return HistoryOf(
            history_state=HistoryComplete(),
            chat_id=chat_id,
            transcript_view_id=view_id,
            messages=page.messages,
            last_ordinal=page.last_ordinal,
            page_oldest_ordinal=page.page_oldest,
            page_newest_ordinal=page.page_newest,
            next_before_ordinal=page.next_before,
            has_more=page.next_before is not None,
            # A turn may have begun while the rows were read.
            resend_candidates=[] if chat.turn is not None else candidates,
            limit=limit,
        )

    async def snapshot(self, call: Call[SnapshotQuery, None]) -> ChatSnapshot:
        """Observe a chat: what it is, what it does, and its newest messages."""
        chat_id = fields.chat_id(call.query.chat_id)
        limit = fields.natural(call.query.limit, "limit")
        limit = SNAPSHOT_ROWS if limit is None else limit
        if limit > PAGE_ROWS:
            raise validation(f"limit is above {PAGE_ROWS}")
        state = self._state
        state.must_be_open()
        chat = state.registry.get(chat_id)
        # All of it is of one instant, the one at which the page begins to be read: whoever sees an
        # idle chat sees the last row of its turn, and a live request lies within the transcript.
        observed = ChatSnapshot(
            observed_at=state.now(),
            message_limit=limit,
            chat=snapshot_chat(chat, can_reload=state.can_reload(chat)),
            processing_phase=state.phase(chat),
            control=state.control(chat_id),
            transient_feed=chat.permissions.shown(
                state.server_instance_id, chat_id, chat.transcript.view_id
            ),
            transcript=None,
        )
        transcript = await self._newest(chat, limit)
        return structs.replace(observed, transcript=transcript)

    def receipt(self, call: Call[ReceiptQuery, None]) -> TurnReceipt:
        """Return what became of a turn."""
        chat_id = fields.required(call.query.chat_id, "chatId")
        turn_id = fields.required(call.query.turn_id, "turnId")
        return self._state.receipts.receipt(chat_id, turn_id)

    async def _read(self, chat: Chat, reading: Deferred[T]) -> T:
        """Wait for rows of a chat; it may go meanwhile, and a reload may replace its view."""
        transcript = chat.transcript
        try:
            return await reading
        finally:
            self._state.registry.get(chat.id)
            if chat.transcript is not transcript:
                raise stale_view()

    async def _newest(
        self, chat: Chat, limit: int
    ) -> TranscriptNotRequested | AvailableOf[ShownRow] | TranscriptUnavailable:
        if limit == 0:
            return TranscriptNotRequested()
        try:
            page = await self._read(chat, chat.transcript.page(limit))
        except Damaged as damage:
            return TranscriptUnavailable(
                error_code=damage.code, retryable=False, message=damage.text
            )
        return AvailableOf(
            transcript_view_id=chat.transcript.view_id,
            messages=page.messages,
            last_ordinal=page.last_ordinal,
            page_oldest_ordinal=page.page_oldest,
            page_newest_ordinal=page.page_newest,
            next_before_ordinal=page.next_before,
            has_more=page.next_before is not None,
        )
