"""Run trial over the project and close with the totals in one plain line.

`python -m garcon.testing.run_tests [TRIAL ARGUMENTS]` runs every test, in five processes, as those
with real services wait most of their time.  The last line is ``N passed, N failed, N skipped``; the
exit status is 0 only when something ran, nothing failed, and, with ``GARCON_REQUIRE_AGENTS`` set
(as the CI script does), nothing was skipped that `MAY_SKIP` does not name.
``GARCON_TEST_SUMMARY`` names a file that receives the last line too.  A run that is ended from
outside or by its time says how far it came, and counts as one with a failure.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from types import FrameType

TIME_LIMIT = 27 * 60
MAY_SKIP: tuple[str, ...] = (
    "no file system can be mounted here",
    "this C library cannot be told",
)
"""Patterns of reasons for which a test may be skipped although every agent must be there."""

_BEGUN = re.compile(r"^Running (\d+) tests")
_CLOSING = re.compile(r"^(?:PASSED|FAILED)(?: \((?P<counts>.*)\))?$")
_COUNT = re.compile(r"(\w+)=(\d+)")
_RULE = re.compile(r"^[-=]{70,}$")


@dataclass
class Totals:
    """What trial said, read from its lines as they pass by."""

    counts: dict[str, int] = field(default_factory=dict)
    skips: list[tuple[str, list[str]]] = field(default_factory=list)
    planned: int = 0
    good: int = 0
    """Passed until now; the closing line counts anew."""
    _block: list[str] | None = None

    def line(self, text: str) -> None:
        """Take the next line of trial's report."""
        if text.endswith("[OK]"):
            self.good += 1
        elif begun := _BEGUN.match(text):
            self.planned = int(begun[1])
        closing = _CLOSING.match(text)
        if closing:
            counts = _COUNT.findall(closing["counts"] or "")
            self.counts = {name: int(number) for name, number in counts}
        if text == "[SKIPPED]":
            self._block = []
        elif self._block is not None:
            if _RULE.match(text):
                self._end_block()
            else:
                self._block.append(text)

    def _end_block(self) -> None:
        """A block is the reason's lines, an empty line, and the names of the tests."""
        block, self._block = self._block or [], None
        at = len(block) - 1 - block[::-1].index("") if "" in block else len(block)
        self.skips.append((" ".join(block[:at]), block[at + 1 :]))

    @property
    def passed(self) -> int:
        return self.counts.get("successes", 0) if self.counts else self.good

    @property
    def failed(self) -> int:
        names = ("failures", "errors", "unexpectedSuccesses")
        return sum(self.counts.get(name, 0) for name in names)

    @property
    def skipped(self) -> int:
        return self.counts.get("skips", 0) + self.counts.get("expectedFailures", 0)

    def unexpected_skips(self, patterns: Iterable[str]) -> list[tuple[str, list[str]]]:
        """Return the skips whose reason no pattern names."""
        allowed = [re.compile(pattern) for pattern in patterns]
        return [skip for skip in self.skips if not any(p.search(skip[0]) for p in allowed)]

    def sum_up(self) -> None:
        """Leave the last line for whoever wants it in a file."""
        if "GARCON_TEST_SUMMARY" in os.environ:
            with open(os.environ["GARCON_TEST_SUMMARY"], "w", encoding="utf-8") as summary:
                summary.write(f"{self}\n")

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def run(arguments: list[str], temporary: str) -> tuple[int, Totals]:
    """Run trial as a child, in at most `TIME_LIMIT`; return its status and what it counted."""
    began, totals = time.monotonic(), Totals()
    argv = [sys.executable, "-m", "twisted.trial", "-j5", "--temp-directory", temporary]
    child = subprocess.Popen(
        [*argv, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="backslashreplace",
    )

    def stop(number: int, frame: FrameType | None) -> None:
        if totals.counts:
            child.kill()
            return
        # Said at once, as whoever ends this may not wait for trial, and not with print, which may
        # be at work just now.
        took, done = time.monotonic() - began, f"{totals.good} of {totals.planned}"
        os.write(1, f"\nended after {took:.0f} s, when {done} tests had passed\n".encode())
        totals.counts = {"successes": totals.good, "errors": 1}
        totals.sum_up()
        child.terminate()
        signal.alarm(3)

    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGALRM):
        signal.signal(number, stop)
    signal.alarm(TIME_LIMIT)
    try:
        assert child.stdout is not None
        for line in child.stdout:
            totals.line(line.rstrip("\n"))
            sys.stdout.write(line)
            sys.stdout.flush()
        status = child.wait()
    finally:
        signal.alarm(0)
        if child.poll() is None:
            child.kill()
            child.wait()
    return status, totals


def main(arguments: list[str]) -> int:
    """Run, report, and say by the status whether all is well."""
    folder = tempfile.mkdtemp(prefix="garcon-trial-")
    status, totals = run(arguments or ["garcon"], os.path.join(folder, "trial"))
    bad = totals.unexpected_skips(MAY_SKIP) if os.environ.get("GARCON_REQUIRE_AGENTS") else []
    for reason, names in bad:
        print(f"may not be skipped here ({reason}): {', '.join(names)}")
    good = status == 0 and not bad and totals.failed == 0 and totals.passed > 0
    if good:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        if status != 0 and totals.failed == 0:
            totals.counts["errors"] = 1
            print(f"trial ended with status {status}")
        print(f"what the tests left is in {folder}")
    totals.sum_up()
    print(totals, flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
