"""One run on this executor: its events on their way to whoever launched it, and the rules they
keep.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from attrs import define, field
from msgspec import structs
from twisted.internet.defer import Deferred, DeferredLock, succeed
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from zope.interface import implementer

from garcon.contract.runs import (
    Launch,
    PermissionRequested,
    PermissionWithdrawn,
    RunEnded,
    RunEvent,
    RunFailure,
)
from garcon.deferreds import Waiters
from garcon.runtime.interfaces import IRunSink
from garcon.runtime.session_limits import too_long

_REASONS: dict[str, Literal["cancelled", "session-complete", "aborted"]] = {
    "finished": "session-complete",
    "failed": "cancelled",
    "interrupted": "aborted",
}


@implementer(IRunSink)
@define(eq=False)
class Run:
    """Keeps one run's events in order: none before `release`, `RunEnded` once and last, live
    permissions withdrawn first.

    Owned by the runtime that launched it.
    """

    launch: Launch
    _sink: IRunSink
    starting: Deferred[None] | None = None
    """The launch, while it can still be cancelled."""
    stopped: bool = False
    """Somebody asked for its end."""
    has_ended: bool = False
    steering: DeferredLock = field(factory=DeferredLock)
    """Held by the steer that the agent is taking; others wait in order."""
    forgotten: Waiters[None] = field(factory=Waiters)
    """Fires when nothing of it is left, and its chat may have another run."""
    _failure: RunFailure | None = None
    """What it ends with, if it has passed a limit."""
    _timer: IDelayedCall | None = None
    _is_start_cancelled: bool = False
    _released: bool = False
    _held: list[RunEvent] = field(factory=list)
    _asking: dict[str, None] = field(factory=dict)
    _ended: Waiters[None] = field(factory=Waiters)

    @property
    def is_given_up(self) -> bool:
        """Whether it is only to end: the next run of its chat may wait for that."""
        return self.stopped or self._is_start_cancelled

    def cancel_start(self) -> None:
        """Give the launch up, once: what it takes to end it must not be given up as well."""
        if self.starting is not None and not self._is_start_cancelled:
            self._is_start_cancelled = True
            self.starting.cancel()

    def limit(self, clock: IReactorTime, seconds: float, stop: Callable[[], object]) -> None:
        """Have it stopped after that time from now."""

        def overdue() -> None:
            self._failure = too_long(seconds)
            stop()

        if not self.has_ended:
            self._timer = clock.callLater(seconds, overdue)

    def event(self, event: RunEvent) -> None:
        """Take the agent's next fact; after the end of the run there is none."""
        if self.has_ended:
            return
        if isinstance(event, RunEnded):
            self.has_ended = True
            if self._timer is not None and self._timer.active():
                self._timer.cancel()
            if self._failure is not None:
                event = structs.replace(event, outcome="failed", error=self._failure)
            reason = _REASONS[event.outcome]
            for occurrence in self._asking:
                self._pass_on(
                    PermissionWithdrawn(permission_occurrence_id=occurrence, reason=reason)
                )
            self._asking.clear()
        elif isinstance(event, PermissionRequested):
            self._asking[event.permission_occurrence_id] = None
        elif isinstance(event, PermissionWithdrawn):
            if event.permission_occurrence_id not in self._asking:
                return
            del self._asking[event.permission_occurrence_id]
        self._pass_on(event)
        if self.has_ended and self._released:
            self._ended.fire(None)

    def decided(self, occurrence_id: str) -> None:
        """A request was answered: its end is the decision, not a withdrawal."""
        self._asking.pop(occurrence_id, None)

    def release(self) -> None:
        """The launch has been answered: let the events go."""
        self._released = True
        held, self._held = self._held, []
        for event in held:
            self._sink.event(event)
        if self.has_ended:
            self._ended.fire(None)

    def room(self) -> Deferred[None]:
        """Ask the sink; what comes before `release` is held here."""
        if not self._released or self.has_ended:
            return succeed(None)
        room: Deferred[None] = self._sink.room()
        return room

    def when_ended(self) -> Deferred[None]:
        """Fire once `RunEnded` has been passed on; at once if it has."""
        if self.has_ended and self._released:
            d: Deferred[None] = Deferred()
            d.callback(None)
            return d
        return self._ended.wait()

    def _pass_on(self, event: RunEvent) -> None:
        if self._released:
            self._sink.event(event)
        else:
            self._held.append(event)
