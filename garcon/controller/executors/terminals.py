"""Whose terminals a request is about: those of one executor, or the reason why it has none now."""

from __future__ import annotations

from garcon.contract.ids import LOCAL
from garcon.contract.terminals import UNAVAILABLE, UNSUPPORTED, terminal_error
from garcon.controller.executors.interfaces import IExecutors
from garcon.errors import GarconError
from garcon.runtime.interfaces import ITerminalHost, ITerminals


def terminals_of(executors: IExecutors, executor_id: str | None) -> ITerminals:
    """Return the terminals of an executor, of Local where none is named.

    Raises ``terminal-unavailable`` (503) for one that is not known, and ``terminal-unsupported``
    (501).  One that is not connected fails with the first of them when it is asked.
    """
    try:
        runtime = executors.existing(LOCAL if executor_id is None else executor_id)
    except GarconError:
        raise terminal_error(UNAVAILABLE, "There is no such executor.") from None
    if not ITerminalHost.providedBy(runtime):
        raise terminal_error(UNSUPPORTED, "This executor has no terminals.")
    terminals: ITerminals = runtime.terminals
    return terminals
