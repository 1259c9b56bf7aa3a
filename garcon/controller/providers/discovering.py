"""Discoveries as they are asked for (control.md B.6): which executor asks which address, and
whether a stored key may go along.
"""

from __future__ import annotations

from attrs import define
from msgspec import UNSET
from twisted.internet.defer import TimeoutError
from twisted.internet.interfaces import IReactorTime

from garcon.contract import operations
from garcon.contract.catalogs import Protocol
from garcon.contract.ids import LOCAL
from garcon.contract.providers import (
    Discovered,
    DiscoverModels,
    DiscoveryKind,
    DiscoveryRequest,
    EndpointInput,
    OnExecutor,
    TestedProfile,
)
from garcon.contract.rpc import DISCOVER_MODELS
from garcon.controller.executors.interfaces import IExecutors
from garcon.controller.handlers import Call, Handlers
from garcon.controller.providers.addresses import base_url, origin_of
from garcon.controller.providers.editing import key_of, must_be_revision, protocol_of
from garcon.controller.providers.operations import executor_id, unknown_profile
from garcon.controller.providers.profiles import (
    Profile,
    StoredEndpoint,
    discovery_kind,
    headers_for,
    without_secrets,
)
from garcon.controller.providers.store import ProviderStore
from garcon.controller.providers.templates import ANTHROPIC, headers_of
from garcon.errors import GarconError, validation

_OPENROUTER = "openrouter"


@define(eq=False)
class Discoveries:
    """Handlers of the two routes that ask an endpoint for its models."""

    _store: ProviderStore
    _executors: IExecutors
    _clock: IReactorTime

    def register(self, handlers: Handlers) -> None:
        """Serve the operations."""
        handlers.register(operations.TEST_PROVIDER, self.test)
        handlers.register(operations.DISCOVER_MODELS, self.discover)

    async def discover(self, call: Call[OnExecutor, DiscoveryRequest]) -> Discovered:
        """Ask an endpoint for its models."""
        return await self._discover(call.query.executor_id, call.body)

    async def test(self, call: Call[OnExecutor, TestedProfile]) -> Discovered:
        """Ask the endpoint of a profile that is not saved yet, or not in this form.

        What is not said of it is taken from the stored one that is named.
        """
        body = call.body
        asked = body.endpoint or EndpointInput()
        protocol, address = asked.protocol, asked.base_url
        if protocol is None or address is UNSET:
            stored = await self._stored(body.api_provider_id, body.endpoint_id or asked.id, None)
            if stored is not None:
                protocol = protocol or stored[1].protocol
                address = stored[1].base_url if address is UNSET else address
        request = DiscoveryRequest(
            protocol=protocol_of(protocol),
            base_url="" if address is UNSET else address,
            api_key="" if asked.clear_api_key else asked.api_key,
            # A key that is to be erased is not tried.
            api_provider_id=None if asked.clear_api_key else body.api_provider_id,
            endpoint_id=None if asked.clear_api_key else body.endpoint_id or asked.id,
            model_discovery=asked.model_discovery,
            revision=body.revision,
        )
        return await self._discover(call.query.executor_id, request)

    async def _discover(self, where: str, request: DiscoveryRequest) -> Discovered:
        runtime = self._executors.runtime(executor_id(where))
        protocol = protocol_of(request.protocol)
        address = base_url(request.base_url)
        kind = _kind(request.model_discovery, protocol)
        headers = headers_of(_OPENROUTER, protocol) if kind == "openrouter-models" else {}
        key = key_of(request.api_key)
        stored = await self._stored(request.api_provider_id, request.endpoint_id, protocol)
        if stored is not None:
            profile, endpoint = stored
            must_be_revision(profile, request.revision)
            same = origin_of(endpoint.base_url) == origin_of(address)
            if not key and endpoint.api_key:
                await self._must_be_releasable(where, profile, same)
                key = endpoint.api_key
            if same:
                if endpoint.headers is not UNSET and not await self._may_use(where, profile):
                    endpoint = without_secrets(endpoint)
                headers |= headers_for(profile, endpoint)
        wanted = DiscoverModels(kind=kind, base_url=address, api_key=key or None, headers=headers)
        try:
            seconds = DISCOVER_MODELS.deadline or 0.0
            return await runtime.discover_models(wanted).addTimeout(seconds, self._clock)
        except TimeoutError:
            return Discovered(success=False, error="The executor did not answer in time.")

    async def _stored(
        self, profile_id: str | None, endpoint_id: str | None, protocol: Protocol | None
    ) -> tuple[Profile, StoredEndpoint] | None:
        """Return the stored endpoint that is meant: by its own id first, then by its profile's and
        the protocol.  None when none is named, or the profile has none of that protocol.
        """
        if not profile_id and not endpoint_id:
            return None
        profiles = await self._store.profiles()
        for profile in profiles.values() if endpoint_id else ():
            endpoint = profile.endpoint(endpoint_id or "")
            if endpoint is not None:
                return profile, endpoint
        named = profiles.get(profile_id or "")
        if named is None:
            raise unknown_profile()
        for endpoint in named.endpoints:
            if protocol in (None, endpoint.protocol):
                return named, endpoint
        return None

    async def _must_be_releasable(self, where: str, profile: Profile, same_origin: bool) -> None:
        """A stored key goes to its own origin only, and to no machine that may not use it."""
        if not same_origin:
            raise validation(
                "The stored key belongs to another address; type the one that is meant for this."
            )
        if not await self._may_use(where, profile):
            raise GarconError(
                "API_PROVIDER_UNAVAILABLE",
                "The stored key cannot be used on that executor: the API provider is not assigned"
                " to it.",
                status=404,
            )

    async def _may_use(self, where: str, profile: Profile) -> bool:
        """Whether a machine may have what is secret of a profile: the controller's own has it
        anyway.
        """
        return where == LOCAL or profile in await self._store.assigned(where)


def _kind(name: str | None, protocol: Protocol) -> DiscoveryKind:
    """Return how to ask: ``none`` and an unknown way become the protocol's own."""
    kind = discovery_kind(name, protocol)
    if kind != "none":
        return kind
    return "anthropic-models" if protocol == ANTHROPIC else "openai-models"
