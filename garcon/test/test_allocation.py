"""That large blocks are kept, where the C library can do so, and when the collector works."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path
from unittest import SkipTest

from twisted.trial.unittest import SynchronousTestCase

import garcon
from garcon.allocation import keep_freed_memory, keep_what_is_there, uncollected

_FAULTS = """
import resource, sys
from garcon.allocation import keep_freed_memory
if sys.argv[1] == "kept":
    keep_freed_memory({})
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(4):
    b"x" * 16_000_000
before = faults()
for size in range(16_000_000, 16_800_000, 100_000):
    b"x" * size
print(faults() - before)
"""


class AllocationTests(SynchronousTestCase):
    """In processes of their own: what one is told cannot be taken back."""

    def faults(self, how: str) -> int:
        done = subprocess.run(
            [sys.executable, "-c", _FAULTS, how],
            env={"PYTHONPATH": str(Path(garcon.__file__).parents[1])},
            capture_output=True,
            text=True,
            check=True,
        )
        return int(done.stdout)

    def test_blocks_of_a_message_are_used_again(self) -> None:
        """Their pages are not asked for anew each time."""
        if not keep_freed_memory({}):
            raise SkipTest("this C library cannot be told")
        self.assertGreater(self.faults("as it is"), 8 * 3_000)
        self.assertLess(self.faults("kept"), 3_000)

    def test_the_operators_word_stands(self) -> None:
        """What the environment tells the C library is not told otherwise."""
        for name in ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES"):
            self.assertFalse(keep_freed_memory({name: "131072"}))


class CollectorTests(SynchronousTestCase):
    """The interpreter's collector of cycles."""

    def test_it_rests_while_much_is_made(self) -> None:
        """And works again afterwards, whatever came of it; one that was off stays off."""
        with uncollected():
            self.assertFalse(gc.isenabled())
        self.assertTrue(gc.isenabled())
        with self.assertRaises(ZeroDivisionError), uncollected():
            raise ZeroDivisionError
        self.assertTrue(gc.isenabled())
        gc.disable()
        try:
            with uncollected():
                self.assertFalse(gc.isenabled())
            self.assertFalse(gc.isenabled())
        finally:
            gc.enable()

    def test_it_is_spared_what_is_there(self) -> None:
        """What was made before is not looked at any more."""
        before = gc.get_freeze_count()
        self.addCleanup(gc.unfreeze)
        kept = [[number] for number in range(1_000)]
        keep_what_is_there()
        self.assertGreaterEqual(gc.get_freeze_count() - before, len(kept))
