"""Every row of the matrix, and which operations want one."""

from __future__ import annotations

from attrs import evolve

from garcon.contract import routes
from garcon.contract.routes import BRIDGED
from garcon.testing.matrix import (
    executor_rows,
    later_rows,
    reading_rows,
    turn_rows,
    upkeep_rows,
)
from garcon.testing.matrix.cases import Asked, Row
from garcon.testing.matrix.differences import Instead, Why

ROWS = (
    *executor_rows.ROWS,
    *reading_rows.ROWS,
    *upkeep_rows.ROWS,
    *turn_rows.ROWS,
    *later_rows.ROWS,
)

WANTED = (routes.RUNTIME.key, routes.CLI_CONTEXT.key, *BRIDGED)
"""What a worker's gateway serves itself, and all that it may forward."""

_UNFENCED = frozenset({routes.RUNTIME.key, routes.CLI_CONTEXT.key})
"""These say which controller there is, so that nobody can name one for them."""


def ungranted(row: Row) -> tuple[Asked, ...]:
    """Return what is asked of a row while the worker's account may not manage executors."""
    if not row.route.management:
        return ()
    denied = Instead(Why.GRANT, 403, "CLI_ACCESS_DENIED")
    return (evolve(row.asked[0], name="without the grant", instead=denied),)


def asked(row: Row) -> tuple[Asked, ...]:
    """Return what is asked of a row once everything is granted: its own cases, and the fence that
    all operations have.
    """
    if not row.is_served or row.route.key in _UNFENCED:
        return row.asked
    fenced = evolve(
        row.asked[0],
        name="of another controller",
        status=409,
        code="CLI_CONTROLLER_CHANGED",
        headers={"X-Garcon-Server-Instance": "another"},
        instead=None,
    )
    return (*row.asked, fenced)
