"""API providers: what profiles of endpoints look like to clients, executors and agents (control.md
A.4, B).
"""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, Struct, UnsetType, field

from garcon.contract.catalogs import Protocol

DiscoveryKind = Literal[
    "none", "anthropic-models", "openai-models", "ollama-tags", "openrouter-models"
]
"""How an endpoint tells which models it has (control.md B.6)."""


class Capabilities(Struct, frozen=True, rename="camel"):
    """Which of OpenAI's interfaces an ``openai-compatible`` endpoint speaks (control.md B.3)."""

    chat_completions: bool = True
    responses: bool = False


class EndpointModel(Struct, frozen=True, rename="camel"):
    """One model that an endpoint offers; `value` is the endpoint's own name of it."""

    value: str
    label: str
    supports_images: bool | UnsetType = UNSET
    is_local: bool | UnsetType = UNSET


class Endpoint(Struct, frozen=True, rename="camel", kw_only=True):
    """One endpoint as it is shown: its key and headers stay behind (control.md A.4, B.4)."""

    id: str
    protocol: Protocol
    base_url: str
    capabilities: Capabilities | UnsetType = UNSET
    default_model: str
    models: list[EndpointModel]
    supports_images: bool
    has_api_key: bool
    api_key_label: str
    model_discovery: DiscoveryKind


class Provider(Struct, frozen=True, rename="camel", kw_only=True):
    """One profile as it is shown (control.md A.4)."""

    id: str
    label: str
    template_id: str | UnsetType = UNSET
    revision: int
    created_at: str
    updated_at: str
    endpoints: list[Endpoint]


class Assignments(Struct, frozen=True, rename="camel"):
    """Which executor may use which profiles, by executor id, in the order of assignment."""

    revision: int = 0
    assignments: dict[str, list[str]] = field(default_factory=dict)


class ManagedProviders(Struct, frozen=True, rename="camel"):
    """All profiles of the config root and the workspace's assignments (control.md B.2)."""

    providers: list[Provider]
    assignments: Assignments


class AssignmentOutcome(Struct, frozen=True, rename="camel"):
    """What became of the executors that a written profile was meant for (control.md B.5).

    The profile itself was saved, whatever is said here; `error` tells why access was not.
    """

    executor_ids: list[str]
    status: Literal["assigned", "not-assigned", "unknown"]
    error: str | UnsetType = UNSET


class WrittenProvider(Provider, frozen=True, rename="camel", kw_only=True):
    """A profile that was created or changed."""

    assignment: AssignmentOutcome | UnsetType = UNSET


class CapabilitiesInput(Struct, frozen=True, rename="camel"):
    """What is not said stays, or takes its default in a new endpoint."""

    chat_completions: bool | UnsetType = UNSET
    responses: bool | UnsetType = UNSET


class ModelInput(Struct, frozen=True, rename="camel"):
    """A row without a value or a label is dropped (control.md B.3)."""

    value: str = ""
    label: str = ""
    supports_images: bool | None = None
    is_local: bool | None = None


class EndpointInput(Struct, frozen=True, rename="camel", kw_only=True):
    """What a request says of an endpoint.  May hold a key, so it never shows itself."""

    id: str | None = None
    protocol: str | None = None
    base_url: str | UnsetType = UNSET
    api_key: str | None = None
    clear_api_key: bool = False
    capabilities: CapabilitiesInput | None = None
    default_model: str | UnsetType = UNSET
    models: list[ModelInput] | UnsetType = UNSET
    supports_images: bool | UnsetType = UNSET
    model_discovery: str | None = None

    def __repr__(self) -> str:
        return f"<EndpointInput {self.protocol}>"


class ProfileInput(Struct, frozen=True, rename="camel", kw_only=True):
    """A profile to create, or what is to be changed of one (control.md B.3)."""

    template_id: str | None = None
    label: str | UnsetType = UNSET
    executor_ids: list[str] | None = None
    revision: int | None = None
    endpoint: EndpointInput | None = None


class TestedProfile(ProfileInput, frozen=True, rename="camel", kw_only=True):
    """A profile to try before it is saved; the stored endpoint named here lends its key."""

    api_provider_id: str | None = None
    endpoint_id: str | None = None


class DiscoveryRequest(Struct, frozen=True, rename="camel", kw_only=True):
    """Which endpoint to ask for its models (control.md B.6).  May hold a key."""

    protocol: str
    base_url: str
    api_key: str | None = None
    api_provider_id: str | None = None
    endpoint_id: str | None = None
    model_discovery: str | None = None
    revision: int | None = None

    def __repr__(self) -> str:
        return f"<DiscoveryRequest {self.protocol}>"


class Discovered(Struct, frozen=True, rename="camel"):
    """What an endpoint said of its models.

    One that fails is an answer too: `success` false and `error`, a text for a person.
    """

    success: bool
    models: list[EndpointModel] | UnsetType = UNSET
    error: str | UnsetType = UNSET


class Removed(Struct, frozen=True):
    """The profile is not there any more."""

    success: bool = True


class OnExecutor(Struct, frozen=True, rename="camel"):
    """Where something is to happen."""

    executor_id: str = "local"


class NamedProfile(Struct, frozen=True):
    """Which profile to change."""

    id: str = ""


class RemovedProfile(Struct, frozen=True, rename="camel"):
    """Which profile to remove from all workspaces; that others share it must be acknowledged."""

    id: str = ""
    acknowledge_shared_impact: str = ""


class AssignmentQuery(Struct, frozen=True, rename="camel"):
    """Which executor may use which profile, or may no more."""

    executor_id: str = ""
    api_provider_id: str = ""


class DiscoverModels(Struct, frozen=True, rename="camel", kw_only=True):
    """One discovery as the executor carries it out: everything is decided, the key included.

    Never written down and never logged: its representation shows neither key nor headers.
    """

    kind: DiscoveryKind
    base_url: str
    api_key: str | None = None
    headers: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<DiscoverModels {self.kind}>"


class ResolveCredential(Struct, frozen=True, rename="camel"):
    """The endpoint that an executor's agent wants to talk to."""

    profile_id: str
    endpoint_id: str


class ResolvedEndpoint(Struct, frozen=True, rename="camel", kw_only=True):
    """An endpoint with its credential, for the one session that talks to it now.

    Never written down and never logged: its representation shows neither key nor headers.
    `api_key` None: the endpoint has none stored and is called without.  `headers` go along with
    each call (control.md B.7), and `revision` is that of the profile.  `capabilities` are None for
    ``anthropic-messages``.
    """

    protocol: Protocol
    base_url: str
    api_key: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    capabilities: Capabilities | None = None
    revision: int

    def __repr__(self) -> str:
        return f"<ResolvedEndpoint {self.protocol} revision {self.revision}>"
