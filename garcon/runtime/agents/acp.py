"""Agents that speak the Agent Client Protocol, each described by a manifest."""

from __future__ import annotations

import os
import shutil
import site
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from typing import Protocol as Structure

from attrs import Factory, field, frozen
from msgspec import UNSET
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from zope.interface import alsoProvides, implementer

from garcon.contract.catalogs import (
    PERMISSION_MODES,
    THINKING_MODES,
    AgentEntry,
    AgentSettings,
    Generation,
    Model,
    NativeForking,
    PermissionMode,
    Protocol,
    ThinkingMode,
)
from garcon.contract.providers import ResolvedEndpoint
from garcon.contract.runs import Launch, NativeSession
from garcon.deferreds import returns_deferred
from garcon.runtime.agents.acp_history import Asked, HistoryWays
from garcon.runtime.agents.acp_models import AcpModels
from garcon.runtime.agents.acp_protocol import AcpConversation, AcpWays
from garcon.runtime.agents.conversation import Invocation
from garcon.runtime.agents.endpoints import endpoint_of, model_of
from garcon.runtime.agents.native_history import no_history
from garcon.runtime.agents.scrubbing import Secrets
from garcon.runtime.agents.session import AgentSession
from garcon.runtime.interfaces import (
    IAgent,
    IAgentHistory,
    IAgentSession,
    ICredentials,
    TakeRows,
)

PATIENCE = 10.0
"""Seconds after which a turn begins to wait for an agent's session, so that it can be stopped: some
take longer to start than a launch may, and read nothing meanwhile.
"""
_LATER = ("/bin/sh", "-c", 'sleep "$0" && exec "$@"')
"""Begins a program that many seconds later: what follows is the number, and the command."""


class EndpointWays(Structure):
    """How a program is pointed at an endpoint."""

    @property
    def protocols(self) -> tuple[Protocol, ...]:
        """Which endpoints it can use."""

    def filled(self, endpoint: ResolvedEndpoint, model: str) -> dict[str, str]:
        """Return the variables for one endpoint and a model as that calls it."""


@frozen(kw_only=True)
class AcpManifest:
    """How one such agent is started and shown.

    `modes` maps our permission modes to the agent's own, for the modes it lists; the others are
    ours on top of its asking mode.  `environment` is added to the child's, and what `endpoint`
    makes of a profile's endpoint, for agents that can use one.  `models`, the usual first, are
    shown; where it `learns_models`, until it has listed its own: when it opened a session, or by
    `model_command`, which prints one a line.  `compact` is the prompt that compacts a session.
    `history` reads a session back, for agents that keep what can be read.  `wait_before_load` says
    for how many seconds a session may not be loaded yet.  `is_wanted`: somebody has named it, and
    is told where it is missing.
    """

    id: str
    label: str
    command: Sequence[str]
    models: Sequence[Model]
    description: str = ""
    environment: Mapping[str, str] = field(factory=dict, repr=False)
    modes: Mapping[str, str] = Factory(dict)
    model_command: Sequence[str] | None = None
    learns_models: bool = False
    endpoint: EndpointWays | None = None
    history: HistoryWays | None = None
    wait_before_load: Callable[[str, Mapping[str, str]], int] | None = None
    permission_modes: Sequence[PermissionMode] = PERMISSION_MODES
    thinking_modes: Sequence[ThinkingMode] = THINKING_MODES
    supports_images: bool = False
    supports_steering: bool = False
    compact: str | None = None
    native_fork: NativeForking = "none"
    generation: Generation | None = None
    is_wanted: bool = False


