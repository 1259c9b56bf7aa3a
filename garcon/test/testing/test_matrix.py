"""The matrix of the two doors: what it compares, what it lets pass, and whether all is in it."""

from __future__ import annotations

import ast
import io
import json
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from garcon.contract import routes
from garcon.contract.routes import BRIDGED
from garcon.test.test_layers import PACKAGE, imports
from garcon.testing.matrix.__main__ import shown
from garcon.testing.matrix.cases import Asked, Row, Whole, filled
from garcon.testing.matrix.differences import Allowed, Kind, Printed
from garcon.testing.matrix.masking import Mask
from garcon.testing.matrix.play import Result, missing
from garcon.testing.matrix.rows import ROWS, WANTED, asked, ungranted
from garcon.testing.matrix.stage import PREPARATIONS


class RowTests(SynchronousTestCase):
    """The rows as they are."""

    def test_every_operation_has_its_row(self) -> None:
        """And one row only; what the gateway serves itself is among them."""
        self.assertEqual(sorted(row.route.key for row in ROWS), sorted(WANTED))
        self.assertEqual(set(WANTED) - set(BRIDGED), {"GET /runtime", "GET /cli/context"})

    def test_an_operation_without_a_row_fails_the_matrix(self) -> None:
        """So does a row without its operation."""
        self.assertEqual(list(missing([row.route.key for row in ROWS])), [])
        for keys, wanted in ((WANTED[1:], WANTED[0]), ((*WANTED, "GET /odd"), "GET /odd")):
            (result,) = missing(keys)
            self.assertEqual(result.key, wanted)
            with redirect_stdout(io.StringIO()) as out:
                self.assertEqual(shown([result]), 1)
            self.assertTrue(out.getvalue().endswith("1 operations, 2 doors, 1 differences\n"))

    def test_success_and_failure_are_asked_of_what_is_served(self) -> None:
        """What answers nothing but success can at least be meant for another controller."""
        for row in ROWS:
            if not row.is_served:
                self.assertIsNotNone(row.asked[0].instead)
                continue
            statuses = [case.status for case in asked(row)]
            self.assertTrue(any(status < 300 for status in statuses), row.route)
            refused = any(case.status >= 400 or case.instead is not None for case in asked(row))
            self.assertTrue(refused, row.route)

    def test_management_is_asked_for_without_its_grant(self) -> None:
        """Every operation that needs it, and no other one."""
        denied = [row.route for row in ROWS if ungranted(row)]
        self.assertEqual(denied, [row.route for row in ROWS if row.route.management])

    def test_commands_are_typed_for_whatever_they_emit(self) -> None:
        """Whichever bridged operation a module of the command imports."""
        emitted = set()
        for path in (PACKAGE / "cli").rglob("*.py"):
            for found in imports(_parsed(path)):
                module, _, name = found.name.rpartition(".")
                route = getattr(routes, name, None) if module == "garcon.contract.routes" else None
                if isinstance(route, routes.Route) and route.key in WANTED:
                    emitted.add(route.key)
        self.assertGreater(len(emitted), 20)
        typed = {row.route.key for row in ROWS if row.typed}
        self.assertEqual(emitted - typed, set())

    def test_whatever_a_case_needs_can_be_prepared(self) -> None:
        """By the names that it uses."""
        for row in ROWS:
            for case in (*row.asked, *row.typed):
                self.assertLessEqual(set(case.before), set(PREPARATIONS), case.name)

    def test_names_of_cases_are_told_apart(self) -> None:
        """A difference names its case."""
        for row in ROWS:
            for cases in (asked(row), row.typed):
                names = [case.name for case in cases]
                self.assertEqual(len(names), len(set(names)), row.route)


