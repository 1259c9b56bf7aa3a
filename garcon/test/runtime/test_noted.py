"""What hangs on a process, as its successor reads it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from garcon.runtime import noted
from garcon.runtime.agents import tree
from garcon.runtime.agents.tree import Process


class NotedTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.path = self.mktemp()

    def child(self) -> Process:
        """Start something that goes on until the test ends."""
        child = subprocess.Popen(["sleep", "60"])
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        seen = tree.look(child.pid)
        assert seen is not None
        return seen.process

    def test_what_hangs_on_it(self) -> None:
        """Is in the file, for its account alone; what of an earlier life goes on stays there."""
        one, gone = self.child(), Process(os.getpid(), 1)
        earlier, written = noted.look(self.path, frozenset({one, gone}), frozenset())
        self.assertEqual(earlier, frozenset({one}))
        self.assertIn(one, written)
        self.assertEqual(noted.read(self.path), written)
        self.assertEqual(os.stat(self.path).st_mode & 0o777, 0o600)
        self.assertEqual(os.listdir(os.path.dirname(self.path) or "."), [Path(self.path).name])

    def test_nothing_is_no_file(self) -> None:
        """Also when there was one."""
        noted.write(self.path, frozenset({Process(1, 2)}))
        for _ in range(2):
            noted.write(self.path, frozenset())
            self.assertFalse(os.path.exists(self.path))
        self.assertEqual(noted.read(self.path), frozenset())

    def test_nothing_is_written_again_that_is_there(self) -> None:
        """A service at rest leaves its disk alone."""
        _, written = noted.look(self.path, frozenset(), frozenset())
        if os.path.exists(self.path):
            os.unlink(self.path)
        noted.look(self.path, frozenset(), written)
        self.assertFalse(os.path.exists(self.path))

    def test_what_cannot_be_meant(self) -> None:
        """Of another boot, damaged, or no such file: nothing is known."""
        noted.write(self.path, frozenset({Process(1, 2)}))
        self.assertEqual(noted.read(self.path), frozenset({Process(1, 2)}))
        there = json.loads(Path(self.path).read_text())
        for content in (json.dumps(there | {"boot": "x"}), "{", "[]", '{"boot": 1}', "\0"):
            Path(self.path).write_text(content)
            self.assertEqual(noted.read(self.path), frozenset())

    def test_at_the_bound_and_past_it(self) -> None:
        """The oldest are noted."""
        self.patch(noted, "MOST", 2)
        self.patch(tree, "below", lambda _: {Process(n, 100 - n) for n in range(1, 4)})
        _, written = noted.look(self.path, frozenset(), frozenset())
        self.assertEqual(written, frozenset({Process(3, 97), Process(2, 98)}))
