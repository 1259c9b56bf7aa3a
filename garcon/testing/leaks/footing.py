"""Starts, stops and kills of agents, again and again, and whether the services then are what they
were: ``python -m garcon.testing.leaks --rounds 200``.

A controller and a worker play four kinds of rounds in turn: a turn that ends, one that is stopped
in its tool, one whose agent is killed there, and one that is stopped while it starts.  Each round
ends with the kill of whatever agent is still there.  After some rounds the processes, descriptors,
threads and memory of both services are noted; after the last one they are to be the same again,
memory within a margin, threads within what a pool may have.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

from attrs import frozen

from garcon.contract.limits import MIB
from garcon.testing.bench.processes import memory
from garcon.testing.fleet import Fleet, Service, eventually

KINDS = ("ended", "stopped", "killed", "stopped at once")
WARM = 2 * len(KINDS)
"""Rounds before the first look: threads are made, modules loaded, caches filled."""
MARGIN = 16 * MIB
POOL = 10
"""Threads that a service's pool makes when they are wanted at once, and keeps."""
_AGENT = ("--agent", "scripted", "--model", "scripted")
_TOOL = "run echo $PPID > {file}; setsid sleep 3600 & sleep 3600"


@frozen
class Footing:
    """What a service holds."""

    children: int
    descriptors: int
    threads: int
    memory: int

    @classmethod
    def of(cls, service: Service) -> Footing:
        """Look at a process."""
        pid = service.process.pid
        return cls(
            children=len(children(pid)),
            descriptors=len(os.listdir(f"/proc/{pid}/fd")),
            threads=len(os.listdir(f"/proc/{pid}/task")),
            memory=memory(pid),
        )

    def exceeds(self, before: Footing, margin: int) -> list[str]:
        """Say what is more than it was."""
        found = [
            f"{name}: {getattr(self, name)} instead of {getattr(before, name)}"
            for name, more in (("children", 0), ("descriptors", 0), ("threads", POOL))
            if getattr(self, name) > getattr(before, name) + more
        ]
        if self.memory > before.memory + margin:
            grown = (self.memory - before.memory) / MIB
            found.append(f"memory: {grown:.1f} MiB more, where {margin / MIB:.0f} may be")
        return found


def children(pid: int) -> list[int]:
    """Return the children of a process, those included that only wait to be collected."""
    found: list[int] = []
    for thread in os.listdir(f"/proc/{pid}/task"):
        try:
            text = Path(f"/proc/{pid}/task/{thread}/children").read_text()
        except OSError:
            continue  # that thread has ended
        found += map(int, text.split())
    return found


class Leaks:
    """A fleet at its work.  Whoever made the fleet ends it."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._controller, self._worker, self._executor_id = fleet.pair()
        self._project = fleet.project("leaks")
        self.services = (self._controller, self._worker)

    def play(self, rounds: int) -> list[str]:
        """Play so many rounds after those to warm up, and say what is not as it was."""
        self._rounds(WARM)
        before = [Footing.of(service) for service in self.services]
        self._rounds(rounds)
        wrong: list[str] = []
        for service, then in zip(self.services, before, strict=True):
            wrong += [f"{service.name}: {text}" for text in self._settled(service, then)]
        left = self._fleet.left_over()
        return [*wrong, *(f"process {pid} is left" for pid in left)]

    def figures(self) -> list[str]:
        """Return what the services hold now, in lines."""
        return [f"{service.name}: {Footing.of(service)}" for service in self.services]

    def _settled(self, service: Service, before: Footing) -> list[str]:
        """Give what has just ended a moment to be collected."""
        try:
            eventually(
                "it is as it was",
                lambda: not Footing.of(service).exceeds(before, MARGIN),
                seconds=10.0,
            )
        except AssertionError:
            return Footing.of(service).exceeds(before, MARGIN)
        return []

    def _rounds(self, rounds: int) -> None:
        for number in range(rounds):
            kind = KINDS[number % len(KINDS)]
            where = ("local", self._executor_id)[number // len(KINDS) % 2]
            self._round(kind, where)

    def _round(self, kind: str, executor_id: str) -> None:
        service = self._controller if executor_id == "local" else self._worker
        file = self._project / uuid4().hex
        prompt = "say done" if kind == "ended" else _TOOL.format(file=file)
        command = "start" if kind == "ended" else "start-async"
        place = ("--executor", executor_id, "--cwd", str(self._project))
        started = self._fleet.garcon(self._controller, command, *_AGENT, *place, prompt)
        chat, _ = started.handle()
        if kind in ("stopped", "killed"):
            agent = int(eventually("the tool runs", lambda: file.exists() and file.read_text()))
            if kind == "killed":
                os.kill(agent, signal.SIGKILL)
        if kind.startswith("stopped"):
            self._fleet.garcon(self._controller, "stop", chat)
        eventually("the turn is over", lambda: not self._is_running(chat))
        for pid in children(service.process.pid):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # it has ended by itself
        eventually("its agent is gone", lambda: not children(service.process.pid))

    def _is_running(self, chat: str) -> bool:
        status = self._fleet.garcon(self._controller, "status", chat, "--json").json
        return status["processingPhase"] is not None


def main(argv: Sequence[str]) -> int:
    """Play, tell, and return 0 when everything is as it was."""
    parser = argparse.ArgumentParser(prog="python -m garcon.testing.leaks")
    parser.add_argument("--rounds", type=int, default=200)
    rounds = parser.parse_args(argv).rounds
    with Fleet() as fleet:
        leaks = Leaks(fleet)
        wrong = leaks.play(rounds)
        figures = leaks.figures()
    for line in (*figures, *wrong, f"{rounds} rounds, {len(wrong)} wrong"):
        print(line, flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
