"""The end of an agent's process and of its output, on a clock."""

from __future__ import annotations

from typing import Any

from twisted.internet.error import ProcessDone
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.runs import RunFailure
from garcon.runtime.agents.process import KILL_WAIT, SILENCE, AgentProcess, Exit
from garcon.testing.inline_threads import InlinePool, InlineReactor

NOBODY = 2**30
"""No process has such an id."""


class InlineClock(Clock, InlineReactor):
    """A clock whose threads are none."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = InlinePool()

    def getThreadPool(self) -> InlinePool:
        return self.pool


class OthersProcess:
    """The transport of a process that became another user's."""

    pid = NOBODY

    def __init__(self) -> None:
        self.is_open = True

    def signalProcess(self, name: str) -> None:
        raise PermissionError("another user's")

    def loseConnection(self) -> None:
        self.is_open = False


class ProcessTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = InlineClock()
        self.told: list[Any] = []
        self.failures: list[RunFailure] = []

        self.process = AgentProcess(
            self.clock,
            lambda message: self.told.append(message["n"]),
            self.told.append,
            self.failures.append,
        )

    def exit(self) -> None:
        """Have its exit be collected."""
        self.process.processExited(Failure(ProcessDone(0)))

    def test_one_that_takes_no_signal(self) -> None:
        """Its end loses its pipes and fires; what it has said is nobody's then, also that it says
        nothing more.
        """
        transport = OthersProcess()
        self.process.makeConnection(transport)
        ending = self.process.end("TERM", at_once=True)
        self.assertTrue(transport.is_open)
        self.clock.advance(KILL_WAIT)
        self.successResultOf(ending)
        self.assertFalse(transport.is_open)
        self.process.outReceived(b'{"n": 0}\n')
        for pipe in range(3):
            self.process.childConnectionLost(pipe)
        self.clock.advance(SILENCE)
        self.assertEqual((self.told, self.failures), ([], []))
        self.exit()
        self.assertEqual(self.told, [Exit(status=0, signal=None)])
