"""``executors.json``: a workspace's remote executors, kept whole and private (control.md E.9)."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct
from twisted.logger import Logger

from garcon.controller.executors.records import ExecutorRecord, check_all
from garcon.errors import GarconError, StartupError
from garcon.local.files import DirectoryNotSynced, read_private, write_private

FILE_NAME = "executors.json"
VERSION = 1
_RETIRED = "allowInsecureDevelopment"


class _File(Struct, frozen=True):
    version: int
    executors: list[ExecutorRecord]


class Registry:
    """The records, in memory and on disk alike.

    After a save whose durability is unknown nothing more is saved until the next start (E.8).
    """

    _log = Logger()

    def __init__(
        self, workspace_dir: str, write: Callable[[str, bytes], None] = write_private
    ) -> None:
        self._path = os.path.join(workspace_dir, FILE_NAME)
        self._write = write
        self._records: dict[str, ExecutorRecord] = {}
        self.is_blocked = False

    def load(self) -> None:
        """Read the file; raises `StartupError` when it cannot be used as it is."""
        try:
            content = read_private(self._path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise StartupError(f"cannot read {self._path}: {error.strerror}") from None
        records = self._decode(content)
        self._records = {record.id: record for record in records}

    def all(self) -> list[ExecutorRecord]:
        """List the records in the order they were made."""
        return list(self._records.values())

    def get(self, executor_id: str) -> ExecutorRecord | None:
        """Return one record, if there is one."""
        return self._records.get(executor_id)

    def others(self, executor_id: str) -> list[ExecutorRecord]:
        """List all records but one."""
        return [record for record in self._records.values() if record.id != executor_id]

    def put(self, record: ExecutorRecord) -> None:
        """Save a new or changed record; raises `SaveUncertain` or another ``503``."""
        self._save(self._records | {record.id: record})

    def remove(self, executor_id: str) -> None:
        """Save the list without one record; raises as `put` does."""
        self._save({key: one for key, one in self._records.items() if key != executor_id})

    def require_writable(self) -> None:
        """Raise when no change can be saved any more."""
        if self.is_blocked:
            raise SaveUncertain()

    def _save(self, records: dict[str, ExecutorRecord]) -> None:
        self.require_writable()
        file = _File(VERSION, list(records.values()))
        content = msgspec.json.format(msgspec.json.encode(file), indent=2)
        try:
            self._write(self._path, content)
        except DirectoryNotSynced:
            self._log.failure("the executors' file may not survive a crash; changes are blocked")
            self.is_blocked = True
            raise SaveUncertain() from None
        except OSError:
            self._log.failure("the executors' file could not be written; nothing was changed")
            raise GarconError(
                "EXECUTOR_STORAGE_UNAVAILABLE",
                "The change could not be saved; nothing was changed.",
                status=503,
                retryable=True,
            ) from None
        self._records = records

    def _decode(self, content: bytes) -> list[ExecutorRecord]:
        try:
            raw: Any = msgspec.json.decode(content)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise self._quarantined("is not JSON") from None
        _refuse_foreign(raw, self._path)
        try:
            records = msgspec.convert(raw, _File).executors
            check_all(records)
        except msgspec.ValidationError as error:
            # Names the field, never its value.
            raise self._quarantined(str(error)) from None
        except GarconError as error:
            raise self._quarantined(error.text) from None
        return records

    def _quarantined(self, why: str) -> StartupError:
        """Move the file aside, keeping any earlier one, and return the error that names it."""
        number = 1
        while os.path.lexists(backup := f"{self._path}.broken-{number}"):
            number += 1
        try:
            os.rename(self._path, backup)
        except OSError as error:
            return StartupError(f"{self._path} is broken ({why}); cannot move it: {error.strerror}")
        return StartupError(f"{self._path} is broken ({why}); it was moved to {backup}")


class SaveUncertain(GarconError):
    """The last save may not be durable, so nothing more is changed until a restart (E.8, K2)."""

    def __init__(self) -> None:
        super().__init__(
            "EXECUTOR_STORAGE_UNAVAILABLE",
            "It is not certain that the last change of executors was saved; "
            "restart the controller before changing more.",
            status=503,
        )


def _refuse_foreign(raw: Any, path: str) -> None:
    """Refuse, untouched, a file that only another release can use."""
    if not isinstance(raw, dict):
        return
    entries = raw.get("executors")
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, dict) and _RETIRED in entry:
            raise StartupError(f"{path} has the retired key {_RETIRED}; rename it to noTls")
    version = raw.get("version")
    if isinstance(version, int) and not isinstance(version, bool) and version > VERSION:
        raise StartupError(f"{path} has version {version}; this release reads version {VERSION}")
