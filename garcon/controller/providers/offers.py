"""What assigned profiles add to the agents of an executor (control.md A.2-A.4)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from attrs import define
from msgspec import UNSET, structs

from garcon.contract.agents import Catalog
from garcon.contract.catalogs import AgentEntry, Model
from garcon.contract.providers import Capabilities
from garcon.controller.providers.former import secrets_of_profiles
from garcon.controller.providers.kept import StorageUnavailable
from garcon.controller.providers.profiles import Profile, StoredEndpoint, shown
from garcon.controller.providers.store import ProviderStore
from garcon.controller.providers.templates import OPENAI
from garcon.runtime.agents.scrubbing import Secrets

_NEEDS_CHAT = frozenset({"direct-openai-compatible"})
_NEEDS_RESPONSES = frozenset({"direct-openai-responses-compatible", "codex"})
"""Which of OpenAI's interfaces an agent speaks; of the others we know nothing."""


@define(eq=False)
class Offers:
    """The profiles of a controller, as its executors' catalogs show them."""

    _store: ProviderStore

    async def catalog(self, executor_id: str, entries: Iterable[AgentEntry]) -> Catalog:
        """Return an executor's catalog.  Where the assignments cannot be read it has no profiles,
        and is a catalog all the same.
        """
        try:
            profiles = await self._store.assigned(executor_id)
        except StorageUnavailable:
            profiles = ()
        return Catalog(
            [extended(entry, profiles) for entry in entries], [shown(one) for one in profiles]
        )

    async def entry(self, executor_id: str, entry: AgentEntry) -> AgentEntry:
        """Return an agent's entry as its catalog shows it.

        An agent that has no other models fails with `StorageUnavailable` while it cannot be said
        which ones it may use.
        """
        if not entry.accepts_api_provider_endpoints:
            return entry
        try:
            profiles = await self._store.assigned(executor_id)
        except StorageUnavailable:
            if not entry.models:
                raise
            profiles = ()
        return extended(entry, profiles)

    async def secrets(self) -> Secrets:
        """Return what is secret of all profiles, and what was so until it was replaced or removed,
        as far as that is known (`former.py`); fails with `StorageUnavailable`.
        """
        profiles = (await self._store.profiles()).values()
        return Secrets([*secrets_of_profiles(profiles), *self._store.former])


def extended(entry: AgentEntry, profiles: Sequence[Profile]) -> AgentEntry:
    """Add the models of the endpoints that an agent can use to its own."""
    models: dict[str, Model] = {}
    added = _models(entry, profiles) if entry.accepts_api_provider_endpoints else ()
    for model in chain(entry.models, added):
        if model.value:
            models.setdefault(model.value, model)
    default = entry.default_model or next(iter(models), "")
    return structs.replace(entry, models=list(models.values()), default_model=default)


def suits(entry: AgentEntry, endpoint: StoredEndpoint) -> bool:
    """Whether an agent can use an endpoint: its protocol, and of OpenAI's interfaces the right
    one.
    """
    if endpoint.protocol not in entry.supported_protocols:
        return False
    if endpoint.protocol != OPENAI:
        return True
    has = Capabilities() if endpoint.capabilities is UNSET else endpoint.capabilities
    if entry.id in _NEEDS_CHAT:
        return has.chat_completions
    return has.responses if entry.id in _NEEDS_RESPONSES else True


def _models(entry: AgentEntry, profiles: Sequence[Profile]) -> Iterator[Model]:
    for profile in profiles:
        for endpoint in profile.endpoints:
            if not suits(entry, endpoint):
                continue
            for one in endpoint.models:
                images = one.supports_images
                if images is UNSET:
                    images = endpoint.supports_images
                yield Model(
                    value=f"{endpoint.id}:{one.value}",
                    label=one.label,
                    supports_images=images and entry.supports_images,
                    is_local=one.is_local,
                    api_provider_id=profile.id,
                    endpoint_id=endpoint.id,
                    raw_model=one.value,
                    protocol=endpoint.protocol,
                )
