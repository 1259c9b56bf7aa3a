"""Handing over what an agent remembers, in pieces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from twisted.internet import reactor as _reactor
from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.trial.unittest import SynchronousTestCase, TestCase

from garcon.contract.limits import RUN_EVENT
from garcon.contract.messages import AssistantMessage, Image, UserMessage
from garcon.contract.runs import NativeRow
from garcon.errors import GarconError
from garcon.runtime.agents.native_history import (
    PIECE_BYTES,
    PIECE_ROWS,
    Piece,
    hand_over,
    in_pieces,
)

reactor: Any = _reactor

AT = "2026-01-02T03:04:05.678Z"


def row(text: str = "x") -> NativeRow:
    """Return a row."""
    return AssistantMessage(timestamp=AT, content=text)


class PieceTests(SynchronousTestCase):
    """How rows are put together."""

    def sizes(self, rows: Sequence[NativeRow]) -> list[int]:
        """How many rows each piece has."""
        return [len(piece) for piece in in_pieces(rows)]

    def test_by_number(self) -> None:
        """As many as a piece holds, and one more."""
        self.assertEqual(self.sizes([row()] * PIECE_ROWS), [PIECE_ROWS])
        self.assertEqual(self.sizes([row()] * (PIECE_ROWS + 1)), [PIECE_ROWS, 1])
        self.assertEqual(self.sizes([]), [])

    def test_by_size(self) -> None:
        """A row that passes the bound is the last of its piece."""
        large = row("x" * PIECE_BYTES)
        self.assertEqual(self.sizes([row(), large, row(), large]), [2, 2])

    def test_a_row_that_is_too_large_is_cut(self) -> None:
        """So that a message can hold its piece; pictures go first."""
        picture = Image(data="data:image/png;base64," + "A" * RUN_EVENT)
        whole = UserMessage(timestamp=AT, content="look", images=[picture])
        pieces = list(in_pieces([whole, row("é" * RUN_EVENT)]))
        for piece in pieces:
            self.assertLessEqual(len(msgspec.json.encode(piece)), RUN_EVENT)
        shown = pieces[0][0]
        assert isinstance(shown, UserMessage)
        self.assertEqual((shown.content, shown.images), ("look", msgspec.UNSET))


class HandingTests(TestCase):
    """From a thread to whoever takes it."""

    timeout = 20

    def setUp(self) -> None:
        self.taken: list[Piece] = []

    def take(self, rows: Sequence[NativeRow]) -> Deferred[None]:
        """Take a piece."""
        self.taken.append(list(rows))
        return succeed(None)

    async def test_in_order(self) -> None:
        """Each piece when the one before was taken."""
        pieces = [[row("a")], [row("b")]]
        await hand_over(reactor, lambda: iter(pieces), self.take)
        self.assertEqual(self.taken, pieces)

    async def test_what_cannot_be_read(self) -> None:
        """May be read later."""

        def failing() -> Iterator[Piece]:
            yield [row("a")]
            raise PermissionError(13, "Permission denied")

        with self.assertRaises(GarconError) as caught:
            await hand_over(reactor, failing, self.take)
        error = caught.exception
        self.assertEqual((error.code, error.retryable), ("HISTORY_LOAD_FAILED", True))
        self.assertIn("Permission denied", error.text)
        self.assertEqual(self.taken, [[row("a")]])

    async def test_cancelled(self) -> None:
        """No further piece is read, and the file is closed."""
        closed: Deferred[None] = Deferred()
        read: list[int] = []

        def pieces() -> Iterator[Piece]:
            try:
                for number in range(3):
                    read.append(number)
                    yield [row(str(number))]
            finally:
                reactor.callFromThread(closed.callback, None)

        waiting: Deferred[None] = Deferred()
        began: Deferred[None] = Deferred()

        def hold(rows: Sequence[NativeRow]) -> Deferred[None]:
            reactor.callLater(0, began.callback, None)
            return waiting

        d = hand_over(reactor, pieces, hold)
        await began
        d.cancel()
        with self.assertRaises(CancelledError):
            await d
        await closed
        self.assertEqual(read, [0])
