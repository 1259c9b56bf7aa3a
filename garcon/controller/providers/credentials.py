"""Endpoints with their keys, for those who may use them: this machine's agents, and workers over
their links (security.txt, control.md B.4).

A worker is who its link has proven, whatever it says.  Right before an answer is queued it is
checked once more that this worker may still have it.
"""

from __future__ import annotations

from typing import Protocol

from attrs import define
from twisted.internet.defer import Deferred
from zope.interface import implementer

from garcon.contract import rpc
from garcon.contract.ids import LOCAL
from garcon.contract.providers import ResolveCredential, ResolvedEndpoint
from garcon.controller.providers.store import ProviderStore
from garcon.deferreds import returns_deferred
from garcon.link.interfaces import CallContext, Guarded, Handler
from garcon.runtime.interfaces import ICredentials


class Links(Protocol):
    """Which link generations are the present ones (`Executors`)."""

    def require_current(self, executor_id: str, generation: str) -> None:
        """Raise unless this is the executor's present link, and the executor is enabled."""


@implementer(ICredentials)
@define(eq=False)
class LocalCredentials:
    """What agents of the controller's own machine may use."""

    _store: ProviderStore

    def resolve(self, profile_id: str, endpoint_id: str) -> Deferred[ResolvedEndpoint]:
        """See `ICredentials`."""
        return self._store.resolve(LOCAL, profile_id, endpoint_id)


@define(eq=False)
class CredentialService:
    """Serves ``credentials.resolve`` to workers."""

    _store: ProviderStore
    _links: Links

    def reverse_handlers(self) -> dict[str, Handler]:
        """Return what a link serves of this, by method name."""
        return {rpc.RESOLVE_CREDENTIAL.name: self.resolve}

    @returns_deferred
    async def resolve(self, request: ResolveCredential, context: CallContext) -> Guarded:
        """Give a worker one endpoint that is assigned to it."""
        executor_id = context.peer.executor_id
        asked = executor_id, request.profile_id, request.endpoint_id
        self._links.require_current(executor_id, context.generation)
        found = await self._store.resolve(*asked)

        def guard(size: int) -> ResolvedEndpoint:
            self._links.require_current(executor_id, context.generation)
            return self._store.resolve_now(*asked)

        return Guarded(found, guard)
