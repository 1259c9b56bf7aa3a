"""When to dial again, and which failures to tell of (pure; control.md J.3)."""

from __future__ import annotations

from collections import Counter


class Redial:
    """The delays between attempts of one lane."""

    def __init__(self, delays: tuple[float, ...], reset_after: float) -> None:
        self._delays = delays
        self._reset_after = reset_after
        self._attempts = 0

    def next_delay(self) -> float:
        """Return how long to wait before the attempt that comes now; the last delay repeats."""
        delay = self._delays[min(self._attempts, len(self._delays) - 1)]
        self._attempts += 1
        return delay

    def lived(self, seconds: float) -> None:
        """A session ended after `seconds`; one that lived long enough starts the delays anew."""
        if seconds >= self._reset_after:
            self._attempts = 0


class Failures:
    """What has failed: each kind is logged at counts 1, 2, 4, 8 …, and the owner hears at most
    once in `every`.
    """

    def __init__(self, every: float) -> None:
        self._every = every
        self._told: float | None = None
        self.counts: Counter[str] = Counter()

    def note(self, kind: str, now: float, *, tells: bool = True) -> tuple[bool, bool]:
        """Count a failure; return whether to log it and whether to tell the owner, who hears
        nothing of one that does not tell and waits no longer for the next.
        """
        self.counts[kind] += 1
        count = self.counts[kind]
        tell = tells and (self._told is None or now - self._told >= self._every)
        if tell:
            self._told = now
        return count & (count - 1) == 0, tell
