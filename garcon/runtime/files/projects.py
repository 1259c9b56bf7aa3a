"""A project's directory, held open, and the files in it (server.md D.1)."""

from __future__ import annotations

import posixpath

from garcon.contract.files import FileTarget, IdentifiedFile
from garcon.errors import GarconError, validation
from garcon.runtime.files import failures
from garcon.runtime.files.walk import Place, Root, open_root, root_of


def open_base(base: str) -> Root:
    """Hold the project base; it was made absolute when the process was told it."""
    try:
        return open_root(base)
    except OSError as error:
        raise failures.failed(error, "The project base directory") from None


def open_project(base: str, path: str) -> Root:
    """Hold a project's directory.  A relative path is taken from the base."""
    failures.must_be_path(path)
    with open_base(base) as root:
        try:
            place = root.find(path)
        except OSError as error:
            raise failures.failed(error, "The project directory") from None
        with place:
            if place.absent:
                raise GarconError(
                    "PROJECT_PATH_NOT_FOUND", "The project directory does not exist.", status=404
                )
            if not place.is_directory:
                raise GarconError(
                    "PROJECT_PATH_NOT_DIRECTORY", "The project path is not a directory."
                )
            failures.must_be_text(place.path)
            return root_of(place)


def find(project: Root, path: str) -> Place:
    """Follow a file's path, relative to its project or absolute.  It need not be there."""
    if not path:
        raise validation("The path of a file is required.")
    failures.must_be_path(path)
    try:
        place = project.find(path)
    except OSError as error:
        raise failures.failed(error) from None
    try:
        failures.must_be_text(place.path)
    except GarconError:
        place.close()
        raise
    return place


def identify(base: str, target: FileTarget) -> IdentifiedFile:
    """Say which regular file a path means that is relative to its project.

    The names are put in order first and then followed, so that they mean the same afterwards.
    """
    path = posixpath.normpath(failures.must_be_path(target.path)) if target.path else ""
    if not path or path.startswith("/") or path in (".", "..") or path.startswith("../"):
        raise validation("The path must be one of a file, relative to its project and inside it.")
    with open_project(base, target.project_path) as project, find(project, path) as place:
        if place.absent:
            raise failures.missing()
        if not place.is_regular:
            raise failures.not_a_file()
        return IdentifiedFile(project.path, path)
