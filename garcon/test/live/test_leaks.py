"""Agents that come and go leave the services, and the machine, as they were.

``GARCON_LEAK_ROUNDS`` plays more than the usual few with each of these, ``python -m
garcon.testing.leaks`` as many as it is told, with every agent.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from garcon.testing.conformance.casts import CASTS
from garcon.testing.conformance.stage import Place, Stage
from garcon.testing.leaks.rounds import Rounds
from garcon.testing.npm_agents import NotInstalled

ROUNDS = os.environ.get("GARCON_LEAK_ROUNDS")
SCRIPTED: list[tuple[str, Place]] = [("scripted", "local"), ("scripted", "worker")]
REAL: list[tuple[str, Place]] = [("claude", "worker"), ("codex", "local")]
_BY_ID = {cast.agent_id: cast for cast in CASTS}


class LeakTests(SynchronousTestCase):
    def test_agents_that_come_and_go(self) -> None:
        """Processes, descriptors, threads, memory and files are as they were after turns that
        ended, were stopped, in their midst and while their agent started, and were killed.
        """
        missing = ""
        try:
            for agent_id, _ in REAL:
                _BY_ID[agent_id].install()
        except NotInstalled as error:
            if os.environ.get("GARCON_REQUIRE_AGENTS") == "1":
                raise
            missing = str(error)
        # Two at once, and the slowest first: mostly they wait for their agents to start.
        with ThreadPoolExecutor(2) as pool:
            # One round of each kind, the first of which is to warm up.
            playing = [pool.submit(_played, *one, 3, 1) for one in REAL if not missing]
            playing += [pool.submit(_played, *one, 4, 4) for one in SCRIPTED]
        for one in playing:
            self.assertEqual(one.result(), [])
        if missing:
            raise SkipTest(f"real agents cannot be had here: {missing}")


def _played(agent_id: str, place: Place, usual: int, warm: int) -> list[str]:
    stage = Stage(_BY_ID[agent_id], place)
    try:
        stage.open()
        return Rounds(stage).play(usual if ROUNDS is None else int(ROUNDS), warm)
    finally:
        stage.close()
