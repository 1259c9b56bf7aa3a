"""The end of an agent's process and of its output, on a clock."""

from __future__ import annotations

from typing import Any

from twisted.internet.error import ProcessDone
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.runs import RunFailure
from garcon.runtime.agents.flow import LINES_AT_ONCE
from garcon.runtime.agents.process import KILL_WAIT, OUTPUT_GRACE, PIPE, SILENCE, AgentProcess, Exit
from garcon.testing.inline_threads import InlinePool, InlineReactor

NOBODY = 2**30
"""No process has such an id."""
EXIT = Exit(status=0, signal=None)


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


class ReadProcess:
    """The transport of a process whose pipe is read where it is not paused."""

    pid = NOBODY

    def __init__(self) -> None:
        self.is_read = True

    def pauseProducing(self) -> None:
        self.is_read = False

    def resumeProducing(self) -> None:
        self.is_read = True

    def loseConnection(self) -> None:
        self.is_read = False


class ProcessTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = InlineClock()
        self.told: list[Any] = []
        self.failures: list[RunFailure] = []
        self.has_room = True

        def received(message: dict[str, Any]) -> None:
            self.told.append(message["n"])
            if not self.has_room:
                self.process.hold()

        self.process = AgentProcess(self.clock, received, self.told.append, self.failures.append)

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
        self.assertEqual(self.told, [EXIT])

    def test_what_the_pipe_holds_while_there_is_no_room(self) -> None:
        """Comes before the exit, also where there is room again just when output was waited for
        long enough.
        """
        transport = ReadProcess()
        self.process.makeConnection(transport)
        self.has_room = False
        self.process.outReceived(b'{"n": 0}\n')
        self.exit()
        for wait, n in ((0, 1), (OUTPUT_GRACE, 2), (OUTPUT_GRACE, 3)):
            self.assertFalse(transport.is_read)
            self.process.let_go()
            self.clock.advance(wait)
            self.assertTrue(transport.is_read)
            self.process.outReceived(b'{"n": %d}\n' % n)
        self.assertEqual(self.told, [0, 1, 2, 3])
        self.process.let_go()
        self.clock.advance(0)
        self.clock.advance(OUTPUT_GRACE)
        self.assertEqual(self.told, [0, 1, 2, 3, EXIT])

    def test_an_orphan_that_writes_for_ever(self) -> None:
        """What the pipe may have held at the exit is told before it, and the exit in time however
        much follows.
        """
        transport = ReadProcess()
        self.process.makeConnection(transport)
        self.exit()
        lines = LINES_AT_ONCE + 1
        piece = b"".join(b'{"n": %10d}\n' % n for n in range(lines))
        own = -(-PIPE // len(piece))
        for _ in range(own + 1):
            if transport.is_read:
                self.process.outReceived(piece)
                self.clock.advance(OUTPUT_GRACE)
        self.assertEqual(len(self.told), own * lines + 1)
        self.assertEqual(self.told[-1], EXIT)

    def test_no_room_for_longer_than_output_is_waited_for(self) -> None:
        """Then the exit follows at once what has come since, where that is all that the pipe may
        have held, and else waits as ever.
        """
        for size, at_once in ((PIPE - 1, [0]), (PIPE, [0, EXIT])):
            self.setUp()
            self.process.makeConnection(ReadProcess())
            self.has_room = False
            self.exit()
            self.process.outReceived(b'{"n": 0}'.ljust(size - 1) + b"\n")
            self.clock.advance(OUTPUT_GRACE)
            self.assertEqual(self.told, [0])
            self.process.let_go()
            self.clock.advance(0)
            self.assertEqual(self.told, at_once)
            self.clock.advance(OUTPUT_GRACE)
            self.assertEqual(self.told, [0, EXIT])
