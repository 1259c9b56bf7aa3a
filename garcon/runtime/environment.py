"""The environment of an executor's children: an explicit copy, without anything that is ours alone.

Taken once, when the service starts; no child ever inherits the process's own environment.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Literal

OURS = "GARCON_"
"""Settings of the service itself: its connection secret, its workspace, its port.  None of them is
a child's business.
"""
FOREIGN_MARKERS = ("CLAUDECODE", "CLAUDE_CODE_")
"""What another coding agent sets for its own tools; a service that was started by one must not pass
it on.
"""

AGENT_TREE = "GARCON_AGENT_TREE"
"""Marks every process that an agent starts, so that none is left behind when the agent is ended."""


def child_environment(
    environment: Mapping[str, str],
    role: Literal["controller", "executor"],
    config_dir: str,
    python: str = sys.executable,
) -> dict[str, str]:
    """Return the variables a child starts with.

    Users' own variables stay.  A child finds the config root, the role whose endpoint it is to use,
    and, at the end of its path, the ``garcon`` command of this very installation.
    """
    kept = {
        name: value
        for name, value in environment.items()
        if not name.startswith((OURS, FOREIGN_MARKERS[1])) and name != FOREIGN_MARKERS[0]
    }
    kept["GARCON_CONFIG_DIR"] = config_dir
    kept["GARCON_RUNTIME"] = role
    commands = command_directory(python)
    if commands is not None:
        path = [part for part in kept.get("PATH", os.defpath).split(os.pathsep) if part]
        if commands not in path:
            path.append(commands)
        kept["PATH"] = os.pathsep.join(path)
    return kept


def terminal_environment(children: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a terminal's shell, from what every child gets.

    The window says how large it is, and no variable; whatever is typed here must not find our own
    controller's address, not even one that its shell's start-up files look for.
    """
    kept = {name: value for name, value in children.items() if name not in ("COLUMNS", "LINES")}
    return {
        **kept,
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
        "FORCE_COLOR": "3",
        "GARCON_CONTROLLER_URL": "",
    }


def shell_of(environment: Mapping[str, str]) -> str:
    """Return the shell for terminals, by the service's own environment (server.md C.1)."""
    return environment.get("GARCON_TERMINAL_SHELL") or environment.get("SHELL") or "/bin/bash"


def command_directory(python: str) -> str | None:
    """Return the directory with the ``garcon`` of an interpreter, or None without one."""
    directory = os.path.dirname(os.path.abspath(python))
    command = os.path.join(directory, "garcon")
    return directory if os.access(command, os.X_OK) else None
