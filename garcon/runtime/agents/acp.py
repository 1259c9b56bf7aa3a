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
from garcon.runtime.agents.acp_protocol import AcpConversation
from garcon.runtime.agents.conversation import Invocation
from garcon.runtime.agents.session import AgentSession
from garcon.runtime.interfaces import IAgent, IAgentSession


@frozen(kw_only=True)
class AcpManifest:
    """How one such agent is started and shown.

    `modes` maps our permission modes to the agent's own, for the modes it lists; the others are
    ours on top of its asking mode.  `environment` is added to the child's.
    """

    id: str
    label: str
    command: Sequence[str]
    models: Sequence[Model]
    description: str = ""
    environment: Mapping[str, str] = Factory(dict)
    modes: Mapping[str, str] = Factory(dict)
    supports_images: bool = False
    supports_steering: bool = False


@implementer(IAgent)
class AcpAgent:
    """One agent of this protocol on this machine; found or not by its program."""

    def __init__(self, reactor: Any, manifest: AcpManifest, path: str) -> None:
        self._reactor = reactor
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

        def invoke(launch: Launch, resume: str | None) -> Invocation:
            return Invocation(manifest.command, dict(manifest.environment), key=launch.project_path)

        def converse(launch: Launch, resume: str | None) -> AcpConversation:
            return AcpConversation(launch.project_path, resume, manifest.modes)

        return AgentSession(self._reactor, environment, "TERM", invoke, converse)


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