@implementer(IAgent)
class AcpAgent:
    """One agent of this protocol on this machine; found or not by its program."""

    _log = Logger()

    def __init__(
        self,
        reactor: Any,
        manifest: AcpManifest,
        environment: Mapping[str, str],
        credentials: ICredentials | None = None,
    ) -> None:
        self._reactor = reactor
        self._credentials = credentials
        self._manifest = manifest
        own_path = manifest.environment.get("PATH")
        self._path = own_path or environment.get("PATH", os.defpath)
        self._is_missed = False
        self.id = manifest.id
        if manifest.history is not None:
            alsoProvides(self, IAgentHistory)
        self._models = AcpModels(
            reactor,
            tuple(manifest.models),
            manifest.supports_images,
            manifest.model_command,
            self._path,
        )

    def is_installed(self) -> bool:
        """Whether its program is found."""
        return shutil.which(self._manifest.command[0], path=self._path) is not None

    @returns_deferred
    async def entry(self, environment: Mapping[str, str]) -> AgentEntry | None:
        """The catalog entry, or None where the program is missing."""
        manifest = self._manifest
        if not self.is_installed():
            self._miss()
            return None
        self._is_missed = False
        models = await self._models.models({**environment, **manifest.environment})
        endpoint = manifest.endpoint if self._credentials is not None else None
        return AgentEntry(
            id=manifest.id,
            label=manifest.label,
            description=manifest.description or UNSET,
            supports_compact=manifest.compact is not None,
            supports_images=manifest.supports_images,
            supports_steering=manifest.supports_steering,
            supports_update_project_path=False,
            native_fork=manifest.native_fork,
            accepts_api_provider_endpoints=endpoint is not None,
            supported_protocols=list(endpoint.protocols) if endpoint is not None else [],
            supported_permission_modes=list(manifest.permission_modes),
            supported_thinking_modes=list(manifest.thinking_modes),
            default_settings=AgentSettings(owner_id=manifest.id, schema_version=1, values={}),
            generation=manifest.generation,
            default_model=models[0].value if models else "",
            models=list(models),
        )

    def _miss(self) -> None:
        """Tell whoever has named this agent why it is not there, once."""
        if self._manifest.is_wanted and not self._is_missed:
            self._is_missed = True
            self._log.warn(
                "the agent {agent} of agents.toml is not offered: there is no program {program}"
                " that can be run (looked for in {path})",
                agent=self.id,
                program=self._manifest.command[0],
                path=self._path,
            )

    @returns_deferred
    async def read_history(
        self, session: NativeSession, environment: Mapping[str, str], take: TakeRows
    ) -> None:
        """Hand over what the agent remembers of a session, where its manifest says how."""
        manifest = self._manifest
        if manifest.history is None:
            raise no_history(f"Sessions of {manifest.label} cannot be read back.")
        variables = {**environment, **manifest.environment}
        asked = Asked(session, manifest.command, variables)
        await manifest.history.read(self._reactor, asked, take)

    def open(self, launch: Launch, environment: Mapping[str, str]) -> IAgentSession:
        """Make a session for a chat; nothing is started before `run`."""
        manifest = self._manifest
        own_model = manifest.models[0].value if manifest.models else ""
        ways = AcpWays(modes=manifest.modes, compact=manifest.compact, model=own_model)

        def invoke(launch: Launch, resume: str | None) -> Deferred[Invocation]:
            return self._invoke(launch, self._command(resume, environment))

        def converse(launch: Launch, resume: str | None) -> AcpConversation:
            fork_from = launch.fork_from if manifest.native_fork != "none" else None
            # Through an endpoint it lists what it has nowhere else.
            is_own = manifest.learns_models and launch.model_endpoint_id is None
            learned = self._models.learned if is_own else lambda _: None
            return AcpConversation(launch.project_path, resume, ways, fork_from, learned)

        return AgentSession(
            self._reactor, environment, "TERM", invoke, converse, PATIENCE, most=PATIENCE
        )

    def _command(self, resume: str | None, environment: Mapping[str, str]) -> Sequence[str]:
        """Return what a process that is started now is to be; one that goes on does not ask."""
        manifest = self._manifest
        if resume is None or manifest.wait_before_load is None:
            return manifest.command
        seconds = manifest.wait_before_load(resume, {**environment, **manifest.environment})
        return (*_LATER, str(seconds), *manifest.command) if seconds else manifest.command

    @returns_deferred
    async def _invoke(self, launch: Launch, command: Sequence[str]) -> Invocation:
        manifest = self._manifest
        variables = dict(manifest.environment)
        endpoint = await endpoint_of(launch, self._credentials) if manifest.endpoint else None
        if endpoint is None or manifest.endpoint is None:
            return Invocation(command, variables, key=launch.project_path)
        variables |= manifest.endpoint.filled(endpoint, model_of(launch))
        return Invocation(
            command,
            variables,
            # The model may stand in the variables, and those cannot be changed later.
            key=(launch.project_path, launch.model_endpoint_id, endpoint.revision, launch.model),
            secrets=Secrets.of(endpoint),
        )


def scripted_manifest(python: str, environment: Mapping[str, str]) -> AcpManifest:
    """Return the manifest of the scripted agent: a child of this very installation, started fast.

    `-P` keeps a project's own modules from being taken for the agent's.  Run from a source tree,
    the child is told where that tree is.
    """
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(__file__))))
    variables = {}
    if root not in {*site.getsitepackages(), sysconfig.get_path("purelib")}:
        path = environment.get("PYTHONPATH")
        variables["PYTHONPATH"] = f"{root}{os.pathsep}{path}" if path else root
    return AcpManifest(
        id="scripted",
        label="Scripted",
        description="Does what its prompt says, line by line; for trying Garcon out and for tests.",
        command=[python, "-P", "-m", "garcon.testing.scripted_agent"],
        models=[Model(value="scripted", label="Scripted")],
        environment=variables,
        supports_steering=True,
    )
