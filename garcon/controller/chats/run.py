"""Running a turn in a chat that exists: admission, message identity, and an answer before the
launch (chats.md 3.5).
"""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import msgspec
from attrs import define
from msgspec import UNSET, UnsetType
from twisted.internet.defer import CancelledError

from garcon.contract.catalogs import (
    BYPASS_MODES,
    AgentEntry,
)
from garcon.contract.chats import RunAccepted, RunChat
from garcon.contract.events import ListRefreshRequested
from garcon.controller.chats import attachments, fields
from garcon.controller.chats.admission import (
    NewInput,
    TurnSettings,
    begin,
    is_repeated,
    must_be_free,
    prepare,
)
from garcon.controller.chats.chat import Chat
from garcon.controller.chats.ledger import Record
from garcon.controller.chats.models import (
    Selection,
    must_be_offered,
    must_support_modes,
    takes_pictures,
)
from garcon.controller.chats.run_wish import EXPLICIT_BYPASS, Wish, read_wish
from garcon.controller.chats.state import State, answer_to, duplicate_of, receipt_location
from garcon.controller.handlers import Call, Reply
from garcon.errors import GarconError, validation
from garcon.store.records import Change, PutChat

COMMAND = "agent-run"


@define(eq=False)
class Runs:
    """Serves ``POST /chats/run``."""

    _state: State

    async def run(self, call: Call[Any, RunChat]) -> Reply:
        """Admit a turn; answered once its input is durable."""
        wish = read_wish(call.body)
        self._state.must_be_open()
        try:
            return await self._state.lanes.run(wish.chat_id, lambda: self._run(wish))
        except GarconError as error:
            if error.code == "SESSION_BUSY":
                error.extra["control"] = msgspec.to_builtins(self._state.control(wish.chat_id))
            raise

    async def _run(self, wish: Wish) -> Reply:
        state = self._state
        state.must_be_open()
        chat = state.registry.get(wish.chat_id)
        if wish.view_id != chat.transcript.view_id:
            raise stale_view()
        mark = wish.fingerprint()
        replayed = state.ledger.replayed(COMMAND, chat.id, wish.request_id, mark)
        if replayed is not None:
            members = duplicate_of(replayed)
            await self._add_tags(chat, wish.tags_to_add)
            return _reply(chat, replayed, members)
        new, settings = await self._checked(wish, chat)
        state.must_be_open()
        if state.registry.find(chat.id) is not chat:
            raise GarconError("SESSION_NOT_FOUND", "No such chat exists.", status=404)
        record = state.ledger.accept(
            COMMAND, chat.id, wish.request_id, mark, state.now(), str(uuid4())
        )
        try:
            repeated = await self._admit(wish, chat, new, settings, record)
        except CancelledError:
            raise
        except Exception as error:
            state.ledger.fail(record, error)
            raise
        if repeated:
            await self._add_tags(chat, wish.tags_to_add)
        return _reply(chat, record, answer_to(record))

    async def _checked(self, wish: Wish, chat: Chat) -> tuple[NewInput, TurnSettings]:
        """Make the checks of chats.md 3.5 between replay and admission, in their order."""
        body, stored = wish.body, chat.record
        if not body.command.strip() and not body.images:
            raise validation("command is required")
        attached = attachments.read(body.images)
        if body.expected_agent_id is not UNSET and body.expected_agent_id != stored.agent_id:
            raise GarconError(
                "EXPECTED_AGENT_MISMATCH", f"The chat's agent is {stored.agent_id}.", status=409
            )
        epoch = body.expected_agent_ownership_epoch
        if epoch is not UNSET and epoch != stored.agent_ownership_epoch:
            raise GarconError(
                "STALE_CHAT_OWNERSHIP", "The chat has changed hands; choose again.", status=409
            )
        if body.handoff is not None:
            raise GarconError(
                "OPERATION_UNSUPPORTED", "A chat cannot change its agent here.", status=422
            )
        selection = _selection(wish, chat)
        entry = await self._state.agents.entry(stored.executor_id, stored.agent_id)
        attachments.must_be_supported(attached, entry, images=takes_pictures(entry, selection))
        new = NewInput(
            wish.message_id,
            body.command,
            [one.image for one in attached],
            wish.excluded,
            wish.presentation,
        )
        return new, self._allowed(wish, chat, entry, selection)

    def _allowed(
        self,
        wish: Wish,
        chat: Chat,
        entry: AgentEntry,
        selection: Selection,
    ) -> TurnSettings:
        body, stored = wish.body, chat.record
        if (
            body.permission_fallback_policy == EXPLICIT_BYPASS
            and wish.permission_mode is None
            and stored.permission_mode in BYPASS_MODES
        ):
            raise GarconError(
                "EXPLICIT_BYPASS_REQUIRED",
                f"The chat's permission mode {stored.permission_mode} must be asked for by name.",
                status=422,
            )
        settings = stored.agent_settings
        if body.agent_settings is not UNSET:
            settings = body.agent_settings
            if fields.agent_settings(settings).owner_id != stored.agent_id:
                raise validation("agentSettings belongs to another agent")
        if settings.owner_id != stored.agent_id:
            raise _incomplete("agent settings")
        permission = wish.permission_mode or stored.permission_mode
        thinking = wish.thinking_mode or stored.thinking_mode
        must_support_modes(entry, permission, thinking)
        if body.model is not UNSET:
            must_be_offered(entry, selection)
        return TurnSettings(entry, selection, permission, thinking, settings)

    async def _admit(
        self, wish: Wish, chat: Chat, new: NewInput, settings: TurnSettings, record: Record
    ) -> bool:
        """Take the turn in; returns whether its input was there already, and nothing was done."""
        state = self._state
        must_be_free(chat)
        if await is_repeated(chat, new):
            self._settle_empty(chat, record)
            return True
        prepared = await prepare(state, chat, new, settings)
        before_tags = chat.record.tags
        tags = fields.merged_tags(before_tags, wish.tags_to_add)
        before: list[Change] = []
        if tags != before_tags:
            chat.set(tags=tags)
            before.append(PutChat(chat.record))
        try:
            await begin(state, chat, prepared, record, before=before)
        except BaseException:
            chat.set(tags=before_tags)
            raise
        if before:
            state.publish(ListRefreshRequested(chat_id=chat.id, reason="tags-updated"))
        return False

    def _settle_empty(self, chat: Chat, record: Record) -> None:
        """A repeated message runs nothing: its receipt is complete and empty at once (chats.md
        8.3).
        """
        state, turn_id = self._state, record.turn_id or ""
        state.receipts.begin(chat.id, turn_id, record.request_id, record.accepted_at)
        state.receipts.settle(chat.id, turn_id, "completed", state.now(), is_empty=True)
        state.ledger.settle(record, "finished")

    async def _add_tags(self, chat: Chat, added: list[str]) -> None:
        tags = fields.merged_tags(chat.record.tags, added)
        if tags != chat.record.tags:
            await chat.change(self._state.store, tags=tags)
            self._state.publish(ListRefreshRequested(chat_id=chat.id, reason="tags-updated"))


def stale_view() -> GarconError:
    """The caller's view is not the current one."""
    return GarconError(
        "STALE_TRANSCRIPT_VIEW", "The chat's transcript was replaced; read it again.", status=409
    )


def _incomplete(what: str) -> GarconError:
    return GarconError(
        "INCOMPLETE_EXECUTION_CONFIG", f"The chat has no {what}; name one.", status=422
    )


def _selection(wish: Wish, chat: Chat) -> Selection:
    body, stored = wish.body, chat.record
    if body.model is UNSET:
        if not stored.model:
            raise _incomplete("model")
        return Selection(
            stored.model,
            stored.api_provider_id,
            stored.model_endpoint_id,
            stored.model_protocol,
        )
    return Selection(
        body.model.strip(),
        _said(body.api_provider_id),
        _said(body.model_endpoint_id),
        _said(body.model_protocol),
    )


def _said(value: str | UnsetType | None) -> str | None:
    return value if isinstance(value, str) else None


def _reply(chat: Chat, record: Record, members: dict[str, Any]) -> Reply:
    accepted = RunAccepted(**members, parent_chat=chat.parent())
    return Reply(accepted, headers=receipt_location(chat.id, record.turn_id))
