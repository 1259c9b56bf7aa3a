"""Writing a file in place, and making directories (server.md D.3).

A save keeps the file that is there: its inode, and with that its mode, its owner and its other
names.  So there is no moment of replacement, and three things take its place.  What is to be
written beyond the old end gets its room on the disk before a byte is changed.  What is overwritten
is kept until all is on the disk, and put back when the disk fails on the way.  Who saves is told
which of the two contents is there, and when neither is.

That the file is still as the saver has seen it is looked at on the very handle that is written.
Other programs do not take our locks: what one of them writes in that moment is lost, as with any
editor.  If one of them puts another file in the place of this one, the save ends as a conflict.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

from garcon.contract.files import NAME_BYTES, FileSaved, ListedDirectory, SaveFile
from garcon.errors import GarconError, validation
from garcon.runtime.files import failures, tree
from garcon.runtime.files.projects import find, open_base, open_project
from garcon.runtime.files.reading import open_leaf
from garcon.runtime.files.revision import revision
from garcon.runtime.files.stopping import Stop
from garcon.runtime.files.walk import Identity, Place, Root, identity

Key = tuple[object, ...]
"""What two saves must not write at the same time: a file, or the name that one is to get."""

_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_CANNOT_SAY = frozenset({errno.EOPNOTSUPP, errno.EINVAL, errno.ENODEV, errno.EBADF})
"""A file system without reservations; where it is only imitated, that takes reading."""
_KEPT = "The old content is there."
_MADE_NOTHING = "No file was made."


def key_of(base: str, save: SaveFile) -> Key:
    """Say what a save would write now."""
    with open_project(base, save.project_path) as project, find(project, save.path) as place:
        return _key(place)


def save_file(base: str, save: SaveFile, key: Key, stop: Stop) -> FileSaved:
    """Write a file; `key` is what the caller has locked."""
    with open_project(base, save.project_path) as project, find(project, save.path) as place:
        if _key(place) != key:
            raise failures.conflict("The path leads to another file than a moment ago.")
        if place.is_directory or (place.status is not None and not place.is_regular):
            raise failures.not_a_file()
        try:
            if place.absent:
                fd = _make(place, save, stop)
            else:
                fd = _overwrite(place, save, stop)
        except OSError as error:
            raise failures.failed(error) from None
        try:
            return _confirmed(project, save, place.path, fd)
        finally:
            os.close(fd)


def make_directory(base: str, path: str | None, name: str, stop: Stop) -> ListedDirectory:
    """Make one directory in another."""
    is_name = name not in ("", ".", "..") and "/" not in name and "\0" not in name
    if not is_name or len(name.encode()) > NAME_BYTES:
        raise validation("The name of a directory must be one name of at most 255 bytes.")
    with open_base(base) as root:
        try:
            with tree.directory_at(root, path) as place:
                stop.check()
                os.mkdir(name, dir_fd=place.fd)
                return ListedDirectory(name, os.path.join(place.path, name))
        except FileExistsError:
            raise GarconError(
                "FILE_ALREADY_EXISTS", "There is something of this name already.", status=409
            ) from None
        except OSError as error:
            raise tree.tree_failed(error) from None


def _key(place: Place) -> Key:
    if place.status is not None:
        return identity(place.status)
    return (*place.steps[-1].identity, *place.absent)


def _make(place: Place, save: SaveFile, stop: Stop) -> int:
    """Write a file that was not there; return its handle."""
    if save.conflict_resolution == "reject":
        raise failures.conflict("The file does not exist any more.")
    if len(place.absent) > 1:
        raise failures.missing("The directory of the file")
    name = place.absent[0]
    stop.check()
    try:
        fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | _FLAGS, 0o666, dir_fd=place.fd)
    except FileExistsError:
        raise failures.conflict("A file of this name was made meanwhile.") from None
    try:
        _write(fd, save.data)
        os.fsync(fd)
    except OSError as error:
        try:
            _unmake(place, name, identity(os.fstat(fd)))
        except OSError:
            raise failures.incomplete(error) from None
        finally:
            os.close(fd)
        raise failures.write_failed(error, _MADE_NOTHING) from None
    except BaseException:
        os.close(fd)
        raise
    return fd


def _unmake(place: Place, name: str, made: Identity) -> None:
    if identity(os.stat(name, dir_fd=place.fd, follow_symlinks=False)) == made:
        os.unlink(name, dir_fd=place.fd)


def _overwrite(place: Place, save: SaveFile, stop: Stop) -> int:
    """Write a file that is there; return its handle."""
    fd, is_readable = _opened(place)
    try:
        status = os.fstat(fd)
        assert place.status is not None
        if identity(status) != identity(place.status) or not stat.S_ISREG(status.st_mode):
            raise failures.conflict("The path leads to another file than a moment ago.")
        if save.conflict_resolution == "reject" and revision(status) != save.expected_revision:
            raise failures.conflict()
        stop.check()
        _replace(fd, save.data, status.st_size, is_readable)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _opened(place: Place) -> tuple[int, bool]:
    """Open what was found for writing, and for reading where that is allowed."""
    fd, is_readable = None, True
    try:
        fd = open_leaf(place, os.O_RDWR | _FLAGS)
    except PermissionError:
        fd, is_readable = open_leaf(place, os.O_WRONLY | _FLAGS), False
    if fd is None:
        raise failures.conflict("The path leads to something else than a moment ago.")
    return fd, is_readable


def _replace(fd: int, data: bytes, size: int, is_readable: bool) -> None:
    """Put `data` in the place of a file's content."""
    old = _head(fd, min(size, len(data))) if is_readable else None
    try:
        _reserve(fd, len(data), size)
    except OSError as error:
        raise failures.write_failed(error, _KEPT) from None
    try:
        _write(fd, data)
        os.fsync(fd)
        # Only now, as the end of a longer file is not kept.
        if size > len(data):
            os.ftruncate(fd, len(data))
    except OSError as error:
        _put_back(fd, old, size, error)
        raise failures.write_failed(error, _KEPT) from None
    if size > len(data):
        try:
            os.fsync(fd)
        except OSError as error:
            raise failures.incomplete(error) from None


