"""One directory as it is shown: with everything in it, or only with its directories (server.md
D.2).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import msgspec

from garcon.contract import files
from garcon.contract.files import (
    LIST_BYTES,
    LIST_ENTRIES,
    Breadcrumb,
    Browsed,
    Directory,
    Entry,
    HomeDirectory,
    ListedDirectory,
    Tree,
)
from garcon.errors import GarconError
from garcon.runtime.files import failures
from garcon.runtime.files.naming import SKIPPED, Names, sort_key
from garcon.runtime.files.projects import open_base
from garcon.runtime.files.stopping import Stop
from garcon.runtime.files.walk import Place, Root

_UNREADABLE = "---------"
_FLAGS = "rwxrwxrwx"


def tree(base: str, path: str | None, home: str, stop: Stop) -> Tree:
    """Show a directory with everything in it."""
    with open_base(base) as root, _directory(root, path) as place, _opened(place) as fd:
        names = Names(fd, stop)
        entries: list[Entry] = []
        for one in names:
            entry = _entry(root, place, one)
            if entry is not None:
                entries.append(entry)
                if len(entries) > LIST_ENTRIES:
                    raise failures.list_too_large()
        entries.sort(key=lambda entry: (entry.type != "directory", sort_key(entry.name)))
        crumbs = _breadcrumbs(root, place)
        shown = Tree(
            root.path,
            Directory(
                place.path,
                place.relative_path,
                crumbs[-2].path if place.below else None,
                crumbs,
            ),
            entries,
            _home(root, home),
            names.omitted,
        )
        _must_fit(shown)
        return shown


def browse(base: str, path: str | None, stop: Stop) -> Browsed:
    """Name the directories of a directory."""
    with open_base(base) as root, _directory(root, path) as place, _opened(place) as fd:
        names = Names(fd, stop)
        found: list[str] = []
        for one in names:
            if one.name in SKIPPED or not _leads_to_directory(root, place, one):
                continue
            found.append(one.name)
            if len(found) > LIST_ENTRIES:
                raise failures.list_too_large()
        found.sort(key=sort_key)
        listed = [ListedDirectory(name, os.path.join(place.path, name)) for name in found]
        browsed = Browsed(listed, names.omitted)
        _must_fit(browsed)
        return browsed


def directory_at(root: Root, path: str | None) -> Place:
    """Find a directory, or raise; `OSError` for one that cannot be reached."""
    place = root.find(failures.must_be_path(path or ""))
    try:
        if place.absent:
            raise GarconError(files.TREE_NOT_FOUND, "The directory does not exist.", status=404)
        if not place.is_directory:
            raise GarconError(files.TREE_DIRECTORY_REQUIRED, "The path is not a directory.")
        failures.must_be_text(place.path)
    except GarconError:
        place.close()
        raise
    return place


def tree_failed(error: OSError) -> GarconError:
    """Translate what the system says of a directory."""
    told = failures.failed(error, "The directory")
    if told.code == files.BUSY:
        return told
    code = {files.DENIED: files.TREE_DENIED, files.NOT_FOUND: files.TREE_NOT_FOUND}.get(told.code)
    return GarconError(code or told.code, told.text, status=told.status)


def _directory(root: Root, path: str | None) -> Place:
    try:
        return directory_at(root, path)
    except OSError as error:
        raise tree_failed(error) from None


@contextmanager
def _opened(place: Place) -> Iterator[int]:
    try:
        fd = place.listing()
        try:
            yield fd
        finally:
            os.close(fd)
    except OSError as error:
        raise tree_failed(error) from None


def _entry(root: Root, place: Place, one: os.DirEntry[str]) -> Entry | None:
    """Return what is shown of a name; None for what leads nowhere that could be shown."""
    try:
        if one.is_symlink():
            status = _target(root, place, one.name)
            if status is None:
                return None
        else:
            status = one.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
    except PermissionError:
        # The directory can be read and not searched: a name's kind is all that can be known.
        kind: files.Kind = "directory" if one.is_dir(follow_symlinks=False) else "file"
        return _made(place, one.name, kind, 0, None, _UNREADABLE)
    kind = "directory" if stat.S_ISDIR(status.st_mode) else "file"
    return _made(
        place, one.name, kind, status.st_size, _time(status.st_mtime_ns), _rwx(status.st_mode)
    )


def _made(
    place: Place, name: str, kind: files.Kind, size: int, modified: str | None, rwx: str
) -> Entry:
    relative = "/".join((*place.below, name))
    return Entry(name, os.path.join(place.path, name), relative, kind, size, modified, rwx)


def _target(root: Root, place: Place, name: str) -> os.stat_result | None:
    """Return the status of what a link leads to, None where that must not or cannot be seen."""
    try:
        with root.find(name, place) as found:
            return found.status
    except (OSError, GarconError):
        return None


def _leads_to_directory(root: Root, place: Place, one: os.DirEntry[str]) -> bool:
    try:
        if not one.is_symlink():
            return one.is_dir(follow_symlinks=False)
    except OSError:
        return False
    status = _target(root, place, one.name)
    return status is not None and stat.S_ISDIR(status.st_mode)


def _breadcrumbs(root: Root, place: Place) -> list[Breadcrumb]:
    path = root.path
    crumbs = [Breadcrumb(root.steps[-1].name or "/", path)]
    for name in place.below:
        path = os.path.join(path, name)
        crumbs.append(Breadcrumb(name, path))
    return crumbs


def _home(root: Root, home: str) -> HomeDirectory | None:
    try:
        with root.find(failures.must_be_path(home)) as place:
            if place.is_directory and failures.is_text(place.path):
                return HomeDirectory(place.path, _breadcrumbs(root, place))
    except (OSError, GarconError):
        pass
    return None


def _must_fit(shown: Tree | Browsed) -> None:
    if len(msgspec.json.encode(shown)) > LIST_BYTES:
        raise failures.list_too_large()


def _rwx(mode: int) -> str:
    return "".join(
        letter if mode & (0o400 >> place) else "-" for place, letter in enumerate(_FLAGS)
    )


def _time(nanoseconds: int) -> str | None:
    try:
        moment = datetime.fromtimestamp(nanoseconds // 1_000_000 / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return None
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
