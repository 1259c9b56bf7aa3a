"""Asks both doors every question of a row and says what came of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from urllib.parse import urlencode

from attrs import define, field, frozen

from garcon.testing.fleet import Finished
from garcon.testing.matrix.cases import Asked, Case, Row, Typed
from garcon.testing.matrix.differences import GATEWAY_HEADERS, HEADERS
from garcon.testing.matrix.masking import Mask
from garcon.testing.matrix.rows import ROWS, WANTED, asked, ungranted
from garcon.testing.matrix.stage import Door, Stage
from garcon.testing.strict_rules import Said

SAME, ALLOWED, DIFFERENT, NOTHING = "same", "allowed", "different", "-"


@frozen
class Difference:
    """Something that nothing allows: in which question, and what was seen."""

    operation: str
    case: str
    text: str


@define
class Result:
    """What came of one operation.  `columns` are the table's: direct, gateway, command."""

    key: str
    columns: dict[str, str] = field(
        factory=lambda: dict.fromkeys(("direct", "gateway", "command"), NOTHING)
    )
    differences: list[Difference] = field(factory=list)
    used: set[str] = field(factory=set)
    """The allowances of its row that were needed."""
    reasons: set[str] = field(factory=set)
    """Why something differed that may."""

    def note(self, column: str, case: Case, found: Sequence[str], *, allowed: bool) -> None:
        """Take the outcome of one question."""
        for text in found:
            self.differences.append(Difference(self.key, case.name, f"{column}: {text}"))
        word = DIFFERENT if found else ALLOWED if allowed else SAME
        words = (NOTHING, SAME, ALLOWED, DIFFERENT)
        self.columns[column] = max(self.columns[column], word, key=words.index)


def play(
    stage: Stage, *, quick: bool = False, rows: Sequence[Row] = ROWS, say: Callable[[str], None]
) -> list[Result]:
    """Play all rows; the results are in the order of the table of operations."""
    found = {row.route.key: _Row(stage, row) for row in rows}
    for one in found.values():
        one.ask(ungranted(one.row))
    stage.grant_management()
    for key, one in found.items():
        say(key)
        one.ask(case for case in asked(one.row) if not (quick and case.heavy))
        typed = [case for case in one.row.typed if not (quick and case.heavy)]
        one.type(typed[:1] if quick else typed)
        if not quick:
            one.check_allowances()
    return [*missing(found), *(one.result for one in found.values())]


def missing(found: Collection[str]) -> Iterable[Result]:
    """Say which operations have no row, and which rows no operation."""
    for key in WANTED:
        if key not in found:
            yield _unknown(key, "has no row in garcon/testing/matrix")
    for key in found:
        if key not in WANTED:
            yield _unknown(key, "is no operation that a gateway serves")


def _unknown(key: str, text: str) -> Result:
    columns = {"direct": DIFFERENT, "gateway": DIFFERENT, "command": NOTHING}
    return Result(key, columns, [Difference(key, "the matrix", text)])


