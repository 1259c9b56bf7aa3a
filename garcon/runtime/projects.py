"""Project directories as this executor sees them: canonical, existing, inside its base."""

from __future__ import annotations

import os
import stat

from garcon.contract.runs import ProjectInspection
from garcon.errors import GarconError, validation

PATH_CHARACTERS = 4_096
NO_ACCESS = "PROJECT_PATH_INACCESSIBLE"
"""There may be a directory, but this account may not look into it."""


def inspect(path: str, base: str) -> ProjectInspection:
    """Resolve `path`, symbolic links followed.  Blocks on the file system.

    A relative path is taken from the base.  What lies outside is refused before its existence is
    looked at.
    """
    if not path or "\0" in path or len(path) > PATH_CHARACTERS or not _is_text(path):
        raise validation("The project path is empty, too long, or not valid text.")
    inside = os.path.realpath(base)
    canonical = os.path.realpath(os.path.join(inside, path))
    if os.path.commonpath([inside, canonical]) != inside:
        raise GarconError(
            "PROJECT_PATH_OUTSIDE_BASE",
            f"The project path is outside the executor's project base directory, {_shown(inside)}.",
            status=403,
        )
    try:
        found = os.stat(canonical)
    except PermissionError:
        raise _no_access() from None
    except OSError as error:
        raise GarconError(
            "PROJECT_PATH_NOT_FOUND",
            f"The project path cannot be found: {os.strerror(error.errno or 0)}.",
            status=404,
        ) from None
    if not stat.S_ISDIR(found.st_mode):
        raise GarconError(
            "PROJECT_PATH_NOT_DIRECTORY", "The project path is not a directory.", status=400
        )
    if not os.access(canonical, os.R_OK | os.X_OK):
        raise _no_access()
    if not _is_text(canonical):
        raise validation("The project directory's name is not valid UTF-8.")
    return ProjectInspection(
        project_path=canonical,
        project_key=canonical,
        is_git_repo=_is_in_repository(canonical, inside),
    )


def _is_in_repository(path: str, base: str) -> bool:
    """Whether a directory is in a Git work tree; one above the base is nobody's business."""
    while not os.path.lexists(os.path.join(path, ".git")):
        if path == base:
            return False
        path = os.path.dirname(path)
    return True


def _no_access() -> GarconError:
    return GarconError(NO_ACCESS, "The project path may not be read by this account.", status=403)


def _shown(path: str) -> str:
    return path.encode(errors="replace").decode()


def _is_text(path: str) -> bool:
    """Whether a path can cross the wire; file names that are not UTF-8 cannot."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
