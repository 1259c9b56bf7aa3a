"""Control groups, as files in a folder that plays the kernel's."""

from __future__ import annotations

import os
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from garcon.errors import StartupError
from garcon.runtime.cgroups import AGENT, SERVICE, Cgroups


class CgroupTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.root = Path(self.mktemp())
        self.place = self.root / "system.slice" / "garcon.service"
        self.place.mkdir(parents=True)
        (self.place / "cgroup.controllers").write_text("cpu memory pids\n")
        self.own = self.root / "own"
        self.own.write_text("1:name=systemd:/x\n0::/system.slice/garcon.service\n")

    def prepare(self, memory: int = 5_000, processes: int = 7) -> Cgroups:
        roots = (str(self.root / "none"), str(self.root))
        return Cgroups.prepare(memory, processes, roots, str(self.own))

    def refusal(self) -> str:
        error = self.assertRaises(StartupError, self.prepare)
        self.assertIn("Delegate=yes", error.text)
        text: str = error.text
        return text

    def test_our_own_group_is_divided(self) -> None:
        """The service moves into a part of it, and what is limited can be given on."""
        self.prepare()
        self.assertEqual((self.place / SERVICE / "cgroup.procs").read_text(), str(os.getpid()))
        self.assertEqual((self.place / "cgroup.subtree_control").read_text(), "+memory +pids")
        self.prepare(memory=0)
        self.assertEqual((self.place / "cgroup.subtree_control").read_text(), "+pids")

    def test_a_service_that_has_moved_already(self) -> None:
        """Its group is the one above."""
        self.own.write_text(f"0::/system.slice/garcon.service/{SERVICE}\n")
        self.assertEqual(self.prepare().path, str(self.place))

    def test_groups_that_a_killed_service_left(self) -> None:
        """Are removed when nothing is in them."""
        left = self.place / f"{AGENT}left"
        left.mkdir()
        self.prepare()
        self.assertFalse(left.exists())

    def test_an_agent_s_group(self) -> None:
        """Has the limits, and is joined by a file."""
        group = self.prepare().make()
        path = Path(group.path)
        self.assertEqual(path.parent, self.place)
        self.assertEqual((path / "memory.max").read_text(), "5000")
        self.assertEqual((path / "memory.oom.group").read_text(), "1")
        self.assertEqual((path / "pids.max").read_text(), "7")
        self.assertEqual(group.processes, str(path / "cgroup.procs"))
        only = Path(self.prepare(memory=0).make().path)
        self.assertEqual({file.name for file in only.iterdir()}, {"pids.max"})

    def test_what_was_passed(self) -> None:
        """Nothing, until the kernel has counted something."""
        group = self.prepare().make()
        self.assertIsNone(group.passed())
        events = Path(group.path) / "pids.events"
        events.write_text("max 0\n")
        self.assertIsNone(group.passed())
        events.write_text("max 1\n")
        self.assertEqual(group.passed(), "processes")
        (Path(group.path) / "memory.events").write_text("low 3\noom 1\noom_kill 0\n")
        self.assertEqual(group.passed(), "processes")
        (Path(group.path) / "memory.events").write_text("low 3\noom 1\noom_kill 2\n")
        self.assertEqual(group.passed(), "memory")

    def test_the_end(self) -> None:
        """Whatever is in it is killed, and it is removed when it is empty."""
        group = self.prepare().make()
        group.kill()
        kill = Path(group.path) / "cgroup.kill"
        self.assertEqual(kill.read_text(), "1")
        group.remove()
        self.assertTrue(kill.exists())
        for file in Path(group.path).iterdir():
            file.unlink()
        group.remove()
        self.assertFalse(Path(group.path).exists())
        group.kill()

    def test_a_group_that_is_not_ours_to_divide(self) -> None:
        """Is one line for the operator, which says what to do."""
        (self.place / "cgroup.controllers").write_text("cpu pids\n")
        self.assertIn("no memory controller", self.refusal())
        (self.place / "cgroup.controllers").write_text("memory pids\n")
        (self.place / "cgroup.subtree_control").mkdir()
        self.refusal()
        self.own.write_text("4:memory:/\n")
        self.refusal()
        self.own.write_text("0::/elsewhere\n")
        self.refusal()
        self.own.unlink()
        self.refusal()
