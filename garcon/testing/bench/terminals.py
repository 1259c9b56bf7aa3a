"""What a worker's terminal costs through the controller's browser socket, beside other ways to a
shell.

Each way carries the same shell: ``garcon`` crosses two processes (the controller's socket, the
link, a PTY of the worker's), once as it is and once compressed as browsers ask for it;
``terminado`` is one process with a socket and a PTY; ``ssh`` is a terminal behind a private sshd.
A bare PTY is shown as the floor.  Each round measures everything once, all of them in turn; keys
are typed a line to each in turn, as what else the machine does changes within seconds.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from attrs import define, field

from garcon.contract.limits import MIB
from garcon.testing.bench.carriers import DEFLATE, BarePty, Carrier, Garcon, Ssh, Terminado
from garcon.testing.bench.keep_alive import Connection, get, one_by_one
from garcon.testing.bench.processes import memory
from garcon.testing.bench.report import Aim, Bound, Samples, percentile, report
from garcon.testing.bench.shells import (
    FLOOD,
    begin,
    echoes,
    flood,
    interrupted,
    stop_waiting,
    wait_for_keys,
    write_shell,
)
from garcon.testing.bench.tunnel import missing as sshd_missing
from garcon.testing.bench.tunnel import open_sshd, say
from garcon.testing.fleet import Fleet, Service

GARCON, COMPRESSED = "garcon", "garcon, compressed"
TERMINADO, SSH, BARE = "terminado", "ssh -tt", "bare PTY"
FLOODED, IDLE = "GET /chats in a flood", "GET /chats"
GROWN = "controller and worker"
LINE = 20
"""Keys that are typed to one before it is the next one's turn."""
AIMS: tuple[Aim | Bound, ...] = (
    Aim("term.echo_p50", GARCON, TERMINADO, "echo p50 ms", "ms", 1.0),
    Aim("term.flood", GARCON, SSH, "flood MiB/s", "MiB/s", 0.8, least=True),
    Aim("term.interrupt", GARCON, TERMINADO, "interrupt ms", "ms", 1.0),
    Aim("term.api_p99", FLOODED, IDLE, "p99 ms", "ms", 5.0),
    Bound("term.growth_mib", GROWN, "growth MiB", "MiB", 32.0),
)


def missing() -> dict[str, str]:
    """Return which peers cannot be had here, and why."""
    found = {}
    if find_spec("terminado") is None:
        found[TERMINADO] = "terminado is not installed (pip install garcon-fleet[bench])"
    why_not = sshd_missing()
    if why_not is not None:
        found[SSH] = why_not
    return found


def run(
    file: str | None,
    rounds: int = 7,
    *,
    keys: int = 300,
    lines: int = 1_000_000,
    requests: int = 400,
    flooding: float = 2.0,
) -> int:
    """Measure and report; 0 whatever the verdict."""
    samples = Samples()
    lacking = missing()
    with Fleet() as fleet:
        bench = Bench(fleet, keys, lines, requests, flooding)
        bench.prepare(lacking)
        for number in range(rounds + 1):
            say(f"round {number} of {rounds}" if number else "warming up")
            bench.samples = samples if number else Samples()
            bench.measure(number)
    print(
        f"{rounds} rounds; in each {keys} keys, a flood of {lines:,} lines and a ^C after"
        f" {flooding:g} s of one; {requests} requests; growth since before the first flood"
    )
    for name, why_not in lacking.items():
        print(f"no {name}: {why_not}, so its aims cannot be judged here")
    report("terminals", samples, AIMS, file)
    return 0


