"""Play some rounds."""

from __future__ import annotations

import argparse
import sys
import time

from garcon.testing.crashes.rounds import play


def main(arguments: list[str]) -> int:
    """Play them; 0 when nothing was wrong."""
    parser = argparse.ArgumentParser(prog="python -m garcon.testing.crashes", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20, metavar="N", help="so many (20)")
    parser.add_argument("--seed", type=int, metavar="N", help="what happens when (the time)")
    options = parser.parse_args(arguments)
    seed = time.time_ns() if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    return 1 if play(options.rounds, seed) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
