"""Pi on this machine: how it is found, shown in the catalog, and started for a turn."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from uuid import uuid4

from attrs import frozen
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThreadPool
from zope.interface import implementer

from garcon.contract.agents import AgentAuth
from garcon.contract.catalogs import PERMISSION_MODES, AgentEntry
from garcon.contract.runs import Launch, NativeSession, SessionPoint
from garcon.deferreds import returns_deferred
from garcon.errors import GarconError
from garcon.runtime.agents import pi_auth, pi_endpoint, pi_history, pi_sessions
from garcon.runtime.agents.conversation import Invocation
from garcon.runtime.agents.endpoints import endpoint_of, model_of
from garcon.runtime.agents.entries import program_entry
from garcon.runtime.agents.native_history import hand_over
from garcon.runtime.agents.pi_models import ModelList
from garcon.runtime.agents.pi_protocol import PiConversation
from garcon.runtime.agents.pi_question import ask
from garcon.runtime.agents.process import launch_failed
from garcon.runtime.agents.scrubbing import Secrets
from garcon.runtime.agents.session import AgentSession
from garcon.runtime.interfaces import (
    IAgent,
    IAgentAuth,
    IAgentDrift,
    IAgentHistory,
    IAgentSession,
    ICredentials,
    TakeRows,
)

T = TypeVar("T")

GATE_FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pi_gate.mjs")
FORK_AT = "GARCON_PI_FORK_AT"
"""Tells our extension the entry that a fork begins behind."""
QUIET = {"PI_SKIP_VERSION_CHECK": "1"}
MODES = [mode for mode in PERMISSION_MODES if mode != "plan"]
"""It has no plans of its own."""


@implementer(IAgent, IAgentAuth, IAgentDrift, IAgentHistory)
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
        self._models = ModelList(reactor)

    def _command(self) -> list[str] | None:
        found = shutil.which(self._named, path=self._path)
        if found is None:
            return None
        return [found] if not self._node else [self._node, os.path.realpath(found)]

    def is_installed(self) -> bool:
        """Whether its program is found."""
        return self._command() is not None

    @returns_deferred
    async def entry(self, environment: Mapping[str, str]) -> AgentEntry | None:
        """The catalog entry, or None where Pi is not installed."""
        command = self._command()
        if command is None:
            return None
        models = await self._models.models(command, {**environment, **QUIET})
        return program_entry(
            self.id,
            "Pi",
            "Pi, a coding agent by Earendil Works",
            models,
            requires_native_path_for_project_path_update=True,
            accepts_api_provider_endpoints=self._credentials is not None,
            supported_protocols=["openai-compatible", "anthropic-messages"],
            supported_permission_modes=list(MODES),
            requires_strict_model_discovery=True,
        )

    @returns_deferred
    async def auth(self, environment: Mapping[str, str]) -> AgentAuth:
        """Ask Pi which models it can reach."""
        command = self._command()
        if command is None:
            return pi_auth.UNKNOWN
        try:
            return pi_auth.read_status(*await ask(self._reactor, command, {**environment, **QUIET}))
        except GarconError:
            return pi_auth.UNKNOWN

    def read_history(
        self, session: NativeSession, environment: Mapping[str, str], take: TakeRows
    ) -> Deferred[None]:
        """Read a session's file, piece by piece."""
        return hand_over(self._reactor, lambda: pi_history.pieces(session, environment), take)

    def has_moved_on(self, point: SessionPoint, environment: Mapping[str, str]) -> Deferred[bool]:
        """Look at a session's file."""
        return self._in_thread(pi_history.has_moved_on, point, environment)

    def open(self, launch: Launch, environment: Mapping[str, str]) -> IAgentSession:
        """Make a session for a chat; nothing is started before `run`."""
        begun: list[Beginning] = []

        @returns_deferred
        async def invoke(launch: Launch, resume: str | None) -> Invocation:
            begun[:] = [await self._in_thread(beginning, launch, resume, environment)]
            return await self._invoke(launch, begun[0])

        def converse(launch: Launch, resume: str | None) -> PiConversation:
            return PiConversation(is_fork=begun[0].is_fork, fork_at=begun[0].fork_at)

        return AgentSession(self._reactor, environment, "TERM", invoke, converse)

    async def _invoke(self, launch: Launch, begin: Beginning) -> Invocation:
        command = self._command()
        if command is None:
            raise launch_failed(f"the agent's program {self._named!r} was not found")
        endpoint = await endpoint_of(launch, self._credentials)
        model = model_of(launch)
        thinks = launch.thinking_mode != "none"
        variables = dict(QUIET)
        if begin.fork_at is not None:
            variables[FORK_AT] = begin.fork_at
        if endpoint is not None:
            variables |= pi_endpoint.variables(endpoint, model, thinks=thinks)
        return Invocation(
            command=[*command, "--mode", "rpc", "--extension", GATE_FILE, *begin.options],
            environment=variables,
            key=(launch.project_path, endpoint, endpoint and (model, thinks)),
            secrets=Secrets.of(endpoint),
            settings=(model, launch.thinking_mode),
        )

    def _in_thread(self, f: Callable[..., T], *args: Any) -> Deferred[T]:
        d: Deferred[T] = deferToThreadPool(self._reactor, self._reactor.getThreadPool(), f, *args)
        return d


@frozen
class Beginning:
    """How a process gets its session."""

    options: tuple[str, ...]
    is_fork: bool = False
    """What was said so far is in it, under another name."""
    fork_at: str | None = None


def beginning(launch: Launch, resume: str | None, environment: Mapping[str, str]) -> Beginning:
    """Look where a session is, and how it is gone on with.  Blocks.

    Pi goes on only where a session was begun: elsewhere it is copied.  A fork that cannot be made
    is a session of its own, which is told what was said.
    """
    point, project = launch.fork_from, launch.project_path
    fresh = ("--session-id", str(uuid4()))
    if resume is not None:
        kept = pi_sessions.find(resume, project, environment)
        if kept is None or kept.directory == project:
            return Beginning(("--session", resume))
        return Beginning((*fresh, "--fork", kept.path), is_fork=True)
    if point is not None and pi_history.can_fork(point, project, environment):
        source = pi_sessions.find(point.agent_session_id, project, environment)
        if source is not None:
            return Beginning((*fresh, "--fork", source.path), True, point.anchor)
    return Beginning(fresh)
