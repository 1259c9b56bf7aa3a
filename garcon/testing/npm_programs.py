"""Programs that tests run as they are: installed by npm at a pinned version, outside the tree.

npm is used as it is configured.  A second call finds what the first one made; calls at the same
time wait for each other.  Only the standard library, so that it runs before anything is installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from garcon.errors import StartupError
from garcon.local.leases import Lease

TIME_LIMIT = 280.0


class NotInstalled(Exception):
    """A program is not there and could not be installed; the text says why."""


class NpmProgram:
    """One package, and where its program lies in it: `places` are tried in order, a star stands for
    the platform.  `says` is what it prints for its version.
    """

    def __init__(
        self,
        package: str,
        version: str,
        folder: str,
        variable: str,
        places: tuple[str, ...],
        says: str,
    ) -> None:
        self.package = package
        self.version = version
        self.folder = folder
        self.variable = variable
        self.places = places
        self.says = says

    def cache_directory(self, environment: Mapping[str, str] = os.environ) -> Path:
        """Return where it is kept: where its variable says, else in the user's cache directory."""
        named = environment.get(self.variable)
        if named:
            return Path(named)
        caches = environment.get("XDG_CACHE_HOME") or os.path.join(
            os.path.expanduser("~"), ".cache"
        )
        return Path(caches) / "garcon-tests" / self.folder

    def install(
        self, cache: Path | None = None, environment: Mapping[str, str] = os.environ
    ) -> str:
        """Return the program's path, after installing it where needed.  Raises `NotInstalled`."""
        cache = cache or self.cache_directory(environment)
        place = cache / self.version
        program = _program(place)
        if program is not None:
            return program
        npm = shutil.which("npm", path=environment.get("PATH"))
        if npm is None:
            raise NotInstalled(
                f"npm is not installed, and no {self.package} {self.version} lies in {place}"
            )
        cache.mkdir(parents=True, exist_ok=True)
        try:
            lease = Lease.acquire(cache / "lock", wait=TIME_LIMIT)
        except StartupError as error:
            raise NotInstalled(error.text) from None
        try:
            return _program(place) or self._install(npm, place, environment)
        finally:
            lease.release()

    def _install(self, npm: str, place: Path, environment: Mapping[str, str]) -> str:
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        command = [npm, "install", "--no-audit", "--no-fund", "--no-save", "--prefix", str(place)]
        # Where there is no way to the packages at all, that should not take minutes to find out.
        command += ["--fetch-retries=1", "--fetch-retry-mintimeout=500"]
        command += ["--fetch-retry-maxtimeout=2000"]
        try:
            done = subprocess.run(
                [*command, f"{self.package}@{self.version}"],
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
        for path in self._candidates(place / "node_modules"):
            if _says(path) == self.says:
                (place / "finished").write_text(str(path.relative_to(place)))
                return str(path)
        raise NotInstalled(f"npm installed {self.package}, but none of its programs runs")

    def _candidates(self, modules: Path) -> list[Path]:
        return [path for place in self.places for path in sorted(modules.glob(place))]

    def main(self) -> None:
        """Install it, print where it is, or say why not."""
        try:
            print(self.install())
        except NotInstalled as error:
            sys.exit(str(error))


def _program(place: Path) -> str | None:
    """Return the program of a finished installation."""
    if not (place / "finished").exists():
        return None
    path = place / (place / "finished").read_text()
    return str(path) if os.access(path, os.X_OK) else None


def _says(path: Path) -> str | None:
    try:
        said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return said.stdout.strip() if said.returncode == 0 else None
