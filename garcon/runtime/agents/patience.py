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
"""Times that long are waited for a program that reads nothing, unless somebody says otherwise: it
may want to be told more.
"""


@define(eq=False)
class Patience:
    """Calls `over` once, unless it is ended before.  `has_read` says whether the program has taken
    all that was written to it.  After `most` seconds it is over in any case.
    """

    _clock: IReactorTime
    _seconds: float
    _has_read: Callable[[], bool]
    _over: Callable[[], object]
    _most: float | None = None
    _since_read: int = 0
    _until: float = 0.0
    _next: IDelayedCall | None = None

    def begin(self) -> None:
        """Look again and again, from now on."""
        most = self._seconds * MOST if self._most is None else self._most
        self._until = self._clock.seconds() + most
        self._go_on()

    def _go_on(self) -> None:
        left = self._until - self._clock.seconds()
        self._next = self._clock.callLater(max(0.0, min(self._seconds / LOOKS, left)), self._look)

    def end(self) -> None:
        """Look no more."""
        if self._next is not None and self._next.active():
            self._next.cancel()

    def _look(self) -> None:
        self._since_read = self._since_read + 1 if self._has_read() else 0
        if self._since_read > LOOKS or self._clock.seconds() >= self._until:
            self._over()
        else:
            self._go_on()
