"""Who descends from an agent, read from a made-up ``/proc``."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from garcon.runtime.agents.tree import (
    Process,
    below,
    find,
    kill,
    look,
    running,
    send,
    ticks,
)
from garcon.test.runtime.made_up_proc import MadeUpProc

MARK = b"GARCON_AGENT_TREE=mark"


def _unknown_call(pid: int) -> int:
    raise OSError(errno.ENOSYS, "Function not implemented")


class Finding(SynchronousTestCase):
    def setUp(self) -> None:
        self.proc = MadeUpProc.at(Path(self.mktemp()))
        self.process = self.proc.process

    def found(self, root: int = 100) -> set[int]:
        return {process.pid for process in find(root, MARK, str(self.proc))}

    def test_children_and_their_children(self) -> None:
        """Whoever hangs on the agent, in whatever session; the agent itself is not its own."""
        self.process(100, 1)
        self.process(101, 100, session=101)
        self.process(102, 101, session=102)
        self.process(200, 1)
        self.assertEqual(self.found(), {101, 102})

    def test_orphans(self) -> None:
        """Those whose parents are gone are known by their session or their mark, with children."""
        self.process(101, 1, session=100)
        self.process(102, 1, environment=b"A=1\0" + MARK + b"\0B=2\0")
        self.process(103, 102)
        self.process(104, 1, environment=MARK + b"-of-another\0")
        self.assertEqual(self.found(), {101, 102, 103})

    def test_an_id_that_became_free_is_another_s(self) -> None:
        """Once the exit was collected the id counts for nothing, and the session's number for those
        who had it until then; the mark always counts.
        """
        self.process(100, 1, session=100, started=60)
        self.process(101, 100, session=100, started=61)
        self.process(102, 1, session=100, started=50)
        self.process(103, 102, session=103, started=70)
        self.process(104, 1, started=99, environment=MARK + b"\0")
        found = find(100, MARK, str(self.proc), gone_at=50)
        self.assertEqual({process.pid for process in found}, {102, 103, 104})
        found = find(100, MARK, str(self.proc), gone_at=49)
        self.assertEqual({process.pid for process in found}, {104})

    def test_those_that_are_known(self) -> None:
        """Whatever hangs on them counts as well, and nothing where the id is another's now."""
        self.process(101, 1, started=5)
        self.process(102, 101)
        self.process(103, 1, started=7)
        self.process(104, 103)
        known = {Process(101, 5), Process(103, 5), Process(105, 5)}
        found = find(100, MARK, str(self.proc), gone_at=50, known=known)
        self.assertEqual({process.pid for process in found}, {101, 102})

    def test_what_hangs_on_a_process(self) -> None:
        """By the kernel's own list; what has gone meanwhile is left out."""
        children = {100: "101 102", 101: "103", 102: "", 103: "104"}
        for pid, text in children.items():
            self.process(pid, 1, started=pid)
            task = self.proc.path / str(pid) / "task" / str(pid)
            task.mkdir(parents=True)
            (task / "children").write_text(text)
        found = below(100, str(self.proc))
        self.assertEqual(found, {Process(pid, pid) for pid in (101, 102, 103)})
        self.assertEqual(below(104, str(self.proc)), set())

    def test_ended_ones_are_left_out(self) -> None:
        """A zombie needs no ending."""
        self.process(101, 100, state="Z")
        self.assertEqual(self.found(), set())

    def test_names_may_hold_anything(self) -> None:
        """A name with a bracket and a space does not shift the fields."""
        self.process(101, 100, name=") S 1 (", started=77)
        self.assertEqual(find(100, MARK, str(self.proc)), {Process(pid=101, started=77)})

    def test_same_id_at_another_time_is_another_process(self) -> None:
        """Only what still is the process that was recorded runs."""
        self.process(101, 100, started=5)
        self.process(102, 100, state="Z")
        recorded = {Process(101, 5), Process(101, 6), Process(102, 5), Process(103, 5)}
        self.assertEqual(running(recorded, str(self.proc)), {Process(101, 5)})

    def test_signals_reach_that_very_process_only(self) -> None:
        """One that is not what was recorded, or has ended, gets none."""
        with subprocess.Popen(["sleep", "60"]) as child:
            seen = look(child.pid)
            assert seen is not None
            process = seen.process
            self.assertEqual(kill({Process(child.pid, process.started + 1)}), set())
            self.assertIsNone(child.poll())
            self.assertEqual(kill({process}), {process})
            self.assertEqual(child.wait(20), -signal.SIGKILL)
            self.assertEqual(kill({process}), set())

    def test_kernel_without_descriptors_of_processes(self) -> None:
        """There the signal goes by the id, right after the look."""
        self.patch(os, "pidfd_open", _unknown_call)
        with subprocess.Popen(["sleep", "60"]) as child:
            seen = look(child.pid)
            assert seen is not None
            self.assertEqual(send({seen.process}, signal.SIGTERM), {seen.process})
            self.assertEqual(child.wait(20), -signal.SIGTERM)

    def test_start_times_are_told_in_the_present_s_unit(self) -> None:
        """A process that runs has not started later than now, nor has one that starts now started
        before.
        """
        before = ticks()
        with subprocess.Popen(["sleep", "60"]) as child:
            seen = look(child.pid)
            child.kill()
            assert seen is not None
            self.assertLessEqual(before, seen.process.started)
            self.assertLessEqual(seen.process.started, ticks())

    def test_machine_without_proc(self) -> None:
        """There is nothing to be found, and that is no error."""
        self.assertEqual(find(100, MARK, str(self.proc.path / "gone")), set())
