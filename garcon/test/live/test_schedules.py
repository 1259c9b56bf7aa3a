"""Schedules of random calls, runs and faults over real sockets (`garcon.testing.faults`)."""

from __future__ import annotations

from random import Random
from typing import Any

from twisted.internet import reactor as _reactor
from twisted.internet.defer import Deferred
from twisted.trial.unittest import TestCase

from garcon.deferreds import returns_deferred
from garcon.testing.faults.sockets import OverSockets
from garcon.testing.faults.steps import seeded

reactor: Any = _reactor


class Schedules(TestCase):
    """What holds in process holds over sockets."""

    timeout = 120

    @returns_deferred
    async def play(self, *seeds: int) -> None:
        """Play some seeds at the same time."""
        playing: list[Deferred[list[str]]] = [
            OverSockets(reactor, seeded(seed), Random(seed)).play() for seed in seeds
        ]
        wrong = [await d for d in playing]
        for seed, found in zip(seeds, wrong, strict=True):
            if found:
                self.fail("\n".join([f"seed {seed}:", *found, str(seeded(seed))]))

    def test_seeds_to_ten(self) -> Deferred[None]:
        """Ten schedules."""
        return self.play(*range(10))

    def test_seeds_to_twenty(self) -> Deferred[None]:
        """Ten more."""
        return self.play(*range(10, 20))

    def test_seeds_to_thirty(self) -> Deferred[None]:
        """And ten more."""
        return self.play(*range(20, 30))
