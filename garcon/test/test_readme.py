"""What the README says survives, and where that is shown."""

from __future__ import annotations

import re
from pathlib import Path
from unittest import skipUnless

from twisted.python.reflect import namedAny
from twisted.trial.unittest import SynchronousTestCase

import garcon

README = Path(garcon.__file__).parents[1] / "README.rst"
_NAMED = re.compile(r"``((?:garcon\.test|test_)[\w.]+)``")
_SHORT = {"test_over_cuts": "garcon.test.controller.executors.test_over_cuts"}


@skipUnless(README.exists(), "only a checkout has the README beside the package")
class SurvivalTests(SynchronousTestCase):
    """The table *What survives what*."""

    def test_every_row_names_a_test_that_there_is(self) -> None:
        """A row without one, or with one that is gone, claims what nobody shows."""
        text = README.read_text()
        table = text.partition("\nWhat survives what\n")[2].partition("\nNot kept across")[0]
        rows = table.split("\n   * - ")[2:]
        self.assertGreater(len(rows), 15)
        for row in rows:
            names = _NAMED.findall(row)
            self.assertTrue(names, row)
            for name in names:
                first, dot, rest = name.partition(".")
                namedAny(_SHORT.get(first, first) + dot + rest)
