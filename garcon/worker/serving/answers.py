"""Answers that are in no hurry: what a key makes its terminal show goes before the word that it was
typed.

An answer that leaves first wakes the controller, which then is busy with it when the echo comes;
behind the echo it costs nobody anything.  What shows nothing, as a password, is answered in a
moment, and many at once are answered as they come.
"""

from __future__ import annotations

from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IDelayedCall, IReactorTime

MOMENT = 0.02
MOST = 3
"""So many may wait; the controller has more under way before it waits for answers."""


@define(eq=False)
class Answers:
    """Those that wait.  Whoever cancels one gets none."""

    _clock: IReactorTime
    shown: int = field(default=0, init=False)
    """How often something was shown."""
    _waiting: dict[Deferred[Any], Any] = field(factory=dict)
    _timer: IDelayedCall | None = None

    def behind(self, shown: int, answer: Any) -> Deferred[Any]:
        """Fire with an answer when it may go; `shown` is what that was before its question."""
        if shown != self.shown:
            return succeed(answer)
        if len(self._waiting) >= MOST:
            self._go()
            return succeed(answer)
        d: Deferred[Any] = Deferred(self._forget)
        self._waiting[d] = answer
        if self._timer is None:
            self._timer = self._clock.callLater(MOMENT, self._due)
        return d

    def was_shown(self) -> None:
        """Something was shown: all that wait may go."""
        self.shown += 1
        if self._waiting:
            self._go()

    def _go(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for d, answer in waiting.items():
            d.callback(answer)

    def _due(self) -> None:
        self._timer = None
        self._go()

    def _forget(self, d: Deferred[Any]) -> None:
        self._waiting.pop(d, None)
