"""The settings of one workspace, served, changed and kept (control.md C)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec
from msgspec import structs
from twisted.internet.defer import CancelledError, Deferred, TimeoutError
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from zope.interface import implementer

from garcon.contract import operations
from garcon.contract.catalogs import AgentEntry
from garcon.contract.events import SettingsUpdated
from garcon.contract.settings import (
    ChangeSettings,
    RecentAgent,
    SettingsChanged,
    SettingsSnapshot,
    Telegram,
    TranscriptSearch,
)
from garcon.controller.chats.lanes import Lanes
from garcon.controller.events import Publisher
from garcon.controller.executors.interfaces import IExecutorWatcher
from garcon.controller.handlers import Call, Handlers
from garcon.controller.settings import ui
from garcon.controller.settings.saved import Saved, patched, remembered, without_executor
from garcon.deferreds import Tasks, returns_deferred
from garcon.errors import GarconError
from garcon.store.interfaces import IStore
from garcon.store.records import ChatRecord, PutSetting

KEY = "settings"
CATALOG_WAIT = 2.0
"""Seconds that reading the settings waits for the agents they are resolved against."""

Entries = Callable[[], Deferred[Sequence[AgentEntry]]]


@implementer(IExecutorWatcher)
class Settings:
    """Serve ``/app/settings``.  The store is open before `load`; `stop` ends what is being kept.

    `entries` are Local's agents, and `pinned` the chats that are pinned, in their order.
    """

    _log = Logger()

    def __init__(
        self,
        store: IStore,
        publisher: Publisher,
        clock: IReactorTime,
        project_base: str,
        entries: Entries,
        pinned: Callable[[], list[str]],
    ) -> None:
        self._store = store
        self._publisher = publisher
        self._clock = clock
        self._project_base = project_base
        self._entries = entries
        self._pinned = pinned
        self._saved = Saved()
        self.tasks = Tasks()
        self._lanes = Lanes(self.tasks)

    @returns_deferred
    async def load(self) -> None:
        """Read what is kept.  What is illegible is named in the log, and defaults take its
        place.
        """
        text = (await self._store.settings()).get(KEY)
        if text is None:
            return
        try:
            saved = msgspec.json.decode(text, type=Saved)
        except msgspec.DecodeError as error:
            self._log.error("the settings are illegible, defaults are used: {why}", why=str(error))
            return
        # Nothing is searched before there is a search.
        features = structs.replace(saved.features, transcript_search=TranscriptSearch())
        self._saved = structs.replace(saved, features=features)

    def register(self, handlers: Handlers) -> None:
        """Serve them through `handlers`."""
        handlers.register(operations.READ_SETTINGS, lambda call: self.snapshot())
        handlers.register(operations.CHANGE_SETTINGS, self.change)

    @property
    def saved(self) -> Saved:
        """What is kept at this moment."""
        return self._saved

    def pins_at(self) -> Literal["top", "bottom"]:
        """Where a chat that is pinned goes."""
        return "bottom" if self._saved.ui.get("pinnedInsertPosition") == "bottom" else "top"

    @returns_deferred
    async def snapshot(self) -> SettingsSnapshot:
        """Return all settings (control.md C.2)."""
        entries: Sequence[AgentEntry] = ()
        try:
            entries = await self._entries().addTimeout(CATALOG_WAIT, self._clock)
        except CancelledError:
            raise
        except (GarconError, TimeoutError) as error:
            self._log.warn("settings are resolved without agents: {why}", why=str(error))
        saved = self._saved
        return SettingsSnapshot(
            version=saved.version,
            features=saved.features,
            ui=saved.ui,
            ui_effective=ui.effective(saved.ui, entries),
            paths=saved.paths,
            pinned_chat_ids=self._pinned(),
            recent_agent_settings=saved.recent_agents,
            execution_defaults=saved.execution_defaults,
            project_base_path=self._project_base,
            telegram=Telegram(),
        )

    async def change(self, call: Call[Any, ChangeSettings]) -> SettingsChanged:
        """Apply a patch, whole or not at all; answered once it is durable."""

        def apply(saved: Saved) -> Saved:
            wanted = patched(saved, call.body)
            if wanted.features.transcript_search.enabled:
                raise GarconError(
                    "TRANSCRIPT_SEARCH_ENABLE_FAILED",
                    "Transcript search is not available in this version; it stays off.",
                    status=500,
                )
            return wanted

        return SettingsChanged(success=True, settings=await self._keep(apply))

    def chat_started(self, record: ChatRecord) -> None:
        """Remember what a person started a chat with (decisions.md 28).

        A start that does not say where it comes from counts as a person's: older clients do not.
        """
        if record.origin == "cli" or record.model is None:
            return
        recent = RecentAgent(
            executor_id=record.executor_id,
            agent_id=record.agent_id,
            model=record.model,
            api_provider_id=record.api_provider_id,
            model_endpoint_id=record.model_endpoint_id,
            model_protocol=record.model_protocol,
        )
        self._keep_later(lambda saved: remembered(saved, recent, record.project_path))

    # IExecutorWatcher

    def availability_changed(self, executor_id: str) -> None:
        """Nothing is kept of that."""

    def executor_removed(self, executor_id: str) -> None:
        """Forget the directories and recents of an executor that is gone."""
        self._keep_later(lambda saved: without_executor(saved, executor_id))

    def _keep_later(self, apply: Callable[[Saved], Saved]) -> None:
        self.tasks.spawn("keeping settings", self._kept(apply))

    async def _kept(self, apply: Callable[[Saved], Saved]) -> None:
        try:
            await self._lanes.run(KEY, lambda: self._change(apply))
        except GarconError as error:
            self._log.warn("a recent choice was not kept: {why}", why=error.text)

    def _keep(self, apply: Callable[[Saved], Saved]) -> Deferred[SettingsSnapshot]:
        """Make a change durable, then visible, then known; one at a time, and to the end."""
        return self._lanes.run(KEY, lambda: self._apply(apply))

    async def _apply(self, apply: Callable[[Saved], Saved]) -> SettingsSnapshot:
        return await self._change(apply) or await self.snapshot()

    async def _change(self, apply: Callable[[Saved], Saved]) -> SettingsSnapshot | None:
        """Return what there is now, or None where nothing was changed."""
        changed = apply(self._saved)
        if changed is self._saved:
            return None
        text = msgspec.json.encode(changed).decode()
        await self._store.write([PutSetting(KEY, text)])
        self._saved = changed
        snapshot = await self.snapshot()
        self._publisher.publish(SettingsUpdated(settings=snapshot))
        return snapshot
