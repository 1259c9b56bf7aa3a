"""The totals that continuous integration reads off trial's report."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from garcon.testing.run_tests import Totals

RULE = "=" * 79
CLOSING = "-" * 79
LONG = """
from twisted.internet.defer import Deferred
from twisted.trial.unittest import TestCase

class Tests(TestCase):
    def test_a(self):
        pass

    def test_b(self):
        return Deferred()
"""


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

    def test_a_run_that_is_ended_says_how_far_it_came(self) -> None:
        """At once, on its output and in the file, and it counts as one with a failure."""
        folder = Path(self.mktemp())
        folder.mkdir()
        (folder / "test_long.py").write_text(LONG)
        summary = folder / "summary"
        child = subprocess.Popen(
            [sys.executable, "-m", "garcon.testing.run_tests", "test_long"],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": ":".join(sys.path), "GARCON_TEST_SUMMARY": "summary"},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert child.stdout is not None
        for line in child.stdout:
            if line.rstrip().endswith("[OK]"):
                break
        child.send_signal(signal.SIGTERM)
        said = child.communicate(timeout=60)[0]
        self.assertRegex(said, r"ended after \d+ s, when 1 of 2 tests had passed")
        self.assertTrue(said.endswith("\n1 passed, 1 failed, 0 skipped\n"), said)
        self.assertEqual(summary.read_text(), "1 passed, 1 failed, 0 skipped\n")
        self.assertEqual(child.returncode, 1)
