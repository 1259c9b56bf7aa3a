"""Stopping the turn that owns a chat (chats.md 3.10, 5.6)."""

from __future__ import annotations

from typing import Any

from attrs import define

from garcon.contract.chats import StopAccepted, StopChat
from garcon.controller.chats import fields
from garcon.controller.chats.chat import Chat
from garcon.controller.chats.ledger import Record, fingerprint
from garcon.controller.chats.state import State, answer_to
from garcon.controller.handlers import Call

COMMAND = "agent-stop"


@define(eq=False)
class Stops:
    """Serves ``POST /chats/stop``."""

    _state: State

    async def stop(self, call: Call[Any, StopChat]) -> StopAccepted:
        """Stop the turn; answered once it is settled, or could not be stopped."""
        body = call.body
        fields.no_answers_member(body)
        request_id = fields.client_id(body.client_request_id, "clientRequestId")
        chat_id = fields.chat_id(body.chat_id)
        mark = fingerprint({"chatId": chat_id, "agentId": body.agent_id})
        return await self._state.lanes.run(chat_id, lambda: self._stop(chat_id, request_id, mark))

    async def _stop(self, chat_id: str, request_id: str, mark: bytes) -> StopAccepted:
        state = self._state
        chat = state.registry.get(chat_id)
        record = state.ledger.replayed(COMMAND, chat_id, request_id, mark)
        if record is not None:
            return self._answer(chat, record, "duplicate")
        record = state.ledger.accept(COMMAND, chat_id, request_id, mark, state.now())
        turn = chat.turn
        if turn is None or turn.has_ended:
            outcome = "already-idle"
        else:
            outcome = await turn.interrupt()
        state.ledger.settle(record, "finished", outcome)
        return self._answer(chat, record, "accepted")

    def _answer(self, chat: Chat, record: Record, status: str) -> StopAccepted:
        return StopAccepted(
            **answer_to(record, status),
            outcome=record.answer,
            control=self._state.control(chat.id),
            parent_chat=chat.parent(),
        )
