"""A short question to an agent's program: run it, take what it prints, and have it gone in time."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from typing import Any, cast

from twisted.internet.defer import Deferred
from twisted.internet.error import ProcessExitedAlready
from twisted.internet.interfaces import IProcessTransport, IReactorProcess, IReactorTime
from twisted.internet.protocol import ProcessProtocol
from twisted.python.failure import Failure

from garcon.contract.limits import KIB

OUTPUT = 64 * KIB
"""More is not read: the program is ended, and what came so far is its answer."""


def ask_program(
    reactor: Any, command: Sequence[str], environment: Mapping[str, str], seconds: float
) -> Deferred[bytes | None]:
    """Fire with what a program printed, whatever its exit status; None where there is none or it
    took too long.  Cancelling ends it.
    """
    program = shutil.which(command[0], path=environment.get("PATH", os.defpath))
    question = _Question()
    if program is None:
        question.answer.callback(None)
        return question.answer
    argv = [os.path.abspath(program), *command[1:]]
    cast(IReactorProcess, reactor).spawnProcess(
        question, argv[0], argv, env=dict(environment), path="/"
    )
    clock = cast(IReactorTime, reactor)
    return question.answer.addTimeout(seconds, clock, onTimeoutCancel=lambda _result, _after: None)


class _Question(ProcessProtocol):
    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0
        self.answer: Deferred[bytes | None] = Deferred(lambda _: self._end())

    def connectionMade(self) -> None:
        """It is told nothing."""
        cast(IProcessTransport, self.transport).closeStdin()

    def outReceived(self, data: bytes) -> None:
        """Keep what it prints."""
        self._size += len(data)
        self._pieces.append(data)
        if self._size > OUTPUT:
            self._end()

    def processEnded(self, reason: Failure) -> None:
        """It has said everything."""
        if not self.answer.called:
            self.answer.callback(b"".join(self._pieces)[:OUTPUT])

    def _end(self) -> None:
        try:
            cast(IProcessTransport, self.transport).signalProcess("KILL")
        except ProcessExitedAlready:
            pass  # only its output is still to come
