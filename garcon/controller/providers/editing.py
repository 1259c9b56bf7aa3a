"""The rules for making and changing a profile, as values (control.md B.3).  Pure: requests and
profiles in, profiles out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import UNSET, UnsetType, structs

from garcon.contract.catalogs import Protocol
from garcon.contract.ids import is_executor_id
from garcon.contract.providers import (
    Capabilities,
    CapabilitiesInput,
    EndpointInput,
    EndpointModel,
    ModelInput,
    ProfileInput,
)
from garcon.controller.providers.addresses import base_url
from garcon.controller.providers.profiles import (
    Profile,
    StoredEndpoint,
    discovery_kind,
    is_id,
    key_label,
    with_default,
)
from garcon.controller.providers.templates import (
    ANTHROPIC,
    OPENAI,
    TEMPLATE_IDS,
    TEMPLATES,
    Template,
)
from garcon.errors import GarconError, validation

EXECUTORS = 1_024
"""How many executors one request may name."""
_UNFIT = re.compile(r"[^a-z0-9]+")
_KEY = re.compile(r"[!-~]+")
_SUFFIXES: dict[Protocol, str] = {ANTHROPIC: "_anthropic", OPENAI: "_openai"}


def created(request: ProfileInput, suffix: str, at: str, taken: Iterable[str]) -> Profile:
    """Return a new profile with its one endpoint.  `suffix` is six random hexadecimal digits, `at`
    the time as the contract spells it, `taken` the profile ids there are.
    """
    asked = request.endpoint
    if asked is None:
        raise validation("endpoint is required")
    protocol = protocol_of(asked.protocol)
    template = _template(request.template_id, protocol)
    label = _label(request.label if request.label is not UNSET else "")
    profile_id = new_id(label, protocol, suffix)
    if profile_id in set(taken):
        raise GarconError(
            "INTERNAL_ERROR",
            "The new profile's id is taken; try again.",
            status=500,
            retryable=True,
        )
    address, default = asked.base_url, asked.default_model
    models, images = asked.models, asked.supports_images
    preset: list[EndpointModel] = []
    if template is not None:
        address = template.base_url if address is UNSET else address
        default = template.default_model if default is UNSET else default
        preset = list(template.models)
        images = template.supports_images if images is UNSET else images
    chosen = _default_model("" if default is UNSET else default)
    key = "" if asked.clear_api_key else key_of(asked.api_key)
    endpoint = StoredEndpoint(
        id=profile_id + _SUFFIXES[protocol],
        protocol=protocol,
        base_url=base_url("" if address is UNSET else address),
        api_key=key,
        api_key_label=key_label(key),
        capabilities=_new_capabilities(protocol, asked.capabilities, template),
        default_model=chosen,
        models=with_default(preset if models is UNSET else models_of(models), chosen),
        supports_images=images is True,
        model_discovery=template.discovery
        if template is not None and asked.model_discovery is None
        else discovery_kind(asked.model_discovery, protocol),
    )
    return Profile(
        id=profile_id,
        label=label,
        template_id=UNSET if request.template_id is None else request.template_id,
        revision=1,
        created_at=at,
        updated_at=at,
        endpoints=[endpoint],
    )


def changed(profile: Profile, request: ProfileInput, at: str) -> Profile:
    """Return a changed profile, of the next revision; the same one when nothing is different.

    Raises ``API_PROVIDER_CONFIGURATION_CHANGED`` (409) for a stale revision.
    """
    must_be_revision(profile, request.revision)
    asked = request.endpoint or EndpointInput()
    index = _index(profile, asked.id)
    before = profile.endpoints[index]
    if request.template_id is not None:
        _template(request.template_id, before.protocol)
    endpoints = list(profile.endpoints)
    endpoints[index] = _changed_endpoint(before, asked)
    after = structs.replace(
        profile,
        label=profile.label if request.label is UNSET else _label(request.label),
        template_id=profile.template_id if request.template_id is None else request.template_id,
        endpoints=endpoints,
    )
    if after == profile:
        return profile
    return structs.replace(after, revision=profile.revision + 1, updated_at=at)


def _changed_endpoint(before: StoredEndpoint, asked: EndpointInput) -> StoredEndpoint:
    if asked.protocol is None:
        if asked.capabilities is not None or asked.model_discovery is not None:
            raise validation("endpoint.protocol is required with what depends on it")
    elif protocol_of(asked.protocol) != before.protocol:
        raise validation("the protocol of an endpoint cannot be changed; create another profile")
    more: dict[str, Any] = {}
    if asked.base_url is not UNSET:
        more["base_url"] = base_url(asked.base_url)
    if asked.clear_api_key:
        more["api_key"] = more["api_key_label"] = ""
    elif key := key_of(asked.api_key):
        more["api_key"], more["api_key_label"] = key, key_label(key)
    if asked.capabilities is not None and before.protocol == OPENAI:
        known = Capabilities() if before.capabilities is UNSET else before.capabilities
        more["capabilities"] = _capabilities(asked.capabilities, known)
    if asked.supports_images is not UNSET:
        more["supports_images"] = asked.supports_images
    if asked.model_discovery is not None:
        more["model_discovery"] = discovery_kind(asked.model_discovery, before.protocol)
    default = before.default_model
    if asked.default_model is not UNSET:
        default = more["default_model"] = _default_model(asked.default_model)
    models = before.models if asked.models is UNSET else models_of(asked.models)
    return structs.replace(before, models=with_default(models, default), **more)


def executors_of(request: Sequence[str]) -> list[str]:
    """Check a list of executor ids: well formed, each once, no more than `EXECUTORS`."""
    if len(request) > EXECUTORS:
        raise validation(f"executorIds names more than {EXECUTORS} executors")
    if not all(is_executor_id(one) for one in request):
        raise validation("executorIds holds what is no executor id")
    if len(set(request)) != len(request):
        raise validation("executorIds names an executor twice")
    return list(request)


def protocol_of(text: str | None) -> Protocol:
    """Return a protocol by its name."""
    if text == ANTHROPIC:
        return ANTHROPIC
    if text == OPENAI:
        return OPENAI
    raise validation(f"endpoint.protocol must be {ANTHROPIC} or {OPENAI}")


def key_of(text: str | None) -> str:
    """Return a typed key, empty when none was typed."""
    key = (text or "").strip()
    if key and _KEY.fullmatch(key) is None:
        # It would be sent in a header.
        raise validation("endpoint.apiKey may hold only visible ASCII characters")
    return key


def models_of(rows: Iterable[ModelInput]) -> list[EndpointModel]:
    """Return the rows that have both a value and a label, each value once."""
    found: dict[str, EndpointModel] = {}
    for row in rows:
        value, label = row.value.strip(), row.label.strip()
        if value and label:
            images = UNSET if row.supports_images is None else row.supports_images
            local = UNSET if row.is_local is None else row.is_local
            found.setdefault(value, EndpointModel(value, label, images, local))
    return list(found.values())


def must_be_revision(profile: Profile, revision: int | None) -> None:
    """Refuse a change of another revision than the stored one."""
    if revision is None:
        return
    if revision < 1:
        raise validation("revision must be 1 or more")
    if revision != profile.revision:
        raise GarconError(
            "API_PROVIDER_CONFIGURATION_CHANGED",
            "The profile was changed meanwhile; read it again.",
            status=409,
        )


def new_id(label: str, protocol: Protocol, suffix: str) -> str:
    """Return the id of a profile with that label (control.md B.3).

    An id must leave room for what its endpoint's id adds.
    """
    named = f"{_UNFIT.sub('_', label.lower()).strip('_')}_{suffix}"
    return named if is_id(named + _SUFFIXES[protocol]) and is_id(named) else f"custom_{suffix}"


def _label(text: str) -> str:
    label = text.strip()
    if not label:
        raise validation("label is required")
    return label


def _default_model(text: str) -> str:
    default = text.strip()
    if not default:
        raise validation("endpoint.defaultModel is required")
    return default


def _template(template_id: str | None, protocol: Protocol) -> Template | None:
    if template_id is None:
        return None
    if template_id not in TEMPLATE_IDS:
        raise validation("templateId is unknown")
    template = TEMPLATES.get((template_id, protocol))
    if template is None:
        raise validation(f"the template {template_id} does not offer {protocol}")
    return template


def _new_capabilities(
    protocol: Protocol, asked: CapabilitiesInput | None, template: Template | None
) -> Capabilities | UnsetType:
    if protocol != OPENAI:
        return UNSET
    if asked is not None:
        return _capabilities(asked, Capabilities())
    preset = None if template is None else template.capabilities
    return Capabilities() if preset is None else preset


def _capabilities(asked: CapabilitiesInput, known: Capabilities) -> Capabilities:
    chat, responses = asked.chat_completions, asked.responses
    found = Capabilities(
        known.chat_completions if chat is UNSET else chat,
        known.responses if responses is UNSET else responses,
    )
    if not found.chat_completions and not found.responses:
        raise validation("an endpoint needs at least one of its capabilities")
    return found


def _index(profile: Profile, endpoint_id: str | None) -> int:
    if endpoint_id is None:
        return 0
    for index, endpoint in enumerate(profile.endpoints):
        if endpoint.id == endpoint_id:
            return index
    raise validation("the profile has no such endpoint")
