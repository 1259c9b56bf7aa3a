"""The catalog of agents and models per executor: ``GET /models``, ``GET /agents`` and the snapshots
they are answered from (control.md A.1, A.7).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import sha256
from typing import Any

import msgspec
from attrs import define, field, frozen
from msgspec import structs
from twisted.internet.defer import CancelledError
from twisted.internet.interfaces import IReactorTime

from garcon.contract import operations
from garcon.contract.agents import (
    DISCOVERY_FAILED,
    AgentsQuery,
    Catalog,
    CatalogQuery,
    CatalogReply,
)
from garcon.contract.catalogs import AgentEntry
from garcon.contract.ids import is_executor_id
from garcon.controller.executors.interfaces import IExecutors
from garcon.controller.handlers import Call, Handlers, Reply
from garcon.controller.providers.offers import Offers
from garcon.deferreds import Tasks, Waiters
from garcon.errors import GarconError, validation
from garcon.local.descriptors import base64url
from garcon.runtime.interfaces import IExecutorRuntime

SNAPSHOT_AGE = 60.0


@frozen
class Snapshot:
    """One executor's catalog, and as it is answered with its tag, until `expires`."""

    catalog: Catalog
    body: bytes
    tag: str
    expires: float


@define(eq=False)
class _Build:
    """A catalog under construction and everyone who waits for it."""

    waiters: Waiters[Snapshot] = field(factory=Waiters)
    is_stale: bool = False


