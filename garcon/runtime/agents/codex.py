"""Codex on this machine: how it is found, shown in the catalog, and started for a turn."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from typing import Any

from twisted.internet.defer import CancelledError, Deferred, DeferredLock
from zope.interface import implementer

from garcon.contract.agents import AgentAuth
from garcon.contract.catalogs import AgentEntry, Generation
from garcon.contract.runs import Launch, NativeSession, SessionPoint
from garcon.deferreds import returns_deferred
from garcon.errors import GarconError
from garcon.runtime.agents import codex_history, codex_options
from garcon.runtime.agents.codex_client import CodexClient, CodexFailed
from garcon.runtime.agents.codex_models import ModelList
from garcon.runtime.agents.codex_program import program_behind
from garcon.runtime.agents.codex_protocol import CodexConversation
from garcon.runtime.agents.codex_wire import text_of
from garcon.runtime.agents.conversation import Invocation
from garcon.runtime.agents.endpoints import endpoint_of
from garcon.runtime.agents.entries import program_entry
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

SERVER = "app-server"
UNKNOWN = AgentAuth(authenticated=False, label="Codex does not say", source="agent")


@implementer(IAgent, IAgentAuth, IAgentDrift, IAgentHistory)
class CodexAgent:
    """Found by ``GARCON_CODEX_CLI``, else as ``codex`` on the path; absent from the catalog where
    there is none.
    """

    id = "codex"

    def __init__(
        self,
        reactor: Any,
        environment: Mapping[str, str],
        credentials: ICredentials | None = None,
    ) -> None:
        self._reactor = reactor
        self._named = environment.get("GARCON_CODEX_CLI") or "codex"
        self._path = environment.get("PATH", os.defpath)
        self._credentials = credentials
        self._models = ModelList(reactor)
        self._looking = DeferredLock()

    def _program(self) -> str | None:
        found = shutil.which(self._named, path=self._path)
        return None if found is None else program_behind(found)

    def is_installed(self) -> bool:
        """Whether its program is found."""
        return self._program() is not None

    @returns_deferred
    async def entry(self, environment: Mapping[str, str]) -> AgentEntry | None:
        """The catalog entry, or None where Codex is not installed."""
        program = self._program()
        if program is None:
            return None
        models = (await self._models.models(program, environment)).models
        return program_entry(
            self.id,
            "Codex",
            "Codex by OpenAI",
            models,
            supports_images=True,
            accepts_api_provider_endpoints=self._credentials is not None,
            supported_protocols=["openai-compatible"],
            generation=Generation(priority=30, model=models[0].value),
        )

    @returns_deferred
    async def auth(self, environment: Mapping[str, str]) -> AgentAuth:
        """Ask Codex for its account."""
        program = self._program()
        if program is None:
            return UNKNOWN
        client = CodexClient(self._reactor)
        try:
            await client.open([program, SERVER], environment, "/")
            return account(await client.call("account/read", {}))
        except CancelledError:
            raise
        except (CodexFailed, GarconError):
            return UNKNOWN
        finally:
            await client.close()

    @returns_deferred
    async def read_history(
        self, session: NativeSession, environment: Mapping[str, str], take: TakeRows
    ) -> None:
        """Hand over what Codex remembers of a thread."""
        program = self._program()
        if program is None:
            raise codex_history.unreadable("it is not installed")
        client = CodexClient(self._reactor, codex_history.ANSWER_TIME)
        try:
            await client.open([program, SERVER], environment, "/")
            await codex_history.hand_over(client, session.agent_session_id, take)
        except CodexFailed as failure:
            raise codex_history.unreadable(failure.text) from None
        finally:
            await client.close()

    def has_moved_on(self, point: SessionPoint, environment: Mapping[str, str]) -> Deferred[bool]:
        """Ask Codex for a thread's last turn: one question at a time, as each takes a process."""

        def ask() -> Deferred[bool]:
            return Deferred.fromCoroutine(self._has_moved_on(point, environment))

        asked: Deferred[bool] = self._looking.run(ask)
        return asked

    async def _has_moved_on(self, point: SessionPoint, environment: Mapping[str, str]) -> bool:
        program = self._program()
        if program is None:
            return False
        client = CodexClient(self._reactor)
        try:
            await client.open([program, SERVER], environment, "/")
            return await codex_history.has_moved_on(client, point)
        except CodexFailed:
            return False
        finally:
            await client.close()

    def open(self, launch: Launch, environment: Mapping[str, str]) -> IAgentSession:
        """Make a session for a chat; nothing is started before `run`."""

        def invoke(launch: Launch, resume: str | None) -> Deferred[Invocation]:
            return self._invoke(launch, environment)

        def converse(launch: Launch, resume: str | None) -> CodexConversation:
            return CodexConversation(launch, resume, self._models.known().efforts_of)

        return AgentSession(self._reactor, environment, "TERM", invoke, converse)

    @returns_deferred
    async def _invoke(self, launch: Launch, environment: Mapping[str, str]) -> Invocation:
        program = self._program()
        if program is None:
            raise launch_failed(f"the agent's program {self._named!r} was not found")
        endpoint = await endpoint_of(launch, self._credentials)
        if endpoint is not None and not (endpoint.capabilities and endpoint.capabilities.responses):
            raise launch_failed("The endpoint does not offer the Responses API, which Codex needs.")
        told = codex_options.told(endpoint)
        whose = (
            None
            if endpoint is None
            else (launch.api_provider_id, launch.model_endpoint_id, endpoint.revision)
        )
        return Invocation(
            command=[program, SERVER, *told.options, *codex_options.path_options(environment)],
            environment=told.environment,
            key=(program, whose),
            secrets=Secrets.of(endpoint),
        )


def account(said: dict[str, Any]) -> AgentAuth:
    """Read what Codex says of its account; one that needs none is as good as signed in."""
    found = said.get("account")
    if isinstance(found, dict):
        named = (found.get("email"), found.get("planType"), found.get("type"))
        label = next((text for one in named if (text := text_of(one))), "Signed in")
        return AgentAuth(authenticated=True, label=label, source="agent")
    if said.get("requiresOpenaiAuth") is False:
        return AgentAuth(authenticated=True, label="No account is needed", source="agent")
    return AgentAuth(authenticated=False, label="Not signed in", source="agent")
