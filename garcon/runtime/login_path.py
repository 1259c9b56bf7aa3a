"""The path that a person's own shell would search, for a service that was started without it.

What starts with the machine gets the system's directories and nothing else, and agents installed
for one account are not found there.  So the account's login shell is asked, once, before anything
runs: bounded in time and size, with a handful of variables of which none is a secret, and of its
answer the path alone is taken.  A path that somebody chose for the service is left as it is.
"""

from __future__ import annotations

import os
import pwd
import select
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping
from secrets import token_hex

from garcon.contract.limits import KIB

TIME = 3.0
SIZE, NOISE = 64 * KIB, 512 * KIB
"""Of an answer, and of what start-up files may print before it."""
SYSTEM = frozenset(
    f"{root}/{name}" for root in ("", "/usr", "/usr/local") for name in ("bin", "sbin")
) | {"/snap/bin", "/usr/games", "/usr/local/games"}
_HANDED_ON = (
    *("HOME", "USER", "LOGNAME", "SHELL", "LANG", "PATH", "ZDOTDIR"),
    *("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR"),
)


def with_login_path(environment: Mapping[str, str], seconds: float = TIME) -> dict[str, str]:
    """Return an environment whose path is a person's: as it is, or completed by the login shell's.

    Blocks, so that it is for the time before the reactor runs.
    """
    given = _parts(environment.get("PATH", ""))
    if not SYSTEM.issuperset(given):
        return dict(environment)
    found = _ask(environment, seconds)
    if found is None:
        return dict(environment)
    # Its order, so that a program's own interpreter is found before the system's older one.
    path = [*found, *(part for part in given if part not in found)]
    return {**environment, "PATH": os.pathsep.join(path)}


def _parts(path: str) -> list[str]:
    return [part for part in path.split(os.pathsep) if part]


def _ask(environment: Mapping[str, str], seconds: float) -> list[str] | None:
    shell = environment.get("SHELL") or _shell_of_account()
    if not os.access(shell, os.X_OK):
        return None
    # What start-up files print comes the same way: not every shell knows descriptors above nine.
    mark = token_hex(16)
    variables = {name: environment[name] for name in _HANDED_ON if name in environment}
    try:
        child = subprocess.Popen(
            [shell, "-ilc", f"printf '%s\\0%s\\0' {mark} \"$PATH\""],
            env={**variables, "TERM": "dumb"},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return None
    assert child.stdout is not None
    with child.stdout as pipe:
        try:
            answer = _read(pipe.fileno(), mark.encode() + b"\0", time.monotonic() + seconds)
        finally:
            _end(child)
    return None if answer is None else _distinct(_parts(os.fsdecode(answer)))


def _read(descriptor: int, mark: bytes, deadline: float) -> bytes | None:
    """Return what stands between the mark and the next NUL, if it comes in time and is not too
    much.
    """
    said = b""
    while len(said) <= NOISE + SIZE:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([descriptor], [], [], left)[0]:
            return None
        piece = os.read(descriptor, SIZE)
        said += piece
        _, begun, answer = said.partition(mark)
        path, end, _ = answer.partition(b"\0")
        if begun and (end or len(path) > SIZE):
            return path if len(path) <= SIZE else None
        if not piece:
            return None
    return None


def _end(child: subprocess.Popen[bytes]) -> None:
    try:
        child.wait(0.2)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def _distinct(parts: Iterable[str]) -> list[str] | None:
    """Return the directories that mean the same wherever one is; None without any."""
    found = list(dict.fromkeys(part for part in parts if part.startswith("/")))
    return found or None


def _shell_of_account() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_shell or "/bin/sh"
    except KeyError:
        return "/bin/sh"
