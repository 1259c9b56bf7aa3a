"""What a link with its runs promises, checked over schedules of random calls, runs and faults in
process, with a clock that only the schedule moves (`garcon.testing.faults`).
"""

from __future__ import annotations

import gc
from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from garcon.testing.faults.in_process import InProcess, play, play_on
from garcon.testing.faults.steps import Schedule, made, seeded

SEEDS, PARTS = 1_000, 4
FOUND = {
    "a worker's own denial is nobody's decision": (1171618281, 1171626337),
    "a grace that ends while both sides stand still": (
        1171608100,
        1171614060,
        1171617999,
        1171621261,
    ),
    "the link is lost again while a run's last word waits to be acknowledged": (
        1171621098,
        1171623956,
        1171626249,
    ),
}
"""Seeds that soaks have found, by what they show."""


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

    def test_seeds_that_were_found(self) -> None:
        """What a soak has found once stays found."""
        for what, seeds in FOUND.items():
            for seed in seeds:
                self.check(seeded(seed), f"seed {seed}, {what}")

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
        """In not too many schedules calls, runs and decisions end in each of the ways that there
        are, so that none of them is proven of nothing.
        """
        missing: set[str] = {
            *("succeeded", "not-dispatched", "rejected", "unknown", "cancelled"),
            *("finished", "failed", "interrupted"),
            *("decision confirmed", "decision not-delivered", "decision unknown"),
        }
        for seed in range(400):
            stage = InProcess(seeded(seed))
            play_on(stage)
            ledger = stage.ledger
            missing -= {end for call in ledger.calls.values() for end in call.ends}
            missing -= {turn.end.outcome for turn in ledger.turns.values() if turn.end is not None}
            missing -= {f"decision {response.delivery}" for response in ledger.responses}
            if not missing:
                return
        self.fail(f"these never occur: {missing}")
