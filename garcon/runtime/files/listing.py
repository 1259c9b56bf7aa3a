"""The files of a project, by name, down to a bounded depth and number (server.md D.2)."""

from __future__ import annotations

import os
import stat

from attrs import define, field

from garcon.contract.files import (
    ENTRY_OVERHEAD,
    LARGEST_LISTING,
    LIST_DEPTH,
    LIST_FILES,
    ProjectFiles,
)
from garcon.errors import GarconError
from garcon.runtime.files import failures
from garcon.runtime.files.naming import SKIPPED, Names, sort_key
from garcon.runtime.files.projects import open_project
from garcon.runtime.files.stopping import Stop
from garcon.runtime.files.walk import Place, Root

LARGEST_DIRECTORY = 10 * LIST_FILES
"""So many names of one directory are put in order; what it has beyond is not listed."""


class _Full(Exception):
    """There are more."""


def project_files(base: str, path: str, stop: Stop) -> ProjectFiles:
    """Name the files below a project: depth first, in the order of names.

    A link counts as what it leads to if that is a file of the project; directories are entered
    only by themselves.
    """
    with open_project(base, path) as project:
        listing = _Listing(project, stop)
        try:
            with project.find("") as place:
                try:
                    fd = place.listing()
                except OSError as error:
                    raise failures.failed(error, "The project directory") from None
                try:
                    listing.enter(fd, (), place)
                finally:
                    os.close(fd)
        except _Full:
            listing.truncated = True
        return ProjectFiles(project.path, listing.paths, listing.truncated, listing.omitted)


@define(eq=False)
class _Listing:
    _project: Root
    _stop: Stop
    paths: list[str] = field(factory=list)
    omitted: int = 0
    truncated: bool = False
    _size: int = 0

    def enter(self, fd: int, above: tuple[str, ...], place: Place) -> None:
        """Take the files of an open directory, and of those below it."""
        names = Names(fd, self._stop)
        found: list[os.DirEntry[str]] = []
        try:
            for one in names:
                if one.name in SKIPPED:
                    continue
                if len(found) == LARGEST_DIRECTORY:
                    self.truncated = True
                    break
                found.append(one)
        except OSError:
            # What was read of it so far is better than nothing, and not all.
            self.truncated = True
        self.omitted += names.omitted
        for one in sorted(found, key=lambda entry: sort_key(entry.name)):
            self._stop.check()
            self._take(fd, one, above, place)

    def _take(self, fd: int, one: os.DirEntry[str], above: tuple[str, ...], place: Place) -> None:
        path = (*above, one.name)
        try:
            if one.is_dir(follow_symlinks=False):
                if len(above) < LIST_DEPTH:
                    self._enter_below(fd, one.name, path, place)
            elif one.is_file(follow_symlinks=False) or (
                one.is_symlink() and self._leads_to_file("/".join(path), place)
            ):
                self._add("/".join(path), one.name)
        except OSError:
            return  # gone, or not to be read

    def _enter_below(self, fd: int, name: str, path: tuple[str, ...], place: Place) -> None:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        below = os.open(name, flags, dir_fd=fd)
        try:
            self.enter(below, path, place)
        finally:
            os.close(below)

    def _leads_to_file(self, path: str, place: Place) -> bool:
        try:
            with self._project.find(path, place) as found:
                return found.status is not None and stat.S_ISREG(found.status.st_mode)
        except GarconError:
            return False

    def _add(self, path: str, name: str) -> None:
        # As the route answers it: with the project's own path before each.
        size = len(path.encode()) * 2 + len(self._project.path.encode()) + len(name.encode())
        if len(self.paths) == LIST_FILES or self._size + size + ENTRY_OVERHEAD > LARGEST_LISTING:
            raise _Full
        self._size += size + ENTRY_OVERHEAD
        self.paths.append(path)
