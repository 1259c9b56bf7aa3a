"""How a controller's API providers begin with a workspace, and who hears of changes (control.md
A.1, B.8).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import msgspec
from twisted.internet.defer import Deferred, fail

from garcon.contract import operations, rpc
from garcon.controller.catalog import Catalogs
from garcon.controller.providers.kept import StorageUnavailable
from garcon.controller.providers.service import SETTING, Providers
from garcon.controller.providers.store import ASSIGNMENTS_FILE, PROFILES_FILE, ProviderStore
from garcon.local.files import remove_if_there, write_private
from garcon.store.interfaces import NotStored
from garcon.test.controller.executors.cast import ExecutorsCase
from garcon.test.controller.providers.cast import CHAT, StoreCase, profile_body
from garcon.test.controller.providers.test_store import profiles_file
from garcon.testing.inline_threads import InlinePool, InlineReactor
from garcon.testing.memory_store import MemoryStore

PROFILE = "models_00beef"


class ForgetfulStore(MemoryStore):
    """A store whose settings cannot be read."""

    def settings(self) -> Deferred[dict[str, str]]:
        """Fail."""
        return fail(NotStored("it is full"))


class StartTests(StoreCase):
    """One start after the other, over the same files and the same store."""

    def setUp(self) -> None:
        super().setUp()
        self.put(PROFILES_FILE, profiles_file())
        self.memory = MemoryStore()
        self.successResultOf(self.memory.open())

    def start(self, *, is_fresh: bool = False, memory: Any = None) -> None:
        """Start a controller's providers."""
        self.store = self.make_store()
        providers = Providers(self.clock, self.store, is_fresh=is_fresh)
        executors: Any = _Executors()
        providers.connect(executors, Catalogs(executors, self.clock, providers.offers), _nobody)
        self.successResultOf(providers.open(memory or self.memory))

    def remembered(self) -> str | None:
        """Return what the workspace knows of its assignments."""
        return self.successResultOf(self.memory.settings()).get(SETTING)

    def test_a_fresh_workspace(self) -> None:
        """Begins with nothing assigned, and keeps to that."""
        self.start(is_fresh=True)
        self.assertEqual((self.assigned, self.remembered()), ({}, "kept"))
        self.start()
        self.assertEqual(self.assigned, {})

    def test_a_first_upgrade(self) -> None:
        """Assigns everything once; what is taken back stays so."""
        self.start()
        self.assertEqual((self.assigned, self.remembered()), ({"local": [PROFILE]}, "kept"))
        self.put(ASSIGNMENTS_FILE, {"version": 1, "revision": 2, "assignments": {}})
        self.start()
        self.assertEqual(self.assigned, {})

    def test_a_file_that_is_lost_later(self) -> None:
        """Is no upgrade: nobody may use anything, at any further start."""
        self.start()
        remove_if_there(self.path(ASSIGNMENTS_FILE))
        for _ in range(2):
            self.start()
            self.failureResultOf(self.store.assignments(), StorageUnavailable)
            self.assertFalse(remove_if_there(self.path(ASSIGNMENTS_FILE)))

    def test_a_fresh_workspace_whose_first_write_fails(self) -> None:
        """Is none to be upgraded at the next start."""

        def full(path: str, content: bytes) -> None:
            raise OSError("full")

        self.write = full
        self.start(is_fresh=True)
        self.assertEqual(len(self.flushLoggedErrors(OSError)), 1)
        self.assertEqual(self.remembered(), "fresh")
        self.write = write_private
        self.start()
        self.assertEqual((self.assigned, self.remembered()), ({}, "kept"))

    def test_a_file_from_elsewhere(self) -> None:
        """Is taken as it is, whatever the store remembers."""
        self.put(ASSIGNMENTS_FILE, {"version": 1, "revision": 5, "assignments": {}})
        self.start()
        self.assertEqual((self.assigned, self.remembered()), ({}, "kept"))

    def test_a_store_that_cannot_be_asked(self) -> None:
        """Keeps nothing from starting, and nobody gets anything."""
        forgetful = ForgetfulStore()
        self.successResultOf(forgetful.open())
        self.start(memory=forgetful)
        self.failureResultOf(self.store.assignments(), StorageUnavailable)

    def test_broken_profiles(self) -> None:
        """Keep nothing from starting either, and are upgraded once they are repaired."""
        self.put(PROFILES_FILE, b"{")
        self.start()
        self.assertIsNone(self.remembered())
        self.put(PROFILES_FILE, profiles_file())
        self.start()
        self.assertEqual(self.assigned, {"local": [PROFILE]})


