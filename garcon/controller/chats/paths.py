"""Whether a Local chat's project directory can be used: what the chat list leaves out (chats.md
3.1).
"""

from __future__ import annotations

import os
from collections.abc import Callable

from attrs import define, field
from twisted.internet.interfaces import IReactorTime

from garcon.contract.ids import LOCAL

KEPT = 60.0
"""Seconds that an answer may be repeated without another look."""


@define(eq=False)
class ProjectPaths:
    """Knows which project directories of this machine exist inside the project base."""

    _base: str
    _clock: IReactorTime
    _known: dict[str, tuple[float, bool]] = field(factory=dict)

    def is_listed(self, executor_id: str, path: str) -> bool:
        """Whether a chat of this project is listed; only Local's paths are this machine's to
        judge.
        """
        if executor_id != LOCAL:
            return True
        now = self._clock.seconds()
        known = self._known.get(path)
        if known is None or now - known[0] > KEPT:
            known = self._known[path] = (now, _is_inside(path, self._base))
        return known[1]

    def forget_beyond(self, count: int, paths: Callable[[], set[str]]) -> None:
        """Once more than `count` paths are known, forget all but those that there are."""
        if len(self._known) > count:
            wanted = paths()
            self._known = {path: known for path, known in self._known.items() if path in wanted}


def _is_inside(path: str, base: str) -> bool:
    if not path:
        return False
    real, real_base = os.path.realpath(path), os.path.realpath(base)
    inside = real == real_base or real.startswith(real_base.rstrip("/") + "/")
    return inside and os.path.isdir(real)
