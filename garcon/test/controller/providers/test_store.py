"""Both files over the life of a process: fresh, upgraded, missing, broken, uncertain (control.md
B.8, B.9).
"""

from __future__ import annotations

import os
import stat
from typing import Any

from twisted.internet.defer import Deferred

from garcon.contract.providers import Assignments
from garcon.controller.providers.assignments import assigned, encode
from garcon.controller.providers.kept import SaveUncertain, StorageUnavailable
from garcon.controller.providers.store import ASSIGNMENTS_FILE, PROFILES_FILE
from garcon.errors import GarconError
from garcon.local.files import LARGEST, DirectoryNotSynced, write_private
from garcon.test.controller.providers.cast import OTHER, WORKER, StoreCase
from garcon.test.controller.providers.test_profiles import a_profile, a_row

KNOWN = {"version": 1, "revision": 4, "assignments": {"local": ["models_00beef"]}}


def profiles_file(*rows: Any) -> dict[str, Any]:
    """Return the content of a profiles' file."""
    return {"version": 1, "apiProviders": list(rows or [a_row()])}


class OpenTests(StoreCase):
    """How a process begins."""

    def test_a_fresh_workspace_starts_with_an_empty_map(self) -> None:
        """Whatever profiles there are in the config root."""
        self.put(PROFILES_FILE, profiles_file())
        self.assertTrue(self.open())
        self.assertEqual(
            self.on_disk(ASSIGNMENTS_FILE), {"version": 1, "revision": 0, "assignments": {}}
        )

    def test_on_first_upgrade_every_executor_gets_every_profile(self) -> None:
        """Once: the file is there from then on."""
        row = a_row()
        other = {**row, "id": "second", "endpoints": [{**row["endpoints"][0], "id": "e2"}]}
        self.put(PROFILES_FILE, profiles_file(row, other))
        self.assertTrue(self.open("local", WORKER, is_fresh=False))
        both = ["models_00beef", "second"]
        self.assertEqual(self.assigned, {"local": both, WORKER: both})
        self.assertEqual(self.on_disk(ASSIGNMENTS_FILE)["revision"], 1)
        self.store = self.make_store()
        self.open("local", WORKER, OTHER, is_fresh=False)
        self.assertEqual(set(self.assigned), {"local", WORKER})

    def test_a_missing_file_fails_closed(self) -> None:
        """Where there was one before, nobody may use anything and nothing is written."""
        self.put(PROFILES_FILE, profiles_file())
        self.assertFalse(self.open(is_fresh=False, is_known=True))
        self.assertEqual(self.writes, [])
        self.assert_closed()

    def test_a_broken_file_fails_closed(self) -> None:
        """And is left as it is."""
        self.put(PROFILES_FILE, profiles_file())
        for content in (b"{", b"[]", b'{"version": 2}'):
            self.put(ASSIGNMENTS_FILE, content)
            self.store = self.make_store()
            self.assertFalse(self.open(is_fresh=False, is_known=True))
            self.assert_closed()
            with open(self.path(ASSIGNMENTS_FILE), "rb") as file:
                self.assertEqual(file.read(), content)

    def test_a_file_that_others_can_read_fails_closed(self) -> None:
        """As it may not be ours any more."""
        self.put(PROFILES_FILE, profiles_file())
        self.put(ASSIGNMENTS_FILE, KNOWN)
        os.chmod(self.path(ASSIGNMENTS_FILE), 0o644)
        self.assertFalse(self.open(is_known=True))
        self.assert_closed()

    def test_broken_profiles_fail_closed(self) -> None:
        """No upgrade is made of them, nobody resolves anything, and they are not overwritten."""
        self.put(PROFILES_FILE, b"{")
        self.assertFalse(self.open(is_fresh=False))
        self.assertEqual(self.writes, [])
        self.put(ASSIGNMENTS_FILE, KNOWN)
        for work in (
            self.store.profiles(),
            self.store.assigned("local"),
            self.store.change_profiles(lambda known: {}),
        ):
            self.failureResultOf(work, StorageUnavailable)
        self.assertEqual(self.writes, [])

    def assert_closed(self) -> None:
        """Assert that nobody may use anything."""
        resolving = self.store.resolve("local", "models_00beef", "models_00beef_openai")
        for work in (
            resolving,
            self.store.assignments(),
            self.store.assigned("local"),
            self.store.change_assignments(lambda known: assigned(known, "local", "p1")),
        ):
            error = self.failureResultOf(work, StorageUnavailable).value
            assert isinstance(error, GarconError)
            self.assertEqual((error.code, error.status), ("API_PROVIDER_STORAGE_UNAVAILABLE", 503))
        self.assertEqual(len(self.successResultOf(self.store.profiles())), 1)

    def test_a_repaired_file_is_taken_up(self) -> None:
        """Without another start."""
        self.put(ASSIGNMENTS_FILE, b"{")
        self.assertFalse(self.open(is_known=True))
        self.put(ASSIGNMENTS_FILE, KNOWN)
        found = self.successResultOf(self.store.assignments())
        self.assertEqual(found, Assignments(4, KNOWN["assignments"]))  # type: ignore[arg-type]

    def test_deleted_executors_and_profiles_are_pruned(self) -> None:
        """At a start, should that have failed before."""
        self.put(PROFILES_FILE, profiles_file())
        everywhere = ["models_00beef", "gone"]
        self.put(
            ASSIGNMENTS_FILE,
            {**KNOWN, "assignments": {"local": everywhere, OTHER: everywhere}},
        )
        self.open("local", WORKER, is_known=True)
        self.assertEqual(self.assigned, {"local": ["models_00beef"]})

    def test_a_first_write_that_fails(self) -> None:
        """Leaves a workspace without assignments, and the next start begins again."""

        def full(path: str, content: bytes) -> None:
            raise OSError("full")

        self.write = full
        self.assertFalse(self.open())
        self.assertEqual(len(self.flushLoggedErrors(OSError)), 1)
        self.failureResultOf(self.store.assignments(), StorageUnavailable)
        self.write = write_private
        self.store = self.make_store()
        self.assertTrue(self.open())


