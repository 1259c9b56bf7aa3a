"""How a path is followed so that it cannot lead out of a directory, whatever changes on the way.

Each name is opened in the directory that is held open (``openat``) and never followed by the
system: what is a symbolic link is read from the very object that was opened, and its text is
followed here, by the same rules.  The directories passed are remembered by device and inode.  The
path is inside when the root is one of them, so that another spelling of it (a link to the root, a
link through the outside) works.  There is no moment at which a checked path is used again: what
follows is done relative to the directory that the walk ended in.

Only the last directory is held open.  ``..`` is opened in it and must be the one that was passed;
where it is not, something on the way was moved, and the walk is done anew.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import TypeVar

from attrs import define, field, frozen

from garcon.runtime.files import failures

_HOLD = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_LINKS = 40
"""As many as the system follows."""
_ATTEMPTS = 3

Identity = tuple[int, int]
T = TypeVar("T")


class Moved(Exception):
    """Something changed under a walk; another may go well."""


@frozen
class Step:
    """A directory that was passed."""

    name: str
    identity: Identity


def identity(status: os.stat_result) -> Identity:
    """Return what tells one file from any other that exists at the same time."""
    return status.st_dev, status.st_ino


@define(eq=False)
class Held:
    """Owns a descriptor; a context manager."""

    fd: int

    def __enter__(self) -> Held:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the descriptor."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)


@define(eq=False)
class Place(Held):
    """Where a path has led.  `fd` is the last directory: the place itself, or what holds `leaf`.

    `status` is that of the place and None where nothing is; `absent` are then the names that are
    not there, `leaf` the first of them.  `below` are the names between the root and here.
    """

    steps: tuple[Step, ...]
    below: tuple[str, ...]
    leaf: str | None = None
    status: os.stat_result | None = None
    absent: tuple[str, ...] = ()

    def __enter__(self) -> Place:
        return self

    @property
    def path(self) -> str:
        """The canonical absolute path."""
        names = [step.name for step in self.steps[1:]]
        more = self.absent or (() if self.leaf is None else (self.leaf,))
        return "/" + "/".join((*names, *more))

    @property
    def relative_path(self) -> str:
        """The same from the root, empty for the root itself."""
        more = self.absent or (() if self.leaf is None else (self.leaf,))
        return "/".join((*self.below, *more))

    @property
    def is_directory(self) -> bool:
        return self.leaf is None

    @property
    def is_regular(self) -> bool:
        return self.status is not None and stat.S_ISREG(self.status.st_mode)

    def listing(self) -> int:
        """Open this directory for reading its names.

        By its descriptor that takes no right to search it; where there is no ``/proc`` it does.
        """
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        try:
            return os.open(f"/proc/self/fd/{self.fd}", flags)
        except OSError:
            return os.open(".", flags, dir_fd=self.fd)


@define(eq=False)
class Root(Held):
    """A directory that is held open, and below which paths are looked up."""

    steps: tuple[Step, ...]

    def __enter__(self) -> Root:
        return self

    @property
    def path(self) -> str:
        """The canonical absolute path."""
        return "/" + "/".join(step.name for step in self.steps[1:])

    @property
    def identity(self) -> Identity:
        return self.steps[-1].identity

    def find(self, path: str, start: Place | None = None) -> Place:
        """Follow a path from the root, or from a directory below it.

        Raises ``outside_project_base`` for one that leads out, whatever is there, and `OSError`
        for one that cannot be followed inside.  That nothing is there is a place too.
        """
        begin: Root | Place = self if start is None else start
        return again(lambda: self._find(path, begin))

    def _find(self, path: str, begin: Root | Place) -> Place:
        with _Walk(begin.fd, begin.steps) as walk:
            try:
                walk.follow(path)
            except OSError:
                if not walk.passed(self.identity):
                    raise failures.outside(self.path) from None
                raise
            if not walk.passed(self.identity):
                raise failures.outside(self.path)
            return walk.place(self.identity)


def open_root(path: str) -> Root:
    """Hold a directory by its absolute path, links followed; `OSError` where there is none."""

    def attempt() -> Root:
        with _Walk(-1, ()) as walk:
            walk.follow(path)
            if walk.absent:
                raise FileNotFoundError(errno.ENOENT, "no such directory")
            if walk.leaf is not None:
                raise NotADirectoryError(errno.ENOTDIR, "not a directory")
            return Root(walk.give(), tuple(walk.steps))

    return again(attempt)


def root_of(place: Place) -> Root:
    """Make a directory that was found a root of its own; the place gives its descriptor away."""
    assert place.is_directory
    fd, place.fd = place.fd, -1
    return Root(fd, place.steps)


def again(attempt: Callable[[], T]) -> T:
    """Try a few times while things are being moved."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return attempt()
        except Moved:
            continue
    try:
        return attempt()
    except Moved:
        raise failures.changed() from None


