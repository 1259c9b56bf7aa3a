"""What is told of chats beside the list: what runs, details of one, whose an agent's session is
(chats.md 3.33, 3.34; control.md I.3).
"""

from __future__ import annotations

from typing import Any

from attrs import define
from twisted.internet.defer import TimeoutError

from garcon.contract.ids import LOCAL
from garcon.contract.limits import INTERACTIVE_READ
from garcon.contract.upkeep import (
    ChatDetails,
    ChatQuery,
    FindNativeSession,
    NativeSessionChat,
    NativeSessionFound,
    RunningChat,
    RunningChats,
)
from garcon.controller.chats import fields
from garcon.controller.chats.state import State
from garcon.controller.handlers import Call
from garcon.errors import GarconError


@define(eq=False)
class Details:
    """Serves ``/chats/running``, ``/chats/details`` and ``/chats/lookup-native-session``."""

    _state: State

    async def running(self, call: Call[Any, None]) -> RunningChats:
        """List what runs, by agent: Local's agents and those of every chat have a key."""
        sessions: dict[str, list[RunningChat]] = {
            agent_id: [] for agent_id in await self._local_agents()
        }
        for chat in self._state.registry.ordered():
            running = sessions.setdefault(chat.record.agent_id, [])
            if chat.turn is not None:
                running.append(RunningChat(id=chat.id))
        return RunningChats(sessions=dict(sorted(sessions.items())))

    async def _local_agents(self) -> list[str]:
        try:
            runtime = self._state.executors.runtime(LOCAL)
            entries = await runtime.catalog(None).addTimeout(INTERACTIVE_READ, self._state.clock)
        except (GarconError, TimeoutError):
            # What runs is worth knowing all the same.
            return []
        return [entry.id for entry in entries]

    def details(self, call: Call[ChatQuery, None]) -> ChatDetails:
        """Describe one chat."""
        chat = self._state.registry.get(fields.required(call.query.chat_id, "chatId"))
        record = chat.record
        return ChatDetails(
            chat_id=chat.id,
            executor_id=record.executor_id,
            first_message=record.first_message,
            created_at=record.created_at,
            last_activity_at=chat.last_activity_at,
            agent_session_id=record.agent_session_id,
            transcript_source=None,
        )

    def find_native_session(self, call: Call[Any, FindNativeSession]) -> NativeSessionFound:
        """Find the chats whose agent calls its session so, on one executor."""
        body = call.body
        session_id = fields.required(body.native_session_id, "nativeSessionId")
        executor_id = fields.executor_id(body.executor_id)
        agent_id = fields.optional(body.agent_id, "agentId")
        matches = [
            NativeSessionChat(chat_id=chat.id, executor_id=executor_id, agent_id=record.agent_id)
            for chat in self._state.registry.ordered()
            if (record := chat.record).agent_session_id == session_id
            and record.executor_id == executor_id
            and agent_id in (None, record.agent_id)
        ]
        return NativeSessionFound(matches=matches)
