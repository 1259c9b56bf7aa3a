"""What the agents of an executor can do, asked of the executor and kept for a minute; what profiles
add to it is looked up each time.
"""

from __future__ import annotations

from attrs import define, field
from twisted.internet.defer import TimeoutError
from twisted.internet.interfaces import IReactorTime

from garcon.contract.catalogs import AgentEntry
from garcon.contract.limits import INTERACTIVE_READ
from garcon.controller.executors.interfaces import IExecutors
from garcon.controller.providers.offers import Offers
from garcon.errors import GarconError
from garcon.runtime.agents.scrubbing import Secrets

KEPT = 60.0
"""Seconds that a catalog entry may be used without asking again."""


@define(eq=False)
class Agents:
    """Catalog entries by executor and agent; only executors that are ready are spoken for."""

    _executors: IExecutors
    _clock: IReactorTime
    _offers: Offers | None = None
    """Without, no agent has models but its own."""
    _known: dict[tuple[str, str], tuple[float, AgentEntry]] = field(factory=dict)

    async def entry(self, executor_id: str, agent_id: str) -> AgentEntry:
        """Return one agent's entry; ``UNSUPPORTED_AGENT`` (400), or whatever keeps the executor
        from answering.

        ``API_PROVIDER_STORAGE_UNAVAILABLE`` (503) for an agent that has only models of profiles,
        while it cannot be said which.
        """
        entry = await self._entry(executor_id, agent_id)
        return entry if self._offers is None else await self._offers.entry(executor_id, entry)

    async def secrets(self) -> Secrets:
        """Return what no row may show: the keys of profiles.  ``API_PROVIDER_STORAGE_UNAVAILABLE``
        (503) while it cannot be said which.
        """
        return Secrets() if self._offers is None else await self._offers.secrets()

    def forget(self, executor_id: str) -> None:
        """Ask an executor anew: it may be another process by now."""
        self._known = {key: kept for key, kept in self._known.items() if key[0] != executor_id}

    async def _entry(self, executor_id: str, agent_id: str) -> AgentEntry:
        runtime = self._executors.runtime(executor_id)
        now = self._clock.seconds()
        known = self._known.get((executor_id, agent_id))
        if known is not None and now - known[0] <= KEPT:
            return known[1]
        self._known = {key: kept for key, kept in self._known.items() if now - kept[0] <= KEPT}
        try:
            entries = await runtime.catalog(agent_id).addTimeout(INTERACTIVE_READ, self._clock)
        except TimeoutError:
            raise executor_silent(executor_id) from None
        except GarconError as error:
            if error.code == "UNSUPPORTED_AGENT":
                raise unsupported(agent_id) from None
            raise
        for entry in entries:
            if entry.id == agent_id:
                self._known[executor_id, agent_id] = (now, entry)
                return entry
        raise unsupported(agent_id)


def unsupported(agent_id: str) -> GarconError:
    """No such agent on that executor."""
    return GarconError("UNSUPPORTED_AGENT", f"The executor offers no agent {agent_id}.")


def executor_silent(executor_id: str) -> GarconError:
    """An executor did not answer in time; nothing was begun."""
    return GarconError(
        "EXECUTOR_UNAVAILABLE",
        f"The executor {executor_id} did not answer in time.",
        status=503,
        retryable=True,
    )
