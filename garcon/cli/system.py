"""What a command uses of the machine it runs on: streams, time, chance, the environment."""

from __future__ import annotations

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import BinaryIO


class OutputLost(OSError):
    """Standard output takes nothing more, though its reader is there (a full disk)."""


class System:
    """The outside of one invocation.  Everything is handed in, so that tests can own it."""

    def __init__(
        self,
        *,
        environ: Mapping[str, str],
        stdin: BinaryIO,
        stdout: BinaryIO,
        stderr: BinaryIO,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
        random: Callable[[int], bytes] = os.urandom,
        secret: Callable[[str], str | None] | None = None,
    ) -> None:
        self.environ = environ
        self.stdin = stdin
        self.clock = clock
        self.now = now
        self.sleep = sleep
        self.random = random
        self.secret = _ask_terminal if secret is None else secret
        """Asks for a password without showing it; None where there is no terminal."""
        self._stdout = stdout
        self._stderr = stderr
        self._last_chat_id = 0

    @classmethod
    def real(cls) -> System:
        """Return the process's own."""
        return cls(
            environ=os.environ,
            stdin=sys.stdin.buffer if sys.stdin is not None else _nothing(),
            stdout=sys.stdout.buffer if sys.stdout is not None else _nothing(),
            stderr=sys.stderr.buffer if sys.stderr is not None else _nothing(),
        )

    def out(self, text: str) -> None:
        """Write to standard output, at once.  A lone surrogate becomes its escape."""
        try:
            self._stdout.write(text.encode("utf-8", "backslashreplace"))
            self._stdout.flush()
        except BrokenPipeError:
            raise
        except OSError as e:
            raise OutputLost(e.errno, e.strerror) from None

    def err(self, line: str) -> None:
        """Write one line to standard error; without a reader it is lost, and changes nothing."""
        try:
            self._stderr.write(line.encode("utf-8", "backslashreplace") + b"\n")
            self._stderr.flush()
        except OSError:
            return

    def terminal(self) -> tuple[int, int] | None:
        """Return the descriptors of standard input and output if both are terminals."""
        if not (self.stdin.isatty() and self._stdout.isatty()):
            return None
        return self.stdin.fileno(), self._stdout.fileno()

    def is_terminal(self) -> bool:
        """Whether standard output is a terminal."""
        return self._stdout.isatty()

    def uuid(self) -> str:
        """Return a fresh UUID v4."""
        raw = bytearray(self.random(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        text = raw.hex()
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def chat_id(self) -> str:
        """Return a fresh chat id: microseconds, growing with every call (chats.md 2.1)."""
        self._last_chat_id = max(int(self.now() * 1_000_000), self._last_chat_id + 1)
        return f"{self._last_chat_id:016d}"

    def jitter(self) -> float:
        """Return a factor between 0.9 and 1.1."""
        return 0.9 + 0.2 * int.from_bytes(self.random(2), "big") / 65_535


def _ask_terminal(prompt: str) -> str | None:
    from getpass import GetPassWarning, getpass
    from warnings import catch_warnings, simplefilter

    with catch_warnings():
        # Better no password than one that is shown.
        simplefilter("error", GetPassWarning)
        try:
            return getpass(prompt)
        except (GetPassWarning, EOFError):
            return None


def _nothing() -> BinaryIO:
    return open(os.devnull, "r+b")
