"""A short question to an agent's program: run it, take what it prints, and have it gone in time,
with whatever it has started.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from typing import Any, cast

from twisted.internet.defer import Deferred, TimeoutError
from twisted.internet.error import ProcessExitedAlready
from twisted.internet.interfaces import (
    IDelayedCall,
    IProcessTransport,
    IReactorProcess,
    IReactorTime,
)
from twisted.internet.protocol import ProcessProtocol
from twisted.python.failure import Failure

from garcon.contract.limits import KIB
from garcon.deferreds import Ending, Waiters
from garcon.runtime import marks
from garcon.runtime.agents.descendants import Descendants

OUTPUT = 64 * KIB
"""More is not read: the program is ended, and what came so far is its answer."""
OUTPUT_GRACE = 0.5
"""How long output may still come after the exit: what it left may hold the pipe open."""
KILL_WAIT = 2.0


def ask_program(
    reactor: Any, command: Sequence[str], environment: Mapping[str, str], seconds: float
) -> Deferred[bytes | None]:
    """Fire with what a program printed, whatever its exit status; None where there is none, it
    could not be started or took too long.  Cancelling ends it.  It and what it has started are gone
    then, and two seconds more may pass until they are.
    """
    asking: Deferred[bytes | None] = Deferred.fromCoroutine(_ask(reactor, command, environment))
    clock = cast(IReactorTime, reactor)
    return asking.addTimeout(seconds, clock, onTimeoutCancel=lambda _result, _after: None)


async def _ask(
    reactor: Any, command: Sequence[str], environment: Mapping[str, str]
) -> bytes | None:
    program = shutil.which(command[0], path=environment.get("PATH", os.defpath))
    if program is None:
        return None
    variables = marks.branch(environment)
    question = _Question(reactor, marks.variable(variables))
    argv = [os.path.abspath(program), *command[1:]]
    try:
        cast(IReactorProcess, reactor).spawnProcess(
            question, argv[0], argv, env=variables, path="/"
        )
    except OSError:
        return None
    try:
        return await question.answer
    finally:
        await question.close()


class _Question(ProcessProtocol):
    def __init__(self, reactor: Any, mark: bytes) -> None:
        self._reactor = reactor
        self._clock: IReactorTime = reactor
        self._mark = mark
        self._pieces: list[bytes] = []
        self._size = 0
        self._has_exited = False
        self._exit: Waiters[None] = Waiters()
        self._grace: IDelayedCall | None = None
        self._descendants: Descendants
        self.answer: Deferred[bytes] = Deferred()

    def close(self) -> Deferred[None]:
        """End it, if it still runs, and what it has left.  Whoever waits may be cancelled; the end
        goes on.
        """
        return Ending.of(Deferred.fromCoroutine(self._close())).wait()

    async def _close(self) -> None:
        if not self._has_exited:
            await self._descendants.record()
            self._kill()
        if not self._has_exited:
            try:
                await self._exit.wait().addTimeout(KILL_WAIT, self._clock)
            except TimeoutError:
                pass  # the system holds it; it is collected when it goes
        await self._descendants.kill()
        cast(IProcessTransport, self.transport).loseConnection()

    def connectionMade(self) -> None:
        """It is told nothing."""
        transport = cast(IProcessTransport, self.transport)
        transport.closeStdin()
        pid = cast(int, transport.pid)
        self._descendants = Descendants(self._reactor, pid, self._mark)

    def outReceived(self, data: bytes) -> None:
        """Keep what it prints."""
        if self._size > OUTPUT:
            return
        self._size += len(data)
        self._pieces.append(data)
        if self._size > OUTPUT:
            self._kill()

    def processExited(self, reason: Failure) -> None:
        """Only its output is still to come."""
        self._has_exited = True
        self._descendants.parent_gone()
        self._grace = self._clock.callLater(OUTPUT_GRACE, self._answered)
        self._exit.fire(None)

    def processEnded(self, reason: Failure) -> None:
        """It has said everything."""
        self._answered()

    def _answered(self) -> None:
        if self._grace is not None and self._grace.active():
            self._grace.cancel()
        if not self.answer.called:
            self.answer.callback(b"".join(self._pieces)[:OUTPUT])

    def _kill(self) -> None:
        try:
            cast(IProcessTransport, self.transport).signalProcess("KILL")
        except (ProcessExitedAlready, PermissionError):
            pass  # its exit is on the way, or it became another user's: not ours to end
