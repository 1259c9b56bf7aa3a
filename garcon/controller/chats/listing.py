"""The chat list, and the chat that was last looked at (chats.md 3.1, 3.3)."""

from __future__ import annotations

from typing import Any

import msgspec
from attrs import define

from garcon.contract.ids import LOCAL
from garcon.contract.upkeep import SelectChat, SelectedChat
from garcon.controller.chats import fields
from garcon.controller.chats.chat import Chat
from garcon.controller.chats.state import State
from garcon.controller.handlers import Call


@define(eq=False)
class Lists:
    """Serves ``GET /chats`` and ``PUT /chats/last-selected``."""

    _state: State
    _selected: Chat | None = None

    async def list(self, call: Call[Any, None]) -> msgspec.Raw:
        """List the chats whose project can be used; the body is joined from entries that are made
        once for each change.
        """
        state = self._state
        await state.paths.refresh(
            lambda: (
                chat.record.project_path
                for chat in state.registry.all()
                if chat.record.executor_id == LOCAL
            )
        )
        chats = state.registry.ordered()
        selected, is_listed, entry = None, state.paths.is_listed, state.registry.entry
        entries, reloads = [], dict[tuple[str, str], bool]()
        for chat in chats:
            record = chat.record
            if is_listed(record.executor_id, record.project_path):
                can_reload = False
                if record.agent_session_id is not None:
                    owner = (record.executor_id, record.agent_id)
                    if owner not in reloads:
                        reloads[owner] = state.keeps_history(*owner)
                    can_reload = reloads[owner]
                phase = None if chat.turn is None else state.phase(chat)
                entries.append(entry(chat, phase, can_reload=can_reload))
                if chat is self._selected:
                    selected = chat.id
        tail = b'],"total":%d,"lastSelectedChatId":%s}' % (
            len(entries),
            msgspec.json.encode(selected),
        )
        return msgspec.Raw(b'{"sessions":[' + b",".join(entries) + tail)

    def select(self, call: Call[Any, SelectChat]) -> SelectedChat:
        """Remember the chat that was last looked at, or that there is none.  In memory only."""
        chat_id, chat = call.body.chat_id, None
        if chat_id is not None:
            chat = self._state.registry.get(fields.required(chat_id, "chatId"))
        self._selected = chat
        return SelectedChat(last_selected_chat_id=None if chat is None else chat.id)
