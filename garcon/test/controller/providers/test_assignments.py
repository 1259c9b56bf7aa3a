"""Which executor may use which profiles, as values (control.md B.8)."""

from __future__ import annotations

import json
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.providers import Assignments
from garcon.controller.providers.assignments import (
    EXECUTORS,
    PROFILES,
    assigned,
    assigned_to,
    decode,
    encode,
    everything,
    pruned,
    unassigned,
)
from garcon.errors import GarconError
from garcon.test.controller.providers.cast import OTHER, WORKER

NONE = Assignments()


def executor(number: int) -> str:
    """Return an executor's id."""
    return f"33333333-3333-4333-8333-{number:012x}"


class ChangeTests(SynchronousTestCase):
    """One change after the other."""

    def test_the_revision_grows_by_one_with_each_real_change(self) -> None:
        """A change of nothing is the very same value."""
        one = assigned(NONE, "local", "p1")
        self.assertEqual(one, Assignments(1, {"local": ["p1"]}))
        self.assertIs(assigned(one, "local", "p1"), one)
        two = assigned(one, "local", "p0")
        self.assertEqual(two, Assignments(2, {"local": ["p1", "p0"]}))
        three = unassigned(two, "local", "p1")
        self.assertEqual(three, Assignments(3, {"local": ["p0"]}))
        for executor_id, profile in (("local", "p1"), (WORKER, "p0")):
            self.assertIs(unassigned(three, executor_id, profile), three)
        self.assertEqual(unassigned(three, "local", "p0"), Assignments(4, {}))

    def test_just_these_executors(self) -> None:
        """One step, however many executors it concerns."""
        known = Assignments(7, {"local": ["p1", "p2"], WORKER: ["p1"]})
        after = assigned_to(known, [WORKER, OTHER], "p1")
        self.assertEqual(after, Assignments(8, {"local": ["p2"], WORKER: ["p1"], OTHER: ["p1"]}))
        self.assertIs(assigned_to(after, [OTHER, WORKER], "p1"), after)
        self.assertEqual(assigned_to(after, [], "p1"), Assignments(9, {"local": ["p2"]}))

    def test_pruning(self) -> None:
        """Executors and profiles that are gone."""
        known = Assignments(7, {"local": ["p1", "p2"], WORKER: ["p1"]})
        self.assertEqual(pruned(known, ["local"], None), Assignments(8, {"local": ["p1", "p2"]}))
        self.assertEqual(pruned(known, None, ["p2"]), Assignments(8, {"local": ["p2"]}))
        self.assertIs(pruned(known, ["local", WORKER, OTHER], ["p1", "p2", "p3"]), known)

    def test_everything(self) -> None:
        """For every executor every profile."""
        self.assertEqual(
            everything(["local", WORKER], ["p1", "p2"]),
            Assignments(1, {"local": ["p1", "p2"], WORKER: ["p1", "p2"]}),
        )

    def test_1024_executors_and_no_more(self) -> None:
        """A further one cannot get its first profile; those there can get another."""
        full = Assignments(1, {executor(n): ["p1"] for n in range(EXECUTORS - 1)})
        full = assigned(full, "local", "p1")
        self.assertEqual(len(full.assignments), EXECUTORS)
        error = self.assertRaises(GarconError, assigned, full, WORKER, "p1")
        self.assertEqual(error.code, "VALIDATION_FAILED")
        self.assertEqual(assigned(full, "local", "p2").assignments["local"], ["p1", "p2"])

    def test_1024_profiles_and_no_more(self) -> None:
        """For each executor."""
        known = Assignments(1, {"local": [f"p{n}" for n in range(PROFILES - 1)]})
        full = assigned(known, "local", "last")
        self.assertEqual(len(full.assignments["local"]), PROFILES)
        error = self.assertRaises(GarconError, assigned, full, "local", "over")
        self.assertEqual(error.code, "VALIDATION_FAILED")


class FileTests(SynchronousTestCase):
    """``api-provider-assignments.json``."""

    def test_round_trip(self) -> None:
        """In the contract's form."""
        known = Assignments(3, {"local": ["p1"], WORKER: ["p2", "p1"]})
        self.assertEqual(decode(encode(known)), known)
        self.assertEqual(
            json.loads(encode(known)),
            {"version": 1, "revision": 3, "assignments": {"local": ["p1"], WORKER: ["p2", "p1"]}},
        )

    def refused(self, **more: Any) -> None:
        """Assert that a file with something else in it cannot be read."""
        raw: dict[str, Any] = {"version": 1, "revision": 0, "assignments": {"local": ["p1"]}}
        decode(json.dumps(raw).encode())
        raw |= more
        content = json.dumps({k: v for k, v in raw.items() if v is not None}).encode()
        self.assertRaises(ValueError, decode, content)

    def test_anything_that_is_not_exactly_right_is_refused(self) -> None:
        """Member by member."""
        for version in (None, 2, 0, "1", True):
            self.refused(version=version)
        for revision in (None, -1, "1", 1.5):
            self.refused(revision=revision)
        found: list[Any] = [
            None,
            [],
            {"other": ["p1"]},
            {"local": "p1"},
            {"local": ["P"]},
            {"local": ["p1", "p1"]},
            {"local": [f"p{n}" for n in range(PROFILES + 1)]},
            {executor(n): ["p1"] for n in range(EXECUTORS + 1)},
        ]
        for one in found:
            self.refused(assignments=one)
        for content in (b"", b"[]", b"{", b"\xff"):
            self.assertRaises(ValueError, decode, content)

    def test_the_largest_there_can_be(self) -> None:
        """Is read."""
        profiles = [f"p{n}" for n in range(PROFILES)]
        known = Assignments(1, {executor(n): ["p1"] for n in range(EXECUTORS - 1)})
        known.assignments["local"] = profiles
        self.assertEqual(decode(encode(known)), known)
