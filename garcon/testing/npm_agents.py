"""Pinned agents from npm, installed into a cache outside the tree, for tests and demonstrations.

npm is used as it is configured.  A second call finds what the first one made; calls at the same
time wait for each other.  Only the standard library, so that it runs before anything is installed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from garcon.errors import StartupError
from garcon.local.leases import Lease

TIME_LIMIT = 280.0


class NotInstalled(Exception):
    """An agent is not there and could not be installed; the text says why."""


@dataclass(frozen=True)
class NpmAgent:
    """One agent in one version.

    `folder` is its place in the cache, unless the variable names another; `programs` says where its
    programs may lie below ``node_modules``, the best first.  `hashes` are of the packages that may
    come with it, by their place there: what npm brings for one of them must have that hash.  One
    that has no ``--version`` is not tried when it was installed.  `beside` names packages that are
    installed with it.
    """

    title: str
    package: str
    version: str
    folder: str
    variable: str
    programs: Callable[[Path], list[Path]]
    hashes: Mapping[str, str] = field(default_factory=dict)
    tells_version: bool = True
    beside: tuple[str, ...] = ()

    def cache_directory(self, environment: Mapping[str, str] = os.environ) -> Path:
        """Return where it is kept: as the variable says, else in the user's cache directory."""
        named = environment.get(self.variable)
        if named:
            return Path(named)
        home = os.path.join(os.path.expanduser("~"), ".cache")
        caches = environment.get("XDG_CACHE_HOME") or home
        return Path(caches) / "garcon-tests" / self.folder

    def install(
        self, cache: Path | None = None, environment: Mapping[str, str] = os.environ
    ) -> str:
        """Return the program's path, after installing it where needed.  Raises `NotInstalled`."""
        cache = cache or self.cache_directory(environment)
        place = cache / self.version
        program = finished(place)
        if program is not None:
            return program
        npm = shutil.which("npm", path=environment.get("PATH"))
        if npm is None:
            text = f"npm is not installed, and no {self.title} {self.version} lies in {place}"
            raise NotInstalled(text)
        cache.mkdir(parents=True, exist_ok=True)
        try:
            lease = Lease.acquire(cache / "lock", wait=TIME_LIMIT)
        except StartupError as error:
            raise NotInstalled(error.text) from None
        try:
            return finished(place) or self._install(npm, place, environment)
        finally:
            lease.release()

    def main(self) -> None:
        """Install it, print where it is, or say why not."""
        try:
            print(self.install())
        except NotInstalled as error:
            sys.exit(str(error))

    def _install(self, npm: str, place: Path, environment: Mapping[str, str]) -> str:
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        command = [npm, "install", "--no-audit", "--no-fund", "--no-save", "--prefix", str(place)]
        # Where there is no way to the packages at all, that should not take minutes to find out.
        command += ["--fetch-retries=1", "--fetch-retry-mintimeout=500"]
        command += ["--fetch-retry-maxtimeout=2000"]
        try:
            done = subprocess.run(
                [*command, f"{self.package}@{self.version}", *self.beside],
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
        modules = place / "node_modules"
        self._check(modules)
        for path in self.programs(modules):
            runs = self.version in _says(path) if self.tells_version else os.access(path, os.X_OK)
            if runs:
                (place / "finished").write_text(str(path.relative_to(place)))
                return str(path)
        raise NotInstalled(f"npm installed {self.package}, but none of its programs runs")

    def _check(self, modules: Path) -> None:
        """Compare what npm has brought, and checked by itself, with the hashes that are known."""
        if not self.hashes:
            return
        try:
            told = json.loads((modules / ".package-lock.json").read_text())["packages"]
            brought = {
                name.removeprefix("node_modules/"): entry.get("integrity")
                for name, entry in told.items()
            }
        except (OSError, ValueError, LookupError, AttributeError):
            raise NotInstalled("npm does not say what it has installed") from None
        if self.package not in brought:
            raise NotInstalled(f"npm did not install {self.package}")
        for name, integrity in brought.items():
            if name in self.hashes and integrity != self.hashes[name]:
                raise NotInstalled(f"{name} is not the package that is pinned: its hash is another")


def finished(place: Path) -> str | None:
    """Return the program of a finished installation."""
    if not (place / "finished").exists():
        return None
    path = place / (place / "finished").read_text()
    return str(path) if os.access(path, os.X_OK) else None


def _says(path: Path) -> list[str]:
    """Return the words in which a program tells its version; none where it does not run."""
    try:
        said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return said.stdout.split() if said.returncode == 0 else []
