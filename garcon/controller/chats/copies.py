"""Making a chat out of another's conversation: a fork, or the continuation of a hand-off (chats.md
5.8, 5.10).  What has a meaning only where it was said is not copied.

A conversation can be long, and everybody else's commits would wait for one that copied it whole.
So it is copied in pieces, into a chat that is none before the last commit says so: until then
nobody is told of it, and a process that finds one was interrupted and removes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal
from uuid import uuid4

from attrs import define, frozen
from msgspec import structs
from twisted.logger import Logger

from garcon.contract.events import ListRefreshRequested
from garcon.contract.limits import TITLE_BYTES
from garcon.controller.chats.admission import unreadable
from garcon.controller.chats.becoming import Becoming
from garcon.controller.chats.chat import Chat
from garcon.controller.chats.fields import first_line
from garcon.controller.chats.registry import title
from garcon.controller.chats.state import State
from garcon.controller.transcripts.pieces import in_pieces
from garcon.controller.transcripts.rows import ERROR
from garcon.controller.transcripts.transcript import Late, Transcript
from garcon.errors import GarconError
from garcon.store.interfaces import Damaged
from garcon.store.records import (
    AppendRows,
    Change,
    ChatRecord,
    NativeFork,
    PutChat,
    PutView,
    RemoveChat,
    Row,
    RowKind,
    TouchChat,
)

COPIED: frozenset[RowKind] = frozenset({"user-input", "provider-row", "agent-switch"})
"""Rows that belong to a conversation wherever it goes on; of these, error rows are not copied."""

Early = tuple[str, tuple[Row, ...]]

_log = Logger()


@frozen
class Point:
    """Up to where a chat is copied; `is_end` says that this is everything it holds."""

    through: int
    is_end: bool


@define(eq=False)
class Copy:
    """A chat in the making.  Whoever asked for it ends it by `finish`, by a commit that has its
    `changes`, or by `unmake`.
    """

    chat: Chat
    _state: State
    _left: list[Change]
    _becoming: list[Becoming]
    _early: list[Early]
    """Rows that were added in the commit that made it a chat, and of which nobody was told yet."""

    async def keep(self) -> None:
        """Make durable what there is, so that it can be read."""
        left, self._left = self._left, []
        await self._state.store.write(left)

    def changes(self) -> list[Late]:
        """Return what makes it a chat of the workspace, on top of the list."""
        top = self._state.registry.top("normal")
        self._becoming.append(Becoming(self.chat, {"is_unfinished": False, "position": top}))
        return [one.made for one in self._becoming]

    async def finish(self) -> None:
        """Make it a chat of the workspace, without a turn."""
        made = [change() for change in self.changes()]
        await self._state.store.write([*self._left, *made])
        self.appear()

    def appear(self) -> None:
        """From here on there is a chat, and everybody may know of it: that it runs is told ahead of
        its input, as with every turn.
        """
        state = self._state
        state.registry.add(self.chat)
        if self.chat.turn is not None:
            state.phase_changed(self.chat)
        for view_id, rows in self._early:
            state.rows_committed(self.chat.id, view_id, rows)
        state.publish(ListRefreshRequested(chat_id=self.chat.id, reason="chat-added"))

    async def unmake(self) -> None:
        """Leave nothing of what came to nothing."""
        for one in self._becoming:
            one.undo()
        await _remove(self._state, self.chat.id)


async def fork(
    state: State,
    source: Chat,
    chat_id: str,
    point: Point,
    made_by: str | None = None,
    native: NativeFork | None = None,
) -> Copy:
    """Copy a chat into one of its own, with the source's choices.  Its agent goes on at `native` in
    the source's session; without, it is told what was said.
    """
    number = source.record.forks + 1
    suffix = f" ({number})"
    name = first_line(title(source), TITLE_BYTES - len(suffix)) + suffix
    record = _record(
        state, source, chat_id, "fork", point, name=name, made_by=made_by, native=native
    )
    return await _copied(state, source, record, point, [Becoming(source, {"forks": number})])


async def continuation(state: State, source: Chat, chat_id: str, made_by: str) -> Copy:
    """Copy a chat into its successor, which keeps the source's name and first message."""
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


def _record(
    state: State,
    source: Chat,
    chat_id: str,
    relation: Literal["fork", "handoff"],
    point: Point,
    *,
    name: str | None,
    made_by: str | None,
    native: NativeFork | None = None,
) -> ChatRecord:
    return structs.replace(
        source.record,
        chat_id=chat_id,
        agent_ownership_epoch=str(uuid4()),
        agent_session_id=None,
        fork_from=native,
        name=name,
        parent_chat_id=source.id,
        parent_relation=relation,
        parent_view_id=source.transcript.view_id,
        parent_ordinal=point.through,
        made_by=made_by,
        is_unfinished=True,
        inherited=0,
        forks=0,
        origin=None,
        order_group="normal",
        created_at=state.now(),
        last_read_at=None,
    )


async def _copied(
    state: State, source: Chat, record: ChatRecord, point: Point, becoming: list[Becoming]
) -> Copy:
    """Copy all rows; the last piece of them is left for the copy's next commit."""
    view_id = str(uuid4())
    left: list[Change] = [PutChat(record), PutView(record.chat_id, view_id)]
    at, text, count = source.last_activity_at, source.last_message, 0
    try:
        if not point.is_end:
            at, said = await source.transcript.activity(point.through)
            text = first_line(said)
        async for some in in_pieces(source.transcript, point.through):
            rows = _placed(some, count)
            count += len(rows)
            if rows:
                left.append(AppendRows(view_id, rows))
            if some[-1].ordinal < point.through:
                await state.store.write(left)
                left = []
    except Damaged as damage:
        await _remove(state, record.chat_id)
        raise unreadable(damage) from None
    except BaseException:
        await _remove(state, record.chat_id)
        raise
    if at is not None:
        left.append(TouchChat(record.chat_id, at, text))
    early: list[Early] = []

    def committed(view: str, rows: tuple[Row, ...]) -> None:
        if state.registry.find(record.chat_id) is None:
            early.append((view, rows))
        else:
            state.rows_committed(record.chat_id, view, rows)

    transcript = Transcript(state.store, view_id, count, committed=committed)
    return Copy(Chat(record, transcript, at, text), state, left, becoming, early)


def _placed(some: Sequence[Row], count: int) -> tuple[Row, ...]:
    """Return those of the rows that are copied, numbered on from `count`."""
    kept = (row for row in some if is_copied(row))
    return tuple(structs.replace(row, ordinal=count + n) for n, row in enumerate(kept, 1))


def is_copied(row: Row) -> bool:
    """Whether a row is part of every copy of its chat."""
    return row.kind in COPIED and not row.payload.startswith(ERROR)


async def _remove(state: State, chat_id: str) -> None:
    try:
        await state.store.write([RemoveChat(chat_id)])
    except GarconError as refusal:
        # The next process finds it unfinished.
        _log.error("{chat} could not be removed: {why}", chat=chat_id, why=refusal.text)
