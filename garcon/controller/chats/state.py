"""What the handlers of one workspace's chats share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from attrs import define, field
from msgspec import UNSET
from twisted.internet.interfaces import IReactorTime

from garcon.contract.chats import ChatListEntry, Phase, ResendCandidate
from garcon.contract.events import (
    ChatMessages,
    ControlUpdated,
    Event,
    Mutation,
    ProcessingUpdated,
    TitleUpdated,
    TransientFeedMutation,
)
from garcon.contract.queues import ExecutionControl
from garcon.contract.routes import TURN_RECEIPT
from garcon.contract.runs import ForkPoint
from garcon.controller.chats.agents import Agents
from garcon.controller.chats.chat import Chat
from garcon.controller.chats.lanes import Lanes
from garcon.controller.chats.ledger import Ledger, Record
from garcon.controller.chats.paths import ProjectPaths
from garcon.controller.chats.preambles import KeepsPreambles, NoPreambles
from garcon.controller.chats.queue import Queue
from garcon.controller.chats.receipts import Receipts
from garcon.controller.chats.registry import Registry, list_entry, title
from garcon.controller.chats.unknown import UnknownEvents
from garcon.controller.events import Publisher
from garcon.controller.executors.interfaces import IExecutors
from garcon.controller.transcripts import resend
from garcon.controller.transcripts.batches import batches
from garcon.controller.transcripts.times import iso
from garcon.deferreds import Tasks
from garcon.errors import GarconError
from garcon.runtime.interfaces import INativeHistory
from garcon.store.interfaces import IStore
from garcon.store.records import ChatRecord, Row


@define(eq=False)
class State:
    """One workspace's chats and everything their commands need.  Owned by `Chats`."""

    store: IStore
    executors: IExecutors
    server_instance_id: str
    clock: IReactorTime
    wall_clock: Callable[[], float]
    agents: Agents
    paths: ProjectPaths
    tasks: Tasks
    lanes: Lanes
    publisher: Publisher = field(factory=Publisher)
    registry: Registry = field(factory=Registry)
    ledger: Ledger = field(factory=Ledger)
    receipts: Receipts = field(factory=Receipts)
    preambles: KeepsPreambles = field(factory=NoPreambles)
    unknown: UnknownEvents = field(factory=UnknownEvents)
    started: list[Callable[[ChatRecord], None]] = field(factory=list)
    """Who follows the starts of chats; they must neither raise nor block."""
    is_shutting_down: bool = False
    drain: Callable[[Chat], None] = field(default=lambda chat: None)
    """Sees to it that what waits in a chat is sent, as soon as it may be (`draining.py`)."""

    def now(self) -> str:
        """Return this instant as the contract spells it."""
        return iso(self.wall_clock())

    def must_be_open(self) -> None:
        """Refuse new work while the controller stops."""
        if self.is_shutting_down:
            raise GarconError(
                "SERVER_SHUTTING_DOWN", "The controller is stopping.", status=503, retryable=True
            )

    def phase(self, chat: Chat) -> Phase | None:
        return chat.phase(self.executors.availability(chat.record.executor_id))

    def can_reload(self, chat: Chat) -> bool:
        """Whether a chat's transcript can be made anew from what its agent keeps."""
        record = chat.record
        if record.agent_session_id is None:
            return False
        return self.keeps_history(record.executor_id, record.agent_id)

    def keeps_history(self, executor_id: str, agent_id: str) -> bool:
        """Whether the sessions of an agent can be read back there."""
        try:
            runtime: object = self.executors.existing(executor_id)
        except GarconError:
            return False
        return INativeHistory.providedBy(runtime) and runtime.keeps_history(agent_id)

    def fork_point(self, record: ChatRecord) -> ForkPoint | None:
        """Return where a chat's first session is to be forked.  A session that is forked as a whole
        has to be as it was: nothing may have been added to its chat since.
        """
        if record.fork_from is None or record.agent_session_id is not None:
            return None
        point = record.fork_from.point
        if point.anchor is not None:
            return point
        parent = self.registry.find(record.parent_chat_id or "")
        if parent is None or parent.turn is not None:
            return None
        now = (parent.transcript.view_id, parent.transcript.last_ordinal)
        return point if now == (record.parent_view_id, record.parent_ordinal) else None

    def entry(self, chat: Chat) -> ChatListEntry:
        """Return what the chat list shows of a chat now."""
        return list_entry(chat, self.phase(chat), can_reload=self.can_reload(chat))

    def publish(self, event: Event) -> None:
        """Tell whoever follows this controller."""
        self.publisher.publish(event)

    def phase_changed(self, chat: Chat) -> None:
        """Tell what a chat does now; of one that is no more nothing is told."""
        self.registry.touch()
        if self.registry.find(chat.id) is chat:
            self.publish(ProcessingUpdated(chat_id=chat.id, phase=self.phase(chat)))

    def title_changed(self, chat: Chat) -> None:
        """Tell what a chat is called now."""
        if self.registry.find(chat.id) is chat:
            self.publish(TitleUpdated(chat_id=chat.id, title=title(chat)))

    def permissions_changed(self, chat: Chat, mutation: Mutation) -> None:
        """Tell of a change of what is asked live in a chat."""
        if self.registry.find(chat.id) is chat:
            self.publish(
                TransientFeedMutation(
                    server_instance_id=self.server_instance_id,
                    chat_id=chat.id,
                    transcript_view_id=chat.transcript.view_id,
                    transient_revision=chat.permissions.revision,
                    mutation=mutation,
                )
            )

    def rows_committed(self, chat_id: str, view_id: str, rows: tuple[Row, ...]) -> None:
        """Tell of durable rows: what resulted from one commit, in as many messages as fit."""
        chat = self.registry.find(chat_id)
        candidates: list[ResendCandidate] = []
        if chat is not None and self.phase(chat) is None:
            candidates = resend.newest(chat.transcript.resend_candidates_now, resend.TOLD_BYTES)
        for part in batches(view_id, rows):
            self.publish(
                ChatMessages(
                    chat_id=chat_id,
                    transcript_view_id=view_id,
                    messages=part.shown,
                    first_ordinal=part.first,
                    last_ordinal=part.last,
                    resend_candidates=candidates,
                    turn_id=part.turn_id or UNSET,
                )
            )

    def control(self, chat_id: str) -> ExecutionControl:
        """Return a chat's execution control, the initial one for a chat that is not there
        (chats.md 4.6).
        """
        chat = self.registry.find(chat_id)
        queue = Queue() if chat is None else chat.queue
        return queue.shown(self.server_instance_id)

    def set_queue(self, chat: Chat, queue: Queue) -> None:
        """Take over a chat's changed queue, and tell of it; one that is the same is no change."""
        if queue is chat.queue:
            return
        chat.queue = queue
        if self.registry.find(chat.id) is chat:
            self.publish(ControlUpdated(chat_id=chat.id, control=self.control(chat.id)))


