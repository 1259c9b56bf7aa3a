"""What the search for leaks takes for one, and which rounds it plays with whom."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import cast
from uuid import uuid4

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from garcon.runtime.environment import AGENT_TREE
from garcon.testing.conformance.casts import CASTS, EXAMPLE
from garcon.testing.fleet import Service
from garcon.testing.leaks.__main__ import slowness
from garcon.testing.leaks.footing import (
    MARGIN,
    POOL,
    Footing,
    children,
    described,
    roots,
    running,
)
from garcon.testing.leaks.rounds import Played, kinds_of

BEFORE = Footing(children=1, descriptors=10, threads=5, memory=100, files=frozenset({"a"}))


class Footings(SynchronousTestCase):
    def test_each_kind_of_leak_is_told(self) -> None:
        """And no less of anything than before."""
        self.assertEqual(Footing(0, 9, 4, 90).exceeds(BEFORE), [])
        most = Footing(1, 10, 5 + POOL, 100 + MARGIN, BEFORE.files)
        self.assertEqual(most.exceeds(BEFORE), [])
        told = Footing(2, 11, 6 + POOL, 101 + MARGIN, frozenset({"a", "b"})).exceeds(BEFORE)
        self.assertEqual(
            [text.partition(":")[0] for text in told],
            ["children", "descriptors", "threads", "memory", "files"],
        )

    def test_files_of_a_service(self) -> None:
        """All in its config root, and those among temporary ones that have its name."""
        root = Path(self.mktemp())
        for name in ("config/chats", "tmp/garcon-1", "tmp/an-agent-s"):
            (root / name).mkdir(parents=True)

        class Here:
            config = root / "config"

            class process:
                pid = os.getpid()

        found = Footing.of(cast(Service, Here()), root / "tmp").files
        self.assertEqual(found, {"config/chats", "tmp/garcon-1"})
        self.assertIn("files: b and 0 more", evolve(BEFORE, files=frozenset("ab")).exceeds(BEFORE))


class Processes(SynchronousTestCase):
    def start(self, *command: str, mark: str | None = None) -> subprocess.Popen[bytes]:
        environment = {"PATH": os.environ.get("PATH", os.defpath)}
        if mark is not None:
            environment[AGENT_TREE] = mark
        child = subprocess.Popen(command, env=environment)

        def end() -> None:
            child.kill()
            child.wait()

        self.addCleanup(end)
        return child

    def test_children_that_were_not_collected_count(self) -> None:
        """Their remains are a leak as well."""
        child = self.start("true")
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        self.assertIn(child.pid, children(os.getpid()))
        self.assertIn(f"{child.pid} Z child of {os.getpid()}: ", described(child.pid))
        child.wait()
        self.assertNotIn(child.pid, children(os.getpid()))
        self.assertEqual(described(child.pid), f"{child.pid} (gone)")

    def test_the_oldest_of_each_tree_is_the_agent(self) -> None:
        """Whatever else carries its mark; what carries none is nobody's."""
        one, other = (f"{uuid4().hex[:16]}.b.{uuid4().hex}" for _ in range(2))
        begun = [self.start("sleep", "300", mark=mark).pid for mark in (one, one, other, None)]
        self.assertEqual(set(roots(reversed(begun))), {begun[0], begun[2]})
        self.assertEqual(roots([begun[1]]), [begun[1]])

    def test_a_command_is_found_by_its_line(self) -> None:
        """And by nothing less than the whole of it."""
        length = f"300.{os.getpid()}"
        child = self.start("sleep", length)
        self.assertEqual(running(["sleep", length]), [child.pid])
        self.assertEqual(running(["sleep", length[:-1]]), [])


class Kinds(SynchronousTestCase):
    def test_each_agent_plays_what_it_has_something_for(self) -> None:
        """Direct ones have no process to be killed; the example cannot be held up."""
        four = ["ended", "stopped", "killed", "stopped while it starts"]
        for cast_ in CASTS:
            is_direct = cast_.endpoint is not None
            kinds = [kind for kind in four if kind != "killed" or not is_direct]
            self.assertEqual(kinds_of(cast_), kinds, cast_.agent_id)
        self.assertEqual(kinds_of(EXAMPLE), [kind for kind in four if kind != "stopped"])

    def test_the_slowest_round_of_each_kind_is_told(self) -> None:
        """With its parts."""
        rounds = [Played("ended", (), {"start": n, "over": 0.5}) for n in (1.0, 3.0, 2.0)]
        self.assertEqual(
            slowness(rounds),
            ["3 rounds, median 2.5 s, slowest ended: 3.5 s (start 3.0, over 0.5)"],
        )
