"""The methods by which a controller reads what this machine's agents remember (control.md J.9
``history.*``): opened once, then piece by piece, each read when the one before was fetched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import uuid4

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from garcon.contract import rpc
from garcon.contract.runs import (
    HistoryOpened,
    HistoryPage,
    HistoryQuery,
    MovedOn,
    NativeRow,
    NativeSession,
    SessionPoint,
)
from garcon.deferreds import returns_deferred
from garcon.errors import GarconError, LimitExceeded, validation
from garcon.link.interfaces import CallContext, Handler
from garcon.runtime.interfaces import INativeDrift, INativeHistory

READERS = 8
"""That may be open at once."""
IDLE = 60.0
"""Seconds after which a reader is closed that nobody asks for its next piece."""


@define(eq=False)
class _Reader:
    """One history on its way.  At most one piece of it waits to be fetched."""

    id: str
    generation: str
    reading: Deferred[None] | None = None
    page: int = 0
    piece: Sequence[NativeRow] | None = None
    taken: Deferred[None] | None = None
    """Fired when the piece is fetched: then the next is read."""
    asked: Deferred[HistoryPage] | None = None
    outcome: Failure | None = None
    is_done: bool = False
    idle: IDelayedCall | None = field(default=None)

    def take(self, rows: Sequence[NativeRow]) -> Deferred[None]:
        """Have the next piece wait."""
        self.piece = rows
        d = self.taken = Deferred()
        self.answer()
        return d

    def ended(self, outcome: Failure | None) -> None:
        """There are no more pieces, for whatever reason."""
        self.reading, self.is_done, self.outcome = None, True, outcome
        self.answer()

    def answer(self) -> None:
        """Give what there is to whoever has asked."""
        asked = self.asked
        if asked is None:
            return
        if self.piece is not None:
            rows, self.piece = list(self.piece), None
            self.asked = None
            asked.callback(HistoryPage(False, rows))
        elif self.outcome is not None:
            self.asked = None
            asked.errback(self.outcome)
        elif self.is_done:
            self.asked = None
            asked.callback(HistoryPage(True))


class HistoryServing:
    """One worker's histories, as the controller may call for them."""

    _log = Logger()

    def __init__(self, clock: IReactorTime, history: INativeHistory) -> None:
        self._clock = clock
        self._history = history
        self._readers: dict[str, _Reader] = {}

    def handlers(self) -> Mapping[str, Handler]:
        """Return every method, by name."""
        table: list[tuple[rpc.Method, Callable[[Any, CallContext], Deferred[Any]]]] = [
            (rpc.OPEN_HISTORY, self.open),
            (rpc.READ_HISTORY, self.next),
            (rpc.CLOSE_HISTORY, self.close),
            (rpc.MOVED_ON, self.moved_on),
        ]
        return {method.name: handler for method, handler in table}

    def __len__(self) -> int:
        return len(self._readers)

    @returns_deferred
    async def open(self, request: NativeSession, context: CallContext) -> HistoryOpened:
        """Begin to read; what keeps it from beginning is told with the first piece."""
        if len(self._readers) >= READERS:
            raise LimitExceeded(
                "HISTORY_LOAD_FAILED",
                "The worker reads as many histories as it can at once.",
                status=503,
                retryable=True,
            )
        reader = _Reader(str(uuid4()), context.generation)
        self._readers[reader.id] = reader
        self._wait(reader)
        reading = self._history.read_history(request, reader.take)
        if not reader.is_done:
            reader.reading = reading

        def failed(f: Failure) -> None:
            if not f.check(GarconError, CancelledError):
                self._log.failure("a history could not be read", failure=f)
                text = "The history could not be read; the worker's log has the cause."
                f = Failure(GarconError("HISTORY_LOAD_FAILED", text, status=500, retryable=True))
            reader.ended(f)

        reading.addCallbacks(lambda _: reader.ended(None), failed)
        return HistoryOpened(reader.id)

    @returns_deferred
    async def next(self, request: HistoryQuery, context: CallContext) -> HistoryPage:
        """Fetch the next piece, as soon as it is there."""
        reader = self._readers.get(request.reader)
        if reader is None or reader.generation != context.generation:
            raise GarconError(
                "HISTORY_LOAD_FAILED",
                "The history is not being read any more.",
                status=409,
                retryable=True,
            )
        if reader.asked is not None or request.page != reader.page + 1:
            raise validation("the pieces of a history are asked for in order, each once")
        reader.page = request.page
        self._rest(reader)
        asked = reader.asked = Deferred()
        taken, reader.taken = reader.taken, None
        if reader.piece is None and taken is not None:
            taken.callback(None)
        else:
            reader.taken = taken
        reader.answer()
        try:
            page = await asked
        except BaseException:
            reader.asked = None
            self._drop(reader)
            raise
        if page.done:
            self._drop(reader)
        elif reader.id in self._readers:
            self._wait(reader)
        return page

    def close(self, request: HistoryQuery, context: CallContext) -> Deferred[rpc.Nothing]:
        """Read no further; again changes nothing."""
        reader = self._readers.get(request.reader)
        if reader is not None and reader.generation == context.generation:
            self._drop(reader)
        return succeed(rpc.Nothing())

    @returns_deferred
    async def moved_on(self, request: SessionPoint, context: CallContext) -> MovedOn:
        """Say whether a session was gone on with."""
        history: Any = self._history
        can_tell = INativeDrift.providedBy(history)
        return MovedOn(can_tell and await history.has_moved_on(request))

    def session_lost(self, generation: str) -> None:
        """Who has asked is gone."""
        for reader in list(self._readers.values()):
            if reader.generation == generation:
                self._drop(reader)

    def stop(self) -> None:
        """Read nothing more."""
        for reader in list(self._readers.values()):
            self._drop(reader)

    def _wait(self, reader: _Reader) -> None:
        reader.idle = self._clock.callLater(IDLE, self._drop, reader)

    def _rest(self, reader: _Reader) -> None:
        if reader.idle is not None and reader.idle.active():
            reader.idle.cancel()
        reader.idle = None

    def _drop(self, reader: _Reader) -> None:
        if self._readers.pop(reader.id, None) is None:
            return
        self._rest(reader)
        if reader.reading is not None:
            reader.reading.cancel()
