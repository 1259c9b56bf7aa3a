"""What waits in one chat to be sent, as a value: entries in order, what holds them back, and what
was sent of late (chats.md 4.2 to 4.6, 5.5).

Every change returns the next value, one version on, or raises what its caller is told; nothing here
knows a chat, a lock or a clock.  It lives as long as the process and is written nowhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from attrs import evolve, frozen

from garcon.contract.limits import MIB
from garcon.contract.queues import (
    ExecutionControl,
    QueueEntry,
    QueuePause,
    QueueState,
    RecentlyDispatched,
)
from garcon.errors import GarconError, LimitExceeded

ENTRIES, CONTENT = 100, 1 * MIB
"""Messages that may wait in one chat, and the UTF-8 bytes they may hold together: all of them are
in every answer about the queue, and every change of it is told to every socket.
"""
RECENT = 32
"""Entries sent of late that are still known as such (chats.md 4.3)."""
PAUSES = 8
"""Pauses that may lie on one another."""


@frozen
class Entry:
    """One queued message.  `message_id` is its identity in the transcript view it was meant for,
    `excluded` the unanswered ordinals that it is not to carry.
    """

    id: str
    content: str
    message_id: str
    view_id: str
    excluded: tuple[int, ...]
    created_at: str
    updated_at: str
    revision: int = 1

    def created(self, at: str) -> Entry:
        return evolve(self, created_at=at, updated_at=at)

    def shown(self) -> QueueEntry:
        return QueueEntry(
            id=self.id,
            content=self.content,
            revision=self.revision,
            created_at=self.created_at,
            updated_at=self.updated_at,
        )


@frozen
class Move:
    """A wish to have one entry before or after another, and what its wisher knew of both."""

    entry_id: str
    target_id: str
    placement: Literal["before", "after"]
    reorder_revision: int
    source_revision: int
    target_revision: int


@frozen
class Queue:
    """One chat's queue.  The last of `pauses` holds it; those before come back when it is gone."""

    entries: tuple[Entry, ...] = ()
    steering_id: str | None = None
    recent: tuple[RecentlyDispatched, ...] = ()
    pauses: tuple[QueuePause, ...] = ()
    reorder_revision: int = 0
    version: int = 0
    updated_at: str | None = None
    size: int = 0
    """Bytes of all contents."""

    # What it is

    @property
    def pause(self) -> QueuePause | None:
        return self.pauses[-1] if self.pauses else None

    @property
    def holds_runs(self) -> bool:
        """Whether a direct run has to stand back (chats.md 5.1.3)."""
        return bool(self.entries or self.pauses)

    @property
    def next(self) -> Entry | None:
        """The entry that may be sent now; none while the head is being steered."""
        if self.pauses or not self.entries or self.steering_id is not None:
            return None
        return self.entries[0]

    def shown(self, server_instance_id: str) -> ExecutionControl:
        """Return it as every client sees it."""
        queue = QueueState(
            entries=[entry.shown() for entry in self.entries],
            steering_entry_id=self.steering_id,
            recently_dispatched=list(self.recent),
            pause=self.pause,
            reorder_revision=self.reorder_revision,
        )
        return ExecutionControl(
            server_instance_id=server_instance_id,
            queue=queue,
            version=self.version,
            updated_at=self.updated_at,
        )

    def waiting(self, message_id: str, view_id: str) -> Entry | None:
        """Return the entry that a submission with this identity has made, while it is queued."""
        for entry in self.entries:
            if (entry.message_id, entry.view_id) == (message_id, view_id):
                return entry
        return None

    # Entries

    def added(self, entry: Entry, at: str) -> Queue:
        """Append an entry; ``QUEUE_FULL`` beyond the bounds."""
        if len(self.entries) >= ENTRIES:
            raise queue_full(f"The chat has {ENTRIES} queued messages already.")
        return self._with(at, entries=(*self.entries, entry))

    def replaced(self, entry_id: str, content: str, revision: int, at: str) -> Queue:
        """Give an entry another content."""
        place = self._editable(entry_id)
        entry = self.entries[place]
        if entry.revision != revision:
            raise revision_conflict("queued message")
        edited = evolve(entry, content=content, revision=revision + 1, updated_at=at)
        return self._with(at, entries=_at(self.entries, place, edited))

    def deleted(self, entry_id: str, at: str) -> Queue:
        """Take an entry out; the last one takes every pause with it."""
        place = self._editable(entry_id)
        left = self.entries[:place] + self.entries[place + 1 :]
        return self._with(at, entries=left, pauses=self.pauses if left else ())

    def moved(self, move: Move, at: str) -> Queue:
        """Reorder; where the target was sent meanwhile, the entry comes first of what remains."""
        source = self._editable(move.entry_id)
        entry = self.entries[source]
        if entry.revision != move.source_revision:
            raise revision_conflict("queued message")
        if self.reorder_revision != move.reorder_revision:
            raise reorder_conflict("The queue was put in another order meanwhile.")
        rest = self.entries[:source] + self.entries[source + 1 :]
        place = self._place(move, rest)
        order = (*rest[:place], entry, *rest[place:])
        changed = [one.id for one in order] != [one.id for one in self.entries]
        return self._with(
            at, entries=order, reorder_revision=self.reorder_revision + (1 if changed else 0)
        )

    def _place(self, move: Move, rest: tuple[Entry, ...]) -> int:
        for place, target in enumerate(rest):
            if target.id == move.target_id:
                if target.revision != move.target_revision:
                    raise revision_conflict("message to move to")
                return place + (1 if move.placement == "after" else 0)
        for sent in self.recent:
            if sent.entry_id == move.target_id:
                if sent.revision != move.target_revision:
                    raise revision_conflict("message to move to")
                return 0
        raise reorder_conflict("The message to move to is not in the queue.")

    def cleared(self, at: str) -> Queue:
        """Take everything out, pauses too.  An entry that is being steered is left to that."""
        return self._with(at, entries=(), pauses=(), steering_id=None)

    def dispatched(self, entry_id: str, at: str) -> Queue:
        """An entry was sent: it leaves the queue and is remembered for a while."""
        entry = next((one for one in self.entries if one.id == entry_id), None)
        steering = None if self.steering_id == entry_id else self.steering_id
        if entry is None:
            return self
        sent = RecentlyDispatched(entry_id=entry.id, revision=entry.revision, dispatched_at=at)
        return self._with(
            at,
            entries=tuple(one for one in self.entries if one is not entry),
            steering_id=steering,
            recent=(*self.recent, sent)[-RECENT:],
        )

    # Steering

    def steering(self, entry_id: str, revision: int, reorder_revision: int, at: str) -> Queue:
        """Mark the head as being steered."""
        place = self._editable(entry_id)
        if self.steering_id is not None:
            raise in_flight("Another queued message is being delivered.")
        if self.entries[place].revision != revision:
            raise revision_conflict("queued message")
        if self.reorder_revision != reorder_revision:
            raise reorder_conflict("The queue was put in another order meanwhile.")
        if place:
            raise reorder_conflict("Only the first message of the queue can be sent ahead.")
        return self._with(at, steering_id=entry_id)

    def requeued(self, entry_id: str, at: str) -> Queue:
        """The steering came to nothing: the entry waits as before."""
        if self.steering_id != entry_id:
            return self
        return self._with(at, steering_id=None)

    # Pauses

    def paused(self, pause_id: str, at: str) -> Queue:
        """Pause by hand, where something waits and nothing holds it yet."""
        if not self.entries or self.pauses:
            return self
        return self._held(QueuePause(id=pause_id, kind="manual", paused_at=at), at)

    def failed(
        self,
        entry_id: str,
        pause_id: str,
        at: str,
        kind: Literal["queued-turn-failed", "completion-uncertain"] = "queued-turn-failed",
    ) -> Queue:
        """What became of an entry must be seen before the next is sent; unless none is left."""
        if not self.entries:
            return self
        return self._held(QueuePause(id=pause_id, kind=kind, entry_id=entry_id, paused_at=at), at)

    def resumed(self, pause_id: str, at: str) -> Queue:
        """End the pause that its caller has seen; one that it hid comes back."""
        if not self.pauses:
            return self
        if self.pauses[-1].id != pause_id:
            raise GarconError(
                "QUEUE_PAUSE_CHANGED", "The queue is held by another pause by now.", status=409
            )
        return self._with(at, pauses=self.pauses[:-1])

    def _held(self, pause: QueuePause, at: str) -> Queue:
        # The bottom ones go first: what is nearest is what its user still has in mind.
        return self._with(at, pauses=(*self.pauses, pause)[-PAUSES:])

    # Inside

    def _editable(self, entry_id: str) -> int:
        """Return the place of an entry that nothing is done with just now."""
        for place, entry in enumerate(self.entries):
            if entry.id == entry_id:
                if self.steering_id == entry_id:
                    raise in_flight("The queued message is being delivered.")
                return place
        if any(sent.entry_id == entry_id for sent in self.recent):
            raise GarconError(
                "QUEUE_ENTRY_ALREADY_SENT", "The queued message was sent already.", status=409
            )
        raise GarconError("QUEUE_ENTRY_NOT_FOUND", "There is no such queued message.", status=404)

    def _with(self, at: str, **changes: Any) -> Queue:
        after: Queue = evolve(self, **changes, version=self.version + 1, updated_at=at)
        if "entries" not in changes:
            return after
        size = sum(len(entry.content.encode()) for entry in after.entries)
        if size > CONTENT and size > self.size:
            raise queue_full(f"Queued messages of a chat hold at most {CONTENT} bytes together.")
        return evolve(after, size=size)


def _at(entries: Sequence[Entry], place: int, entry: Entry) -> tuple[Entry, ...]:
    return (*entries[:place], entry, *entries[place + 1 :])


def queue_full(text: str) -> GarconError:
    """``QUEUE_FULL``: there is room again once something was sent or taken out."""
    return LimitExceeded("QUEUE_FULL", text, status=409, retryable=True)


def in_flight(text: str) -> GarconError:
    """``QUEUE_ENTRY_IN_FLIGHT``: a steer has not been settled yet."""
    return GarconError("QUEUE_ENTRY_IN_FLIGHT", text, status=409)


def revision_conflict(what: str) -> GarconError:
    """``QUEUE_ENTRY_REVISION_CONFLICT``: it was edited meanwhile."""
    return GarconError(
        "QUEUE_ENTRY_REVISION_CONFLICT", f"The {what} was edited meanwhile.", status=409
    )


def reorder_conflict(text: str) -> GarconError:
    """``QUEUE_ENTRY_REORDER_CONFLICT``: the order is not the one its caller has seen."""
    return GarconError("QUEUE_ENTRY_REORDER_CONFLICT", text, status=409)
