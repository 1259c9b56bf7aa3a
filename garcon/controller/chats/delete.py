"""Deleting a chat: its turn is stopped, then nothing durable is left of it, then everybody is told
(chats.md 3.2, 5.6.6).
"""

from __future__ import annotations

from typing import Literal

from attrs import define

from garcon.contract.events import SessionDeleted, SessionStopped
from garcon.contract.upkeep import ChatQuery, Done, NamedChat
from garcon.controller.chats import fields
from garcon.controller.chats.chat import Chat, no_such_chat
from garcon.controller.chats.state import State
from garcon.controller.handlers import Call
from garcon.errors import GarconError
from garcon.store.records import RemoveChat


@define(eq=False)
class Deletions:
    """Serves ``DELETE /chats``."""

    _state: State

    async def delete(self, call: Call[ChatQuery, NamedChat]) -> Done:
        """Delete a chat; ``SESSION_BUSY`` (409) when its turn cannot be stopped, and then it stays.

        Not idempotent: who deletes it again is told that there is none.
        """
        state = self._state
        chat_id = fields.chat_id(call.body.chat_id or call.query.chat_id)
        state.must_be_open()
        state.registry.get(chat_id)
        return await state.lanes.run(chat_id, lambda: self._delete(chat_id))

    async def _delete(self, chat_id: str) -> Done:
        chat = self._state.registry.get(chat_id)
        chat.is_deleting = True
        try:
            await self._end_turn(chat)
            await self._remove(chat)
        except BaseException:
            chat.is_deleting = False
            self._state.drain(chat)
            raise
        return Done()

    async def _end_turn(self, chat: Chat) -> None:
        turn = chat.turn
        if turn is None:
            return
        if turn.has_ended:
            await turn.settled()
        else:
            turn.stop_reason = "chat-deleted"
            await turn.interrupt(lambda outcome: self._stopped(chat, outcome))
        if not turn.is_settled:
            turn.stop_reason = "user-stop"
            raise GarconError(
                "SESSION_BUSY",
                "The chat's turn could not be stopped, so the chat was not deleted.",
                status=409,
                retryable=True,
            )
        turn.forget()

    def _stopped(self, chat: Chat, outcome: Literal["interrupt-requested", "failed"]) -> None:
        self._state.publish(
            SessionStopped(chat_id=chat.id, outcome=outcome, intent="chat-deletion")
        )

    async def _remove(self, chat: Chat) -> None:
        """Take the chat out of the store and then out of memory.

        Nothing of it may be written once its removal is on its way: it would come back.
        """
        state = self._state
        chat.is_removed = True
        chat.transcript.retire(no_such_chat())
        try:
            await state.store.write([RemoveChat(chat.id)])
        except BaseException:
            chat.is_removed = False
            chat.transcript.restore()
            raise
        state.registry.remove(chat.id)
        state.receipts.chat_deleted(chat.id, state.now())
        state.publish(SessionDeleted(chat_id=chat.id))