class _Executors:
    """Local only."""

    def __init__(self) -> None:
        self.watchers: list[Any] = []
        self.reverse_handlers: dict[str, Any] = {}

    def snapshots(self) -> list[Any]:
        """List them."""
        return [type("Snapshot", (), {"id": "local"})]


def _nobody(profile_id: str) -> list[str]:
    return []


class WatchingTests(ExecutorsCase):
    """Workers that come, change and go."""

    def setUp(self) -> None:
        super().setUp()
        self.save: Callable[[str, bytes], None] = write_private
        self.profiles = self.make_store()
        self.providers = Providers(self.clock, self.profiles, is_fresh=True)
        self.catalogs = Catalogs(self.executors, self.clock, self.providers.offers)
        self.providers.connect(self.executors, self.catalogs, _nobody)
        memory = MemoryStore()
        self.successResultOf(memory.open())
        self.successResultOf(self.providers.open(memory))
        self.providers.register(self.handlers)
        self.executor_id = self.create()
        status, answer = self.ask(
            operations.CREATE_PROVIDER, profile_body(executorIds=["local", self.executor_id])
        )
        self.assertEqual(status, 201, answer)
        self.profile = answer["id"]

    def make_store(self) -> ProviderStore:
        """Make the store of a process."""
        return ProviderStore(
            InlineReactor(),
            self.workspace,
            self.workspace,
            pool=InlinePool(),
            write=lambda path, content: self.save(path, content),
        )

    def assigned(self) -> dict[str, list[str]]:
        """Return who may use what, on disk."""
        with open(os.path.join(self.workspace, ASSIGNMENTS_FILE), "rb") as file:
            found: dict[str, list[str]] = msgspec.json.decode(file.read())["assignments"]
        return found

    def test_credentials_are_served(self) -> None:
        """Over every link, by the method's name."""
        self.assertIn(rpc.RESOLVE_CREDENTIAL.name, self.executors.reverse_handlers)

    def test_a_deleted_executor_is_forgotten(self) -> None:
        """In the file too; whoever stays keeps what is his."""
        self.assertEqual(set(self.assigned()), {"local", self.executor_id})
        self.ask(operations.DELETE_EXECUTOR, None, self.executor_id)
        self.successResultOf(self.providers.settled())
        self.assertEqual(self.assigned(), {"local": [self.profile]})

    def test_a_deletion_that_cannot_be_written(self) -> None:
        """Is made up for at the next start."""

        def full(path: str, content: bytes) -> None:
            raise OSError("full")

        self.save = full
        self.ask(operations.DELETE_EXECUTOR, None, self.executor_id)
        self.assertEqual(len(self.flushLoggedErrors(OSError)), 1)
        self.save = write_private
        self.successResultOf(self.make_store().open(["local"], is_fresh=False, is_known=True))
        self.assertEqual(self.assigned(), {"local": [self.profile]})

    def test_a_worker_that_comes_back_is_asked_anew(self) -> None:
        """It may be another process, with other agents; meanwhile its catalog is kept."""
        link = self.links[self.executor_id]
        for generation in ("g1", "g2"):
            held = link.ready(generation)
            asking = Deferred.fromCoroutine(self.catalogs.catalog(self.executor_id))
            held.waiting(rpc.CATALOG).d.callback(rpc.CatalogSnapshot([CHAT]))
            catalog = self.successResultOf(asking)
            self.assertEqual([one.id for one in catalog.agents], [CHAT.id])
            again = Deferred.fromCoroutine(self.catalogs.catalog(self.executor_id))
            self.assertIs(self.successResultOf(again), catalog)
            link.lose()
