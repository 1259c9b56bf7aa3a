"""The permission requests of one turn, as rows and as what is live now (chats.md 5.12)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from attrs import define, field

from garcon.contract.events import Mutation
from garcon.contract.messages import PermissionRequest
from garcon.contract.runs import PermissionAutoResolved, PermissionRequested
from garcon.controller.chats.chat import Chat
from garcon.controller.chats.commits import Durable
from garcon.controller.transcripts import rows
from garcon.controller.transcripts.rows import Draft
from garcon.store.records import Row


class Add(Protocol):
    """Queues a row of the turn; `durable` is called with it once it is kept."""

    def __call__(self, draft: Draft, durable: Durable | None = None) -> None: ...


@define(eq=False)
class Questions:
    """Knows which requests are open, and makes their rows.  Owned by the turn."""

    _chat: Chat
    _run_id: str
    _now: Callable[[], str]
    _add: Add
    _told: Callable[[Chat, Mutation], None]
    """Takes each change of what is live."""
    _open: set[str] = field(factory=set, init=False)
    _deciding: set[str] = field(factory=set, init=False)

    def asked(self, event: PermissionRequested) -> None:
        """The agent asks; shown as live once its row is durable."""
        occurrence = event.permission_occurrence_id
        if occurrence in self._open:
            return
        self._open.add(occurrence)
        request = PermissionRequest(
            timestamp=event.timestamp,
            permission_occurrence_id=occurrence,
            requested_tool=event.requested_tool,
        )
        self._add(rows.permission_requested(request), lambda row: self._is_live(row, request))

    def withdrawn(self, occurrence: str) -> None:
        """The question is void."""
        if occurrence in self._open:
            self._retire(occurrence)
            self._add(rows.permission_cancelled(self._now(), occurrence))

    def answered_itself(self, event: PermissionAutoResolved) -> None:
        """A question that was answered by its mode."""
        occurrence = event.permission_occurrence_id
        request = PermissionRequest(
            timestamp=event.timestamp,
            permission_occurrence_id=occurrence,
            requested_tool=event.requested_tool,
        )
        self._add(rows.permission_requested(request))
        self._add(rows.permission_resolved(event.timestamp, occurrence, event.allowed))

    def deciding(self, occurrence: str) -> None:
        """A decision is on its way to the agent."""
        self._deciding.add(occurrence)

    def decided(self, occurrence: str, verdict: bool | None, *, stays: bool, is_over: bool) -> None:
        """The decision's fate is known: delivered (`verdict`), still to be made (`stays`, unless
        the run is over), or unknown.
        """
        self._deciding.discard(occurrence)
        if verdict is None and stays and not is_over:
            return
        self._retire(occurrence)
        if verdict is not None:
            self._add(rows.permission_resolved(self._now(), occurrence, verdict))
        elif stays:
            self._add(rows.permission_cancelled(self._now(), occurrence))

    def run_ended(self) -> None:
        """Nobody can be answered any more, but for those whose answer is on its way."""
        self.clear()
        for occurrence in sorted(self._open - self._deciding):
            self.withdrawn(occurrence)

    def clear(self) -> None:
        """Nothing of this run is live any more."""
        cleared = self._chat.permissions.clear_run(self._run_id)
        if cleared is not None:
            self._told(self._chat, cleared)

    def _retire(self, occurrence: str) -> None:
        self._open.discard(occurrence)
        removed = self._chat.permissions.remove(occurrence)
        if removed is not None:
            self._told(self._chat, removed)

    def _is_live(self, row: Row, request: PermissionRequest) -> None:
        view_id = self._chat.transcript.view_id
        if request.permission_occurrence_id in self._open:
            added = self._chat.permissions.add(self._run_id, view_id, row.ordinal, request)
            self._told(self._chat, added)
