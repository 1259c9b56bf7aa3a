"""The longer benches, run for a moment: each still measures all that it has an aim for.  They
are part of ``tox run -e soak``; `garcon.test.live.test_benches` has the shorter ones.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from garcon.testing.bench import chats, link, terminals
from garcon.testing.bench.report import Aim, Bound


class BenchCase(SynchronousTestCase):
    """What ``tox run -e bench`` runs.  What comes out is not judged: a moment says nothing."""

    timeout = 120

    def measure(self, run: Callable[[str], int]) -> list[dict[str, Any]]:
        """Run a bench; return the rows that it wrote, after a look at the table."""
        file = self.mktemp()
        with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()):
            self.assertEqual(run(file), 0)
        rows: list[dict[str, Any]] = json.loads(Path(file).read_text())["rows"]
        for row in rows:
            self.assertIn(row["metric"], out.getvalue())
        return rows

    def assert_measured(self, rows: list[dict[str, Any]], aims: Sequence[Aim | Bound]) -> None:
        """Assert that every aim has its value, and the value of its peer beside it."""
        self.assertEqual([row["metric"] for row in rows], [aim.name for aim in aims])
        for row in rows:
            self.assertEqual((row["rounds"], row["met"] in (True, False)), (1, True), row)


class LongerBenches(BenchCase):
    """Links, chats and terminals."""

    def test_link(self) -> None:
        """One round, and two idle links."""
        rows = self.measure(
            lambda file: link.run(file, 1, echoes=20, links=2, settling=0.1, watching=0.5)
        )
        self.assert_measured(rows, link.AIMS)

    def test_chats(self) -> None:
        """One round with few chats, but for those whose list is measured."""
        rows = self.measure(
            lambda file: chats.run(file, 1, few=4, many=8, rows_each=8, requests=20)
        )
        self.assert_measured(rows, chats.AIMS)

    def test_terminals(self) -> None:
        """Where a peer is not installed, what needs it is left open."""
        rows = self.measure(
            lambda file: terminals.run(file, 1, keys=5, lines=1_000, requests=20, flooding=0.2)
        )
        lacking = terminals.missing()
        self.assertEqual([row["metric"] for row in rows], [aim.name for aim in terminals.AIMS])
        for row in rows:
            self.assertEqual(row["met"] is None, row["peer"] in lacking, row)
            self.assertEqual(row["rounds"], 1, row)
