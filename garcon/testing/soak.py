"""The long proof of the link: ``tox run -e soak -- --minutes 10``, or ``python -m`` this module.

Plays 100,000 schedules of calls, runs and faults in process, gives the decoders a million hostile
inputs, and plays as many schedules over real sockets as the minutes allow, all at the same time.
What goes wrong is printed with the seed that brings it back: ``--seed N --schedules 1`` plays the
schedule of that seed alone, ``--seed N --schedules 0 --sockets 1`` over sockets.

The exit status is 0 only when every promise was kept.  The minutes bound only what runs over
sockets; the rest goes on until its numbers are done.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing import get_context
from random import Random
from typing import Any

from attrs import define, field

from garcon.contract.limits import MIB

CHUNK = 250
"""Schedules that a process plays before it tells of them."""
AT_ONCE = 10
"""Schedules over sockets at the same time: mostly they wait."""
SEALED_SHARE = 20
"""One of so many hostile inputs is said by a peer that knows the secret."""
MOST_GROWTH = 16 * MIB
PROGRESS = 15.0


@define
class Report:
    """What was done, and what was wrong."""

    done: dict[str, int] = field(factory=dict)
    wrong: list[str] = field(factory=list)

    def add(self, what: str, count: int, wrong: list[str]) -> None:
        """Take a part's result, and tell at once of what was wrong in it."""
        self.done[what] = self.done.get(what, 0) + count
        self.wrong += wrong
        for text in wrong:
            print(text, flush=True)

    def __str__(self) -> str:
        done = ", ".join(f"{count:,} {what}" for what, count in self.done.items())
        return f"{done}; {len(self.wrong)} wrong"


def play_some(first: int, count: int) -> list[str]:
    """Play the schedules of some seeds in process."""
    from garcon.testing.faults.failures import logged_failures
    from garcon.testing.faults.in_process import play
    from garcon.testing.faults.steps import seeded

    wrong = []
    with logged_failures() as failures:
        for seed in range(first, first + count):
            try:
                found = play(seeded(seed))
            except Exception as error:
                found = [f"{type(error).__name__}: {error}"]
            wrong += [f"seed {seed}: {text}" for text in found + failures]
            failures.clear()
        gc.collect()
        wrong += [f"seeds {first} to {first + count - 1}: {text}" for text in failures]
    return wrong


def attack_all(seed: int, count: int) -> list[str]:
    """Give every decoder its share of so many hostile inputs; memory must not grow."""
    from garcon.testing.faults.fuzz import Surprise, attack, targets
    from garcon.testing.faults.impostor import Impostor

    sealed = count // SEALED_SHARE
    every = targets()
    wrong, before = [], 0
    rounds = 10
    for number in range(rounds):
        for place, target in enumerate(every):
            chance = Random(f"{seed} {number} {place}")
            try:
                attack(target, chance, max(1, (count - sealed) // len(every) // rounds))
            except Surprise as error:
                wrong.append(f"attack of seed {seed}: {error}")
        try:
            Impostor(Random(f"{seed} {number}")).attack(max(1, sealed // rounds))
        except Surprise as error:
            wrong.append(f"attack of seed {seed}: {error}")
        gc.collect()
        if number == 1:
            before = _resident()
    growth = _resident() - before
    if growth > MOST_GROWTH:
        wrong.append(f"attack of seed {seed}: memory grew by {growth / MIB:.0f} MiB")
    return wrong


def _resident() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def play_over_sockets(seed: int, seconds: float, most: int | None) -> tuple[int, list[str]]:
    """Play schedules over sockets, for so long or so many; return how many were played."""
    from twisted.internet import reactor as _reactor
    from twisted.internet.defer import Deferred

    from garcon.testing.faults.failures import logged_failures
    from garcon.testing.faults.sockets import OverSockets
    from garcon.testing.faults.steps import seeded

    reactor: Any = _reactor
    end, parent = time.monotonic() + seconds, os.getppid()
    seeds = iter(range(seed, seed + (most if most is not None else 1 << 40)))
    played = 0
    wrong: list[str] = []

    async def play_on() -> None:
        nonlocal played
        # Nobody is told when whoever asked for this is killed.
        while (time.monotonic() < end or most is not None) and os.getppid() == parent:
            number = next(seeds, None)
            if number is None:
                return
            try:
                found = await OverSockets(reactor, seeded(number), Random(number)).play()
            except Exception as error:
                found = [f"{type(error).__name__}: {error}"]
            played += 1
            wrong.extend(f"seed {number} over sockets: {text}" for text in found)

    async def play_all() -> None:
        for d in [Deferred.fromCoroutine(play_on()) for _ in range(AT_ONCE)]:
            await d
        reactor.stop()

    with logged_failures() as failures:
        reactor.callWhenRunning(lambda: Deferred.fromCoroutine(play_all()))
        reactor.run()
        gc.collect()
        wrong += [f"over sockets, from seed {seed}: {text}" for text in failures]
    return played, wrong


def chunks(first: int, count: int) -> Iterator[tuple[int, int]]:
    """Cut a range of seeds into what a process takes at once."""
    for begin in range(first, first + count, CHUNK):
        yield begin, min(CHUNK, first + count - begin)


def soak(options: argparse.Namespace) -> Report:
    """Do everything that the options ask for."""
    report = Report()
    processes = os.cpu_count() or 1
    context = get_context("spawn")
    with (
        ProcessPoolExecutor(processes, context) as pool,
        ProcessPoolExecutor(1, context) as beside,
    ):
        waiting: dict[Future[Any], tuple[str, int]] = {}
        if options.sockets or options.minutes:
            sockets = beside.submit(
                play_over_sockets, options.seed, options.minutes * 60.0, options.sockets
            )
            waiting[sockets] = ("schedules over sockets", 0)
        if options.inputs:
            attack = pool.submit(attack_all, options.seed, options.inputs)
            waiting[attack] = ("hostile inputs", options.inputs)
        for begin, count in chunks(options.seed, options.schedules):
            waiting[pool.submit(play_some, begin, count)] = ("schedules in process", count)
        told = time.monotonic()
        while waiting:
            finished, _ = wait(waiting, timeout=PROGRESS, return_when=FIRST_COMPLETED)
            for future in finished:
                what, count = waiting.pop(future)
                result = future.result()
                played, wrong = result if isinstance(result, tuple) else (count, result)
                report.add(what, played, wrong)
            if time.monotonic() - told >= PROGRESS:
                told = time.monotonic()
                print(report, flush=True)
    return report


def main(arguments: list[str]) -> int:
    """Soak, and say by the status whether all was well."""
    parser = argparse.ArgumentParser(prog="python -m garcon.testing.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=None, metavar="N")
    parser.add_argument("--schedules", type=int, default=100_000, metavar="N")
    parser.add_argument("--inputs", type=int, default=None, metavar="N")
    parser.add_argument("--sockets", type=int, default=None, metavar="N")
    parser.add_argument("--seed", type=int, default=None, metavar="N")
    options = parser.parse_args(arguments)
    is_whole = options.seed is None
    if options.seed is None:
        # Not the seeds that every test run plays.
        options.seed = 1_000_000 + int.from_bytes(os.urandom(4), "big")
    if options.minutes is None:
        options.minutes = 10.0 if is_whole and options.sockets is None else 0.0
    if options.inputs is None:
        options.inputs = 1_000_000 if is_whole else 0
    print(f"seed {options.seed}", flush=True)
    report = soak(options)
    print(report, flush=True)
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
