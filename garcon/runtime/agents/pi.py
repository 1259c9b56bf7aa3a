"""Pi on this machine: how it is found, shown in the catalog, and started for a turn."""

from __future__ import annotations

import glob
import os
import shutil
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThreadPool
from zope.interface import implementer

from garcon.contract.catalogs import (
    PERMISSION_MODES,
    THINKING_MODES,
    AgentEntry,
    AgentSettings,
)
from garcon.contract.runs import Launch
from garcon.deferreds import returns_deferred
from garcon.runtime.agents import pi_endpoint
from garcon.runtime.agents.conversation import Invocation
from garcon.runtime.agents.endpoints import endpoint_of, model_of
from garcon.runtime.agents.pi_models import ModelList
from garcon.runtime.agents.pi_protocol import PiConversation
from garcon.runtime.agents.process import launch_failed
from garcon.runtime.agents.scrubbing import Secrets
from garcon.runtime.agents.session import AgentSession
from garcon.runtime.environment import OURS
from garcon.runtime.interfaces import IAgent, IAgentSession, ICredentials

GATE_FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pi_gate.mjs")
QUIET = {"PI_SKIP_VERSION_CHECK": "1"}


@implementer(IAgent)
class PiAgent:
    """Found by ``GARCON_PI_BINARY`` or ``PI_BINARY``, else as ``pi`` on the path; absent from the
    catalog where there is none.

    ``GARCON_PI_NODE`` names the Node that is to run it, where the machine's own is too old.
    """

    id = "pi"

    def __init__(
        self,
        reactor: Any,
        environment: Mapping[str, str],
        credentials: ICredentials | None = None,
    ) -> None:
        self._reactor = reactor
        self._named = environment.get("GARCON_PI_BINARY") or environment.get("PI_BINARY") or "pi"
        self._node = environment.get("GARCON_PI_NODE")
        self._path = environment.get("PATH", os.defpath)
        self._credentials = credentials
        children = {k: v for k, v in environment.items() if not k.startswith(OURS)}
        self._models = ModelList(reactor, {**children, **QUIET})

    def _command(self) -> list[str] | None:
        found = shutil.which(self._named, path=self._path)
        if found is None:
            return None
        return [found] if not self._node else [self._node, os.path.realpath(found)]

    @returns_deferred
    async def entry(self) -> AgentEntry | None:
        """The catalog entry, or None where Pi is not installed."""
        command = self._command()
        if command is None:
            return None
        models = await self._models.models(command)
        return AgentEntry(
            id=self.id,
            label="Pi",
            description="Pi, a coding agent by Earendil Works",
            supports_compact=True,
            supports_steering=True,
            supports_images=True,
            supports_update_project_path=True,
            native_fork="session",
            accepts_api_provider_endpoints=self._credentials is not None,
            supported_protocols=["openai-compatible", "anthropic-messages"],
            supported_permission_modes=list(PERMISSION_MODES),
            supported_thinking_modes=list(THINKING_MODES),
            requires_strict_model_discovery=True,
            default_settings=AgentSettings(owner_id=self.id, schema_version=1, values={}),
            default_model=models[0].value if models else "",
            models=list(models),
        )

    def open(self, launch: Launch, environment: Mapping[str, str]) -> IAgentSession:
        """Make a session for a chat; nothing is started before `run`."""
        forking: list[bool] = []

        @returns_deferred
        async def invoke(launch: Launch, resume: str | None) -> Invocation:
            point = launch.fork_from
            # A fork that cannot be made is a session of its own, which is told what was said.
            forks = resume is None and point is not None
            if forks and point is not None:
                forks = await self._in_thread(has_session, point.agent_session_id, environment)
            forking[:] = [forks]
            return await self._invoke(launch, resume, forks)

        def converse(launch: Launch, resume: str | None) -> PiConversation:
            return PiConversation(is_fork=forking[0])

        return AgentSession(self._reactor, environment, "TERM", invoke, converse)

    async def _invoke(self, launch: Launch, resume: str | None, forks: bool) -> Invocation:
        command = self._command()
        if command is None:
            raise launch_failed(f"the agent's program {self._named!r} was not found")
        endpoint = await endpoint_of(launch, self._credentials)
        model = model_of(launch)
        thinks = launch.thinking_mode != "none"
        session = ["--session", resume] if resume else ["--session-id", str(uuid4())]
        if forks and launch.fork_from is not None:
            session += ["--fork", launch.fork_from.agent_session_id]
        variables = dict(QUIET)
        if endpoint is not None:
            variables |= pi_endpoint.variables(endpoint, model, thinks=thinks)
        return Invocation(
            command=[*command, "--mode", "rpc", "--extension", GATE_FILE, *session],
            environment=variables,
            key=(launch.project_path, endpoint, endpoint and (model, thinks)),
            secrets=Secrets.of(endpoint),
            settings=(model, launch.thinking_mode),
        )

    def _in_thread(self, f: Any, *args: Any) -> Deferred[bool]:
        d: Deferred[bool] = deferToThreadPool(
            self._reactor, self._reactor.getThreadPool(), f, *args
        )
        return d


def has_session(session_id: str, environment: Mapping[str, str]) -> bool:
    """Whether Pi has kept a session, of any directory."""
    home = environment.get("HOME") or os.path.expanduser("~")
    ours = environment.get("PI_CODING_AGENT_DIR") or os.path.join(home, ".pi", "agent")
    place = environment.get("PI_CODING_AGENT_SESSION_DIR") or os.path.join(ours, "sessions")
    name = f"*_{glob.escape(session_id)}.jsonl"
    return any(glob.glob(os.path.join(glob.escape(place), *sub, name)) for sub in ((), ("*",)))
