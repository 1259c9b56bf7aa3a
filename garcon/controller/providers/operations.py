"""The operations on profiles and their assignments (control.md B.1): who may, what is checked, and
what is told of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import define
from msgspec import UNSET, structs

from garcon.contract import operations
from garcon.contract.ids import is_executor_id
from garcon.contract.providers import (
    AssignmentOutcome,
    AssignmentQuery,
    Assignments,
    ManagedProviders,
    NamedProfile,
    OnExecutor,
    ProfileInput,
    Removed,
    RemovedProfile,
    WrittenProvider,
)
from garcon.controller.executors.authority import require_management
from garcon.controller.executors.interfaces import IExecutors
from garcon.controller.handlers import Call, Handlers
from garcon.controller.providers.assignments import assigned, assigned_to, unassigned
from garcon.controller.providers.editing import changed, created, executors_of
from garcon.controller.providers.kept import SaveUncertain
from garcon.controller.providers.profiles import Profile, is_id, shown
from garcon.controller.providers.store import ProviderStore
from garcon.errors import GarconError, validation

PROFILES = 1_024
"""How many profiles a config root can have."""
SHOWN = 3
"""How many chats a refusal names."""


@define(eq=False)
class ProviderOperations:
    """Handlers of the profile and assignment routes.

    `using` names the chats that use a profile, `may_manage` says whether a worker's commands may
    change assignments, `random` makes bytes and `now` tells the time as the contract spells it.
    """

    _store: ProviderStore
    _executors: IExecutors
    _using: Callable[[str], Sequence[str]]
    _may_manage: Callable[[str | None], bool]
    _random: Callable[[int], bytes]
    _now: Callable[[], str]

    def register(self, handlers: Handlers) -> None:
        """Serve the operations."""
        handlers.register(operations.LIST_PROVIDERS, self.listed)
        handlers.register(operations.CREATE_PROVIDER, self.create)
        handlers.register(operations.UPDATE_PROVIDER, self.update)
        handlers.register(operations.DELETE_PROVIDER, self.remove)
        handlers.register(operations.LIST_ASSIGNMENTS, self.listed)
        handlers.register(operations.ASSIGN_PROVIDER, self.assign)
        handlers.register(operations.UNASSIGN_PROVIDER, self.unassign)

    async def listed(self, call: Call[Any, None]) -> ManagedProviders:
        """All profiles, redacted, and who may use them."""
        require_management(call.principal, self._may_manage)
        return await self._managed()

    async def create(self, call: Call[OnExecutor, ProfileInput]) -> WrittenProvider:
        """Keep a new profile, then give it to the executors it is meant for."""
        body = call.body
        meant = [executor_id(call.query.executor_id)]
        if body.executor_ids is not None:
            meant = executors_of(body.executor_ids)
        self._must_exist(meant)
        made: Profile | None = None

        def change(known: Mapping[str, Profile]) -> Mapping[str, Profile]:
            nonlocal made
            if len(known) >= PROFILES:
                raise validation(f"There are {PROFILES} profiles already.")
            made = created(body, self._random(3).hex(), self._now(), known)
            return {**known, made.id: made}

        await self._store.change_profiles(change)
        assert made is not None
        return _written(made, await self._give(meant, made.id))

    async def update(self, call: Call[NamedProfile, ProfileInput]) -> WrittenProvider:
        """Change a profile, and give it to other executors where these are named."""
        body, profile_id = call.body, profile_of(call.query.id)
        meant = None if body.executor_ids is None else executors_of(body.executor_ids)
        self._must_exist(meant or ())

        def change(known: Mapping[str, Profile]) -> Mapping[str, Profile]:
            before = known.get(profile_id)
            if before is None:
                raise unknown_profile()
            after = changed(before, body, self._now())
            return known if after is before else {**known, profile_id: after}

        known = await self._store.change_profiles(change)
        outcome = None if meant is None else await self._give(meant, profile_id)
        return _written(known[profile_id], outcome)

    async def remove(self, call: Call[RemovedProfile, None]) -> Removed:
        """Forget a profile, for all workspaces; an unknown one is forgotten already."""
        profile_id = profile_of(call.query.id)
        if call.query.acknowledge_shared_impact != "true":
            raise validation(
                "acknowledgeSharedImpact=true is required: other workspaces lose the profile too"
            )
        self._must_be_unused(profile_id)
        # First of all nobody may use it any more, whatever comes of the rest.
        await self._store.change_assignments(lambda known: assigned_to(known, (), profile_id))

        def change(known: Mapping[str, Profile]) -> Mapping[str, Profile]:
            self._must_be_unused(profile_id)
            if profile_id not in known:
                return known
            return {key: one for key, one in known.items() if key != profile_id}

        await self._store.change_profiles(change)
        return Removed()

    async def assign(self, call: Call[AssignmentQuery, None]) -> ManagedProviders:
        """Let an executor use a profile; again changes nothing."""
        require_management(call.principal, self._may_manage)
        executor, profile = _pair(call.query)
        self._must_exist([executor])
        if profile not in await self._store.profiles():
            raise unknown_profile()
        return await self._changed(lambda known: self._assigned(known, [executor], profile))

    async def unassign(self, call: Call[AssignmentQuery, None]) -> ManagedProviders:
        """Let an executor use a profile no more; again changes nothing."""
        require_management(call.principal, self._may_manage)
        executor, profile = _pair(call.query)
        self._must_exist([executor])
        return await self._changed(lambda known: unassigned(known, executor, profile))

    async def _changed(self, change: Callable[[Assignments], Assignments]) -> ManagedProviders:
        await self._store.change_assignments(change)
        return await self._managed()

    async def _managed(self) -> ManagedProviders:
        assignments = await self._store.assignments()
        there = await self._store.profiles()
        return ManagedProviders([shown(one) for one in there.values()], assignments)

    async def _give(self, meant: list[str], profile_id: str) -> AssignmentOutcome:
        """Let just these executors use a profile that is saved already (control.md B.5)."""
        try:
            await self._store.change_assignments(
                lambda known: assigned_to(known, self._still_there(meant), profile_id)
            )
        except SaveUncertain as error:
            return AssignmentOutcome(meant, "unknown", error.text)
        except GarconError as error:
            return AssignmentOutcome(meant, "not-assigned", error.text)
        return AssignmentOutcome(meant, "assigned")

    def _assigned(self, known: Assignments, meant: list[str], profile_id: str) -> Assignments:
        for one in self._still_there(meant):
            known = assigned(known, one, profile_id)
        return known

    def _still_there(self, meant: list[str]) -> list[str]:
        """Leave out executors that were deleted while the change waited for its turn."""
        return [one for one in meant if self._exists(one)]

    def _must_exist(self, executor_ids: Sequence[str]) -> None:
        for one in executor_ids:
            self._executors.existing(one)

    def _exists(self, executor_id: str) -> bool:
        try:
            self._executors.existing(executor_id)
        except GarconError:
            return False
        return True

    def _must_be_unused(self, profile_id: str) -> None:
        chats = self._using(profile_id)
        if chats:
            named = ", ".join(chats[:SHOWN]) + (", …" if len(chats) > SHOWN else "")
            raise validation(f"The profile is used by {len(chats)} chats: {named}")


def executor_id(text: str) -> str:
    """Check the id of an executor."""
    if not is_executor_id(text):
        raise validation("executorId must be local or a UUID.")
    return text


def profile_of(text: str) -> str:
    """Check the id of a profile."""
    if not is_id(text):
        raise validation("The id of a profile is required, in the form of one.")
    return text


def unknown_profile() -> GarconError:
    """No such profile."""
    return GarconError("API_PROVIDER_UNAVAILABLE", "There is no such API provider.", status=404)


def _pair(query: AssignmentQuery) -> tuple[str, str]:
    return executor_id(query.executor_id), profile_of(query.api_provider_id)


def _written(profile: Profile, outcome: AssignmentOutcome | None) -> WrittenProvider:
    return WrittenProvider(
        **structs.asdict(shown(profile)), assignment=UNSET if outcome is None else outcome
    )
