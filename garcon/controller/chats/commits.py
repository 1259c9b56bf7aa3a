"""The rows of one turn on their way to the store: in groups, one commit at a time, tried again
when refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

from attrs import frozen
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from garcon.contract.limits import MIB
from garcon.controller.chats.chat import Chat
from garcon.controller.transcripts.rows import Draft
from garcon.controller.transcripts.transcript import Late
from garcon.deferreds import Waiters
from garcon.store.records import Change, PutChat, Row, TouchChat

COMMIT_ROWS, COMMIT_BYTES = 512, MIB
"""What of a turn one commit takes; one row may be larger.  The sockets are told of a commit in one
step: of more than they may have unsent even a client that reads as fast as it can would be closed.
"""
PENDING_ROWS, PENDING_BYTES = 8_192, 64 * MIB
"""What may wait for its commit."""
WELCOME_ROWS, WELCOME_BYTES = 1_024, 4 * MIB
"""As long as no more waits, a sender that can hold rows back need not."""
RETRY_AFTER, RETRIES = 1.0, 5
"""How often, and after how many seconds, a refused commit is tried again."""

Durable = Callable[[Row], None]
Touch = tuple[str, str | None]
"""Time and text of a conversational row, for the chat's activity and preview."""


@frozen
class _Pending:
    draft: Draft
    durable: Durable | None
    touch: Touch | None


class Commits:
    """Keeps one turn's rows in order until they are durable.  Owned by the turn.

    `given_up` is called, once, when the store has refused the same rows too often: they are lost.
    """

    _log = Logger()

    def __init__(self, chat: Chat, clock: IReactorTime, given_up: Callable[[], None]) -> None:
        self._chat = chat
        self._clock = clock
        self._given_up = given_up
        self._pending: list[_Pending] = []
        self._bytes = 0
        self._saves_chat = False
        self._is_writing = False
        self._refusals = 0
        self._retry: IDelayedCall | None = None
        self._added = self._kept = 0
        """Rows so far, and how many of them are durable."""
        self._flushes: dict[int, Waiters[None]] = {}
        """Who waits until so many are, fewest first."""
        self._room: Waiters[None] = Waiters()
        self._is_closed = False

    @property
    def is_full(self) -> bool:
        """Whether more waits than may."""
        return len(self._pending) > PENDING_ROWS or self._bytes > PENDING_BYTES

    def room(self) -> Deferred[None]:
        """Fire once little enough waits for its commit that more is welcome."""
        return succeed(None) if self._has_room else self._room.wait()

    @property
    def _has_room(self) -> bool:
        few = len(self._pending) <= WELCOME_ROWS and self._bytes <= WELCOME_BYTES
        return few or self._is_closed

    def add(self, draft: Draft, durable: Durable | None = None, touch: Touch | None = None) -> None:
        """Queue a row; `durable` is called with it once it is kept.  `go` sets it on its way.

        Nothing is queued any more once this is closed.
        """
        if self._is_closed:
            return
        self._pending.append(_Pending(draft, durable, touch))
        self._added += 1
        self._bytes += len(draft.payload)

    def save_chat(self) -> None:
        """Make the chat's record durable together with the next rows."""
        self._saves_chat = True

    def go(self) -> None:
        """Commit what waits, unless a commit runs already: then it goes with the next one."""
        if self._is_writing or self._retry is not None or not self._pending:
            return
        batch = self._pending[: self._fitting()]
        del self._pending[: len(batch)]
        self._is_writing = True
        # As it is when it is written: others change it too, and never the other way round.
        before: list[Late] = [lambda: PutChat(self._chat.record)] if self._saves_chat else []
        saved, self._saves_chat = self._saves_chat, False
        d = self._chat.transcript.append(
            [one.draft for one in batch], before=before, after=_touched(self._chat.id, batch)
        )
        d.addCallbacks(
            lambda kept: self._written(batch, kept), lambda f: self._refused(batch, saved, f)
        ).addErrback(lambda f: self._log.failure("a turn's commit went wrong", failure=f))

    def _fitting(self) -> int:
        """Return how many of the rows that wait one commit takes."""
        size = 0
        for count, one in enumerate(islice(self._pending, COMMIT_ROWS)):
            size += len(one.draft.payload)
            if size > COMMIT_BYTES and count:
                return count
        return COMMIT_ROWS

    async def flushed(self) -> None:
        """Fire once every row so far is durable, or given up; more may have come by then."""
        if self._kept < self._added and not self._is_closed:
            await self._flushes.setdefault(self._added, Waiters()).wait()

    def close(self) -> None:
        """Drop what waits: its chat is gone."""
        self._is_closed = True
        self._pending.clear()
        self._bytes = 0
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        self._let_go()
        self._room.fire(None)

    def _written(self, batch: Sequence[_Pending], kept: tuple[Row, ...]) -> None:
        self._is_writing = False
        self._refusals = 0
        self._kept += len(batch)
        for one, row in zip(batch, kept, strict=True):
            self._bytes -= len(row.payload)
            if one.touch is not None:
                self._chat.active(*one.touch)
            if one.durable is not None:
                one.durable(row)
        self.go()
        self._let_go()
        if self._has_room:
            self._room.fire(None)

    def _let_go(self) -> None:
        """Fire for whom nothing is left to wait for."""
        while self._flushes and (self._is_closed or min(self._flushes) <= self._kept):
            self._flushes.pop(min(self._flushes)).fire(None)

    def _refused(self, batch: list[_Pending], saved: bool, f: Failure) -> None:
        self._is_writing = False
        if self._is_closed:
            return
        self._pending[:0] = batch
        self._saves_chat = self._saves_chat or saved
        self._refusals += 1
        if self._refusals <= RETRIES:
            self._retry = self._clock.callLater(RETRY_AFTER, self._try_again)
            return
        self._log.error(
            "{count} rows of {chat} are lost: {why}",
            count=len(self._pending),
            chat=self._chat.id,
            why=f.getErrorMessage(),
        )
        self.close()
        self._given_up()

    def _try_again(self) -> None:
        self._retry = None
        self.go()


def _touched(chat_id: str, batch: Sequence[_Pending]) -> list[Change]:
    """Return the change of a chat's activity and preview that these rows make, if any."""
    touches = [one.touch for one in batch if one.touch is not None]
    if not touches:
        return []
    texts = [text for _, text in touches if text is not None]
    return [TouchChat(chat_id, touches[-1][0], texts[-1] if texts else None)]
