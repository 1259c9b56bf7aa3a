"""How long what a lane has lost is kept for its next session (control.md J.5)."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import IDelayedCall, IReactorTime


class Grace:
    """Runs from the first loss to the next success; further losses between do not prolong it."""

    def __init__(self, clock: IReactorTime, seconds: float, over: Callable[[], None]) -> None:
        self._clock = clock
        self._seconds = seconds
        self._over = over
        self._timer: IDelayedCall | None = None

    @property
    def is_running(self) -> bool:
        """Whether something was lost and may still be regained."""
        return self._timer is not None

    def begin(self) -> None:
        """Something was lost."""
        if self._timer is None:
            self._timer = self._clock.callLater(self._seconds, self._expired)

    def end(self) -> None:
        """All is well again, or nothing is to be regained any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expired(self) -> None:
        self._timer = None
        self._over()
