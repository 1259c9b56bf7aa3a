"""A chat's tags: replaced by browsers, set as a whole and read by commands (chats.md 3.28, 4.14;
decisions.md 30).
"""

from __future__ import annotations

from typing import Any

from attrs import define

from garcon.contract.events import ListRefreshRequested
from garcon.contract.upkeep import (
    ChangeTags,
    ChatQuery,
    ChatTags,
    SetTags,
    TagsChanged,
    TagsSet,
)
from garcon.controller.chats import fields
from garcon.controller.chats.state import State
from garcon.controller.handlers import Call


@define(eq=False)
class Tags:
    """Serves ``GET``, ``PUT`` and ``PATCH /chats/tags``."""

    _state: State

    def read(self, call: Call[ChatQuery, None]) -> ChatTags:
        """Return a chat's tags, normalised."""
        chat = self._state.registry.get(fields.required(call.query.chat_id, "chatId"))
        return ChatTags(chat_id=chat.id, tags=chat.record.tags)

    async def set(self, call: Call[Any, SetTags]) -> TagsSet:
        """See to it that a chat has these tags and no others."""
        chat_id = fields.required(call.body.chat_id, "chatId")
        tags, changed = await self._replace(chat_id, call.body.tags)
        return TagsSet(chat_id=chat_id, tags=tags, changed=changed)

    async def change(self, call: Call[Any, ChangeTags]) -> TagsChanged:
        """Replace a chat's tags."""
        chat_id = fields.required(call.body.chat_id, "chatId")
        tags, _ = await self._replace(chat_id, call.body.tags)
        return TagsChanged(chat_id=chat_id, tags=tags)

    async def _replace(self, chat_id: str, wanted: Any) -> tuple[list[str], bool]:
        state = self._state
        state.must_be_open()
        state.registry.get(chat_id)
        tags = fields.tags(wanted)

        async def replace() -> bool:
            chat = state.registry.get(chat_id)
            if tags == chat.record.tags:
                return False
            await chat.change(state.store, tags=tags)
            state.publish(ListRefreshRequested(chat_id=chat_id, reason="tags-updated"))
            return True

        return tags, await state.lanes.run(chat_id, replace)
