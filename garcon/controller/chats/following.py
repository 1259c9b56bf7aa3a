"""What the browser sockets are told of the chats when they ask (server.md A.5 to A.8)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from attrs import define
from msgspec import structs
from twisted.logger import Logger
from zope.interface import implementer

from garcon.contract.chats import ResendCandidate
from garcon.contract.events import (
    ControlResult,
    ProcessingChat,
    ProcessingSnapshot,
    ShownRow,
    Subscribed,
)
from garcon.controller.chats.chat import Chat
from garcon.controller.chats.reload import Reloads
from garcon.controller.chats.run import stale_view
from garcon.controller.chats.state import State
from garcon.controller.transcripts import replay, resend
from garcon.controller.transcripts.transcript import Transcript
from garcon.controller.ws.interfaces import IAnswers, IReloading, Progress
from garcon.controller.ws.requests import Reload, Subscribe
from garcon.deferreds import returns_deferred
from garcon.errors import GarconError


@implementer(IAnswers)
@define(eq=False)
class Following:
    """See `IAnswers`."""

    _log: ClassVar[Logger] = Logger()

    _state: State
    _reloads: Reloads

    @property
    def server_instance_id(self) -> str:
        """See `IAnswers`."""
        return self._state.server_instance_id

    def now(self) -> str:
        """See `IAnswers`."""
        return self._state.now()

    def processing(self) -> ProcessingSnapshot:
        """See `IAnswers`."""
        state = self._state
        phases = [(chat.id, state.phase(chat)) for chat in state.registry.all()]
        busy = [ProcessingChat(chat_id, phase) for chat_id, phase in phases if phase is not None]
        return ProcessingSnapshot(chats=sorted(busy, key=lambda one: one.chat_id))

    def controls(self, chat_ids: Sequence[str]) -> list[ControlResult]:
        """See `IAnswers`.  They are in memory, so never more than one is read at a time."""
        return [self._control(chat_id) for chat_id in chat_ids]

    def _control(self, chat_id: str) -> ControlResult:
        if self._state.registry.find(chat_id) is None:
            return ControlResult(chat_id=chat_id, outcome="not-found")
        try:
            control = self._state.control(chat_id)
        except Exception:
            self._log.failure("the control of {chat} could not be read", chat=chat_id)
            return ControlResult(chat_id=chat_id, outcome="unavailable")
        return ControlResult(chat_id=chat_id, outcome="snapshot", control=control)

    @returns_deferred
    async def page(self, request: Subscribe) -> Subscribed:
        """See `IAnswers`."""
        chat = self._state.registry.get(request.chat_id)
        transcript = chat.transcript
        must_be_current(chat, request.view_id)
        last, after = transcript.last_ordinal, request.after
        through = last if request.through is None else request.through
        if not after <= through <= last:
            raise GarconError(
                "REQUEST_VALIDATION_FAILED", "The cursor or the watermark is beyond the end."
            )
        try:
            read = await transcript.stretch(after, through)
            candidates = await self._candidates(chat)
        except GarconError:
            self._must_be_there(chat, transcript)
            raise
        self._must_be_there(chat, transcript)
        # All that follows is of one instant: whoever reads it has missed no change since.
        if self._state.phase(chat) is not None:
            candidates = []
        candidates = resend.newest(candidates, resend.TOLD_BYTES)
        feed = chat.permissions.shown(self._state.server_instance_id, chat.id, transcript.view_id)

        def message(rows: list[ShownRow], end: int) -> Subscribed:
            return Subscribed(
                client_request_id=request.request_id,
                chat_id=chat.id,
                transcript_view_id=transcript.view_id,
                messages=rows,
                first_ordinal=after + 1,
                last_ordinal=end,
                next_after_ordinal=end,
                through_ordinal=through,
                has_more=end < through,
                resend_candidates=[],
                transient_feed=structs.replace(feed, rows=[]),
            )

        page = replay.page(read, through, message, replay.weight(candidates, feed.rows))
        return structs.replace(page, resend_candidates=candidates, transient_feed=feed)

    async def _candidates(self, chat: Chat) -> list[ResendCandidate]:
        if self._state.phase(chat) is not None:
            return []
        return await chat.transcript.resend_candidates()

    def reload(self, request: Reload, progress: Progress) -> IReloading:
        """See `IAnswers`."""
        return self._reloads.begin(request, progress)

    def _must_be_there(self, chat: Chat, transcript: Transcript) -> None:
        """A chat can go, and its view be replaced, while rows are read."""
        if self._state.registry.get(chat.id).transcript is not transcript:
            raise stale_view()


def must_be_current(chat: Chat, view_id: str) -> None:
    """Refuse a view that is not the chat's current one."""
    if view_id != chat.transcript.view_id:
        raise stale_view()
