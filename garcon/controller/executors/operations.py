"""The executor operations over HTTP and the bridge (control.md E.1): who may, then what changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, structs

from garcon.contract import operations
from garcon.contract.bridge import access_denied
from garcon.contract.connection_url import new_secret, parse_public_base
from garcon.contract.executors import (
    Connection,
    CreatedExecutor,
    CreateExecutor,
    ExecutorList,
    UpdateExecutor,
)
from garcon.contract.ids import LOCAL, is_executor_id
from garcon.controller.executors import records
from garcon.controller.executors.authority import require_management
from garcon.controller.executors.records import ExecutorRecord
from garcon.controller.handlers import Call, Handlers
from garcon.errors import GarconError, validation

if TYPE_CHECKING:
    from garcon.controller.executors.service import Executors


class ExecutorOperations:
    """Handlers of the executor routes."""

    def __init__(
        self,
        executors: Executors,
        random: Callable[[int], bytes],
        new_id: Callable[[], str],
    ) -> None:
        self._executors = executors
        self._random = random
        self._new_id = new_id

    def register(self, handlers: Handlers) -> None:
        """Serve the five operations."""
        handlers.register(operations.LIST_EXECUTORS, self.list)
        handlers.register(operations.CREATE_EXECUTOR, self.create)
        handlers.register(operations.UPDATE_EXECUTOR, self.update)
        handlers.register(operations.DELETE_EXECUTOR, self.delete)
        handlers.register(operations.REVEAL_CONNECTION, self.reveal)

    def list(self, call: Call[Any, None]) -> ExecutorList:
        """All executors, Local first."""
        return ExecutorList(self._executors.snapshots())

    def create(self, call: Call[Any, CreateExecutor]) -> CreatedExecutor:
        """Make an executor and reveal its connection."""
        require_management(call.principal, self._executors.may_manage)
        executors, base = self._executors, self._public_base(call)
        record = records.create(
            call.body,
            self._new_id(),
            new_secret(self._random(32)),
            executors.registry.all(),
            base,
        )
        url = ""
        if record.address is not None or base is not None:
            url = records.revealed(record, base).connection_url
        elif call.principal.kind == "executor":
            # Through a gateway there is no Host to suggest an address: nothing is saved (E.6).
            raise validation(records.NO_ADDRESS)
        executors.add(record)
        return CreatedExecutor(
            id=record.id,
            connection_url=url,
            no_tls=record.no_tls,
            allow_unverified_tls=record.allow_unverified_tls,
        )

    def update(self, call: Call[Any, UpdateExecutor]) -> ExecutorList:
        """Change an executor."""
        require_management(call.principal, self._executors.may_manage)
        record = self._record(call)
        if call.principal.executor_id == record.id:
            _require_label_only(call.body)
        changed = records.update(
            record,
            call.body,
            self._executors.registry.others(record.id),
            self._public_base(call),
        )
        self._executors.change(changed)
        return ExecutorList(self._executors.snapshots())

    def delete(self, call: Call[Any, None]) -> ExecutorList:
        """Forget an executor; chats that name it keep doing so."""
        require_management(call.principal, self._executors.may_manage)
        record = self._record(call)
        if call.principal.executor_id == record.id:
            raise access_denied("An executor's own commands cannot delete it.")
        self._executors.remove(record)
        return ExecutorList(self._executors.snapshots())

    def reveal(self, call: Call[Any, None]) -> Connection:
        """Show the connection URL, secret included."""
        require_management(call.principal, self._executors.may_manage)
        return records.revealed(self._record(call), self._public_base(call))

    def _record(self, call: Call[Any, Any]) -> ExecutorRecord:
        executor_id = call.executor_id
        if not is_executor_id(executor_id):
            raise validation("The executor id in the path is malformed.")
        if executor_id == LOCAL:
            raise records.local_not_managed()
        record = None if executor_id is None else self._executors.registry.get(executor_id)
        if record is None:
            raise records.not_found()
        return record

    def _public_base(self, call: Call[Any, Any]) -> str | None:
        if self._executors.public_base is not None:
            return self._executors.public_base
        if call.base_url is None or call.principal.kind == "executor":
            return None
        try:
            return parse_public_base(call.base_url)
        except GarconError:
            return None


def _require_label_only(body: UpdateExecutor) -> None:
    given = {name for name, value in structs.asdict(body).items() if value is not UNSET}
    if given - {"label"}:
        raise access_denied("An executor's own commands can change nothing of it but its label.")
