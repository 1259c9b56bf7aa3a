"""Codex's own program behind the wrapper that npm puts on the path.

The wrapper needs Node and stays in the way: a signal that it cannot pass on leaves the program
behind.  So the program is started itself, where it is found.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator

_MACHINES = {"x86_64": ("x64", "x86_64"), "aarch64": ("arm64", "aarch64")}
_SCRIPT = b"#!"


def program_behind(path: str, machine: str | None = None) -> str:
    """Return the program that `path` starts, and `path` itself where it is no wrapper or there is
    none to be found.
    """
    real = os.path.realpath(path)
    if not _is_script(real):
        return path
    for candidate in _candidates(os.path.dirname(os.path.dirname(real)), machine):
        if os.path.isfile(candidate) and os.access(candidate, os.X_OK):
            return candidate
    return path


def _is_script(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(2) == _SCRIPT
    except OSError:
        return False


def _candidates(package: str, machine: str | None) -> Iterator[str]:
    """Yield where it may be: in the package of this kind of machine, inside the wrapper's package
    or beside it, or in the wrapper's own.
    """
    names = _MACHINES.get(machine or platform.machine())
    if names is None:
        return
    short, long = names
    other = os.path.join("@openai", f"codex-linux-{short}")
    beside = os.path.dirname(os.path.dirname(package))
    for root in (
        os.path.join(package, "node_modules", other),
        os.path.join(beside, other),
        package,
    ):
        vendor = os.path.join(root, "vendor", f"{long}-unknown-linux-musl")
        yield os.path.join(vendor, "bin", "codex")
        yield os.path.join(vendor, "codex", "codex")
