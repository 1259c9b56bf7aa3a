"""The totals that continuous integration reads off trial's report."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from garcon.testing.run_tests import Totals

RULE = "=" * 79
CLOSING = "-" * 79


def read(text: str) -> Totals:
    """Return what a report counts."""
    totals = Totals()
    for line in text.splitlines():
        totals.line(line)
    return totals


class TotalsTests(SynchronousTestCase):
    """Trial's closing lines."""

    def test_a_good_run(self) -> None:
        """Successes are passed, skips are skipped."""
        totals = read("Ran 7 tests in 1.0s\n\nPASSED (skips=2, successes=5)")
        self.assertEqual(str(totals), "5 passed, 0 failed, 2 skipped")

    def test_a_bad_run(self) -> None:
        """Failures, errors and unexpected successes have failed."""
        totals = read("FAILED (errors=2, failures=1, unexpectedSuccesses=1, successes=3)")
        self.assertEqual(str(totals), "3 passed, 4 failed, 0 skipped")

    def test_nothing_ran(self) -> None:
        """A report that counts nothing passed nothing."""
        self.assertEqual(str(read("PASSED")), "0 passed, 0 failed, 0 skipped")

    def test_skips_keep_their_reasons(self) -> None:
        """Each reason comes with the tests that it kept from running."""
        report = (
            f"{RULE}\n[SKIPPED]\nno npm here\n\na.T.test_b\na.T.test_c\n"
            f"{RULE}\n[SKIPPED]\nof two\nlines\n\na.T.test_d\n{CLOSING}\nRan 4 tests in 0s\n"
        )
        totals = read(report)
        self.assertEqual(
            totals.skips,
            [("no npm here", ["a.T.test_b", "a.T.test_c"]), ("of two lines", ["a.T.test_d"])],
        )
        self.assertEqual(totals.unexpected_skips(["^no npm"]), [("of two lines", ["a.T.test_d"])])
        self.assertEqual(len(totals.unexpected_skips([])), 2)
