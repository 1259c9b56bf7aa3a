"""Commands on a chat's queue (chats.md 3.14 to 3.18, 3.19a): each has its effect once, and a
repeated one its first answer with the control of now.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

from attrs import define
from msgspec import to_builtins

from garcon.contract.limits import ENTRY_ID_BYTES
from garcon.contract.queue_commands import (
    ChatControl,
    CreateEntry,
    DeleteEntry,
    EntryAccepted,
    HoldQueue,
    MoveEntry,
    QueueQuery,
    ReplaceEntry,
    ResumeQueue,
)
from garcon.controller.chats import fields
from garcon.controller.chats.admission import NewInput, is_repeated
from garcon.controller.chats.applied import Applied
from garcon.controller.chats.chat import Chat
from garcon.controller.chats.ledger import conflict, failed_again, fingerprint
from garcon.controller.chats.queue import Entry, Move, Queue
from garcon.controller.chats.run import stale_view
from garcon.controller.chats.state import State
from garcon.controller.handlers import Call
from garcon.errors import GarconError, validation

CREATE, REPLACE, DELETE, MOVE = (
    "queue-entry-create",
    "queue-entry-replace",
    "queue-entry-delete",
    "queue-entry-move",
)

Change = Callable[[Queue, str], Queue]


@define(eq=False)
class Queues:
    """Serves the queue's routes, but for steering."""

    _state: State

    # Entries

    def read(self, call: Call[QueueQuery, None]) -> ChatControl:
        """Return the queue as it is."""
        chat_id = fields.required(call.query.chat_id, "chatId")
        return self._control(self._state.registry.get(chat_id))

    async def create(self, call: Call[Any, CreateEntry]) -> EntryAccepted:
        """Queue a message at the end."""
        body = call.body
        message_id = fields.client_id(body.client_message_id, "clientMessageId")
        view_id = fields.required(body.transcript_view_id, "transcriptViewId")
        content = queued_content(body.content)
        excluded = tuple(fields.ordinals(body.excluded_resend_ordinals))
        asked = _Asked.of(
            CREATE,
            body,
            {
                "transcriptViewId": view_id,
                "clientMessageId": message_id,
                "excludedResendOrdinals": list(excluded),
                "content": content,
            },
        )
        self._state.must_be_open()
        entry = Entry(str(uuid4()), content, message_id, view_id, excluded, "", "")
        return await self._state.lanes.run(asked.chat_id, lambda: self._create(asked, entry))

    async def replace(self, call: Call[Any, ReplaceEntry]) -> EntryAccepted:
        """Give an entry another content."""
        body = call.body
        entry = entry_id(body.entry_id)
        content = queued_content(body.content)
        revision = at_least(body.expected_revision, 1, "expectedRevision")
        asked = _Asked.of(
            REPLACE,
            body,
            {"entryId": entry, "content": content, "expectedRevision": revision},
        )
        return await self._change(
            asked, entry, lambda queue, at: queue.replaced(entry, content, revision, at)
        )

    async def delete(self, call: Call[Any, DeleteEntry]) -> EntryAccepted:
        """Take an entry out."""
        entry = entry_id(call.body.entry_id)
        asked = _Asked.of(DELETE, call.body, {"entryId": entry})
        return await self._change(asked, entry, lambda queue, at: queue.deleted(entry, at))

    async def move(self, call: Call[Any, MoveEntry]) -> EntryAccepted:
        """Put an entry before or after another."""
        body = call.body
        wish = Move(
            entry_id(body.entry_id),
            entry_id(body.target_entry_id, "targetEntryId"),
            body.placement,
            at_least(body.expected_reorder_revision, 0, "expectedReorderRevision"),
            at_least(body.expected_source_revision, 1, "expectedSourceRevision"),
            at_least(body.expected_target_revision, 1, "expectedTargetRevision"),
        )
        if wish.entry_id == wish.target_id:
            raise validation("targetEntryId names the entry itself")
        asked = _Asked.of(
            MOVE,
            body,
            {
                "entryId": wish.entry_id,
                "targetEntryId": wish.target_id,
                "placement": wish.placement,
                "revisions": [wish.reorder_revision, wish.source_revision, wish.target_revision],
            },
        )
        return await self._change(asked, wish.entry_id, lambda queue, at: queue.moved(wish, at))

    # Pauses

    async def pause(self, call: Call[Any, HoldQueue]) -> ChatControl:
        """Hold what waits, until it is resumed."""
        return await self._hold(call.body, lambda queue, at: queue.paused(str(uuid4()), at))

    async def clear(self, call: Call[Any, HoldQueue]) -> ChatControl:
        """Take everything out, and end every pause."""
        return await self._hold(call.body, lambda queue, at: queue.cleared(at))

    async def resume(self, call: Call[Any, ResumeQueue]) -> ChatControl:
        """End the pause that is named, and send what may be sent."""
        pause_id = fields.required(call.body.pause_id, "pauseId")
        return await self._hold(call.body, lambda queue, at: queue.resumed(pause_id, at))

    async def _hold(self, body: HoldQueue | ResumeQueue, change: Change) -> ChatControl:
        chat_id = fields.chat_id(body.chat_id)

        async def held() -> ChatControl:
            chat = self._state.registry.get(chat_id)
            try:
                self._state.set_queue(chat, change(chat.queue, self._state.now()))
            except GarconError as error:
                raise self._shown(chat, error) from None
            self._state.drain(chat)
            return self._control(chat)

        return await self._state.lanes.run(chat_id, held)

    # Inside

    async def _create(self, asked: _Asked, entry: Entry) -> EntryAccepted:
        state = self._state
        state.must_be_open()
        chat = state.registry.get(asked.chat_id)
        if entry.view_id != chat.transcript.view_id:
            raise stale_view()
        known = self._known(chat, asked)
        if known is not None:
            return known
        waiting = chat.queue.waiting(entry.message_id, entry.view_id)
        if waiting is not None:
            if waiting.content != entry.content:
                raise conflict("The message id is that of a queued message with other content.")
            return self._applied(chat, asked, waiting.id, lambda queue, at: queue, "duplicate")
        await is_repeated(chat, NewInput(entry.message_id, entry.content))
        answer = self._applied(
            chat, asked, entry.id, lambda queue, at: queue.added(entry.created(at), at)
        )
        state.drain(chat)
        return answer

    async def _change(self, asked: _Asked, entry_id: str, change: Change) -> EntryAccepted:
        async def changed() -> EntryAccepted:
            chat = self._state.registry.get(asked.chat_id)
            known = self._known(chat, asked)
            return known or self._applied(chat, asked, entry_id, change)

        return await self._state.lanes.run(asked.chat_id, changed)

    def _known(self, chat: Chat, asked: _Asked) -> EntryAccepted | None:
        """Return the answer to a command that was seen before, or raise its rejection again."""
        ledger = self._state.ledger
        record = ledger.replayed(asked.command, chat.id, asked.request_id, asked.mark)
        if record is not None and record.error is not None:
            raise self._shown(chat, failed_again(record.error))
        applied = chat.applied.find(asked.command, asked.request_id, asked.mark)
        return None if applied is None else self._answer(chat, asked, applied, "duplicate")

    def _applied(
        self, chat: Chat, asked: _Asked, entry_id: str, change: Change, status: str = "accepted"
    ) -> EntryAccepted:
        """Make a new command's change, whole or not at all."""
        state = self._state
        at = state.now()
        record = state.ledger.accept(asked.command, chat.id, asked.request_id, asked.mark, at)
        try:
            queue = change(chat.queue, at)
        except GarconError as error:
            state.ledger.fail(record, error)
            raise self._shown(chat, error) from None
        state.ledger.settle(record, "finished")
        applied = Applied(asked.command, asked.mark, entry_id, at)
        chat.applied.add(asked.request_id, applied)
        state.set_queue(chat, queue)
        return self._answer(chat, asked, applied, status)

    def _answer(self, chat: Chat, asked: _Asked, applied: Applied, status: Any) -> EntryAccepted:
        return EntryAccepted(
            command_type=asked.command,
            client_request_id=asked.request_id,
            chat_id=chat.id,
            status=status,
            accepted_at=applied.accepted_at,
            entry_id=applied.entry_id,
            control=self._state.control(chat.id),
        )

    def _control(self, chat: Chat) -> ChatControl:
        return ChatControl(chat_id=chat.id, control=self._state.control(chat.id))

    def _shown(self, chat: Chat, error: GarconError) -> GarconError:
        """Add what the queue is now, so that its user sees what the command has met."""
        error.extra["control"] = to_builtins(self._state.control(chat.id))
        return error


@define
class _Asked:
    """One command: what it is known by."""

    command: str
    chat_id: str
    request_id: str
    mark: bytes

    @classmethod
    def of(cls, command: str, body: Any, compared: dict[str, Any]) -> _Asked:
        """Read what every command has; `compared` is what makes it the same one (chats.md 2.3)."""
        fields.no_answers_member(body)
        request_id = fields.client_id(body.client_request_id, "clientRequestId")
        return cls(command, fields.chat_id(body.chat_id), request_id, fingerprint(compared))


def entry_id(value: str, name: str = "entryId") -> str:
    """Return an entry's id: 1 to 128 bytes once trimmed."""
    trimmed = fields.required(value, name)
    if len(trimmed.encode()) > ENTRY_ID_BYTES:
        raise validation(f"{name} is longer than {ENTRY_ID_BYTES} bytes")
    return trimmed


def queued_content(value: str) -> str:
    """Return a text that is not blank, as it is."""
    if not value.strip():
        raise validation("content is required")
    return value


def at_least(value: int, least: int, name: str) -> int:
    """Return a number that is not too small."""
    if value < least:
        raise validation(f"{name} is smaller than {least}")
    return value
