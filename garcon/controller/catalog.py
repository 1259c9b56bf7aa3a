"""The catalog of agents and models per executor: ``GET /models`` and its snapshots (control.md
A.1).
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import msgspec
from attrs import define, field, frozen
from twisted.internet.defer import CancelledError
from twisted.internet.interfaces import IReactorTime

from garcon.contract import operations
from garcon.contract.agents import Catalog, CatalogQuery, CatalogReply
from garcon.contract.catalogs import AgentEntry
from garcon.contract.ids import is_executor_id
from garcon.controller.executors.interfaces import IExecutors
from garcon.controller.handlers import Call, Handlers, Reply
from garcon.deferreds import Tasks, Waiters
from garcon.errors import GarconError, validation
from garcon.local.descriptors import base64url
from garcon.runtime.interfaces import IExecutorRuntime

SNAPSHOT_AGE = 60.0


@frozen
class Snapshot:
    """One executor's catalog as it is answered, with its tag, until `expires`."""

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

    def __init__(self, executors: IExecutors, clock: IReactorTime) -> None:
        self._executors = executors
        self._clock = clock
        self._snapshots: dict[str, Snapshot] = {}
        self._builds: dict[str, _Build] = {}
        self.tasks = Tasks()
        """What is being built; stop it with the controller."""

    def register(self, handlers: Handlers) -> None:
        """Serve ``GET /models`` through `handlers`."""
        handlers.register(operations.MODELS, self.models)

    def invalidate(self, executor_id: str) -> None:
        """Forget an executor's catalog; one under construction will not be kept."""
        self._snapshots.pop(executor_id, None)
        build = self._builds.pop(executor_id, None)
        if build is not None:
            build.is_stale = True

    async def models(self, call: Call[CatalogQuery, None]) -> Reply | CatalogReply:
        """Answer with the catalog of the executor asked for, or of one of its agents."""
        executor_id = call.query.executor_id
        if not is_executor_id(executor_id):
            raise validation("executorId must be local or a UUID.")
        runtime = self._readable(executor_id)
        if call.query.agent is not None:
            return CatalogReply(Catalog(list(await self._one(runtime, call.query.agent))))
        snapshot = await self._current(executor_id, runtime)
        headers = {"Cache-Control": "private, no-cache", "ETag": snapshot.tag}
        return Reply(msgspec.Raw(snapshot.body), headers=headers)

    def _readable(self, executor_id: str) -> IExecutorRuntime:
        """Return an executor that is ready, or one whose link is awaited: a call waits for that.

        Any other has no catalog, however fresh our snapshot is.
        """
        if self._executors.availability(executor_id) == "reconnecting":
            return self._executors.existing(executor_id)
        return self._executors.runtime(executor_id)

    async def _one(self, runtime: IExecutorRuntime, agent: str) -> tuple[AgentEntry, ...]:
        try:
            return await runtime.catalog(agent)
        except GarconError as error:
            if error.code != "UNSUPPORTED_AGENT":
                raise
        known = ", ".join(sorted(entry.id for entry in await runtime.catalog(None))) or "none"
        raise GarconError(
            "UNSUPPORTED_AGENT", f"The executor has no agent {agent!r}; it has: {known}."
        )

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
            agents = await runtime.catalog(None)
            body, tag = encode(Catalog(list(agents)))
            snapshot = Snapshot(body, tag, self._clock.seconds() + SNAPSHOT_AGE)
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
            self._built(executor_id, build)
            build.waiters.fire(snapshot)

    def _built(self, executor_id: str, build: _Build) -> None:
        if self._builds.get(executor_id) is build:
            del self._builds[executor_id]


def encode(catalog: Catalog) -> tuple[bytes, str]:
    """Return a catalog's body and its entity tag, which does not depend on any order in it."""
    body = msgspec.json.encode(CatalogReply(catalog))
    plain: dict[str, Any] = msgspec.json.decode(body)
    found = plain["catalog"]
    for agent in found["agents"]:
        agent["models"].sort(key=lambda model: model["value"])
    found["agents"].sort(key=lambda agent: agent["id"])
    for provider in found["apiProviders"]:
        provider.get("endpoints", []).sort(key=lambda endpoint: endpoint["id"])
    found["apiProviders"].sort(key=lambda provider: provider["id"])
    text = json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()
    return body, f'W/"model-catalog:{base64url(sha256(text).digest())}"'
