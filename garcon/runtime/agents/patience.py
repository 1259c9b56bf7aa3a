"""How long a handshake is waited for that may never come.

A program that is busy with its own start has not read what it was told; one in its place that knows
no handshake has, and waits for more.  So the time counts from when it has read, and how slow a
machine is makes no difference.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define
from twisted.internet.interfaces import IDelayedCall, IReactorTime

LOOKS = 3
"""In the time of one patience."""
MOST = 5
"""Times that long are waited for a program that reads nothing: it may want to be told more."""


@define(eq=False)
class Patience:
    """Calls `over` once, unless it is ended before.  `has_read` says whether the program has taken
    all that was written to it.
    """

    _clock: IReactorTime
    _seconds: float
    _has_read: Callable[[], bool]
    _over: Callable[[], object]
    _looks: int = 0
    _since_read: int = 0
    _next: IDelayedCall | None = None

    def begin(self) -> None:
        """Look again and again, from now on."""
        self._next = self._clock.callLater(self._seconds / LOOKS, self._look)

    def end(self) -> None:
        """Look no more."""
        if self._next is not None and self._next.active():
            self._next.cancel()

    def _look(self) -> None:
        self._looks += 1
        self._since_read = self._since_read + 1 if self._has_read() else 0
        if self._since_read > LOOKS or self._looks >= LOOKS * MOST:
            self._over()
        else:
            self.begin()
