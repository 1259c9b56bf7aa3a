"""The chat list, and the chat that was last looked at (chats.md 3.1, 3.3)."""

from __future__ import annotations

from collections.abc import Sequence
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
    """Serves ``GET /chats`` and ``PUT /chats/last-selected``.

    An answer is joined from entries that are made once for each change, and said again as it is
    while nothing changes.
    """

    _state: State
    _selected: Chat | None = None
    _said: tuple[int, msgspec.Raw] | None = None
    """The last answer, and the registry's version that it shows."""

    async def list(self, call: Call[Any, None]) -> msgspec.Raw:
        """List the chats whose project can be used."""
        registry = self._state.registry
        if await self._state.paths.refresh(self._projects):
            self._said = None
        if self._said is None or self._said[0] != registry.version:
            self._said = (registry.version, self._joined())
        return self._said[1]

    def _projects(self) -> Sequence[str]:
        records = (chat.record for chat in self._state.registry.all())
        return [record.project_path for record in records if record.executor_id == LOCAL]

    def _joined(self) -> msgspec.Raw:
        state = self._state
        selected, is_listed, entry = None, state.paths.is_listed, state.registry.entry
        entries, reloads = [], dict[tuple[str, str], bool]()
        for chat in state.registry.ordered():
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
        self._selected, self._said = chat, None
        return SelectedChat(last_selected_chat_id=None if chat is None else chat.id)
