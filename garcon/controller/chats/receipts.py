"""Turn receipts: what became of a turn and what it said, while this process lives (chats.md 4.11,
5.7).

Answers are kept within bounds: one turn's too large a text is dropped at once; when all together
are too large, the oldest settled ones go, and their receipts with them (410).
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Literal

from attrs import define, field
from msgspec import UNSET

from garcon.contract.chats import TurnOutput, TurnReceipt
from garcon.contract.limits import (
    RECEIPT_MESSAGES,
    RECEIPT_TEXT,
    RECEIPTS_MESSAGES,
    RECEIPTS_TEXT,
)
from garcon.errors import GarconError

Settled = Literal["completed", "failed", "interrupted"]
Reason = Literal["user-stop", "chat-deleted"]

SETTLED_KEPT = 20_000
"""Settled receipts that are kept at all; older ones are expired."""
EXPIRED_KEPT = 100_000
"""Expired receipts that are still told from unknown ones."""

Key = tuple[str, str]


@define(eq=False)
class _Turn:
    request_id: str
    accepted_at: str
    updated_at: str
    state: Literal["pending", "completed", "failed", "interrupted"] = "pending"
    error: str | None = None
    reason: Reason | None = None
    said: list[str] = field(factory=list)
    size: int = 0
    answers: int = 0
    """How many assistant rows there were, blank ones included."""
    lost: Literal["too-large", "retention-pressure"] | None = None
    is_empty: bool = False
    """Nothing ran, so nothing was said: a repeated message identity (chats.md 8.3)."""


@define(eq=False)
class Receipts:
    """The receipts of all turns of this process."""

    text_limit: int = RECEIPTS_TEXT
    message_limit: int = RECEIPTS_MESSAGES
    _turns: dict[Key, _Turn] = field(factory=dict)
    _settled: OrderedDict[Key, None] = field(factory=OrderedDict)
    _expired: OrderedDict[Key, None] = field(factory=OrderedDict)
    _size: int = 0
    _messages: int = 0

    def begin(self, chat_id: str, turn_id: str, request_id: str, at: str) -> None:
        """A turn was accepted."""
        self._turns[chat_id, turn_id] = _Turn(request_id, at, at)

    def said(self, chat_id: str, turn_id: str, text: str) -> None:
        """The turn's agent said something.  Turns of queued messages have no receipt."""
        turn = self._turns.get((chat_id, turn_id))
        if turn is None:
            return
        turn.answers += 1
        if not text or turn.lost is not None:
            return
        size = len(text.encode())
        if turn.size + size > RECEIPT_TEXT or len(turn.said) + 1 > RECEIPT_MESSAGES:
            self._lose(turn, "too-large")
        elif not self._make_room(size):
            self._lose(turn, "retention-pressure")
        else:
            turn.said.append(text)
            turn.size += size
            self._size += size
            self._messages += 1

    def settle(
        self,
        chat_id: str,
        turn_id: str,
        state: Settled,
        at: str,
        *,
        error: str | None = None,
        reason: Reason | None = None,
        is_empty: bool = False,
    ) -> None:
        """The turn is over; a settled receipt never changes again."""
        key = (chat_id, turn_id)
        turn = self._turns.get(key)
        if turn is None:
            return
        assert turn.state == "pending", "a receipt settles once"
        turn.state, turn.updated_at = state, at
        turn.error, turn.reason, turn.is_empty = error, reason, is_empty
        self._settled[key] = None
        while len(self._settled) > SETTLED_KEPT:
            self._expire(next(iter(self._settled)))

    def chat_deleted(self, chat_id: str, at: str) -> None:
        """Whatever was still pending of a chat was interrupted by its deletion."""
        of_it = [key for key in self._turns if key[0] == chat_id]
        for key in of_it:
            if self._turns[key].state == "pending":
                self.settle(*key, "interrupted", at, reason="chat-deleted")

    def receipt(self, chat_id: str, turn_id: str) -> TurnReceipt:
        """Return a receipt as readers get it; 404 for an unknown turn, 410 for an expired one."""
        key = (chat_id, turn_id)
        turn = self._turns.get(key)
        if turn is None:
            if key in self._expired:
                raise GarconError(
                    "TURN_RESULT_EXPIRED", "The result of this turn is no longer kept.", status=410
                )
            raise GarconError("TURN_RECEIPT_NOT_FOUND", "No such turn is known.", status=404)
        settled = turn.state != "pending"
        return TurnReceipt(
            chat_id=chat_id,
            turn_id=turn_id,
            client_request_id=turn.request_id,
            accepted_at=turn.accepted_at,
            updated_at=turn.updated_at,
            state=turn.state,
            settled_at=turn.updated_at if settled else UNSET,
            error=UNSET if turn.error is None else turn.error,
            reason=turn.reason or UNSET,
            output=_output(turn) if settled else UNSET,
        )

    def _make_room(self, size: int) -> bool:
        while self._size + size > self.text_limit or self._messages + 1 > self.message_limit:
            oldest = next((key for key in self._settled if self._turns[key].said), None)
            if oldest is None:
                return False
            self._expire(oldest)
        return True

    def _expire(self, key: Key) -> None:
        self._forget_text(self._turns.pop(key))
        self._settled.pop(key, None)
        self._expired[key] = None
        while len(self._expired) > EXPIRED_KEPT:
            self._expired.popitem(last=False)

    def _lose(self, turn: _Turn, why: Literal["too-large", "retention-pressure"]) -> None:
        self._forget_text(turn)
        turn.lost = why

    def _forget_text(self, turn: _Turn) -> None:
        self._size -= turn.size
        self._messages -= len(turn.said)
        turn.said, turn.size = [], 0


def _output(turn: _Turn) -> TurnOutput:
    if turn.lost is not None:
        return TurnOutput(availability="unavailable", reason=turn.lost)
    is_complete = turn.state == "completed"
    if is_complete and not turn.answers and not turn.is_empty:
        return TurnOutput(availability="unavailable", reason="no-final-response")
    return TurnOutput(
        availability="available",
        completeness="complete" if is_complete else "best-effort",
        text="\n\n".join(text for text in turn.said if text.strip()),
        assistant_messages=list(turn.said),
    )
