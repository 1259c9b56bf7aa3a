"""The benches, run for a moment: each still measures everything that it has an aim for."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from garcon.testing.bench import agents, bridge, chats, command, link, terminals
from garcon.testing.bench.__main__ import main
from garcon.testing.bench.report import Aim, Bound
from garcon.testing.bench.tunnel import missing


class Benches(SynchronousTestCase):
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

    def test_agents(self) -> None:
        """One round of few turns and few rows."""
        rows = self.measure(lambda file: agents.run(file, 1, turns=2, rows=200))
        self.assert_measured(rows, agents.AIMS)

    def test_link(self) -> None:
        """One round, and two idle links."""
        rows = self.measure(
            lambda file: link.run(file, 1, echoes=20, links=2, settling=0.1, watching=0.5)
        )
        self.assert_measured(rows, link.AIMS)

    def test_command(self) -> None:
        """By the words that the bench is asked for."""
        rows = self.measure(lambda file: main(["cli", "--rounds", "1", "--json", file]))
        self.assert_measured(rows, command.AIMS)

    def test_chats(self) -> None:
        """One round with few chats, but for those whose list is measured."""
        rows = self.measure(
            lambda file: chats.run(file, 1, few=4, many=8, rows_each=8, requests=20)
        )
        self.assert_measured(rows, chats.AIMS)

    def test_bridge(self) -> None:
        """Where there is no SSH server, what needs it is left open."""
        rows = self.measure(lambda file: bridge.run(file, 1, 5))
        if missing() is None:
            self.assert_measured(rows, bridge.AIMS)
        for row in rows:
            self.assertGreater(row["value"], 0)

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
