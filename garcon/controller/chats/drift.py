"""Noticing that an agent's session was gone on with outside of its chat (chats.md 3.23).

Whoever opens a chat has it looked at, in the background.  What is found changes nothing: a notice
says that a reload would show more.
"""

from __future__ import annotations

from typing import Any

from attrs import define, field
from twisted.internet.defer import CancelledError, TimeoutError

from garcon.contract.events import OperationalNotice
from garcon.contract.limits import INTERACTIVE_WAIT
from garcon.contract.runs import NativeSession, SessionPoint
from garcon.controller.chats.chat import Chat
from garcon.controller.chats.state import State
from garcon.controller.transcripts.rows import run_end, session_of
from garcon.errors import GarconError
from garcon.runtime.interfaces import INativeDrift
from garcon.store.interfaces import Damaged

ROWS = 100
"""Of the newest, among which the end of the last turn is looked for."""
NOTICE = (
    "The agent's own history of this chat may have changed outside Garcon. Reload the chat to read"
    " it again."
)


@define(eq=False)
class Drifts:
    """Looks at chats of one workspace, at each once at a time."""

    _state: State
    _looking: set[str] = field(factory=set)

    def look(self, chat: Chat) -> None:
        """Look at a chat, unless that is done already or something of it runs."""
        if chat.turn is None and chat.id not in self._looking:
            self._state.tasks.spawn("looking for drift", self._look(chat))

    async def _look(self, chat: Chat) -> None:
        self._looking.add(chat.id)
        try:
            transcript, last = chat.transcript, chat.transcript.last_ordinal
            has_drifted = await self._has_drifted(chat)
            now = (chat.transcript, chat.transcript.last_ordinal)
            if has_drifted and chat.turn is None and now == (transcript, last):
                self._tell(chat)
        except CancelledError:
            raise
        except (GarconError, TimeoutError, Damaged):
            pass  # nobody has asked for an answer
        finally:
            self._looking.discard(chat.id)

    async def _has_drifted(self, chat: Chat) -> bool:
        record = chat.record
        if record.agent_session_id is None:
            return False
        runtime: Any = self._state.executors.runtime(record.executor_id)
        if not INativeDrift.providedBy(runtime):
            return False
        anchor = await _end_of_last_turn(chat)
        if anchor is None:
            return False
        session = NativeSession(record.agent_id, record.agent_session_id, record.project_path)
        asked = runtime.has_moved_on(SessionPoint(session, anchor))
        has_moved_on: bool = await asked.addTimeout(INTERACTIVE_WAIT, self._state.clock)
        return has_moved_on

    def _tell(self, chat: Chat) -> None:
        if self._state.registry.find(chat.id) is chat:
            at = self._state.now()
            self._state.publish(
                OperationalNotice(
                    chat_id=chat.id, content=NOTICE, notice_type="warning", timestamp=at
                )
            )


async def _end_of_last_turn(chat: Chat) -> str | None:
    """Return where the last turn ended in the agent's session, None where that is not known."""
    last = chat.transcript.last_ordinal
    rows = await chat.transcript.raw(max(1, last - ROWS + 1), last, 2**62)
    for row in reversed(rows):
        if (end := run_end(row)) is not None:
            return end.anchor
        if session_of(row) is not None:
            return None
    return None
