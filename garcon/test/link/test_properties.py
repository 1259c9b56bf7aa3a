"""What a link with its runs promises, checked over schedules of random calls, runs and faults in
process, with a clock that only the schedule moves (`garcon.testing.faults`).
"""

from __future__ import annotations

import gc
from random import Random
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from garcon.testing.faults.in_process import play
from garcon.testing.faults.steps import Schedule, made, seeded

SEEDS, PARTS = 1_000, 4


def broken(schedule: Schedule) -> list[str]:
    """Play a schedule; an exception is as wrong as a broken promise."""
    try:
        return play(schedule)
    except Exception as error:
        return [f"{type(error).__name__}: {error}"]


class Schedules(SynchronousTestCase):
    """Every call ends once and truly, every row arrives once and in order, nothing is left."""

    def check(self, schedule: Schedule, name: str) -> None:
        """Play a schedule and fail with its name and its steps."""
        wrong = broken(schedule)
        if wrong:
            self.fail("\n".join([f"{name}:", *wrong, str(schedule)]))

    def part(self, number: int) -> None:
        """Play one part of the seeds."""
        for seed in range(number, SEEDS, PARTS):
            self.check(seeded(seed), f"seed {seed}")
            if seed % 100 == number:
                # What is left of a Deferred is reported at collection: let it be in this test.
                gc.collect()

    def test_seeds_first_part(self) -> None:
        """The first quarter of the seeds."""
        self.part(0)

    def test_seeds_second_part(self) -> None:
        """The second."""
        self.part(1)

    def test_seeds_third_part(self) -> None:
        """The third."""
        self.part(2)

    def test_seeds_fourth_part(self) -> None:
        """The fourth."""
        self.part(3)

    def test_any_schedule(self) -> None:
        """Hypothesis looks for others, and makes what it finds small."""

        @settings(
            max_examples=60,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(st.randoms(use_true_random=False))
        def looks(chance: Random) -> None:
            self.check(made(chance, longest=24), "found by Hypothesis")

        looks()


class Harness(SynchronousTestCase):
    """The means of proof prove something."""

    def test_schedules_are_the_same_every_time(self) -> None:
        """A seed is a schedule, and other seeds are others."""
        self.assertEqual(seeded(5), seeded(5))
        self.assertNotEqual(seeded(5), seeded(6))

    def test_all_outcomes_occur(self) -> None:
        """In a few schedules calls end in each of the ways that there are, so none of them is
        proven of nothing.
        """
        from garcon.testing.faults.in_process import InProcess, play_on

        seen: set[Any] = set()
        for seed in range(60):
            stage = InProcess(seeded(seed))
            self.assertEqual(play_on(stage), [])
            ledger = stage.ledger
            seen |= {end for call in ledger.calls.values() for end in call.ends}
            seen |= {turn.end.outcome for turn in ledger.turns.values() if turn.end is not None}
            seen |= {f"decision {response.delivery}" for response in ledger.responses}
        self.assertEqual(
            seen
            - {"succeeded", "not-dispatched", "rejected", "unknown", "cancelled"}
            - {"finished", "failed", "interrupted"},
            {"decision confirmed", "decision not-delivered", "decision unknown"},
        )
        self.assertEqual(len(seen), 11)
