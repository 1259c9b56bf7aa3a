"""What the benches make of their samples."""

from __future__ import annotations

import json
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.limits import BRIDGE_BULK_REPLY, MIB
from garcon.testing.bench.bridge import filling
from garcon.testing.bench.report import Aim, Bound, Samples, number, percentile, report, table


class SamplesTests(SynchronousTestCase):
    """Medians and ratios over interleaved rounds."""

    def setUp(self) -> None:
        self.samples = Samples()
        for mine, theirs in ((1.0, 2.0), (9.0, 10.0), (3.0, 12.0)):
            self.samples.add("ours", "ms", mine)
            self.samples.add("peer", "ms", theirs)
        self.aim = Aim("bench.ms", "ours", "peer", "ms", "ms", 0.5)

    def test_a_ratio_is_the_median_of_the_rounds(self) -> None:
        """Values of one round are compared with each other, so that drift cancels."""
        self.assertEqual(self.samples.ratio("ours", "peer", "ms"), 0.5)
        self.assertEqual(self.samples.median("ours", "ms"), 3.0)

    def test_an_aim_is_met_at_its_value(self) -> None:
        """A ratio of exactly the aim meets it; anything above does not."""
        self.assertEqual(self.aim.row(self.samples)["met"], True)
        stricter = Aim("bench.ms", "ours", "peer", "ms", "ms", 0.49)
        self.assertEqual(stricter.row(self.samples)["met"], False)

    def test_some_ratios_should_be_large(self) -> None:
        """Throughput meets its aim at the value or above it."""
        aim = Aim("bench.ms", "ours", "peer", "ms", "ms", 0.5, least=True)
        self.assertEqual((aim.row(self.samples)["met"], aim.wanted), (True, "at least 0.500"))
        higher = Aim("bench.ms", "ours", "peer", "ms", "ms", 0.51, least=True)
        self.assertEqual(higher.row(self.samples)["met"], False)

    def test_a_bound_needs_no_peer(self) -> None:
        """The value itself is judged, and the row has the same keys."""
        row = Bound("bench.ms", "ours", "ms", "ms", 3.0).row(self.samples)
        self.assertEqual(set(row), set(self.aim.row(self.samples)))
        self.assertEqual((row["value"], row["peer"], row["met"]), (3.0, None, True))
        self.assertEqual(Bound("bench.ms", "ours", "ms", "ms", 2.9).row(self.samples)["met"], False)
        missing = Bound("bench.ms", "nobody", "ms", "ms", 3.0).row(self.samples)
        self.assertEqual((missing["value"], missing["met"]), (None, None))

    def test_a_list_has_a_line_for_each_value(self) -> None:
        """Median, lowest and highest round."""
        lines = self.samples.listed().splitlines()
        self.assertEqual(lines[2].split(), ["ours:", "ms", "3.00", "1.00", "9.00"])
        self.assertEqual(len(lines), 4)

    def test_without_its_peer_an_aim_is_not_judged(self) -> None:
        """A missing peer is neither a pass nor a failure."""
        row = Aim("bench.ms", "ours", "nobody", "ms", "ms", 0.5).row(self.samples)
        self.assertEqual((row["peerValue"], row["ratio"], row["met"]), (None, None, None))

    def test_the_file_has_the_agreed_keys(self) -> None:
        """Programs read the rows by these names."""
        file = Path(self.mktemp())
        report("bench", self.samples, [self.aim], str(file))
        written = json.loads(file.read_text())
        self.assertEqual(set(written), {"bench", "rows"})
        self.assertEqual(
            set(written["rows"][0]),
            {"metric", "value", "unit", "peer", "peerValue", "ratio", "aim", "met", "rounds"},
        )
        self.assertEqual(written["rows"][0]["rounds"], 3)


class FormTests(SynchronousTestCase):
    """Numbers and tables for people."""

    def test_percentiles_are_of_the_nearest_rank(self) -> None:
        """The hundredth value of a hundred and one is their ninety-ninth percentile."""
        values = [float(value) for value in range(101)]
        self.assertEqual(percentile(values, 0.99), 99.0)
        self.assertEqual(percentile(values, 0.5), 50.0)
        self.assertEqual(percentile([7.0], 0.99), 7.0)

    def test_numbers_have_three_digits(self) -> None:
        """Large ones have separators, missing ones a dash."""
        self.assertEqual(number(12345.6), "12,346")
        self.assertEqual([number(12.34), number(1.234), number(0.1234)], ["12.3", "1.23", "0.123"])
        self.assertEqual(number(None), "-")

    def test_columns_are_aligned(self) -> None:
        """The first column is text, the others are numbers."""
        self.assertEqual(
            table(["", "ms"], [["a", "1"], ["long", "22"]]),
            "      ms\n----  --\na      1\nlong  22",
        )

    def test_a_filling_makes_half_of_its_page(self) -> None:
        """A prompt and its answer together stay below the size that was asked for."""
        for size in (MIB, BRIDGE_BULK_REPLY):
            prompt = filling(size)
            self.assertLess(2 * len(prompt), size)
            self.assertGreater(2 * len(prompt), size - 2 * 64 * 1024)
            self.assertTrue(all(line.startswith("say x") for line in prompt.splitlines()))
