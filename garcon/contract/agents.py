"""What is asked about the agents of an executor (control.md A.1, A.7)."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, Struct, UnsetType, field

from garcon.contract.catalogs import AgentEntry
from garcon.contract.providers import Provider

DISCOVERY_FAILED = "MODEL_DISCOVERY_FAILED"
"""The code with which an agent's entry fails when its models have to be looked up and that failed
(control.md A.1).
"""


class Catalog(Struct, frozen=True, rename="camel"):
    """The agents of one executor, and the profiles that are assigned to it."""

    agents: list[AgentEntry]
    api_providers: list[Provider] = field(default_factory=list)


class CatalogReply(Struct, frozen=True, rename="camel"):
    catalog: Catalog


class CatalogQuery(Struct, frozen=True, rename="camel"):
    executor_id: str = "local"
    agent: str | None = None


class AgentsQuery(Struct, frozen=True, rename="camel"):
    executor_id: str = "local"


class AuthQuery(Struct, frozen=True, rename="camel"):
    executor_id: str = "local"
    agent: str | None = None


class AgentAuth(Struct, frozen=True, rename="camel"):
    """Whether an agent can reach its models, and by what.

    `label` is for a person; `source` names where the right comes from: the agent's own account
    (``agent``), assigned profiles (``api-providers``), or ``none`` where nothing is needed.
    """

    authenticated: bool
    can_reauth: bool = False
    label: str = ""
    source: str = "none"


class Readiness(Struct, frozen=True, rename="camel"):
    """Whether a turn of that agent could begin now."""

    ready: bool


class DeviceAuth(Struct, frozen=True, rename="camel"):
    """Where a person completes a login, and the code to type there or to bring back."""

    url: str
    code: str | UnsetType = UNSET
    needs_code: bool | UnsetType = UNSET


class LoginQuery(Struct, frozen=True, rename="camel"):
    agent: str = ""
    session: str | None = None
    executor_id: str = "local"


class LoginState(Struct, frozen=True, rename="camel"):
    """How far a login has come; `session_id` everywhere but in ``idle``."""

    state: Literal["idle", "running", "succeeded", "failed"]
    running: bool | UnsetType = UNSET
    session_id: str | UnsetType = UNSET
    device_auth: DeviceAuth | UnsetType = UNSET
    error: str | UnsetType = UNSET


class LaunchLogin(Struct, frozen=True, rename="camel"):
    agent_id: str = ""
    executor_id: str | None = None


class LoginLaunched(Struct, frozen=True, rename="camel"):
    launched: bool
    already_running: bool
    session_id: str
    device_auth: DeviceAuth | UnsetType = UNSET


class CompleteLogin(Struct, frozen=True, rename="camel"):
    agent_id: str = ""
    session_id: str = ""
    code: str = ""
    executor_id: str | None = None


class LoginCompleted(Struct, frozen=True, rename="camel"):
    submitted: bool
    session_id: str
