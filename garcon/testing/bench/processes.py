"""What a process has used, read from ``/proc``."""

from __future__ import annotations

import os
from pathlib import Path


def memory(pid: int) -> int:
    """Return the bytes that a process holds in memory of its own."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no such process")


def processor_time(pid: int) -> float:
    """Return the seconds that a process has run."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
