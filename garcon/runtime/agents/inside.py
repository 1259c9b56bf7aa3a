"""Whether a file that an agent wants to change lies in its chat's project."""

from __future__ import annotations

import os.path


def is_inside(path: str, project_path: str) -> bool:
    """Whether a path, which may begin at the project, names something below it.  The links that
    there are count for where they lead; what cannot be a path is nowhere.
    """
    if not path:
        return False
    whole = os.path.join(project_path, path)
    try:
        below = os.path.join(os.path.realpath(project_path), "")
        # Behind a link a `..` is another place by the names than by the directories, and agents
        # go by either.
        found = [os.path.realpath(one) for one in (whole, os.path.normpath(whole))]
    except ValueError:
        return False
    return all(one.startswith(below) for one in found)
