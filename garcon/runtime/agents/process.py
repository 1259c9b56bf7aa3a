"""One agent as a child process: JSON lines both ways, its end, and the end of everything it
started.

The child leads a session of its own, so that a signal to our process group does not reach it and it
can be told from us.  Its environment is explicit.  Standard error is kept apart, the last part of
it, as text for diagnosis.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, cast

from attrs import frozen
from twisted.internet.defer import Deferred, TimeoutError
from twisted.internet.error import ProcessExitedAlready
from twisted.internet.interfaces import (
    IDelayedCall,
    IPushProducer,
    IReactorProcess,
    IReactorTime,
)
from twisted.internet.protocol import ProcessProtocol
from twisted.python.failure import Failure

from garcon.contract.limits import KIB
from garcon.contract.runs import RunFailure
from garcon.deferreds import Ending, Waiters
from garcon.errors import GarconError
from garcon.runtime import marks
from garcon.runtime.agents import tree, unread
from garcon.runtime.agents.descendants import Descendants
from garcon.runtime.agents.flow import MessageFlow
from garcon.runtime.agents.lines import LineTooLong, encode
from garcon.runtime.cgroups import Cgroup
from garcon.runtime.session_limits import (
    SessionLimits,
    line_too_long,
    silent,
    too_many_processes,
    too_much_memory,
    too_much_output,
)

STDERR_TAIL = 8 * 1024
OUTPUT_GRACE = 1.0
"""How long output may still come after the exit: an orphan that holds the pipe would keep it open
for ever.
"""
PIPE = 64 * KIB
"""What a pipe holds: what comes after more than that was not written before the exit."""
SILENCE = 5.0
"""How long an agent may go on that has closed its output."""
STDIN_WAIT, SIGNAL_WAIT, KILL_WAIT = 2.0, 3.0, 2.0

# The interpreter puts LC_CTYPE into its environment where no locale is set, and ignores two
# signals: the agent is not to see that.  The module `signal` itself takes long to load.
_WRAPPER = """\
import _signal, os, sys
os.setsid()
for number in (_signal.SIGPIPE, _signal.SIGXFSZ):
    _signal.signal(number, _signal.SIG_DFL)
if sys.argv[1] == 'plain':
    os.environ.pop('LC_CTYPE', None)
try:
    if sys.argv[2]:
        with open(sys.argv[2], 'w') as group:
            group.write('0')
    os.chdir(sys.argv[3])
    os.execv(sys.argv[4], sys.argv[4:])
except OSError as error:
    sys.exit(f'{sys.argv[4]}: {error}')
