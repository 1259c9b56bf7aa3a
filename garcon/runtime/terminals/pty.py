"""A shell behind a pseudo-terminal: its bytes both ways, its size, its end, and the end of
everything in its session.

The window size is set before the child runs.  Output is read in slices of many reads, so that a
flood costs few turns of the reactor and no turn much.  The exit is told after the output; a
grandchild that keeps the terminal open gets a moment for its own, and then the terminal is taken
away.  What is meant to outlive its terminal starts a session of its own, as `setsid` or a terminal
multiplexer do.
"""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import termios
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar, cast

from twisted.internet.abstract import FileDescriptor
from twisted.internet.defer import Deferred, TimeoutError
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IDelayedCall, IPushProducer, IReactorProcess, IReactorTime
from twisted.internet.protocol import ProcessProtocol
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from garcon.contract.limits import KIB
from garcon.contract.terminals import TerminalSize
from garcon.deferreds import Waiters, returns_deferred
from garcon.runtime.agents import tree

T = TypeVar("T")

SLICE = 64 * KIB
"""Read in one turn of the reactor at most."""
OUTPUT_GRACE = 1.0
"""How long output may still come after the exit."""
HANGUP_WAIT, KILL_WAIT, KILL_POLL = 1.0, 2.0, 0.02
LARGEST_SIDE = 65_535
IUTF8 = 0o040000
"""Linux's own; the module does not name it."""


class PtyOwner(Protocol):
    """Who hears of a shell."""

    def output_received(self, data: bytes) -> None:
        """Some of its output, in order."""

    def input_wanted(self) -> None:
        """What was written has left; `write` would not only let it wait."""

    def process_exited(self, code: int) -> None:
        """It has ended, with this status or 128 and the signal's number; the last word."""


class Pty(Protocol):
    """A running shell."""

    @property
    def is_writable(self) -> bool:
        """Whether nothing waits to be written."""

    def write(self, data: bytes) -> None:
        """Type something."""

    def resize(self, size: TerminalSize) -> None:
        """Change the window's size."""

    def hold(self, is_held: bool) -> None:
        """Read nothing more for now, or go on."""

    def look(self) -> None:
        """Read at once what is there already, as an echo mostly is when its key was written: a turn
        of the reactor less for each key.
        """

    def end(self) -> Deferred[None]:
        """End it and all that is in its session; fires when they are gone."""


OpenPty = Callable[[PtyOwner, Sequence[str], Mapping[str, str], str, TerminalSize], Pty]
"""Starts a command with an environment in a directory, in a window of a size; raises `OSError` when
the machine cannot."""


def pty_opener(reactor: Any) -> OpenPty:
    """Return what starts real shells."""

    def open_pty(
        owner: PtyOwner,
        command: Sequence[str],
        environment: Mapping[str, str],
        directory: str,
        size: TerminalSize,
    ) -> Pty:
        process = PtyProcess(reactor, owner)
        process.start(command, environment, directory, size)
        return process

    return open_pty


