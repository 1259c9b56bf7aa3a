"""The table: every agent in every scenario, on Local and on a worker.

    python -m garcon.testing.conformance [--agent ID]... [--scenario NAME]... [--place PLACE]...
        [--brief] [--jobs N]

Ends with 1 where a cell says fail, or where an agent cannot be installed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from garcon.testing.conformance.casts import CASTS, Cast
from garcon.testing.conformance.scenarios import SCENARIOS
from garcon.testing.conformance.stage import PLACES, NotOffered, Place, Stage
from garcon.testing.npm_agents import NotInstalled

PASS, NOT_OFFERED, FAIL = "pass", "not offered", "FAIL"
WHOLE = frozenset(
    (
        *("scripted", "claude", "codex", "direct-openai-compatible"),
        *("direct-openai-responses-compatible", "direct-anthropic-compatible"),
    )
)
"""What `--brief` plays all scenarios of; of the others it plays the first, on one machine."""


def cell(stage: Stage, name: str) -> tuple[str, str]:
    """Play one scenario, and return what stands in its cell, and why."""
    if name in stage.cast.not_offered:
        return NOT_OFFERED, stage.cast.not_offered[name]
    try:
        stage.fresh()
        SCENARIOS[name](stage)
    except NotOffered as why:
        return NOT_OFFERED, str(why)
    except Exception as error:
        return FAIL, f"{type(error).__name__}: {error}"
    return PASS, ""


def column(cast: Cast, place: Place, names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Play the scenarios of one agent in one place."""
    stage = Stage(cast, place)
    cells: dict[str, tuple[str, str]] = {}
    try:
        stage.open()
        for name in names:
            began = time.monotonic()
            cells[name] = cell(stage, name)
            stage.rest()
            took = time.monotonic() - began
            word, why = cells[name]
            print(f"{cast.agent_id} on {place}: {name}: {word} ({took:.1f} s) {why}", flush=True)
    except NotInstalled as error:
        cells = dict.fromkeys(names, (FAIL, f"not installed: {error}"))
    except Exception as error:
        # Its services did not start, or did not rest: what was not played has failed.
        print(f"{cast.agent_id} on {place}: {error}", flush=True)
        cells = dict.fromkeys(names, (FAIL, f"{type(error).__name__}: {error}")) | cells
    finally:
        stage.close()
    return cells


def table(found: dict[tuple[str, str], dict[str, tuple[str, str]]], names: Sequence[str]) -> str:
    """Return the table as text: scenarios down, agents across.  One word is of all places; where
    they differ, each has its own, in the order in which they were played; none where nothing was.
    """
    agents = list(dict.fromkeys(agent_id for agent_id, _ in found))

    def words(agent_id: str, name: str) -> str:
        mine = [cells for (one, _), cells in found.items() if one == agent_id]
        said = [cells[name][0] for cells in mine if name in cells]
        return said[0] if len(set(said)) == 1 else " / ".join(said)

    heads = ["scenario", *agents]
    lines = [[name, *(words(agent_id, name) for agent_id in agents)] for name in names]
    widths = [max(len(line[at]) for line in [heads, *lines]) for at in range(len(heads))]
    texts = [
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in [heads, ["-" * width for width in widths], *lines]
    ]
    return "\n".join(texts)


def main(argv: Sequence[str]) -> int:
    """Play what was asked for, and print the table."""
    parser = argparse.ArgumentParser(prog="garcon.testing.conformance")
    casts = {cast.agent_id: cast for cast in CASTS}
    parser.add_argument("--agent", action="append", choices=casts)
    parser.add_argument("--scenario", action="append", choices=SCENARIOS)
    parser.add_argument("--place", action="append", choices=PLACES)
    parser.add_argument("--brief", action="store_true", help="of some agents one scenario only")
    parser.add_argument("--jobs", type=int, default=1, help="how many columns at once")
    given = parser.parse_args(argv)
    names = [name for name in SCENARIOS if name in (given.scenario or SCENARIOS)]
    places = given.place or PLACES
    wanted = [
        (agent, place)
        for agent in given.agent or casts
        for place in (places[-1:] if given.brief and agent not in WHOLE else places)
    ]

    def play(one: tuple[str, Place]) -> dict[str, tuple[str, str]]:
        is_brief = given.brief and one[0] not in WHOLE
        return column(casts[one[0]], one[1], names[:1] if is_brief else names)

    with ThreadPoolExecutor(given.jobs) as pool:
        columns = pool.map(play, wanted)
        found = dict(zip(wanted, columns, strict=True))
    print(table(found, names))
    cells = [word for column_cells in found.values() for word, _ in column_cells.values()]
    print(", ".join(f"{cells.count(word)} {word}" for word in (PASS, NOT_OFFERED, FAIL)))
    return 1 if FAIL in cells else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