class Catalogs:
    """Serve catalogs; concurrent requests for one executor share one look at it."""

    def __init__(self, executors: IExecutors, clock: IReactorTime, offers: Offers) -> None:
        self._executors = executors
        self._clock = clock
        self._offers = offers
        self._snapshots: dict[str, Snapshot] = {}
        self._builds: dict[str, _Build] = {}
        self._discovered: dict[str, dict[str, AgentEntry]] = {}
        """By executor, what agents last said whose models have to be looked up."""
        self.tasks = Tasks()
        """What is being built; stop it with the controller."""

    def register(self, handlers: Handlers) -> None:
        """Serve ``GET /models`` and ``GET /agents`` through `handlers`."""
        handlers.register(operations.MODELS, self.models)
        handlers.register(operations.AGENTS, self.agents)

    def invalidate(self, executor_id: str) -> None:
        """Forget an executor's catalog; one under construction will not be kept."""
        self._snapshots.pop(executor_id, None)
        build = self._builds.pop(executor_id, None)
        if build is not None:
            build.is_stale = True

    def invalidate_all(self) -> None:
        """Forget every catalog: the profiles or their assignments are others now."""
        for executor_id in [*self._snapshots, *self._builds]:
            self.invalidate(executor_id)

    def forget(self, executor_id: str) -> None:
        """There is no such executor any more."""
        self.invalidate(executor_id)
        self._discovered.pop(executor_id, None)

    async def models(self, call: Call[CatalogQuery, None]) -> Reply | CatalogReply:
        """Answer with the catalog of the executor asked for, or of one of its agents."""
        executor_id = _executor_id(call.query.executor_id)
        runtime = self._readable(executor_id)
        if call.query.agent is not None:
            return CatalogReply(await self._one(executor_id, runtime, call.query.agent))
        snapshot = await self._current(executor_id, runtime)
        headers = {"Cache-Control": "private, no-cache", "ETag": snapshot.tag}
        return Reply(msgspec.Raw(snapshot.body), headers=headers)

    async def agents(self, call: Call[AgentsQuery, None]) -> Catalog:
        """Answer with the same catalog, as it was asked for of old."""
        return await self.catalog(_executor_id(call.query.executor_id))

    async def catalog(self, executor_id: str) -> Catalog:
        """Return an executor's catalog; fails with the executor's error."""
        return (await self._current(executor_id, self._readable(executor_id))).catalog

    def _readable(self, executor_id: str) -> IExecutorRuntime:
        """Return an executor that is ready, or one whose link is awaited: a call waits for that.

        Any other has no catalog, however fresh our snapshot is.
        """
        if self._executors.availability(executor_id) == "reconnecting":
            return self._executors.existing(executor_id)
        return self._executors.runtime(executor_id)

    async def _one(self, executor_id: str, runtime: IExecutorRuntime, agent: str) -> Catalog:
        try:
            entries = await runtime.catalog(agent)
        except GarconError as error:
            if error.code == DISCOVERY_FAILED:
                raise await self._undiscovered(executor_id, agent, error) from None
            if error.code != "UNSUPPORTED_AGENT":
                raise
            known = ", ".join(sorted(entry.id for entry in await runtime.catalog(None))) or "none"
            raise GarconError(
                "UNSUPPORTED_AGENT", f"The executor has no agent {agent!r}; it has: {known}."
            ) from None
        self._remember(executor_id, entries)
        return await self._offers.catalog(executor_id, entries)

    def _remember(self, executor_id: str, entries: Iterable[AgentEntry]) -> None:
        for entry in entries:
            if entry.requires_strict_model_discovery and entry.models:
                self._discovered.setdefault(executor_id, {})[entry.id] = entry

    async def _undiscovered(
        self, executor_id: str, agent: str, failure: GarconError
    ) -> GarconError:
        """Return the failure of an agent whose models could not be looked up, with those that it
        had before.
        """
        extra: dict[str, Any] = {"reason": failure.text}
        known = self._discovered.get(executor_id, {}).get(agent)
        if known is not None:
            if known.default_model not in {model.value for model in known.models}:
                known = structs.replace(known, default_model=known.models[0].value)
            stale = await self._offers.catalog(executor_id, [known])
            extra["catalog"] = msgspec.to_builtins(stale)
        text = f"The models of {agent} could not be looked up."
        return GarconError(DISCOVERY_FAILED, text, status=503, retryable=True, extra=extra)

    async def _current(self, executor_id: str, runtime: IExecutorRuntime) -> Snapshot:
        snapshot = self._snapshots.get(executor_id)
        if snapshot is not None and self._clock.seconds() < snapshot.expires:
            return snapshot
        build = self._builds.get(executor_id)
        if build is None:
            build = self._builds[executor_id] = _Build()
            waiting = build.waiters.wait()
            self.tasks.spawn("catalog", self._build(executor_id, runtime, build))
        else:
            waiting = build.waiters.wait()
        return await waiting

    async def _build(self, executor_id: str, runtime: IExecutorRuntime, build: _Build) -> None:
        try:
            entries = await runtime.catalog(None)
            catalog = await self._offers.catalog(executor_id, entries)
            body, tag = encode(catalog)
            snapshot = Snapshot(catalog, body, tag, self._clock.seconds() + SNAPSHOT_AGE)
        except CancelledError as error:
            self._built(executor_id, build)
            build.waiters.fail(error)
            raise
        except Exception as error:
            self._built(executor_id, build)
            build.waiters.fail(error)
        else:
            if not build.is_stale:
                self._snapshots[executor_id] = snapshot
                self._remember(executor_id, entries)
            self._built(executor_id, build)
            build.waiters.fire(snapshot)

    def _built(self, executor_id: str, build: _Build) -> None:
        if self._builds.get(executor_id) is build:
            del self._builds[executor_id]


def _executor_id(text: str) -> str:
    if not is_executor_id(text):
        raise validation("executorId must be local or a UUID.")
    return text


def encode(catalog: Catalog) -> tuple[bytes, str]:
    """Return a catalog's body and its entity tag, which does not depend on any order in it."""
    body = msgspec.json.encode(CatalogReply(catalog))
    plain: dict[str, Any] = msgspec.json.decode(body)
    found = plain["catalog"]
    for agent in found["agents"]:
        agent["models"].sort(key=lambda model: model["value"])
    found["agents"].sort(key=lambda agent: agent["id"])
    for provider in found["apiProviders"]:
        provider["endpoints"].sort(key=lambda endpoint: endpoint["id"])
    found["apiProviders"].sort(key=lambda provider: provider["id"])
    text = json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()
    return body, f'W/"model-catalog:{base64url(sha256(text).digest())}"'