"""


@frozen
class Exit:
    """How a process ended: a status, or the signal that ended it."""

    status: int | None
    signal: int | None

    def __str__(self) -> str:
        if self.signal is not None:
            return f"ended by signal {self.signal}"
        return f"exited with status {self.status}"


class AgentProcess(ProcessProtocol):
    """A running agent.  Owned by one session, which hears each message and, once, the end."""

    def __init__(
        self,
        reactor: Any,
        received: Callable[[dict[str, Any]], None],
        ended: Callable[[Exit], None],
        exceeded: Callable[[RunFailure], None] = lambda _: None,
        limits: SessionLimits | None = None,
        puzzled: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._reactor = reactor
        self._exceeded = exceeded
        self._limits = limits or SessionLimits()
        self._output = 0
        self._has_exceeded = False
        self._group: Cgroup | None = None
        self._clock = cast(IReactorTime, reactor)
        self._ended = ended
        self._flow = MessageFlow(
            reactor,
            self._limits.line,
            received,
            puzzled,
            self._flowed,
            lambda: cast(IPushProducer | None, self.transport),
        )
        self._open_pipes = {1, 2}
        self._exited: Exit | None = None
        self._grace: IDelayedCall | None = None
        self._silence: IDelayedCall | None = None
        self._late_output = 0
        """Bytes, after the exit."""
        self._reported = False
        self._exit_waiters: Waiters[None] = Waiters()
        self._stderr: deque[bytes] = deque()
        self._stderr_size = 0
        self._mark = b""
        self._pid = 0
        self._descendants: Descendants | None = None

    def start(self, command: Sequence[str], environment: Mapping[str, str], directory: str) -> None:
        """Begin the process, or raise `GarconError` when its program cannot be found, or the system
        starts no more.
        """
        program = shutil.which(command[0], path=environment.get("PATH", os.defpath))
        if program is None:
            raise launch_failed(f"the agent's program {command[0]!r} was not found")
        argv = [
            sys.executable,
            *("-I", "-S", "-c", _WRAPPER),
            "given" if "LC_CTYPE" in environment else "plain",
            self._join_group(),
            directory,
            os.path.abspath(program),
            *command[1:],
        ]
        variables = marks.branch(environment)
        self._mark = marks.variable(variables)
        try:
            cast(IReactorProcess, self._reactor).spawnProcess(self, argv[0], argv, env=variables)
        except (OSError, ValueError) as error:
            if self._group is not None:
                self._group.remove()
            why = error.strerror if isinstance(error, OSError) else error
            raise launch_failed(f"the agent's process could not be started: {why}") from None

    def turn_begins(self) -> None:
        """What is written from now on counts for another turn."""
        self._output = 0

    def passed_limit(self) -> RunFailure | None:
        """Return what the kernel has ended it for, if it has."""
        match None if self._group is None else self._group.passed():
            case "memory":
                return too_much_memory()
            case "processes":
                return too_many_processes()
        return None

    @property
    def is_running(self) -> bool:
        """Whether the process has neither exited nor been given up."""
        return self._exited is None

    @property
    def pid(self) -> int:
        """The process id, also after the end."""
        return self._pid

    @property
    def has_read(self) -> bool:
        """Whether it has taken all that was written to it, as far as the kernel can tell."""
        stdin = None if self.transport is None else cast(Any, self.transport).pipes.get(0)
        return stdin is None or unread.is_empty(stdin.fileno())

    @property
    def descendants(self) -> frozenset[tree.Process]:
        """What it is known to have started, as far as that has not been seen to end."""
        return frozenset() if self._descendants is None else self._descendants.known

    def stderr_tail(self) -> str:
        """Return the end of what the agent wrote to standard error, for a person to read."""
        return b"".join(self._stderr)[-STDERR_TAIL:].decode("utf-8", "replace").strip()

    def send(self, message: dict[str, Any]) -> None:
        """Write one message; one to a process that has exited is lost, as its end says."""
        if self._exited is None and self.transport is not None:
            self.transport.write(encode(message))

    def note_descendants(self) -> None:
        """Note what hangs on it before it is asked to end some of that: what then goes on hangs on
        it no more.
        """
        if self._descendants is not None:
            self._descendants.note()

    def end(self, polite: Literal["INT", "TERM"], *, at_once: bool = False) -> Deferred[None]:
        """End the process and everything it left, and fire when they are gone.  Whoever waits may
        be cancelled; the end goes on.

        It is asked by the end of its input, then by a signal, and then not asked.  `at_once` skips
        the asking.
        """
        return Ending.of(Deferred.fromCoroutine(self._end(polite, at_once))).wait()

    async def _end(self, polite: Literal["INT", "TERM"], at_once: bool) -> None:
        descendants = self._descendants
        if descendants is None:
            return  # it was never started
        self._flow.let_go()
        await descendants.record()
        if not at_once:
            if self._exited is None and self.transport is not None:
                self.transport.closeStdin()
                await self._wait_for_exit(STDIN_WAIT)
            if self._exited is None:
                await descendants.record()
                self._signal(polite)
                await self._wait_for_exit(SIGNAL_WAIT)
        self._signal("KILL")
        await self._wait_for_exit(KILL_WAIT)
        if self._exited is None:
            self._leave()
        if self._group is not None:
            self._group.kill()
        await descendants.kill()
        # What is still to be decoded is nobody's any more.
        self._flow.drop()
        self._report()
        if self._group is not None:
            self._group.remove()

    def hold(self) -> None:
        """Deliver no more messages until `let_go`: the agent's output stays in its pipe."""
        self._flow.hold()

    def let_go(self) -> None:
        """Go on after `hold`, in a moment."""
        self._flow.let_go()

    def hurry(self) -> None:
        """Cut the asking short for an `end` that goes on."""
        self._signal("KILL")

    # -- what Twisted calls

    def connectionMade(self) -> None:
        assert self.transport is not None
        self._pid = cast(int, self.transport.pid)
        counted = None if self._limits.processes is None else self._counted
        self._descendants = Descendants(self._reactor, self._pid, self._mark, counted)

    def outReceived(self, data: bytes) -> None:
        if self._has_exceeded:
            return
        self._output += len(data)
        if self._exited is not None:
            self._late_output += len(data)
        limit = self._limits.output
        if limit is not None and self._output > limit:
            self._exceed(too_much_output(limit))
            return
        try:
            self._flow.feed(data)
        except LineTooLong:
            self._exceed(line_too_long(self._limits.line))

    def errReceived(self, data: bytes) -> None:
        self._stderr.append(data[-STDERR_TAIL:])
        self._stderr_size += len(self._stderr[-1])
        while self._stderr_size - len(self._stderr[0]) >= STDERR_TAIL:
            self._stderr_size -= len(self._stderr.popleft())

    def childConnectionLost(self, childFD: int) -> None:
        self._open_pipes.discard(childFD)
        if childFD == 1 and not self._flow.is_over:
            self._flow.finish()
            if self._exited is None:
                self._silence = self._clock.callLater(SILENCE, self._gone_silent)
        self._report_if_all_is_told()

    def processExited(self, reason: Failure) -> None:
        value: Any = reason.value
        self._exited = Exit(status=value.exitCode, signal=value.signal)
        if self._silence is not None and self._silence.active():
            self._silence.cancel()
        if self._descendants is not None:
            self._descendants.parent_gone()
        self._exit_waiters.fire(None)
        if self._open_pipes:
            self._wait_for_output()
        else:
            self._report_if_all_is_told()

    # -- the end of its output

    def _flowed(self) -> None:
        """What had to wait has been delivered; more may still come from the pipe."""
        self._report_if_all_is_told()
        if self._grace is None or self._reported:
            return
        if self._late_output < PIPE:
            self._wait_for_output()  # the pipe was left alone until now
        elif not self._grace.active():
            self._report()  # an orphan may go on for ever

    def _wait_for_output(self) -> None:
        if self._grace is not None and self._grace.active():
            self._grace.cancel()
        self._grace = self._clock.callLater(OUTPUT_GRACE, self._report)

    def _report_if_all_is_told(self) -> None:
        if self._exited and self._flow.is_empty and not self._open_pipes:
            self._report()

    def _report(self) -> None:
        """Tell the owner of the end, after the last message."""
        if self._reported or self._exited is None or self._flow.is_waiting:
            return  # what has come is told first, and what follows it: see `_flowed`
        self._reported = True
        self._flow.drop()
        if self._grace is not None and self._grace.active():
            self._grace.cancel()
        if self.transport is not None:
            self.transport.loseConnection()
        self._ended(self._exited)

    # -- limits

    def _join_group(self) -> str:
        """Return the file by which the child joins a group of its own, empty where it has none."""
        groups = self._limits.groups
        if groups is None:
            return ""
        try:
            self._group = groups.make()
        except OSError as error:
            raise launch_failed(f"no control group could be made: {error.strerror}") from None
        return self._group.processes

    def _counted(self, count: int) -> None:
        limit = self._limits.processes
        if limit is not None and count > limit and not self._has_exceeded:
            self._exceed(too_many_processes())

    def _gone_silent(self) -> None:
        if self._flow.is_waiting or not self._flow.is_empty:
            self._silence = self._clock.callLater(SILENCE, self._gone_silent)
        elif not self._flow.is_over:
            self._exceed(silent())

    def _exceed(self, failure: RunFailure) -> None:
        self._has_exceeded = True
        self._flow.drop()
        self._exceeded(failure)

    # -- ending

    def _signal(self, name: str) -> None:
        if self._exited is None and self.transport is not None:
            try:
                self.transport.signalProcess(name)
            except (ProcessExitedAlready, PermissionError):
                pass  # its exit is on the way, or it became another user's: not ours to end

    def _leave(self) -> None:
        """Take its pipes from one that still runs, so that it notices; nobody hears of it."""
        assert self.transport is not None
        self._flow.drop()
        self.transport.loseConnection()

    async def _wait_for_exit(self, seconds: float) -> None:
        if self._exited is None:
            try:
                await self._exit_waiters.wait().addTimeout(seconds, self._clock)
            except TimeoutError:
                pass  # then it is asked in another way


def launch_failed(text: str) -> GarconError:
    """An agent could not be started: the contract has one answer for every cause."""
    return GarconError("INTERNAL_ERROR", text, status=500, retryable=True)