@define(eq=False)
class Bench:
    """Everything that is measured, and what it is measured with."""

    fleet: Fleet
    keys: int
    lines: int
    requests: int
    flooding: float
    samples: Samples = field(factory=Samples)
    controller: Service = field(init=False)
    worker: Service = field(init=False)
    executor_id: str = field(init=False)
    before: int = field(init=False)
    _openers: dict[str, Callable[[], Carrier]] = field(factory=dict)

    def prepare(self, lacking: dict[str, str]) -> None:
        """Start whoever is measured."""
        say("starting a controller, a worker and their peers")
        fleet = self.fleet
        shell = write_shell(fleet.root)
        self.controller, self.worker, self.executor_id = fleet.pair(
            environment={"GARCON_TERMINAL_SHELL": shell}
        )
        url, executor_id = self.controller.url, self.executor_id
        self._openers[GARCON] = lambda: Garcon(url, executor_id)
        self._openers[COMPRESSED] = lambda: Garcon(url, executor_id, DEFLATE)
        if TERMINADO not in lacking:
            argv = [sys.executable, "-m", "garcon.testing.bench.terminado_site", shell]
            site = fleet.await_ready(fleet.start("terminado", fleet.root, argv))
            self._openers[TERMINADO] = lambda: Terminado(site.url)
        if SSH not in lacking:
            options = open_sshd(fleet)
            self._openers[SSH] = lambda: Ssh(options, shell)
        self._openers[BARE] = lambda: BarePty(shell, fleet.environment())
        carrier = self._openers[GARCON]()
        begin(carrier)
        wait_for_keys(carrier)
        echoes(carrier, self.keys)
        stop_waiting(carrier)
        carrier.close()
        self.before = self._memory()

    def measure(self, number: int) -> None:
        """Make one round."""
        names = list(self._openers)
        turn = number % len(names)
        carriers = {name: self._openers[name]() for name in names[turn:] + names[:turn]}
        for carrier in carriers.values():
            begin(carrier)
        self._keys(carriers)
        for name, carrier in carriers.items():
            self.samples.add(name, "flood MiB/s", flood(carrier, self.lines))
            self.samples.add(name, "interrupt ms", interrupted(carrier, self.flooding))
            carrier.close()
        self._requests()
        self._growth()

    def _keys(self, carriers: dict[str, Carrier]) -> None:
        taken: dict[str, list[float]] = {name: [] for name in carriers}
        for carrier in carriers.values():
            wait_for_keys(carrier)
        for begun in range(0, self.keys, LINE):
            for name, carrier in carriers.items():
                taken[name] += echoes(carrier, min(LINE, self.keys - begun))
        for name, carrier in carriers.items():
            stop_waiting(carrier)
            self.samples.add(name, "echo p50 ms", percentile(taken[name], 0.5))
            self.samples.add(name, "echo p99 ms", percentile(taken[name], 0.99))

    def _requests(self) -> None:
        self._ask(IDLE)
        with self._reading():
            self._ask(FLOODED)

    def _ask(self, target: str) -> None:
        connection = Connection(self.controller.url)
        taken = one_by_one(connection, self._spread())
        connection.close()
        self.samples.add(target, "p50 ms", percentile(taken, 0.5))
        self.samples.add(target, "p99 ms", percentile(taken, 0.99))

    def _spread(self) -> Iterator[bytes]:
        """Requests over the whole time of a flood: one behind the other they would be over before
        it has got going.
        """
        for _ in range(self.requests):
            time.sleep(self.flooding / self.requests)
            yield get("/api/v1/chats")

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """A flood that a process of its own reads."""
        argv = [sys.executable, "-m", "garcon.testing.bench.reader"]
        argv += [self.controller.url, self.executor_id]
        reader = self.fleet.start("reader", self.fleet.root, argv)
        self.fleet.await_ready(reader, re.compile("Reading"))
        try:
            yield
        finally:
            reader.stop()
            self.fleet.services.remove(reader)

    def _growth(self) -> None:
        """One client reads, the other one has stopped."""
        most = 0
        with self._reading():
            carrier = self._openers[GARCON]()
            begin(carrier)
            carrier.send(FLOOD + b"\n")
            end = time.monotonic() + self.flooding
            while time.monotonic() < end:
                time.sleep(0.02)
                most = max(most, self._memory())
        carrier.close()
        self.samples.add(GROWN, "growth MiB", (most - self.before) / MIB)

    def _memory(self) -> int:
        return sum(memory(one.process.pid) for one in (self.controller, self.worker))
