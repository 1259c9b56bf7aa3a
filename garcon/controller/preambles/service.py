"""The preambles of one workspace: served, changed, kept, chosen for its chats (control.md D)."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from typing import Any
from uuid import uuid4

import msgspec
from msgspec import structs
from twisted.internet.defer import TimeoutError
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from garcon.contract import operations
from garcon.contract.limits import INTERACTIVE_READ
from garcon.contract.preambles import (
    CreatePreamble,
    DeletePreamble,
    PreambleInput,
    Preambles,
    PreamblesChanged,
    ProjectRule,
    ProjectScope,
    ReorderPreambles,
    ReplacePreamble,
)
from garcon.controller.chats.lanes import Lanes
from garcon.controller.executors.interfaces import IExecutors
from garcon.controller.handlers import Call, Handlers
from garcon.controller.preambles.catalog import Catalog, checked
from garcon.controller.preambles.matching import (
    Place,
    defaults,
    executor_of,
    text_of,
    unfit,
)
from garcon.controller.transcripts.times import iso
from garcon.deferreds import Tasks, returns_deferred
from garcon.errors import GarconError
from garcon.store.interfaces import IStore
from garcon.store.records import ChatRecord, PutSetting

KEY = "preambles"

_PATH_CODES = {
    "PROJECT_PATH_OUTSIDE_BASE": "PREAMBLE_PROJECT_PATH_OUTSIDE_BASE",
    "PROJECT_PATH_NOT_FOUND": "PREAMBLE_PROJECT_PATH_NOT_FOUND",
    "PROJECT_PATH_NOT_DIRECTORY": "PREAMBLE_PROJECT_PATH_NOT_DIRECTORY",
}
"""What an executor says of a directory, as a preamble's editor is told; anything else is
``…_INACCESSIBLE``.
"""

Apply = Callable[[Catalog], Catalog]


class PreambleService:
    """Serve ``/preambles``.  The store is open before `load`; `tasks` are what is being kept."""

    _log = Logger()

    def __init__(
        self,
        store: IStore,
        executors: IExecutors,
        clock: IReactorTime,
        *,
        wall_clock: Callable[[], float] = time.time,
        new_id: Callable[[], str] = lambda: str(uuid4()),
    ) -> None:
        self._store = store
        self._executors = executors
        self._clock = clock
        self._wall_clock = wall_clock
        self._new_id = new_id
        self._catalog = Catalog()
        self.tasks = Tasks()
        self._lanes = Lanes(self.tasks)

    @returns_deferred
    async def load(self) -> None:
        """Read what is kept; what is illegible is named in the log, and there are none then."""
        text = (await self._store.settings()).get(KEY)
        if text is None:
            return
        try:
            self._catalog = msgspec.json.decode(text, type=Catalog)
        except msgspec.DecodeError as error:
            self._log.error("the preambles are illegible, none applies: {why}", why=str(error))

    def register(self, handlers: Handlers) -> None:
        """Serve the operations."""
        for operation, handler in (
            (operations.LIST_PREAMBLES, self.read),
            (operations.CREATE_PREAMBLE, self.create),
            (operations.REPLACE_PREAMBLE, self.replace),
            (operations.DELETE_PREAMBLE, self.delete),
            (operations.REORDER_PREAMBLES, self.reorder),
        ):
            handlers.register(operation, handler)

    def read(self, call: Call[Any, None]) -> Preambles:
        """Return the catalog."""
        return self._catalog.shown()

    async def create(self, call: Call[Any, CreatePreamble]) -> PreamblesChanged:
        """Add a preamble."""
        body = call.body
        self._catalog.must_be(body.expected_revision)
        given = await self._resolved(checked(body.preamble))
        return await self._change(
            lambda catalog: catalog.created(
                body.expected_revision, given, self._now(), self._new_id
            )
        )

    async def replace(self, call: Call[Any, ReplacePreamble]) -> PreamblesChanged:
        """Change a preamble.  Directories that it had already are not asked about again: their
        executor may be away, or gone.
        """
        body = call.body
        number = self._catalog.number(body.expected_revision, body.id)
        had = self._catalog.preambles[number].scope
        rules = had.rules if isinstance(had, ProjectScope) else []
        places = {(executor_of(rule), rule.project_path) for rule in rules}
        given = await self._resolved(checked(body.preamble), places)
        return await self._change(
            lambda catalog: catalog.replaced(body.expected_revision, body.id, given, self._now())
        )

    async def delete(self, call: Call[Any, DeletePreamble]) -> PreamblesChanged:
        """Take a preamble away."""
        body = call.body
        return await self._change(lambda catalog: catalog.deleted(body.expected_revision, body.id))

    async def reorder(self, call: Call[Any, ReorderPreambles]) -> PreamblesChanged:
        """Bring the preambles into another order."""
        body = call.body
        return await self._change(
            lambda catalog: catalog.reordered(body.expected_revision, body.ordered_preamble_ids)
        )

    # For chats

    def selected(
        self, ids: Sequence[str] | None, place: Place, agent_id: str, tags: Sequence[str]
    ) -> list[str]:
        """Return the selection of a new chat: the one that is named, else the defaults.

        One that cannot apply is ``PREAMBLE_SELECTION_COMPOSITION_INVALID`` (422), or
        ``PREAMBLE_NOT_FOUND`` (404) where there is none of that id; `details` has the reasons.
        """
        preambles = self._catalog.preambles
        if ids is None:
            return defaults(preambles, place, agent_id, tags)
        reasons = unfit(preambles, ids, place)
        if reasons:
            details = ", ".join(f"{one}: {why}" for one, why in list(reasons.items())[:10])
            if "missing" in reasons.values():
                raise GarconError(
                    "PREAMBLE_NOT_FOUND",
                    "A preamble of the selection does not exist.",
                    status=404,
                    details=details,
                )
            raise GarconError(
                "PREAMBLE_SELECTION_COMPOSITION_INVALID",
                "A preamble of the selection cannot apply to this chat.",
                status=422,
                details=details,
            )
        return list(dict.fromkeys(ids))

    def text(self, record: ChatRecord) -> str | None:
        """Return what a chat's agent is told ahead of everything else, or None."""
        ids = record.ordered_preamble_ids
        if not ids:
            return None
        place = Place(record.executor_id, record.project_key)
        return text_of(self._catalog.preambles, ids, place, record.chat_id)

    # Inside

    async def _change(self, apply: Apply) -> PreamblesChanged:
        return await self._lanes.run(KEY, lambda: self._apply(apply))

    async def _apply(self, apply: Apply) -> PreamblesChanged:
        """Make a change durable, then visible; one at a time, and to the end."""
        changed = apply(self._catalog)
        await self._store.write([PutSetting(KEY, msgspec.json.encode(changed).decode())])
        self._catalog = changed
        return PreamblesChanged(snapshot=changed.shown())

    async def _resolved(
        self, given: PreambleInput, known: Collection[tuple[str, str]] = ()
    ) -> PreambleInput:
        """Have the executors resolve the directories of the rules, but for those that are known."""
        if not isinstance(given.scope, ProjectScope):
            return given
        rules = [
            rule if (executor_of(rule), rule.project_path) in known else await self._rule(rule)
            for rule in given.scope.rules
        ]
        resolved = structs.replace(given, scope=ProjectScope(rules))
        # Two spellings may have been one directory.
        return checked(resolved)

    async def _rule(self, rule: ProjectRule) -> ProjectRule:
        executor_id = executor_of(rule)
        runtime = self._executors.runtime(executor_id)
        try:
            found = await runtime.inspect_project(rule.project_path).addTimeout(
                INTERACTIVE_READ, self._clock
            )
        except (GarconError, TimeoutError) as error:
            code = error.code if isinstance(error, GarconError) else ""
            raise GarconError(
                _PATH_CODES.get(code, "PREAMBLE_PROJECT_PATH_INACCESSIBLE"),
                f"The directory {rule.project_path} cannot be used: {error}",
            ) from None
        return structs.replace(rule, project_path=found.project_key)

    def _now(self) -> str:
        return iso(self._wall_clock())
