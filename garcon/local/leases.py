"""Leases: at most one process of a role on a directory, as long as that process lives.

A lease is a kernel lock (flock), so a crash frees it and a file left behind never blocks a start.
What the file says (pid and role) only informs people and the error text.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time

from garcon.errors import StartupError
from garcon.local.files import private_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from garcon.local.files import Path

_RETRY_EVERY = 0.05


class LeaseHeld(StartupError):
    """Another live process holds the lease."""

    def __init__(self, path: str, holder: str, role: str) -> None:
        by = f" by {holder}" if holder else " by another process"
        super().__init__(f"{_subject(path, role)} is in use{by}", "WORKSPACE_IN_USE")


def _subject(path: str, role: str) -> str:
    where = os.path.dirname(path) or "."
    return f"{role} directory {where}" if role else f"directory {where}"


class Lease:
    """A held lease.  It ends with `release` or with the process, whichever comes first."""

    def __init__(self, path: str, fd: int, role: str) -> None:
        self.path = path
        self.role = role
        self._fd: int | None = fd
        self.restate()

    @classmethod
    def acquire(cls, path: Path, wait: float = 0.0, role: str = "") -> Lease:
        """Take the lease at `path`, making its directory if needed; blocks for up to `wait`
        seconds.

        Raises `LeaseHeld` when another process keeps it and `StartupError` when the file cannot be
        used.
        """
        name = os.fspath(path)
        deadline = time.monotonic() + wait
        try:
            private_directory(os.path.dirname(name) or ".")
            while True:
                fd = _open(name)
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    holder = _holder(fd)
                    os.close(fd)
                    if time.monotonic() >= deadline:
                        raise LeaseHeld(name, holder, role) from None
                    time.sleep(_RETRY_EVERY)
                    continue
                except BaseException:
                    os.close(fd)
                    raise
                if _still_there(name, fd):
                    return cls(name, fd, role)
                os.close(fd)
        except OSError as e:
            raise StartupError(f"cannot lock {name}: {e.strerror or e}") from e

    def restate(self) -> None:
        """Write who holds the lease: at the start, and again where the process id has changed
        since.
        """
        if self._fd is None:
            return
        said = f"pid {os.getpid()}" + (f" ({self.role})" if self.role else "") + "\n"
        try:
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, said.encode(), 0)
        except OSError:
            # The lock is what counts; a full disk must not end a service that holds it.
            return

    def release(self) -> None:
        """Give the lease up; twice is harmless."""
        fd, self._fd = self._fd, None
        if fd is None:
            return
        try:
            os.ftruncate(fd, 0)
        except OSError:
            pass
        finally:
            os.close(fd)


def _open(name: str) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        fd = os.open(name, flags, 0o600)
    except OSError as e:
        if e.errno == errno.ELOOP:
            raise StartupError(f"cannot lock {name}: it is a symbolic link") from None
        raise
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise StartupError(f"cannot lock {name}: it is not a regular file")
    return fd


def _still_there(name: str, fd: int) -> bool:
    """Whether the locked file is still the one at `name` (someone may have removed it in
    between).
    """
    try:
        return os.path.samestat(os.stat(name, follow_symlinks=False), os.fstat(fd))
    except FileNotFoundError:
        return False


def _holder(fd: int) -> str:
    try:
        said = os.pread(fd, 200, 0).decode("ascii", "replace").strip()
    except OSError:
        return ""
    return said if said.isprintable() else ""
