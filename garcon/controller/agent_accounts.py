"""Whose account the agents of an executor use, and whether they are ready (control.md A.7)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NoReturn

from attrs import define
from twisted.internet.defer import TimeoutError
from twisted.internet.interfaces import IReactorTime

from garcon.contract import operations
from garcon.contract.agents import (
    AgentAuth,
    AgentsQuery,
    AuthQuery,
    Catalog,
    CompleteLogin,
    LaunchLogin,
    LoginQuery,
    Readiness,
)
from garcon.contract.catalogs import AgentEntry
from garcon.contract.ids import LOCAL
from garcon.contract.limits import INTERACTIVE_READ
from garcon.controller.catalog import Catalogs
from garcon.controller.chats.agents import executor_silent
from garcon.controller.executors.interfaces import IExecutors
from garcon.controller.handlers import Call, Handlers
from garcon.controller.providers.operations import executor_id
from garcon.errors import GarconError, validation

PROFILES = "api-providers"


@define(eq=False)
class AgentAccounts:
    """Handlers of the agents' account routes.

    No agent of this release lets itself be logged in from here (``authLoginSupported`` is false for
    all of them), which the login routes say of each.
    """

    _executors: IExecutors
    _catalogs: Catalogs
    _clock: IReactorTime

    def register(self, handlers: Handlers) -> None:
        """Serve the operations."""
        handlers.register(operations.AGENT_AUTH, self.auth)
        handlers.register(operations.AGENT_READINESS, self.readiness)
        handlers.register(operations.LAUNCH_AGENT_LOGIN, self.launch_login)
        handlers.register(operations.AGENT_LOGIN_STATE, self.login_state)
        handlers.register(operations.COMPLETE_AGENT_LOGIN, self.complete_login)

    async def auth(self, call: Call[AuthQuery, None]) -> Mapping[str, AgentAuth]:
        """Say of each agent, or of the one asked for, whether it can reach its models."""
        where, agent = executor_id(call.query.executor_id), call.query.agent
        catalog = await self._catalogs.catalog(where)
        entries = catalog.agents
        if agent is not None:
            entries = [_known(catalog, agent)]
        return await self._accounts(where, catalog, entries, agent)

    async def readiness(self, call: Call[AgentsQuery, None]) -> Mapping[str, Readiness]:
        """Say of each agent whether a turn could begin now."""
        where = executor_id(call.query.executor_id)
        catalog = await self._catalogs.catalog(where)
        accounts = await self._accounts(where, catalog, catalog.agents, None)
        return {name: Readiness(account.authenticated) for name, account in accounts.items()}

    async def launch_login(self, call: Call[None, LaunchLogin]) -> NoReturn:
        """Begin to log an agent in."""
        await self._no_login(call.body.executor_id or LOCAL, call.body.agent_id, "agentId")

    async def login_state(self, call: Call[LoginQuery, None]) -> NoReturn:
        """Say how far a login has come."""
        await self._no_login(call.query.executor_id, call.query.agent, "agent")

    async def complete_login(self, call: Call[None, CompleteLogin]) -> NoReturn:
        """Hand the code of a login over."""
        body = call.body
        for name, value in (("sessionId", body.session_id), ("code", body.code)):
            if not value.strip():
                raise validation(f"{name} is required")
        await self._no_login(body.executor_id or LOCAL, body.agent_id, "agentId")

    async def _no_login(self, where: str, agent: str, member: str) -> NoReturn:
        if not agent:
            raise validation(f"{member} is required")
        # A login needs its executor now: one that is awaited is none.
        self._executors.runtime(executor_id(where))
        entry = _known(await self._catalogs.catalog(where), agent)
        raise validation(f"{entry.label} cannot be logged in from here.")

    async def _accounts(
        self, where: str, catalog: Catalog, entries: Iterable[AgentEntry], agent: str | None
    ) -> dict[str, AgentAuth]:
        """Ask the executor, but for agents that have only the models of profiles."""
        found = {one.id: _of_profiles(one, catalog) for one in entries if _lives_on_profiles(one)}
        wanted = [one.id for one in entries if one.id not in found]
        if wanted:
            runtime = self._executors.existing(where)
            try:
                asked = runtime.auth(agent).addTimeout(INTERACTIVE_READ, self._clock)
                told = await asked
            except TimeoutError:
                raise executor_silent(where) from None
            found |= {name: told[name] for name in wanted if name in told}
        return found


def _known(catalog: Catalog, agent: str) -> AgentEntry:
    for entry in catalog.agents:
        if entry.id == agent:
            return entry
    known = ", ".join(sorted(entry.id for entry in catalog.agents)) or "none"
    raise GarconError("UNSUPPORTED_AGENT", f"The executor has no agent {agent!r}; it has: {known}.")


def _lives_on_profiles(entry: AgentEntry) -> bool:
    return entry.accepts_api_provider_endpoints and all(model.endpoint_id for model in entry.models)


def _of_profiles(entry: AgentEntry, catalog: Catalog) -> AgentAuth:
    used = {model.api_provider_id for model in entry.models}
    labels = [one.label for one in catalog.api_providers if one.id in used]
    return AgentAuth(authenticated=bool(labels), label=", ".join(labels), source=PROFILES)
