"""What the command costs: `garcon list agents` beside an interpreter that does nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from garcon.testing.bench.report import Aim, Samples, report
from garcon.testing.bench.tunnel import say
from garcon.testing.fleet import Fleet

EMPTY = "python3 -I -S -c pass"
COMMAND = "garcon list agents"
AIMS = (Aim("cli.wall", COMMAND, EMPTY, "wall ms", "ms", 5.0),)


def _installed() -> list[str]:
    """Return the command as it was installed, or the module where it is not."""
    script = Path(sys.executable).parent / "garcon"
    return [str(script)] if script.exists() else [sys.executable, "-m", "garcon.cli.main"]


def run(file: str | None, rounds: int = 31) -> int:
    """Measure and report; 0 whatever the verdict."""
    with Fleet() as fleet:
        say("starting a controller")
        controller = fleet.controller()
        environment = fleet.environment(
            {"GARCON_CONFIG_DIR": str(controller.config), "GARCON_RUNTIME": controller.runtime}
        )
        commands = {
            EMPTY: [sys.executable, "-I", "-S", "-c", "pass"],
            COMMAND: [*_installed(), "list", "agents"],
        }
        samples = Samples()
        for number in range(rounds + 1):
            for name, argv in commands.items():
                began = time.perf_counter()
                child = subprocess.Popen(
                    argv,
                    cwd=fleet.root,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
                _, status, usage = os.wait4(child.pid, 0)
                wall = time.perf_counter() - began
                child.returncode = os.waitstatus_to_exitcode(status)
                assert child.returncode == 0, f"{name} exited {child.returncode}"
                if number:  # the first of each only warms the page cache
                    samples.add(name, "wall ms", wall * 1e3)
                    samples.add(name, "cpu ms", (usage.ru_utime + usage.ru_stime) * 1e3)
                    samples.add(name, "peak MiB", usage.ru_maxrss / 1024)
    print(f"{rounds} rounds, each command once in each")
    report("cli", samples, AIMS, file)
    return 0
