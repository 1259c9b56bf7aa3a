"""Compacting a chat's agent session: a turn without an input (chats.md 3.9)."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from attrs import define

from garcon.contract.chats import CommandAccepted
from garcon.contract.forks import CompactChat
from garcon.contract.runs import Launch
from garcon.controller.chats import fields
from garcon.controller.chats.admission import TurnSettings, must_be_free
from garcon.controller.chats.chat import Chat
from garcon.controller.chats.choices import chosen
from garcon.controller.chats.ledger import fingerprint
from garcon.controller.chats.state import State, answer_to, duplicate_of
from garcon.controller.chats.turns import Turn
from garcon.controller.handlers import Call
from garcon.errors import validation

COMMAND = "agent-compact"


@define(eq=False)
class Compactions:
    """Serves ``POST /chats/compact``."""

    _state: State

    async def compact(self, call: Call[Any, CompactChat]) -> CommandAccepted:
        """Admit the turn; an agent that cannot compact accepts it and then fails it."""
        body = call.body
        fields.no_answers_member(body)
        request_id = fields.client_id(body.client_request_id, "clientRequestId")
        chat_id = fields.chat_id(body.chat_id)
        self._state.must_be_open()
        return await self._state.lanes.run(
            chat_id, lambda: self._compact(chat_id, request_id, body.instructions)
        )

    async def _compact(
        self, chat_id: str, request_id: str, instructions: str | None
    ) -> CommandAccepted:
        state = self._state
        state.must_be_open()
        chat = state.registry.get(chat_id)
        mark = fingerprint({"chatId": chat_id, "instructions": instructions})
        replayed = state.ledger.replayed(COMMAND, chat_id, request_id, mark)
        if replayed is not None:
            return CommandAccepted(**duplicate_of(replayed))
        if chat.turn is not None:
            raise validation("a turn of this chat is still running", status=409)
        settings = await chosen(state, chat.record)
        state.must_be_open()
        chat.must_be_writable()
        must_be_free(chat)
        runtime = state.executors.runtime(chat.record.executor_id)
        at = state.now()
        record = state.ledger.accept(COMMAND, chat_id, request_id, mark, at, str(uuid4()))
        turn = Turn(state, chat, record.turn_id or "", record)
        turn.reserve()
        state.receipts.begin(chat_id, turn.run_id, request_id, at)
        if not settings.entry.supports_compact:
            turn.fail("OPERATION_UNSUPPORTED", "The chat's agent cannot compact its session.")
        elif chat.record.agent_session_id is None:
            turn.fail("OPERATION_UNSUPPORTED", "The chat's agent has no session to compact yet.")
        else:
            launch = _launch(chat, turn.run_id, settings, instructions or "")
            state.tasks.spawn("dispatching a compaction", turn.dispatch(runtime, launch))
        return CommandAccepted(**answer_to(record))


def _launch(chat: Chat, run_id: str, settings: TurnSettings, instructions: str) -> Launch:
    stored = chat.record
    return Launch(
        chat_id=stored.chat_id,
        run_id=run_id,
        binding_id=str(uuid4()),
        agent_id=stored.agent_id,
        model=settings.selection.model,
        permission_mode=settings.permission_mode,
        thinking_mode=settings.thinking_mode,
        agent_settings=settings.agent_settings,
        project_path=stored.project_path,
        prompt=instructions,
        agent_session_id=stored.agent_session_id,
        is_compaction=True,
        **settings.selection.routing(),
    )
