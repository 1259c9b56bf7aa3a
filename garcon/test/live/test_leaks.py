"""Agents that come and go leave the services as they were.

``GARCON_LEAK_ROUNDS`` plays more than the usual few, ``python -m garcon.testing.leaks`` as many as
it is told.
"""

from __future__ import annotations

import os
import subprocess

from twisted.trial.unittest import SynchronousTestCase

from garcon.testing.fleet import Fleet
from garcon.testing.leaks import MARGIN, POOL, Footing, Leaks, children

ROUNDS = int(os.environ.get("GARCON_LEAK_ROUNDS", "8"))


class LeakTests(SynchronousTestCase):
    def test_services_are_as_they_were(self) -> None:
        """Processes, descriptors, threads and memory, after turns that ended, were stopped and
        were killed, on the controller and on a worker.
        """
        with Fleet() as fleet:
            self.assertEqual(Leaks(fleet).play(ROUNDS), [])

    def test_each_kind_of_leak_would_be_told(self) -> None:
        """And no less of anything than before."""
        before = Footing(children=1, descriptors=10, threads=5, memory=100)
        self.assertEqual(Footing(0, 9, 4, 90).exceeds(before, MARGIN), [])
        self.assertEqual(Footing(1, 10, 5 + POOL, 100 + MARGIN).exceeds(before, MARGIN), [])
        told = Footing(2, 11, 6 + POOL, 101 + MARGIN).exceeds(before, MARGIN)
        self.assertEqual(
            [text.partition(":")[0] for text in told],
            ["children", "descriptors", "threads", "memory"],
        )

    def test_children_that_were_not_collected_count(self) -> None:
        """Their remains are a leak as well."""
        with subprocess.Popen(["true"]) as child:
            os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
            self.assertIn(child.pid, children(os.getpid()))
        self.assertNotIn(child.pid, children(os.getpid()))
