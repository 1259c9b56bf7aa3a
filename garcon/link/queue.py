"""What waits to be sent: the budget of both lanes and the order within each (pure; control.md J.4).

A lane sends from two lines.  `whole` holds small texts that are not producer frames; each is one
record.  `stream` holds producer frames and everything larger than a fragment, strictly in order,
one fragment after the other.  Whole texts go first, so they pass between the fragments of a large
message, but never more than a few for each fragment: neither line can hold up the other.  A request
gets its sequence number when its first record leaves.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from enum import Enum
from itertools import chain

from attrs import define, field

from garcon.contract import limits
from garcon.contract.rpc import Lane
from garcon.link.fragments import WHOLE, cut
from garcon.link.frames import SEQUENCE_ROOM, number

WHOLES_PER_FRAGMENT = 16
_REMOVED_STAY = 64


class Kind(Enum):
    """Why a text is sent, which decides how it is admitted."""

    ORDINARY = "ordinary"
    PRODUCER = "producer"
    TERMINAL = "terminal"
    """Terminal output, each a record at most, so that all of it keeps its order."""
    CONTROL = "control"
    """A bulk life cycle frame: it has room of its own."""
    SMALL = "small"
    """Bounded by something else already: pings, cancels, acknowledgements, small error replies."""


class Progress(Enum):
    WAITING = "waiting"
    SENDING = "sending"
    SENT = "sent"
    REMOVED = "removed"


@define(eq=False)
class Item:
    """One text in a queue.  `charged` is what it takes of the budget."""

    text: bytes
    kind: Kind
    charged: int
    needs_number: bool = False
    tail: bytes = b""
    """What follows the text once it is known."""
    progress: Progress = Progress.WAITING
    offset: int = 0
    number: int = 0
    """The sequence number that a request got."""
    after: list[Item] = field(factory=list)
    since: float = 0.0


@define(eq=False)
class SendBudget:
    """The one budget of both lanes of a link, over all their sessions."""

    bytes: int = 0
    messages: int = 0
    bulk_bytes: int = 0
    bulk_messages: int = 0
    controls: int = 0

    def admits(self, lane: Lane, kind: Kind, size: int) -> bool:
        """Whether a text of `size` may join now."""
        if kind is Kind.SMALL:
            return True
        if kind is Kind.CONTROL:
            return (
                self.controls < limits.QUEUE_BULK_CONTROL_MESSAGES
                and size <= limits.BULK_CONTROL_MESSAGE
            )
        if kind is Kind.PRODUCER and not self._admits_producer(size):
            return False
        if kind is Kind.TERMINAL and not self._admits_terminal(size):
            return False
        if (
            self.bytes + size > limits.QUEUE_BYTES - limits.QUEUE_BULK_CONTROL_BYTES
            or self.messages >= limits.QUEUE_MESSAGES - limits.QUEUE_BULK_CONTROL_MESSAGES
        ):
            return False
        return lane is Lane.PRIMARY or (
            self.bulk_bytes + size <= limits.QUEUE_BULK_BYTES
            and self.bulk_messages < limits.QUEUE_BULK_MESSAGES
        )

    def _admits_producer(self, size: int) -> bool:
        if size >= limits.PRODUCER_QUEUE_BYTES:
            return self.messages == 0
        return (
            self.bytes < limits.PRODUCER_QUEUE_BYTES
            and self.messages < limits.PRODUCER_QUEUE_MESSAGES
        )

    def _admits_terminal(self, size: int) -> bool:
        return (
            size <= limits.FRAGMENT
            and self.bytes < limits.TERMINAL_QUEUE_BYTES
            and self.messages < limits.TERMINAL_QUEUE_MESSAGES
        )

    def take(self, lane: Lane, item: Item) -> None:
        """Charge an admitted item."""
        if item.kind is Kind.CONTROL:
            self.controls += 1
            return
        self.bytes += item.charged
        self.messages += 1
        if lane is Lane.BULK:
            self.bulk_bytes += item.charged
            self.bulk_messages += 1

    def free(self, lane: Lane, item: Item) -> None:
        """Give back what an item took."""
        if item.kind is Kind.CONTROL:
            self.controls -= 1
            return
        self.bytes -= item.charged
        self.messages -= 1
        if lane is Lane.BULK:
            self.bulk_bytes -= item.charged
            self.bulk_messages -= 1


class LaneQueue:
    """What one lane session has still to send."""

    def __init__(self, lane: Lane, budget: SendBudget) -> None:
        self._lane = lane
        self._budget = budget
        self._whole: deque[Item] = deque()
        self._stream: deque[Item] = deque()
        self._streak = 0
        self._next_number = 1
        self._removed = 0
        self.queued_bytes = 0
        self.small = 0
        """How many texts wait that no admission has bounded."""

    @property
    def messages(self) -> int:
        """How many texts wait, or are on their way."""
        return sum(item.progress is not Progress.REMOVED for item in self._waiting())

    @property
    def oldest(self) -> float | None:
        """When the text was offered that has waited longest, None when none waits."""
        return min(
            (i.since for i in self._waiting() if i.progress is not Progress.REMOVED), default=None
        )

    def _waiting(self) -> Iterator[Item]:
        return chain(self._whole, self._stream)

    def offer(
        self, text: bytes, kind: Kind, *, needs_number: bool = False, now: float = 0.0
    ) -> Item | None:
        """Admit a text, or return None when there is no room for it now.

        A text over the message limit is never admitted; `fits` tells beforehand.
        """
        size = len(text) + (SEQUENCE_ROOM if needs_number else 0)
        if size > limits.MESSAGE or not self._budget.admits(self._lane, kind, size):
            return None
        item = Item(text, kind, size, needs_number, since=now)
        self._charge(item)
        if size > limits.FRAGMENT or kind is Kind.PRODUCER:
            self._stream.append(item)
        else:
            self._whole.append(item)
        return item

    def offer_behind(self, text: bytes, item: Item) -> None:
        """Send a small text behind `item`, which has left the line but may still be on its way."""
        follower = Item(text, Kind.SMALL, len(text), since=item.since)
        self._charge(follower)
        if item.progress is Progress.SENDING:
            item.after.append(follower)
        else:
            self._whole.append(follower)

    def remove(self, item: Item) -> bool:
        """Take a waiting item out of the line; False when its sending has begun."""
        if item.progress is not Progress.WAITING:
            return False
        item.progress = Progress.REMOVED
        self._release(item)
        item.text = b""
        self._removed += 1
        if self._removed > _REMOVED_STAY and self._removed > self._budget.messages:
            self._sweep()
        return True

    def _sweep(self) -> None:
        """Take removed items out, which otherwise leave when their turn to be sent comes."""
        for line in (self._whole, self._stream):
            left = [item for item in line if item.progress is not Progress.REMOVED]
            line.clear()
            line.extend(left)
        self._removed = 0

    def next_record(self) -> bytes | None:
        """Return the next record plaintext, or None when nothing waits."""
        while self._whole and (self._streak < WHOLES_PER_FRAGMENT or not self._stream):
            item = self._whole.popleft()
            if item.progress is Progress.REMOVED:
                self._removed -= 1
                continue
            self._begin(item)
            item.progress = Progress.SENT
            self._release(item)
            self._streak += 1
            return WHOLE + item.text + item.tail
        while self._stream:
            item = self._stream[0]
            if item.progress is Progress.REMOVED:
                self._stream.popleft()
                self._removed -= 1
                continue
            self._streak = 0
            return self._next_fragment(item)
        return self.next_record() if self._whole else None

    def _next_fragment(self, item: Item) -> bytes:
        if item.progress is Progress.WAITING:
            self._begin(item)
            item.progress = Progress.SENDING
        record = cut(item.text, item.offset, item.tail)
        item.offset += limits.FRAGMENT
        if item.offset >= len(item.text) + len(item.tail):
            self._stream.popleft()
            item.progress = Progress.SENT
            self._release(item)
            self._whole.extendleft(reversed(item.after))
            item.after = []
        return record

    def _begin(self, item: Item) -> None:
        if item.needs_number:
            item.tail = number(self._next_number)
            item.number = self._next_number
            self._next_number += 1

    def _charge(self, item: Item) -> None:
        self._budget.take(self._lane, item)
        self.queued_bytes += item.charged
        if item.kind is Kind.SMALL:
            self.small += 1

    def _release(self, item: Item) -> None:
        self._budget.free(self._lane, item)
        self.queued_bytes -= item.charged
        if item.kind is Kind.SMALL:
            self.small -= 1

    def drop(self) -> None:
        """The session is over: nothing more is sent and the budget is free again."""
        waiting = [*self._whole, *self._stream]
        self._whole.clear()
        self._stream.clear()
        for item in waiting:
            if item.progress is not Progress.REMOVED:
                self._release(item)
                for follower in item.after:
                    self._release(follower)


def fits(text: bytes, *, needs_number: bool = False) -> bool:
    """Whether a text keeps to the message limit."""
    return len(text) + (SEQUENCE_ROOM if needs_number else 0) <= limits.MESSAGE
