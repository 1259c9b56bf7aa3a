"""What one agent's session may use, and what its turn ends with when that is not enough.

How much an agent writes and how long a turn takes is counted anew with each turn.  Memory and
processes are those of the agent and everything below it together.  The kernel's control groups
count and keep both; the limits that a process can have by itself (``setrlimit``) count what all of
an account has, and root is above them.  Where there is no group, processes are counted now and
then, and whoever has too many is ended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import frozen
from twisted.logger import Logger

from garcon.contract.limits import MIB
from garcon.contract.runs import RunFailure
from garcon.errors import StartupError
from garcon.runtime.cgroups import Cgroups

_log = Logger()

OUTPUT = 1024 * MIB
LINE = 64 * MIB


@frozen(kw_only=True)
class SessionLimits:
    """Bytes in one turn, bytes in one line and seconds of one turn; None is no limit.  `groups` are
    there where memory or processes are limited by the kernel, `processes` where they are counted by
    us.
    """

    output: int | None = OUTPUT
    line: int = LINE
    seconds: float | None = None
    groups: Cgroups | None = None
    processes: int | None = None

    @classmethod
    def chosen(
        cls,
        options: Mapping[str, Any],
        prepare: Callable[[int, int], Cgroups] = Cgroups.prepare,
    ) -> SessionLimits:
        """Return those of a service's options, where 0 is no limit; `StartupError` when this system
        cannot keep them.  `prepare` divides the service's own group.
        """
        memory, processes = options["agent-memory-limit"], options["agent-process-limit"]
        counted = None
        try:
            groups = prepare(memory, processes) if memory or processes else None
        except StartupError as error:
            if not processes:
                raise
            groups, counted = prepare(memory, 0) if memory else None, processes
            _log.warn("agents' processes are counted every now and then: {why}", why=error.text)
        return cls(
            output=options["agent-output-limit"] or None,
            seconds=options["agent-time-limit"] or None,
            groups=groups,
            processes=counted,
        )


def silent() -> RunFailure:
    """The agent closed its output and went on: nothing more can come of it."""
    return RunFailure("AGENT_FAILED", "The agent closed its output and did not end; it was ended.")


def too_much_output(limit: int) -> RunFailure:
    """The agent wrote more than it may in one turn."""
    return RunFailure(
        "AGENT_OUTPUT_LIMIT", f"The agent wrote more than {limit} bytes in one turn; it was ended."
    )


def line_too_long(limit: int) -> RunFailure:
    """The agent wrote a line that is longer than any may be."""
    return RunFailure(
        "AGENT_LINE_LIMIT", f"The agent wrote a line of more than {limit} bytes; it was ended."
    )


def too_long(seconds: float) -> RunFailure:
    """The turn took longer than it may."""
    return RunFailure(
        "AGENT_TIME_LIMIT", f"The turn took more than {seconds:g} seconds; it was stopped."
    )


def too_much_memory() -> RunFailure:
    """The kernel ended what took more memory than the session may."""
    return RunFailure(
        "AGENT_MEMORY_LIMIT",
        "The agent and its tools needed more memory than a session may use here; the system ended"
        " them.",
    )


def too_many_processes() -> RunFailure:
    """The agent ended after the kernel had refused it one more process, or was ended for those it
    had.
    """
    return RunFailure(
        "AGENT_PROCESS_LIMIT",
        "The agent and its tools needed more processes than a session may have here.",
    )
