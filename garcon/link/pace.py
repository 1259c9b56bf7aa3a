"""How long lanes may hold up one turn of the reactor.

A turn serves every socket that has something, then runs the calls that are due, and only then looks
at the sockets again.  Encoding or decoding one large message takes as long as a dozen small calls,
and so does a burst of records.  Whatever a lane has left to do when its share of a turn is over, it
puts into one line with all other lanes of the process, and each turn runs only what fits into one
share: what is small waits for one such step, seldom for more.  Only a socket that is served always
takes its first record, as nobody knows beforehand what that asks for.
"""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakValueDictionary

from twisted.internet.interfaces import IDelayedCall, IReactorTime

SHARE = 0.0002
"""Seconds; decoding 1 MiB of JSON takes about twice as long, sealing a burst about as long."""


class Pace:
    """The line of one reactor's lanes."""

    def __init__(self, clock: IReactorTime, share: float = SHARE) -> None:
        self.share = share
        self._clock = clock
        self._steps: dict[Callable[[], None], None] = {}
        self._spent = 0.0
        self._has_waited = False
        self._call: IDelayedCall | None = None

    def spent(self, seconds: float) -> None:
        """So much of this turn is over, because a socket was read."""
        self._spent += seconds

    def later(self, step: Callable[[], None]) -> None:
        """Run a step in a later turn, behind those that wait already; once, however often asked."""
        self._steps[step] = None
        self._go_on()

    def forget(self, step: Callable[[], None]) -> None:
        """Run it no more."""
        self._steps.pop(step, None)
        if not self._steps and self._call is not None:
            self._call.cancel()
            self._call = None

    def _go_on(self) -> None:
        if self._steps and self._call is None:
            self._call = self._clock.callLater(0, self._run)

    def _run(self) -> None:
        """Run what fits into the rest of this turn.

        Nothing does where reading has taken all of it; but if reading does so in every turn, each
        second one runs steps for as long as reading took.
        """
        self._call = None
        spent, self._spent = self._spent, 0.0
        left = self.share - spent
        if left <= 0 and self._has_waited:
            left = spent
        self._has_waited = left <= 0
        try:
            if left > 0:
                self._run_within(left)
        finally:
            self._go_on()

    def _run_within(self, seconds: float) -> None:
        now = self._clock.seconds
        until = now() + seconds
        # A step that puts itself into the line again waits for the next turn.
        for step in list(self._steps):
            if step in self._steps:
                del self._steps[step]
                step()
                if now() >= until:
                    break
        # What a step has read is in its own time already.
        self._spent = 0.0


_paces: WeakValueDictionary[int, Pace] = WeakValueDictionary()


def pace_of(clock: IReactorTime) -> Pace:
    """Return the one line of this clock's lanes; whoever uses it keeps it."""
    pace = _paces.get(id(clock))
    if pace is None:
        pace = _paces[id(clock)] = Pace(clock)
    return pace
