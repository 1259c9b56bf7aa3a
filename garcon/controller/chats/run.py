"""Running a turn in a chat that exists: admission, message identity, and an answer before the
launch (chats.md 3.5).
"""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import msgspec
from attrs import define, frozen
from msgspec import UNSET, UnsetType
from twisted.internet.defer import CancelledError

from garcon.contract.catalogs import (
    BYPASS_MODES,
    AgentEntry,
    AgentSettings,
)
from garcon.contract.chats import RunAccepted, RunChat
from garcon.contract.messages import Image
from garcon.contract.runs import Launch
from garcon.controller.chats import attachments, fields
from garcon.controller.chats.attachments import Attachment
from garcon.controller.chats.chat import Chat
from garcon.controller.chats.ledger import Record, conflict
from garcon.controller.chats.models import (
    Selection,
    must_be_offered,
    must_support_modes,
    takes_pictures,
)
from garcon.controller.chats.run_wish import EXPLICIT_BYPASS, Wish, read_wish
from garcon.controller.chats.state import State, answer_to, duplicate_of, receipt_location
from garcon.controller.chats.turns import Turn
from garcon.controller.handlers import Call, Reply
from garcon.controller.transcripts import rows
from garcon.controller.transcripts.resend import Prompt, compose
from garcon.errors import GarconError, validation
from garcon.store.interfaces import Damaged
from garcon.store.records import Change, PutChat, Row, TouchChat

COMMAND = "agent-run"


@frozen
class _Settings:
    """What the turn runs with, after all checks but admission."""

    selection: Selection
    permission_mode: Any
    thinking_mode: Any
    agent_settings: AgentSettings
    images: list[Image]


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
                error.extra["control"] = msgspec.to_builtins(self._state.control())
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
        settings = await self._checked(wish, chat)
        state.must_be_open()
        if state.registry.find(chat.id) is not chat:
            raise GarconError("SESSION_NOT_FOUND", "No such chat exists.", status=404)
        record = state.ledger.accept(
            COMMAND, chat.id, wish.request_id, mark, state.now(), str(uuid4())
        )
        try:
            repeated = await self._admit(wish, chat, settings, record)
        except CancelledError:
            raise
        except Exception as error:
            state.ledger.fail(record, error)
            raise
        if repeated:
            await self._add_tags(chat, wish.tags_to_add)
        return _reply(chat, record, answer_to(record))

    async def _checked(self, wish: Wish, chat: Chat) -> _Settings:
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
        return self._allowed(wish, chat, entry, selection, attached)

    def _allowed(
        self,
        wish: Wish,
        chat: Chat,
        entry: AgentEntry,
        selection: Selection,
        attached: list[Attachment],
    ) -> _Settings:
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
        return _Settings(selection, permission, thinking, settings, [one.image for one in attached])

    async def _admit(self, wish: Wish, chat: Chat, settings: _Settings, record: Record) -> bool:
        """Take the turn in; returns whether its input was there already, and nothing was done."""
        state = self._state
        if chat.turn is not None:
            raise busy()
        try:
            present = await chat.transcript.find(wish.message_id)
            if present is not None:
                self._must_be_same(wish, chat, settings, present)
                self._settle_empty(chat, record)
                return True
            unanswered = await chat.transcript.unanswered()
        except Damaged as damage:
            raise unreadable(damage) from None
        candidates = [one for one in unanswered if one.ordinal not in wish.excluded]
        prompt = compose(candidates, wish.body.command, settings.images)
        # Asked for before the turn is reserved: from then on the executor is in use, and stays.
        runtime = state.executors.existing(chat.record.executor_id)
        turn = await self._commit(wish, chat, settings, record)
        launch = _launch(chat, turn.run_id, settings, prompt)
        state.tasks.spawn("dispatching a turn", turn.dispatch(runtime, launch))
        return False

    async def _commit(self, wish: Wish, chat: Chat, settings: _Settings, record: Record) -> Turn:
        """Reserve the turn and make its input durable; on failure neither happened."""
        state = self._state
        fresh = chat.record.agent_session_id is None
        turn = Turn(
            state,
            chat,
            record.turn_id or "",
            record,
            selection=settings.selection.stored() if fresh else None,
        )
        turn.reserve()
        at, text = record.accepted_at, fields.first_line(wish.body.command) or None
        before_tags = chat.record.tags
        tags = fields.merged_tags(before_tags, wish.tags_to_add)
        before: list[Change] = []
        if tags != before_tags:
            chat.set(tags=tags)
            before.append(PutChat(chat.record))
        draft = rows.user_input(
            at, wish.body.command, settings.images, wish.message_id, wish.presentation
        )
        try:
            await chat.transcript.append(
                [draft], before=before, after=[TouchChat(chat.id, at, text)]
            )
        except BaseException:
            chat.set(tags=before_tags)
            turn.release()
            raise
        chat.active(at, text)
        state.receipts.begin(chat.id, turn.run_id, wish.request_id, at)
        return turn

    def _must_be_same(self, wish: Wish, chat: Chat, settings: _Settings, present: Row) -> None:
        if present.kind == "user-input":
            stored = chat.transcript.input_of(present)
            if stored.content == wish.body.command and stored.attached == settings.images:
                return
        raise conflict("The message id was used for other content.")

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


def stale_view() -> GarconError:
    """The caller's view is not the current one."""
    return GarconError(
        "STALE_TRANSCRIPT_VIEW", "The chat's transcript was replaced; read it again.", status=409
    )


def busy() -> GarconError:
    """A turn owns the chat."""
    return GarconError(
        "SESSION_BUSY", "A turn of this chat is still running.", status=409, retryable=True
    )


def unreadable(damage: Damaged) -> GarconError:
    """A damaged transcript takes no input."""
    return GarconError("TRANSCRIPT_UNAVAILABLE", damage.text, status=422)


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


def _launch(chat: Chat, run_id: str, settings: _Settings, prompt: Prompt) -> Launch:
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
        prompt=prompt.text,
        images=list(prompt.images),
        agent_session_id=stored.agent_session_id,
    )


def _reply(chat: Chat, record: Record, members: dict[str, Any]) -> Reply:
    accepted = RunAccepted(**members, parent_chat=chat.parent())
    return Reply(accepted, headers=receipt_location(chat.id, record.turn_id))
