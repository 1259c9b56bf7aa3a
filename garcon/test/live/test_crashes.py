"""Killed or stopped at any moment of a workload of fifty chats, a controller keeps every input that
it has accepted, once (chats.md 5.1, 5.2, 5.3, 5.5.8).

``GARCON_CRASH_ROUNDS`` plays more than the usual few, ``python -m garcon.testing.crashes`` as many
as one likes.
"""

from __future__ import annotations

import os
import signal
import time

from twisted.trial.unittest import SynchronousTestCase

from garcon.testing.crashes.rounds import Crashes
from garcon.testing.fleet import Fleet

ROUNDS = int(os.environ.get("GARCON_CRASH_ROUNDS", "4"))


class CrashTests(SynchronousTestCase):
    """A whole controller with a store on the disk, its users, and its ends."""

    timeout = 60 * ROUNDS

    def test_nothing_that_was_accepted_is_lost_or_doubled(self) -> None:
        """Ordinals have no gap and views stay; what nobody answered goes with the next input;
        nothing runs, waits or is paused afterwards.
        """
        seed = time.time_ns()
        with Fleet(scripted=False) as fleet:
            crashes = Crashes(fleet, seed)
            for number in range(ROUNDS):
                end = signal.SIGTERM if number % 2 else signal.SIGKILL
                self.assertEqual(crashes.round(end), [])
            self.assertGreater(crashes.inputs, 0, f"seed {seed}")
