"""Endpoints with their keys for a worker's agents: the controller is asked each time, and nothing
is kept here (security.txt).
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from zope.interface import implementer

from garcon.contract import rpc
from garcon.contract.limits import INTERACTIVE_WAIT
from garcon.contract.providers import ResolveCredential, ResolvedEndpoint
from garcon.deferreds import returns_deferred
from garcon.errors import CallError
from garcon.link.calls import EXECUTOR_BUSY
from garcon.link.interfaces import ICapturedLink
from garcon.runtime.interfaces import ICredentials

AGAIN = 0.25
"""Seconds between two looks for a session that takes the question."""
_LINK = frozenset({EXECUTOR_BUSY, "EXECUTOR_UNAVAILABLE", "EXECUTOR_TIMEOUT"})
"""Failures of the link; asking again does no harm."""


@implementer(ICredentials)
class LinkCredentials:
    """Asks over whichever session there is; for one that is lost or not there yet it waits up to 20
    seconds.  `current` is set by the composition.
    """

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self.current: Callable[[], ICapturedLink | None] = lambda: None

    @returns_deferred
    async def resolve(self, profile_id: str, endpoint_id: str) -> ResolvedEndpoint:
        """See `ICredentials`."""
        request = ResolveCredential(profile_id, endpoint_id)
        expires = self._clock.seconds() + INTERACTIVE_WAIT
        while True:
            left = expires - self._clock.seconds()
            try:
                return await self._ask(request, left)
            except CallError as error:
                if error.code not in _LINK or left <= AGAIN:
                    raise
            pause: Deferred[None] = deferLater(self._clock, AGAIN, lambda: None)
            await pause

    async def _ask(self, request: ResolveCredential, seconds: float) -> ResolvedEndpoint:
        captured = self.current()
        if captured is None:
            raise CallError(
                "EXECUTOR_UNAVAILABLE",
                "The controller cannot be asked for the API provider: it is not connected.",
                outcome="not-dispatched",
                status=503,
                retryable=True,
            )
        resolved: ResolvedEndpoint = await captured.call(
            rpc.RESOLVE_CREDENTIAL, request, deadline=max(seconds, AGAIN)
        )
        return resolved