class ChangeTests(StoreCase):
    """What a change does to the disk."""

    def setUp(self) -> None:
        super().setUp()
        self.put(PROFILES_FILE, profiles_file())
        self.open()
        self.writes.clear()
        self.told = 0
        self.store.changed = self.tell

    def tell(self) -> None:
        """Count a change."""
        self.told += 1

    def assign(self, profile: str = "models_00beef") -> Deferred[Assignments]:
        """Let Local use a profile."""
        return self.store.change_assignments(lambda known: assigned(known, "local", profile))

    def test_files_are_private(self) -> None:
        """Readable by their owner only."""
        self.successResultOf(self.assign())
        self.successResultOf(self.store.change_profiles(lambda known: {}))
        for name in (PROFILES_FILE, ASSIGNMENTS_FILE):
            self.assertEqual(stat.S_IMODE(os.stat(self.path(name)).st_mode), 0o600)
        self.assertEqual(sorted(os.listdir(self.config)), [PROFILES_FILE])
        self.assertEqual(sorted(os.listdir(self.workspace)), [ASSIGNMENTS_FILE])

    def test_no_change_writes_nothing(self) -> None:
        """Of neither file, and tells nobody."""
        self.successResultOf(self.assign())
        self.assertEqual((self.writes, self.told), ([ASSIGNMENTS_FILE], 1))
        self.successResultOf(self.assign())
        self.successResultOf(self.store.change_profiles(lambda known: known))
        self.assertEqual((self.writes, self.told), ([ASSIGNMENTS_FILE], 1))

    def test_changes_come_one_after_the_other(self) -> None:
        """Each sees what the one before has made, also when nobody waits for that any more."""
        self.pool.held = True
        first, second = self.assign("p1"), self.assign("p2")
        first.cancel()
        self.failureResultOf(first)
        settled = self.store.settled()
        self.assertEqual(len(self.pool), 1)
        self.pool.run_next()
        self.assertNoResult(settled)
        self.pool.run_next()
        self.assertEqual(self.successResultOf(second), Assignments(2, {"local": ["p1", "p2"]}))
        self.successResultOf(settled)

    def test_a_write_that_fails_changes_nothing(self) -> None:
        """It can be tried again."""

        def full(path: str, content: bytes) -> None:
            raise OSError("full")

        self.write = full
        error = self.failureResultOf(self.assign(), StorageUnavailable).value
        assert isinstance(error, GarconError)
        self.assertTrue(error.retryable)
        self.assertEqual(self.successResultOf(self.store.assignments()), Assignments())
        self.assertEqual(len(self.flushLoggedErrors(OSError)), 1)
        self.write = write_private
        self.successResultOf(self.assign())

    def test_an_uncertain_write_drops_the_copy_in_memory(self) -> None:
        """What is on disk is read again by whoever asks next."""

        def unsynced(path: str, content: bytes) -> None:
            write_private(path, content)
            raise DirectoryNotSynced(5, "lost")

        self.write = unsynced
        error = self.failureResultOf(self.assign(), SaveUncertain).value
        assert isinstance(error, GarconError)
        self.assertEqual(
            (error.code, error.status, error.retryable),
            ("API_PROVIDER_STORAGE_UNAVAILABLE", 503, False),
        )
        self.assertEqual(self.told, 1)
        self.assertRaises(
            StorageUnavailable,
            self.store.resolve_now,
            "local",
            "models_00beef",
            "models_00beef_openai",
        )
        self.assertEqual(len(self.flushLoggedErrors(DirectoryNotSynced)), 1)
        self.put(ASSIGNMENTS_FILE, encode(Assignments(9, {WORKER: ["models_00beef"]})))
        found = self.successResultOf(self.store.assignments())
        self.assertEqual(found.revision, 9)

    def test_more_than_can_be_read_again_is_not_written(self) -> None:
        """It is refused, and nothing is changed."""
        label = "x" * LARGEST
        change = self.store.change_profiles(lambda known: {"p": a_profile(label=label)})
        error = self.failureResultOf(change, GarconError).value
        assert isinstance(error, GarconError)
        self.assertEqual(error.code, "VALIDATION_FAILED")
        self.assertEqual(self.writes, [])
        there = self.successResultOf(self.store.profiles())
        self.assertEqual(list(there), ["models_00beef"])


