"""Profiles as they are kept, keys included, and as they are shown, keys left out (control.md B.4,
B.8).  Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, get_args

import msgspec
from msgspec import UNSET, Struct, UnsetType, field, structs

from garcon.contract.catalogs import Protocol
from garcon.contract.providers import (
    Capabilities,
    DiscoveryKind,
    Endpoint,
    EndpointModel,
    Provider,
    ResolvedEndpoint,
)
from garcon.controller.providers.addresses import base_url
from garcon.controller.providers.templates import OPENAI, TEMPLATE_IDS, headers_of
from garcon.errors import GarconError

VERSION = 1
DISCOVERY_KINDS: tuple[str, ...] = get_args(DiscoveryKind)
_ID = re.compile(r"[a-z][a-z0-9_-]{1,63}")
_EPOCH = "1970-01-01T00:00:00.000Z"
_UNSAID = {"revision": 1, "createdAt": _EPOCH, "updatedAt": _EPOCH}
"""What a row is read with that an older program wrote without it: with its key it would be lost
otherwise, at the next write.
"""


class StoredEndpoint(Struct, frozen=True, rename="camel", kw_only=True):
    """One endpoint with its key.  Never shows itself."""

    id: str
    protocol: Protocol
    base_url: str
    api_key: str = ""
    api_key_label: str = ""
    headers: dict[str, str] | UnsetType = UNSET
    capabilities: Capabilities | UnsetType = UNSET
    default_model: str
    models: list[EndpointModel] = field(default_factory=list)
    supports_images: bool = False
    model_discovery: DiscoveryKind = "none"

    def __repr__(self) -> str:
        return f"<StoredEndpoint {self.id}>"


class Profile(Struct, frozen=True, rename="camel", kw_only=True):
    """One profile with its keys.  Never shows itself."""

    id: str
    label: str
    template_id: str | UnsetType = UNSET
    revision: int
    created_at: str
    updated_at: str
    endpoints: list[StoredEndpoint]

    def __repr__(self) -> str:
        return f"<Profile {self.id}>"

    def endpoint(self, endpoint_id: str) -> StoredEndpoint | None:
        """Return one of its endpoints."""
        return next((one for one in self.endpoints if one.id == endpoint_id), None)


class _File(Struct, frozen=True, rename="camel"):
    version: int
    api_providers: list[Profile]


def is_id(text: str) -> bool:
    """Whether this can name a profile, an endpoint or an agent (control.md 0)."""
    return _ID.fullmatch(text) is not None


def key_label(key: str) -> str:
    """Return what may be shown of a key (control.md B.4)."""
    if not key:
        return ""
    return "****" if len(key) <= 8 else f"{key[:4]}...{key[-4:]}"


def shown(profile: Profile) -> Provider:
    """Return a profile as anyone may see it."""
    return Provider(
        id=profile.id,
        label=profile.label,
        template_id=profile.template_id,
        revision=profile.revision,
        created_at=profile.created_at,
        updated_at=profile.updated_at,
        endpoints=[
            Endpoint(
                id=one.id,
                protocol=one.protocol,
                base_url=one.base_url,
                capabilities=one.capabilities,
                default_model=one.default_model,
                models=one.models,
                supports_images=one.supports_images,
                has_api_key=bool(one.api_key),
                api_key_label=key_label(one.api_key),
                model_discovery=one.model_discovery,
            )
            for one in profile.endpoints
        ],
    )


def headers_for(profile: Profile, endpoint: StoredEndpoint) -> dict[str, str]:
    """Return what calls to an endpoint carry beside its key."""
    template = "" if profile.template_id is UNSET else profile.template_id
    own = {} if endpoint.headers is UNSET else endpoint.headers
    return {**headers_of(template, endpoint.protocol), **own}


def without_secrets(endpoint: StoredEndpoint) -> StoredEndpoint:
    """Return an endpoint without its key and its own headers, of which one may be as secret."""
    return structs.replace(endpoint, api_key="", api_key_label="", headers=UNSET)


def resolved(profile: Profile, endpoint: StoredEndpoint) -> ResolvedEndpoint:
    """Return an endpoint as an executor that may use it gets it."""
    return ResolvedEndpoint(
        protocol=endpoint.protocol,
        base_url=endpoint.base_url,
        api_key=endpoint.api_key or None,
        headers=headers_for(profile, endpoint),
        capabilities=None if endpoint.capabilities is UNSET else endpoint.capabilities,
        revision=profile.revision,
    )


def discovery_kind(name: object, protocol: object) -> DiscoveryKind:
    """Return a kind of discovery by its name, the protocol's usual one for an unknown name."""
    if name in DISCOVERY_KINDS:
        return name  # type: ignore[return-value]  # one of them
    return "openai-models" if protocol == OPENAI else "none"


