"""How an answer is sent: compressed, weakened, in part (the tables of server.md F.8)."""

from __future__ import annotations

import gzip
import json
import sys
import zlib

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

from garcon.controller.handlers import Reply
from garcon.errors import GarconError
from garcon.test.controller.http.cast import PATH, DoorCase


class CompressionTests(DoorCase):
    """Answers of 1024 bytes and more, as the client likes them (chats.md 1.1, server.md F.8)."""

    def setUp(self) -> None:
        super().setUp()
        self.reply = Reply({"text": "x" * 2_000})

    def coding(self, accept: str, **headers: str) -> str | None:
        """Return the coding of an answer."""
        response = self.ask("GET", f"{PATH}/executors", {"Accept-Encoding": accept, **headers})
        return response.headers.get("content-encoding")

    def test_the_choice(self) -> None:
        """By quality, ties in our order; br is never chosen."""
        for accept, coding in (
            ("gzip", "gzip"),
            ("deflate", "deflate"),
            ("br", None),
            ("identity", None),
            ("deflate, gzip", "gzip"),
            ("gzip;q=0.5, deflate", "deflate"),
            ("gzip;q=0, deflate;q=0", None),
            ("*", "gzip"),
            ("*;q=0.5, gzip;q=0", "zstd"),
            ("zstd, br", "zstd"),
            ("deflate, zstd", "zstd"),
            ("deflate, zstd, gzip", "gzip"),
            ("gzip;q=0.9, zstd;q=0.8, deflate", "deflate"),
            ("zstd;q=0, *", "gzip"),
            ("*;q=0", None),
            ("*;q=0, deflate;q=0.1", "deflate"),
            ("GZIP ; Q=1", "gzip"),
            ("gzip;q=x", None),
        ):
            self.assertEqual(self.coding(accept), coding, accept)

    def test_what_is_sent_decodes(self) -> None:
        """With the right length, and a word to caches."""
        for coding, decode in (
            ("gzip", gzip.decompress),
            ("zstd", zstd.decompress),
            ("deflate", zlib.decompress),
        ):
            response = self.ask("GET", f"{PATH}/executors", {"Accept-Encoding": coding})
            self.assertEqual(json.loads(decode(response.body)), {"text": "x" * 2_000})
            self.assertEqual(response.headers["content-length"], str(len(response.body)))
            self.assertEqual(response.headers["vary"], "Accept-Encoding")

    def test_large_answers_are_coded_elsewhere(self) -> None:
        """The same, over a thread."""
        self.reply = Reply({"text": "x" * 200_000})
        self.assertEqual(self.coding("gzip"), "gzip")

    def test_small_answers_are_left_alone(self) -> None:
        """1023 bytes are, 1024 are not."""
        self.reply = Reply("x" * 1_021)
        self.assertIsNone(self.coding("gzip"))
        self.reply = Reply("x" * 1_022)
        self.assertEqual(self.coding("gzip"), "gzip")

    def test_a_tag_becomes_weak(self) -> None:
        """The bytes are others; a weak one stays, and what is unchanged is told by either."""
        for tag in ('"abc"', 'W/"abc"'):
            self.reply = Reply({"text": "x" * 2_000}, headers={"ETag": tag, "Vary": "Accept"})
            response = self.ask("GET", f"{PATH}/executors", {"Accept-Encoding": "gzip"})
            self.assertEqual(response.headers["etag"], 'W/"abc"')
            self.assertEqual(response.headers["vary"], "Accept, Accept-Encoding")
            plain = self.ask("GET", f"{PATH}/executors")
            self.assertEqual(plain.headers["etag"], tag)
            unchanged = self.ask("GET", f"{PATH}/executors", {"If-None-Match": 'W/"abc"'})
            self.assertEqual((unchanged.status, unchanged.body), (304, b""))
            self.assertEqual(unchanged.headers["vary"], "Accept, Accept-Encoding")

    def test_types_that_do_not_compress(self) -> None:
        """By their media type, parameters aside; a drawing is text."""
        for kind, compresses in (
            ("application/json", True),
            ("text/html; charset=utf-8", True),
            ("image/svg+xml", True),
            ("", True),
            ("image/png", False),
            ("IMAGE/JPEG", False),
            ("audio/mpeg", False),
            ("video/mp4; codecs=x", False),
            ("font/woff2", False),
            ("application/octet-stream", False),
            ("application/pdf", False),
            ("application/wasm", False),
            ("application/zip", False),
            ("application/gzip", False),
            ("application/x-bzip2", False),
            ("application/x-7z-compressed", False),
            ("application/vnd.rar", False),
            ("text/event-stream", False),
        ):
            self.reply = Reply("x" * 2_000, headers={"Content-Type": kind})
            expected = "gzip" if compresses else None
            self.assertEqual(self.coding("gzip"), expected, kind)

    def test_who_cannot_decode_is_told_what_it_depends_on(self) -> None:
        """Eligible but unmatched answers still vary."""
        response = self.ask("GET", f"{PATH}/executors")
        self.assertEqual(response.headers["vary"], "Accept-Encoding")

    def test_what_is_skipped(self) -> None:
        """HEAD, ranges, and answers that forbid it or are coded already."""
        self.assertIsNone(self.coding("gzip", Range="bytes=0-1"))
        for headers in ({"Cache-Control": "private, No-Transform"}, {"Content-Encoding": "br"}):
            self.reply = Reply({"text": "x" * 2_000}, headers=headers)
            self.assertEqual(self.coding("gzip"), headers.get("Content-Encoding"))
        self.reply = Reply({"text": "x" * 2_000})
        head = self.ask("HEAD", f"{PATH}/executors", {"Accept-Encoding": "gzip"})
        self.assertNotIn("content-encoding", head.headers)
        self.reply = Reply({"text": "x" * 2_000}, headers={"Cache-Control": "no-transform"})
        self.assertIsNone(self.coding("gzip"))

    def test_a_strong_tag_becomes_weak(self) -> None:
        """Another coding is another representation."""
        self.reply = Reply({"text": "x" * 2_000}, headers={"ETag": '"a"'})
        response = self.ask("GET", f"{PATH}/executors", {"Accept-Encoding": "gzip"})
        self.assertEqual(response.headers["etag"], 'W/"a"')

    def test_what_the_client_has_already(self) -> None:
        """A known tag is 304 without a body, with the same headers."""
        headers = {"ETag": 'W/"a"', "Cache-Control": "private, no-cache"}
        self.reply = Reply({"text": "x" * 2_000}, headers=headers)
        for known, status in (
            ('W/"a"', 304),
            ('"b", "a"', 304),
            ("*", 304),
            ('W/"b"', 200),
            ("a", 200),
        ):
            response = self.ask("GET", f"{PATH}/executors", {"If-None-Match": known})
            self.assertEqual(response.status, status, known)
            self.assertEqual(response.headers["etag"], 'W/"a"')
        response = self.ask("GET", f"{PATH}/executors", {"If-None-Match": "*"})
        self.assertEqual(response.body, b"")
        self.assertEqual(response.headers["cache-control"], "private, no-cache")


class RangeTests(DoorCase):
    """A part of an operation's answer."""

    def test_a_part_of_json(self) -> None:
        """GET with one range of bytes on an answer whose length is known."""
        self.reply = Reply("x" * 8)
        response = self.ask("GET", f"{PATH}/executors", {"Range": "bytes=0-3"})
        self.assertEqual((response.status, response.body), (206, b'"xxx'))
        self.assertEqual(response.headers["content-range"], "bytes 0-3/10")

    def test_only_success_has_parts(self) -> None:
        """An error is sent whole."""
        self.reply = GarconError("BUSY", "later", status=503)
        response = self.ask("GET", f"{PATH}/executors", {"Range": "bytes=0-3"})
        self.assert_error(response, 503, "BUSY", False)

    def test_only_get_has_parts(self) -> None:
        """A command's answer is sent whole."""
        self.reply = Reply({})
        response = self.ask("PUT", f"{PATH}/app/settings", {"Range": "bytes=0-0"}, b"{}")
        self.assertEqual((response.status, response.body), (200, b"{}"))
