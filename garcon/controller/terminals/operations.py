"""The routes of terminals: which executor is asked, and whose they are (server.md C.2)."""

from __future__ import annotations

from garcon.contract import operations
from garcon.contract.ids import LOCAL, is_executor_id
from garcon.contract.limits import CLIENT_ID_BYTES
from garcon.contract.terminals import (
    VALIDATION,
    CreateTerminal,
    RenameTerminal,
    TerminalCreated,
    TerminalCreation,
    TerminalList,
    TerminalQuery,
    TerminalRenamed,
    TerminalRenaming,
    TerminalTerminated,
    TerminalTermination,
    TerminateTerminal,
    parse_terminal_id,
    terminal_error,
)
from garcon.controller.executors.interfaces import IExecutors
from garcon.controller.executors.terminals import terminals_of
from garcon.controller.handlers import Call, Handlers


class TerminalOperations:
    """Handlers of the routes of terminals.  A principal sees and changes none but its own."""

    def __init__(self, executors: IExecutors) -> None:
        self._executors = executors

    def register(self, handlers: Handlers) -> None:
        """Serve the operations."""
        for operation, handler in (
            (operations.LIST_TERMINALS, self.list),
            (operations.CREATE_TERMINAL, self.create),
            (operations.TERMINATE_TERMINAL, self.terminate),
            (operations.RENAME_TERMINAL, self.rename),
        ):
            handlers.register(operation, handler)

    async def list(self, call: Call[TerminalQuery, None]) -> TerminalList:
        """Name the caller's terminals on one executor."""
        where = _executor(call.query.executor_id)
        listed = await terminals_of(self._executors, where).list(call.principal.key)
        runtime = listed.terminal_runtime_id
        return TerminalList(
            terminals=[info.shown(where, runtime) for info in listed.terminals],
            terminal_runtime_id=runtime,
            attachment_epoch=listed.attachment_epoch,
        )

    async def create(self, call: Call[None, CreateTerminal]) -> TerminalCreated:
        """Start a terminal."""
        body, who = call.body, call.principal.key
        _require_id(body.request_id)
        where = _executor(body.executor_id)
        terminals = terminals_of(self._executors, where)
        runtime = body.expected_terminal_runtime_id
        if runtime is None:
            # The name of a terminal has the process in it, so it must be the one that is asked.
            runtime = (await terminals.list(who)).terminal_runtime_id
        info = await terminals.create(
            TerminalCreation(
                principal_key=who,
                request_id=body.request_id,
                directory=body.requested_initial_working_directory,
                expected_terminal_runtime_id=runtime,
            )
        )
        return TerminalCreated(terminal=info.shown(where, runtime))

    async def terminate(self, call: Call[None, TerminateTerminal]) -> TerminalTerminated:
        """End a terminal; one that is gone, with its process perhaps, is ended already."""
        name = call.body.terminal_id
        _require_id(call.body.request_id)
        where, runtime, session_id = parse_terminal_id(name)
        info = await terminals_of(self._executors, where).terminate(
            TerminalTermination(
                principal_key=call.principal.key,
                session_id=session_id,
                request_id=call.body.request_id,
                terminal_runtime_id=runtime,
            )
        )
        shown = None if info is None else info.shown(where, runtime)
        return TerminalTerminated(terminal_id=name, terminal=shown)

    async def rename(self, call: Call[None, RenameTerminal]) -> TerminalRenamed:
        """Give a terminal a title, or take it away."""
        name = call.body.terminal_id
        where, runtime, session_id = parse_terminal_id(name)
        info = await terminals_of(self._executors, where).rename(
            TerminalRenaming(
                principal_key=call.principal.key,
                session_id=session_id,
                title=call.body.title,
                terminal_runtime_id=runtime,
            )
        )
        return TerminalRenamed(terminal_id=name, title=info.title)


def _executor(text: str | None) -> str:
    if text is None:
        return LOCAL
    if not is_executor_id(text):
        raise terminal_error(VALIDATION, "executorId must be local or a UUID.")
    return text


def _require_id(text: str) -> None:
    if len(text.encode("utf-8", "replace")) > CLIENT_ID_BYTES:
        raise terminal_error(VALIDATION, f"An id has 1 to {CLIENT_ID_BYTES} bytes.")
