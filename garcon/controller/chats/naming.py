"""Naming a chat (chats.md 3.37; control.md K10)."""

from __future__ import annotations

from typing import Any

from attrs import define

from garcon.contract.chats import NamedSession, NameSession
from garcon.controller.chats import fields
from garcon.controller.chats.state import State
from garcon.controller.handlers import Call


@define(eq=False)
class Names:
    """Serves ``PUT /app/session-name``."""

    _state: State

    async def name(self, call: Call[Any, NameSession]) -> NamedSession:
        """Give a chat its name; the same name again changes nothing."""
        chat_id = fields.required(call.body.chat_id, "chatId")
        title = fields.title(call.body.title)
        self._state.must_be_open()
        self._state.registry.get(chat_id)
        return await self._state.lanes.run(chat_id, lambda: self._name(chat_id, title))

    async def _name(self, chat_id: str, title: str) -> NamedSession:
        chat = self._state.registry.get(chat_id)
        changed = chat.record.name != title
        if changed:
            await chat.change(self._state.store, name=title)
            self._state.title_changed(chat)
        return NamedSession(title=title, changed=changed)
