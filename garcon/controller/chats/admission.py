"""Taking an input in: composed with what nobody answered, durable, its turn reserved, and then on
its way to the executor (chats.md 2.4, 5.1, 5.2).  Every turn of an existing chat begins here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any
from uuid import uuid4

from attrs import evolve, field, frozen
from msgspec.structs import replace

from garcon.contract.catalogs import AgentEntry, AgentSettings
from garcon.contract.messages import Image, Presentation
from garcon.contract.runs import ForkPoint, HistoryMessage, Launch
from garcon.controller.chats import fields
from garcon.controller.chats.becoming import Becoming
from garcon.controller.chats.chat import Chat
from garcon.controller.chats.ledger import Record, conflict
from garcon.controller.chats.models import Selection, takes_pictures
from garcon.controller.chats.preambles import ahead
from garcon.controller.chats.state import State
from garcon.controller.chats.turns import Turn
from garcon.controller.transcripts import rows
from garcon.controller.transcripts.resend import Prompt, compose
from garcon.controller.transcripts.rows import Draft
from garcon.controller.transcripts.transcript import Late
from garcon.errors import GarconError
from garcon.runtime.interfaces import IExecutorRuntime
from garcon.store.interfaces import Damaged
from garcon.store.records import Change, ChatRecord, TouchChat

NOTHING: Mapping[str, Any] = MappingProxyType({})


@frozen
class NewInput:
    """An input that passed its checks.  `excluded` are unanswered ordinals not to send again."""

    message_id: str
    content: str
    images: Sequence[Image] = ()
    excluded: Sequence[int] = ()
    presentation: Presentation | None = None


@frozen
class TurnSettings:
    """What a turn runs with, after all checks."""

    entry: AgentEntry
    selection: Selection
    permission_mode: Any
    thinking_mode: Any
    agent_settings: AgentSettings


@frozen
class Prepared:
    """An input ready to be committed: its executor is there, and all that it is sent with is
    read.  `owner` is the chat's record as it will be by then.
    """

    new: NewInput
    owner: ChatRecord
    settings: TurnSettings
    runtime: IExecutorRuntime
    prompt: Prompt
    history: list[HistoryMessage] = field(factory=list)
    fork_from: ForkPoint | None = None


def must_be_free(chat: Chat) -> None:
    """Raise ``SESSION_BUSY`` (409) while a turn owns the chat or its queue comes first (chats.md
    5.1.3, 5.20).
    """
    if chat.turn is not None:
        raise busy()
    if chat.queue.holds_runs:
        text = "The chat has pending control state: messages are queued, or its queue is paused."
        raise GarconError("SESSION_BUSY", text, status=409, retryable=True)


async def is_repeated(chat: Chat, new: NewInput, *, is_steer: bool = False) -> bool:
    """Whether this very input is in the transcript; ``IDEMPOTENCY_CONFLICT`` (409) where its id has
    another content (chats.md 2.4), or is that of a steer under way.  Asked in the chat's lane.
    """
    if chat.steer_under_way(new.message_id) is not None:
        raise conflict("The message id is that of an input on its way to the agent.")
    try:
        present = await chat.transcript.find(new.message_id)
        if present is None:
            return False
        if present.kind == "user-input":
            stored = chat.transcript.input_of(present)
            said = (stored.content, stored.attached, stored.steer is True)
            if said == (new.content, list(new.images), is_steer):
                return True
    except Damaged as damage:
        raise unreadable(damage) from None
    raise conflict("The message id was used for other content.")


async def prepare(
    state: State,
    chat: Chat,
    new: NewInput,
    settings: TurnSettings,
    becomes: Mapping[str, Any] = NOTHING,
) -> Prepared:
    """Read what the turn is sent with; nothing is reserved and nothing written.  `becomes` are
    attributes that the chat will have by then.
    """
    owner = replace(chat.record, **becomes)
    is_fresh = settings.entry.needs_history or owner.agent_session_id is None
    try:
        unanswered = await chat.transcript.unanswered()
        candidates = [one for one in unanswered if one.ordinal not in new.excluded]
        history: list[HistoryMessage] = []
        if is_fresh:
            # What is composed into the prompt, or was asked to be left out, is not said twice.
            history = await chat.transcript.conversation([one.ordinal for one in unanswered])
    except Damaged as damage:
        raise unreadable(damage) from None
    prompt = compose(candidates, new.content, new.images)
    if not takes_pictures(settings.entry, settings.selection):
        # Earlier input may have been another model's; this one's server would refuse it.
        prompt = evolve(prompt, images=without_pictures(prompt.images))
        history = [replace(one, images=list(without_pictures(one.images))) for one in history]
    if is_fresh:
        prompt, history = ahead(state.preambles.text(owner), prompt, history)
    # Asked for before the turn is reserved: from then on the executor is in use, and stays.
    runtime = state.executors.existing(owner.executor_id)
    fork_from = state.fork_point(owner) if is_fresh else None
    return Prepared(new, owner, settings, runtime, prompt, history, fork_from)


async def begin(
    state: State,
    chat: Chat,
    prepared: Prepared,
    record: Record,
    *,
    before: Sequence[Change | Late] = (),
    drafts: Sequence[Draft] = (),
    has_receipt: bool = True,
    entry_id: str | None = None,
    committed: Callable[[], None] = lambda: None,
) -> Turn:
    """Reserve the turn and make its input durable, then dispatch it; on failure neither happened.

    `before` are changes and `drafts` rows that are kept in the same commit, ahead of the input.
    `entry_id` names the queue entry that it was, and `committed` is called between the two.
    """
    new, settings = prepared.new, prepared.settings
    fresh = prepared.owner.agent_session_id is None
    selection = settings.selection.stored() if fresh else None
    turn = Turn(state, chat, record.turn_id or "", record, selection=selection, entry_id=entry_id)
    turn.reserve()
    at, text = record.accepted_at, fields.first_line(new.content) or None
    draft = rows.user_input(at, new.content, list(new.images), new.message_id, new.presentation)
    named = chat.with_text(text)
    change = Becoming(chat, named | _inherited(chat, is_fresh=fresh))
    if change.is_change:
        before = [*before, change.made]
    try:
        await chat.transcript.append(
            [*drafts, draft], before=before, after=[TouchChat(chat.id, at, text)]
        )
    except BaseException:
        change.undo()
        turn.release()
        raise
    chat.active(at, text)
    if has_receipt:
        state.receipts.begin(chat.id, turn.run_id, record.request_id, at)
    committed()
    if named and chat.record.name is None:
        state.title_changed(chat)
    launch = launch_of(chat, turn.run_id, prepared)
    state.tasks.spawn("dispatching a turn", turn.dispatch(prepared.runtime, launch))
    return turn


def _inherited(chat: Chat, *, is_fresh: bool) -> dict[str, int]:
    """Return what changes of the record where a session begins: what is there already is not in
    it.
    """
    count = chat.transcript.last_ordinal
    return {"inherited": count} if is_fresh and count != chat.record.inherited else {}


def launch_of(chat: Chat, run_id: str, prepared: Prepared) -> Launch:
    """Return what the executor is told of a turn."""
    stored, settings = chat.record, prepared.settings
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
        prompt=prepared.prompt.text,
        images=list(prepared.prompt.images),
        agent_session_id=stored.agent_session_id,
        fork_from=prepared.fork_from,
        history=prepared.history,
        **settings.selection.routing(),
    )


def without_pictures(images: Sequence[Image]) -> tuple[Image, ...]:
    """Return what is no picture of an input's attachments."""
    return tuple(one for one in images if not str(one.mime_type).startswith("image/"))


def busy() -> GarconError:
    """A turn owns the chat."""
    return GarconError(
        "SESSION_BUSY", "A turn of this chat is still running.", status=409, retryable=True
    )


def unreadable(damage: Damaged) -> GarconError:
    """A damaged transcript takes no input."""
    return GarconError("TRANSCRIPT_UNAVAILABLE", damage.text, status=422)
