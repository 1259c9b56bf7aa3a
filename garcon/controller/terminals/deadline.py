"""The moment at which a socket's rights on terminals end (server.md C.7)."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define
from twisted.internet.interfaces import IDelayedCall, IReactorTime

LONGEST_STEP = 2_147_000.0
"""A moment further away is looked at again after so many seconds."""


@define(eq=False)
class Deadline:
    """Calls `due` once `at` has come; both it and `now` are seconds since the epoch.

    A suspended machine's timers are late, so whoever has something to do asks `has_come` first.
    """

    _at: float | None
    _clock: IReactorTime
    _now: Callable[[], float]
    _due: Callable[[], None]
    _timer: IDelayedCall | None = None

    @property
    def left(self) -> float | None:
        """Seconds until then, None where it never comes."""
        return None if self._at is None else self._at - self._now()

    @property
    def has_come(self) -> bool:
        """Whether it is over."""
        return self._at is not None and self._now() >= self._at

    def watch(self) -> None:
        """Wait for it."""
        self._timer = None
        left = self.left
        if left is None:
            return
        if left <= 0:
            self._due()
        else:
            self._timer = self._clock.callLater(min(left, LONGEST_STEP), self.watch)

    def stop(self) -> None:
        """Wait no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
