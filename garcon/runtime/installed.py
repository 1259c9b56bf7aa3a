"""The agents of this machine, and what each says of itself: what it offers and whose account it
uses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from msgspec import structs
from twisted.internet.defer import CancelledError
from twisted.logger import Logger

from garcon.contract.agents import AgentAuth
from garcon.contract.catalogs import AgentEntry, AgentSettings
from garcon.deferreds import gathered
from garcon.errors import GarconError
from garcon.runtime.interfaces import IAgent, IAgentAuth

AT_ONCE = 4
"""Agents that are asked at the same time: for each a program may have to be started."""


class InstalledAgents:
    """The agents by id; one whose program is not installed is known, but not offered."""

    _log = Logger()

    def __init__(self, agents: Sequence[IAgent]) -> None:
        self._agents = {agent.id: agent for agent in agents}
        self._entries: dict[str, AgentEntry] = {}
        """The last entries that they gave."""

    def __contains__(self, agent_id: str) -> bool:
        return agent_id in self._agents

    def __getitem__(self, agent_id: str) -> IAgent:
        """Return an agent, or raise ``UNSUPPORTED_AGENT``."""
        agent = self._agents.get(agent_id)
        if agent is None:
            raise self.unsupported(agent_id)
        return agent

    def ids(self) -> list[str]:
        """Return which of them there are, without asking them anything."""
        return [agent_id for agent_id, agent in self._agents.items() if agent.is_installed()]

    async def entries(
        self, agent_id: str | None, environment: Mapping[str, str]
    ) -> tuple[AgentEntry, ...]:
        """List those that are offered, or the one named; that one is strict about why it cannot be.

        Raises ``UNSUPPORTED_AGENT`` for one that is not offered.
        """
        if agent_id is None:
            asking = [partial(self._entry, agent, environment) for agent in self._agents.values()]
            found = await gathered(asking, AT_ONCE)
        else:
            found = [await self._entry(self[agent_id], environment, is_strict=True)]
        entries = tuple(entry for entry in found if entry is not None)
        if agent_id is not None and not entries:
            raise self.unsupported(agent_id)
        return entries

    async def _entry(
        self, agent: IAgent, environment: Mapping[str, str], *, is_strict: bool = False
    ) -> AgentEntry | None:
        """Return an agent's entry; one that cannot tell its models is shown without any
        (control.md A.2).
        """
        try:
            entry = await agent.entry(environment)
        except CancelledError:
            raise
        except Exception as error:
            if is_strict and isinstance(error, GarconError):
                raise
            self._log.failure("the agent {agent} cannot say what it offers", agent=agent.id)
            return structs.replace(
                self._entries.get(agent.id) or _bare(agent.id),
                models=[],
                default_model="",
                requires_strict_model_discovery=False,
                generation=None,
            )
        if entry is None:
            self._entries.pop(agent.id, None)
        else:
            self._entries[agent.id] = entry
        return entry

    async def auth(
        self, agent_id: str | None, environment: Mapping[str, str]
    ) -> dict[str, AgentAuth]:
        """Ask those that are offered, or the one named, for their accounts; one that has none needs
        none.
        """
        offered = [entry.id for entry in await self.entries(agent_id, environment)]

        async def ask(agent: IAgent) -> AgentAuth:
            if not IAgentAuth.providedBy(agent):
                return AgentAuth(authenticated=True)
            told: AgentAuth = await IAgentAuth(agent).auth(environment)
            return told

        told = await gathered([partial(ask, self._agents[one]) for one in offered], AT_ONCE)
        return dict(zip(offered, told, strict=True))

    def unsupported(self, agent_id: str) -> GarconError:
        """There is no such agent here, or its program is not."""
        known = ", ".join(sorted(self._agents)) or "none"
        why = ": its program was not found" if agent_id in self._agents else ""
        text = f"The agent {agent_id!r} is not available here{why}. Known agents: {known}."
        return GarconError("UNSUPPORTED_AGENT", text, status=400)


def _bare(agent_id: str) -> AgentEntry:
    """Return the least that can be said of an agent."""
    return AgentEntry(
        id=agent_id,
        label=agent_id,
        supported_permission_modes=["default"],
        supported_thinking_modes=["none"],
        default_settings=AgentSettings(owner_id=agent_id, schema_version=1, values={}),
        default_model="",
        models=[],
    )
