"""Read marks (chats.md 3.27)."""

from __future__ import annotations

from typing import Any

from attrs import define

from garcon.contract.events import ReadUpdated
from garcon.contract.upkeep import MarkedRead, MarkRead, ReadMark
from garcon.controller.chats.chat import Chat
from garcon.controller.chats.state import State
from garcon.controller.handlers import Call
from garcon.store.records import PutChat


@define(eq=False)
class Reads:
    """Serves ``POST /chats/read``."""

    _state: State

    async def read(self, call: Call[Any, MarkRead]) -> MarkedRead:
        """Mark chats as read up to now, by this controller's clock; a mark never moves back."""
        state = self._state
        state.must_be_open()
        chats = self._known(call.body.entries)
        now = state.now()
        before = {
            chat.id: chat.record.last_read_at
            for chat in chats
            if (chat.record.last_read_at or "") < now
        }
        for chat in chats:
            if chat.id in before:
                chat.set(last_read_at=now)
        marks = [
            ReadMark(chat_id=chat.id, last_read_at=chat.record.last_read_at or now)
            for chat in chats
        ]
        try:
            # The unmoved ones too: the mark of a call that still waits is not durable yet.
            await state.store.write([PutChat(chat.record) for chat in chats])
        except BaseException:
            for chat in chats:
                if chat.id in before and chat.record.last_read_at == now:
                    chat.set(last_read_at=before[chat.id])
            raise
        for mark in marks:
            if mark.chat_id in before and state.registry.find(mark.chat_id) is not None:
                state.publish(ReadUpdated(chat_id=mark.chat_id, last_read_at=mark.last_read_at))
        return MarkedRead(results=marks)

    def _known(self, entries: Any) -> list[Chat]:
        """Return the chats that are named, each once; what names none is left out."""
        listed = entries if isinstance(entries, list) else []
        named = [one.get("chatId") for one in listed if isinstance(one, dict)]
        found = {
            chat.id: chat
            for chat_id in named
            if isinstance(chat_id, str)
            and (chat := self._state.registry.find(chat_id.strip())) is not None
            and chat.is_writable
        }
        return list(found.values())
