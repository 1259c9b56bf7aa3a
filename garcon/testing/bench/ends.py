"""The processes of the link bench: ``serve`` is one end, ``drive`` the other, which measures.

Each is started by `link.py`; what a driver finds goes to standard output as one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any

from twisted.internet.defer import Deferred

from garcon.process import prepare, use_monotonic_clock
from garcon.testing.bench.driving import LARGEST, Socket, loaded, measure, windowed


async def _link(socket: Any, echoes: int) -> dict[str, float]:
    """Measure what only the link has."""
    found = await measure(socket, echoes)
    found |= await loaded(socket, echoes)
    once = [await windowed(socket.give, LARGEST, 1, 1) for _ in range(3)]
    found["16 MiB once ms"] = sorted(once)[1] * 1e3
    await socket.replay()
    found["replay ms"] = sorted([await socket.replay() for _ in range(3)])[1] * 1e3
    return found


def _prepare(reactor: Any, kind: str) -> None:
    """The link runs as it does in a service; a plain socket is left as it is."""
    if kind == "link":
        prepare(reactor)
    else:
        use_monotonic_clock(reactor)


def drive(kind: str, port: int, echoes: int) -> int:
    """Measure one round and print it."""
    from twisted.internet import reactor

    _prepare(reactor, kind)
    found: dict[str, float] = {}
    failures: list[str] = []

    async def run() -> None:
        socket: Socket
        if kind == "link":
            from garcon.testing.bench.link_ends import LinkSocket

            socket = LinkSocket()
        else:
            from garcon.testing.bench.plain_ends import PlainSocket

            socket = PlainSocket()
        await socket.connect(reactor, port)
        found.update(await (_link if kind == "link" else measure)(socket, echoes))

    def begin() -> None:
        d: Deferred[None] = Deferred.fromCoroutine(run())
        d.addErrback(lambda f: failures.append(f.getTraceback()))
        d.addBoth(lambda _: reactor.stop())

    reactor.callWhenRunning(begin)
    reactor.callLater(120, failures.append, "the round took too long")
    reactor.callLater(120, reactor.stop)
    reactor.run()
    if failures:
        print("\n".join(failures), file=sys.stderr)
        return 1
    print(json.dumps(found))
    return 0


def serve(kind: str, port: int) -> int:
    """Serve until ended."""
    from twisted.internet import reactor

    _prepare(reactor, kind)
    if kind == "link":
        from garcon.testing.bench.link_ends import listen
    else:
        from garcon.testing.bench.plain_ends import listen
    listen(reactor, port)
    print("Listening", flush=True)
    reactor.run()
    return 0


def main(arguments: list[str]) -> int:
    """Be one of the processes."""
    parser = argparse.ArgumentParser(prog="garcon.testing.bench.ends", description=__doc__)
    parser.add_argument("role", choices=("serve", "drive"))
    parser.add_argument("kind", choices=("link", "plain"))
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--echoes", type=int, default=1500)
    options = parser.parse_args(arguments)
    _settle(options.role)
    if options.role == "serve":
        return serve(options.kind, options.port)
    return drive(options.kind, options.port, options.echoes)


def _settle(role: str) -> None:
    """Keep the two ends of a socket on processors of their own, where there are two."""
    processors = sorted(os.sched_getaffinity(0))
    if len(processors) > 1:
        os.sched_setaffinity(0, {processors[0 if role == "serve" else 1]})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
