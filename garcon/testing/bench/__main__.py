"""Choose a bench and run it."""

from __future__ import annotations

import argparse
import sys

from garcon.testing.bench import bridge, command


def main(arguments: list[str]) -> int:
    """Run the bench that is named."""
    parser = argparse.ArgumentParser(prog="python -m garcon.testing.bench", description=__doc__)
    parser.add_argument("bench", choices=("bridge", "cli"))
    parser.add_argument("--json", metavar="FILE", help="also write the rows here")
    parser.add_argument("--rounds", type=int, metavar="N", help="measure so often")
    options = parser.parse_args(arguments)
    run = bridge.run if options.bench == "bridge" else command.run
    return run(options.json, options.rounds) if options.rounds else run(options.json)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
