"""The table of agents and scenarios: what stands in it, and what its plans become."""

from __future__ import annotations

import io
import sys
from typing import Any, cast

from attrs import define
from twisted.trial.unittest import SynchronousTestCase

from garcon.testing.conformance import __main__ as conformance
from garcon.testing.conformance.casts import CASTS, Cast, Hold, Run, program_of
from garcon.testing.conformance.scenarios import SCENARIOS
from garcon.testing.conformance.stage import PLACES, NotOffered, Stage
from garcon.testing.scripted_agent import parse


@define
class PretendedStage:
    """A stage on which nothing is played."""

    cast: Any = CASTS[0]

    def fresh(self) -> None:
        """Nothing is to be forgotten."""


class Cells(SynchronousTestCase):
    def cell(self, outcome: Exception | None) -> tuple[str, str]:
        def scenario(_: Stage) -> None:
            if outcome is not None:
                raise outcome

        self.patch(conformance, "SCENARIOS", {"one": scenario})
        return conformance.cell(cast(Stage, PretendedStage()), "one")

    def test_each_outcome(self) -> None:
        """Nothing but an agent's own limits is no failure."""
        self.assertEqual(self.cell(None), ("pass", ""))
        self.assertEqual(self.cell(NotOffered("why")), ("not offered", "why"))
        self.assertEqual(self.cell(AssertionError("x")), ("FAIL", "AssertionError: x"))
        self.assertEqual(self.cell(OSError("y")), ("FAIL", "OSError: y"))

    def test_what_a_cast_says_is_not_played(self) -> None:
        """It is told why."""
        stage = cast(Stage, PretendedStage())
        word, why = conformance.cell(stage, "fork")
        self.assertEqual((word, why), ("not offered", CASTS[0].not_offered["fork"]))

    def test_table(self) -> None:
        """Scenarios down, agents across."""
        good, bad = ("pass", ""), ("FAIL", "x")
        found = {
            ("a", "local"): {"one": good, "two": bad},
            ("a", "worker"): {"one": good, "two": good},
            ("b", "local"): {"one": bad, "two": good},
        }
        self.assertEqual(
            conformance.table(found, ["one", "two"]).splitlines(),
            [
                "scenario  a            b",
                "--------  -----------  ----",
                "one       pass         FAIL",
                "two       FAIL / pass  pass",
            ],
        )

    def test_a_stage_that_does_not_open(self) -> None:
        """Is a column of failures; the other columns are played."""

        def unready(stage: Stage) -> None:
            raise AssertionError("not ready")

        self.patch(Stage, "open", unready)
        self.patch(sys, "stdout", io.StringIO())
        cells = conformance.column(CASTS[0], "local", ["first turn", "fork"])
        self.assertEqual(list(cells.values()), [("FAIL", "AssertionError: not ready")] * 2)

    def test_brief(self) -> None:
        """All scenarios of some agents on both machines, the first one of the others on one."""
        played: dict[tuple[str, str], list[str]] = {}

        def column(one: Cast, place: str, names: list[str]) -> dict[str, tuple[str, str]]:
            played[one.agent_id, place] = names
            return dict.fromkeys(names, ("pass", ""))

        self.patch(conformance, "column", column)
        self.patch(sys, "stdout", io.StringIO())
        self.assertEqual(conformance.main(["--brief"]), 0)
        lengths = {one: len(names) for one, names in played.items()}
        self.assertEqual(
            lengths,
            {
                (one.agent_id, place): 20 if one.agent_id in conformance.WHOLE else 1
                for one in CASTS
                for place in PLACES
                if one.agent_id in conformance.WHOLE or place == "worker"
            },
        )
        self.assertEqual(played["pi", "worker"], ["first turn"])


class Plans(SynchronousTestCase):
    def test_twenty_scenarios(self) -> None:
        """And no agent excuses itself from one that there is not."""
        self.assertEqual(len(SCENARIOS), 20)
        for one in CASTS:
            self.assertLessEqual(set(one.not_offered), set(SCENARIOS))

    def test_for_a_model(self) -> None:
        """Texts, calls and gates, as the pretend server takes them."""
        claude = next(one for one in CASTS if one.agent_id == "claude")
        said, call, hold = claude.turn(["a", Run("ls"), Hold("g")])
        self.assertEqual((said, call["args"]["command"], hold), ("a", "ls", {"hold": "g"}))

    def test_for_the_scripted_agent(self) -> None:
        """Lines that it understands."""
        program = program_of([["a ", Run("ls"), Hold()], [Hold("g")]], asks=True)
        self.assertEqual(
            parse(program), [("say", "a"), ("ask", "ls"), ("sleep", "600"), ("sleep", "1")]
        )
        self.assertEqual(parse(program_of([[Run("ls")]], asks=False)), [("run", "ls")])
