"""The end of a terminal's output, as it can be replayed (server.md C.5)."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.limits import KIB, TERMINAL_TAIL, TERMINAL_TAIL_CHUNKS
from garcon.runtime.terminals.scrollback import Scrollback


class Tail(SynchronousTestCase):
    """What is kept, and by which numbers."""

    def setUp(self) -> None:
        self.tail = Scrollback()

    def write(self, text: str, times: int = 1) -> None:
        for _ in range(times):
            self.tail.append(text, len(text))

    def test_before_the_first_chunk(self) -> None:
        """Nothing is kept, and the first number is still to come."""
        self.assertEqual((self.tail.latest, self.tail.first), (0, 1))
        self.assertEqual(self.tail.after(0), [])

    def test_a_mebibyte_is_kept_whole(self) -> None:
        """And one byte more costs the oldest chunk, whole."""
        self.write("x" * KIB, 1024)
        self.assertEqual((self.tail.first, self.tail.size), (1, TERMINAL_TAIL))
        self.write("y")
        self.assertEqual((self.tail.first, self.tail.latest), (2, 1025))
        self.assertEqual(self.tail.size, TERMINAL_TAIL - KIB + 1)

    def test_bytes_are_counted(self) -> None:
        """Not characters: 漢 is three."""
        self.write("漢" * KIB, 341)
        self.assertEqual((self.tail.first, self.tail.size), (1, 341 * 3 * KIB))
        self.write("漢" * KIB)
        self.assertEqual(self.tail.first, 2)

    def test_a_chunk_as_large_as_the_tail(self) -> None:
        """It is kept alone; one that is larger is not kept at all, and what follows it is first."""
        self.write("x")
        self.write("y" * TERMINAL_TAIL)
        self.assertEqual((self.tail.first, self.tail.latest), (2, 2))
        self.write("z" * (TERMINAL_TAIL + 1))
        self.assertEqual((self.tail.first, self.tail.latest, self.tail.size), (4, 3, 0))
        self.assertEqual(self.tail.after(0), [])
        self.write("a")
        self.assertEqual([chunk.sequence for chunk in self.tail.after(0)], [4])

    def test_after_a_number(self) -> None:
        """What is kept beyond it, oldest first."""
        for text in "abc":
            self.write(text)
        self.assertEqual([c.text for c in self.tail.after(1)], ["b", "c"])
        self.assertEqual(self.tail.after(3), [])

    def test_output_byte_by_byte(self) -> None:
        """So many chunks are kept, and not one more: each costs memory of its own."""
        self.write("x", TERMINAL_TAIL_CHUNKS)
        self.assertEqual(self.tail.first, 1)
        self.write("x")
        self.assertEqual(self.tail.first, 2)
        self.assertEqual(self.tail.size, TERMINAL_TAIL_CHUNKS)
