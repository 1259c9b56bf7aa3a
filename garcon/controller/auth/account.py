"""``auth.json``: the one account and its live tokens, private and whole (decisions.md 1).

A file that cannot be read is never taken for none: that would let the next stranger set up an
account of his own.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import msgspec
from attrs import field, frozen
from msgspec import Struct

from garcon.controller.auth.passwords import PasswordHash
from garcon.controller.auth.tokens import StoredToken
from garcon.errors import StartupError
from garcon.local.files import DirectoryNotSynced, read_private, write_private

FILE_NAME = "auth.json"


class _File(Struct, frozen=True, rename="camel"):
    """The file's form.  One without a name and a password holds no account."""

    username: str = ""
    password_hash: str = ""
    created_at: str = ""
    tokens: list[StoredToken] = []


@frozen
class Account:
    """The account; `created_at` is ISO."""

    username: str
    password: PasswordHash = field(repr=False)
    created_at: str
    tokens: tuple[StoredToken, ...] = field(repr=False)


class AccountUnreadable(StartupError):
    """The file is damaged, or somebody else could have written it."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(
            f"{path} {why}; put it right, or remove it to set up the account anew",
            "ACCOUNT_UNREADABLE",
        )


class AccountFile:
    """Reads and writes the file.  `read` is cheap while it has not changed."""

    def __init__(self, config_dir: str, write: Callable[..., None] = write_private) -> None:
        self.path = os.path.join(config_dir, FILE_NAME)
        self._write = write
        self._seen: tuple[int, ...] | None = None
        self._account: Account | None = None

    def read(self) -> tuple[Account | None, bool]:
        """Return the account as the file has it now, and whether that is news; raises
        `AccountUnreadable`.
        """
        seen = self._state()
        if seen is not None and seen == self._seen:
            return self._account, False
        content = account = None
        try:
            content = read_private(self.path)
        except FileNotFoundError:
            pass
        except StartupError as error:
            raise AccountUnreadable(self.path, f"cannot be used ({error.text})") from None
        except OSError as error:
            raise AccountUnreadable(self.path, f"cannot be read ({error.strerror})") from None
        if content is not None:
            account = self._parse(content)
        self._seen, self._account = seen, account
        return account, True

    def _state(self) -> tuple[int, ...] | None:
        try:
            status = os.lstat(self.path)
        except OSError:
            return None
        return (
            status.st_ino,
            status.st_mtime_ns,
            status.st_ctime_ns,
            status.st_size,
            status.st_mode,
            status.st_uid,
        )

    def _parse(self, content: bytes) -> Account | None:
        try:
            raw: Any = msgspec.json.decode(content)
            file = msgspec.convert(raw, _File)
        except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError):
            raise AccountUnreadable(self.path, "is damaged") from None
        if not file.username or not file.password_hash:
            return None
        try:
            password = PasswordHash.parse(file.password_hash)
        except ValueError as error:
            raise AccountUnreadable(
                self.path, f"has a password that cannot be checked: {error}"
            ) from None
        return Account(file.username, password, file.created_at, tuple(file.tokens))

    def write(self, account: Account) -> None:
        """Save the account; raises `OSError` when nothing was changed.  Blocks until it is durable.

        The file of a first account must not be there yet, unless it holds none.
        """
        file = _File(
            account.username, str(account.password), account.created_at, list(account.tokens)
        )
        content = msgspec.json.format(msgspec.json.encode(file), indent=2) + b"\n"
        try:
            self._write(self.path, content, replace=os.path.lexists(self.path))
        except DirectoryNotSynced:
            # It is there; only a crash of the machine in this very moment could undo it.
            return
