"""Where faults strike in a stream of bytes."""

from __future__ import annotations

from random import Random

from twisted.trial.unittest import SynchronousTestCase

from garcon.link.framing import framed
from garcon.testing.faults.strikes import (
    KINDS,
    Direction,
    Messages,
    Pass,
    Strike,
    directions,
    struck,
)

HEAD = b"GET / HTTP/1.1\r\nUpgrade: websocket\r\n\r\n"
# 70,000 bytes need the longest form of a frame's length, which records never have.
LONG = b"\x82\xff" + (70_000).to_bytes(8, "big") + bytes(4 + 70_000)
FRAMES = [framed(b"x", True), framed(b"x" * 200, False), LONG]
STREAM = HEAD + b"".join(FRAMES)


class Positions(SynchronousTestCase):
    """A strike comes exactly at its position, however the bytes come."""

    def passed(self, direction: Direction, size: int) -> tuple[bytes, int]:
        """Feed the stream in pieces; return what passed before the first strike, and the sum."""
        before, total, has_struck = b"", 0, False
        for at in range(0, len(STREAM), size):
            for todo in direction.take(STREAM[at : at + size]):
                if isinstance(todo, Strike):
                    has_struck = True
                else:
                    total += len(todo.data)
                    before += b"" if has_struck else todo.data
        return before, total

    def test_bytes(self) -> None:
        """At a number of bytes."""
        for size in (1, 7, 1000, len(STREAM)):
            direction = Direction([Strike("cut", True, 50)])
            self.assertEqual(self.passed(direction, size), (STREAM[:50], len(STREAM)))

    def test_messages(self) -> None:
        """At the end of a number of messages, the head being the first; with 0 before anything."""
        ends = [0, len(HEAD)]
        for frame in FRAMES:
            ends.append(ends[-1] + len(frame))
        for position, end in enumerate(ends):
            for size in (1, 3, 1000, len(STREAM)):
                direction = Direction([Strike("cut", True, position, "messages")])
                self.assertEqual(
                    self.passed(direction, size), (STREAM[:end], len(STREAM)), (position, size)
                )

    def test_one_after_the_other(self) -> None:
        """Strikes of both kinds come in their order, and nothing is lost between them."""
        strikes = [
            Strike("delay", True, 10),
            Strike("throttle", True, 2, "messages"),
            Strike("cut", True, len(HEAD) + len(FRAMES[0]) + 5),
        ]
        todo = Direction(list(strikes)).take(STREAM)
        self.assertEqual([one for one in todo if isinstance(one, Strike)], strikes)
        parts = [one.data for one in todo if isinstance(one, Pass)]
        self.assertEqual(b"".join(parts), STREAM)
        self.assertEqual(
            [len(part) for part in parts[:3]], [10, len(HEAD) + len(FRAMES[0]) - 10, 5]
        )

    def test_a_later_strike_counts_from_now(self) -> None:
        """What is added on the way is so many bytes off."""
        direction = Direction([])
        direction.take(STREAM[:100])
        direction.add(Strike("cut", True, 10))
        self.assertEqual(
            direction.take(STREAM[100:150]),
            [Pass(STREAM[100:110]), Strike("cut", True, 110), Pass(STREAM[110:150])],
        )

    def test_counting(self) -> None:
        """Messages are counted as they end."""
        messages = Messages()
        self.assertEqual(messages.take(STREAM, 10), len(STREAM))
        self.assertEqual(messages.passed, 4)

    def test_both_directions(self) -> None:
        """Each direction has its own."""
        one, other = Strike("cut", True, 1), Strike("delay", False, 2)
        self.assertEqual(
            [direction.strikes for direction in directions([one, other])], [[one], [other]]
        )

    def test_chance(self) -> None:
        """A seed makes the same strikes again, and in a few seeds there is every kind."""
        self.assertEqual(struck(Random(3)), struck(Random(3)))
        kinds = {strike.kind for seed in range(60) for strike in struck(Random(seed))}
        self.assertEqual(kinds, set(KINDS))
