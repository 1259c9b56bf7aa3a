"""The example agent that comes with the pinned package `agent-client-protocol` of PyPI, for tests.

    python -m garcon.testing.acp_example

installs it where needed, and prints the path of a program that starts it.  The example is in the
source package only; the program has an environment of its own beside it.  pip is used as it is
configured.  Only the standard library, so that it runs before anything is installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from garcon.errors import StartupError
from garcon.local.leases import Lease
from garcon.testing.npm_agents import TIME_LIMIT, NotInstalled, finished

PACKAGE, VERSION = "agent-client-protocol", "0.12.1"
SOURCES = "9963ccb590ed96d7dc542c9c023e90676fc76b1c6562e21a9ee112f4fbcb0095"
"""The SHA-256 of the source package."""
_SAYS = f'#!/bin/sh\nif [ "$1" = --version ]; then echo {VERSION}; exit; fi\n'


@dataclass(frozen=True)
class ExampleAgent:
    """The agent in its one version."""

    title: str = "The example agent of agent-client-protocol"
    variable: str = "GARCON_ACP_EXAMPLE_CACHE"

    def cache_directory(self, environment: Mapping[str, str] = os.environ) -> Path:
        """Return where it is kept: as the variable says, else in the user's cache directory."""
        if named := environment.get(self.variable):
            return Path(named)
        home = os.path.join(os.path.expanduser("~"), ".cache")
        return Path(environment.get("XDG_CACHE_HOME") or home) / "garcon-tests" / "acp-example"

    def install(
        self, cache: Path | None = None, environment: Mapping[str, str] = os.environ
    ) -> str:
        """Return the program's path, after installing it where needed.  Raises `NotInstalled`."""
        cache = cache or self.cache_directory(environment)
        place = cache / VERSION
        if (program := finished(place)) is not None:
            return program
        cache.mkdir(parents=True, exist_ok=True)
        try:
            lease = Lease.acquire(cache / "lock", wait=TIME_LIMIT)
        except StartupError as error:
            raise NotInstalled(error.text) from None
        try:
            return finished(place) or self._install(place, environment)
        finally:
            lease.release()

    def main(self) -> None:
        """Install it, print where it is, or say why not."""
        try:
            print(self.install())
        except NotInstalled as error:
            sys.exit(str(error))

    def _install(self, place: Path, environment: Mapping[str, str]) -> str:
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        python = place / "venv" / "bin" / "python"
        self._run([sys.executable, "-m", "venv", str(place / "venv")], place, environment)
        pip = [str(python), "-m", "pip", "--disable-pip-version-check"]
        self._run([*pip, "install", "--quiet", f"{PACKAGE}=={VERSION}"], place, environment)
        wanted = place / "wanted.txt"
        wanted.write_text(f"{PACKAGE}=={VERSION} --hash=sha256:{SOURCES}\n")
        fetch = ["download", "--quiet", "--no-deps", "--no-binary", ":all:", "-r", str(wanted)]
        self._run([*pip, *fetch], place, environment)
        example = place / "agent.py"
        example.write_bytes(_example_in(place))
        program = place / "acp-example-agent"
        program.write_text(f'{_SAYS}exec "{python}" "{example}"\n')
        program.chmod(0o755)
        (place / "finished").write_text(program.name)
        return str(program)

    def _run(self, command: list[str], place: Path, environment: Mapping[str, str]) -> None:
        try:
            done = subprocess.run(
                command,
                cwd=place,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=TIME_LIMIT,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NotInstalled(f"{command[0]} failed: {error}") from None
        if done.returncode != 0:
            said = (done.stderr or done.stdout)[-2000:].strip()
            raise NotInstalled(f"{' '.join(command[1:4])} failed: {said}")


def _example_in(place: Path) -> bytes:
    name = f"{PACKAGE.replace('-', '_')}-{VERSION}"
    try:
        with tarfile.open(place / f"{name}.tar.gz") as sources:
            found = sources.extractfile(f"{name}/examples/agent.py")
            if found is not None:
                return found.read()
    except (OSError, KeyError, tarfile.TarError) as error:
        raise NotInstalled(f"the source package cannot be read: {error}") from None
    raise NotInstalled("the source package has no example")


EXAMPLE = ExampleAgent()


if __name__ == "__main__":
    EXAMPLE.main()
