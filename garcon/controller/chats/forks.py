"""Forking a chat, with or without a first turn, and continuing it in a successor (chats.md 3.6 to
3.8).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar
from uuid import uuid4

from attrs import define, frozen
from msgspec import UNSET
from twisted.internet.defer import CancelledError, Deferred

from garcon.contract.events import ListRefreshRequested
from garcon.contract.forks import ContinueChat, ForkChat, ForkMade, ForkRun, ForkRunAccepted
from garcon.contract.messages import Presentation
from garcon.controller.chats import attachments, fields
from garcon.controller.chats.admission import (
    NewInput,
    TurnSettings,
    begin,
    busy,
    is_repeated,
    prepare,
)
from garcon.controller.chats.attachments import Attachment
from garcon.controller.chats.chat import Chat
from garcon.controller.chats.choices import NONE, Overrides, chosen
from garcon.controller.chats.copies import Point, continuation, end_of, fork, unmake
from garcon.controller.chats.ledger import Record, conflict, digested, fingerprint
from garcon.controller.chats.models import Selection
from garcon.controller.chats.state import State, answer_to, duplicate_of, settle_empty
from garcon.controller.handlers import Call
from garcon.errors import GarconError, validation

COMMAND = "fork-run"
"""What both commands that make a chat and run it count as (chats.md 2.3)."""

T = TypeVar("T")
Work = Callable[[], Coroutine[Deferred[Any], Any, T]]
Make = Callable[[Chat], Coroutine[Deferred[Any], Any, Chat]]


@frozen
class _Wish:
    """A command that makes a chat and runs it, its fields in order."""

    body: ContinueChat
    request_id: str
    message_id: str
    source_id: str
    chat_id: str
    attached: list[Attachment]
    overrides: Overrides
    presentation: Presentation | None
    mark: bytes

    @property
    def made_by(self) -> str:
        return f"{COMMAND}:{self.request_id}"

    @property
    def new(self) -> NewInput:
        images = [one.image for one in self.attached]
        return NewInput(self.message_id, self.body.command, images, presentation=self.presentation)


@define(eq=False)
class Forks:
    """Serves ``POST /chats/fork``, ``/fork-run`` and ``/handoff-run``."""

    _state: State

    # Without a turn

    async def fork(self, call: Call[Any, ForkChat]) -> ForkMade:
        """Fork a chat; answered once the fork is durable.  Allowed while the source runs."""
        body = call.body
        source_id, chat_id = _two(body.source_chat_id, body.chat_id)
        if (body.up_to_ordinal is None) != (body.transcript_view_id is None):
            raise validation("upToOrdinal and transcriptViewId belong together")
        if body.up_to_ordinal is not None and body.up_to_ordinal < 1:
            raise validation("upToOrdinal is not a positive integer")
        self._state.must_be_open()
        return await self._locked(source_id, chat_id, lambda: self._fork(body, source_id, chat_id))

    async def _fork(self, body: ForkChat, source_id: str, chat_id: str) -> ForkMade:
        state = self._state
        state.must_be_open()
        source = state.registry.get(source_id)
        if state.registry.find(chat_id) is not None:
            raise conflict("The chat that is to be made exists already.")
        point = end_of(source)
        if body.up_to_ordinal is not None:
            if body.transcript_view_id != source.transcript.view_id:
                # Retryable here, unlike everywhere else (chats.md 8.5).
                raise GarconError(
                    "STALE_TRANSCRIPT_VIEW",
                    "The chat's transcript was replaced; read it again.",
                    status=409,
                    retryable=True,
                )
            if body.up_to_ordinal > point.through:
                raise GarconError("TRANSCRIPT_UNAVAILABLE", "The chat has no such row.", status=422)
            point = Point(body.up_to_ordinal, is_end=body.up_to_ordinal == point.through)
        # An agent that is gone cannot go on with the fork.
        await self._agent_of(source)
        chat = await fork(state, source, chat_id, point)
        state.registry.add(chat)
        self._tell(chat)
        return ForkMade(chat=state.entry(chat))

    async def _agent_of(self, source: Chat) -> None:
        record = source.record
        try:
            await self._state.agents.entry(record.executor_id, record.agent_id)
        except GarconError as error:
            if error.code == "UNSUPPORTED_AGENT":
                raise GarconError("UNSUPPORTED_AGENT", error.text, status=422) from None
            raise

    # With a turn

    async def fork_run(self, call: Call[Any, ForkRun]) -> ForkRunAccepted:
        """Fork a chat and run its first turn; both or neither happen."""
        body = call.body
        wish = _read(body, _overrides(body), self._mark_of_fork(body))

        async def make(source: Chat) -> Chat:
            return await fork(
                self._state, source, wish.chat_id, end_of(source), made_by=wish.made_by
            )

        return await self._made(wish, make)

    async def handoff_run(self, call: Call[Any, ContinueChat]) -> ForkRunAccepted:
        """Go on in a successor that has the source's context; the source must be idle."""
        body = call.body
        mark = fingerprint(
            {
                "sourceChatId": body.source_chat_id,
                "chatId": body.chat_id,
                "command": body.command,
                "clientMessageId": body.client_message_id,
                "images": UNSET if body.images is None else digested(body.images),
                "kind": "handoff-run",
            }
        )
        wish = _read(body, NONE, mark)

        async def make(source: Chat) -> Chat:
            if source.turn is not None:
                raise busy()
            return await continuation(self._state, source, wish.chat_id, wish.made_by)

        return await self._made(wish, make)

    async def _made(self, wish: _Wish, make: Make) -> ForkRunAccepted:
        self._state.must_be_open()
        return await self._locked(
            wish.source_id, wish.chat_id, lambda: self._make_and_run(wish, make)
        )

    async def _make_and_run(self, wish: _Wish, make: Make) -> ForkRunAccepted:
        state = self._state
        state.must_be_open()
        replayed = state.ledger.replayed(COMMAND, wish.chat_id, wish.request_id, wish.mark)
        if replayed is not None:
            return self._answer(replayed, duplicate_of(replayed))
        chat = state.registry.find(wish.chat_id)
        if chat is not None and chat.record.made_by != wish.made_by:
            raise conflict("The chat that is to be made exists already.")
        source = state.registry.get(wish.source_id) if chat is None else chat
        state.executors.runtime(source.record.executor_id)
        settings = await self._settings(wish, source)
        record = state.ledger.accept(
            COMMAND, wish.chat_id, wish.request_id, wish.mark, state.now(), str(uuid4())
        )
        try:
            if chat is None:
                await self._run_in_copy(wish, source, make, settings, record)
            else:
                await self._resume(wish, chat, settings, record)
        except CancelledError:
            raise
        except Exception as error:
            state.ledger.fail(record, error)
            raise
        return self._answer(record, answer_to(record))

    async def _settings(self, wish: _Wish, source: Chat) -> TurnSettings:
        try:
            return await chosen(self._state, source.record, wish.overrides, wish.attached)
        except GarconError as error:
            if error.code == "UNSUPPORTED_AGENT":
                raise GarconError("UNSUPPORTED_AGENT", error.text, status=422) from None
            raise

    async def _run_in_copy(
        self, wish: _Wish, source: Chat, make: Make, settings: TurnSettings, record: Record
    ) -> None:
        state = self._state
        chat = await make(source)
        state.registry.add(chat)
        try:
            await is_repeated(chat, wish.new)
            prepared = await prepare(state, chat, wish.new, settings)
            await begin(state, chat, prepared, record)
        except BaseException:
            await unmake(state, chat)
            raise
        self._tell(chat)

    async def _resume(
        self, wish: _Wish, chat: Chat, settings: TurnSettings, record: Record
    ) -> None:
        """The command made this chat before the process was replaced: see it through."""
        state = self._state
        if await is_repeated(chat, wish.new):
            settle_empty(state, record)
            return
        if chat.turn is not None:
            raise busy()
        await begin(state, chat, await prepare(state, chat, wish.new, settings), record)

    def _answer(self, record: Record, members: dict[str, Any]) -> ForkRunAccepted:
        chat = self._state.registry.find(record.chat_id)
        return ForkRunAccepted(
            **members,
            chat=None if chat is None else self._state.entry(chat),
            parent_chat=None if chat is None else chat.parent(),
        )

    def _tell(self, chat: Chat) -> None:
        self._state.publish(ListRefreshRequested(chat_id=chat.id, reason="chat-added"))

    def _mark_of_fork(self, body: ForkRun) -> bytes:
        """Digest what makes a fork-run the same one; consent may be added on a retry."""
        return fingerprint(
            {
                "sourceChatId": body.source_chat_id,
                "chatId": body.chat_id,
                "clientMessageId": body.client_message_id,
                "command": body.command,
                "images": digested(body.images),
                "model": body.model,
                "apiProviderId": body.api_provider_id,
                "modelEndpointId": body.model_endpoint_id,
                "modelProtocol": body.model_protocol,
                "permissionMode": body.permission_mode,
                "thinkingMode": body.thinking_mode,
                "agentSettings": body.agent_settings,
                "userMessagePresentation": body.user_message_presentation or UNSET,
            }
        )

    async def _locked(self, first: str, second: str, work: Work[T]) -> T:
        """Run `work` in the lanes of both chats, taken in the order of their ids (5.18)."""
        lanes = self._state.lanes
        lower, higher = sorted((first, second))

        async def inner() -> T:
            return await lanes.run(higher, work)

        return await lanes.run(lower, inner)


