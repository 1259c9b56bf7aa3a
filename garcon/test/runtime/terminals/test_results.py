"""Answers to requests that may come again (server.md C.2)."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.limits import (
    TERMINAL_RESULT_TIME,
    TERMINAL_RESULTS,
    TERMINAL_RESULTS_TOTAL,
)
from garcon.contract.terminals import BACKPRESSURE
from garcon.errors import GarconError
from garcon.runtime.terminals.results import Results


class Remembered(SynchronousTestCase):
    """What is known, for how long, and how much."""

    def setUp(self) -> None:
        self.results: Results[str] = Results()

    def answered(self, principal: str, name: str, now: float = 0.0) -> None:
        request = self.results.begin((principal, name), now)
        self.results.settle(request, f"answer to {name}", now)

    def answer(self, principal: str, name: str, now: float) -> str | None:
        found = self.results.find((principal, name), now)
        return None if found is None else found.answer

    def refused(self, principal: str, now: float = 0.0) -> None:
        error = self.assertRaises(GarconError, self.results.begin, (principal, "new"), now)
        self.assertEqual((error.code, error.status), (BACKPRESSURE, 429))

    def test_ten_minutes(self) -> None:
        """Until then the answer is given again, counted from when it was given first."""
        request = self.results.begin(("p", "a"), 0.0)
        self.results.settle(request, "yes", 100.0)
        self.assertEqual(self.answer("p", "a", 100.0 + TERMINAL_RESULT_TIME - 0.1), "yes")
        self.assertIsNone(self.results.find(("p", "a"), 100.0 + TERMINAL_RESULT_TIME))

    def test_one_without_an_answer(self) -> None:
        """It is known as long as it takes."""
        self.results.begin(("p", "a"), 0.0)
        found = self.results.find(("p", "a"), 10 * TERMINAL_RESULT_TIME)
        self.assertIsNotNone(found)
        self.assertIsNone(self.answer("p", "a", 10 * TERMINAL_RESULT_TIME))

    def test_another_principal(self) -> None:
        """Has requests of its own, by the same ids."""
        self.answered("p", "a")
        self.assertIsNone(self.results.find(("q", "a"), 0.0))

    def test_two_hundred_and_fifty_six_of_a_principal(self) -> None:
        """One more new one is refused, nothing is forgotten for it, and others have theirs."""
        for number in range(TERMINAL_RESULTS - 1):
            self.answered("p", str(number))
        self.results.begin(("p", "under way"), 0.0)
        self.refused("p")
        self.assertEqual(self.answer("p", "0", 1.0), "answer to 0")
        self.answered("q", "0")
        self.refused("p", TERMINAL_RESULT_TIME - 0.1)
        self.answered("p", "new", TERMINAL_RESULT_TIME)

    def test_four_thousand_and_ninety_six_in_all(self) -> None:
        """Likewise, whoever asks."""
        for number in range(TERMINAL_RESULTS_TOTAL):
            self.answered(str(number // TERMINAL_RESULTS), str(number))
        self.refused("somebody else")
        self.assertEqual(self.answer("0", "0", 1.0), "answer to 0")
        self.answered("somebody else", "a", TERMINAL_RESULT_TIME)

    def test_one_that_did_nothing(self) -> None:
        """May be made anew."""
        request = self.results.begin(("p", "a"), 0.0)
        self.results.forget(request)
        self.assertIsNone(self.results.find(("p", "a"), 0.0))
        self.results.begin(("p", "a"), 0.0)