@define(eq=False)
class _Walk:
    """One walk under way.  Owns `fd`, the directory it has come to."""

    _start: int
    _above: tuple[Step, ...]
    steps: list[Step] = field(factory=list)
    fd: int = -1
    leaf: str | None = None
    status: os.stat_result | None = None
    absent: list[str] = field(factory=list)
    _links: int = 0

    def __enter__(self) -> _Walk:
        if self._start >= 0:
            self.fd = os.dup(self._start)
            self.steps = list(self._above)
        return self

    def __exit__(self, *_: object) -> None:
        if self.fd >= 0:
            os.close(self.fd)

    def give(self) -> int:
        """Give the descriptor away."""
        fd, self.fd = self.fd, -1
        return fd

    def passed(self, wanted: Identity) -> bool:
        """Whether a directory is on the way to where this is now."""
        return any(step.identity == wanted for step in self.steps)

    def place(self, root: Identity) -> Place:
        """Return where this has led, below a root that was passed."""
        index = next(i for i, step in enumerate(self.steps) if step.identity == root)
        if self.leaf is None and not self.absent:
            self.status = os.fstat(self.fd)
        return Place(
            self.give(),
            tuple(self.steps),
            tuple(step.name for step in self.steps[index + 1 :]),
            self.absent[0] if self.absent else self.leaf,
            self.status,
            tuple(self.absent),
        )

    def follow(self, path: str) -> None:
        """Go where a path leads."""
        pending: deque[str] = deque()
        self._prepend(path, pending)
        while pending:
            name = pending.popleft()
            if name in ("", "."):
                continue
            if self.leaf is not None:
                raise NotADirectoryError(errno.ENOTDIR, "not a directory")
            if name == "..":
                self._up()
            elif self.absent:
                self.absent.append(name)
            else:
                self._down(name, pending)

    def _prepend(self, path: str, pending: deque[str]) -> None:
        if path.startswith("/"):
            self._move(os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))
            self.steps = [Step("", identity(os.fstat(self.fd)))]
        pending.extendleft(reversed(path.split("/")))

    def _move(self, fd: int) -> None:
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = fd

    def _up(self) -> None:
        if self.absent:
            self.absent.pop()
            return
        if len(self.steps) == 1:
            return
        flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
        self._move(os.open("..", flags, dir_fd=self.fd))
        self.steps.pop()
        if identity(os.fstat(self.fd)) != self.steps[-1].identity:
            raise Moved

    def _down(self, name: str, pending: deque[str]) -> None:
        try:
            child = os.open(name, _HOLD, dir_fd=self.fd)
        except FileNotFoundError:
            self.absent.append(name)
            return
        try:
            status = os.fstat(child)
            if stat.S_ISLNK(status.st_mode):
                self._links += 1
                if self._links > _LINKS:
                    raise OSError(errno.ELOOP, "too many symbolic links")
                self._prepend(os.readlink("", dir_fd=child), pending)
            elif stat.S_ISDIR(status.st_mode):
                self.steps.append(Step(name, identity(status)))
                self._move(child)
                child = -1
            else:
                self.leaf, self.status = name, status
        finally:
            if child >= 0:
                os.close(child)
