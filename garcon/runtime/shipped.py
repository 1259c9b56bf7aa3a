"""The agents that Garcon ships, and those that are configured here, as one list."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from twisted.web.iweb import IAgentEndpointFactory

from garcon.runtime.agents.acp import AcpAgent, AcpManifest, scripted_manifest
from garcon.runtime.agents.acp_shipped import SHIPPED
from garcon.runtime.agents.claude import ClaudeAgent
from garcon.runtime.agents.codex import CodexAgent
from garcon.runtime.agents.direct import direct_agents
from garcon.runtime.agents.pi import PiAgent
from garcon.runtime.interfaces import IAgent, ICredentials


def agents_for(
    reactor: Any,
    environment: Mapping[str, str],
    data_dir: str,
    scripted: bool,
    python: str = sys.executable,
    *,
    credentials: ICredentials | None = None,
    endpoints: IAgentEndpointFactory | None = None,
    configured: Sequence[AcpManifest] = (),
) -> list[IAgent]:
    """Make the agents that Garcon ships and those `configured` here; one that is not installed is
    absent from the catalog.

    `environment` says where their programs are found, `python` runs the scripted one.  `data_dir`
    is for agents whose files are ours to keep; those shipped keep none.  Agents that reach models
    through a profile's endpoint ask `credentials` for it, and those that talk to it themselves do
    that over `endpoints`; without, there are none of these.
    """
    agents: list[IAgent] = [
        ClaudeAgent(reactor, environment, credentials),
        CodexAgent(reactor, environment, credentials),
        PiAgent(reactor, environment, credentials),
    ]
    if credentials is not None and endpoints is not None:
        agents += direct_agents(reactor, credentials, endpoints)
    manifests = [*SHIPPED, *configured]
    agents += [AcpAgent(reactor, manifest, environment, credentials) for manifest in manifests]
    if scripted:
        agents.append(AcpAgent(reactor, scripted_manifest(python, environment), environment))
    return agents
