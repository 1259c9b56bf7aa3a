"""What is measured of a shell, whatever carries it there and back.

A key is typed to a `cat` that waits for its line, so the terminal itself echoes it.  A flood is
counted as the terminal sends it, to the word behind its end.
"""

from __future__ import annotations

import time
from pathlib import Path

from garcon.contract.limits import MIB
from garcon.testing.bench.carriers import Carrier

WAIT = 120.0
QUIET = 0.1
BETWEEN_KEYS = 0.002
FLOOD = b"yes a line of a program that does not stop by itself"


def write_shell(folder: Path) -> str:
    """Return a program that is the same shell for everybody: nobody's own settings are read."""
    path = folder / "bench-shell"
    path.write_text("#!/bin/sh\nexec bash --norc --noprofile\n")
    path.chmod(0o755)
    return str(path)


def until(carrier: Carrier, word: bytes, seconds: float = WAIT) -> int:
    """Read until a word has come; return how many bytes came."""
    end, size, deadline = b"", 0, time.monotonic() + seconds
    while True:
        data = carrier.receive(1.0)
        size += len(data)
        seen = end + data
        if word in seen:
            return size
        end = seen[-len(word) :]
        assert time.monotonic() < deadline, f"{word!r} does not come, only {seen[-200:]!r}"


def read_for(carrier: Carrier, seconds: float) -> None:
    """Read whatever comes for so long."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        carrier.receive(0.05)


def drain(carrier: Carrier) -> None:
    """Read until nothing comes any more."""
    while carrier.receive(QUIET):
        pass


def begin(carrier: Carrier) -> None:
    """Wait for the shell, and let it show nothing but what programs do."""
    until(carrier, b"bash-")
    # A word that is not in what is typed, which is echoed.
    carrier.send(b"PS1=; stty rows 24 cols 80; echo R''EADY\n")
    until(carrier, b"READY\r\n")
    drain(carrier)


def wait_for_keys(carrier: Carrier) -> None:
    """Have a program wait for lines, so that the terminal shows what is typed."""
    carrier.send(b"echo R''EADY; cat >/dev/null; echo D''ONE\n")
    until(carrier, b"READY\r\n")
    drain(carrier)


def echoes(carrier: Carrier, keys: int) -> list[float]:
    """Type a line of so many keys; return how long each took to be shown, in milliseconds."""
    taken = []
    for _ in range(keys):
        time.sleep(BETWEEN_KEYS)
        began = time.perf_counter()
        carrier.send(b"x")
        until(carrier, b"x")
        taken.append((time.perf_counter() - began) * 1e3)
    carrier.send(b"\n")
    until(carrier, b"\n")
    return taken


def stop_waiting(carrier: Carrier) -> None:
    """Let the shell go on."""
    carrier.send(b"\x04")
    until(carrier, b"DONE\r\n")
    drain(carrier)


def flood(carrier: Carrier, lines: int) -> float:
    """Return how many MiB of output came in a second."""
    began = time.perf_counter()
    carrier.send(b"seq 1 %d; echo E''ND\n" % lines)
    size = until(carrier, b"END\r\n")
    taken = time.perf_counter() - began
    drain(carrier)
    return size / MIB / taken


def interrupted(carrier: Carrier, seconds: float) -> float:
    """Return how long after so many seconds of a flood a ^C takes, until the next command's output
    is there; in milliseconds.
    """
    # The next command was typed before: what is typed behind a ^C a terminal may throw away.
    carrier.send(b"(trap : INT; %b; echo D''ONE)\n" % FLOOD)
    read_for(carrier, seconds)
    began = time.perf_counter()
    carrier.send(b"\x03")
    until(carrier, b"DONE\r\n")
    taken = (time.perf_counter() - began) * 1e3
    drain(carrier)
    return taken
