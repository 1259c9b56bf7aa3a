"""What is measured of a socket, be it the link or a plain one, in one round."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred

from garcon.contract.limits import KIB, MIB
from garcon.testing.bench.report import percentile

SMALL = 128
LARGE = {"1 MiB": (MIB, 32, 4), "16 MiB": (16 * MIB - 20 * KIB, 4, 1)}
"""Size, count and how many at once.  A message of the link holds 16 MiB with everything around."""
LARGEST = LARGE["16 MiB"][0]


class Socket:
    """The dialling end of a socket whose other end serves a bench."""

    def connect(self, reactor: Any, port: int) -> Deferred[None]:
        """Fires when messages can be sent."""
        raise NotImplementedError

    def echo(self, size: int) -> Deferred[Any]:
        """Send so many bytes; fires when they have come back."""
        raise NotImplementedError

    def give(self, size: int) -> Deferred[Any]:
        """Send so many bytes; fires when the other end has them and has said so."""
        raise NotImplementedError

    def take(self, size: int) -> Deferred[Any]:
        """Ask for so many bytes; fires when they are here."""
        raise NotImplementedError

    def wait_behind(self, size: int) -> Deferred[float]:
        """Have the other end send so many bytes and right behind them 128; fires with how long
        those took, in seconds.
        """
        raise NotImplementedError


async def windowed(
    ask: Callable[[int], Deferred[Any]], size: int, count: int, at_once: int
) -> float:
    """Ask `count` times, so many at once; return how long it took."""
    flight: list[Deferred[Any]] = []
    began = time.perf_counter()
    for _ in range(count):
        if len(flight) >= at_once:
            await flight.pop(0)
        flight.append(ask(size))
    for d in flight:
        await d
    return time.perf_counter() - began


async def round_trips(socket: Socket, count: int) -> list[float]:
    """Return how long each of `count` echoes of 128 bytes took, in microseconds."""
    times = []
    for _ in range(count):
        began = time.perf_counter()
        await socket.echo(SMALL)
        times.append((time.perf_counter() - began) * 1e6)
    return times


async def measure(socket: Socket, echoes: int) -> dict[str, float]:
    """Return one round's values, by metric."""
    await round_trips(socket, 200)
    times = await round_trips(socket, echoes)
    found = {"rtt p50 us": percentile(times, 0.5), "rtt p99 us": percentile(times, 0.99)}
    for name, (size, count, at_once) in LARGE.items():
        for way, ask in (("up", socket.give), ("down", socket.take)):
            await ask(size)
            took = await windowed(ask, size, count, at_once)
            found[f"{name} {way} MiB/s"] = count * size / MIB / took
    waits = [await socket.wait_behind(LARGEST) for _ in range(3)]
    found["behind 16 MiB ms"] = percentile(waits, 0.5) * 1e3
    return found


LOADS = {"1 MiB": MIB, "256 KiB": 256 * KIB}
"""What the messages are that keep bulk busy, four at once each way."""


async def loaded(socket: Socket, echoes: int) -> dict[str, float]:
    """Return what small round trips take by themselves, and while larger messages go both ways
    without a pause.
    """
    found = {"idle control p99 us": percentile(await round_trips(socket, echoes), 0.99)}
    for name, size in LOADS.items():
        found |= await _under_load(socket, echoes, name, size)
    return found


async def _under_load(socket: Socket, echoes: int, name: str, size: int) -> dict[str, float]:
    is_over = False
    at_once = 4

    async def saturate(ask: Callable[[int], Deferred[Any]]) -> int:
        count = 0
        while not is_over:
            await ask(size)
            count += 1
        return count

    ways = [
        Deferred.fromCoroutine(saturate(ask))
        for ask in (socket.give, socket.take)
        for _ in range(at_once)
    ]
    await round_trips(socket, 50)
    began = time.perf_counter()
    times = await round_trips(socket, echoes)
    took = time.perf_counter() - began
    is_over = True
    carried = [await way for way in ways]
    return {
        f"{name} loaded control p50 us": percentile(times, 0.5),
        f"{name} loaded control p99 us": percentile(times, 0.99),
        f"{name} load MiB/s": sum(carried) * size / MIB / took,
    }
