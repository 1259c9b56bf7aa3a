"""The shorter benches, run for a moment: each still measures everything that it has an aim for."""

from __future__ import annotations

from garcon.testing.bench import agents, bridge, command
from garcon.testing.bench.__main__ import main
from garcon.testing.bench.moments import BenchCase
from garcon.testing.bench.tunnel import missing


class Benches(BenchCase):
    """Agents, the bridge and the command."""

    def test_agents(self) -> None:
        """One round of few turns and few rows."""
        rows = self.measure(lambda file: agents.run(file, 1, turns=2, rows=200))
        self.assert_measured(rows, agents.AIMS)

    def test_command(self) -> None:
        """By the words that the bench is asked for."""
        rows = self.measure(lambda file: main(["cli", "--rounds", "1", "--json", file]))
        self.assert_measured(rows, command.AIMS)

    def test_bridge(self) -> None:
        """Where there is no SSH server, what needs it is left open."""
        rows = self.measure(lambda file: bridge.run(file, 1, 5))
        if missing() is None:
            self.assert_measured(rows, bridge.AIMS)
        for row in rows:
            self.assertGreater(row["value"], 0)
