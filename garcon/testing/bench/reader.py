"""A client in a process of its own, so that its reading takes nothing from whoever measures: it has
a terminal flood, and reads: ``python -m garcon.testing.bench.reader URL EXECUTOR``.
"""

from __future__ import annotations

import signal
import sys
import time

from garcon.contract.limits import MIB
from garcon.testing.bench.carriers import Garcon
from garcon.testing.bench.shells import FLOOD, WAIT, begin


def main(url: str, executor_id: str) -> None:
    """Read until ended."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    carrier = Garcon(url, executor_id)
    try:
        begin(carrier)
        carrier.send(FLOOD + b"\n")
        size, deadline = 0, time.monotonic() + WAIT
        while size < MIB:
            size += len(carrier.receive(1.0))
            assert time.monotonic() < deadline, "no flood"
        print("Reading", flush=True)
        while True:
            # As much as a browser has to do, but for showing it.
            carrier.receive(1.0)
    finally:
        carrier.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
