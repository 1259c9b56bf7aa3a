"""One chat in memory: its record, its transcript, its live permissions and the turn that owns it,
if any.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from attrs import define, field
from msgspec import UNSET, structs

from garcon.contract.chats import ParentChat, Phase
from garcon.controller.chats.applied import AppliedCommands
from garcon.controller.chats.queue import Queue
from garcon.controller.executors.interfaces import Availability
from garcon.controller.transcripts.feed import LivePermissions
from garcon.controller.transcripts.transcript import Transcript
from garcon.errors import GarconError
from garcon.store.interfaces import IStore
from garcon.store.records import ChatRecord, PutChat

if TYPE_CHECKING:
    from garcon.controller.chats.delivery import Delivery
    from garcon.controller.chats.turns import Turn


def _touch(chat: Chat, attribute: object, value: Any) -> Any:
    chat.touched()
    return value


@define(eq=False)
class Chat:
    """A chat of this workspace.  `turn` is the turn that was admitted and has not been settled."""

    record: ChatRecord = field(on_setattr=_touch)
    transcript: Transcript
    last_activity_at: str | None = field(default=None, on_setattr=_touch)
    last_message: str = field(default="", on_setattr=_touch)
    turn: Turn | None = field(default=None, on_setattr=_touch)
    touched: Callable[[], None] = field(default=lambda: None, kw_only=True)
    """Called when something changes that lists show."""
    permissions: LivePermissions = field(factory=LivePermissions)
    queue: Queue = field(factory=Queue)
    """Replaced as a whole, through `State.set_queue`."""
    applied: AppliedCommands = field(factory=AppliedCommands)
    steers: dict[str, Delivery] = field(factory=dict)
    """Those under way, by their message ids."""
    is_deleting: bool = False
    """Its deletion has begun: no turn begins in it, and its queue stands still."""
    is_removed: bool = False
    """It is on its way out of the store: nothing may be written of it any more."""
    is_legible: bool = True
    """Its record could be trusted when it was read.  One that could not is never written over."""

    @property
    def id(self) -> str:
        return self.record.chat_id

    def phase(self, executor: Availability) -> Phase | None:
        """Return what the chat does, given the state of its executor (chats.md 5.4)."""
        if self.turn is None:
            return None
        if self.turn.is_stopping:
            return "stopping"
        return "reconnecting" if executor == "reconnecting" else "running"

    def steer_under_way(self, message_id: str) -> Delivery | None:
        """Return the steer that has this message identity, while the transcript does not know it:
        its row is kept outside of the chat's lane, so this is asked before the transcript.
        """
        delivery = self.steers.get(message_id)
        return None if delivery is None or delivery.input.is_durable else delivery

    def parent(self) -> ParentChat | None:
        record = self.record
        if record.parent_chat_id is None:
            return None
        return ParentChat(
            chat_id=record.parent_chat_id,
            relation=record.parent_relation,
            transcript_view_id=record.parent_view_id or UNSET,
            ordinal=UNSET if record.parent_ordinal is None else record.parent_ordinal,
        )

    def active(self, at: str, text: str | None) -> None:
        """A conversational row was added (chats.md 5.14)."""
        self.last_activity_at = at
        if text is not None:
            self.last_message = text

    def with_text(self, text: str | None) -> dict[str, Any]:
        """Return what changes of the record with an input of this first line: the first text that a
        user sends is what the chat is called by (chats.md 4.1, 5.14).
        """
        return {"first_message": text} if text and not self.record.first_message else {}

    def set(self, **fields: Any) -> None:
        """Change attributes in memory; the caller sees to it that they become durable."""
        self.record = structs.replace(self.record, **fields)

    @property
    def is_writable(self) -> bool:
        """Whether its record may be written."""
        return self.is_legible and not self.is_removed

    def must_be_writable(self) -> None:
        """Raise what its caller is told of a record that may not be written."""
        if self.is_removed:
            raise no_such_chat()
        if not self.is_legible:
            raise GarconError(
                "TRANSCRIPT_UNAVAILABLE",
                "What is stored of this chat is damaged; it can only be deleted.",
                status=422,
            )

    async def change(self, store: IStore, **fields: Any) -> None:
        """Change attributes at once and fire when that is durable; what the store refuses is taken
        back.
        """
        self.must_be_writable()
        before = {name: getattr(self.record, name) for name in fields}
        self.set(**fields)
        try:
            await store.write([PutChat(self.record)])
        except BaseException:
            self.set(**before)
            raise


def no_such_chat() -> GarconError:
    """A chat that does not exist, or no longer."""
    return GarconError("SESSION_NOT_FOUND", "No such chat exists.", status=404)
