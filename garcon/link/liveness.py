"""Whether a lane's peer is alive: decisions from times handed in, and the one timer that asks for
them.

A side pings only when it has authenticated nothing from the peer for `ping_every`, and gives the
peer up after `dead_after`.  A side that only receives says a word unasked at the same pace, because
its peer, busy sending, may have a ping of its own far back behind a slow socket.

While a machine is suspended its monotonic clock stands still, so that a link which the peer has
long given up looks fresh.  The heart notices by another clock that went on, and each lane is put to
the test at once: a ping, and `ping_every` to be heard of.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import Enum
from typing import Protocol
from weakref import WeakValueDictionary

from twisted.internet.interfaces import IDelayedCall, IReactorTime

from garcon.contract.limits import SOCKET_BUFFER


class Beat(Enum):
    """What to do about a lane now."""

    NOTHING = "nothing"
    PING = "ping"
    PONG = "pong"
    DEAD = "dead"


class Liveness:
    """One lane's signs of life.  `heard` and `spoke` are the times of the last record in and
    out.
    """

    def __init__(self, ping_every: float, dead_after: float, now: float) -> None:
        self.ping_every = ping_every
        self.dead_after = dead_after
        self.heard = now
        self.spoke = now
        self._pinged = now
        self._tested: float | None = None

    def test(self, now: float) -> None:
        """A ping goes out now, whose answer decides."""
        self._pinged = self._tested = now

    @property
    def deadline(self) -> float:
        """When the lane is dead, if nothing is heard until then."""
        end = self.heard + self.dead_after
        if self._tested is not None and self.heard < self._tested:
            return min(end, self._tested + self.ping_every)
        return end

    def check(self, now: float, buffered: int) -> Beat:
        """Decide; `buffered` is what the socket has not taken yet, behind which a ping would
        only wait.
        """
        silent = now - self.heard
        if now >= self.deadline:
            return Beat.DEAD
        if self._tested is not None and self.heard >= self._tested:
            self._tested = None
        if buffered >= SOCKET_BUFFER:
            return Beat.NOTHING
        if silent >= self.ping_every:
            if now - self._pinged >= self.ping_every:
                self._pinged = now
                return Beat.PING
        elif now - self.spoke >= self.ping_every and self.heard > self.spoke:
            return Beat.PONG
        return Beat.NOTHING


class Watched(Protocol):
    """A lane the timer asks about."""

    liveness: Liveness

    def beat(self, now: float) -> None:
        """Check the lane and act."""

    def woken(self, now: float) -> None:
        """The machine was suspended: put the lane to the test."""


_SLEPT = 1.0
"""So many seconds between the two clocks are no inaccuracy."""


def machine_slept() -> float:
    """Return how long this machine has been suspended since it was started."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)


class Heart:
    """One timer for all lanes of a process (`decisions.md` 17); it stands still while there are
    none.
    """

    def __init__(self, clock: IReactorTime, slept: Callable[[], float] = machine_slept) -> None:
        self._clock = clock
        self._slept = slept
        self._known_sleep = 0.0
        self._lanes: set[Watched] = set()
        self._timer: IDelayedCall | None = None
        self._due = 0.0

    def add(self, lane: Watched) -> None:
        """Watch a lane until `remove`."""
        self._lanes.add(lane)
        if self._timer is None:
            self._known_sleep = self._slept()
            self._sleep()

    def remove(self, lane: Watched) -> None:
        """Watch it no longer."""
        self._lanes.discard(lane)
        if not self._lanes and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _sleep(self) -> None:
        """Wake at the next beat, or before it for a lane that may be dead by then: at its very
        deadline.
        """
        pace = min(lane.liveness.ping_every for lane in self._lanes) / 5
        now = self._clock.seconds()
        self._due = now + pace
        for lane in self._lanes:
            # A deadline that is past was let pass, for what is still unread (see `_wake`).
            if now < lane.liveness.deadline < self._due:
                self._due = lane.liveness.deadline
        self._timer = self._clock.callLater(self._due - now, self._wake, pace)

    def _wake(self, pace: float) -> None:
        self._timer = None
        now = self._clock.seconds()
        slept = self._slept()
        if slept - self._known_sleep >= _SLEPT:
            for lane in list(self._lanes):
                lane.woken(now)
        self._known_sleep = slept
        # After a stall (a stopped process, a blocked loop) timers run before sockets are read: what
        # the peers sent meanwhile must be seen before they are judged.
        if now - self._due < pace:
            for lane in list(self._lanes):
                lane.beat(now)
        if self._lanes and self._timer is None:
            self._sleep()


_hearts: WeakValueDictionary[int, Heart] = WeakValueDictionary()


def heart_of(clock: IReactorTime, slept: Callable[[], float] = machine_slept) -> Heart:
    """Return the one timer that all lanes on this clock share; its users keep it alive."""
    heart = _hearts.get(id(clock))
    if heart is None:
        heart = _hearts[id(clock)] = Heart(clock, slept)
    return heart
