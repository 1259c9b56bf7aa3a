"""Retention of producer frames."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from garcon.worker.serving.backlog import Backlog, Frame


class Numbering(SynchronousTestCase):
    """Frames are numbered per stream and kept in publication order."""

    def setUp(self) -> None:
        self.backlog = Backlog(budget=10)
        self.backlog.open("a")
        self.backlog.open("b")

    def sent(self) -> list[Frame]:
        """Take everything that waits."""
        frames = []
        while (frame := self.backlog.take()) is not None:
            frames.append(frame)
        return frames

    def test_each_stream_counts_from_one(self) -> None:
        """Numbers grow within a stream; the order across streams is that of publication."""
        for stream in ("a", "b", "a"):
            self.backlog.add(stream, b"x", must=False)
        self.assertEqual(
            [(frame.binding_id, frame.seq) for frame in self.sent()],
            [("a", 1), ("b", 1), ("a", 2)],
        )

    def test_kept_until_acknowledged(self) -> None:
        """Sending frees nothing, an acknowledgement frees everything up to its number."""
        for _ in range(3):
            self.backlog.add("a", b"xx", must=False)
        self.sent()
        self.assertEqual(self.backlog.size, 6)
        self.backlog.acknowledge("a", 2)
        self.assertEqual(self.backlog.size, 2)
        self.assertFalse(self.backlog.is_drained("a"))
        self.backlog.acknowledge("a", 3)
        self.assertTrue(self.backlog.is_drained("a"))

    def test_unsent_frames_cannot_be_acknowledged(self) -> None:
        """A number that was never sent frees nothing, also behind another stream's frame."""
        self.backlog.add("b", b"x", must=False)
        self.backlog.add("a", b"x", must=False)
        self.backlog.acknowledge("a", 1)
        self.backlog.acknowledge("b", 9)
        self.assertEqual(self.backlog.size, 2)

    def test_what_is_put_back_comes_next(self) -> None:
        """A frame that was not admitted is neither sent nor overtaken."""
        for stream in ("a", "b"):
            self.backlog.add(stream, b"x", must=False)
        frame = self.backlog.take()
        assert frame is not None
        self.backlog.put_back(frame)
        self.backlog.acknowledge("a", 1)
        self.assertEqual(self.backlog.size, 2)
        self.assertEqual([frame.binding_id for frame in self.sent()], ["a", "b"])

    def test_budget_at_n_and_n_plus_one(self) -> None:
        """A row fits up to the budget exactly; one byte more is refused, and refusing takes no
        number.
        """
        self.assertTrue(self.backlog.add("a", b"0123456789", must=False))
        self.assertFalse(self.backlog.add("a", b"x", must=False))
        self.assertTrue(self.backlog.add("a", b"fact", must=True))
        self.assertEqual([frame.seq for frame in self.sent()], [1, 2])

    def test_largest_at_n_and_n_plus_one(self) -> None:
        """What no message of the link can hold is refused, whatever it is."""
        backlog = Backlog(budget=100, largest=4)
        backlog.open("a")
        self.assertTrue(backlog.add("a", b"1234", must=True))
        self.assertFalse(backlog.add("a", b"12345", must=True))
        self.assertFalse(backlog.add("a", b"12345", must=False))

    def test_a_closed_stream_is_forgotten(self) -> None:
        """Closing frees the budget, drops what was not sent and takes nothing more."""
        self.backlog.add("a", b"0123456789", must=False)
        self.backlog.close("a")
        self.assertEqual(self.backlog.size, 0)
        self.assertIsNone(self.backlog.take())
        self.assertFalse(self.backlog.add("a", b"x", must=True))
        self.assertTrue(self.backlog.is_drained("a"))
