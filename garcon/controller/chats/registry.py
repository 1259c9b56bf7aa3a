"""All chats of the workspace, in the order in which they are listed, and how lists and snapshots
show them.
"""

from __future__ import annotations

from typing import Any

import msgspec
from attrs import define, field

from garcon.contract.chats import (
    Activity,
    ChatListEntry,
    Phase,
    Preview,
    SnapshotActivity,
    SnapshotChat,
)
from garcon.controller.chats.chat import Chat, no_such_chat
from garcon.controller.chats.fields import NEW_SESSION, first_line
from garcon.controller.chats.order import STEP, Order
from garcon.store.records import ChatRecord, OrderGroup

_encode = msgspec.json.Encoder().encode


@define
class _Shown:
    """A list entry, encoded, and everything it was made of."""

    record: ChatRecord
    last_activity_at: str | None
    last_message: str
    phase: Phase | None
    can_reload: bool
    body: bytes


@define(eq=False)
class Registry:
    """Every chat by its id."""

    order: Order = field(factory=Order)
    version: int = 0
    """Grows with everything that changes what lists show."""
    _chats: dict[str, Chat] = field(factory=dict)
    _ordered: list[Chat] | None = None
    _shown: dict[str, _Shown] = field(factory=dict)

    def __len__(self) -> int:
        return len(self._chats)

    def all(self) -> list[Chat]:
        return list(self._chats.values())

    def ordered(self) -> list[Chat]:
        """Return all chats as lists show them (chats.md 3.1); not to be changed."""
        if self._ordered is None:
            self._ordered = [self._chats[chat_id] for chat_id in self.order.ids()]
        return self._ordered

    def find(self, chat_id: str) -> Chat | None:
        return self._chats.get(chat_id)

    def get(self, chat_id: str) -> Chat:
        """Return a chat, or raise ``SESSION_NOT_FOUND`` (404)."""
        chat = self._chats.get(chat_id)
        if chat is None:
            raise no_such_chat()
        return chat

    def touch(self) -> None:
        """Something has changed that lists show."""
        self.version += 1

    def add(self, chat: Chat) -> None:
        self._chats[chat.id] = chat
        self.order.put(chat.record)
        self._ordered = None
        chat.touched = self.touch
        self.touch()

    def remove(self, chat_id: str) -> None:
        self._chats.pop(chat_id, None)
        self._shown.pop(chat_id, None)
        self.order.drop(chat_id)
        self._ordered = None
        self.touch()

    def place(self, chat: Chat, group: OrderGroup, position: int) -> None:
        """Move a chat, in memory only."""
        chat.set(order_group=group, position=position)
        self.order.put(chat.record)
        self._ordered = None

    def top(self, group: OrderGroup) -> int:
        """Return the position that puts a new chat before all others of its group."""
        position = self.order.position(self.order.top(group))
        return STEP if position is None else position

    def entry(self, chat: Chat, phase: Phase | None, *, can_reload: bool = False) -> bytes:
        """Return what the chat list shows of a chat as JSON, which is made once for each change."""
        known = self._shown.get(chat.id)
        if (
            known is not None
            and known.record is chat.record
            and known.last_activity_at is chat.last_activity_at
            and known.last_message is chat.last_message
            and known.phase == phase
            and known.can_reload is can_reload
        ):
            return known.body
        body = _encode(list_entry(chat, phase, can_reload=can_reload))
        if self._chats.get(chat.id) is chat:
            self._shown[chat.id] = _Shown(
                chat.record, chat.last_activity_at, chat.last_message, phase, can_reload, body
            )
        return body


def title(chat: Chat) -> str:
    """Return a chat's title, which is never empty."""
    record = chat.record
    return first_line(record.name or "") or first_line(record.first_message) or NEW_SESSION


def list_entry(chat: Chat, phase: Phase | None, *, can_reload: bool = False) -> ChatListEntry:
    """Return what the chat list shows of a chat (chats.md 4.1).

    Whatever it is made of, `Registry.entry` has to compare.
    """
    record = chat.record
    at, read = chat.last_activity_at, record.last_read_at
    previews: dict[str, Any] = {"last_message": chat.last_message}
    if record.first_message:
        previews["first_message"] = record.first_message
    return ChatListEntry(
        id=record.chat_id,
        executor_id=record.executor_id,
        agent_id=record.agent_id,
        agent_ownership_epoch=record.agent_ownership_epoch,
        model=record.model,
        api_provider_id=record.api_provider_id,
        model_endpoint_id=record.model_endpoint_id,
        model_protocol=record.model_protocol,
        permission_mode=record.permission_mode,
        thinking_mode=record.thinking_mode,
        agent_settings=record.agent_settings,
        title=title(chat),
        project_path=record.project_path,
        effective_project_key=record.project_key,
        order_group=record.order_group,
        tags=record.tags,
        activity=Activity(created_at=record.created_at, last_activity_at=at, last_read_at=read),
        preview=Preview(**previews),
        is_pinned=record.order_group == "pinned",
        is_archived=record.order_group == "archived",
        is_active=phase is not None,
        is_processing=phase is not None,
        processing_phase=phase,
        can_reload_from_native_history=can_reload,
        is_unread=at is not None and (read is None or at > read),
        parent_chat=chat.parent(),
    )


def snapshot_chat(chat: Chat, *, can_reload: bool = False) -> SnapshotChat:
    """Return what a snapshot says of the chat itself (chats.md 4.10)."""
    record = chat.record
    return SnapshotChat(
        id=record.chat_id,
        title=title(chat),
        executor_id=record.executor_id,
        agent_id=record.agent_id,
        agent_ownership_epoch=record.agent_ownership_epoch,
        model=record.model,
        api_provider_id=record.api_provider_id,
        model_endpoint_id=record.model_endpoint_id,
        model_protocol=record.model_protocol,
        permission_mode=record.permission_mode,
        thinking_mode=record.thinking_mode,
        project_path=record.project_path,
        tags=record.tags,
        can_reload_from_native_history=can_reload,
        activity=SnapshotActivity(
            created_at=record.created_at, last_activity_at=chat.last_activity_at
        ),
        parent_chat=chat.parent(),
    )