def _reserve(fd: int, wanted: int, size: int) -> None:
    """Have room for a content before anything of the old one is lost."""
    if not wanted:
        return
    try:
        os.posix_fallocate(fd, 0, wanted)
    except OSError as error:
        if error.errno in _CANNOT_SAY:
            return
        with suppress(OSError):
            os.ftruncate(fd, size)
        raise


def _put_back(fd: int, old: bytes | None, size: int, cause: OSError) -> None:
    """Undo a write that failed, or say that it could not be undone."""
    if old is None:
        raise failures.incomplete(cause)
    try:
        _write(fd, old)
        os.ftruncate(fd, size)
        os.fsync(fd)
    except OSError:
        raise failures.incomplete(cause) from None


def _head(fd: int, size: int) -> bytes:
    pieces: list[bytes] = []
    at = 0
    while at < size and (piece := os.pread(fd, size - at, at)):
        pieces.append(piece)
        at += len(piece)
    return b"".join(pieces)


def _write(fd: int, data: bytes) -> None:
    rest, at = memoryview(data), 0
    while rest:
        written = os.pwrite(fd, rest, at)
        at += written
        rest = rest[written:]


def _confirmed(project: Root, save: SaveFile, path: str, fd: int) -> FileSaved:
    """See to it that what was written is what the path leads to."""
    status = os.fstat(fd)
    try:
        with find(project, save.path) as place:
            is_there = place.status is not None and identity(place.status) == identity(status)
    except GarconError:
        is_there = False
    if not is_there:
        raise failures.conflict("The file was moved or replaced while it was saved.")
    return FileSaved(path, revision(status))
