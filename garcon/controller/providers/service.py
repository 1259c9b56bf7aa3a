"""The API providers of one controller: what is kept of them, who asks for them, and who is told
when they change.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from garcon.controller.catalog import Catalogs
from garcon.controller.executors.interfaces import IExecutorWatcher
from garcon.controller.executors.service import Executors
from garcon.controller.handlers import Handlers
from garcon.controller.providers.assignments import pruned
from garcon.controller.providers.credentials import CredentialService, LocalCredentials
from garcon.controller.providers.discovering import Discoveries
from garcon.controller.providers.offers import Offers
from garcon.controller.providers.operations import ProviderOperations
from garcon.controller.providers.store import ProviderStore
from garcon.deferreds import returns_deferred
from garcon.errors import GarconError
from garcon.store.interfaces import IStore
from garcon.store.records import PutSetting

SETTING = "api-provider-assignments"
_FRESH, _KEPT = "fresh", "kept"


@implementer(IExecutorWatcher)
class Providers:
    """Composed before the executors, whose agents ask for credentials, and connected to them
    afterwards.  `is_fresh`: the workspace was never used before.
    """

    _log = Logger()

    def __init__(self, clock: IReactorTime, store: ProviderStore, *, is_fresh: bool) -> None:
        self._clock = clock
        self._is_fresh = is_fresh
        self.store = store
        self.offers = Offers(self.store)
        self.credentials = LocalCredentials(self.store)
        self._executors: Executors
        self._catalogs: Catalogs
        self._using: Callable[[str], Sequence[str]]

    def connect(
        self, executors: Executors, catalogs: Catalogs, using: Callable[[str], Sequence[str]]
    ) -> None:
        """Serve these executors and catalogs; `using` names the chats that use a profile."""
        self._executors, self._catalogs, self._using = executors, catalogs, using
        executors.watchers.append(self)
        executors.reverse_handlers.update(
            CredentialService(self.store, executors).reverse_handlers()
        )
        self.store.changed = catalogs.invalidate_all

    @returns_deferred
    async def open(self, memory: IStore) -> None:
        """Read what is kept; `memory` is the workspace's, and remembers that it has assignments.

        Nothing that is missing or broken keeps a controller from starting.
        """
        try:
            await self._open(memory)
        except GarconError as error:
            self._log.error("API providers are not available: {why}", why=error.text)

    async def _open(self, memory: IStore) -> None:
        state = (await memory.settings()).get(SETTING)
        if state is None and self._is_fresh:
            # Should the first write fail, the next start must not take this for an upgrade.
            state = _FRESH
            await memory.write([PutSetting(SETTING, _FRESH)])
        ids = [snapshot.id for snapshot in self._executors.snapshots()]
        there = await self.store.open(ids, is_fresh=state == _FRESH, is_known=state == _KEPT)
        if there and state != _KEPT:
            await memory.write([PutSetting(SETTING, _KEPT)])

    def register(self, handlers: Handlers) -> None:
        """Serve the operations."""
        ProviderOperations(
            self.store,
            self._executors,
            self._using,
            self._executors.may_manage,
            os.urandom,
            self._executors.timestamp,
        ).register(handlers)
        Discoveries(self.store, self._executors, self._clock).register(handlers)

    def settled(self) -> Deferred[None]:
        """Fire when every change that was begun is written, or has failed."""
        return self.store.settled()

    # IExecutorWatcher

    def availability_changed(self, executor_id: str) -> None:
        """It may be another process by now, with other agents."""
        self._catalogs.invalidate(executor_id)

    def executor_removed(self, executor_id: str) -> None:
        """Forget what it was allowed; if that cannot be written it is forgotten at the next
        start.
        """
        self._catalogs.forget(executor_id)
        ids = {snapshot.id for snapshot in self._executors.snapshots()}

        def failed(f: Failure) -> None:
            f.trap(GarconError)
            self._log.warn("{executor} is still named in the assignments", executor=executor_id)

        self.store.change_assignments(lambda known: pruned(known, ids, None)).addErrback(failed)
