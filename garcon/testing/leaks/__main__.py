"""Starts, stops and kills of every agent, again and again, on Local and on a worker:

    python -m garcon.testing.leaks [--rounds N] [--agent ID]... [--place PLACE]... [--jobs N]

The rounds are shared out evenly, in whole sets of each agent's kinds.  A line for each round says
how long its parts took.  Ends with 1 where something is not as it was.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from math import ceil
from statistics import median

from garcon.testing.conformance.casts import CASTS, EXAMPLE, Cast
from garcon.testing.conformance.stage import PLACES, Place, Stage
from garcon.testing.leaks.rounds import Played, Rounds, kinds_of
from garcon.testing.npm_agents import NotInstalled


def column(cast: Cast, place: Place, rounds: int) -> tuple[int, list[str]]:
    """Play one agent in one place; return how many rounds there were, and what is wrong."""
    name = f"{cast.agent_id} on {place}"

    def tell(played: Played) -> None:
        for line in (str(played), *(f"WRONG: {text}" for text in played.wrong)):
            print(f"{name}: {line}", flush=True)

    stage = Stage(cast, place)
    try:
        try:
            stage.open()
        except (NotInstalled, AssertionError) as error:
            return 0, [f"{name}: cannot be played: {error}"]
        playing = Rounds(stage, tell)
        wrong = playing.play(rounds)
        for line in (*playing.figures(), *slowness(playing.played)):
            print(f"{name}: {line}", flush=True)
        return len(playing.played), [f"{name}: {text}" for text in wrong]
    finally:
        stage.close()


def slowness(rounds: Sequence[Played]) -> list[str]:
    """Say what rounds of each kind took, and which part of the slowest one."""
    lines = []
    for kind in dict.fromkeys(played.kind for played in rounds):
        those = [played for played in rounds if played.kind == kind]
        usual, slowest = median(one.total for one in those), max(those, key=lambda one: one.total)
        lines.append(f"{len(those)} rounds, median {usual:.1f} s, slowest {slowest}")
    return lines


def main(argv: Sequence[str]) -> int:
    """Play, tell, and return 0 when everything is as it was."""
    parser = argparse.ArgumentParser(prog="python -m garcon.testing.leaks")
    casts = {cast.agent_id: cast for cast in (*CASTS, EXAMPLE)}
    parser.add_argument("--rounds", type=int, default=200, help="of all agents together")
    parser.add_argument("--agent", action="append", choices=casts)
    parser.add_argument("--place", action="append", choices=PLACES)
    parser.add_argument("--jobs", type=int, default=1, help="how many agents and places at once")
    given = parser.parse_args(argv)
    places = given.place or PLACES
    wanted = [(casts[agent], place) for agent in given.agent or casts for place in places]

    def play(one: tuple[Cast, Place]) -> tuple[int, list[str]]:
        kinds, share = len(kinds_of(one[0])), ceil(given.rounds / len(wanted))
        return column(*one, ceil(share / kinds) * kinds)

    with ThreadPoolExecutor(given.jobs) as pool:
        found = list(pool.map(play, wanted))
    wrong = [text for _, texts in found for text in texts]
    for line in (*wrong, f"{sum(rounds for rounds, _ in found)} rounds, {len(wrong)} wrong"):
        print(line, flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
