"""Instants as the contract spells them."""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random

from twisted.trial.unittest import SynchronousTestCase

from garcon.controller.transcripts.times import is_canonical, iso


class TimeTests(SynchronousTestCase):
    """From seconds, as a clock gives them."""

    def test_milliseconds_and_utc(self) -> None:
        """Cut, not rounded: an instant is never spelt before it has come."""
        for seconds, spelt in (
            (0, "1970-01-01T00:00:00.000Z"),
            (1_767_323_045.001, "2026-01-02T03:04:05.001Z"),
            (1_767_323_045.9999, "2026-01-02T03:04:05.999Z"),
            (1_767_323_046, "2026-01-02T03:04:06.000Z"),
        ):
            self.assertEqual(iso(seconds), spelt)
            self.assertTrue(is_canonical(spelt))

    def test_is_what_a_calendar_says(self) -> None:
        """At any instant of some centuries."""
        random = Random(1)
        for _ in range(2_000):
            seconds = random.uniform(0, 1e10)
            wanted = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
            self.assertEqual(iso(seconds), wanted.replace("+00:00", "Z"), seconds)

    def test_what_is_not_canonical(self) -> None:
        """Another zone, another precision, no such day."""
        for text in (
            "2026-01-02T03:04:05.678+00:00",
            "2026-01-02T03:04:05Z",
            "2026-01-02T03:04:05.6789Z",
            "2026-13-02T03:04:05.678Z",
            "2026-01-02",
            "2026-02-30T03:04:05.678Z",
            "2026-01-02 03:04:05.678Z",
            "",
        ):
            self.assertFalse(is_canonical(text), text)
