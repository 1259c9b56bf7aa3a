"""Who is noted as an agent's: real processes, looked at when the test says."""

from __future__ import annotations

import os
import signal
import subprocess

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from garcon.runtime.agents import tree
from garcon.runtime.agents.descendants import KILL_POLL, LOOK_EVERY, Descendants
from garcon.testing.inline_threads import InlinePool, InlineReactor

PARENT = "while read x; do sleep 300 </dev/null >/dev/null 2>&1 & echo $!; done"


class HeldReactor(Clock, InlineReactor):
    """A clock with one thread, which works when it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = InlinePool(held=True)

    def getThreadPool(self) -> InlinePool:
        return self.pool

    def work(self) -> None:
        """Do everything there is to do in the thread."""
        while len(self.pool):
            self.pool.run_next()


class DescendantTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.parent = subprocess.Popen(
            ["sh", "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.addCleanup(self.end)
        self.pids: list[int] = []
        self.reactor = HeldReactor()
        self.descendants = Descendants(self.reactor, self.parent.pid, b"GARCON_AGENT_TREE=none")

    def end(self) -> None:
        for pid in self.pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.parent.kill()
        self.parent.communicate()

    def child(self) -> int:
        """Have the parent start one more."""
        assert self.parent.stdin is not None and self.parent.stdout is not None
        self.parent.stdin.write("\n")
        self.parent.stdin.flush()
        pid = int(self.parent.stdout.readline())
        self.pids.append(pid)
        return pid

    def known(self) -> set[int]:
        return {one.pid for one in self.descendants.known}

    def a_later_tick(self) -> None:
        before = tree.ticks()
        while tree.ticks() == before:
            pass

    def test_what_hangs_on_it_is_noted_again_and_again(self) -> None:
        """And forgotten when it has ended."""
        first = self.child()
        self.reactor.advance(LOOK_EVERY)
        self.assertEqual(self.known(), set())
        self.reactor.work()
        self.assertEqual(self.known(), {first})
        os.kill(first, signal.SIGKILL)
        second = self.child()
        self.reactor.advance(LOOK_EVERY)
        self.reactor.work()
        self.assertIn(second, self.known())
        self.descendants.parent_gone()
        self.assertEqual(self.reactor.getDelayedCalls(), [])

    def test_what_hangs_on_it_is_noted_at_once(self) -> None:
        """Without waiting for a thread, besides what was noted before; not when it is gone."""
        first = self.child()
        self.descendants.note()
        self.assertEqual(self.known(), {first})
        os.kill(first, signal.SIGKILL)
        second = self.child()
        self.descendants.note()
        self.assertEqual(self.known(), {first, second})
        self.descendants.parent_gone()
        self.child()
        self.descendants.note()
        self.assertEqual(self.known(), {first, second})

    def test_a_look_that_the_end_overtakes(self) -> None:
        """What started after the id became free is not noted, wherever it hangs; nor is looked
        again.
        """
        first = self.child()
        self.reactor.advance(LOOK_EVERY)
        self.descendants.parent_gone()
        self.a_later_tick()
        second = self.child()
        self.reactor.work()
        self.assertEqual(self.known() & {first, second}, {first})
        self.assertEqual(self.reactor.getDelayedCalls(), [])

    def test_a_record_that_the_end_overtakes(self) -> None:
        """Likewise."""
        first = self.child()
        recording = self.descendants.record()
        self.descendants.parent_gone()
        self.a_later_tick()
        second = self.child()
        self.reactor.work()
        self.successResultOf(recording)
        self.assertEqual(self.known() & {first, second}, {first})

    def test_kill(self) -> None:
        """Fires when all that was noted has gone, although nothing leads to it any more."""
        child = self.child()
        recording = self.descendants.record()
        self.reactor.work()
        self.successResultOf(recording)
        self.descendants.parent_gone()
        self.parent.kill()
        self.parent.wait()
        killing = self.descendants.kill()
        self.reactor.work()
        while not killing.called:
            self.reactor.advance(KILL_POLL)
            self.reactor.work()
        self.successResultOf(killing)
        self.assertEqual(tree.running(self.descendants.known), set())
        entry = tree.look(child)
        self.assertTrue(entry is None or entry.has_ended)
