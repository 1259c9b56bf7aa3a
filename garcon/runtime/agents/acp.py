"""Agents that speak the Agent Client Protocol, each described by a manifest."""

from __future__ import annotations

import os
import shutil
import site
import sysconfig
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import Factory, frozen
from twisted.internet.defer import Deferred, succeed
from zope.interface import implementer

from garcon.contract.catalogs import (
    PERMISSION_MODES,
    THINKING_MODES,
    AgentEntry,
    AgentSettings,
    Model,
)
from garcon.contract.runs import Launch
from garcon.deferreds import returns_deferred
from garcon.runtime.agents.acp_protocol import AcpConversation
from garcon.runtime.agents.conversation import Invocation
from garcon.runtime.agents.endpoint_variables import EndpointVariables
from garcon.runtime.agents.endpoints import endpoint_of, model_of
from garcon.runtime.agents.scrubbing import Secrets
from garcon.runtime.agents.session import AgentSession
from garcon.runtime.interfaces import IAgent, IAgentSession, ICredentials


@frozen(kw_only=True)
class AcpManifest:
    """How one such agent is started and shown.

    `modes` maps our permission modes to the agent's own, for the modes it lists; the others are
    ours on top of its asking mode.  `environment` is added to the child's, and what `endpoint`
    makes of a profile's endpoint, for agents that can use one.
    """

    id: str
    label: str
    command: Sequence[str]
    models: Sequence[Model]
    description: str = ""
    environment: Mapping[str, str] = Factory(dict)
    modes: Mapping[str, str] = Factory(dict)
    endpoint: EndpointVariables | None = None
    supports_images: bool = False
    supports_steering: bool = False


@implementer(IAgent)
class AcpAgent:
    """One agent of this protocol on this machine; found or not by its program."""

    def __init__(
        self,
        reactor: Any,
        manifest: AcpManifest,
        path: str,
        credentials: ICredentials | None = None,
    ) -> None:
        self._reactor = reactor
        self._credentials = credentials
        self._manifest = manifest
        self._path = path
        self.id = manifest.id

    def entry(self) -> Deferred[AgentEntry | None]:
        """The catalog entry, or None where the program is missing."""
        manifest = self._manifest
        if shutil.which(manifest.command[0], path=self._path) is None:
            return succeed(None)
        return succeed(
            AgentEntry(
                id=manifest.id,
                label=manifest.label,
                description=manifest.description,
                supports_images=manifest.supports_images,
                supports_steering=manifest.supports_steering,
                supports_update_project_path=False,
                supported_protocols=list(manifest.endpoint.protocols) if manifest.endpoint else [],
                supported_permission_modes=list(PERMISSION_MODES),
                supported_thinking_modes=list(THINKING_MODES),
                default_settings=AgentSettings(owner_id=manifest.id, schema_version=1, values={}),
                default_model=manifest.models[0].value if manifest.models else "",
                models=list(manifest.models),
            )
        )

    def open(self, launch: Launch, environment: Mapping[str, str]) -> IAgentSession:
        """Make a session for a chat; nothing is started before `run`."""
        manifest = self._manifest

        def converse(launch: Launch, resume: str | None) -> AcpConversation:
            return AcpConversation(launch.project_path, resume, manifest.modes)

        return AgentSession(self._reactor, environment, "TERM", self._invoke, converse)

    @returns_deferred
    async def _invoke(self, launch: Launch, resume: str | None) -> Invocation:
        manifest = self._manifest
        variables = dict(manifest.environment)
        endpoint = await endpoint_of(launch, self._credentials) if manifest.endpoint else None
        if endpoint is None or manifest.endpoint is None:
            return Invocation(manifest.command, variables, key=launch.project_path)
        variables |= manifest.endpoint.filled(endpoint, model_of(launch))
        return Invocation(
            manifest.command,
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
