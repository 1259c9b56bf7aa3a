"""What a file holds and at which revision, as it was at one moment (server.md D.3)."""

from __future__ import annotations

import errno
import os
import stat

from garcon.contract.files import CONTENT_BYTES, FileContent, FileTarget
from garcon.runtime.files import failures
from garcon.runtime.files.projects import find, open_project
from garcon.runtime.files.revision import revision
from garcon.runtime.files.stopping import Stop
from garcon.runtime.files.walk import Place, Root

ATTEMPTS = 3
_STEP = 1024 * 1024

READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""Without following what has become a link, and without waiting: a pipe would never be ready."""


def found_revision(base: str, target: FileTarget) -> str | None:
    """Return the revision of a regular file, None where there is none."""
    with open_project(base, target.project_path) as project, find(project, target.path) as place:
        if place.absent:
            return None
        if not place.is_regular:
            raise failures.not_a_file()
        assert place.status is not None
        return revision(place.status)


def read(base: str, target: FileTarget, stop: Stop) -> FileContent:
    """Read a regular file whole."""
    with open_project(base, target.project_path) as project:
        for _ in range(ATTEMPTS):
            stop.check()
            content = _attempt(project, target.path)
            if content is not None:
                return content
    raise failures.changed()


def _attempt(project: Root, path: str) -> FileContent | None:
    with find(project, path) as place:
        if place.absent:
            raise failures.missing()
        if not place.is_regular:
            raise failures.not_a_file()
        try:
            fd = open_leaf(place, READ_FLAGS)
            if fd is None:
                return None
            try:
                return _content(place.path, fd)
            finally:
                os.close(fd)
        except OSError as error:
            raise failures.failed(error) from None


def open_leaf(place: Place, flags: int) -> int | None:
    """Open the file that was found, by its name in the directory that is held; None when that
    name has become a link or is gone.
    """
    assert place.leaf is not None
    try:
        return os.open(place.leaf, flags, dir_fd=place.fd)
    except OSError as error:
        if isinstance(error, FileNotFoundError) or error.errno == errno.ELOOP:
            return None
        raise


def _content(path: str, fd: int) -> FileContent | None:
    """Read an open file; None when it changed meanwhile."""
    before = os.fstat(fd)
    if not stat.S_ISREG(before.st_mode):
        return None
    if before.st_size > CONTENT_BYTES:
        raise failures.too_large()
    pieces: list[bytes] = []
    size = 0
    while piece := os.read(fd, _STEP):
        size += len(piece)
        if size > CONTENT_BYTES:
            raise failures.too_large()
        pieces.append(piece)
    now = revision(before)
    return FileContent(path, now, b"".join(pieces)) if revision(os.fstat(fd)) == now else None