class MaskTests(SynchronousTestCase):
    """What becomes comparable, and what stays as it is."""

    def covered(self, value: Any, **names: str) -> Any:
        """Return what an answer looks like when `turnId`, `at` and `bytes` may differ."""
        members = {"turnId": Kind.ID, "at": Kind.TIME, "bytes": Kind.COUNT}
        mask = Mask(Allowed(members), names)
        return json.loads(mask.body(json.dumps(value, separators=(",", ":")).encode()))

    def test_known_values_become_their_names(self) -> None:
        """Wherever they stand, the longest first."""
        found = self.covered({"a": ["chat 17 of 171"], "17": 1}, chat="17", view="171")
        self.assertEqual(found, {"a": ["chat {chat} of {view}"], "{chat}": 1})

    def test_an_id_twice_stays_the_same_id(self) -> None:
        """And another one another."""
        found = self.covered([{"turnId": "x"}, {"turnId": "y"}, {"turnId": "x"}])
        self.assertEqual([one["turnId"] for one in found], ["<id 1>", "<id 2>", "<id 1>"])

    def test_what_is_not_of_its_kind_stays(self) -> None:
        """So a number where an id should be is a difference."""
        for member, value in (("turnId", 5), ("turnId", ""), ("at", ""), ("bytes", "5")):
            self.assertEqual(self.covered({member: value}), {member: value})
        self.assertEqual(
            self.covered({"turnId": None, "at": None}), {"turnId": None, "at": "<time>"}
        )

    def test_nothing_else_is_covered(self) -> None:
        """No other member, no order, no spelling."""
        mask = Mask(Allowed({"at": Kind.TIME}), {})
        first = mask.body(b'{"at":"1","b":2,"c":3}')
        self.assertEqual(first, mask.body(b'{"at":"2","b":2,"c":3}'))
        for other in (
            b'{"at":"1","c":3,"b":2}',
            b'{"at":"1","b":2.0,"c":3}',
            b'{"at":"1","b":2,"c":4}',
            b'{"at": "1","b":2,"c":3}',
            b"{",
        ):
            self.assertNotEqual(first, mask.body(other), other)
        self.assertEqual(mask.used, {"at"})

    def test_what_a_command_prints(self) -> None:
        """Lines whose word may differ, follow-up commands, JSON with its indentation."""
        allowed = Allowed({"id": Kind.ID}, (Printed(r"^turn id: (\S+)$", Kind.ID),))
        mask = Mask(allowed, {"selectors": "--runtime executor"})
        self.assertEqual(
            mask.output("turn id: 5\nturn ids: 5\nsee: garcon status --runtime executor\n"),
            "turn id: <id 1>\nturn ids: 5\nsee: garcon status {selectors}\n",
        )
        self.assertEqual(mask.output('{\n  "id": "7"\n}\n'), '{\n  "id": "<id 2>"\n}\n')
        self.assertIn("not canonical", mask.output('{"id": "7"}\n'))

    def test_templates(self) -> None:
        """Names are filled in at whatever depth; braces of others are left."""
        template = {"a": ["{new chat}", ("x{chat}", 1)], "b": "{executorId}", "c": "{"}
        found = filled(template, str.upper)
        self.assertEqual(found, {"a": ["NEW CHAT", ["xCHAT", 1]], "b": "{executorId}", "c": "{"})
        self.assertEqual(filled([Whole("process")], {"process": "42"}.__getitem__), [42])


class ResultTests(SynchronousTestCase):
    """A row of the table."""

    def test_the_worst_outcome_stands(self) -> None:
        """Same, then allowed, then different; a column that nothing was asked for is empty."""
        result, case = Result("GET /a"), Asked("a")
        result.note("gateway", case, [], allowed=True)
        result.note("gateway", case, [], allowed=False)
        self.assertEqual(result.columns, {"direct": "-", "gateway": "allowed", "command": "-"})
        result.note("gateway", case, ["no"], allowed=True)
        result.note("gateway", case, [], allowed=False)
        self.assertEqual(result.columns["gateway"], "different")
        with redirect_stdout(io.StringIO()) as out:
            self.assertEqual(shown([result]), 1)
        self.assertIn("GET /a, a\n    gateway: no\n", out.getvalue())

    def test_no_difference_is_success(self) -> None:
        """Status 0, and the last line says how much was compared."""
        result = Result("GET /a")
        result.note("direct", Asked("a"), [], allowed=False)
        with redirect_stdout(io.StringIO()) as out:
            self.assertEqual(shown([result]), 0)
        self.assertTrue(out.getvalue().endswith("\n1 operations, 2 doors, 0 differences\n"))

    def test_the_fence_is_asked_of_every_operation(self) -> None:
        """But of those that say which controller there is, and those without a handler."""
        without = [row.route.key for row in ROWS if not _is_fenced(row) and row.is_served]
        self.assertEqual(without, ["GET /runtime", "GET /cli/context"])


def _is_fenced(row: Row) -> bool:
    return any(case.code == "CLI_CONTROLLER_CHANGED" for case in asked(row))


def _parsed(path: Path) -> ast.AST:
    return ast.parse(path.read_text())
