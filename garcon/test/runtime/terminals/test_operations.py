"""Inputs and sizes that wait, in one order (server.md C.5)."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.limits import TERMINAL_INPUT, TERMINAL_OPERATIONS, TERMINAL_OPERATIONS_BYTES
from garcon.contract.terminals import BACKPRESSURE, TerminalSize
from garcon.errors import GarconError
from garcon.runtime.terminals.operations import Operations


def size(number: int) -> TerminalSize:
    return TerminalSize(cols=number, rows=number)


class Waiting(SynchronousTestCase):
    """One terminal's queue."""

    def setUp(self) -> None:
        self.queue = Operations()

    def rest(self) -> list[bytes | TerminalSize | None]:
        """Take everything out."""
        found = []
        while (operation := self.queue.next()) is not None:
            found.append(operation.size if operation.data is None else operation.data)
        return found

    def refused(self, data: bytes = b"x") -> None:
        error = self.assertRaises(GarconError, self.queue.type, 1, data, None)
        self.assertEqual((error.code, error.status), (BACKPRESSURE, 429))

    def test_a_thousand_and_twenty_four(self) -> None:
        """So many may wait, of both kinds together; one more is refused whole."""
        for number in range(TERMINAL_OPERATIONS - 1):
            self.queue.type(1, b"%d" % number, None)
        self.queue.resize(1, size(5), None)
        self.assertEqual(len(self.queue), TERMINAL_OPERATIONS)
        self.refused()
        self.assertEqual(len(self.queue), TERMINAL_OPERATIONS)
        self.queue.next()
        self.queue.type(1, b"again", None)
        self.refused()

    def test_a_size_that_is_merged_needs_no_place(self) -> None:
        """Though there is none."""
        for _ in range(TERMINAL_OPERATIONS - 1):
            self.queue.type(1, b"x", None)
        self.queue.resize(1, size(1), None)
        self.queue.resize(1, size(2), None)
        self.assertEqual(self.rest()[-1], size(2))

    def test_bytes(self) -> None:
        """A ten-megabyte paste fits in; beyond sixteen mebibytes not one byte does."""
        count = TERMINAL_OPERATIONS_BYTES // TERMINAL_INPUT
        for _ in range(count):
            self.queue.type(1, b"x" * TERMINAL_INPUT, None)
        self.assertEqual(self.queue.weight, TERMINAL_OPERATIONS_BYTES)
        self.refused()
        self.queue.next()
        self.refused(b"x" * (TERMINAL_INPUT + 1))
        self.queue.type(1, b"x" * TERMINAL_INPUT, None)
        self.assertEqual(len(self.rest()), count)
        self.assertEqual(self.queue.weight, 0)

    def test_input_stops_merging(self) -> None:
        """Sizes become one only while no input lies between them."""
        self.queue.resize(1, size(1), "a")
        self.queue.resize(1, size(2), "b")
        self.queue.type(1, b"x", "c")
        self.queue.resize(1, size(3), "d")
        self.queue.resize(1, size(4), "e")
        first = self.queue.next()
        assert first is not None
        self.assertEqual((first.size, first.tickets), (size(2), ["a", "b"]))
        self.assertEqual(self.rest(), [b"x", size(4)])

    def test_another_ownership_stops_merging(self) -> None:
        """What one owner wished does not become another's wish."""
        self.queue.resize(1, size(1), None)
        self.queue.resize(2, size(2), None)
        self.assertEqual(self.rest(), [size(1), size(2)])

    def test_some_are_dropped(self) -> None:
        """The others stay in their order, and the bytes are free again."""
        for number in range(6):
            self.queue.type(number % 2, b"%d" % number, number)
        dropped = self.queue.drop(lambda operation: operation.generation == 0)
        self.assertEqual([operation.tickets for operation in dropped], [[0], [2], [4]])
        self.assertEqual((self.queue.weight, self.rest()), (3, [b"1", b"3", b"5"]))
