"""Orphans come home to a service's process and are collected there, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

import garcon

PROGRAM = """
import os, signal, sys
from twisted.internet import reactor, process
from twisted.internet.protocol import ProcessProtocol
from garcon import orphans

def children():
    found = set()
    for thread in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{thread}/children") as file:
            found |= set(map(int, file.read().split()))
    return found

class Parent(ProcessProtocol):
    def __init__(self):
        self.said = b""

    def outReceived(self, data):
        self.said += data

    def processEnded(self, reason):
        # Its own end was told by Twisted, status and all.
        self.status = reason.value.exitCode
        self.orphan = int(self.said)
        assert self.orphan in children(), (self.orphan, children())
        os.kill(self.orphan, signal.SIGKILL)
        look()

def look():
    if parent.orphan in children():
        reactor.callLater(0.05, look)
        return
    print("collected after", parent.status, flush=True)
    reactor.stop()

parent = Parent()

def begin():
    orphans.adopt(reactor)
    script = "setsid sleep 60 >/dev/null 2>&1 & echo $!; exit 7"
    reactor.spawnProcess(parent, "sh", ["sh", "-c", script], env=os.environ)

reactor.callWhenRunning(begin)
reactor.callLater(30, reactor.stop)
reactor.run()
"""

MANY = """
import os, sys
from garcon import orphans

for number in range(int(sys.argv[1])):
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
print(orphans.collect(), orphans.collect())
"""


class OrphanTests(SynchronousTestCase):
    def run_program(self, program: str, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments],
            env={**os.environ, "PYTHONPATH": str(Path(garcon.__file__).parents[1])},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def test_an_orphan_comes_home_and_its_end_is_collected(self) -> None:
        """It hangs on the service when its parent has gone, and nothing of it stays when it has
        ended; what Twisted started is told by Twisted.
        """
        self.assertEqual(self.run_program(PROGRAM), "collected after 7")

    def test_at_most_so_many_are_collected_in_one_turn(self) -> None:
        """The next turn takes the rest."""
        self.assertEqual(self.run_program(MANY, "256"), "256 0")
        self.assertEqual(self.run_program(MANY, "257"), "256 1")
