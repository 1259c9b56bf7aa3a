"""Server-sent events as values: wherever the network cuts them."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise

from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from garcon.errors import LimitExceeded
from garcon.runtime.agents.direct_events import EventStream, ServerEvent
from garcon.test.properties import given, settings

STREAM = (
    "\ufeffevent: first\r\ndata: grüße 🙂\r\n\r\n"
    ": a comment\n\n"
    "data:one\ndata: two\nid: 7\nretry: 10\nunknown: x\n\n"
    "event: empty\n\n"
    "data\rdata:  spaced\r\r"
    "data: [DONE]\n\n"
).encode()
EVENTS = [
    ServerEvent("first", "grüße 🙂".encode()),
    ServerEvent("", b"one\ntwo"),
    ServerEvent("", b"\n spaced"),
    ServerEvent("", b"[DONE]"),
]


def read(*pieces: bytes, limit: int = 1000) -> list[ServerEvent]:
    """What a stream that comes in these pieces holds."""
    stream = EventStream(limit)
    return [event for piece in pieces for event in stream.feed(piece)]


class EventStreamTests(SynchronousTestCase):
    """Line ends of three kinds, comments, several lines of data, and pieces of any size."""

    def test_a_stream_in_one_piece(self) -> None:
        """Comments and unknown fields vanish, an event without data is none."""
        self.assertEqual(read(STREAM), EVENTS)

    def test_a_stream_split_at_every_byte(self) -> None:
        """Also inside a character and between the two bytes of a line end."""
        self.assertEqual(read(*(bytes([byte]) for byte in STREAM)), EVENTS)
        for place in range(len(STREAM) + 1):
            self.assertEqual(read(STREAM[:place], b"", STREAM[place:]), EVENTS, place)

    @settings(max_examples=200)
    @given(st.lists(st.integers(0, len(STREAM)), max_size=8))
    def test_a_stream_split_anywhere(self, places: list[int]) -> None:
        """Where it is cut makes no difference."""
        cuts = [0, *sorted(places), len(STREAM)]
        pieces = [STREAM[a:b] for a, b in pairwise(cuts)]
        self.assertEqual(read(*pieces), EVENTS)

    def test_the_last_line_end_may_lack(self) -> None:
        """What a server that ends well forgot is made up for; what it did not say is not."""
        for tail in (b"data: x\n", b"data: x"):
            stream = EventStream(100)
            self.assertEqual(stream.feed(tail), [])
            self.assertEqual(stream.end(), [ServerEvent("", b"x")])
        self.assertEqual(EventStream(100).end(), [])

    def test_an_event_of_the_largest_size(self) -> None:
        """N bytes are an event, in however many lines and pieces; one more is too many."""
        exact = [b"data: " + b"x" * 50, b"\r\n", b"data: " + b"y" * 38, b"\n", b"\n"]
        self.assertEqual(read(*exact, limit=100), [ServerEvent("", b"x" * 50 + b"\n" + b"y" * 38)])
        with self.assertRaises(LimitExceeded):
            read(*exact, limit=99)

    def test_a_line_that_never_ends_is_given_up_at_the_limit(self) -> None:
        """Nobody waits for its end."""
        stream = EventStream(100)
        stream.feed(b"x" * 100)
        with self.assertRaises(LimitExceeded):
            stream.feed(b"x")

    def test_an_event_in_very_many_lines_takes_no_more_than_its_size(self) -> None:
        """Of two bytes each, or none."""
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        for line, size in ((b"data:xy\n", 300_000), (b"data\n", 100_000)):
            stream = EventStream(2_000_000)
            before = tracemalloc.get_traced_memory()[0]
            for _ in range(100):
                stream.feed(line * 1_000)
            self.assertLess(tracemalloc.get_traced_memory()[0] - before, 2 * size)
            self.assertEqual(len(stream.feed(b"\n")[0].data), size - 1)

    def test_the_size_is_that_of_one_event(self) -> None:
        """However many there are, and however many comments keep the connection alive."""
        self.assertEqual(
            len(read(b"data: " + b"x" * 90 + b"\n\n", *[STREAM] * 100, limit=100)), 401
        )
        self.assertEqual(read(*[b": still here\n"] * 1000, b"data: x\n\n", limit=20)[0].data, b"x")

    def test_a_long_line_in_many_pieces_is_joined_once(self) -> None:
        """A hundred thousand pieces of one line cost as much as their bytes."""
        pieces = [b"data: ", *[b"0123456789"] * 100_000, b"\n\n"]
        self.assertEqual(len(read(*pieces, limit=2_000_000)[0].data), 1_000_000)
