"""The terminal that the command itself runs in: raw while it is lent to a remote one, and given
back as it was on every way out.

Signals are kept for whoever lends it: none of them ends the process while its modes are changed,
except the two that nothing can keep.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import termios
import tty
from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType, TracebackType
    from typing import Any

ENDING = (
    *(signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM),
    *(signal.SIGALRM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU),
)
"""Signals that would end the process."""
_KEPT = (*ENDING, signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH)


class LocalTerminal:
    """The descriptors `reads` and `writes`, which are two, both of one terminal.

    Between `enter` and `leave` its modes are changed, reads and writes never wait, and signals are
    found in `signals`; `wakes` can be read when there are any.
    """

    def __init__(self, reads: int, writes: int) -> None:
        self.reads = reads
        self.writes = writes
        self.is_entered = False
        self.signals: deque[int] = deque()
        self.wakes, self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._modes: list[Any] = []
        self._flags: dict[int, int] = {}
        self._handlers: dict[int, Any] = {}
        self._wakeup = -1

    def __enter__(self) -> LocalTerminal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.leave()
        os.close(self.wakes)
        os.close(self._wake)

    def enter(self) -> None:
        """Make it raw.  May wait until this process is in the foreground."""
        assert not self.is_entered
        self._modes = self._attempt(lambda: termios.tcgetattr(self.reads))
        self._flags = {fd: fcntl.fcntl(fd, fcntl.F_GETFL) for fd in (self.reads, self.writes)}
        self._keep_signals()
        self.is_entered = True
        try:
            # At once, and without throwing away what was typed ahead.
            self._attempt(lambda: tty.setraw(self.reads, termios.TCSANOW))
            for fd, flags in self._flags.items():
                fcntl.fcntl(fd, fcntl.F_SETFL, flags | os.O_NONBLOCK)
        except BaseException:
            self.leave()
            raise

    def leave(self, last: bytes = b"") -> None:
        """Give it back as it was, after writing `last` if it takes that; does nothing twice."""
        if not self.is_entered:
            return
        self.is_entered = False
        try:
            self._give_back(last)
        finally:
            for fd, flags in self._flags.items():
                fcntl.fcntl(fd, fcntl.F_SETFL, flags)
            self._release_signals()

    def _give_back(self, last: bytes) -> None:
        # From the background it would stop us, and change what is somebody else's now.
        ignored = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        try:
            if not self._is_behind():
                self.write(last)
                # Never the way that waits: output that nobody reads would hold us for ever.
                termios.tcsetattr(self.reads, termios.TCSANOW, self._modes)
        except (OSError, termios.error):
            pass  # it is gone, with its modes
        finally:
            signal.signal(signal.SIGTTOU, ignored)

    def _is_behind(self) -> bool:
        """Whether others are in the foreground of a terminal that is ours."""
        try:
            return os.tcgetpgrp(self.reads) != os.getpgrp()
        except OSError:
            return False

    def suspend(self, last: bytes) -> None:
        """Stop this process as Ctrl-Z does; returns, entered again, when it is continued."""
        self.leave(last)
        os.kill(os.getpid(), signal.SIGTSTP)
        self.enter()

    def renew(self) -> None:
        """Make it raw again after somebody else may have changed it."""
        self._attempt(lambda: tty.setraw(self.reads, termios.TCSANOW))

    def size(self) -> tuple[int, int]:
        """Return its columns and rows; what it does not know is as on an old terminal."""
        try:
            found = os.get_terminal_size(self.writes)
        except OSError:
            return 80, 24
        return found.columns or 80, found.lines or 24

    def read(self, size: int) -> bytes | None:
        """Return what was typed, nothing at its end, and None where nothing is there."""
        try:
            return os.read(self.reads, size)
        except BlockingIOError:
            return None
        except OSError:
            return b""

    def write(self, data: bytes) -> int:
        """Write what it takes now and return how much that was; raises `OSError` without it."""
        try:
            return os.write(self.writes, data) if data else 0
        except BlockingIOError:
            return 0

    def woken(self) -> list[int]:
        """Return the signals that came."""
        try:
            while os.read(self.wakes, 4_096):
                pass
        except BlockingIOError:
            pass
        found = []
        while self.signals:
            found.append(self.signals.popleft())
        return found

    def wake(self) -> None:
        """Make `wakes` readable, from whatever thread."""
        try:
            os.write(self._wake, b"\0")
        except OSError:
            pass  # it is, or nobody reads it any more

    def _keep_signals(self) -> None:
        self._wakeup = signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        for number in _KEPT:
            if number in ENDING and signal.getsignal(number) is signal.SIG_IGN:
                continue  # nohup wants it so
            self._handlers[number] = signal.signal(number, self._came)

    def _release_signals(self) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._handlers = {}
        signal.set_wakeup_fd(self._wakeup)

    def _came(self, number: int, frame: FrameType | None) -> None:
        self.signals.append(number)

    def _attempt(self, act: Any) -> Any:
        """Do something to the terminal, however often a signal comes in between."""
        while True:
            try:
                return act()
            except termios.error as error:
                if error.args[0] != errno.EINTR:
                    raise OSError(*error.args) from None
