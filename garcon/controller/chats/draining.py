"""Sending what waits in a chat's queue: one entry at a time, each as a turn of its own (chats.md
5.5).

A chat is drained when its turn has ended, when something was queued or resumed, and when its
executor is ready again; what keeps an entry from being sent leaves it where it is.
"""

from __future__ import annotations

from typing import ClassVar
from uuid import uuid4

from attrs import define, field
from twisted.internet.defer import CancelledError
from twisted.logger import Logger

from garcon.contract.events import OperationalNotice
from garcon.controller.chats.admission import (
    NewInput,
    begin,
    is_repeated,
    prepare,
)
from garcon.controller.chats.chat import Chat
from garcon.controller.chats.choices import chosen
from garcon.controller.chats.ledger import Record
from garcon.controller.chats.queue import Entry
from garcon.controller.chats.state import State
from garcon.errors import GarconError

COMMAND = "queue-dispatch"
"""What a turn of a queued message counts as; it is no client's command, so no ledger has it."""


@define(eq=False)
class Draining:
    """Sends what waits.  Owned by `Chats`; `State.drain` is its `wanted`."""

    _log: ClassVar[Logger] = Logger()

    _state: State
    _asked: set[str] = field(factory=set)
    """The chats whose draining waits for its turn among their commands."""

    def wanted(self, chat: Chat) -> None:
        """Send the next entry as soon as that may be, if there is one."""
        if chat.id not in self._asked and self._next(chat) is not None:
            self._asked.add(chat.id)
            self._state.tasks.spawn("draining a queue", self._in_turn(chat))

    def executor_changed(self, executor_id: str) -> None:
        """What waits for this executor may perhaps go on."""
        for chat in self._state.registry.all():
            if chat.record.executor_id == executor_id:
                self.wanted(chat)

    def _next(self, chat: Chat) -> Entry | None:
        """Return the entry to send now, if one may be sent at all."""
        state = self._state
        if (
            state.is_shutting_down
            or chat.is_deleting
            or chat.turn is not None
            or state.registry.find(chat.id) is not chat
            or not self._may_be_asked(chat.record.executor_id)
        ):
            return None
        return chat.queue.next

    def _may_be_asked(self, executor_id: str) -> bool:
        """Whether not to wait for an executor; one that does not exist any more never comes."""
        executors = self._state.executors
        if executors.availability(executor_id) == "ready":
            return True
        try:
            executors.existing(executor_id)
        except GarconError:
            return True
        return False

    async def _in_turn(self, chat: Chat) -> None:
        try:
            await self._state.lanes.run(chat.id, lambda: self._drain(chat), is_bounded=False)
        finally:
            self._asked.discard(chat.id)

    async def _drain(self, chat: Chat) -> None:
        # From here on a new wish is a new drain: this one may have looked already.
        self._asked.discard(chat.id)
        while (entry := self._next(chat)) is not None:
            try:
                await self._send(chat, entry)
            except CancelledError:
                raise
            except GarconError as error:
                if self._next(chat) is entry:
                    self._cannot(chat, entry, error.text)
            except Exception:
                self._log.failure("{entry} could not be sent", entry=entry.id)
                self._cannot(chat, entry, "something went wrong inside Garcon")

    async def _send(self, chat: Chat, entry: Entry) -> None:
        """Send one entry; it leaves the queue at the moment its row is durable."""
        state = self._state
        new = NewInput(entry.message_id, entry.content, excluded=entry.excluded)
        if await is_repeated(chat, new):
            # Said already: there is nothing to send.
            self._sent(chat, entry)
            return
        settings = await chosen(state, chat.record)
        prepared = await prepare(state, chat, new, settings)
        if self._next(chat) is not entry:
            return
        record = Record(COMMAND, chat.id, str(uuid4()), b"", state.now(), str(uuid4()))
        await begin(
            state,
            chat,
            prepared,
            record,
            has_receipt=False,
            entry_id=entry.id,
            committed=lambda: self._sent(chat, entry),
        )

    def _sent(self, chat: Chat, entry: Entry) -> None:
        self._state.set_queue(chat, chat.queue.dispatched(entry.id, self._state.now()))

    def _cannot(self, chat: Chat, entry: Entry, why: str) -> None:
        """Hold the queue and say so: the entry is not lost, and not tried again by itself."""
        state = self._state
        at = state.now()
        state.set_queue(chat, chat.queue.failed(entry.id, str(uuid4()), at))
        text = f"The next queued message could not be sent, so the queue is paused: {why}"
        state.publish(
            OperationalNotice(chat_id=chat.id, content=text, notice_type="error", timestamp=at)
        )