@implementer(IPushProducer)
class PtyProcess(ProcessProtocol):
    """See `Pty`.  Owned by one terminal."""

    _log = Logger()

    def __init__(self, reactor: Any, owner: PtyOwner) -> None:
        self._reactor = reactor
        self._clock = cast(IReactorTime, reactor)
        self._owner = owner
        self._pid = 0
        self._code: int | None = None
        self._gone_at: int | None = None
        """When its id became free for others."""
        self._is_closed = False
        self._is_reported = False
        self._is_held = False
        self._waits_to_write = False
        self._grace: IDelayedCall | None = None
        self._exits: Waiters[None] = Waiters()

    def start(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        directory: str,
        size: TerminalSize,
    ) -> None:
        """Begin; raises `OSError` when no terminal or no process is to be had."""
        master, slave = pty.openpty()
        try:
            fcntl.ioctl(slave, termios.TIOCSWINSZ, _window(size))
            # So that the line editing of the kernel takes away characters, not bytes.
            modes = termios.tcgetattr(slave)
            modes[0] |= IUTF8
            termios.tcsetattr(slave, termios.TCSANOW, modes)
            cast(IReactorProcess, self._reactor).spawnProcess(
                self,
                command[0],
                [os.fsencode(part) for part in command],
                # As bytes, for variables that are no UTF-8.
                env={os.fsencode(k): os.fsencode(v) for k, v in environment.items()},
                path=directory,
                usePTY=(master, slave, os.ttyname(slave)),  # type: ignore[arg-type]  # or a bool
            )
        except BaseException:
            if not self._pid:
                os.close(master)
                os.close(slave)
            raise

    @property
    def pid(self) -> int:
        """The shell's process id, which is its session's too; also after its end."""
        return self._pid

    # -- Pty

    @property
    def is_writable(self) -> bool:
        return not self._waits_to_write

    def write(self, data: bytes) -> None:
        if self._is_closed or not data:
            return
        sent = 0
        if not self._waits_to_write:
            # At once, as waiting for the next turn would make every key late.
            try:
                sent = os.write(self._terminal.fileno(), data)
            except BlockingIOError:
                pass
            except OSError:
                return  # The other side is gone, as its exit will say.
        if sent < len(data):
            self._waits_to_write = True
            self._terminal.write(data[sent:])

    def resize(self, size: TerminalSize) -> None:
        if not self._is_closed:
            fcntl.ioctl(self._terminal.fileno(), termios.TIOCSWINSZ, _window(size))

    def hold(self, is_held: bool) -> None:
        # After the exit there is little more to read, and the end waits for it.
        is_held = is_held and self._code is None
        if self._is_closed or is_held is self._is_held:
            return
        self._is_held = is_held
        if is_held:
            self._terminal.stopReading()
        else:
            self._terminal.startReading()

    def look(self) -> None:
        if self._is_closed or self._is_held:
            return
        try:
            data = os.read(self._terminal.fileno(), SLICE)
        except OSError:
            return  # Nothing for now, or nothing any more; then the next turn finds that out.
        if data:
            self.outReceived(data)

    @returns_deferred
    async def end(self) -> None:
        """Hang up, and kill what does not mind within a second."""
        left = await self._in_thread(_members, self._pid, self._gone_at)
        self._signal_shell(signal.SIGHUP, signal.SIGCONT)
        await self._in_thread(tree.send, left, signal.SIGHUP, signal.SIGCONT)
        await self._wait_for_exit(HANGUP_WAIT)
        left |= await self._in_thread(_members, self._pid, self._gone_at)
        self._signal_shell(signal.SIGKILL)
        self._close()
        await self._wait_for_exit(KILL_WAIT)
        deadline = self._clock.seconds() + KILL_WAIT
        while await self._in_thread(tree.kill, left):
            if self._clock.seconds() > deadline:
                self._log.warn("terminal {pid} left processes behind", pid=self._pid)
                break
            d: Deferred[None] = Deferred()
            self._clock.callLater(KILL_POLL, d.callback, None)
            await d

    # -- what Twisted calls

    def connectionMade(self) -> None:
        assert self.transport is not None
        self._pid = cast(int, self.transport.pid)
        self._terminal = cast(FileDescriptor, self.transport)
        # So that each write is told when it has left.
        self._terminal.bufferSize = 0
        self._terminal.registerProducer(self, True)

    def outReceived(self, data: bytes) -> None:
        parts, size = [data], len(data)
        descriptor = self._terminal.fileno()
        while size < SLICE:
            try:
                more = os.read(descriptor, SLICE - size)
            except OSError:
                break  # Nothing for now, or nothing any more; then the next turn finds that out.
            if not more:
                break
            parts.append(more)
            size += len(more)
        if not self._is_reported:
            self._owner.output_received(b"".join(parts))

    def processExited(self, reason: Failure) -> None:
        value: Any = reason.value
        self._code = value.exitCode if value.signal is None else 128 + value.signal
        self._gone_at = tree.ticks()
        self._exits.fire(None)
        self.hold(False)
        if self._is_closed:
            self._report()
        else:
            self._grace = self._clock.callLater(OUTPUT_GRACE, self._report)

    def processEnded(self, reason: Failure) -> None:
        self._is_closed = True
        self._report()

    def pauseProducing(self) -> None:
        """What was written has to wait, as `write` knows already."""

    def resumeProducing(self) -> None:
        """All that was written has left."""
        self._waits_to_write = False
        if not self._is_closed:
            self._owner.input_wanted()

    def stopProducing(self) -> None:
        """The terminal is gone."""
        self._is_closed = True

    # -- the end

    def _report(self) -> None:
        """Tell of the exit, once, and take the terminal from whoever still has it."""
        if self._is_reported or self._code is None:
            return
        self._is_reported = True
        if self._grace is not None and self._grace.active():
            self._grace.cancel()
        self._close()
        d = self._in_thread(_kill_group, self._pid, self._gone_at)
        d.addErrback(lambda f: self._log.failure("killing a shell's group failed", failure=f))
        self._owner.process_exited(self._code)

    def _close(self) -> None:
        """Take the terminal away, and drop what waits to be written: a shell that reads nothing
        must not keep it open.
        """
        if not self._is_closed:
            self._terminal.connectionLost(Failure(ConnectionDone()))

    def _signal_shell(self, *numbers: int) -> None:
        """Signal the shell itself; its id is nobody else's before its exit was collected."""
        for number in numbers:
            if self._code is None:
                try:
                    os.kill(self._pid, number)
                except PermissionError:
                    pass  # it became another user's; it notices that its terminal goes

    async def _wait_for_exit(self, seconds: float) -> None:
        if self._code is not None:
            return
        try:
            await self._exits.wait().addTimeout(seconds, self._clock)
        except TimeoutError:
            pass

    def _in_thread(self, f: Callable[..., T], *args: Any) -> Deferred[T]:
        d: Deferred[T] = deferToThreadPool(self._reactor, self._reactor.getThreadPool(), f, *args)
        return d


def _window(size: TerminalSize) -> bytes:
    rows, columns = (min(side, LARGEST_SIDE) for side in (size.rows, size.cols))
    return struct.pack("HHHH", rows, columns, 0, 0)


def _members(session: int, gone_at: int | None) -> set[tree.Process]:
    """Return who belongs to a session that a shell leads or led, the shell excluded."""
    found = tree.find(session, b"", gone_at=gone_at)
    return {one for one in found if _has(os.getsid, one.pid, session)}


def _kill_group(group: int, gone_at: int | None) -> None:
    """Kill what is left in the group of a shell that has exited."""
    found = tree.find(group, b"", gone_at=gone_at)
    tree.kill({one for one in found if _has(os.getpgid, one.pid, group)})


def _has(ask: Callable[[int], int], pid: int, value: int) -> bool:
    try:
        return ask(pid) == value
    except ProcessLookupError:
        return False
