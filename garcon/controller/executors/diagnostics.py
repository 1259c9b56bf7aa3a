"""What an executor's link says of itself to whoever may manage executors (decisions.md 13)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import TimeoutError
from twisted.internet.interfaces import IReactorTime

from garcon.contract import operations
from garcon.contract.bridge import access_denied
from garcon.contract.diagnostics import ExecutorDiagnostics
from garcon.contract.ids import LOCAL, is_executor_id
from garcon.controller.executors.records import not_found
from garcon.controller.executors.remote_executor import RemoteExecutor
from garcon.controller.handlers import Call, Handlers
from garcon.deferreds import returns_deferred
from garcon.errors import validation

PROBE_TIME = 2.0
"""How long the worker's side of each lane may take to give a sign of life before we tell of it as
it is.
"""


class DiagnosticsOperation:
    """The handler of the diagnostics route.

    `find` returns an executor or raises, `may_manage` says whether a worker's commands may manage
    executors now.
    """

    def __init__(
        self,
        clock: IReactorTime,
        find: Callable[[str], RemoteExecutor],
        may_manage: Callable[[str | None], bool],
    ) -> None:
        self._clock = clock
        self._find = find
        self._may_manage = may_manage

    def register(self, handlers: Handlers) -> None:
        """Serve it."""
        handlers.register(operations.EXECUTOR_DIAGNOSTICS, self.read)

    @returns_deferred
    async def read(self, call: Call[Any, None]) -> ExecutorDiagnostics:
        """Ask the lanes for a sign of life, then tell what is known."""
        self._require_management(call)
        executor_id = call.executor_id
        if executor_id is None or not is_executor_id(executor_id):
            raise validation("The executor id in the path is malformed.")
        if executor_id == LOCAL:
            raise not_found()
        link = self._find(executor_id).link
        if link is not None:
            try:
                await link.probe().addTimeout(PROBE_TIME, self._clock)
            except TimeoutError:
                pass  # How long the lane has been silent is told.
        self._require_management(call)
        return self._find(executor_id).diagnostics()

    def _require_management(self, call: Call[Any, None]) -> None:
        """Check the grant where it is used; it may have ended while we waited."""
        principal = call.principal
        if principal.kind == "executor" and not self._may_manage(principal.executor_id):
            raise access_denied("This executor's commands may not manage executors.")
