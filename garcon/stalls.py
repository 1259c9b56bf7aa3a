"""When the event loop stands still, and what ran meanwhile (control.md J.3).

Everything that happens in a process happens in one turn of the reactor after the other, so one slow
step delays every lane, request and key press.  A step is one delayed call, or one socket's reading
or writing.  Steps of 50 ms are logged, and turns of 250 ms with the longest of their steps; each at
most once a second, with the number of those that were not.

`Turns` decides from times handed in.  `watch` puts it around a reactor's own steps: Twisted has no
hook for them, so three of a reactor's methods are wrapped, which costs a step less than a
microsecond.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from attrs import define, field, frozen
from twisted.logger import Logger

LONG_STEP = 0.05
LONG_TURN = 0.25
_NAMED = 3
_EVERY = 1.0

_log = Logger()


@frozen
class LongStep:
    """One step took long.  `more` others have not been told of."""

    what: str
    seconds: float
    more: int


@frozen
class LongTurn:
    """One turn took long; `steps` are its longest, the longest first."""

    seconds: float
    steps: tuple[tuple[str, float], ...]
    more: int

    @property
    def what(self) -> str:
        """Its steps in words."""
        named = [f"{what} {seconds * 1e3:.0f} ms" for what, seconds in self.steps]
        return ", ".join(named) or "many short steps"


@define
class _Pace:
    """Lets one thing through in each second and counts the others."""

    told: float | None = None
    untold: int = 0

    def lets(self, now: float) -> bool:
        if self.told is not None and now - self.told < _EVERY:
            self.untold += 1
            return False
        self.told = now
        return True

    def taken(self) -> int:
        """Return how many were held back since the last one, and forget them."""
        untold, self.untold = self.untold, 0
        return untold


@define
class Stalls:
    """How many steps and turns were long since the process began."""

    steps: int = 0
    turns: int = 0


SEEN = Stalls()
"""Those of this process's own reactor."""


@define(eq=False)
class Turns:
    """Adds up the steps of a turn, and counts the long ones in `seen`."""

    seen: Stalls = field(factory=Stalls)
    _busy: float = 0.0
    _steps: list[tuple[str, float]] = field(factory=list)
    _step_pace: _Pace = field(factory=_Pace)
    _turn_pace: _Pace = field(factory=_Pace)

    def stepped(
        self, seconds: float, name: Callable[[], str], now: Callable[[], float]
    ) -> LongStep | None:
        """A step has ended; return what to log of it.  The rest is asked only if it was long."""
        self._busy += seconds
        if seconds < LONG_STEP:
            return None
        self.seen.steps += 1
        what = name()
        self._steps.append((what, seconds))
        if not self._step_pace.lets(now()):
            return None
        return LongStep(what, seconds, self._step_pace.taken())

    def turned(self, now: float) -> LongTurn | None:
        """A turn has ended and the next begins; return what to log of it."""
        busy, steps = self._busy, self._steps
        self._busy = 0.0
        if steps:
            self._steps = []
        if busy < LONG_TURN:
            return None
        self.seen.turns += 1
        if not self._turn_pace.lets(now):
            return None
        steps.sort(key=lambda step: -step[1])
        return LongTurn(busy, tuple(steps[:_NAMED]), self._turn_pace.taken())


def name_of(called: Any) -> str:
    """Return what a delayed call would run, without its arguments: they may be private."""
    while isinstance(called, partial):
        called = called.func
    name = getattr(called, "__qualname__", type(called).__qualname__)
    owner = getattr(called, "__self__", None)
    module = getattr(called, "__module__", None) or type(owner or called).__module__
    return f"{module}.{name}"


def name_of_socket(selectable: Any) -> str:
    """Return which protocol's socket was read or written, without its address."""
    protocol = getattr(selectable, "protocol", None)
    for wrapping in ("_wrappedProtocol", "wrappedProtocol", "_inner"):
        protocol = getattr(protocol, wrapping, None) or protocol
    kind = type(selectable if protocol is None else protocol)
    return f"a socket of {kind.__module__}.{kind.__qualname__}"


class Watch:
    """Times a reactor's steps from now on and tells `say` of the long ones."""

    def __init__(
        self,
        reactor: Any,
        say: Callable[[LongStep | LongTurn], None],
        seen: Stalls | None = None,
    ) -> None:
        self._seconds = reactor.seconds
        self._say = say
        self._turns = Turns(Stalls() if seen is None else seen)
        self._called = 0.0
        """How much of the present round of calls has been put down to single ones."""
        self._run_until_current = reactor.runUntilCurrent
        self._serve = reactor._doReadOrWrite
        self._call_later = reactor.callLater
        reactor.runUntilCurrent = self.run_until_current
        reactor._doReadOrWrite = self.serve
        reactor.callLater = self.call_later

    def call_later(self, delay: float, called: Any, *arguments: Any, **more: Any) -> Any:
        """See `IReactorTime`."""
        return self._call_later(delay, _Timed(self, called), *arguments, **more)

    def run_until_current(self) -> None:
        """Begin a turn: run the calls that are due and those that threads have handed over."""
        began = self._seconds()
        self._tell(self._turns.turned(began))
        self._called = 0.0
        try:
            self._run_until_current()
        finally:
            rest = self._seconds() - began - self._called
            self._ended(rest, lambda: "calls handed over by threads")

    def serve(self, selectable: Any, *what: Any) -> None:
        """Let one socket read or write."""
        began = self._seconds()
        try:
            self._serve(selectable, *what)
        finally:
            self._ended(self._seconds() - began, lambda: name_of_socket(selectable))

    def called(self, began: float, called: Any) -> None:
        """One delayed call has ended."""
        taken = self._seconds() - began
        self._called += taken
        self._ended(taken, lambda: name_of(called))

    def _ended(self, taken: float, name: Callable[[], str]) -> None:
        self._tell(self._turns.stepped(taken, name, self._seconds))

    def _tell(self, long: LongStep | LongTurn | None) -> None:
        if long is not None:
            self._say(long)


class _Timed:
    """What a delayed call runs in place of what was asked for."""

    __slots__ = ("called", "watch")

    def __init__(self, watch: Watch, called: Any) -> None:
        self.watch = watch
        self.called = called

    def __call__(self, *arguments: Any, **more: Any) -> None:
        began = self.watch._seconds()
        try:
            self.called(*arguments, **more)
        finally:
            self.watch.called(began, self.called)

    def __repr__(self) -> str:
        return name_of(self.called)


def watch(reactor: Any) -> None:
    """Log the long steps and turns of a reactor from now on, if it is one whose steps are known."""
    if hasattr(reactor, "runUntilCurrent") and hasattr(reactor, "_doReadOrWrite"):
        Watch(reactor, _say, SEEN)


def _say(long: LongStep | LongTurn) -> None:
    more = f" ({long.more} more since the last such line)" if long.more else ""
    milliseconds = round(long.seconds * 1e3)
    if isinstance(long, LongTurn):
        _log.warn(
            "the event loop stood still for {milliseconds} ms: {what}{more}",
            milliseconds=milliseconds,
            what=long.what,
            more=more,
        )
    else:
        _log.warn(
            "one step took {milliseconds} ms: {what}{more}",
            milliseconds=milliseconds,
            what=long.what,
            more=more,
        )
