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

from garcon.contract.catalogs import AgentEntry
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
from garcon.controller.chats.choices import NONE, Overrides, chosen, owner_entry
from garcon.controller.chats.copies import Copy, Point, continuation, end_of, fork
from garcon.controller.chats.ledger import Record, conflict, digested, fingerprint
from garcon.controller.chats.models import Selection
from garcon.controller.chats.native_forks import native_point
from garcon.controller.chats.state import State, answer_to, duplicate_of, settle_empty
from garcon.controller.handlers import Call
from garcon.errors import GarconError, validation

COMMAND = "fork-run"
"""What both commands that make a chat and run it count as (chats.md 2.3)."""

T = TypeVar("T")
Work = Callable[[], Coroutine[Deferred[Any], Any, T]]
Make = Callable[[Chat], Coroutine[Deferred[Any], Any, Copy]]


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
        fields.no_answers_member(body)
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
        entry = await self._agent_of(source)
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
        native = await native_point(source, point, entry, body.allow_handoff_fork)
        copy = await fork(state, source, chat_id, point, native=native)
        try:
            await copy.finish()
        except BaseException:
            await copy.unmake()
            raise
        return ForkMade(chat=state.entry(copy.chat))

    async def _agent_of(self, source: Chat) -> AgentEntry | None:
        """An agent that is gone cannot go on with a fork; one that is away can, later, but forks
        nothing now.
        """
        record = source.record
        try:
            return await owner_entry(self._state, record.executor_id, record.agent_id)
        except GarconError as error:
            if error.code != "EXECUTOR_UNAVAILABLE":
                raise
        return None

    # With a turn

    async def fork_run(self, call: Call[Any, ForkRun]) -> ForkRunAccepted:
        """Fork a chat and run its first turn; both or neither happen."""
        body = call.body
        overrides = _overrides(body)
        wish = _read(
            body,
            overrides,
            _mark_of_fork(body, overrides),
            fields.presentation(body.user_message_presentation),
        )

        async def make(source: Chat) -> Copy:
            point = end_of(source)
            entry = await self._agent_of(source)
            native = await native_point(source, point, entry, body.allow_handoff_fork)
            return await fork(self._state, source, wish.chat_id, point, wish.made_by, native)

        return await self._made(wish, make)

    async def handoff_run(self, call: Call[Any, ContinueChat]) -> ForkRunAccepted:
        """Go on in a successor that has the source's context; the source must be idle."""
        wish = _read(call.body, NONE, _mark_of_continuation(call.body))

        async def make(source: Chat) -> Copy:
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
        known = await self._made_before(wish)
        if known is not None:
            return known
        source = state.registry.get(wish.source_id)
        state.executors.runtime(source.record.executor_id)
        settings = await chosen(state, source.record, wish.overrides, wish.attached)
        state.must_be_open()
        record = self._accept(wish)
        try:
            await self._run_in_copy(wish, source, make, settings, record)
        except CancelledError:
            raise
        except Exception as error:
            state.ledger.fail(record, error)
            raise
        return self._answer(record, answer_to(record))

    async def _made_before(self, wish: _Wish) -> ForkRunAccepted | None:
        """Answer the command that made the chat which is there, though this process does not
        remember it; what was made by another is a conflict.
        """
        chat = self._state.registry.find(wish.chat_id)
        if chat is None:
            return None
        if chat.record.made_by != wish.made_by or not await is_repeated(chat, wish.new):
            raise conflict("The chat that is to be made exists already.")
        record = self._accept(wish)
        settle_empty(self._state, record)
        return self._answer(record, answer_to(record, "duplicate"))

    def _accept(self, wish: _Wish) -> Record:
        state = self._state
        return state.ledger.accept(
            COMMAND, wish.chat_id, wish.request_id, wish.mark, state.now(), str(uuid4())
        )

    async def _run_in_copy(
        self, wish: _Wish, source: Chat, make: Make, settings: TurnSettings, record: Record
    ) -> None:
        """The chat, its input and its turn appear in one commit, or nothing does."""
        state = self._state
        copy = await make(source)
        chat = copy.chat
        try:
            await copy.keep()
            if await is_repeated(chat, wish.new):
                # It was said in the source already, and copied from there.
                await copy.finish()
                settle_empty(state, record)
                return
            await begin(
                state,
                chat,
                await prepare(state, chat, wish.new, settings),
                record,
                before=copy.changes(),
                committed=copy.appear,
            )
        except BaseException:
            await copy.unmake()
            raise

    def _answer(self, record: Record, members: dict[str, Any]) -> ForkRunAccepted:
        chat = self._state.registry.find(record.chat_id)
        return ForkRunAccepted(
            **members,
            chat=None if chat is None else self._state.entry(chat),
            parent_chat=None if chat is None else chat.parent(),
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


def _read(
    body: ContinueChat,
    overrides: Overrides,
    mark: bytes,
    presentation: Presentation | None = None,
) -> _Wish:
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
        presentation=presentation,
        mark=mark,
    )


def _mark_of_fork(body: ForkRun, overrides: Overrides) -> bytes:
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
            "permissionMode": overrides.permission_mode,
            "thinkingMode": overrides.thinking_mode,
            "agentSettings": body.agent_settings,
            "userMessagePresentation": body.user_message_presentation or UNSET,
        }
    )


def _mark_of_continuation(body: ContinueChat) -> bytes:
    """Digest what makes a continuation the same one, and no fork-run."""
    return fingerprint(
        {
            "sourceChatId": body.source_chat_id,
            "chatId": body.chat_id,
            "command": body.command,
            "clientMessageId": body.client_message_id,
            "images": UNSET if body.images is None else digested(body.images),
            "kind": "handoff-run",
        }
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