class _Row:
    """One operation on its way through the matrix."""

    def __init__(self, stage: Stage, row: Row) -> None:
        self._stage = stage
        self.row = row
        self.result = Result(row.route.key)

    # Requests

    def ask(self, cases: Iterable[Asked]) -> None:
        """Ask both doors each question."""
        for case in cases:
            direct, gateway = (self._asked(case, door) for door in self._stage.doors)
            self._judge(case, direct, gateway)

    def _asked(self, case: Asked, door: Door) -> tuple[Said, Mask]:
        stage, route = self._stage, self.row.route
        scene = stage.scene(door, case.before)
        target = route.path.replace(":executorId", scene.fill(case.executor))
        if case.query:
            target += "?" + urlencode([(name, scene.fill(value)) for name, value in case.query])
        body = None
        if isinstance(case.body, str):
            body = case.body.encode()
        elif case.body is not None:
            body = json.dumps(scene.fill(case.body)).encode()
        for _ in range(2 if case.again else 1):
            said = door.client.send(route.method, target, body, case.headers)
        stage.end(scene)
        return said, Mask(self.row.allowed.with_members(case.also), scene.named())

    def _judge(self, case: Asked, direct: tuple[Said, Mask], gateway: tuple[Said, Mask]) -> None:
        (ours, mask), (theirs, other) = direct, gateway
        wanted = (case.status, case.code)
        found = [] if _outcome(ours) == wanted else [f"wanted {wanted}, got {_shown(ours)}"]
        self.result.note("direct", case, found, allowed=False)
        found = [
            f"{name} is {theirs.headers.get(name)!r}"
            for name, value in GATEWAY_HEADERS.items()
            if theirs.headers.get(name) != value
        ]
        if case.instead is not None:
            outcome = (case.instead.status, case.instead.code)
            if _outcome(theirs) != outcome:
                found.append(f"wanted {outcome}, got {_shown(theirs)}")
            if _outcome(ours) == outcome and mask.body(ours.body) == other.body(theirs.body):
                found.append("no difference is left that had to be allowed")
            self.result.reasons.add(case.instead.why.value)
            self.result.note("gateway", case, found, allowed=True)
            return
        if ours.status != theirs.status:
            found.append(f"status {ours.status} and {theirs.status}: {_shown(theirs)}")
        for name in HEADERS:
            if ours.headers.get(name) != theirs.headers.get(name):
                found.append(f"{name}: {ours.headers.get(name)} and {theirs.headers.get(name)}")
        found += _unlike(mask.body(ours.body).decode(), other.body(theirs.body).decode())
        self._noted("gateway", case, found, mask, other)

    # Commands

    def type(self, cases: Iterable[Typed]) -> None:
        """Run each command beside the controller and beside the worker."""
        for case in cases:
            direct, gateway = (self._typed(case, door) for door in self._stage.doors)
            self._compare(case, direct, gateway)

    def _typed(self, case: Typed, door: Door) -> tuple[Finished, Mask]:
        scene = self._stage.scene(door, case.before)
        words = scene.fill(case.words)
        done = self._stage.fleet.garcon(door.service, *words, check=False)
        self._stage.end(scene)
        return done, Mask(self.row.allowed.with_members(case.also), scene.named())

    def _compare(
        self, case: Typed, direct: tuple[Finished, Mask], gateway: tuple[Finished, Mask]
    ) -> None:
        (ours, mask), (theirs, other) = direct, gateway
        found = [] if ours.status == case.status else [f"wanted status {case.status}: {ours}"]
        if case.instead is not None:
            if theirs.status != case.instead.status or case.instead.code not in theirs.err:
                found.append(f"wanted {case.instead}: {theirs}")
            self.result.reasons.add(case.instead.why.value)
            self.result.note("command", case, found, allowed=True)
            return
        if ours.status != theirs.status:
            found.append(f"status {ours.status} and {theirs.status}: {theirs}")
        found += _unlike(mask.output(ours.out), other.output(theirs.out))
        found += _unlike(mask.output(ours.err), other.output(theirs.err))
        self._noted("command", case, found, mask, other)

    def _noted(self, column: str, case: Case, found: list[str], *masks: Mask) -> None:
        used = set().union(*(mask.used for mask in masks))
        self.result.used |= used
        self.result.reasons |= set().union(*(mask.reasons for mask in masks))
        self.result.note(column, case, found, allowed=bool(used))

    def check_allowances(self) -> None:
        """An allowance that nothing needs any more hides what may come."""
        allowed = self.row.allowed
        listed = {*allowed.members, *(printed.pattern for printed in allowed.printed)}
        stale = Case("its allowances")
        for name in sorted(listed - self.result.used):
            self.result.note("gateway", stale, [f"nothing needs {name!r}"], allowed=False)


def _outcome(said: Said) -> tuple[int, str]:
    try:
        value = json.loads(said.body)
    except ValueError:
        value = None
    code = value.get("errorCode", "") if isinstance(value, dict) else ""
    return said.status, code if said.status >= 400 else ""


def _shown(said: Said) -> str:
    return f"{said.status} {said.body[:300].decode('utf-8', 'backslashreplace')}"


def _unlike(ours: str, theirs: str) -> list[str]:
    """Return where two texts part."""
    if ours == theirs:
        return []
    at = next(
        (i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b),
        min(len(ours), len(theirs)),
    )
    start = max(0, at - 60)
    return [f"from {start}: {ours[start : at + 120]!r} and {theirs[start : at + 120]!r}"]
