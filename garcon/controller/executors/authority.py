"""What a worker's OS account may ask of this controller now, as leases that never come back (E.7).

A lease belongs to one executor and one link generation.  Whatever changes the grant, the session,
the executor or the controller's own life ends it for good; a later grant makes another lease, so a
result that was waited for under the old one can never be published.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from attrs import define, field

from garcon.contract.bridge import access_denied, management_denied, unavailable
from garcon.controller.principals import Principal
from garcon.errors import CallError


class Ending(Enum):
    """Why a lease ended: what a read that waited under it is told."""

    REVOKED = "revoked"
    SESSION_LOST = "session-lost"
    STOPPING = "stopping"

    def error(self) -> CallError:
        """Return the bridge error this ending is."""
        if self is Ending.REVOKED:
            return access_denied("Command access was changed for this executor meanwhile.")
        if self is Ending.STOPPING:
            return unavailable("The controller is stopping.")
        return unavailable("The executor's link was replaced or lost meanwhile.")


def require_management(principal: Principal, may_manage: Callable[[str | None], bool]) -> None:
    """Check a worker's second grant where it is used: it may have ended while its command waited.

    `may_manage` says whether an executor's commands may manage executors now.
    """
    if principal.kind == "executor" and not may_manage(principal.executor_id):
        raise management_denied()


@define(eq=False)
class Lease:
    """The right of one executor's worker, over one link generation, to use the controller."""

    executor_id: str
    generation: str
    management: bool
    ended: Ending | None = None
    _watchers: set[Callable[[Ending], None]] = field(factory=set)

    def watch(self, ended: Callable[[Ending], None]) -> None:
        """Have `ended` called, once, when the lease ends: at once if it has."""
        if self.ended is not None:
            ended(self.ended)
        else:
            self._watchers.add(ended)

    def unwatch(self, ended: Callable[[Ending], None]) -> None:
        """Forget a watcher."""
        self._watchers.discard(ended)

    def require(self) -> None:
        """Raise the ending's error unless the lease still holds."""
        if self.ended is not None:
            raise self.ended.error()

    def end(self, ending: Ending) -> None:
        """End it for good and tell those who wait under it."""
        if self.ended is not None:
            return
        self.ended = ending
        watchers, self._watchers = self._watchers, set()
        for watcher in watchers:
            watcher(ending)


@define(eq=False)
class Authority:
    """The present lease of one executor, if it has one."""

    executor_id: str
    _lease: Lease | None = None

    def lease(self, generation: str, management: bool) -> Lease:
        """Return the lease of a generation, made now if there is none."""
        if self._lease is None or self._lease.generation != generation:
            self.end(Ending.SESSION_LOST)
            self._lease = Lease(self.executor_id, generation, management)
        return self._lease

    def end(self, ending: Ending) -> None:
        """End the present lease, if any."""
        lease, self._lease = self._lease, None
        if lease is not None:
            lease.end(ending)
