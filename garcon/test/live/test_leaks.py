"""Agents that come and go leave the services, and the machine, as they were.

With the scripted agent: ``GARCON_LEAK_ROUNDS`` plays more than the usual few, ``python -m
garcon.testing.leaks`` as many as it is told, with every agent.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

from twisted.trial.unittest import SynchronousTestCase

from garcon.testing.conformance.casts import CASTS
from garcon.testing.conformance.stage import PLACES, Place, Stage
from garcon.testing.leaks.rounds import Rounds

ROUNDS = os.environ.get("GARCON_LEAK_ROUNDS")
_SCRIPTED = next(cast for cast in CASTS if cast.agent_id == "scripted")


class LeakTests(SynchronousTestCase):
    def test_agents_that_come_and_go(self) -> None:
        """Processes, descriptors, threads, memory and files are as they were after turns that
        ended, were stopped, in their midst and while their agent started, and were killed.
        """
        with ThreadPoolExecutor(2) as pool:
            # One round of each kind to warm up, and one to look at.
            for wrong in pool.map(lambda place: _played(place, 4, 4), PLACES):
                self.assertEqual(wrong, [])


def _played(place: Place, usual: int, warm: int) -> list[str]:
    stage = Stage(_SCRIPTED, place)
    try:
        stage.open()
        return Rounds(stage).play(usual if ROUNDS is None else int(ROUNDS), warm)
    finally:
        stage.close()
