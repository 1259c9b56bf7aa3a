"""Choose a bench and run it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from garcon.testing.bench import agents, bridge, chats, command, link, terminals

BENCHES: dict[str, Callable[..., int]] = {
    "agents": agents.run,
    "bridge": bridge.run,
    "chats": chats.run,
    "cli": command.run,
    "link": link.run,
    "terminals": terminals.run,
}


def main(arguments: list[str]) -> int:
    """Run the bench that is named."""
    parser = argparse.ArgumentParser(prog="python -m garcon.testing.bench", description=__doc__)
    parser.add_argument("bench", choices=tuple(BENCHES))
    parser.add_argument("--json", metavar="FILE", help="also write the rows here")
    parser.add_argument("--rounds", type=int, metavar="N", help="measure so often")
    options = parser.parse_args(arguments)
    run = BENCHES[options.bench]
    return run(options.json, options.rounds) if options.rounds else run(options.json)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