def with_default(models: list[EndpointModel], default: str) -> list[EndpointModel]:
    """Return the models of an endpoint, its default one among them (control.md B.3)."""
    if any(model.value == default for model in models):
        return models
    return [EndpointModel(value=default, label=default), *models]


# -- the file --


def encode(profiles: Mapping[str, Profile]) -> bytes:
    """Return the content of ``api-providers.json``."""
    file = _File(VERSION, list(profiles.values()))
    return msgspec.json.format(msgspec.json.encode(file), indent=2)


def decode(content: bytes) -> dict[str, Profile]:
    """Read ``api-providers.json``; a row without a valid endpoint is left out (control.md B.8).

    Raises `ValueError`, whose text shows nothing of the content, for what is no such file.
    """
    try:
        raw = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ValueError("it is not JSON") from None
    if not isinstance(raw, dict) or not isinstance(raw.get("apiProviders"), list):
        raise ValueError("it has no list apiProviders")
    version = raw.get("version")
    if version != VERSION or isinstance(version, bool):
        raise ValueError(f"its version is not {VERSION}")
    profiles: dict[str, Profile] = {}
    endpoints: set[str] = set()
    for row in raw["apiProviders"]:
        profile = _profile(row, endpoints)
        if profile is not None and profile.id not in profiles:
            profiles[profile.id] = profile
            endpoints.update(one.id for one in profile.endpoints)
    return profiles


def _profile(row: Any, taken: set[str]) -> Profile | None:
    if not isinstance(row, dict) or not isinstance(row.get("endpoints"), list):
        return None
    endpoints = list(_endpoints(row["endpoints"], taken))
    if not endpoints:
        return None
    try:
        profile = msgspec.convert({**_UNSAID, **row, "endpoints": []}, Profile)
    except msgspec.ValidationError:
        return None
    label = profile.label.strip()
    if not is_id(profile.id) or not label or profile.revision < 1:
        return None
    template = profile.template_id
    return structs.replace(
        profile,
        label=label,
        template_id=template if template in TEMPLATE_IDS else UNSET,
        endpoints=endpoints,
    )


def _endpoints(rows: list[Any], taken: set[str]) -> Iterator[StoredEndpoint]:
    seen = set(taken)
    for row in rows:
        try:
            if isinstance(row, dict) and row.get("modelDiscovery") not in DISCOVERY_KINDS:
                protocol = row.get("protocol")
                row = {**row, "modelDiscovery": discovery_kind(None, protocol)}
            one = msgspec.convert(row, StoredEndpoint)
            address = base_url(one.base_url)
        except (msgspec.ValidationError, GarconError):
            continue
        default = one.default_model.strip()
        if is_id(one.id) and one.id not in seen and default:
            seen.add(one.id)
            models = [model for model in one.models if model.value and model.label]
            yield structs.replace(
                one,
                base_url=address,
                api_key_label=key_label(one.api_key),
                capabilities=one.capabilities if one.protocol == OPENAI else UNSET,
                default_model=default,
                models=with_default(models, default),
            )
