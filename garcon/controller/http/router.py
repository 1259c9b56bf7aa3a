"""Which operation a method and a path mean, read off the table of operations."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import unquote

from attrs import frozen

from garcon.contract.operations import OPERATIONS, Operation

_SEGMENT = ":executorId"


@frozen
class Match:
    """An operation, with the executor its path names."""

    operation: Operation
    executor_id: str | None = None


class Router:
    """Exact paths, and paths with one executor's id in them.  HEAD asks for what GET would give."""

    def __init__(self, operations: Iterable[Operation] = OPERATIONS) -> None:
        self._exact: dict[tuple[str, str], Match] = {}
        self._executor: list[tuple[str, str, str, Operation]] = []
        for operation in operations:
            route = operation.route
            if _SEGMENT in route.path:
                before, _, after = route.path.partition(_SEGMENT)
                self._executor.append((route.method, before, after, operation))
            else:
                self._exact[route.method, route.path] = Match(operation)

    def match(self, method: str, path: str) -> Match | None:
        """Return what is asked for, or None for what the contract does not list."""
        if method == "HEAD":
            method = "GET"
        found = self._exact.get((method, path))
        if found is not None:
            return found
        for listed, before, after, operation in self._executor:
            if method == listed and path.startswith(before) and path.endswith(after):
                segment = path[len(before) : len(path) - len(after)]
                if segment and "/" not in segment:
                    return Match(operation, unquote(segment))
        return None
