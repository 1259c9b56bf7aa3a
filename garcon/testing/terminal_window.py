"""A terminal window with a command in it: a real PTY, typed at and looked at by a test."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from garcon.testing.fleet import expect

WAIT = 20.0


class Window:
    """One command in a window of its own.  Its output is kept, also what it prints as errors.

    The window stays when the command has ended, so that its modes can be compared.
    """

    def __init__(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        cwd: str,
        *,
        size: tuple[int, int] = (80, 24),
    ) -> None:
        self._master, self._slave = pty.openpty()
        self.resize(*size)
        self.modes_before = self.modes()
        self.flags_before = self.flags()
        self._changed = threading.Condition()
        self._data = bytearray()
        self._is_read = threading.Event()
        self._is_read.set()
        self._is_closing = False
        self.process = subprocess.Popen(
            argv,
            cwd=cwd,
            env={"TERM": "xterm-256color", **environment},
            stdin=self._slave,
            stdout=self._slave,
            stderr=self._slave,
            preexec_fn=self._own,
        )
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _own(self) -> None:
        """In the child: make the window its controlling terminal."""
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    def _read(self) -> None:
        while not self._is_closing:
            self._is_read.wait()
            ready, _, _ = select.select([self._master], [], [], 0.1)
            if not ready or not self._is_read.is_set():
                continue
            try:
                data = os.read(self._master, 65_536)
            except OSError:
                return
            with self._changed:
                self._data += data
                self._changed.notify_all()

    # What is seen

    @property
    def text(self) -> str:
        """Everything that was printed."""
        with self._changed:
            return self._data.decode("utf-8", "replace")

    def forget(self) -> None:
        """Clear the window, so that only what comes is seen."""
        with self._changed:
            self._data.clear()

    def sees(self, text: str, seconds: float = WAIT) -> None:
        """Wait until a text is printed."""
        self.until(f"{text!r} is printed", lambda: text.encode() in self._data, seconds)

    def until(self, what: str, holds: Callable[[], Any], seconds: float = WAIT) -> None:
        """Wait until something holds, looking whenever something is printed, and otherwise now and
        then.
        """
        deadline = time.monotonic() + seconds
        with self._changed:
            while not holds():
                left = deadline - time.monotonic()
                expect(left > 0, f"{what}: not within {seconds} s; {bytes(self._data[-2000:])!r}")
                self._changed.wait(min(left, 0.05))

    def modes(self) -> list[Any]:
        """Return the window's modes."""
        return termios.tcgetattr(self._slave)

    def flags(self) -> int:
        """Return the flags that everybody in the window shares."""
        return fcntl.fcntl(self._slave, fcntl.F_GETFL)

    def is_raw(self) -> bool:
        """Whether keys reach the command at once and unchanged."""
        return not self.modes()[3] & (termios.ICANON | termios.ECHO | termios.ISIG)

    def is_restored(self) -> bool:
        """Whether all is as before the command."""
        return self.modes() == self.modes_before and self.flags() == self.flags_before

    # What is done

    def type(self, text: str | bytes) -> None:
        """Type something."""
        data = text.encode() if isinstance(text, str) else text
        while data:
            data = data[os.write(self._master, data) :]

    def resize(self, columns: int, rows: int) -> None:
        """Give the window a size."""
        size = struct.pack("HHHH", rows, columns, 0, 0)
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, size)

    def stop_reading(self) -> None:
        """Let nothing be printed any more."""
        self._is_read.clear()

    def go_on_reading(self) -> None:
        """Let it be printed."""
        self._is_read.set()

    def signal(self, number: signal.Signals) -> None:
        """Send the command a signal."""
        self.process.send_signal(number)

    def ended(self, seconds: float = WAIT) -> int:
        """Wait for the command's end; return its status, minus a signal's number."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the command goes on:\n{self.text[-2000:]}") from None

    def hang_up(self) -> None:
        """Close the window while the command is in it."""
        self._stop()
        os.close(self._master)
        os.close(self._slave)
        self._master = self._slave = -1

    def close(self) -> None:
        """End all of it."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self._master >= 0:
            self.hang_up()

    def _stop(self) -> None:
        self._is_closing = True
        self._is_read.set()
        self._thread.join(WAIT)
