"""Numbered producer frames (control.md J.10)."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from garcon.controller.executors.streams import Arrival, Stream


class StreamTests(SynchronousTestCase):
    """New, seen, or after a gap."""

    def test_in_order_from_one(self) -> None:
        """Each next number is new and raises what may be acknowledged."""
        stream = Stream()
        self.assertEqual([stream.take(n) for n in (1, 2, 3)], [Arrival.NEXT] * 3)
        self.assertEqual(stream.taken, 3)

    def test_duplicates(self) -> None:
        """Numbers already seen are ignored, however old."""
        stream = Stream()
        stream.take(1)
        stream.take(2)
        self.assertEqual([stream.take(n) for n in (2, 1)], [Arrival.DUPLICATE] * 2)
        self.assertEqual(stream.take(3), Arrival.NEXT)

    def test_a_skipped_number_is_a_gap(self) -> None:
        """Also at the very beginning; the stream goes on behind it."""
        stream = Stream()
        self.assertEqual(stream.take(2), Arrival.AFTER_GAP)
        self.assertEqual(stream.take(3), Arrival.NEXT)
        self.assertEqual(stream.take(5), Arrival.AFTER_GAP)
        self.assertEqual(stream.take(4), Arrival.DUPLICATE)
