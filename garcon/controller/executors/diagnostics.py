"""What an executor's link says of itself to whoever may manage executors, and what is left over on
its machine (decisions.md 13).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import structs
from twisted.internet.defer import CancelledError, TimeoutError
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from garcon.contract import operations
from garcon.contract.diagnostics import ExecutorDiagnostics
from garcon.contract.ids import LOCAL, is_executor_id
from garcon.contract.leftovers import EndProcess, LeftoverProcesses, ProcessEnded
from garcon.controller.executors.authority import require_management
from garcon.controller.executors.records import LOCAL_LABEL
from garcon.controller.executors.remote_executor import RemoteExecutor
from garcon.controller.handlers import Call, Handlers
from garcon.deferreds import returns_deferred
from garcon.errors import GarconError, validation
from garcon.runtime.interfaces import IExecutorRuntime, ILeftoverHost, ILeftovers

PROBE_TIME = 2.0
"""How long the worker's side of each lane may take to give a sign of life before we tell of it as
it is, and the machine to say what is left over there.
"""


class DiagnosticsOperation:
    """The handlers of both diagnostics routes.

    `find` returns a remote executor or raises, `runtime` any executor's that new work can go to or
    raises, `may_manage` says whether a worker's commands may manage executors now.
    """

    _log = Logger()

    def __init__(
        self,
        clock: IReactorTime,
        find: Callable[[str], RemoteExecutor],
        runtime: Callable[[str], IExecutorRuntime],
        may_manage: Callable[[str | None], bool],
    ) -> None:
        self._clock = clock
        self._find = find
        self._runtime = runtime
        self._may_manage = may_manage

    def register(self, handlers: Handlers) -> None:
        """Serve them."""
        handlers.register(operations.EXECUTOR_DIAGNOSTICS, self.read)
        handlers.register(operations.END_PROCESS, self.end)

    @returns_deferred
    async def read(self, call: Call[Any, None]) -> ExecutorDiagnostics:
        """Ask the lanes for a sign of life and the machine for what is left over there, then tell
        what is known.
        """
        executor_id = self._admit(call)
        if executor_id == LOCAL:
            return _of_local(await self._leftovers(LOCAL))
        link = self._find(executor_id).link
        if link is not None:
            try:
                await link.probe().addTimeout(PROBE_TIME, self._clock)
            except TimeoutError:
                pass  # How long the lane has been silent is told.
        left = await self._leftovers(executor_id)
        require_management(call.principal, self._may_manage)
        told = self._find(executor_id).diagnostics()
        return structs.replace(told, leftovers=left)

    @returns_deferred
    async def end(self, call: Call[Any, EndProcess]) -> ProcessEnded:
        """End one of the processes that are left over."""
        host = self._host(self._admit(call))
        if host is None:
            text = "This executor does not tell what is left over there."
            raise GarconError("OPERATION_UNSUPPORTED", text, status=422)
        self._log.info("a left over process, {pid}, is ended by request", pid=call.body.pid)
        await host.end(call.body)
        return ProcessEnded(call.body.pid, call.body.started)

    @returns_deferred
    async def _leftovers(self, executor_id: str) -> LeftoverProcesses | None:
        """Return what is left over there; None where that cannot be said now."""
        try:
            host = self._host(executor_id)
            if host is None:
                return None
            return await host.read().addTimeout(PROBE_TIME, self._clock)
        except CancelledError:
            raise
        except (GarconError, TimeoutError):
            return None

    def _host(self, executor_id: str) -> ILeftovers | None:
        runtime = self._runtime(executor_id)
        return runtime.leftovers if ILeftoverHost.providedBy(runtime) else None

    def _admit(self, call: Call[Any, Any]) -> str:
        require_management(call.principal, self._may_manage)
        executor_id = call.executor_id
        if executor_id is None or not is_executor_id(executor_id):
            raise validation("The executor id in the path is malformed.")
        return executor_id


def _of_local(left: LeftoverProcesses | None) -> ExecutorDiagnostics:
    """Tell of the controller itself, which has no link."""
    return ExecutorDiagnostics(
        id=LOCAL,
        label=LOCAL_LABEL,
        enabled=True,
        allow_controller_cli=True,
        allow_executor_management=True,
        direction=None,
        availability="ready",
        last_error=None,
        link=None,
        leftovers=left,
    )
