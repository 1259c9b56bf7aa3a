"""What the agents of an executor behind its link remember.

A history is read over one session of the link, piece by piece.  When that is lost, what was read so
far is of no use: it fails as what may go better later.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct
from twisted.internet.defer import CancelledError, Deferred

from garcon.contract import rpc
from garcon.contract.runs import HistoryOpened, HistoryPage, HistoryQuery, NativeSession
from garcon.deferreds import Tasks, returns_deferred
from garcon.errors import CallError, GarconError
from garcon.runtime.interfaces import TakeRows

Ask = Callable[[rpc.Method, Struct], "Deferred[Any]"]


class RemoteHistory:
    """Those of one remote executor.  `ask` calls its worker."""

    def __init__(self, tasks: Tasks, ask: Ask) -> None:
        self._tasks = tasks
        self._ask = ask

    @returns_deferred
    async def read(self, session: NativeSession, take: TakeRows) -> None:
        """See `INativeHistory.read_history`."""
        try:
            opened: HistoryOpened = await self._ask(rpc.OPEN_HISTORY, session)
            await self._pieces(opened.reader, take)
        except CallError as error:
            if error.outcome == "rejected":
                raise
            raise GarconError(
                "HISTORY_LOAD_FAILED", error.text, status=503, retryable=True
            ) from None

    async def _pieces(self, reader: str, take: TakeRows) -> None:
        number = 0
        try:
            while True:
                number += 1
                page: HistoryPage = await self._ask(rpc.READ_HISTORY, HistoryQuery(reader, number))
                if page.rows:
                    await take(page.rows)
                if page.done:
                    return
        except BaseException:
            closing = self._close(HistoryQuery(reader, number))
            self._tasks.spawn("closing of a history", closing)
            raise

    async def _close(self, query: HistoryQuery) -> None:
        try:
            await self._ask(rpc.CLOSE_HISTORY, query)
        except CancelledError:
            raise
        except GarconError:
            pass  # it closes by itself, soon
