"""One private file and the copy of it in memory, which is the truth as long as there is one.

Reading and writing are done on another thread, JSON included: a write waits for the disk, and a
file may be large.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from twisted.python.threadpool import ThreadPool

from garcon.errors import GarconError, StartupError, validation
from garcon.local.files import LARGEST, DirectoryNotSynced, read_private, write_private

T = TypeVar("T")


class StorageUnavailable(GarconError):
    """``API_PROVIDER_STORAGE_UNAVAILABLE`` (503): it cannot be said what is kept, or whether."""

    def __init__(self, text: str, *, retryable: bool = True) -> None:
        super().__init__("API_PROVIDER_STORAGE_UNAVAILABLE", text, status=503, retryable=retryable)


class SaveUncertain(StorageUnavailable):
    """The new content is in place, but perhaps not for good."""

    def __init__(self) -> None:
        text = "The change was written, but it is not certain that it would survive a crash."
        super().__init__(text, retryable=False)


class KeptFile(Generic[T]):
    """Its owner sees to it that no two calls of it overlap, and that each runs to its end."""

    _log = Logger()

    def __init__(
        self,
        reactor: Any,
        path: str,
        decode: Callable[[bytes], T],
        encode: Callable[[T], bytes],
        *,
        pool: ThreadPool | None = None,
        read: Callable[[str], bytes] = read_private,
        write: Callable[[str, bytes], None] = write_private,
    ) -> None:
        self._reactor = reactor
        self._pool = pool
        self.path = path
        self._decode = decode
        self._encode = encode
        self._read = read
        self._write = write
        self.held: T | None = None
        """What is known to be in the file; None until it was read, and when that is in doubt."""
        self._complaint = ""

    async def load(self) -> T | None:
        """Return what is kept; None when there is no file.  Fails with `StorageUnavailable`."""
        if self.held is not None:
            return self.held
        try:
            self.held = await self._in_thread(self._read_all)
        except FileNotFoundError:
            return None
        except StartupError as error:
            # Of a file that is open to others, or no file.
            raise self._unreadable(error.text) from None
        except OSError as error:
            raise self._unreadable(error.strerror or "it cannot be read") from None
        except ValueError as error:
            raise self._unreadable(str(error)) from None
        self._complaint = ""
        return self.held

    async def save(self, value: T) -> None:
        """Keep `value`.

        Fails with `StorageUnavailable` when nothing was changed, and with `SaveUncertain` when that
        is not known: then what is held is forgotten, and read again by whoever asks next.
        """
        try:
            await self._in_thread(self._write_all, value)
        except DirectoryNotSynced:
            self._log.failure("{path} may not survive a crash", path=self.path)
            self.held = None
            raise SaveUncertain() from None
        except OSError:
            self._log.failure("{path} could not be written; nothing was changed", path=self.path)
            text = "The change could not be saved; nothing was changed."
            raise StorageUnavailable(text) from None
        self.held = value

    def _read_all(self) -> T:
        return self._decode(self._read(self.path))

    def _write_all(self, value: T) -> None:
        content = self._encode(value)
        if len(content) > LARGEST:
            raise validation(f"That is more than the {LARGEST} bytes that can be kept.")
        self._write(self.path, content)

    def _in_thread(self, work: Callable[..., Any], *arguments: Any) -> Any:
        pool = self._reactor.getThreadPool() if self._pool is None else self._pool
        return deferToThreadPool(self._reactor, pool, work, *arguments)

    def _unreadable(self, why: str) -> StorageUnavailable:
        if why != self._complaint:
            # Said once, not with every request that meets it.
            self._complaint = why
            self._log.error("{path} cannot be used: {why}", path=self.path, why=why)
        return StorageUnavailable("What is kept of API providers cannot be read.")
