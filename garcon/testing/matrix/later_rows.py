"""Operations whose handlers come later: a row here moves to the others with its handler."""

from __future__ import annotations

from typing import Any

from garcon.contract import routes
from garcon.contract.routes import Route
from garcon.testing.matrix.cases import Asked, Row
from garcon.testing.matrix.differences import Instead, Why

_INSTEAD = Instead(Why.NO_HANDLER, 404, "OPERATION_NOT_AVAILABLE")


def _later(
    route: Route,
    body: Any = None,
    *,
    query: tuple[tuple[str, str], ...] = (),
) -> Row:
    asked = Asked("not yet", status=404, body=body, query=query, instead=_INSTEAD)
    return Row(route, asked=(asked,), is_served=False)


_CHAT = (("chatId", "{read chat}"),)
ROWS = (
    _later(routes.EXPORT, query=_CHAT),
    _later(routes.HANDOFF_ARTIFACT, query=_CHAT),
    _later(routes.SEARCH, {"query": "hello"}),
    _later(routes.SEARCH_STATUS),
    _later(routes.SEARCH_REBUILD, {}),
    _later(routes.TICKET_BOOTSTRAP),
    _later(routes.TICKETS),
    _later(routes.TICKET_DETAIL),
    _later(routes.TICKET_HISTORY),
    _later(routes.TICKET_PROJECT_DEFAULT, {"executorId": "{own}", "path": "{project}"}),
    _later(routes.MUTATE_TICKETS, {"operations": []}),
)
