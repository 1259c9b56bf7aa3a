"""Install the pinned Claude Code into a cache outside the tree, for tests and demonstrations.

    python -m garcon.testing.claude_code

prints the path of its program.  npm is used as it is configured.  A second call finds what the
first one made; calls at the same time wait for each other.  Only the standard library, so that it
runs before anything is installed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from garcon.errors import StartupError
from garcon.local.leases import Lease

PACKAGE, VERSION = "@anthropic-ai/claude-code", "2.1.197"
TIME_LIMIT = 280.0


class NotInstalled(Exception):
    """Claude Code is not there and could not be installed; the text says why."""


def cache_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """Return where it is kept: ``GARCON_CLAUDE_CODE_CACHE``, else in the user's cache directory."""
    named = environment.get("GARCON_CLAUDE_CODE_CACHE")
    if named:
        return Path(named)
    caches = environment.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(caches) / "garcon-tests" / "claude-code"


def install(cache: Path | None = None, environment: Mapping[str, str] = os.environ) -> str:
    """Return the program's path, after installing it where needed.  Raises `NotInstalled`."""
    cache = cache or cache_directory(environment)
    place = cache / VERSION
    program = _program(place)
    if program is not None:
        return program
    npm = shutil.which("npm", path=environment.get("PATH"))
    if npm is None:
        raise NotInstalled(f"npm is not installed, and no Claude Code {VERSION} lies in {place}")
    cache.mkdir(parents=True, exist_ok=True)
    try:
        lease = Lease.acquire(cache / "lock", wait=TIME_LIMIT)
    except StartupError as error:
        raise NotInstalled(error.text) from None
    try:
        return _program(place) or _install(npm, place, environment)
    finally:
        lease.release()


def scripted_environment(directory: str | os.PathLike[str], port: int) -> dict[str, str]:
    """Return the variables with which Claude Code talks to a pretend model server and to nobody
    else.

    Its home is made in `directory`.  What its settings carry would not survive in a service's child
    environment, from which ``CLAUDE_CODE_*`` is taken.
    """
    home = Path(directory)
    home.mkdir(parents=True, exist_ok=True)
    variables = {
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_RETRIES": "1",
    }
    (home / "settings.json").write_text(json.dumps({"env": variables}))
    return {
        "HOME": str(home),
        "CLAUDE_CONFIG_DIR": str(home),
        "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{port}",
        "ANTHROPIC_API_KEY": "scripted",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "DISABLE_TELEMETRY": "1",
    }


def _program(place: Path) -> str | None:
    """Return the program of a finished installation."""
    if not (place / "finished").exists():
        return None
    path = place / (place / "finished").read_text()
    return str(path) if os.access(path, os.X_OK) else None


def _install(npm: str, place: Path, environment: Mapping[str, str]) -> str:
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    command = [npm, "install", "--no-audit", "--no-fund", "--no-save", "--prefix", str(place)]
    # Where there is no way to the packages at all, that should not take minutes to find out.
    command += ["--fetch-retries=1", "--fetch-retry-mintimeout=500"]
    command += ["--fetch-retry-maxtimeout=2000"]
    try:
        done = subprocess.run(
            [*command, f"{PACKAGE}@{VERSION}"],
            cwd=place,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT,
        )
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"npm did not finish within {TIME_LIMIT:g} seconds") from None
    if done.returncode != 0:
        raise NotInstalled(f"npm failed: {(done.stderr or done.stdout)[-2000:].strip()}")
    for path in _candidates(place / "node_modules"):
        if _version(path) == VERSION:
            (place / "finished").write_text(str(path.relative_to(place)))
            return str(path)
    raise NotInstalled(f"npm installed {PACKAGE}, but none of its programs runs")


def _candidates(modules: Path) -> list[Path]:
    """The native program needs no install script to have run; the launcher does."""
    native = sorted((modules / "@anthropic-ai").glob("claude-code-*/claude"))
    return [*native, modules / ".bin" / "claude"]


def _version(path: Path) -> str | None:
    try:
        said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return said.stdout.split(" ")[0].strip() if said.returncode == 0 else None


def main() -> None:
    """Install it, print where it is, or say why not."""
    try:
        print(install())
    except NotInstalled as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
