"""Where a steered input comes from: its request, or the head of the queue, which has to know what
becomes of it (chats.md 3.19).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol
from uuid import uuid4

from attrs import define

from garcon.contract.steering import Steered
from garcon.controller.chats import steer_errors
from garcon.controller.chats.chat import Chat
from garcon.controller.chats.queue import Queue
from garcon.controller.chats.state import State
from garcon.errors import GarconError


class Source(Protocol):
    """What either kind does at each step of a steer."""

    def input(self, chat: Chat) -> tuple[str, str]:
        """Return message id and content, or raise why there is none."""

    def begin(self, chat: Chat) -> None:
        """It is on its way."""

    def is_kept(self, outcome: Steered) -> bool:
        """Whether it belongs into the transcript."""

    def consumed(self, chat: Chat) -> None:
        """It counts as sent, whatever is heard of it later."""

    def concluded(self, chat: Chat, error: GarconError | None) -> GarconError | None:
        """Its fate is known; returns what its caller is told, None for a success."""

    def not_kept(self, chat: Chat) -> GarconError:
        """The agent has it, but its row could not be kept; returns what its caller is told."""


@define(eq=False)
class Direct:
    """An input that was sent as one."""

    _state: State
    _message_id: str
    _content: str

    def input(self, chat: Chat) -> tuple[str, str]:
        return self._message_id, self._content

    def begin(self, chat: Chat) -> None:
        """Nothing knows of it yet."""

    def is_kept(self, outcome: Steered) -> bool:
        """One that its agent found invalid was said all the same (chats.md 5.11.3)."""
        return outcome.outcome in ("delivered", "unknown", "invalid")

    def consumed(self, chat: Chat) -> None:
        """There is nothing to take it out of."""

    def concluded(self, chat: Chat, error: GarconError | None) -> GarconError | None:
        return error

    def not_kept(self, chat: Chat) -> GarconError:
        return steer_errors.unknown("The input was delivered, but could not be kept.")


@define(eq=False)
class FromQueue:
    """The head of the queue, as its user has seen it."""

    _state: State
    _entry_id: str
    _revision: int
    _reorder_revision: int

    def compared(self) -> dict[str, Any]:
        """Return what makes it the same steer (chats.md 2.3)."""
        return {
            "kind": "queue-entry",
            "entryId": self._entry_id,
            "expectedRevision": self._revision,
            "expectedReorderRevision": self._reorder_revision,
        }

    def input(self, chat: Chat) -> tuple[str, str]:
        self._marked(chat.queue)
        head = chat.queue.entries[0]
        return head.message_id, head.content

    def begin(self, chat: Chat) -> None:
        self._state.set_queue(chat, self._marked(chat.queue))

    def _marked(self, queue: Queue) -> Queue:
        return queue.steering(
            self._entry_id, self._revision, self._reorder_revision, self._state.now()
        )

    def is_kept(self, outcome: Steered) -> bool:
        """One that was not delivered goes back, and is said when it is sent."""
        return outcome.outcome in ("delivered", "unknown")

    def consumed(self, chat: Chat) -> None:
        self._change(chat, lambda queue, at: queue.dispatched(self._entry_id, at))

    def concluded(self, chat: Chat, error: GarconError | None) -> GarconError | None:
        if error is None or error.code == "STEER_OUTCOME_UNKNOWN":
            self.consumed(chat)
        else:
            self._change(chat, lambda queue, at: queue.requeued(self._entry_id, at))
        if error is not None:
            known = "unknown" if error.code == "STEER_OUTCOME_UNKNOWN" else "not-sent"
            error.extra["deliveryOutcome"] = known
        self._state.drain(chat)
        return error

    def not_kept(self, chat: Chat) -> GarconError:
        """Its user decides whether it is to be sent: the agent has it, the transcript has not."""
        self._change(
            chat,
            lambda queue, at: queue.requeued(self._entry_id, at).failed(
                self._entry_id, str(uuid4()), at, "completion-uncertain"
            ),
        )
        return steer_errors.finalization_failed()

    def _change(self, chat: Chat, change: Callable[[Queue, str], Queue]) -> None:
        self._state.set_queue(chat, change(chat.queue, self._state.now()))
