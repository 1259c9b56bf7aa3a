"""What a service holds, and what agents have left on the machine, read from ``/proc``."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from attrs import frozen

from garcon.contract.limits import MIB
from garcon.runtime import marks
from garcon.runtime.agents import tree
from garcon.testing.bench.processes import memory
from garcon.testing.fleet import Service

MARGIN = 16 * MIB
POOL = 10
"""Threads that a service's pool makes when they are wanted at once, and keeps."""


@frozen
class Footing:
    """What a service holds."""

    children: int
    descriptors: int
    threads: int
    memory: int
    files: frozenset[str] = frozenset()
    """Names in its config root, and what it has made among temporary files."""

    @classmethod
    def of(cls, service: Service, temporary: Path | None = None) -> Footing:
        """Look at a process."""
        pid = service.process.pid
        return cls(
            children=len(children(pid)),
            descriptors=len(os.listdir(f"/proc/{pid}/fd")),
            threads=len(os.listdir(f"/proc/{pid}/task")),
            memory=memory(pid),
            files=frozenset([*_names(service.config), *_ours(temporary)]),
        )

    def exceeds(self, before: Footing, margin: int = MARGIN) -> list[str]:
        """Say what is more than it was."""
        found = [
            f"{name}: {getattr(self, name)} instead of {getattr(before, name)}"
            for name, more in (("children", 0), ("descriptors", 0), ("threads", POOL))
            if getattr(self, name) > getattr(before, name) + more
        ]
        if self.memory > before.memory + margin:
            grown = (self.memory - before.memory) / MIB
            found.append(f"memory: {grown:.1f} MiB more, where {margin / MIB:.0f} may be")
        if more_files := sorted(self.files - before.files):
            found.append(f"files: {' '.join(more_files[:5])} and {len(more_files[5:])} more")
        return found

    def __str__(self) -> str:
        return (
            f"{self.children} children, {self.descriptors} descriptors, {self.threads} threads, "
            f"{self.memory / MIB:.1f} MiB, {len(self.files)} files"
        )


def _names(folder: Path) -> Iterable[str]:
    return (str(path.relative_to(folder.parent)) for path in folder.rglob("*"))


def _ours(temporary: Path | None) -> Iterable[str]:
    """Agents keep files of their own there, under names of their own."""
    if temporary is None:
        return ()
    return (f"{temporary.name}/{path.name}" for path in temporary.glob("*garcon*"))


def children(pid: int) -> list[int]:
    """Return the children of a process, those included that only wait to be collected."""
    found: list[int] = []
    for thread in os.listdir(f"/proc/{pid}/task"):
        try:
            text = Path(f"/proc/{pid}/task/{thread}/children").read_text()
        except OSError:
            continue  # that thread has ended
        found += map(int, text.split())
    return found


def roots(pids: Iterable[int]) -> list[int]:
    """Return the oldest process of each tree that an executor has marked: where it still runs, that
    is the agent itself.
    """
    oldest: dict[bytes, tree.Process] = {}
    for pid in pids:
        seen, mark = tree.look(pid), marks.read(tree.environment(pid))
        if seen is None or mark is None:
            continue
        known = oldest.setdefault(mark.text, seen.process)
        if (seen.process.started, pid) < (known.started, known.pid):
            oldest[mark.text] = seen.process
    return [process.pid for process in oldest.values()]


def running(command: Sequence[str]) -> list[int]:
    """Return the processes with exactly this command line, whatever their environment says."""
    wanted = "\0".join(command).encode() + b"\0"
    return [pid for pid in tree.everything() if _line(pid) == wanted]


def described(pid: int) -> str:
    """Say what a process is, for a person."""
    seen = tree.look(pid)
    if seen is None:
        return f"{pid} (gone)"
    words = _line(pid).replace(b"\0", b" ").decode(errors="replace").strip()
    return f"{pid} {seen.state} child of {seen.parent}: {words[:120] or seen.name}"


def _line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
