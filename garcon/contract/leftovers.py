"""Processes that an executor started and that outlived what they were started for (decisions.md
13).

Nothing here is an argument, a variable or a path: a process is told by its id, its start time, its
short name and its age.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

LISTED = 200
"""More are counted and not named."""
NOT_FOUND = "PROCESS_NOT_FOUND"
NOT_ENDED = "PROCESS_NOT_ENDED"

ProcessId = Annotated[int, Meta(ge=2, le=2**31 - 1)]
StartTime = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class LeftoverProcess(Struct, frozen=True, rename="camel"):
    """One process.  `started` (clock ticks since the machine's start) tells it from a later one
    with the same id; `name` is what the kernel calls it.

    `origin`: ``earlier``, started by an earlier process of this executor, which is gone;
    ``orphan``, started by this one, while the agent or terminal that it belonged to is gone.
    """

    pid: int
    started: int
    name: str
    origin: Literal["earlier", "orphan"]
    seconds: float


class LeftoverProcesses(Struct, frozen=True, rename="camel"):
    """The oldest of them, and how many there are."""

    processes: list[LeftoverProcess]
    count: int


class EndProcess(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """One of those that are listed."""

    pid: ProcessId
    started: StartTime


class ProcessEnded(Struct, frozen=True, rename="camel"):
    """It is gone."""

    pid: int
    started: int
    success: bool = True
