"""Moving chats in the list: pinning, archiving and reordering (chats.md 3.25, 3.26; control.md
K9).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar

from attrs import define, field

from garcon.contract.events import ListRefreshRequested
from garcon.contract.upkeep import (
    ArchiveSet,
    ArchiveToggled,
    AtBoundary,
    ChatQuery,
    ChatReordered,
    NamedChat,
    PinSet,
    PinToggled,
    RelativeTo,
    ReorderChat,
    SetArchived,
    SetPinned,
)
from garcon.controller.chats import fields
from garcon.controller.chats.chat import Chat
from garcon.controller.chats.lanes import Lanes, Work
from garcon.controller.chats.order import Gap
from garcon.controller.chats.state import State
from garcon.controller.handlers import Call
from garcon.errors import GarconError, validation
from garcon.store.records import OrderGroup, PutChat

T = TypeVar("T")

Reason = Literal["pinned-toggled", "archive-toggled"]
PinsAt = Literal["top", "bottom"]

_LANE = "the list"


@define(eq=False)
class Moves:
    """Serves the routes that change a chat's place, one move at a time.

    They have a lane of their own: none waits for what goes on inside a chat.
    """

    _state: State
    _lanes: Lanes
    _pins_at: Callable[[], PinsAt]

    async def toggle_pin(self, call: Call[ChatQuery, NamedChat]) -> PinToggled:
        """Pin a chat, or put it back to the top of the normal ones."""
        chat_id = fields.required(call.body.chat_id or call.query.chat_id, "chatId")

        async def toggle() -> PinToggled:
            chat = self._chat(chat_id)
            pinned = chat.record.order_group != "pinned"
            await self._pin(chat, pinned)
            return PinToggled(is_pinned=pinned)

        return await self._one_by_one(chat_id, toggle)

    async def toggle_archive(self, call: Call[ChatQuery, NamedChat]) -> ArchiveToggled:
        """Archive a chat, or put it back to the top of the normal ones."""
        chat_id = fields.required(call.body.chat_id or call.query.chat_id, "chatId")

        async def toggle() -> ArchiveToggled:
            chat = self._chat(chat_id)
            archived = chat.record.order_group != "archived"
            await self._archive(chat, archived)
            return ArchiveToggled(is_archived=archived)

        return await self._one_by_one(chat_id, toggle)

    async def pin(self, call: Call[Any, SetPinned]) -> PinSet:
        """See to it that a chat is pinned, or that it is not."""
        chat_id, pinned = fields.required(call.body.chat_id, "chatId"), call.body.pinned

        async def set_pinned() -> PinSet:
            chat = self._chat(chat_id)
            changed = (chat.record.order_group == "pinned") != pinned
            if changed:
                await self._pin(chat, pinned)
            return PinSet(chat_id=chat_id, pinned=pinned, changed=changed)

        return await self._one_by_one(chat_id, set_pinned)

    async def archive(self, call: Call[Any, SetArchived]) -> ArchiveSet:
        """See to it that a chat is archived, or that it is not."""
        chat_id, archived = fields.required(call.body.chat_id, "chatId"), call.body.archived

        async def set_archived() -> ArchiveSet:
            chat = self._chat(chat_id)
            changed = (chat.record.order_group == "archived") != archived
            if changed:
                await self._archive(chat, archived)
            return ArchiveSet(chat_id=chat_id, archived=archived, changed=changed)

        return await self._one_by_one(chat_id, set_archived)

    async def reorder(self, call: Call[Any, ReorderChat]) -> ChatReordered:
        """Move a chat inside its group; an orphan joins the normal ones first, at their end."""
        chat_id = fields.required(call.body.chat_id, "chatId")
        placement = call.body.placement
        if isinstance(placement, RelativeTo):
            reference = fields.required(placement.reference_chat_id, "referenceChatId")
            if reference == chat_id:
                raise validation("a chat has no place beside itself")
        return await self._one_by_one(chat_id, lambda: self._reorder(chat_id, placement))

    async def _reorder(self, chat_id: str, placement: AtBoundary | RelativeTo) -> ChatReordered:
        chat = self._chat(chat_id)
        reference = None
        if isinstance(placement, RelativeTo):
            reference = self._state.registry.get(placement.reference_chat_id.strip())
            if _adopted(reference) != _adopted(chat):
                raise GarconError("ORDER_CROSS_GROUP", "The two chats are in different groups.")
        group = _adopted(chat)
        move = _Move(self._state)
        orphans = [one for one in (chat, reference) if one and one.record.order_group == "orphan"]
        for orphan in orphans:
            orphan.must_be_writable()
        for orphan in orphans:
            move.put(orphan, self._state.registry.order.bottom(group))
        if isinstance(placement, AtBoundary):
            move.to_boundary(chat, group, placement.boundary)
        elif reference is not None:
            move.beside(chat, reference, group, after=placement.position == "after")
        changed = await move.keep()
        if changed:
            self._state.publish(ListRefreshRequested(chat_id=chat.id, reason="chats-reordered"))
        return ChatReordered(chat_id=chat.id, order_group=group, changed=changed)

    async def _pin(self, chat: Chat, pinned: bool) -> None:
        if pinned:
            await self._to(chat, "pinned", self._pins_at(), "pinned-toggled")
        else:
            await self._to(chat, "normal", "top", "pinned-toggled")

    async def _archive(self, chat: Chat, archived: bool) -> None:
        await self._to(chat, "archived" if archived else "normal", "top", "archive-toggled")

    async def _to(self, chat: Chat, group: OrderGroup, boundary: PinsAt, reason: Reason) -> None:
        move = _Move(self._state)
        move.to_boundary(chat, group, boundary)
        await move.keep()
        self._state.publish(ListRefreshRequested(chat_id=chat.id, reason=reason))

    def _chat(self, chat_id: str) -> Chat:
        chat = self._state.registry.get(chat_id)
        chat.must_be_writable()
        return chat

    async def _one_by_one(self, chat_id: str, work: Work[T]) -> T:
        self._state.must_be_open()
        self._chat(chat_id)
        return await self._lanes.run(_LANE, work)


@define(eq=False)
class _Move:
    """Chats on the move: at their new places in memory at once, and durable, or back, by `keep`."""

    _state: State
    _before: dict[str, tuple[Chat, OrderGroup, int]] = field(factory=dict)

    def to_boundary(self, chat: Chat, group: OrderGroup, boundary: PinsAt) -> None:
        """Put a chat at an end of a group, unless it is there."""
        order = self._state.registry.order
        gap = order.top(group) if boundary == "top" else order.bottom(group)
        if chat.id not in (gap.before, gap.after):
            self.put(chat, gap)

    def beside(self, chat: Chat, reference: Chat, group: Any, *, after: bool) -> None:
        """Put a chat next to another, unless it is there."""
        gap = self._state.registry.order.beside(reference.id, group, after=after)
        if chat.id not in (gap.before, gap.after):
            self.put(chat, gap)

    def put(self, chat: Chat, gap: Gap) -> None:
        """Put a chat into a gap; where there is no room, its whole group is numbered anew."""
        registry = self._state.registry
        position = registry.order.position(gap)
        if position is not None:
            self._place(chat, gap.group, position)
            return
        for chat_id, number in registry.order.numbered(gap, chat.id):
            self._place(registry.get(chat_id), gap.group, number)

    async def keep(self) -> bool:
        """Make the new places durable in one commit; fires with whether there are any."""
        moved = [chat for chat, _, _ in self._before.values() if chat.is_writable]
        try:
            if moved:
                await self._state.store.write([PutChat(chat.record) for chat in moved])
        except BaseException:
            for chat, group, position in self._before.values():
                if self._state.registry.find(chat.id) is chat:
                    self._state.registry.place(chat, group, position)
            raise
        return bool(moved)

    def _place(self, chat: Chat, group: OrderGroup, position: int) -> None:
        record = chat.record
        if (record.order_group, record.position) != (group, position):
            self._before.setdefault(chat.id, (chat, record.order_group, record.position))
            self._state.registry.place(chat, group, position)


def _adopted(chat: Chat) -> Literal["pinned", "normal", "archived"]:
    """Return the group in which a chat can be moved."""
    group = chat.record.order_group
    return "normal" if group == "orphan" else group
