"""``executors.json`` (control.md E.9) and its uncertain save (E.8)."""

from __future__ import annotations

import json
import os
import stat
from tempfile import mkdtemp
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.connection_url import new_secret
from garcon.controller.executors.records import ExecutorRecord, Inbound, Outbound
from garcon.controller.executors.registry import Registry, SaveUncertain
from garcon.errors import GarconError, StartupError
from garcon.local.files import DirectoryNotSynced, InsecureFile, write_private

ID = "1a111111-2222-4333-8444-555555555555"
OTHER = "2b111111-2222-4333-8444-555555555555"
SECRET = new_secret(b"1" * 32)


def record(executor_id: str = ID, secret: str = SECRET, label: str = "one") -> ExecutorRecord:
    return ExecutorRecord(
        id=executor_id,
        label=label,
        enabled=True,
        secret=secret,
        no_tls=False,
        connection=Inbound(None),
    )


def entry(**more: Any) -> dict[str, Any]:
    """An entry as the file holds it, with only what must be there."""
    return {
        "id": ID,
        "label": "one",
        "enabled": True,
        "secret": SECRET,
        "noTls": False,
        "connection": {"kind": "executor-connects", "advertisedUrl": None},
    } | more


class RegistryTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.workspace = mkdtemp()
        self.path = os.path.join(self.workspace, "executors.json")

    def put(self, value: object) -> None:
        write_private(self.path, json.dumps(value).encode())

    def loaded(self) -> Registry:
        registry = Registry(self.workspace)
        registry.load()
        return registry

    def broken(self) -> None:
        """Loading fails with the backup's path, and the file is there, whole."""
        with open(self.path, "rb") as f:
            content = f.read()
        error = self.assertRaises(StartupError, self.loaded)
        backup = error.text.rpartition(" ")[2]
        self.assertTrue(os.path.isabs(backup), error.text)
        self.assertNotIn(SECRET, error.text)
        with open(backup, "rb") as f:
            self.assertEqual(f.read(), content)
        self.assertFalse(os.path.exists(self.path))

    def test_no_file_is_no_executors(self) -> None:
        """A fresh workspace has none."""
        self.assertEqual(self.loaded().all(), [])

    def test_round_trip(self) -> None:
        """What is put is read again, in order, from a file only its owner can read."""
        registry = self.loaded()
        outbound = ExecutorRecord(
            id=OTHER,
            label="two",
            enabled=False,
            secret=new_secret(b"2" * 32),
            no_tls=True,
            allow_controller_cli=True,
            allow_executor_management=True,
            allow_unverified_tls=True,
            connection=Outbound("wss://h/executor"),
        )
        registry.put(record())
        registry.put(outbound)
        self.assertEqual(self.loaded().all(), [record(), outbound])
        self.assertEqual(stat.S_IMODE(os.stat(self.path).st_mode), 0o600)
        registry.remove(ID)
        self.assertEqual(self.loaded().all(), [outbound])

    def test_file_shape(self) -> None:
        """Version 1, and each entry with the contract's names."""
        self.loaded().put(record())
        with open(self.path, encoding="utf-8") as f:
            content = json.load(f)
        self.assertEqual(content["version"], 1)
        self.assertEqual(
            set(content["executors"][0]),
            {
                "id",
                "label",
                "enabled",
                "secret",
                "noTls",
                "allowControllerCli",
                "allowExecutorManagement",
                "allowUnverifiedTls",
                "connection",
            },
        )

    def test_absent_grants_are_off(self) -> None:
        """As are absent TLS exceptions."""
        self.put({"version": 1, "executors": [entry()]})
        loaded = self.loaded().all()[0]
        self.assertEqual(
            (
                loaded.allow_controller_cli,
                loaded.allow_executor_management,
                loaded.allow_unverified_tls,
            ),
            (False, False, False),
        )

    def test_no_tls_is_required(self) -> None:
        """An entry without `noTls` breaks the file."""
        whole = entry()
        del whole["noTls"]
        self.put({"version": 1, "executors": [whole]})
        self.broken()

    def test_broken_files_are_quarantined(self) -> None:
        """Whatever is wrong with them; nothing of them is lost."""
        other = entry(id=OTHER)
        values: list[object] = [
            [],
            {"version": 1},
            {"version": 0.5, "executors": []},
            {"version": 1, "executors": [entry(secret="password")]},
            {"version": 1, "executors": [entry(secret="A" * 42 + "B")]},
            {"version": 1, "executors": [entry(id="local")]},
            {"version": 1, "executors": [entry(label="")]},
            {"version": 1, "executors": [entry(label="x" * 101)]},
            {"version": 1, "executors": [entry(connection={"kind": "other"})]},
            {"version": 1, "executors": [entry(), other]},
            {"version": 1, "executors": [entry(), entry(secret=new_secret(b"2" * 32))]},
            {"version": 1, "executors": [entry(allowUnverifiedTls=True)]},
            {
                "version": 1,
                "executors": [
                    entry(connection={"kind": "controller-connects", "targetUrl": "ws://h/"})
                ],
            },
        ]
        for value in values:
            self.put(value)
            self.broken()
        with open(self.path, "wb") as f:
            f.write(b"\xff{")
        os.chmod(self.path, 0o600)
        self.broken()

    def test_a_second_quarantine_keeps_the_first(self) -> None:
        """Backups never replace one another."""
        for _ in range(3):
            self.put([])
            self.broken()
        self.assertEqual(len(os.listdir(self.workspace)), 3)

    def test_labels_at_100_and_old_duplicates_load(self) -> None:
        """Labels that would be refused today stay readable."""
        twin = entry(id=OTHER, secret=new_secret(b"2" * 32), label="x" * 100)
        self.put({"version": 1, "executors": [entry(label="x" * 100), twin]})
        self.assertEqual(len(self.loaded().all()), 2)

    def test_the_retired_key_fails_with_a_hint(self) -> None:
        """The file stays where it is and the operator is told what to rename."""
        self.put({"version": 1, "executors": [entry(allowInsecureDevelopment=True)]})
        error = self.assertRaises(StartupError, self.loaded)
        self.assertIn("noTls", error.text)
        self.assertTrue(os.path.exists(self.path))

    def test_a_newer_version_is_left_alone(self) -> None:
        """It is not broken, only not ours."""
        self.put({"version": 2, "executors": []})
        self.assertIn("version 2", self.assertRaises(StartupError, self.loaded).text)
        self.assertTrue(os.path.exists(self.path))

    def test_insecure_files_are_refused_and_left_alone(self) -> None:
        """Open to the group, or a link."""
        self.put({"version": 1, "executors": []})
        os.chmod(self.path, 0o640)
        self.assertRaises(InsecureFile, self.loaded)
        os.chmod(self.path, 0o600)
        os.rename(self.path, self.path + ".real")
        os.symlink(self.path + ".real", self.path)
        self.assertRaises(InsecureFile, self.loaded)
        self.assertTrue(os.path.islink(self.path))

    def test_a_failed_write_changes_nothing(self) -> None:
        """The caller may try again, and the records are what they were."""

        def full(path: str, content: bytes) -> None:
            raise OSError(28, "No space left on device")

        registry = Registry(self.workspace, full)
        error = self.assertRaises(GarconError, registry.put, record())
        self.assertEqual(
            (error.code, error.status, error.retryable),
            ("EXECUTOR_STORAGE_UNAVAILABLE", 503, True),
        )
        self.assertEqual(registry.all(), [])
        self.assertFalse(registry.is_blocked)
        self.assertEqual(len(self.flushLoggedErrors(OSError)), 1)

    def test_an_uncertain_save_blocks_all_further_ones(self) -> None:
        """Until the next start, which reads what the file then holds."""

        def unsynced(path: str, content: bytes) -> None:
            write_private(path, content)
            raise DirectoryNotSynced(5, "cannot sync")

        registry = Registry(self.workspace, unsynced)
        error = self.assertRaises(SaveUncertain, registry.put, record())
        self.assertEqual(
            (error.code, error.status, error.retryable),
            ("EXECUTOR_STORAGE_UNAVAILABLE", 503, False),
        )
        self.assertRaises(SaveUncertain, registry.remove, ID)
        self.assertEqual(len(self.flushLoggedErrors(DirectoryNotSynced)), 1)
        self.assertEqual(self.loaded().all(), [record()])

    def test_records_do_not_show_themselves(self) -> None:
        """A record in a log or a traceback has no secret."""
        self.assertNotIn(SECRET, repr(record()))
