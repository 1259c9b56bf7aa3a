"""Who descends from a process of ours, read from ``/proc``: each process by its id and start time,
never by its name.

A process is taken for a descendant when it hangs on that process, when it belongs to the session
that it leads or led, or when it carries its mark in its environment, which finds those whose
parents are gone.  Without ``/proc`` there are none to be found.

Signals go by a file descriptor of the process where the kernel has these: between the look and the
signal an id may become another's, a descriptor never does.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Set

from attrs import frozen


@frozen
class Process:
    """One process; the start time (clock ticks since boot) tells it from a later one with the same
    id.
    """

    pid: int
    started: int


@frozen
class Seen:
    """A process as it was when it was looked at."""

    process: Process
    parent: int
    session: int
    state: str
    name: str
    threads: int

    @property
    def has_ended(self) -> bool:
        """Whether it only waits to be collected."""
        return self.state == "Z"


def ticks() -> int:
    """Return the present, as start times are told."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * ticks_per_second())


def ticks_per_second() -> int:
    """Return the unit of start times."""
    return os.sysconf("SC_CLK_TCK")


def find(
    root: int,
    mark: bytes,
    proc: str = "/proc",
    *,
    gone_at: int | None = None,
    known: Set[Process] = frozenset(),
) -> set[Process]:
    """Return the descendants of `root`, itself excluded, and of those that are `known`.  Blocks for
    some milliseconds.

    `gone_at` says when the exit of `root` was collected: whoever has its id now is another, and
    what started later than that in a session of its number is that other's.
    """
    seen = everything(proc)
    children = by_parent(seen)
    found: set[int] = set()
    waiting = [] if gone_at is not None else [root]
    for pid, entry in seen.items():
        is_member = entry.session == root and (gone_at is None or entry.process.started <= gone_at)
        is_known = entry.process in known
        if is_member or is_known or (mark and mark in environment(pid, proc)):
            waiting.append(pid)
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.add(pid)
            waiting.extend(children.get(pid, ()))
    found -= {root, os.getpid()}
    return {seen[pid].process for pid in found if pid in seen and not seen[pid].has_ended}


def below(root: int, proc: str = "/proc") -> set[Process]:
    """Return what hangs on `root` now, itself excluded: much faster than `find`, and no more than
    that.  There is none to be found where the kernel lists no children.
    """
    found: set[Process] = set()
    waiting = _children(root, proc)
    while waiting:
        entry = look(waiting.pop(), proc)
        if entry is not None and entry.process not in found:
            found.add(entry.process)
            waiting += _children(entry.process.pid, proc)
    return found


def running(processes: Iterable[Process], proc: str = "/proc") -> set[Process]:
    """Return those that still run; one that only waits to be collected does not."""
    return {process for process in processes if _runs(process, proc)}


def threads(processes: Iterable[Process], proc: str = "/proc") -> int:
    """Return how many threads those have that still run: what the kernel counts as processes."""
    seen = ((process, look(process.pid, proc)) for process in processes)
    return sum(
        entry.threads
        for process, entry in seen
        if entry is not None and entry.process == process and not entry.has_ended
    )


def kill(processes: Iterable[Process], proc: str = "/proc") -> set[Process]:
    """Send SIGKILL to those that still run and return them."""
    return send(processes, signal.SIGKILL, proc=proc)


def send(processes: Iterable[Process], *numbers: int, proc: str = "/proc") -> set[Process]:
    """Send signals to those that still run and return them."""
    return {process for process in processes if _send(process, numbers, proc)}


def everything(proc: str = "/proc") -> dict[int, Seen]:
    """Return all processes, by their ids."""
    entries = (look(int(name), proc) for name in _entries(proc))
    return {entry.process.pid: entry for entry in entries if entry is not None}


def by_parent(seen: dict[int, Seen]) -> dict[int, list[int]]:
    """Return whose children are whose."""
    children: dict[int, list[int]] = {}
    for entry in seen.values():
        children.setdefault(entry.parent, []).append(entry.process.pid)
    return children


def look(pid: int, proc: str = "/proc") -> Seen | None:
    """Return a process as it is now, or None."""
    try:
        with open(f"{proc}/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return None
    # The command in parentheses may hold anything, also ") ": the last one closes it.
    end = text.rfind(b")")
    fields = text[end + 2 :].split()
    if len(fields) < 20:
        return None
    return Seen(
        process=Process(pid=pid, started=int(fields[19])),
        parent=int(fields[1]),
        session=int(fields[3]),
        state=fields[0].decode("ascii", "replace"),
        name=text[text.find(b"(") + 1 : end].decode("utf-8", "replace"),
        threads=int(fields[17]),
    )


def environment(pid: int, proc: str = "/proc") -> list[bytes]:
    """Return the variables that a process was started with; none where we may not know."""
    try:
        with open(f"{proc}/{pid}/environ", "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []


def _children(pid: int, proc: str) -> list[int]:
    found: list[int] = []
    try:
        for thread in os.listdir(f"{proc}/{pid}/task"):
            with open(f"{proc}/{pid}/task/{thread}/children", "rb") as file:
                found += map(int, file.read().split())
    except OSError:
        pass  # it has ended, or its thread has: the next look sees the rest
    return found


def _entries(proc: str) -> list[str]:
    try:
        return [name for name in os.listdir(proc) if name.isdigit()]
    except OSError:
        return []


def _runs(process: Process, proc: str) -> bool:
    entry = look(process.pid, proc)
    return entry is not None and entry.process == process and not entry.has_ended


def _send(process: Process, numbers: Iterable[int], proc: str) -> bool:
    """Return whether it still ran."""
    descriptor = _descriptor(process.pid)
    try:
        # Only now: the descriptor stays with whoever had the id when it was opened.
        if not _runs(process, proc):
            return False
        for number in numbers:
            try:
                if descriptor is None:
                    os.kill(process.pid, number)
                else:
                    signal.pidfd_send_signal(descriptor, number)
            except (ProcessLookupError, PermissionError):
                pass  # ended meanwhile, or became another user's: not ours to end
        return True
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _descriptor(pid: int) -> int | None:
    """Return what a process can be signalled by, or None where the kernel has no such thing."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None