def duplicate_of(record: Record) -> dict[str, Any]:
    """Return the members that every answer to a repeated command has; a failed one without a
    receipt is refused.
    """
    if record.state == "rejected":
        text = record.error.text if record.error is not None else "The command failed before."
        raise GarconError("INTERNAL_ERROR", text, status=409)
    return answer_to(record, "duplicate")


def settle_empty(state: State, record: Record) -> None:
    """A repeated message runs nothing: its receipt is complete and empty at once (chats.md 8.3)."""
    turn_id = record.turn_id or ""
    state.receipts.begin(record.chat_id, turn_id, record.request_id, record.accepted_at)
    state.receipts.settle(record.chat_id, turn_id, "completed", state.now(), is_empty=True)
    state.ledger.settle(record, "finished")


def answer_to(record: Record, status: str = "accepted") -> dict[str, Any]:
    """Return the members that every answer to a command has (chats.md 2.5)."""
    members: dict[str, Any] = {
        "command_type": record.command_type,
        "client_request_id": record.request_id,
        "chat_id": record.chat_id,
        "status": status,
        "accepted_at": record.accepted_at,
    }
    if record.turn_id is not None:
        members["turn_id"] = record.turn_id
    return members


def receipt_location(chat_id: str, turn_id: str | None) -> dict[str, str]:
    """Return the header that names a turn's receipt."""
    query = urlencode({"chatId": chat_id, "turnId": turn_id or ""})
    return {"Location": f"{TURN_RECEIPT.path}?{query}"}
