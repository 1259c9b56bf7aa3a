"""Control groups (version 2), one for each agent: the kernel counts the memory and the processes of
an agent with everything below it, and ends or refuses what is too much.

They need a group that is the service's own to divide, as systemd gives with ``Delegate=yes``; the
service itself moves into one part of it, because a group that is divided holds no processes.
"""

from __future__ import annotations

import os
from typing import Literal
from uuid import uuid4

from attrs import frozen
from twisted.logger import Logger

from garcon.errors import StartupError

SERVICE = "garcon-service"
AGENT = "garcon-agent-"
ROOTS = ("/sys/fs/cgroup", "/sys/fs/cgroup/unified")

_log = Logger()


@frozen
class Cgroup:
    """The group of one agent.  Its owner removes it when everything in it has ended."""

    path: str

    @property
    def processes(self) -> str:
        """The file that a process joins the group by, by writing its id into it."""
        return os.path.join(self.path, "cgroup.procs")

    def passed(self) -> Literal["memory", "processes"] | None:
        """Return the limit that was passed, if any was."""
        if _count(self.path, "memory.events", "oom_kill"):
            return "memory"
        if _count(self.path, "pids.events", "max"):
            return "processes"
        return None

    def kill(self) -> None:
        """End everything in it, where the kernel can do that at once."""
        try:
            _write(self.path, "cgroup.kill", "1")
        except OSError:
            pass  # before Linux 5.14; whatever is in it was recorded as well

    def remove(self) -> None:
        """Remove it; one that still holds a process stays, and the next start removes it."""
        try:
            os.rmdir(self.path)
        except OSError as error:
            _log.debug("an agent's control group stays: {why}", why=error.strerror)


@frozen
class Cgroups:
    """The service's own group, divided; 0 is no limit."""

    path: str
    memory: int
    processes: int

    @classmethod
    def prepare(
        cls,
        memory: int,
        processes: int,
        roots: tuple[str, ...] = ROOTS,
        own: str = "/proc/self/cgroup",
    ) -> Cgroups:
        """Divide our own group, or raise `StartupError` where it is not ours to divide."""
        wanted = [name for name, limit in (("memory", memory), ("pids", processes)) if limit]
        path = _own(roots, own)
        try:
            there = _read(path, "cgroup.controllers").split()
            if missing := [name for name in wanted if name not in there]:
                raise StartupError(f"{_NEEDS}: it has no {' and no '.join(missing)} controller")
            service = os.path.join(path, SERVICE)
            os.makedirs(service, exist_ok=True)
            _write(service, "cgroup.procs", str(os.getpid()))
            _write(path, "cgroup.subtree_control", " ".join(f"+{name}" for name in wanted))
            for name in os.listdir(path):
                if name.startswith(AGENT):
                    Cgroup(os.path.join(path, name)).remove()
        except OSError as error:
            raise StartupError(f"{_NEEDS}: {error.strerror}") from None
        return cls(path, memory, processes)

    def make(self) -> Cgroup:
        """Make the group of one agent; raises `OSError`."""
        group = Cgroup(os.path.join(self.path, AGENT + uuid4().hex))
        os.mkdir(group.path)
        try:
            if self.memory:
                _write(group.path, "memory.max", str(self.memory))
                # All of it or nothing: an agent without its tools would not know what happened.
                _write(group.path, "memory.oom.group", "1")
            if self.processes:
                _write(group.path, "pids.max", str(self.processes))
        except OSError:
            group.remove()
            raise
        return group


_NEEDS = (
    "limits of memory and processes need a control group (version 2) of the service's own, as"
    " systemd gives with Delegate=yes"
)


def _own(roots: tuple[str, ...], own: str) -> str:
    try:
        lines = _read(os.path.dirname(own), os.path.basename(own)).splitlines()
    except OSError as error:
        raise StartupError(f"{_NEEDS}: {error.strerror}") from None
    for line in lines:
        if line.startswith("0::/"):
            inside = line.removeprefix("0::/").removesuffix(SERVICE).strip("/")
            for root in roots:
                path = os.path.join(root, inside) if inside else root
                if os.path.exists(os.path.join(path, "cgroup.controllers")):
                    return path
    raise StartupError(f"{_NEEDS}: this system has none")


def _count(path: str, name: str, key: str) -> int:
    try:
        for line in _read(path, name).splitlines():
            word, _, value = line.partition(" ")
            if word == key:
                return int(value)
    except (OSError, ValueError):
        pass  # without that controller nothing was passed
    return 0


def _read(path: str, name: str) -> str:
    with open(os.path.join(path, name), encoding="ascii", errors="replace") as file:
        return file.read()


def _write(path: str, name: str, text: str) -> None:
    with open(os.path.join(path, name), "w", encoding="ascii") as file:
        file.write(text)
