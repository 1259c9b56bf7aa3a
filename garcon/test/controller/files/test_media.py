"""Media types by name, and turns."""

from __future__ import annotations

from twisted.internet.defer import CancelledError
from twisted.trial.unittest import SynchronousTestCase

from garcon.controller.files.media import content_type
from garcon.controller.files.turns import Turns
from garcon.errors import GarconError


class TypeTests(SynchronousTestCase):
    """What a file is said to be."""

    def test_by_extension(self) -> None:
        """In any case; text is UTF-8; what is unknown is bytes."""
        for name, expected in (
            ("a.png", "image/png"),
            ("A.PNG", "image/png"),
            ("a.svg", "image/svg+xml"),
            ("a.html", "text/html; charset=utf-8"),
            ("a.txt", "text/plain; charset=utf-8"),
            ("README.md", "text/markdown; charset=utf-8"),
            ("a.js", "text/javascript; charset=utf-8"),
            ("a.json", "application/json"),
            ("a.pdf", "application/pdf"),
            ("a.mp4", "video/mp4"),
            ("a.mkv", "video/x-matroska"),
            ("a.webp", "image/webp"),
            ("a.tar.gz", "application/gzip"),
            ("a.tgz", "application/gzip"),
            ("a.nobody-knows", "application/octet-stream"),
            ("Makefile", "application/octet-stream"),
            ("/dir.png/Makefile", "application/octet-stream"),
            (".png", "image/png"),
        ):
            self.assertEqual(content_type(name), expected, name)


class TurnTests(SynchronousTestCase):
    """So many at once, so many waiting."""

    def test_in_order(self) -> None:
        """Each gives its turn to whoever waits longest."""
        turns = Turns(2, 2)
        for _ in range(2):
            self.successResultOf(turns.begin())
        waiting = [turns.begin(), turns.begin()]
        self.failureResultOf(turns.begin(), GarconError)
        waiting[0].cancel()
        self.failureResultOf(waiting[0], CancelledError)
        last = turns.begin()
        turns.end()
        self.successResultOf(waiting[1])
        self.assertNoResult(last)
        turns.end()
        self.successResultOf(last)
        self.assertFalse(turns.is_idle)
        turns.end()
        turns.end()
        self.assertTrue(turns.is_idle)
