"""Choose a matrix and play it."""

from __future__ import annotations

import argparse
import sys

from garcon.testing.bench.report import table
from garcon.testing.bench.tunnel import say
from garcon.testing.fleet import Fleet
from garcon.testing.matrix.play import Result, play
from garcon.testing.matrix.stage import Stage


def bridge(*, quick: bool = False) -> int:
    """Compare both doors to the bridge's operations; 0 when nothing differs that may not."""
    with Fleet() as fleet:
        say("starting a controller, a worker and a pretend model server")
        results = play(Stage(fleet), quick=quick, say=say)
    return shown(results)


def shown(results: list[Result]) -> int:
    """Print the table and what differs; return the exit status."""
    header = ["operation", "direct", "gateway", "command"]
    print(table(header, [[one.key, *one.columns.values()] for one in results]))
    print("\nWhat differs and may:")
    for reason in sorted(set().union(*(one.reasons for one in results))):
        print(f"    {reason}")
    differences = [each for one in results for each in one.differences]
    for each in differences:
        print(f"\n{each.operation}, {each.case}\n    {each.text}")
    print(f"\n{len(results)} operations, 2 doors, {len(differences)} differences")
    return 1 if differences else 0


def main(arguments: list[str]) -> int:
    """Play the matrix that is named."""
    parser = argparse.ArgumentParser(prog="python -m garcon.testing.matrix", description=__doc__)
    parser.add_argument("matrix", choices=("bridge",))
    parser.add_argument(
        "--quick", action="store_true", help="one command for each operation, and nothing large"
    )
    return bridge(quick=parser.parse_args(arguments).quick)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
