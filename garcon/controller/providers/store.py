"""What a controller keeps of API providers: the profiles of its config root, with their keys, and
which executor of its workspace may use which of them (control.md B.8).

Changes come one after the other and each runs to its end, whether somebody still waits for it or
not.  Where the assignments cannot be read, nobody may use anything.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from twisted.internet.defer import Deferred, DeferredLock
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.python.threadpool import ThreadPool

from garcon.contract.providers import Assignments, ResolvedEndpoint
from garcon.controller.providers import assignments, profiles
from garcon.controller.providers.assignments import everything, pruned
from garcon.controller.providers.former import FormerSecrets
from garcon.controller.providers.kept import KeptFile, StorageUnavailable
from garcon.controller.providers.profiles import Profile, resolved
from garcon.deferreds import Waiters, returns_deferred
from garcon.errors import GarconError
from garcon.local.files import read_private, write_private

T = TypeVar("T")

PROFILES_FILE = "api-providers.json"
ASSIGNMENTS_FILE = "api-provider-assignments.json"


class ProviderStore:
    """Both files.  Owned by the controller, which waits for `settled` at its end."""

    _log = Logger()

    def __init__(
        self,
        reactor: Any,
        config_dir: str,
        workspace_dir: str,
        *,
        pool: ThreadPool | None = None,
        read: Callable[[str], bytes] = read_private,
        write: Callable[[str, bytes], None] = write_private,
    ) -> None:
        self._profiles: KeptFile[dict[str, Profile]] = KeptFile(
            reactor,
            os.path.join(config_dir, PROFILES_FILE),
            profiles.decode,
            profiles.encode,
            pool=pool,
            read=read,
            write=write,
        )
        self._assignments: KeptFile[Assignments] = KeptFile(
            reactor,
            os.path.join(workspace_dir, ASSIGNMENTS_FILE),
            assignments.decode,
            assignments.encode,
            pool=pool,
            read=read,
            write=write,
        )
        self._lock = DeferredLock()
        self._working = 0
        self._at_rest: Waiters[None] = Waiters()
        self.former = FormerSecrets()
        self.changed: Callable[[], None] = lambda: None
        """Called after each change, before whoever asked for it hears that it was made."""

    # -- start and end --

    def open(
        self, executor_ids: Collection[str], *, is_fresh: bool, is_known: bool
    ) -> Deferred[bool]:
        """Read both files, and begin the assignments of a workspace that never had any.

        A fresh workspace begins with none.  One that is older than assignments lets every executor
        use every profile, once: `is_known` says that it has had assignments, so that a file which
        is gone stays gone.  Fires with whether there are assignments now; never fails.
        """
        return self._alone(lambda: self._open(executor_ids, is_fresh, is_known))

    async def _open(self, executor_ids: Collection[str], is_fresh: bool, is_known: bool) -> bool:
        try:
            known = await self._assignments.load()
            if known is None and is_known:
                self._log.error(
                    "{path} is gone: no executor may use any API provider",
                    path=self._assignments.path,
                )
                return False
            there = await self._known_profiles()
            if known is None:
                begun = Assignments() if is_fresh else everything(executor_ids, there)
                await self._assignments.save(begun)
            elif (kept := pruned(known, executor_ids, there)) is not known:
                await self._assignments.save(kept)
        except GarconError as error:
            # Said by the file itself; whoever needs it asks again.
            self._log.debug("API providers are not available yet: {why}", why=error.text)
        return self._assignments.held is not None

    @returns_deferred
    async def settled(self) -> None:
        """Fire when every change that was begun has ended."""
        while self._working:
            await self._at_rest.wait()

    # -- looking --

    @returns_deferred
    async def profiles(self) -> Mapping[str, Profile]:
        """Return all profiles by id; fails with `StorageUnavailable`."""
        if self._profiles.held is not None:
            return self._profiles.held
        return await self._alone(self._known_profiles)

    @returns_deferred
    async def assignments(self) -> Assignments:
        """Return the workspace's assignments; fails with `StorageUnavailable`."""
        if self._assignments.held is not None:
            return self._assignments.held
        return await self._alone(self._known_assignments)

    @returns_deferred
    async def assigned(self, executor_id: str) -> Sequence[Profile]:
        """Return the profiles that an executor may use, in the order they were made; fails with
        `StorageUnavailable`.
        """
        allowed = (await self.assignments()).assignments.get(executor_id, ())
        if not allowed:
            return ()
        wanted = set(allowed)
        return [one for one in (await self.profiles()).values() if one.id in wanted]

    @returns_deferred
    async def resolve(
        self, executor_id: str, profile_id: str, endpoint_id: str
    ) -> ResolvedEndpoint:
        """Return an endpoint, key included, for an executor that may use it.

        ``API_PROVIDER_UNAVAILABLE`` (404) where it may not, or where there is none.
        """
        await self.assignments()
        await self.profiles()
        return self.resolve_now(executor_id, profile_id, endpoint_id)

    def resolve_now(self, executor_id: str, profile_id: str, endpoint_id: str) -> ResolvedEndpoint:
        """The same, of what is held at this moment."""
        allowed, there = self._assignments.held, self._profiles.held
        if allowed is None or there is None:
            raise StorageUnavailable("What is kept of API providers has to be read again.")
        profile = there.get(profile_id)
        if profile is None or profile_id not in allowed.assignments.get(executor_id, ()):
            raise unavailable()
        endpoint = profile.endpoint(endpoint_id)
        if endpoint is None:
            raise unavailable()
        return resolved(profile, endpoint)

    # -- changing --

    def change_profiles(
        self, change: Callable[[Mapping[str, Profile]], Mapping[str, Profile]]
    ) -> Deferred[Mapping[str, Profile]]:
        """Keep what `change` makes of the profiles, and fire with it; the same object is no
        change.  Fails as `change` does, and with `StorageUnavailable`.
        """

        async def work() -> Mapping[str, Profile]:
            before = await self._known_profiles()
            after = change(before)
            if after is not before:
                self.former.note(before.values(), after.values())
                await self._saving(self._profiles.save(dict(after)))
            return after

        return self._alone(work)

    def change_assignments(
        self, change: Callable[[Assignments], Assignments]
    ) -> Deferred[Assignments]:
        """Keep what `change` makes of the assignments; otherwise as `change_profiles`."""

        async def work() -> Assignments:
            before = await self._known_assignments()
            after = change(before)
            if after is not before:
                await self._saving(self._assignments.save(after))
            return after

        return self._alone(work)

    async def _saving(self, save: Coroutine[Deferred[Any], Any, None]) -> None:
        try:
            await save
        finally:
            # Also after a failure: what a save leaves in doubt is not what was shown before.
            self.changed()

    async def _known_profiles(self) -> dict[str, Profile]:
        found = await self._profiles.load()
        if found is None:
            found = self._profiles.held = {}
        return found

    async def _known_assignments(self) -> Assignments:
        found = await self._assignments.load()
        if found is None:
            raise StorageUnavailable("Which executor may use which API provider is not known.")
        return found

    def _alone(self, work: Callable[[], Coroutine[Deferred[Any], Any, T]]) -> Deferred[T]:
        """Do one piece of work after all others; it goes on when nobody waits for it any more."""
        self._working += 1
        waiter: Deferred[T] = Deferred(lambda _: None)
        doing: Deferred[T] = self._lock.run(lambda: Deferred.fromCoroutine(work()))

        def ended(result: T | Failure) -> None:
            self._working -= 1
            if not waiter.called:
                waiter.callback(result)
            elif isinstance(result, Failure):
                self._log.failure("a change that nobody waits for failed", failure=result)
            if not self._working:
                self._at_rest.fire(None)

        doing.addBoth(ended)
        return waiter


def unavailable() -> GarconError:
    """There is no such endpoint, or not for whoever asks."""
    return GarconError(
        "API_PROVIDER_UNAVAILABLE",
        "That API provider's endpoint does not exist or is not assigned to the executor.",
        status=404,
    )
