"""One generation of a link, as its users hold it: a primary session and the bulk sessions that
follow under it.
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Struct, UnsetType
from twisted.internet.defer import Deferred, TimeoutError, fail
from twisted.internet.interfaces import IReactorTime
from zope.interface import implementer

from garcon.contract.limits import CALLS_BULK
from garcon.contract.rpc import Lane, Method
from garcon.deferreds import Waiters, returns_deferred
from garcon.errors import LaneLost
from garcon.link import calls
from garcon.link.interfaces import ICapturedLink, Peer
from garcon.link.session import LaneSession


@implementer(ICapturedLink)
class Captured:
    """See `ICapturedLink`.  The link tells it when bulk comes and goes."""

    def __init__(self, primary: LaneSession, clock: IReactorTime, bulk_wait: float) -> None:
        self.primary = primary
        self.generation: str = primary.session_id
        self.peer: Peer = primary.peer
        self._clock = clock
        self._bulk_wait = bulk_wait
        self._bulk: LaneSession | None = None
        self._waiting: Waiters[LaneSession] = Waiters()

    @property
    def is_current(self) -> bool:
        """See `ICapturedLink`."""
        return self.primary.is_open

    @property
    def bulk(self) -> LaneSession | None:
        """The bulk session that takes ordinary calls now."""
        bulk = self._bulk
        return bulk if bulk is not None and bulk.is_open else None

    def call(
        self,
        method: Method,
        request: Struct | None,
        *,
        lane: Lane | None = None,
        deadline: float | UnsetType | None = UNSET,
    ) -> Deferred[Any]:
        """See `ICapturedLink`."""
        if (method.lane or lane or Lane.PRIMARY) is Lane.PRIMARY:
            return self.primary.call(method, request, deadline)
        bulk = self.bulk
        if bulk is not None:
            return bulk.call(method, request, deadline)
        if not self.is_current:
            return fail(LaneLost("this connection has ended", outcome="not-dispatched"))
        if len(self._waiting) >= CALLS_BULK:
            return fail(calls.busy())
        seconds = method.deadline if deadline is UNSET else deadline
        return self._call_when_ready(method, request, seconds)

    @returns_deferred
    async def _call_when_ready(
        self, method: Method, request: Struct | None, seconds: float | None
    ) -> Any:
        began = self._clock.seconds()
        wait = self._bulk_wait if seconds is None else min(self._bulk_wait, seconds)
        try:
            bulk = await self._waiting.wait().addTimeout(wait, self._clock)
        except TimeoutError:
            raise LaneLost(
                "its bulk lane was not ready in time", outcome="not-dispatched"
            ) from None
        if seconds is not None:
            seconds = max(0.0, seconds - (self._clock.seconds() - began))
        return await bulk.call(method, request, seconds)

    def bulk_ready(self, session: LaneSession) -> None:
        """Calls that wait for bulk go out on this session."""
        self._bulk = session
        self._waiting.fire(session)

    def lost(self, reason: str) -> None:
        """The generation is over; what waits for its bulk was never sent."""
        self._waiting.fail(LaneLost(reason, outcome="not-dispatched"))
