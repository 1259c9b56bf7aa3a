"""Where Pi keeps its sessions: one file of JSON lines each, by directory, named with its id.

Everything here blocks and runs in a thread.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Mapping

from attrs import frozen

from garcon.runtime.agents.lines import decode
from garcon.runtime.agents.long_lines import objects_in
from garcon.runtime.agents.pi_wire import Message, text_of

LINE = 64 * 1024 * 1024
"""Bytes of a line that is read; a longer one is left out."""
HEAD = 1024 * 1024
"""Bytes of a file that are looked at for its first entry, as Pi does."""
_SETTINGS = 1024 * 1024
_ID = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?")


@frozen
class Kept:
    """A session that is there: its file, and the directory that Pi works in with it."""

    path: str
    directory: str


def find(session_id: str, project_path: str, environment: Mapping[str, str]) -> Kept | None:
    """Return a session by its id, None where there is none.  Of any directory; one of this project
    goes before others of the same id.
    """
    if not _ID.fullmatch(session_id):
        return None
    place = os.path.join(project_path, _place(environment))
    name = f"*_{glob.escape(session_id)}.jsonl"
    found: Kept | None = None
    for folder in ((), ("*",)):
        for path in sorted(glob.glob(os.path.join(glob.escape(place), *folder, name))):
            head = _header(path)
            if head.get("id") != session_id:
                continue  # its name only ends so
            kept = Kept(path, text_of(head.get("cwd")))
            if kept.directory == project_path:
                return kept
            found = found or kept
    return found


def entries(path: str) -> Iterator[Message]:
    """Yield what a file holds, its header first; what cannot be read is left out."""
    return objects_in(path, LINE)


def _place(environment: Mapping[str, str]) -> str:
    home = environment.get("HOME") or os.path.expanduser("~")
    ours = environment.get("PI_CODING_AGENT_DIR") or os.path.join(home, ".pi", "agent")
    place = environment.get("PI_CODING_AGENT_SESSION_DIR") or _set(ours)
    if not place:
        return os.path.join(ours, "sessions")
    return os.path.join(home, place[2:]) if place.startswith("~/") else place


def _set(ours: str) -> str:
    """Return the place that the user's settings name, empty where they do not."""
    try:
        with open(os.path.join(ours, "settings.json"), "rb") as file:
            settings = decode(file.read(_SETTINGS))
    except OSError:
        return ""
    return text_of((settings or {}).get("sessionDir"))


def _header(path: str) -> Message:
    try:
        with open(path, "rb") as file:
            entry = decode(file.readline(HEAD))
    except OSError:
        return {}
    return entry if entry is not None and entry.get("type") == "session" else {}
