"""Stopping the turn that owns a chat, with or without going on with what is queued (chats.md 3.10,
3.11, 5.6).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal
from uuid import uuid4

from attrs import define
from twisted.internet.defer import Deferred

from garcon.contract.chats import StopAccepted, StopChat
from garcon.contract.events import SessionStopped
from garcon.controller.chats import fields
from garcon.controller.chats.chat import Chat
from garcon.controller.chats.ledger import Record, fingerprint
from garcon.controller.chats.state import State, answer_to
from garcon.controller.chats.turns import Stopped
from garcon.controller.handlers import Call

STOP, INTERRUPT = "agent-stop", "agent-interrupt-and-send"

Intent = Literal["stop", "interrupt-and-send"]
Outcome = Literal["interrupt-requested", "already-idle", "failed"]


@define(eq=False)
class Stops:
    """Serves ``POST /chats/stop`` and ``POST /chats/interrupt-and-send``."""

    _state: State

    async def stop(self, call: Call[Any, StopChat]) -> StopAccepted:
        """Stop the turn; answered once it is settled, or could not be stopped.  What is queued is
        held back.
        """
        return await self._serve(call.body, STOP, "stop")

    async def interrupt_and_send(self, call: Call[Any, StopChat]) -> StopAccepted:
        """Stop the turn, and send the next queued message."""
        return await self._serve(call.body, INTERRUPT, "interrupt-and-send")

    async def _serve(self, body: StopChat, command: str, intent: Intent) -> StopAccepted:
        fields.no_answers_member(body)
        request_id = fields.client_id(body.client_request_id, "clientRequestId")
        chat_id = fields.chat_id(body.chat_id)
        mark = fingerprint({"chatId": chat_id, "agentId": body.agent_id})
        ahead = self._ahead(chat_id, intent)

        async def served() -> StopAccepted:
            state = self._state
            chat = state.registry.get(chat_id)
            record = state.ledger.replayed(command, chat_id, request_id, mark)
            if record is not None:
                return self._answer(chat, record, "duplicate")
            record = state.ledger.accept(command, chat_id, request_id, mark, state.now())
            outcome = await self._stop(chat, intent, ahead)
            state.ledger.settle(record, "finished", outcome)
            answer = self._answer(chat, record, "accepted")
            state.drain(chat)
            return answer

        return await self._state.lanes.run(chat_id, served)

    def _ahead(self, chat_id: str, intent: Intent) -> Deferred[Stopped] | None:
        """Interrupt a turn whose launch holds up the commands of its chat: it would have begun when
        the stop's turn came.
        """
        state = self._state
        chat = state.registry.find(chat_id)
        turn = None if chat is None else chat.turn
        if chat is None or turn is None or turn.takes_no_more:
            return None
        if not (turn.is_launching and turn.holds_lane):
            return None
        state.lanes.must_have_room(chat_id)
        return Deferred.fromCoroutine(turn.interrupt(self._teller(chat, intent)))

    def _teller(self, chat: Chat, intent: Intent) -> Callable[[Outcome], None]:
        def tell(outcome: Outcome) -> None:
            self._state.publish(SessionStopped(chat_id=chat.id, outcome=outcome, intent=intent))

        return tell

    async def _stop(self, chat: Chat, intent: Intent, ahead: Deferred[Stopped] | None) -> str:
        state = self._state
        if intent == "stop":
            state.set_queue(chat, chat.queue.paused(str(uuid4()), state.now()))
        if ahead is not None:
            outcome = await ahead
            if chat.turn is not None and not chat.turn.has_ended:
                # It waited for that launch, and was asked for before the stop as well.
                outcome = await chat.turn.interrupt()
            return outcome
        tell = self._teller(chat, intent)
        turn = chat.turn
        if turn is not None and not turn.has_ended:
            return await turn.interrupt(tell)
        if turn is not None:
            await turn.settled()
        state.phase_changed(chat)
        tell("already-idle")
        return "already-idle"

    def _answer(self, chat: Chat, record: Record, status: str) -> StopAccepted:
        return StopAccepted(
            **answer_to(record, status),
            outcome=record.answer,
            control=self._state.control(chat.id),
            parent_chat=chat.parent(),
        )
