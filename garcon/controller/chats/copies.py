"""Making a chat out of another's conversation: a fork, or the continuation of a hand-off (chats.md
5.8, 5.10).  What has a meaning only where it was said is not copied.
"""

from __future__ import annotations

from typing import Literal
from uuid import uuid4

from attrs import frozen
from msgspec import structs
from twisted.logger import Logger

from garcon.contract.limits import TITLE_BYTES
from garcon.controller.chats.admission import unreadable
from garcon.controller.chats.chat import Chat
from garcon.controller.chats.fields import first_line
from garcon.controller.chats.registry import title
from garcon.controller.chats.state import State
from garcon.controller.transcripts.rows import ERROR
from garcon.controller.transcripts.transcript import Transcript
from garcon.errors import GarconError
from garcon.store.interfaces import Damaged
from garcon.store.records import (
    Change,
    ChatRecord,
    CopyRows,
    PutChat,
    PutView,
    RemoveChat,
    RowKind,
    TouchChat,
)

COPIED: tuple[RowKind, ...] = ("user-input", "provider-row", "agent-switch")
"""Rows that belong to a conversation wherever it goes on; of these, error rows are not copied."""

_log = Logger()


@frozen
class Point:
    """Up to where a chat is copied; `is_end` says that this is everything it holds."""

    through: int
    is_end: bool


async def fork(
    state: State, source: Chat, chat_id: str, point: Point, made_by: str | None = None
) -> Chat:
    """Make a fork durable: a chat of its own, with the source's choices, on top of *normal*."""
    number = source.record.forks + 1
    suffix = f" ({number})"
    name = first_line(title(source), TITLE_BYTES - len(suffix)) + suffix
    record = _record(state, source, chat_id, "fork", point, name=name, made_by=made_by)
    counted = structs.replace(source.record, forks=number)
    more: list[Change] = [PutChat(counted)] if source.is_writable else []
    chat = await _copied(state, source, record, point, more)
    source.set(forks=number)
    return chat


async def continuation(state: State, source: Chat, chat_id: str, made_by: str) -> Chat:
    """Make the successor of a chat durable; it keeps the source's name and first message."""
    point = end_of(source)
    record = _record(
        state, source, chat_id, "handoff", point, name=source.record.name, made_by=made_by
    )
    return await _copied(state, source, record, point, [])


def end_of(source: Chat) -> Point:
    """Return the end of what a chat holds now; ``TRANSCRIPT_UNAVAILABLE`` (422) for one that
    cannot be read.
    """
    transcript = source.transcript
    if transcript.fenced is not None:
        raise unreadable(transcript.fenced)
    return Point(transcript.last_ordinal, is_end=True)


async def unmake(state: State, chat: Chat) -> None:
    """Leave nothing of a copy that came to nothing."""
    state.registry.remove(chat.id)
    try:
        await state.store.write([RemoveChat(chat.id)])
    except GarconError as refusal:
        _log.error("{chat} could not be removed: {why}", chat=chat.id, why=refusal.text)


def _record(
    state: State,
    source: Chat,
    chat_id: str,
    relation: Literal["fork", "handoff"],
    point: Point,
    *,
    name: str | None,
    made_by: str | None,
) -> ChatRecord:
    return structs.replace(
        source.record,
        chat_id=chat_id,
        agent_ownership_epoch=str(uuid4()),
        agent_session_id=None,
        name=name,
        parent_chat_id=source.id,
        parent_relation=relation,
        parent_view_id=source.transcript.view_id,
        parent_ordinal=point.through,
        made_by=made_by,
        forks=0,
        origin=None,
        order_group="normal",
        position=state.registry.top("normal"),
        created_at=state.now(),
        last_read_at=None,
    )


async def _copied(
    state: State, source: Chat, record: ChatRecord, point: Point, more: list[Change]
) -> Chat:
    view_id = str(uuid4())
    at, text = source.last_activity_at, source.last_message
    try:
        if not point.is_end:
            at, said = await source.transcript.activity(point.through)
            text = first_line(said)
        changes: list[Change] = [
            PutChat(record),
            PutView(record.chat_id, view_id),
            CopyRows(source.transcript.view_id, view_id, point.through, COPIED, ERROR),
        ]
        if at is not None:
            changes.append(TouchChat(record.chat_id, at, text))
        await state.store.write([*changes, *more])
    except Damaged as damage:
        source.transcript.fenced = damage
        raise unreadable(damage) from None
    try:
        last_ordinal = await state.store.last_ordinal(view_id)
    except BaseException:
        await state.store.write([RemoveChat(record.chat_id)])
        raise
    chat_id = record.chat_id
    transcript = Transcript(
        state.store,
        view_id,
        last_ordinal,
        committed=lambda view, rows: state.rows_committed(chat_id, view, rows),
    )
    return Chat(record, transcript, at, text)
