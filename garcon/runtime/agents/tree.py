"""Who descends from an agent, read from ``/proc``: each process by its id and start time, never by
its name.

A process is taken for a descendant when it hangs on the agent, when it belongs to the session that
the agent leads, or when it carries the agent's mark in its environment, which finds those whose
parents are gone.  Without ``/proc`` there are none to be found.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable

from attrs import frozen


@frozen
class Process:
    """One process; the start time (clock ticks since boot) tells it from a later one with the same
    id.
    """

    pid: int
    started: int


@frozen
class _Seen:
    process: Process
    parent: int
    session: int
    state: str


def find(root: int, mark: bytes, proc: str = "/proc") -> set[Process]:
    """Return the descendants of `root`, itself excluded.  Blocks for some milliseconds."""
    seen = {
        entry.process.pid: entry
        for name in _entries(proc)
        if (entry := _read(proc, name)) is not None
    }
    children: dict[int, list[int]] = {}
    for entry in seen.values():
        children.setdefault(entry.parent, []).append(entry.process.pid)
    found: set[int] = set()
    waiting = [
        root,
        *(pid for pid, e in seen.items() if e.session == root or _is_marked(proc, pid, mark)),
    ]
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.add(pid)
            waiting.extend(children.get(pid, ()))
    found -= {root, os.getpid()}
    return {seen[pid].process for pid in found if pid in seen and seen[pid].state != "Z"}


def running(processes: Iterable[Process], proc: str = "/proc") -> set[Process]:
    """Return those that still run; one that only waits to be collected does not."""
    alive = set()
    for process in processes:
        entry = _read(proc, str(process.pid))
        if entry is not None and entry.process == process and entry.state != "Z":
            alive.add(process)
    return alive


def kill(processes: Iterable[Process], proc: str = "/proc") -> set[Process]:
    """Send SIGKILL to those that still run and return them."""
    alive = running(processes, proc)
    for process in alive:
        try:
            os.kill(process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass  # ended meanwhile, or became another user's: not ours to end
    return alive


def _entries(proc: str) -> list[str]:
    try:
        return [name for name in os.listdir(proc) if name.isdigit()]
    except OSError:
        return []


def _read(proc: str, name: str) -> _Seen | None:
    try:
        with open(f"{proc}/{name}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return None
    # The command in parentheses may hold anything, also ") ": the last one closes it.
    fields = text[text.rfind(b")") + 2 :].split()
    if len(fields) < 20:
        return None
    return _Seen(
        process=Process(pid=int(name), started=int(fields[19])),
        parent=int(fields[1]),
        session=int(fields[3]),
        state=fields[0].decode("ascii", "replace"),
    )


def _is_marked(proc: str, pid: int, mark: bytes) -> bool:
    if not mark:
        return False
    try:
        with open(f"{proc}/{pid}/environ", "rb") as file:
            return mark in file.read().split(b"\0")
    except OSError:
        return False
