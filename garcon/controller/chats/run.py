"""Running a turn in a chat that exists: admission, message identity, and an answer before the
launch (chats.md 3.5).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import msgspec
from attrs import define, frozen
from msgspec import UNSET, structs
from twisted.internet.defer import CancelledError

from garcon.contract.chats import RunAccepted, RunChat
from garcon.contract.events import ListRefreshRequested
from garcon.controller.chats import attachments, fields
from garcon.controller.chats.admission import (
    NOTHING,
    NewInput,
    TurnSettings,
    begin,
    is_repeated,
    must_be_free,
    prepare,
)
from garcon.controller.chats.becoming import Becoming
from garcon.controller.chats.chat import Chat
from garcon.controller.chats.choices import chosen
from garcon.controller.chats.handoff import (
    Handoff,
    new_owner,
    requires_idle,
    stale_ownership,
    switch,
)
from garcon.controller.chats.ledger import Record
from garcon.controller.chats.run_wish import Wish, read_wish
from garcon.controller.chats.state import (
    State,
    answer_to,
    duplicate_of,
    receipt_location,
    settle_empty,
)
from garcon.controller.handlers import Call, Reply
from garcon.controller.transcripts import rows
from garcon.controller.transcripts.rows import Draft
from garcon.errors import GarconError, validation
from garcon.store.records import ChatRecord

COMMAND = "agent-run"


@frozen
class _Run:
    """A run that passed its checks: its input, what it runs with, and what a hand-off makes of the
    chat.  `settings` is None for a hand-off that took effect in an earlier process.
    """

    new: NewInput
    settings: TurnSettings | None
    owner: Mapping[str, Any] = NOTHING


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
            if error.code in ("SESSION_BUSY", "AGENT_HANDOFF_REQUIRES_IDLE"):
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
            return self._reply(wish, chat, replayed, members)
        run = await self._checked(wish, chat)
        state.must_be_open()
        if state.registry.find(chat.id) is not chat:
            raise GarconError("SESSION_NOT_FOUND", "No such chat exists.", status=404)
        record = state.ledger.accept(
            COMMAND, chat.id, wish.request_id, mark, state.now(), str(uuid4())
        )
        try:
            repeated = await self._admit(wish, chat, run, record)
        except CancelledError:
            raise
        except Exception as error:
            state.ledger.fail(record, error)
            raise
        if repeated:
            await self._add_tags(chat, wish.tags_to_add)
        status = "accepted" if run.settings is not None else "duplicate"
        return self._reply(wish, chat, record, answer_to(record, status))

    async def _checked(self, wish: Wish, chat: Chat) -> _Run:
        """Make the checks of chats.md 3.5 between replay and admission, in their order."""
        body, stored = wish.body, chat.record
        if not body.command.strip() and not body.images:
            raise validation("command is required")
        attached = attachments.read(body.images)
        images = [one.image for one in attached]
        new = NewInput(wish.message_id, body.command, images, wish.excluded, wish.presentation)
        if wish.handoff is not None and await self._has_moved(wish.handoff, chat, new):
            return _Run(new, None)
        if body.expected_agent_id is not UNSET and body.expected_agent_id != stored.agent_id:
            raise GarconError(
                "EXPECTED_AGENT_MISMATCH", f"The chat's agent is {stored.agent_id}.", status=409
            )
        epoch = body.expected_agent_ownership_epoch
        if epoch is not UNSET and epoch != stored.agent_ownership_epoch:
            raise stale_ownership()
        owner: Mapping[str, Any] = NOTHING
        if wish.handoff is not None:
            owner = await new_owner(self._state, chat, wish.handoff)
        settings = await chosen(
            self._state, structs.replace(stored, **owner), wish.overrides, attached
        )
        return _Run(new, settings, owner)

    async def _has_moved(self, handoff: Handoff, chat: Chat, new: NewInput) -> bool:
        """Whether the epoch that a hand-off expects is gone because of this very hand-off, which
        this process does not remember (chats.md 5.9.5).
        """
        if handoff.expected_agent_ownership_epoch == chat.record.agent_ownership_epoch:
            return False
        return await is_repeated(chat, new)

    async def _admit(self, wish: Wish, chat: Chat, run: _Run, record: Record) -> bool:
        """Take the turn in; returns whether its input was there already, and nothing was done."""
        state = self._state
        if run.settings is None:
            settle_empty(state, record)
            return True
        try:
            must_be_free(chat)
        except GarconError as error:
            raise error if wish.handoff is None else requires_idle(error) from None
        if await is_repeated(chat, run.new):
            settle_empty(state, record)
            return True
        before = chat.record
        becomes = dict(run.owner)
        tags = fields.merged_tags(before.tags, wish.tags_to_add)
        if tags != before.tags:
            becomes["tags"] = tags
        if becomes:
            chat.must_be_writable()
        prepared = await prepare(state, chat, run.new, run.settings, becomes)
        drafts: list[Draft] = []
        if wish.handoff is not None:
            drafts.append(rows.agent_switch(switch(record.accepted_at, before, prepared.owner)))
        change = Becoming(chat, becomes)
        try:
            await begin(
                state,
                chat,
                prepared,
                record,
                before=[change.made] if becomes else [],
                drafts=drafts,
            )
        except BaseException:
            change.undo()
            raise
        self._tell(chat, wish, before)
        return False

    def _tell(self, chat: Chat, wish: Wish, before: ChatRecord) -> None:
        if wish.handoff is not None:
            self._state.publish(ListRefreshRequested(chat_id=chat.id, reason="agent-handoff"))
        if chat.record.tags != before.tags:
            self._state.publish(ListRefreshRequested(chat_id=chat.id, reason="tags-updated"))

    async def _add_tags(self, chat: Chat, added: list[str]) -> None:
        tags = fields.merged_tags(chat.record.tags, added)
        if tags != chat.record.tags:
            await chat.change(self._state.store, tags=tags)
            self._state.publish(ListRefreshRequested(chat_id=chat.id, reason="tags-updated"))

    def _reply(self, wish: Wish, chat: Chat, record: Record, members: dict[str, Any]) -> Reply:
        shown = UNSET if wish.handoff is None else self._state.entry(chat)
        accepted = RunAccepted(**members, parent_chat=chat.parent(), chat=shown)
        return Reply(accepted, headers=receipt_location(chat.id, record.turn_id))


def stale_view() -> GarconError:
    """The caller's view is not the current one."""
    return GarconError(
        "STALE_TRANSCRIPT_VIEW", "The chat's transcript was replaced; read it again.", status=409
    )