def _two(source: str, made: str) -> tuple[str, str]:
    source_id, chat_id = fields.chat_id(source, "sourceChatId"), fields.chat_id(made)
    if source_id == chat_id:
        raise validation("a chat is not made of itself")
    return source_id, chat_id


def _read(body: ContinueChat, overrides: Overrides, mark: bytes) -> _Wish:
    fields.no_answers_member(body)
    source_id, chat_id = _two(body.source_chat_id, body.chat_id)
    if not body.command.strip() and not body.images:
        raise validation("command is required")
    return _Wish(
        body=body,
        request_id=fields.client_id(body.client_request_id, "clientRequestId"),
        message_id=fields.client_id(body.client_message_id, "clientMessageId"),
        source_id=source_id,
        chat_id=chat_id,
        attached=attachments.read(body.images),
        overrides=overrides,
        presentation=fields.presentation(body.user_message_presentation),
        mark=mark,
    )


def _overrides(body: ForkRun) -> Overrides:
    """Read the settings of a fork's first turn; modes leniently (chats.md 3.7)."""
    permission, thinking = body.permission_mode, body.thinking_mode
    return Overrides(
        selection=Selection.of(body),
        permission_mode=None if permission in (None, UNSET) else fields.permission_mode(permission),
        thinking_mode=None if thinking in (None, UNSET) else fields.thinking_mode(thinking),
        agent_settings=None if body.agent_settings is UNSET else body.agent_settings,
    )
