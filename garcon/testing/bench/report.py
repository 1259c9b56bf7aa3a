"""Samples of an interleaved run, and the two forms they are shown in: a table and JSON rows.

Every target is measured once in each round, and a ratio is taken between values of the same round,
so that the drift of a busy machine cancels; what is shown is the median over the rounds.
"""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attrs import define, field, frozen

_WIDEST = 140


def percentile(values: Sequence[float], fraction: float) -> float:
    """Return the nearest-rank percentile of values that are not none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, round(fraction * (len(ordered) - 1))))]


def number(value: float | None) -> str:
    """Return three significant digits, without an exponent."""
    if value is None:
        return "-"
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2 if abs(value) >= 1 else 3
    return f"{value:,.{digits}f}"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return aligned columns: the first to the left, numbers to the right."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]

    def line(row: Sequence[str]) -> str:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        return "  ".join(cells).rstrip()

    return "\n".join([line(header), "  ".join("-" * width for width in widths), *map(line, rows)])


@define
class Samples:
    """One value for each target, metric and round."""

    _values: dict[tuple[str, str], list[float]] = field(factory=lambda: defaultdict(list))
    _targets: dict[str, None] = field(factory=dict)
    _metrics: dict[str, None] = field(factory=dict)

    def add(self, target: str, metric: str, value: float) -> None:
        """Take the value of the round that runs now."""
        self._targets.setdefault(target)
        self._metrics.setdefault(metric)
        self._values[target, metric].append(value)

    def median(self, target: str, metric: str) -> float | None:
        """Return the median over the rounds, None when it was not measured."""
        values = self._values.get((target, metric))
        return statistics.median(values) if values else None

    def ratio(self, target: str, peer: str, metric: str) -> float | None:
        """Return the median of the rounds' ratios, None when either was not measured."""
        mine, theirs = self._values.get((target, metric)), self._values.get((peer, metric))
        if not mine or not theirs:
            return None
        return statistics.median(a / b for a, b in zip(mine, theirs, strict=True))

    def rounds(self, target: str, metric: str) -> int:
        """Return how many rounds measured it."""
        return len(self._values.get((target, metric), ()))

    def shown(self) -> str:
        """Return the table: the median, and the lowest and highest round."""
        rows = []
        for target in self._targets:
            row = [target]
            for metric in self._metrics:
                values = self._values.get((target, metric))
                row.append(
                    f"{number(statistics.median(values))} "
                    f"({number(min(values))}-{number(max(values))})"
                    if values
                    else "-"
                )
            rows.append(row)
        return table(["", *self._metrics], rows)

    def listed(self) -> str:
        """Return the same with a line for each value, for targets that have few metrics in
        common.
        """
        rows = [
            [f"{target}: {metric}", *map(number, (statistics.median(v), min(v), max(v)))]
            for (target, metric), v in self._values.items()
        ]
        return table(["", "median", "lowest", "highest"], rows)


@frozen
class Aim:
    """A metric that has a name, and a ratio to its peer that it should not exceed; or, with
    `least`, not fall short of.
    """

    name: str
    target: str
    peer: str
    metric: str
    unit: str
    aim: float
    least: bool = False

    @property
    def wanted(self) -> str:
        """What the ratio should be."""
        return f"{'at least' if self.least else 'at most'} {number(self.aim)}"

    def _met(self, ratio: float) -> bool:
        return ratio >= self.aim if self.least else ratio <= self.aim

    def row(self, samples: Samples) -> dict[str, Any]:
        """Return the JSON row; without the peer there is no ratio and the aim is neither."""
        ratio = samples.ratio(self.target, self.peer, self.metric)
        return {
            "metric": self.name,
            "value": samples.median(self.target, self.metric),
            "unit": self.unit,
            "peer": self.peer,
            "peerValue": samples.median(self.peer, self.metric),
            "ratio": ratio,
            "aim": self.aim,
            "met": None if ratio is None else self._met(ratio),
            "rounds": samples.rounds(self.target, self.metric),
        }


@frozen
class Bound:
    """A metric that has a name, and a value that it should not exceed, whatever others need; or,
    with `least`, not fall short of.
    """

    name: str
    target: str
    metric: str
    unit: str
    aim: float
    least: bool = False

    @property
    def wanted(self) -> str:
        """What the value should be."""
        return f"{'at least' if self.least else 'at most'} {number(self.aim)} {self.unit}"

    def _met(self, value: float) -> bool:
        return value >= self.aim if self.least else value <= self.aim

    def row(self, samples: Samples) -> dict[str, Any]:
        """Return the JSON row, with the keys of an aim that has a peer."""
        value = samples.median(self.target, self.metric)
        return {
            "metric": self.name,
            "value": value,
            "unit": self.unit,
            "peer": None,
            "peerValue": None,
            "ratio": None,
            "aim": self.aim,
            "met": None if value is None else self._met(value),
            "rounds": samples.rounds(self.target, self.metric),
        }


def report(bench: str, samples: Samples, aims: Sequence[Aim | Bound], file: str | None) -> None:
    """Print the table and the aims; write the JSON when a file is named."""
    rows = [aim.row(samples) for aim in aims]
    shown = samples.shown()
    if len(shown.partition("\n")[0]) > _WIDEST:
        shown = samples.listed()
    print(f"\n{shown}\n")
    words = {True: "met", False: "NOT MET", None: "not measured"}
    print(
        table(
            ["aim", "value", "peer", "ratio", "wanted", "verdict"],
            [
                [
                    row["metric"] + (f" (to {row['peer']})" if row["peer"] else ""),
                    f"{number(row['value'])} {row['unit']}",
                    f"{number(row['peerValue'])} {row['unit']}" if row["peer"] else "-",
                    number(row["ratio"]),
                    aim.wanted,
                    words[row["met"]],
                ]
                for aim, row in zip(aims, rows, strict=True)
            ],
        )
    )
    if file:
        Path(file).write_text(json.dumps({"bench": bench, "rows": rows}, indent=2) + "\n")