class ResolveTests(StoreCase):
    """Who gets which endpoint."""

    def setUp(self) -> None:
        super().setUp()
        self.put(PROFILES_FILE, profiles_file())
        self.put(ASSIGNMENTS_FILE, KNOWN)
        self.open(is_known=True)

    def refused(self, *asked: str) -> None:
        """Assert that nothing is given."""
        for error in (
            self.failureResultOf(self.store.resolve(*asked), GarconError).value,
            self.assertRaises(GarconError, self.store.resolve_now, *asked),
        ):
            assert isinstance(error, GarconError)
            self.assertEqual((error.code, error.status), ("API_PROVIDER_UNAVAILABLE", 404))

    def test_an_executor_gets_what_is_assigned_to_it(self) -> None:
        """With its key."""
        asked = "local", "models_00beef", "models_00beef_openai"
        found = self.successResultOf(self.store.resolve(*asked))
        self.assertEqual(found, self.store.resolve_now(*asked))
        self.assertEqual(found.api_key, a_profile().endpoints[0].api_key)

    def test_and_nothing_else(self) -> None:
        """Not another's, not an unknown profile's, not an endpoint of another profile."""
        self.refused(WORKER, "models_00beef", "models_00beef_openai")
        self.refused("local", "unknown", "models_00beef_openai")
        self.refused("local", "models_00beef", "unknown")

    def test_what_is_taken_back_is_not_given_any_more(self) -> None:
        """From that moment."""
        self.successResultOf(self.store.change_assignments(lambda known: Assignments(5, {})))
        self.refused("local", "models_00beef", "models_00beef_openai")

    def test_profiles_are_listed_in_the_order_they_were_made(self) -> None:
        """Those that are assigned."""
        for executor_id, expected in (("local", ["models_00beef"]), (WORKER, [])):
            found = self.successResultOf(self.store.assigned(executor_id))
            self.assertEqual([one.id for one in found], expected)
