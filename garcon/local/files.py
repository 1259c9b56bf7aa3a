"""Private files: written whole or not at all, read only when nobody else can have touched them.

Standard library only; the command imports this at every start, so nothing slow is imported here.
"""

from __future__ import annotations

import errno
import os
import stat

from garcon.errors import StartupError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from os import PathLike

    Path = str | PathLike[str]

LARGEST = 16 * 1024 * 1024
"""More than any private file of ours ever holds."""


class InsecureFile(StartupError):
    """A file that must be private is a link, no regular file, someone else's, or open to others."""

    def __init__(self, text: str) -> None:
        super().__init__(text, "INSECURE_FILE")


class DirectoryNotSynced(OSError):
    """The file was renamed into place, but whether that survives a crash is unknown (control.md
    E.8).
    """


def read_private(path: Path, limit: int = LARGEST, *, secure: bool = True) -> bytes:
    """Return the content of a private file; `FileNotFoundError` when there is none.

    Raises `InsecureFile` unless it is a regular file of the current user without group and other
    bits, reached without a symbolic link at the end.  Without `secure` its mode and owner do not
    count: for what is only to be removed.
    """
    name = os.fspath(path)
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as e:
        if e.errno in (errno.ELOOP, errno.EMLINK):
            raise InsecureFile(f"{name} is a symbolic link") from None
        if e.errno == errno.ENXIO:
            raise InsecureFile(f"{name} is not a regular file") from None
        raise
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise InsecureFile(f"{name} is not a regular file")
        if secure and status.st_uid != os.geteuid():
            raise InsecureFile(f"{name} belongs to another user")
        if secure and status.st_mode & 0o077:
            raise InsecureFile(f"{name} is open to other users (want mode 0600)")
        if status.st_size > limit:
            raise InsecureFile(f"{name} is larger than {limit} bytes")
        return _read_all(fd, limit, name)
    finally:
        os.close(fd)


def _read_all(fd: int, limit: int, name: str) -> bytes:
    pieces: list[bytes] = []
    total = 0
    while piece := os.read(fd, 65_536):
        total += len(piece)
        if total > limit:
            raise InsecureFile(f"{name} is larger than {limit} bytes")
        pieces.append(piece)
    return b"".join(pieces)


def write_private(path: Path, data: bytes, *, replace: bool = True) -> None:
    """Put `data` at `path` with mode 0600, in one step that survives a crash.

    With ``replace=False`` an existing file stays and `FileExistsError` is raised.  Before the
    rename a failure leaves nothing behind; after it `DirectoryNotSynced` says that the new content
    is there but perhaps not for good.
    """
    name = os.fspath(path)
    folder, leaf = os.path.split(name)
    folder = folder or "."
    temporary = os.path.join(folder, f".{leaf}.{os.getpid()}.{os.urandom(8).hex()}.tmp")
    fd = os.open(
        temporary,
        os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC,
        0o600,
    )
    try:
        try:
            os.fchmod(fd, 0o600)
            _write_all(fd, data)
            os.fsync(fd)
        finally:
            os.close(fd)
        if replace:
            os.rename(temporary, name)
        else:
            os.link(temporary, name)
            os.unlink(temporary)
    except BaseException:
        remove_if_there(temporary)
        raise
    try:
        sync_directory(folder)
    except OSError as e:
        raise DirectoryNotSynced(e.errno, f"cannot sync {folder}: {e.strerror}") from e


def _write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def sync_directory(path: Path) -> None:
    """Make what was renamed or removed in a directory durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def remove_if_there(path: Path) -> bool:
    """Remove a file; return whether there was one."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    return True


def private_directory(path: Path) -> None:
    """Make a directory, and its parents, for the current user only; an existing one keeps its
    mode.
    """
    directory = os.fspath(path)
    parent = os.path.dirname(directory.rstrip(os.sep))
    if parent and not os.path.isdir(parent):
        # makedirs would give the parents the mode that the umask allows.
        private_directory(parent)
    os.makedirs(directory, 0o700, exist_ok=True)
